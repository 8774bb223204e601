"""Turn options, from a command line or from Python, into settings; UsageError says what to write."""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_origin, get_type_hints

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.contradictions import refuse_contradictions
from ruler_cli.settings.keys import is_key_name
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
    param_mistake,
    price_of,
)
from ruler_cli.settings.options import (
    COMMAND_ONLY,
    COMMANDS,
    FIELDS,
    HINTS,
    PATHS,
    Options,
    Origin,
    SettingsOptions,
    load_file,
    long_names,
    option_names,
    option_types,
    variables_of,
    without_aliases,
)
from ruler_cli.settings.suggestions import nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ruler_cli.settings.file import ConfigFile
    from ruler_cli.settings.values import JudgeTable, OptionType

T = TypeVar("T", bound="DataclassInstance")
_NO_KEY = "is no option; name the variable that holds the key, api_key_env, or give JudgeSettings(api_key=…)"
_FLAGS = dict.fromkeys(("1", "yes", "true", "on", "t", "y"), True) | dict.fromkeys(
    ("0", "no", "false", "off", "f", "n"), False
)
"""Values of a variable that switches a flag, in any case."""


@contextmanager
def name_sources(options: Options) -> Iterator[None]:
    """Begin a UsageError about an option with the line or the variable that sets it, if nobody typed it."""
    try:
        yield
    except UsageError as error:
        names = {*option_names(error.option)} if error.option in FIELDS else set()
        found = [
            one
            for field, one in options.origins.items()
            if names & {*option_names(field)}
        ]
        if not error.place and found and all(origin.rank < 3 for origin in found):
            error.set(place=found[0].place)
        raise with_named_judges(error, options) from None


def with_named_judges(error: UsageError, options: Options) -> UsageError:
    """Return an error; one of an unknown judge says which names the file of settings has."""
    from ruler_cli.judges.providers import UnknownJudgeError

    if not isinstance(error, UnknownJudgeError) or "/" in error.name:
        return error
    file, hint = options.file, "there is no ruler.toml here that names it"
    if file is not None:
        hint = (
            f"the judges of {file.name} are {', '.join(file.judges)}"
            if file.judges
            else f"{file.name} names no judge"
        )
    elif options.config == "none":
        hint = Sentence("{config:none} reads no ruler.toml, which could name it")
    return UsageError(error.sentence, hint)


def score_settings(options: Options, source: str, output: str = "") -> ScoreSettings:
    """Return the settings of a run; UsageError if an option is wrong or contradicts another one."""
    with name_sources(options):
        return _checked_settings(options, source, output)


def _checked_settings(options: Options, source: str, output: str) -> ScoreSettings:
    for one in fields(options):
        value = getattr(options, one.name)
        if isinstance(value, float) and math.isnan(value):  # it passes every bound
            remedy = "give one, or leave the option out"
            raise UsageError("is no number", remedy, option=one.name, value="nan")
    judges = judges_of(options)
    stronger = None if options.escalate is None else judges.pop()
    ledger, others = _ledgers(options.ledger)
    settings = _settings(
        ScoreSettings,
        options,
        input=input_settings(options, source),
        output=output,
        judge=judges[0],
        panel=tuple(judges[1:]),
        escalate=stronger,
        ask=_settings(AskSettings, options),
        pool=_settings(PoolSettings, options),
        combine=_settings(
            CombineSettings, options, by_outcome=options.order_by_outcome
        ),
        ledger=ledger,
        ledgers=others,
    )
    refuse_contradictions(settings)
    return settings


def _settings(kind: type[T], options: Options, **others: Any) -> T:
    """Return settings of a kind: `others`, and the options that have the names of its fields."""
    names = {one.name for one in fields(kind)} & {one.name for one in fields(options)}
    return kind(**{name: getattr(options, name) for name in names} | others)


def input_settings(options: Options, source: str) -> InputSettings:
    """Return how the records of INPUT are read; UsageError for a shard that does not exist."""
    return _settings(InputSettings, options, source=source, format=options.format_)


