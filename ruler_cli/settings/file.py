"""`ruler.toml`, or the table `[tool.ruler]` of `pyproject.toml`: defaults of options, and named judges."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError, system_errors
from ruler_cli.settings.base import Settings, frozen
from ruler_cli.settings.keys import is_key_name
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.settings.suggestions import nearest, other_file, question

_JUDGES = "judges"
_NOT_IN_FILE = ("ask", "name")
"""Settings of a judge that have no place in a file."""
_RESERVED = ("offline", "simulated", "none")


@frozen
class ConfigFile(Settings):
    """A checked file: `name` stands for it in sentences.

    `tables` has the values of each command's table by their keys, `judges` those of each judge's.
    """

    name: str
    path: Path
    tables: Mapping[str, Mapping[str, Any]]
    judges: Mapping[str, Mapping[str, Any]]


def read_config(given: str | None, commands: tuple[str, ...]) -> ConfigFile | None:
    """Read the file that is given, else `ruler.toml` or `pyproject.toml` here; None if there is none.

    UsageError for a mistake in it. `commands` are those that may have a table.
    """
    if given == "none":
        return None
    names = ("ruler.toml", "pyproject.toml") if given is None else (given,)
    for path in map(Path, names):
        if given is None and not path.is_file():
            continue
        content = _content(path)
        if content is not None:
            judges = _judges(path, content.pop(_JUDGES, {}))
            tables = dict(_tables(path, content, commands))
            return ConfigFile(str(path), path.absolute(), tables, judges)
        if given is not None:
            raise UsageError("has no table [tool.ruler]", place=given)
    return None


def _content(path: Path) -> dict[str, Any] | None:
    """Return the tables of a file; None for a `pyproject.toml` without ours."""
    from pydantic_settings import BaseSettings, TomlConfigSettingsSource

    place = str(path)
    ours = ("tool", "ruler") if path.name == "pyproject.toml" else ()
    try:
        with system_errors("read", UsageError, place=place):
            if ours and b"ruler" not in path.read_bytes():
                return None  # most have no table of ours, and are another program's to read
            if not path.exists():
                remedy = other_file(place, "check the path")
                raise UsageError("no such file", remedy, place=place)
            source = TomlConfigSettingsSource(BaseSettings, path, ours)
    except KeyError:
        return None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is no TOML: {error}", place=place) from None
    return dict(source.toml_data)


def _tables(
    path: Path, content: Mapping[str, Any], commands: tuple[str, ...]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the table of each command; `[batch.submit]` is that of `batch submit`."""
    tables: list[tuple[str, Mapping[str, Any]]] = []
    groups = {command.partition(" ")[0] for command in commands if " " in command}
    for name, table in content.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{name} is outside a table; put it under [score]", place=str(path)
            )
        inner = table.items() if name in groups else ()
        found = [(f"{name} {key}", value) for key, value in inner] or [(name, table)]
        for command, values in found:
            if command not in commands or not isinstance(values, dict):
                near = nearest(command, (*commands, _JUDGES))
                header = near and f"[{near.replace(' ', '.')}]"
                problem = f"there is no table [{command.replace(' ', '.')}]"
                raise UsageError(problem + question(header), place=str(path))
            tables.append((command, values))
    return tables


def _judges(path: Path, tables: Any) -> dict[str, Mapping[str, Any]]:
    """Return the tables of judges; UsageError if one is no judge."""
    judges: dict[str, Mapping[str, Any]] = {}
    for name, table in tables.items() if isinstance(tables, dict) else [("", None)]:
        place = f"{path} [{_JUDGES}.{name}]"
        if not isinstance(table, dict):
            raise UsageError("write a table, [judges.NAME]", place=str(path))
        if name in _RESERVED or not name or name.startswith("-"):
            raise UsageError("a judge cannot have this name", place=place)
        values = {key.replace("-", "_"): value for key, value in table.items()}
        for key in values:
            if is_key_name(key):
                remedy = "name the variable that holds it: api_key_env"
                raise UsageError("a key must not stand in a file", remedy, place=place)
            if key in _NOT_IN_FILE:
                raise UsageError(f"{key}: only a program can set it", place=place)
        if "model" not in values:
            raise UsageError(
                "model is missing", 'e.g. model = "openai/o3"', place=place
            )
        try:
            JudgeSettings(name=name, **values)
        except UsageError as error:
            error.set(place=f"{place} {error.option}".strip(), option="")
            raise
        judges[name] = values
    return judges
