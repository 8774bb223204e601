"""Command line, `RULER_*` and `ruler.toml` → options → the settings of a run."""

from __future__ import annotations

import glob
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ruler_cli.errors import UsageError, system_errors
from ruler_cli.settings.judges import judges_of, refuse_found_file
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeOptions,
    PoolSettings,
    RecordPaths,
    ScoreSettings,
    expand_home,
    ledger_path,
    unknown_option,
)
from ruler_cli.settings.option_names import ALIASES, option_name
from ruler_cli.settings.options import (
    COMMAND_LINE,
    COMMANDS,
    FIELDS,
    FILE,
    PER_RUN,
    SHORT_FORMS,
    VARIABLE,
    ConfigFile,
    Layer,
    Options,
    Origin,
    ScoreOptions,
)
from ruler_cli.settings.suggestions import nearest, other_file, question

P = ParamSpec("P")
T = TypeVar("T")
_PAIR = {"api_base", "api_key_env"}
"""Options that are of one table."""
_GROUPS = ("judges", "formats", "batch", "ledger")
"""Tables that hold tables."""
_NAMED = ("judges", "formats")
"""Those whose names the user chooses."""
_OFF = ("0", "false", "no", "off")
"""Words of a variable that unset a flag."""
_NO_LEDGER = (True, "true", "none", ["none"])
_UNKNOWN_SIGN = re.compile(r"[=<>?^&+;,()'%]")
"""A sign that no term of `has` knows, and few keys hold."""
_RESERVED = ("judges.offline", "judges.simulated", "formats.auto")


def read_config(given: str | None) -> ConfigFile | None:
    """Read the file that is given, else `ruler.toml` or `pyproject.toml` here; None if there is none.

    UsageError for a mistake in it.
    """
    if given == "none":
        return None
    for name in [given] if given else ["ruler.toml", "pyproject.toml"]:
        content = _content(name)
        if content is not None:
            return replace(_checked(name, content), found=not given)
    if not given:
        return None
    if Path(given).exists():
        raise UsageError("has no table [tool.ruler]", place=given)
    remedy = other_file(given, "check the path")
    raise UsageError("no such file", remedy, place=given)


def _content(name: str) -> dict[str, Any] | None:
    """Return the tables of a file; None if there is no such file, or no table of ours in `pyproject.toml`."""
    path = Path(name)
    ours = ("tool", "ruler") if path.name == "pyproject.toml" else ()
    with system_errors("read", UsageError, place=name):
        # most have no table of ours, and are another program's to read
        if not path.exists() or (b"ruler" not in path.read_bytes() and ours):
            return None
        from pydantic_settings import BaseSettings, TomlConfigSettingsSource

        try:
            return TomlConfigSettingsSource(BaseSettings, path, ours).toml_data
        except KeyError:
            return None
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            problem = f"is not valid TOML: {error}"
            raise UsageError(problem, place=name) from None


_OPTION = re.compile(r"(?:^|: )(--?[a-z][a-z-]*)")
"""An option in the place of an error."""


def _checked(path: str, content: Mapping[str, Any]) -> ConfigFile:
    """Return the tables of commands and judges; UsageError if there is no such table or option."""
    flat: dict[str, Any] = {}
    for name, table in content.items():
        if name in _GROUPS and isinstance(table, dict):
            flat |= {f"{name}.{inner}": own for inner, own in table.items()}
        else:
            flat[name] = table
    headers = [*_NAMED, *(command.replace(" ", ".") for command in COMMANDS)]
    file = ConfigFile(path, {}, {}, {})
    for header, table in flat.items():
        group, _, name = header.partition(".")
        unknown = group not in _NAMED and header not in headers
        if not (unknown or isinstance(table, dict)):
            remedy = f"write [{header}], and its settings below"
            raise UsageError(f"{header} is not a table", remedy, place=path)
        if unknown:
            near = nearest(header, headers)
            advice = question(near) or "; options stand in one such as [score]"
            raise UsageError(f"there is no table [{header}]{advice}", place=path)
        plain = {key.replace("-", "_"): value for key, value in table.items()}
        own = {ALIASES.get(key, key): value for key, value in plain.items()}
        try:
            if len(own) < len(table):
                raise UsageError("an option is set twice", "leave one out")
            if header in _RESERVED:
                raise UsageError("is a name of ruler's own", "choose another")
            if group == "judges":
                JudgeOptions(**own)
                file.judges[name] = own
            elif group == "formats":
                row = file.formats[name] = RecordPaths(**own)
                if not (row.messages or row.answers):
                    raise UsageError("has neither `messages` nor `answers`")
                if "|" in row.reward:
                    problem = "is one path, because the score is written there"
                    raise UsageError(problem, place="--reward")
                if "~" in row.has:
                    raise UsageError("has a pattern, which is not read", place="--has")
                sign = _UNKNOWN_SIGN.search(row.has)
                if sign:
                    problem = f"has a sign that means nothing: {sign[0]}"
                    remedy = 'a term ends in [], {}, ", # or *, or begins with !'
                    raise UsageError(problem, remedy, place="--has")
            else:
                _check_names(own)
                file.tables[header] = own
        except UsageError as error:
            field = _field_of(error.place)
            place = f"{path} [{header}] {field}".strip()
            raise error.with_parts(place=place) from None
    return file