def file_note(
    options: Options, settings: ScoreSettings, *, quiet: bool = False
) -> str | None:
    """Return a sentence on what a run takes from the file of settings; None if that is nothing.

    The file may lie in a directory that somebody else wrote, and it decides where keys and rollouts go: if
    it does, there is a sentence for a `quiet` run too.
    """
    if options.file is None:
        return None
    found = {
        field: origin.place
        for field, origin in options.origins.items()
        if origin.rank == 1
    }
    lines = {
        place: field for field, place in reversed(found.items())
    }  # an alias and its option have one
    taken = [min(long_names(field), key=len)[2:] for field in reversed(lines.values())]
    tables = options.file.judges
    taken += [
        f"judge {judge.name}" for judge in settings.judges if judge.name in tables
    ]
    sent = [way for judge in settings.judges if (way := _way_of_file(judge, options))]
    if not taken or (quiet and not sent):
        return None
    note = "; ".join([f"settings of {options.file.name}: {', '.join(taken)}", *sent])
    key = options.origins.get("api_key_env")
    keyless = [
        judge for judge in settings.judges if not judge.api_key_env and judge.api_base
    ]
    if (
        key
        and key.rank < 3
        and any(key.rank == 2 or judge.name not in tables for judge in keyless)
    ):
        clause = f"{note}; the key of {key.place} is not sent to this endpoint"
        return Sentence(
            "{clause}; if it is meant, give {api_key_env:VAR}", clause=clause
        )
    return note


def _way_of_file(judge: JudgeSettings, options: Options) -> str:
    """Return a clause on the endpoint and the key that the file gives a judge; empty if it gives neither."""
    table = None if options.file is None else options.file.judges.get(judge.name)
    ways = (("api_base", "at {}"), ("api_key_env", "with the key in {}"))
    clauses = [
        words.format(Location(value).public)
        for name, words in ways
        if (value := getattr(judge, name))
        and (
            value == getattr(table, name)
            if table is not None
            else options.rank(name) == 1
        )
    ]
    return f"{judge.label} is asked {' '.join(clauses)}" if clauses else ""


def scored_input(options: Options, source: str) -> InputSettings:
    """Return how the records of a scored file are read; its outcome is what `--labels` names."""
    return replace(
        input_settings(options, source), outcome=options.labels, outcome_option="labels"
    )


def text_lookup(options: Options) -> Callable[[Iterable[str]], Mapping[str, str]]:
    """Return a lookup of texts by their digests in the ledger of a command."""
    from ruler_cli.ledger.texts import texts

    path = ledger_path(options.one_ledger or os.environ.get(LEDGER_VARIABLE))
    return partial(texts, [] if path is None else [path])


def load_settings(**options: Unpack[SettingsOptions]) -> ScoreSettings:
    """Return the settings of a run from options of `ruler score`, named as on the command line.

    `load_settings(judge_model=["fast", "strong"], passes=4, max_cost=20)`: a list for an option that is repeated,
    `param` and `price` also as `{"temperature": 0}` and `(2, 8)`. An option that is not given, or None, has
    the value of its variable, else of `ruler.toml` in the working directory, else its default; but
    `ledger=None` keeps no replies. `config` names another file, or "none". UsageError if an option is wrong
    or contradicts another one; nothing is printed.
    """
    given: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None
    }
    if options.get("ledger", "") is None:
        given["ledger"] = "none"
    file = given.pop("config", None)
    if not isinstance(file, str | os.PathLike | None):
        raise UsageError(
            f"config: is of type {type(file).__name__}; give a path, or 'none'"
        )
    for name in COMMAND_ONLY & given.keys():
        raise UsageError(
            "is for the command, and has no effect from Python",
            "leave it out",
            option=name,
        )
    known = _known_options(None if file is None else os.fspath(file))
    checked = without_aliases(
        _with_values(known, given, dict.fromkeys(given, Origin("Python", 3)))
    )
    if checked.dry_run:  # what else it was given for would be sent
        raise UsageError(
            "is for the command, and `score_file` would send",
            "leave it out",
            option="dry_run",
        )
    return score_settings(checked, "-", "-")


def _signature() -> Signature:
    """Return the signature of `load_settings` with each option, for `help` and the completion of notebooks."""
    options = [
        # A ledger of None is a value, so it is no default.
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=... if name == "ledger" else None,
            annotation=kind,
        )
        for name, kind in get_type_hints(SettingsOptions).items()
    ]
    return Signature(options, return_annotation=ScoreSettings)


