"""`ruler config [COMMAND]`: print the options and judges that hold, and where each comes from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import warn_of_variables
from ruler_cli.cli.messages import hide_keys, one_line, report_errors
from ruler_cli.cli.parse_options import read_options
from ruler_cli.cli.units import columns, shorten
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.runs.load_settings import (
    judges_of,
    name_sources,
    other_judges,
    score_settings,
)
from ruler_cli.settings.keys import (
    HIDDEN,
    is_variable_name,
    looks_like_key,
    refuse_no_variable,
    without_keys,
)
from ruler_cli.settings.models import LEDGER_VARIABLE, JudgeSettings, ledger_path
from ruler_cli.settings.options import (
    COMMANDS,
    Options,
    Origin,
    long_names,
    without_aliases,
)

_VALUE = 36
"""Characters of a value that are printed: three columns fit a terminal of 80."""
_SECRET = re.compile(
    r"key|token$|secret|auth|password|header|credential|cookie", re.IGNORECASE
)
"""Names of parameters whose values may be keys."""


def command(
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
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE|none",
            envvar="RULER_CONFIG",
            help="File in the place of ruler.toml.",
        ),
    ] = None,
) -> None:
    """Print the settings in effect, and where each comes from.

    The command line wins over a variable, a variable over ruler.toml, and that over the default. Of a key
    the name of its variable is printed, and if it is set.

    \b
    Example:
      ruler config
      ruler config check -m offline --passes 4

    Exit codes: 0 printed; 2 bad usage, or a mistake in ruler.toml.
    """
    with report_errors():
        warn_of_variables()
        given = words or []
        as_json = as_json or "--json" in given
        name, rest = _command([word for word in given if word != "--json"])
        file = [] if config is None else ["--config", config]
        options = read_options(name, [*file, *rest])
        with name_sources(options):
            options = without_aliases(options)
            facts = _facts(name, options)
        if as_json:
            typer.echo(hide_keys(json.dumps(facts, indent=2, default=str)))
        else:
            typer.echo("\n".join(one_line(hide_keys(line)) for line in _page(facts)))
        if facts["judges"]:
            score_settings(options, "-", "-")  # says what the command would refuse


def _command(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that the words begin with, `score` for none, and the words behind it."""
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name, list(words[length:])
    if words and not words[0].startswith("-"):
        from ruler_cli.settings.suggestions import nearest, question

        near = nearest(" ".join(words[:2]), COMMANDS) or nearest(words[0], COMMANDS)
        raise UsageError(
            f"config {words[0]}: is no command with options{question(near)}"
        )
    return "score", list(words)


def _facts(name: str, options: Options) -> dict[str, Any]:
    """Return what `--json` prints."""
    if options.api_key_env is not None:
        refuse_no_variable(options.api_key_env)
    shown = {
        long_names(field)[0].removeprefix("--"): {
            "value": public_value(field, value),
            "from": options.origins.get(field, Origin()).place,
        }
        for field in COMMANDS[name].split()
        if (value := _value(field, options)) not in (None, False)
    }
    judges = judges_of(options) if "model" in COMMANDS[name].split() else []
    others = other_judges(options, judges) if judges else []
    return {
        "version": 1,
        "command": name,
        "file": None if options.file is None else str(options.file.path),
        "name": None if options.file is None else options.file.name,
        "directory": str(Path.cwd()),
        "options": shown,
        "judges": [judge_facts(judge, options) for judge in judges],
        "others": [judge_facts(judge, options) for judge in others],
    }


def _value(field: str, options: Options) -> Any:
    """Return the value of an option, or what is used if it has none."""
    value = getattr(options, field)
    if field == "model" and not value:
        return [JudgeSettings().model]
    if field in ("ledger", "one_ledger") and not value:
        path = str(ledger_path(os.environ.get(LEDGER_VARIABLE)) or "none")
        return [path] if field == "ledger" else path
    return value