def _check_names(names: Iterable[str]) -> None:
    """Raise UsageError for what is no option, or none of a file."""
    for name in names:
        if name not in FIELDS:
            raise unknown_option(name, (*FIELDS, *ALIASES))
        if name == "force":  # it would undo, in silence, what guards files
            way_out = "leave it out, and use --force"
            raise UsageError("is for one run", way_out, place=option_name(name))


def read_options(
    command: str, names: Collection[str], given: Mapping[str, Any], config: str | None
) -> Options:
    """Return the options of a command: those given, else variables, else the file, else defaults.

    `names` are the fields of the command's options. UsageError for a wrong value, with its source.
    """
    file = read_config(config or os.environ.get("RULER_CONFIG"))
    typed = {
        name: Origin("command line", COMMAND_LINE, value)
        for name, value in given.items()
    }
    layers = {
        FILE: _file_layer(command, names, file),
        VARIABLE: _without_short_forms(_variables(names)),
        COMMAND_LINE: _without_short_forms(typed),
    }
    origins = {
        name: origin for layer in layers.values() for name, origin in layer.items()
    }
    values = {name: origin.given for name, origin in origins.items()}
    with named_sources(origins):
        return Options(
            **values, config=config, file=file, layers=layers, origins=origins
        )


@contextmanager
def named_sources(origins: Mapping[str, Origin]) -> Iterator[None]:
    """Name the variable or the table in a UsageError on an option that nobody typed."""
    try:
        yield
    except UsageError as error:
        field = _field_of(error.place)
        origin = origins.get(field, Origin())
        if origin.rank == FILE:
            raise error.with_parts(place=f"{origin.place} {field}") from None
        if origin.rank == VARIABLE:
            raise error.with_parts(place=origin.place) from None
        raise


def _field_of(place: str) -> str:
    """Return the field of the option in the place of an error, as in `in.json: --records data`; empty without one."""
    match = _OPTION.search(place)
    if match is None:
        return ""
    name = match[1]
    for field in FIELDS:
        if option_name(field) == name:
            return field
    # of a judge or a format in the file
    return name.strip("-").replace("-", "_")


def _file_layer(command: str, names: Collection[str], file: ConfigFile | None) -> Layer:
    """Return what `[score]` and the command's own table set.

    `[score]` holds for other commands with the same options, so that they agree with the run; but endpoint and
    key are of one table, and a price goes with its model. A command without judges takes no key of the run's.
    """
    if file is None:
        return {}
    own = _table(file, command)
    for name in own.keys() - names:
        problem = f"`ruler {command}` has no option {name}"
        raise UsageError(problem, place=own[name].place)
    taken = set(names)
    if _PAIR & own.keys():
        taken -= _PAIR
    if "model" in own:
        taken.discard("price")
    if "model" not in names:
        taken.discard("api_key_env")
    shared = _table(file, "score")
    return {name: shared[name] for name in shared if name in taken} | own


def _table(file: ConfigFile, command: str) -> Layer:
    header = command.replace(" ", ".")
    place = f"{file.name} [{header}]"
    values = file.tables.get(header, {})
    return _without_short_forms(
        {name: Origin(place, FILE, value) for name, value in values.items()}
    )