load_settings.__signature__ = _signature()  # type: ignore[attr-defined]  # inspect reads it


def _known_options(config: str | None) -> Options:
    """Return the options that the file and variables set, as `ruler score` reads them."""
    config = config or os.environ.get("RULER_CONFIG") or None
    file = load_file(config)
    names = COMMANDS["score"].split()
    found = [] if file is None else list(file.defaults("score", names))
    values: dict[str, Any] = {
        field: Path(one) if field in PATHS else one for field, one, _ in found
    }
    origins = {field: Origin(place, 1) for field, _, place in found}
    options = Options(**values, file=file, origins=origins, config=config)
    set_by = {
        name: variable for name in names if (variable := _variable_of(name)) is not None
    }
    given = {
        _key(name): _parsed(os.environ[variable], name)
        for name, variable in set_by.items()
    }
    return _with_values(
        options, given, {_key(name): Origin(text, 2) for name, text in set_by.items()}
    )


def _key(field: str) -> str:
    """Return the name of an option in the file and from Python, by its field."""
    return long_names(field)[0].removeprefix("--").replace("-", "_")


def _variable_of(field: str) -> str | None:
    """Return the variable that sets an option; None if none does. An empty one sets nothing."""
    names = [LEDGER_VARIABLE] if field == "ledger" else variables_of(field)
    return next((name for name in names if os.environ.get(name)), None)


def _parsed(text: str, field: str) -> Any:
    """Return the value that a variable states; text that states none stays, and is refused later."""
    if field == "ledger":
        return [text]
    from ruler_cli.settings.values import value_type

    kind = value_type(HINTS[field])
    if get_origin(kind) is list:
        return text.split()
    if kind is bool:
        return _FLAGS.get(text.strip().lower(), text)
    with suppress(ValueError):
        return kind(text) if kind in (int, float) else text
    return text


@cache
def _types_of_score() -> tuple[Mapping[str, OptionType], type[Any]]:
    """Return the options of `score` by their names, and the model that checks their values."""
    from ruler_cli.settings.values import options_model

    types = option_types()["score"]
    return types, options_model(types)


