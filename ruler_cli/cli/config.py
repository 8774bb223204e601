"""`ruler config [COMMAND]`: print the options and judges in effect, and where each comes from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import run_command
from ruler_cli.cli.messages import hide_keys, one_line
from ruler_cli.cli.options import AsJson, Config, JudgeModel
from ruler_cli.cli.units import columns, shorten
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.judges import judges_of, other_judges
from ruler_cli.settings.keys import HIDDEN, looks_like_key, without_keys
from ruler_cli.settings.load import read_options, score_settings
from ruler_cli.settings.models import JudgeSettings, ledger_path
from ruler_cli.settings.options import COMMANDS, FIELDS, NAMES, Options, Origin
from ruler_cli.settings.suggestions import nearest, question

_VALUE = 36
"""Characters of a value that are printed: three columns fit a terminal of 80."""
_SECRET = re.compile(
    r"key|token$|secret|auth|password|header|credential|cookie", re.IGNORECASE
)
"""Names of parameters whose values may be keys."""
_JUDGE_FACTS = ("via", "price", "rpm", "tpm", "concurrency", "max_outage", "timeout")


def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="A command; `score` by default."),
    ] = None,
    model: JudgeModel = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Print the settings in effect, and where each comes from.

    The command line wins over a variable, a variable over ruler.toml, and that over the default. Of a key
    the name of its variable is printed, and whether it is set.

    \b
    Example:
      ruler config
      ruler config batch submit -m strong

    Exit codes: 0 printed; 2 bad usage, or a mistake in ruler.toml.
    """
    return run_command(ctx, _run, " ".join(words or ["score"]))


def _run(own: Options, command: str) -> int:
    if command not in COMMANDS:
        near = question(nearest(command, COMMANDS))
        raise UsageError(f"no command with options: {command}{near}")
    names = option_fields(command)
    given = {
        name: origin.given
        for name, origin in own.origins.items()
        if origin.rank == 3 and name in names
    }
    given.pop("as_json", None)
    path = None if own.config is None else str(own.config)
    options = read_options(command, names, given, path)
    facts = _facts(command, names, options)
    if own.as_json:
        typer.echo(hide_keys(json.dumps(facts, indent=2, default=str)))
    else:
        typer.echo("\n".join(one_line(hide_keys(line)) for line in _page(facts)))
    if facts["judges"]:
        score_settings(options)  # says what the command would refuse
    return 0


def option_fields(command: str) -> list[str]:
    """Return the fields of a command's options, in the order of its help."""
    from typer.main import get_command

    from ruler_cli.cli import app

    found: Any = get_command(app)
    for word in command.split():
        found = found.commands[word]
    return [one.name for one in found.params if one.name in FIELDS]


def _facts(command: str, names: Sequence[str], options: Options) -> dict[str, Any]:
    """Return what `--json` prints."""
    shown = {}
    for name in names:
        value = public_value(name, _value(name, options))
        if value not in (None, False, (), [], {}):
            origin = options.origins.get(name, Origin())
            shown[NAMES.get(name, name)] = {"value": value, "from": origin.place}
    judges = judges_of(options) if "model" in names else []
    others = other_judges(options, judges) if judges else []
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


def _value(name: str, options: Options) -> Any:
    """Return the value of an option as it was given, else what is used without it."""
    if name in options.origins:
        return options.origins[name].given
    if name == "model":
        return [JudgeSettings().model]
    if name == "ledger":
        return str(ledger_path(""))
    return getattr(options, name)


def public_value(name: str, value: Any) -> Any:
    """Return a value without what may be a key or a password."""
    if name == "api_base" and value:
        return Location(value).public
    if name == "param" and isinstance(value, Mapping):
        return [_public_param(key, json.dumps(own)) for key, own in value.items()]
    if name == "param" and value:
        texts = value.split() if isinstance(value, str) else value
        return [_public_param(*text.partition("=")[::2]) for text in texts]
    if isinstance(value, list | tuple):
        return [without_keys(str(one)) for one in value]
    return without_keys(str(value)) if isinstance(value, str | Path) else value


def _public_param(name: str, value: str) -> str:
    nested = value.lstrip()[:1] in ("{", "[")
    hidden = _SECRET.search(name) or nested or looks_like_key(value.strip('"'))
    return f"{name}={HIDDEN if hidden else value}"


def judge_facts(judge: JudgeSettings, options: Options) -> dict[str, Any]:
    """Return the endpoint, the variable of the key and the limits of a judge."""
    from ruler_cli.judges.providers import EMBEDDED, provider_of, variables
    from ruler_cli.judges.resolve import DIRECT, address_of

    key, embedded = judge.api_key_env, judge.model in EMBEDDED
    if key is None and judge.api_base is None and not embedded:
        own = [DIRECT.get(judge.model.partition("/")[0], ("", ""))[0]]
        names = own if any(own) else variables(provider_of(judge.model, judge.params))
        is_set = (name for name in names if os.environ.get(name))
        key = next(is_set, next(iter(names), None))
    address = None if embedded else address_of(judge)
    named = options.file is not None and judge.name in options.file.judges
    place = (
        f"{options.file.name} [judges.{judge.name}]" if named and options.file else None
    )
    return {
        "name": judge.label,
        "model": judge.model,
        "api_base": None if address is None else Location(address).public,
        "api_key_env": key,
        "key_set": None if key is None else bool(os.environ.get(key)),
        "params": [
            _public_param(key, json.dumps(own)) for key, own in judge.params.items()
        ],
        **{name: getattr(judge, name) for name in _JUDGE_FACTS},
        "from": place,
    }


def _page(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal."""
    if facts["file"] is None:
        yield f"no ruler.toml in {facts['directory']}, and no [tool.ruler] in a pyproject.toml"
    else:
        yield f"file: {facts['name']}"
    rows = [[facts["command"], "value", "from"]]
    for name, option in facts["options"].items():
        value = option["value"]
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        rows.append([name, shorten(one_line(text), _VALUE), option["from"]])
    yield ""
    yield from columns(rows)
    for judge in facts["judges"]:
        yield from _judge_lines(judge)
    for judge in facts["others"]:
        yield from _judge_lines(judge, ", not used")


def _judge_lines(judge: Mapping[str, Any], more: str = "") -> Iterator[str]:
    """Yield the lines on a judge; `more` is the end of the first."""
    place = f" ({judge['from']})" if judge["from"] else ""
    yield ""
    yield f"judge {judge['name']}{place}{more}"
    key, price = judge["api_key_env"], judge["price"]
    rows = {
        "model": None if judge["model"] == judge["name"] else judge["model"],
        "endpoint": judge["api_base"],
        "key": key and f"in {key}, which is {'set' if judge['key_set'] else 'not set'}",
        "params": ", ".join(judge["params"]),
        "price": price and f"${price[0]:g} and ${price[1]:g} per million tokens",
        **{name: judge[name] for name in ("rpm", "tpm", "concurrency", "max_outage")},
    }
    for name, value in rows.items():
        if value:
            yield f"  {name:<12}{value}"
