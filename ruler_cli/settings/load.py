"""Command line, `RULER_*` and `ruler.toml` → options → the settings of a run."""

from __future__ import annotations

import glob
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.judges import judges_of
from ruler_cli.settings.models import (
    LEDGER_VARIABLE,
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
    expand_home,
    ledger_path,
    unknown_option,
)
from ruler_cli.settings.options import (
    ALIASES,
    COMMAND_LINE,
    COMMANDS,
    FIELDS,
    FILE,
    PER_RUN,
    VARIABLE,
    ConfigFile,
    Options,
    Origin,
    ScoreOptions,
)
from ruler_cli.settings.suggestions import nearest, other_file, question

P = ParamSpec("P")
T = TypeVar("T")
Layer = dict[str, Origin]
"""The values of one source, by the fields of their options."""
_PAIR = {"api_base", "api_key_env"}
"""Options that are of one table."""
_GROUPS = {command.partition(" ")[0] for command in COMMANDS if " " in command}
_NOT_IN_FILE = {"ask", "name", "api_key"}
"""Settings of a judge that have no place in a file."""
_RESERVED = ("offline", "simulated", "none", "")


def read_config(given: str | None) -> ConfigFile | None:
    """Read the file that is given, else `ruler.toml` or `pyproject.toml` here; None if there is none.

    UsageError for a mistake in it.
    """
    if given == "none":
        return None
    names = ("ruler.toml", "pyproject.toml") if given is None else (given,)
    for path in map(Path, names):
        if given is None and not path.is_file():
            continue
        content = _content(path)
        if content is not None:
            judges = _judges(path, content.pop("judges", {}))
            return ConfigFile(
                str(path),
                path.absolute(),
                _tables(path, content),
                judges,
            )
        if given is not None:
            raise UsageError("has no table [tool.ruler]", place=given)
    return None


def _content(path: Path) -> dict[str, Any] | None:
    """Return the tables of a file; None for a `pyproject.toml` without ours."""
    from pydantic_settings import BaseSettings, TomlConfigSettingsSource

    place = str(path)
    ours = ("tool", "ruler") if path.name == "pyproject.toml" else ()
    try:
        if ours and b"ruler" not in path.read_bytes():
            return None  # most have no table of ours, and are another program's to read
        if not path.exists():
            remedy = other_file(place, "check the path")
            raise UsageError("no such file", remedy, place=place)
        source = TomlConfigSettingsSource(BaseSettings, path, ours)
    except KeyError:
        return None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=place) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not valid TOML: {error}", place=place) from None
    return dict(source.toml_data)