def public_value(field: str, value: Any) -> Any:
    """Return a value without what may be a key or a password."""
    if field == "api_key_env" and not is_variable_name(value):
        return HIDDEN
    if field == "param":
        return [_public_param(*pair.partition("=")[::2]) for pair in value]
    if field == "api_base":
        return Location(value).public
    if isinstance(value, list):
        return [without_keys(str(one)) for one in value]
    return without_keys(str(value)) if isinstance(value, str | Path) else value


def _public_param(name: str, value: str) -> str:
    hidden = (
        _SECRET.search(name)
        or value.lstrip()[:1] in ("{", "[")
        or looks_like_key(value.strip('"'))
    )
    return f"{name}={'…' if hidden else value}"


def judge_facts(judge: JudgeSettings, options: Options) -> dict[str, Any]:
    """Return the endpoint, the variable of the key and the limits of a judge."""
    from ruler_cli.judges.providers import EMBEDDED, provider_of, variables
    from ruler_cli.judges.resolve import DIRECT, address_of

    key = judge.api_key_env
    if key is None and judge.api_base is None and judge.model not in EMBEDDED:
        own = [DIRECT.get(judge.model.partition("/")[0], ("", ""))[0]]
        names = own if any(own) else variables(provider_of(judge.model, judge.params))
        key = next(
            (name for name in names if os.environ.get(name)), next(iter(names), None)
        )
    address = None if judge.model in EMBEDDED else address_of(judge)
    place = (
        None
        if options.file is None or not judge.name
        else options.file.place("judges", judge.name)
    )
    return {
        "name": judge.label,
        "model": judge.model,
        "api_base": None if address is None else Location(address).public,
        "api_key_env": key,
        "key_set": None if key is None else bool(os.environ.get(key)),
        "via": judge.via,
        "params": [
            _public_param(name, json.dumps(value))
            for name, value in judge.params.items()
        ],
        "price": judge.price,
        "rpm": judge.rpm,
        "tpm": judge.tpm,
        "concurrency": judge.concurrency,
        "max_outage": judge.max_outage,
        "timeout": judge.timeout,
        "from": place,
    }


def _page(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal."""
    if facts["file"] is None:
        yield f"no ruler.toml: there is none in {facts['directory']}, and no [tool.ruler] in a pyproject.toml"
    else:
        yield f"file: {facts['name']}"
    rows = [[f"{facts['command']}", "value", "from"]]
    for name, option in facts["options"].items():
        value = option["value"]
        text = (
            ", ".join(value)
            if isinstance(value, list)
            else "yes"
            if value is True
            else _text(value)
        )
        rows.append([name, shorten(one_line(text), _VALUE), option["from"]])
    yield ""
    yield from columns(rows)
    for judge in facts["judges"]:
        yield ""
        yield from _judge_lines(judge)
    for judge in facts["others"]:
        yield ""
        yield from _judge_lines(judge, ", not used")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else f"{value}"


def _judge_lines(judge: Mapping[str, Any], more: str = "") -> Iterator[str]:
    """Yield the lines on a judge; `more` is the end of the first."""
    place = f" ({judge['from']})" if judge["from"] else ""
    yield f"judge {judge['name']}{place}{more}"
    key = judge["api_key_env"]
    price = judge["price"]
    rows = {
        "model": judge["model"] if judge["model"] != judge["name"] else None,
        "endpoint": judge["api_base"],
        "key": None
        if key is None
        else f"in {key}, which is {'set' if judge['key_set'] else 'not set'}",
        "params": ", ".join(judge["params"]) or None,
        "price": None
        if price is None
        else f"${price[0]:g} and ${price[1]:g} per million tokens",
        **{name: judge[name] for name in ("rpm", "tpm", "concurrency", "max_outage")},
    }
    for name, value in rows.items():
        if value is not None:
            yield f"  {name:<12}{_text(value)}"