def _with_values(
    options: Options, given: Mapping[str, Any], origins: Mapping[str, Origin]
) -> Options:
    """Return options with other values, by their names, each with its origin; UsageError if one is wrong."""
    from pydantic import ValidationError

    from ruler_cli.settings.values import PREFIX, reason_of

    types, model = _types_of_score()
    try:
        checked = model(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        place = (
            origins[name].place if name in origins and origins[name].rank == 2 else name
        )
        reason = reason_of(
            first, "is no option", SettingsOptions.__annotations__, _NO_KEY
        )
        raise UsageError(reason, place=place) from None
    fields = {
        types[key.removeprefix(PREFIX)].field: key for key in checked.model_fields_set
    }
    if len(fields) < len(checked.model_fields_set):
        twice = ", ".join(
            sorted(key.removeprefix(PREFIX) for key in checked.model_fields_set)
        )
        raise UsageError(
            f"two names of one option are given among {twice}", "leave one out"
        )
    values = {field: getattr(checked, key) for field, key in fields.items()}
    values |= {field: Path(values[field]) for field in PATHS if values.get(field)}
    own = {field: origins[key.removeprefix(PREFIX)] for field, key in fields.items()}
    return replace(options, **values, origins={**options.origins, **own})


def other_judges(
    options: Options, judges: Iterable[JudgeSettings]
) -> list[JudgeSettings]:
    """Return the judges of the file beside those of a run, as `-m NAME` takes them."""
    names = {} if options.file is None else dict(options.file.judges)
    for judge in judges:
        names.pop(judge.name, None)
    return [_judge(name, None, options) for name in names]


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges in order, that of `--escalate` last."""
    names = options.model or [JudgeSettings().model]
    names = names if options.escalate is None else [*names, options.escalate]
    prices = _prices_of(names, options)
    judges = [
        _judge(name, price, options) for name, price in zip(names, prices, strict=True)
    ]
    for judge in judges:
        _check_address(judge, options.file)
    return judges


def _prices_of(
    names: Sequence[str], options: Options
) -> Sequence[tuple[float, float] | None]:
    """Return the price of each judge; one of the file is for the judges that the file names, if any."""
    own = (
        []
        if options.file is None
        else _judge_names(options.file.tables.get("score", {}))
    )
    others = max(options.rank("model"), options.rank("escalate")) > 1
    if options.rank("price") != 1 or not own or not others:
        return _prices(options.price, len(names))
    known = dict(zip(own, _prices(options.price, len(own)), strict=True))
    return [known.get(name) for name in names]


def _judge_names(table: Mapping[str, Any]) -> list[str]:
    """Return the judges that a table of the file names, that of `escalate` last."""
    return [
        *table.get("model", ()),
        *([table["escalate"]] if "escalate" in table else []),
    ]


def _judge(
    name: str, price: tuple[float, float] | None, options: Options
) -> JudgeSettings:
    """Return a judge: a table of the file by its name, else a model by the options.

    Options of the command line and of variables hold for both, but see `_endpoint`. A table states the whole
    way to its judge: endpoint, key and price of `[score]` are those of another judge, and do not hold for it.
    """
    tables = {} if options.file is None else options.file.judges
    table, params = tables.get(name), _params(options.param)
    if table is None:
        addressed = options.api_base and options.rank("api_base") > 2
        if options.file is not None and "/" not in name and not addressed:
            _refuse_misspelt(name, tables, options.file.name)
        own: dict[str, Any] = dict.fromkeys(
            ("rpm", "tpm", "concurrency", "max_outage")
        )  # those of the pool hold
        own |= _endpoint(options, None)
        if (
            not own["api_base"]
            and options.rank("api_key_env") < 3
            and _other_provider(name, options)
        ):
            own["api_key_env"] = None
        return _settings(
            JudgeSettings,
            options,
            model=name,
            params=params,
            price=price,
            name="",
            **own,
        )

    def chosen(option: str) -> bool:
        return options.rank(option) > 1

    way: dict[str, Any] = {
        option: getattr(options, option)
        if chosen(option)
        else getattr(table, option) or default
        for option, default in (("via", "auto"), ("timeout", options.timeout))
    }
    way |= _endpoint(options, table)
    limits: dict[str, Any] = {
        option: None if chosen(option) else getattr(table, option)
        for option in ("rpm", "tpm", "concurrency", "max_outage")
    }
    params = (
        {**table.params, **params} if chosen("param") else {**params, **table.params}
    )
    own_price = price if chosen("price") else table.price
    return JudgeSettings(
        model=table.model, name=name, params=params, price=own_price, **way, **limits
    )


def _check_address(judge: JudgeSettings, file: ConfigFile | None) -> None:
    """Raise UsageError, which names the judge's table, if its endpoint is no address."""
    table = None if file is None else file.judges.get(judge.name)
    if (
        file is None
        or table is None
        or table.api_base is None
        or judge.api_base != table.api_base
    ):
        return
    from ruler_cli.judges.resolve import check_own_address

    try:
        check_own_address(judge)
    except UsageError as error:
        place = f"{file.place('judges', judge.name)}: [judges.{judge.name}] api_base"
        raise UsageError(error.problem, error.remedy, place=place) from None


def _endpoint(options: Options, table: JudgeTable | None) -> dict[str, Any]:
    """Return the endpoint of a judge and the variable of its key, which are a pair.

    A key goes to no endpoint that it was not named for: one of the file to none of the command line or of a
    variable, and one of a variable to none of the file, which somebody else may have written. Variables do
    not replace one half of a pair in a judge's table.
    """
    base, key = options.api_base, options.api_key_env
    from_base, from_key = options.rank("api_base"), options.rank("api_key_env")
    if table is not None and from_base < 3 and (table.api_base or table.api_key_env):
        return {
            "api_base": table.api_base,
            "api_key_env": key if from_key == 3 else table.api_key_env,
        }
    if table is not None and from_base < 2:
        base, key = None, key if from_key > 1 else None
    elif from_base not in (0, from_key) and 1 in (from_base, from_key) and from_key < 3:
        key = None
    return {"api_base": base, "api_key_env": key}


def _other_provider(name: str, options: Options) -> bool:
    """Tell if the source of the key, the file or a variable, names models of other providers only."""
    from ruler_cli.judges.providers import provider_of

    tables = {} if options.file is None else options.file.tables
    models = [model for table in tables.values() for model in _judge_names(table)]
    if options.rank("api_key_env") == 2:
        variables = ("RULER_JUDGE_MODEL", "RULER_MODEL", "RULER_ESCALATE")
        models = " ".join(os.environ.get(name, "") for name in variables).split()
    known = {
        provider_of(model) for model in models
    }  # None: a judge's table, or a bare name
    return bool(known) and None not in known and provider_of(name) not in {None, *known}


def _refuse_misspelt(name: str, tables: Iterable[str], file: str) -> None:
    """Raise UsageError for a name that is nearly a table's, and no model's."""
    from ruler_cli.judges.pricing import ModelInfo, model_info
    from ruler_cli.judges.providers import EMBEDDED

    known = name in EMBEDDED or model_info(name) != ModelInfo()
    near = None if known else nearest(name, tables, 0.75)
    if near is not None:
        raise UsageError(
            f"is no judge of {file}",
            f"did you mean {near}?",
            option="model",
            value=name,
        )


def _params(pairs: list[str] | None) -> dict[str, Any]:
    """Parse `-p KEY=VALUE`; VALUE is text if it is not JSON."""
    params: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            name, _, number = pair.partition(":")
            example = (
                f"{name}={number}"
                if name.isidentifier() and number
                else "temperature=0.2"
            )
            remedy = Sentence(
                "write it as KEY=VALUE, e.g. {param:{example}}", example=example
            )
            raise UsageError(remedy, option="param", value=pair)
        if is_key_name(key):
            remedy = Sentence("name the variable that holds it with {api_key_env:VAR}")
            raise UsageError("a key is no parameter", remedy, option="param", value=key)
        try:
            params[key] = json.loads(value)
        except ValueError:
            params[key] = value
        if mistake := param_mistake(key, params[key]):
            raise UsageError(mistake, option="param", value=key)
    return params


def _prices(
    texts: list[str] | None, number: int
) -> Sequence[tuple[float, float] | None]:
    """Return the price of each of `number` judges, from one for all or one for each; None: not given."""
    prices = [price_of(text) for text in texts or ()]
    if not prices:
        return [None] * number
    if len(prices) not in (1, number):
        problem = f"is given {len(prices)} times for {number} judge{'s' * (number > 1)}"
        remedy = Sentence(
            "give it once for all, or once for each in order, the one of {escalate} last"
        )
        raise UsageError(problem, remedy, option="price")
    return prices * number if len(prices) == 1 else prices


def _ledgers(names: list[str] | None) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the ledger that is written, None for none, and the others that are only read."""
    if not names:
        return ledger_path(os.environ.get(LEDGER_VARIABLE)), ()
    first, *others = names
    if _is_pattern(first):
        problem = "the first ledger is written, and a pattern names several"
        raise UsageError(
            problem, "give a file of its own before it", option="ledger", value=first
        )
    if others and "none" in (first, *others):
        problem = "keeps nothing, so no other ledger goes with it"
        raise UsageError(problem, "leave one out", option="ledger", value="none")
    if "" in others:
        raise UsageError("one of them has no name", "give its path", option="ledger")
    matches = [name for other in others for name in _matches(other)]
    return ledger_path(first), tuple(
        path for path in map(ledger_path, matches) if path is not None
    )


def _is_pattern(text: str) -> bool:
    """Tell if a name is a pattern; the name of a file that exists is none."""
    return glob.has_magic(text) and not os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111 - no error for what is no path


def _matches(text: str) -> list[str]:
    """Return the ledgers that a name or a pattern matches, sorted; UsageError if a pattern matches none."""
    if not _is_pattern(text):
        return [text]
    paths = sorted(glob.glob(str(expand_home(text))))  # noqa: PTH207 - a pattern may begin at the root
    if not paths:
        raise UsageError(
            "no file matches this pattern",
            "check the path",
            option="ledger",
            value=text,
        )
    return paths