def _variables(names: Collection[str]) -> Layer:
    """Return what variables set; an empty one sets nothing, but for an address, which has to be refused."""
    known = variables_of(names)
    if os.environ.keys().isdisjoint(known):
        return {}
    from pydantic_settings import BaseSettings, EnvSettingsSource

    source = EnvSettingsSource(BaseSettings, case_sensitive=True)
    return {
        known[name]: Origin(name, VARIABLE, value)
        for name, value in source.env_vars.items()
        if name in known and (value or known[name] == "api_base")
    }


def variables_of(names: Collection[str]) -> dict[str, str]:
    """Return the variables of options, each with the field that it sets."""
    every = {name: name for name in FIELDS} | ALIASES
    return {
        f"RULER_{name.upper()}": field
        for name, field in every.items()
        if field in names and field not in PER_RUN
    }


def _without_short_forms(layer: Layer) -> Layer:
    """Write `quiet` and `no_cache` as what they stand for."""
    for flag, name in SHORT_FORMS.items():
        short = layer.pop(flag, Origin())
        if not short.given or str(short.given).lower() in _OFF:
            continue
        # a ledger beside the flag that keeps no replies
        if name == "ledger" and layer.get(name, short).given not in _NO_LEDGER:
            problem = "keeps nothing, so it cannot be with --ledger"
            raise UsageError(problem, "leave one out", place=option_name(flag))
        layer[name] = replace(short, given="none")
    return layer


def score_settings(
    options: Options, source: str = "-", output: str = "-"
) -> ScoreSettings:
    """Return the settings of a run; UsageError if an option is wrong or contradicts another one."""
    with named_sources(options.origins):
        judges = judges_of(options)
        refuse_found_file(options, judges)
        stronger = None if options.escalate is None else judges.pop()
        ledger, others = _ledgers(options.ledgers)
        return _part(
            ScoreSettings,
            options,
            input=_part(InputSettings, options, source=source, rows=options.rows),
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


def scored_input(options: Options, source: str) -> InputSettings:
    """Return how the records of a scored file are read; its outcome is what `labels` names."""
    labels = options.labels
    if labels is not None and Path(labels).is_file():
        way = "name a path in the records, such as metadata.passed; `ruler agree` reads such files with --labels-file"
        raise UsageError("is a file", way, place=f"--labels {labels}")
    # OUTPUT has no other values around its records
    rows = {name: replace(row, records="") for name, row in options.rows.items()}
    return _part(
        InputSettings,
        options,
        source=source,
        rows=rows,
        outcome=options.labels,
        outcome_option="labels",
    )


def _part(kind: Callable[..., T], options: Options, **others: Any) -> T:
    """Return settings of a kind: `others`, and the options with the names of its fields."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    own = {name: getattr(options, name) for name in names if name in FIELDS}
    return kind(**own | others)


def _ledgers(names: list[str]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the ledger that is written, None for none, and the others, which are only read."""
    first, *others = names or [""]
    if others and "none" in names:
        problem = "stands beside other ledgers"
        raise UsageError(problem, "leave it out", place="--ledger none")
    if _is_pattern(first):
        remedy = "name the ledger that is written before the pattern"
        raise UsageError("is a pattern", remedy, place=f"--ledger {first}")
    paths: list[Path] = []
    for name in others:
        path = expand_home(name)
        matches = [path]
        if _is_pattern(name):
            found = glob.glob(str(path))  # noqa: PTH207 - a pattern may begin at the root
            matches = sorted(map(Path, found))
        if not matches:
            place = f"--ledger {name}"
            raise UsageError("no file matches", "check the path", place=place)
        paths += matches
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
    known = {field.name for field in fields(ScoreOptions)}
    for name in options.keys() - known:
        raise unknown_option(name, known)
    if options.get("ledger", "") is None:
        options["ledger"] = "none"
    given = {name: value for name, value in options.items() if value is not None}
    config = given.pop("config", None)
    read = read_options("score", FIELDS, given, config and str(config))
    if read.dry_run:  # what else it is set for would be sent
        raise UsageError("is for the command line", "leave it out", place="--dry-run")
    return score_settings(read)
