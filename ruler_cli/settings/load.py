"""Command line, `RULER_*` and `ruler.toml` → options → the settings of a run."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError, system_errors
from ruler_cli.settings.fields import (
    NAMES,
    SECTIONS,
    SettingError,
    option_name,
    public_name,
    refuse_unknown,
    setting_of,
)
from ruler_cli.settings.judges import judges_of, refuse_found_file
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    RecordPaths,
    RunSettings,
    ScoreSettings,
    expand_home,
    ledger_path,
)
from ruler_cli.settings.options import (
    COMMAND_LINE,
    FILE,
    VARIABLE,
    ConfigFile,
    Layer,
    NamedSettings,
    Options,
    Origin,
)

_OF_PROGRAMS = ("api_key", "name", "function")
"""Fields of a judge that no file may set."""
_RESERVED = ("offline", "auto")
"""Names of ruler's own judge, and of its search for a format."""
_PREFIX = "RULER_"
_FIELDS = {name: field_name for field_name, name in NAMES.items()}
"""Fields by the names that they have in files and variables, where those are others."""


def field_named(name: str) -> str:
    """Return the field that a name of the user's stands for."""
    plain = name.replace("-", "_")
    return _FIELDS.get(plain, plain)


def read_config(name: str | None) -> ConfigFile | None:
    """Read the named file, else `ruler.toml` here; None if there is none.

    UsageError for a mistake in it.
    """
    path = Path(name or "ruler.toml")
    if name == "none" or not (name or path.exists()):
        return None
    with system_errors("read", UsageError, place=str(path)):
        if not path.exists():
            raise UsageError("no such file", "check the path", place=str(path))
        text = path.read_text(encoding="utf-8")
    import tomllib  # most runs have no file

    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"is not valid TOML: {error}"
        raise UsageError(problem, place=str(path)) from None
    return _checked(ConfigFile(str(path), discovered=not name), content)


def _checked(file: ConfigFile, content: Mapping[str, Any]) -> ConfigFile:
    """Return a file with the tables of its content; UsageError if there is no such table or setting."""
    tables = {**content}
    for group in ("judges", "formats"):
        if isinstance(tables.get(group), dict):
            for name, table in tables.pop(group).items():
                tables[f"{group}.{name}"] = table
    for header, table in tables.items():
        group, _, name = header.partition(".")
        if group not in ("judges", "formats", "score"):
            problem = f"there is no table [{header}]; options belong in [score]"
            raise UsageError(problem, place=file.name)
        if not isinstance(table, dict):
            problem = f"{header} is not a table"
            remedy = f"write [{header}], and its settings below"
            raise UsageError(problem, remedy, place=file.name)
        values = {key.replace("-", "_"): item for key, item in table.items()}
        with _named_place(f"{file.name} [{header}]"):
            if len(values) < len(table):
                raise UsageError("an option is set twice", "leave one out")
            if name in _RESERVED:
                raise UsageError("is a name of ruler's own", "choose another")
            if group == "judges":
                file.judges[name] = _judge_table(values)
            elif group == "formats":
                file.formats[name] = _format_table(values)
            else:
                file.defaults.update(_defaults(values))
    return file


@contextmanager
def _named_place(place: str) -> Iterator[None]:
    """Name a table of the file, and the setting in it, in an error."""
    try:
        yield
    except UsageError as error:
        if isinstance(error, SettingError):
            place += f" {public_name(error.setting)}"
        raise error.with_parts(place=place) from None


def _judge_table(values: dict[str, Any]) -> dict[str, Any]:
    """Check the table of a judge."""
    refuse_unknown(values.keys() & _OF_PROGRAMS, ())
    JudgeSettings(**values)
    if "model" not in values:
        raise SettingError("model", "is missing", "set it")
    return values


def _format_table(values: dict[str, Any]) -> RecordPaths:
    """Check the table of a format."""
    row = RecordPaths(**values)
    if not (row.messages or row.answers):
        raise UsageError("has neither `messages` nor `answers`")
    if "|" in row.reward:
        problem = "is one path, because the score is written there"
        raise SettingError("reward", problem)
    return row


def _defaults(values: dict[str, Any]) -> dict[str, Any]:
    """Check the names in the table of options; each command takes those that it knows."""
    table = {field_named(name): value for name, value in values.items()}
    refuse_unknown(table, SECTIONS)
    if "force" in table:  # it would undo, in silence, what guards files
        remedy = "leave it out, and use --force"
        raise SettingError("force", "is for one run", remedy)
    # judges are looked up in it, also where another source names some
    names = [name for name in table if SECTIONS[name] is NamedSettings]
    NamedSettings(**{name: table[name] for name in names})
    return table


