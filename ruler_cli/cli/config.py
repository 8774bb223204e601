"""`ruler config [COMMAND]`: print the options and judges in effect, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import command_name, running
from ruler_cli.cli.messages import hide_keys_of
from ruler_cli.cli.options import default_of, takes
from ruler_cli.cli.safe_text import one_line, print_json
from ruler_cli.cli.units import columns
from ruler_cli.files.location import Location
from ruler_cli.settings.fields import long_name, setting_of, texts
from ruler_cli.settings.judges import judges_of
from ruler_cli.settings.keys import hide_keys, without_secrets
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import JudgeSettings, ledger_path
from ruler_cli.settings.options import Options
from ruler_cli.settings.parameters import params_of

_JUDGE_FACTS = (
    "via",
    "price",
    "rpm",
    "tpm",
    "concurrency",
    "max_outage",
    "timeout",
)
SETTINGS = {"ignore_unknown_options": True}
"""The words are another command line, which its own command reads."""


@takes()
def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND] [OPTION]...",
            help="A command line to explain; `score` by default.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every setting, with its help.")
    ] = False,
) -> int:
    """Print the settings in effect, and where each comes from.

    The command line wins over a variable, a variable over ruler.toml, and that over the default. Keys are
    never printed, only the names of their variables and whether these are set.

    \b
    Example:
      ruler config
      ruler config --all
      ruler config check -m offline --passes 4

    Exit codes: 0 printed; 2 bad usage, or a mistake in ruler.toml.
    """
    explained = read_words(words or [])
    explained.params["config"] = ctx.params["config"]
    with running(explained) as options:
        facts = _facts(explained, options, every=every)
        if as_json:
            print_json(hide_keys_of(facts))
        else:
            for line in _page(facts):
                typer.echo(one_line(hide_keys(line)))
        if facts["judges"]:
            score_settings(options)  # says what the command would refuse
    return 0


def read_words(words: Sequence[str]) -> Any:
    """Return what typer reads of a command line, which may begin with options and lack arguments."""
    from ruler_cli.cli import app

    ctx: Any = typer.Context(typer.main.get_command(app), info_name="ruler")
    command_first = words and not words[0].startswith("-")
    rest = [*words] if command_first else ["score", *words]
    while hasattr(ctx.command, "commands") and rest:
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        ctx = typer.Context(command, parent=ctx, info_name=name)
    for param in ctx.command.params:
        param.required = False
    ctx.command.parse_args(ctx, rest)
    return ctx


def _facts(ctx: Any, options: Options, *, every: bool) -> dict[str, Any]:
    """Return what `--json` prints: the settings that have a value, or `every` one with its help."""
    names, settings = ctx.command.callback.takes
    shown = {}
    for name in (*names, *sorted(settings)):
        value = public_value(name, options)
        origin = options.origin(name)
        fact = {"value": value, "from": origin.place}
        if every:
            fact["help"] = setting_of(name).help
        if every or (
            value not in (None, False, []) and (name in names or origin.rank)
        ):
            shown[long_name(name)] = fact
    judges = judges_of(options) if "model" in names else []
    file = options.file
    return {
        "version": 2,
        "command": command_name(ctx),
        "file": file and file.name,
        "options": shown,
        "judges": [judge_facts(judge, options) for judge in judges],
        "named_judges": [*file.judges] if file else [],
    }


def public_value(name: str, options: Options) -> Any:
    """Return the value of an option, or what is used without it, but for what may be a key or a password."""
    value = getattr(options, name)
    if value is None:
        value = default_of(name)
    if name == "model":
        value = [*texts(value)]
    elif name == "ledger":
        value = value or [str(ledger_path(""))]
    elif name == "params":
        value = _params(params_of(value or {}))
    elif name == "price" and value:
        value = f"{value[0]:g},{value[1]:g}"
    elif name == "api_base" and value:
        value = Location(value).public
    elif not isinstance(value, int | float | tuple | list | None):
        value = str(options.origin(name).value or value)
    return without_secrets(value)


def _params(params: Mapping[str, Any]) -> list[str]:
    public = without_secrets(params)
    return [f"{name}={json.dumps(value)}" for name, value in public.items()]


def judge_facts(judge: JudgeSettings, options: Options) -> dict[str, Any]:
    """Return the endpoint, the variable of the key and the limits of a judge."""
    from ruler_cli.judges.resolve import address_of, is_embedded, key_variable

    address = None if is_embedded(judge) else address_of(judge)
    key = key_variable(judge)
    file = options.file
    return {
        "name": judge.label,
        "model": judge.model,
        "api_base": address and Location(address).public,
        "api_key_env": key,
        "key_set": key and bool(os.environ.get(key)),
        "params": _params(judge.params),
        **{name: getattr(judge, name) for name in _JUDGE_FACTS},
        "from": file and judge.name and f"{file.name} [judges.{judge.name}]",
    }


def _page(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal."""
    missing = "no ruler.toml here"
    yield f"file: {facts['file']}" if facts["file"] else missing
    rows = [[facts["command"], "value", "from", ""]]
    for name, option in facts["options"].items():
        value = one_line(_text(option["value"]))
        rows.append([name, value, option["from"], option.get("help", "")])
    yield ""
    yield from columns(rows)
    for judge in facts["judges"]:
        yield ""
        name, place = judge.pop("name"), judge.pop("from")
        yield f"judge {name}" + (f" ({place})" if place else "")
        shown = [(f"  {key}", _text(value)) for key, value in judge.items()]
        yield from columns([row for row in shown if row[1]])
    if facts["named_judges"]:
        yield ""
        yield f"judges of the file: {_text(facts['named_judges'])}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)