def _tables(path: Path, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the table of each command; `[batch.submit]` is that of `batch submit`."""
    found: dict[str, Any] = {}
    for name, table in content.items():
        if name in _GROUPS and isinstance(table, dict):
            for inner, own in table.items():
                found[f"{name} {inner}"] = own
        else:
            found[name] = table
    for command, table in found.items():
        header = command.replace(" ", ".")
        if not isinstance(table, dict):
            problem = f"{header} is outside a table; put it under [score]"
            raise UsageError(problem, place=str(path))
        if command not in COMMANDS:
            near = nearest(command, (*COMMANDS, "judges"))
            meant = question(near and f"[{near.replace(' ', '.')}]")
            raise UsageError(f"there is no table [{header}]{meant}", place=str(path))
    return found


def _judges(path: Path, tables: Any) -> dict[str, Mapping[str, Any]]:
    """Return the tables of judges; UsageError if one is no judge."""
    if not isinstance(tables, dict):
        tables = {"": tables}
    judges: dict[str, Mapping[str, Any]] = {}
    for name, table in tables.items():
        place = f"{path} [judges.{name}]"
        if not isinstance(table, dict):
            raise UsageError("write a table, [judges.NAME]", place=str(path))
        if name in _RESERVED or name.startswith("-"):
            raise UsageError("a judge cannot have this name", place=place)
        judges[name] = values = {
            key.replace("-", "_"): value for key, value in table.items()
        }
        if "model" not in values:
            remedy = 'e.g. model = "openai/o3"'
            raise UsageError("model is missing", remedy, place=place)
        try:
            for key in _NOT_IN_FILE & values.keys():
                raise unknown_option(key, ())
            JudgeSettings(name=name, **values)
        except UsageError as error:
            error.set(place=f"{place} {error.option}".strip(), option="")
            raise
    return judges


def read_options(
    command: str, names: Collection[str], given: Mapping[str, Any], config: str | None
) -> Options:
    """Return the options of a command: those given, else variables, else the file, else defaults.

    `names` are the fields of the command's options. UsageError for a wrong value, with its source.
    """
    file = read_config(config or os.environ.get("RULER_CONFIG") or None)
    typed = {
        name: Origin("command line", COMMAND_LINE, value)
        for name, value in given.items()
    }
    origins: Layer = {}
    for layer in (*_file_layers(command, names, file), _variables(names), typed):
        origins |= _without_short_forms(layer)
    values = {name: origin.given for name, origin in origins.items()}
    with named_sources(origins):
        return Options(
            **values,
            command=command,
            config=config,
            file=file,
            origins=origins,
        )


@contextmanager
def named_sources(origins: Mapping[str, Origin]) -> Iterator[None]:
    """Name the variable or the table in a UsageError on an option that nobody typed."""
    try:
        yield
    except UsageError as error:
        origin = origins.get(error.option, Origin())
        if origin.rank == FILE:
            error.set(place=f"{origin.place} {error.option}", option="")
        elif origin.rank == VARIABLE:
            error.set(place=origin.place, option="")
        raise


def _file_layers(
    command: str, names: Collection[str], file: ConfigFile | None
) -> list[Layer]:
    """Return what `[score]` and the command's own table set.

    `[score]` holds for other commands with the same options, so that they agree with the run; but endpoint and
    key are of one table, and a price goes with its model. A command without judges takes no key of the run's.
    """
    if file is None:
        return []
    shared = _table(file, "score")
    own = _table(file, command)
    for name in own:
        if name not in names:
            place = own[name].place
            raise UsageError(f"`ruler {command}` has no option {name}", place=place)
    taken = set(names)
    if _PAIR & own.keys():
        taken -= _PAIR
    if "model" in own:
        taken.discard("price")
    if "model" not in names:
        taken.discard("api_key_env")
    kept = {name: value for name, value in shared.items() if name in taken}
    return [kept, own]


def _table(file: ConfigFile, command: str) -> Layer:
    place = f"{file.name} [{command.replace(' ', '.')}]"
    layer: Layer = {}
    for key, value in file.tables.get(command, {}).items():
        plain = key.replace("-", "_")
        name = ALIASES.get(plain, plain)
        if name not in FIELDS:
            error = unknown_option(key, (*FIELDS, *ALIASES))
            error.set(place=place)
            raise error
        if name in layer:
            raise UsageError(f"{key} sets {name} again; leave one out", place=place)
        layer[name] = Origin(place, FILE, value)
    return layer


def _variables(names: Collection[str]) -> Layer:
    """Return what variables set; an empty one sets nothing."""
    known = variables_of(names)
    if os.environ.keys().isdisjoint(known):
        return {}
    from pydantic_settings import BaseSettings, EnvSettingsSource

    source = EnvSettingsSource(BaseSettings, case_sensitive=True, env_ignore_empty=True)
    return {
        known[name]: Origin(name, VARIABLE, value)
        for name, value in source.env_vars.items()
        if name in known
    }


def variables_of(names: Collection[str]) -> dict[str, str]:
    """Return the variables of options, each with the field that it sets."""
    fields_of = {name: name for name in names if name not in PER_RUN}
    fields_of |= {alias: name for alias, name in ALIASES.items() if name in fields_of}
    return {f"RULER_{name.upper()}": field for name, field in fields_of.items()}


def _without_short_forms(layer: Layer) -> Layer:
    """Write `quiet` and `no_cache` as what they stand for."""
    layer = dict(layer)
    quiet = layer.pop("quiet", Origin())
    if quiet.given:
        layer["progress"] = replace(quiet, given="none")
    no_cache = layer.pop("no_cache", Origin())
    if no_cache.given:
        ledger = layer.get("ledger", no_cache)
        if ledger.given not in (True, "none", ["none"]):
            problem = Sentence("keeps nothing, so it cannot be with {ledger}")
            raise UsageError(problem, "leave one out", option="no_cache")
        layer["ledger"] = replace(no_cache, given="none")
    return layer


def score_settings(
    options: Options, source: str = "-", output: str = "-"
) -> ScoreSettings:
    """Return the settings of a run; UsageError if an option is wrong or contradicts another one."""
    with named_sources(options.origins):
        judges = judges_of(options)
        stronger = None if options.escalate is None else judges.pop()
        ledger, others = _ledgers(options.ledgers)
        return _part(
            ScoreSettings,
            options,
            input=input_settings(options, source),
            output=output,
            judge=judges[0],
            panel=tuple(judges[1:]),
            escalate=stronger,
            ask=_part(AskSettings, options),
            pool=_part(PoolSettings, options),
            combine=_part(CombineSettings, options),
            ledger=ledger,
            ledgers=others,
        )


def input_settings(options: Options, source: str) -> InputSettings:
    """Return how the records of INPUT are read."""
    return _part(InputSettings, options, source=source)


def scored_input(options: Options, source: str) -> InputSettings:
    """Return how the records of a scored file are read; its outcome is what `labels` names."""
    read = input_settings(options, source)
    return replace(read, outcome=options.labels, outcome_option="labels")


def _part(kind: Callable[..., T], options: Options, **others: Any) -> T:
    """Return settings of a kind: `others`, and the options with the names of its fields."""
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in FIELDS:
            others.setdefault(field.name, getattr(options, field.name))
    return kind(**others)


def _ledgers(names: list[str]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the ledger that is written, None for none, and the others, which are only read."""
    first, *others = names or [os.environ.get(LEDGER_VARIABLE, "")]
    wrong = partial(UsageError, option="ledger")
    if others and ("none" in names or "" in names):
        raise wrong("stands beside other ledgers", "leave it out", value="none")
    if _is_pattern(first):
        remedy = "name the ledger that is written before the pattern"
        raise wrong("is a pattern", remedy, value=first)
    paths: list[Path] = []
    for name in others:
        path = expand_home(name)
        if not _is_pattern(name):
            paths.append(path)
            continue
        matches = glob.glob(str(path))  # noqa: PTH207 - a pattern may begin at the root
        if not matches:
            raise wrong("no file matches", "check the path", value=name)
        paths += sorted(map(Path, matches))
    return ledger_path(first), tuple(paths)


def _is_pattern(name: str) -> bool:
    """Tell if a name is a pattern; the name of a file that exists is none."""
    return glob.has_magic(name) and not expand_home(name).exists()


def _typed_as(
    model: Callable[P, object],
) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function of options the parameters of their model, for type checkers and editors."""

    def typed(function: Callable[..., T]) -> Callable[P, T]:
        function.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]
        return function

    return typed


@_typed_as(ScoreOptions)
def load_settings(**options: Any) -> ScoreSettings:
    """Return the settings of a run from options of `ruler score`, named as on the command line.

    `load_settings(model=["fast", "strong"], passes=4, max_cost=20)`. An option that is not given, or None,
    has the value of its variable, else of `ruler.toml` in the working directory, else its default; but
    `ledger=None` keeps no replies. `config` names another file, or "none". UsageError if an option is wrong
    or contradicts another one; nothing is printed.
    """
    names = [field.name for field in fields(ScoreOptions)]
    given = {}
    for key, value in options.items():
        name = ALIASES.get(key, key)
        if name not in names:
            raise unknown_option(key, names)
        if value is not None or name == "ledger":
            given[name] = "none" if value is None else value
    config = given.pop("config", None)
    if config is not None:
        config = str(config)
    read = read_options("score", FIELDS, given, config)
    if read.dry_run:  # what else it is set for would be sent
        raise UsageError("is for the command line", "leave it out", option="dry_run")
    return score_settings(read)
