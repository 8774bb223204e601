"""`ruler config [COMMAND]`: print the options and judges in effect, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import options_of, warn_of_variables
from ruler_cli.cli.messages import hide_keys, hide_keys_of, report_errors
from ruler_cli.cli.options import AsJson, Config
from ruler_cli.cli.safe_text import one_line, print_json
from ruler_cli.cli.units import columns, shorten
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.judges import judges_of, other_judges
from ruler_cli.settings.keys import without_secrets
from ruler_cli.settings.load import named_sources, score_settings
from ruler_cli.settings.models import JudgeSettings, ledger_path
from ruler_cli.settings.options import COMMANDS, FIELDS, NAMES, Options, Origin
from ruler_cli.settings.suggestions import nearest, question

_VALUE = 36
"""Characters of a value that are printed: three columns fit a terminal of 80."""
_LONG = {"model": "judge_model", "wait_timeout": "timeout"}
_JUDGE_FACTS = ("via", "price", "rpm", "tpm", "concurrency", "max_outage", "timeout")
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""The words are another command line, which its own command reads."""


def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND] [OPTION]...",
            help="A command line to explain; `score` by default.",
        ),
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Print the settings in effect, and where each comes from.

    The command line wins over a variable, a variable over ruler.toml, and that over the default. Of a key
    the name of its variable is printed, and whether it is set.

    \b
    Example:
      ruler config
      ruler config check -m offline --passes 4

    Exit codes: 0 printed; 2 bad usage, or a mistake in ruler.toml.
    """
    with report_errors():
        warn_of_variables()
        given = [word for word in words or () if word != "--json"]
        name = "score"
        rest = given
        for length in (1, 2):  # the longest beginning that is a command
            beginning = " ".join(given[:length])
            if beginning in COMMANDS:
                name = beginning
                rest = given[length:]
        if rest == given and given and not given[0].startswith("-"):
            near = question(nearest(given[0], COMMANDS))
            raise UsageError(f"no command with options: {given[0]}{near}")
        if config is not None:
            rest = ["--config", config, *rest]
        found = read_words(name, rest)
        options = options_of(found, name)
        with named_sources(options.origins):
            facts = _facts(name, found, options)
            if as_json or given != [*(words or ())]:
                print_json(hide_keys_of(facts))
            else:
                lines = map(hide_keys, _page(facts))
                typer.echo("\n".join(map(one_line, lines)))
            if facts["judges"]:
                score_settings(options)  # says what the command would refuse
    return 0


def read_words(name: str, words: Sequence[str]) -> Any:
    """Return what typer reads of a command line, with `-` for arguments that are left out."""
    from ruler_cli.cli import app

    found: Any = typer.main.get_command(app)
    for word in name.split():
        found = found.get_command(None, word)
    for missing in range(len(found.params)):
        try:
            return found.make_context(f"ruler {name}", [*words, *["-"] * missing])
        except Exception as error:
            if type(error).__name__ != "MissingParameter":  # typer does not export it
                raise
    return None


def _facts(command: str, ctx: Any, options: Options) -> dict[str, Any]:
    """Return what `--json` prints."""
    names = [param.name for param in ctx.command.params if param.name in FIELDS]
    shown = {}
    for name in names:
        value = public_value(name, options)
        if value not in (None, False, []):
            place = options.origins.get(name, Origin()).place
            shown[long_name(name)] = {"value": value, "from": place}
    judges = []
    others = []
    if "model" in names:
        judges = judges_of(options)
        others = other_judges(options, judges)
    file = options.file
    return {
        "version": 2,
        "command": command,
        "file": None if file is None else str(file.path),
        "name": None if file is None else file.name,
        "directory": str(Path.cwd()),
        "options": shown,
        "judges": [judge_facts(judge, options) for judge in judges],
        "others": [judge_facts(judge, options) for judge in others],
    }


def long_name(name: str) -> str:
    """Return the long name of an option, by its field."""
    return _LONG.get(name, NAMES.get(name, name)).replace("_", "-")


def public_value(name: str, options: Options) -> Any:
    """Return the value of an option, or what is used without it, but for what may be a key or a password."""
    value = getattr(options, name)
    if name == "model":
        value = value or [JudgeSettings().model]
    elif name == "ledger":
        value = options.ledgers or [str(ledger_path(""))]
    elif name == "param":
        value = _params(value)
    elif name == "price":
        value = [f"{prompt:g},{completion:g}" for prompt, completion in value]
    elif name == "api_base" and value:
        value = Location(value).public
    elif not isinstance(value, bool | int | float | tuple | None):
        origin = options.origins.get(name, Origin(given=value))
        value = str(origin.given)
    return without_secrets(value)


def _params(params: Mapping[str, Any]) -> list[str]:
    public = without_secrets(params)
    return [f"{name}={json.dumps(value)}" for name, value in public.items()]


def judge_facts(judge: JudgeSettings, options: Options) -> dict[str, Any]:
    """Return the endpoint, the variable of the key and the limits of a judge."""
    from ruler_cli.judges.providers import EMBEDDED, provider_of, variables
    from ruler_cli.judges.resolve import DIRECT, address_of

    key = judge.api_key_env
    embedded = judge.model in EMBEDDED
    if key is None and judge.api_base is None and not embedded:
        provider = judge.model.partition("/")[0]
        own, _ = DIRECT.get(provider, ("", ""))
        names = [own]
        if not own:
            names = variables(provider_of(judge.model, judge.params))
        # the first that is set, else the first
        key = next(iter(names), None)
        for name in reversed(names):
            if os.environ.get(name):
                key = name
    address = None if embedded else address_of(judge)
    file = options.file
    named = file is not None and judge.name in file.judges
    return {
        "name": judge.label,
        "model": judge.model,
        "api_base": None if address is None else Location(address).public,
        "api_key_env": key,
        "key_set": None if key is None else bool(os.environ.get(key)),
        "params": _params(judge.params),
        **{name: getattr(judge, name) for name in _JUDGE_FACTS},
        "from": f"{file.name} [judges.{judge.name}]" if file and named else None,
    }


def _page(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal."""
    if facts["file"] is None:
        yield f"no ruler.toml in {facts['directory']}, and no [tool.ruler] in a pyproject.toml"
    else:
        yield f"file: {facts['name']}"
    rows = [[facts["command"], "value", "from"]]
    for name, option in facts["options"].items():
        text = one_line(_text(option["value"]))
        value = shorten(text, _VALUE)
        rows.append([name, value, option["from"]])
    yield ""
    yield from columns(rows)
    for judge in [*facts["judges"], *facts["others"]]:
        yield ""
        place = f" ({judge['from']})" if judge["from"] else ""
        unused = ", not used" if judge in facts["others"] else ""
        yield f"judge {judge['name']}{place}{unused}"
        for name, value in judge.items():
            if name not in ("name", "from") and value not in (None, []):
                yield f"  {name:<12}{_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    return str(value)