def read_options(
    names: Collection[str],
    typed: Mapping[str, Any],
    config: str | None,
) -> Options:
    """Return the settings of a command: those typed, else variables, else the file, else defaults.

    `names` are the fields that the command takes. UsageError for a wrong value, with its source.
    """
    file = read_config(config or os.environ.get("RULER_CONFIG"))
    layers: dict[int, Layer] = {FILE: {}, VARIABLE: {}, COMMAND_LINE: {}}
    if file is not None:
        place = f"{file.name} [score]"
        # a command without judges takes no key of theirs
        without = () if "model" in names else ("api_key_env",)
        for name, value in file.defaults.items():
            if name in names and name not in without:
                layers[FILE][name] = Origin(place, FILE, value)
    for variable, name in variables_of(names).items():
        value = os.environ.get(variable)
        # an empty one sets nothing, but an empty address has to be refused
        if value or (value is not None and name == "api_base"):
            layers[VARIABLE][name] = Origin(variable, VARIABLE, value)
    for name, value in typed.items():
        origin = Origin("command line", COMMAND_LINE, value)
        layers[COMMAND_LINE][name] = origin
    origins: Layer = {}
    for layer in layers.values():
        origins |= layer
    options = Options(origins, layers, file, config)
    with named_sources(origins):
        for section in {SECTIONS[name] for name in origins}:
            options.of(section)
    return options


@contextmanager
def named_sources(origins: Mapping[str, Origin]) -> Iterator[None]:
    """Name the variable or the table in an error of a setting that nobody typed."""
    try:
        yield
    except UsageError as error:
        place = f"{error.place} ".replace("=", " ")
        for name, origin in origins.items():
            named = place.startswith(f"{option_name(name)} ")
            if not named or origin.rank == COMMAND_LINE:
                continue
            source = origin.place
            if origin.rank == FILE:
                source += f" {public_name(name)}"
            raise error.with_parts(place=source) from None
        raise


def variables_of(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of settings, each with the field that it sets."""
    variables = {}
    for name in names:
        if not setting_of(name).per_run:
            variables[f"{_PREFIX}{public_name(name).upper()}"] = name
    return variables


def score_settings(
    options: Options, source: str = "-", output: str = "-"
) -> ScoreSettings:
    """Return the settings of a run; UsageError if a setting is wrong or contradicts another one."""
    with named_sources(options.origins):
        judges = judges_of(options)
        refuse_found_file(options, judges)
        escalate = None if options.escalate is None else judges.pop()
        ledger, ledgers = _ledgers(options.ledger)
        records = options.of(InputSettings)
        return ScoreSettings(
            **options.values_of(RunSettings),
            input=replace(records, source=source, rows=options.rows),
            output=output,
            judge=judges[0],
            panel=tuple(judges[1:]),
            escalate=escalate,
            ask=options.of(AskSettings),
            pool=options.of(PoolSettings),
            combine=options.of(CombineSettings),
            ledger=ledger,
            ledgers=ledgers,
        )


def scored_input(options: Options, source: str) -> InputSettings:
    """Return the settings that read a scored file; its outcome is the value that `labels` names."""
    # OUTPUT has no other values around its records
    rows = {
        name: replace(row, records="") for name, row in options.rows.items()
    }
    return replace(
        options.of(InputSettings),
        source=source,
        rows=rows,
        outcome=options.labels,
        outcome_option="labels",
    )


def _ledgers(names: Iterable[str]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the ledger that is written, None for none, and the others, which are only read and may be patterns."""
    first, *others = names or [""]
    if others and "none" in names:
        problem = "is given beside other ledgers"
        raise SettingError("ledger", problem, "leave it out", "none")
    if glob.has_magic(first) and not expand_home(first).exists():
        remedy = "before the pattern, name the ledger to write"
        raise SettingError("ledger", "is a pattern", remedy, first)
    files: list[Path] = []
    for name in others:
        path = expand_home(name)
        matches = [path]
        if not path.exists():
            # a pattern may begin at the root
            matches = sorted(map(Path, glob.glob(str(path))))  # noqa: PTH207
        if not matches:
            problem = "no file matches"
            raise SettingError("ledger", problem, "check the path", name)
        files += matches
    return ledger_path(first), tuple(files)


def load_settings(**options: Any) -> ScoreSettings:
    """Return the settings of a run from options of `ruler score`, named as on the command line.

    `load_settings(model=["fast", "strong"], passes=4, max_cost=20)`. An option that is not given, or None,
    has the value of its variable, else of `ruler.toml` in the working directory, else its default; but
    `ledger=None` keeps no replies. `config` names another file, or "none". UsageError if an option is wrong
    or contradicts another one; nothing is printed. `ScoreSettings` has all of them with their types.
    """
    if options.get("ledger", "") is None:
        options["ledger"] = "none"
    config = options.pop("config", None)
    typed = {}
    for name, value in options.items():
        if value is not None:
            typed[field_named(name)] = value
    refuse_unknown(typed, RUN_FIELDS)
    read = read_options(RUN_FIELDS, typed, config and str(config))
    return score_settings(read)


_OF_RUN = (
    NamedSettings,
    JudgeSettings,
    AskSettings,
    PoolSettings,
    CombineSettings,
    InputSettings,
    RunSettings,
)
RUN_FIELDS = {name for name, section in SECTIONS.items() if section in _OF_RUN}
"""Settings of a run, which the table `[score]` and Python have."""
