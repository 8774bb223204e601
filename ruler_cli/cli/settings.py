"""Turn the options of a command line into settings; UsageError says how to write what is wrong."""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ruler_cli.cli.command import long_names, name_sources
from ruler_cli.cli.options import Options
from ruler_cli.cli.units import count
from ruler_cli.config import (
    LEDGER_VARIABLE,
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    MaxFailures,
    PoolSettings,
    ScoreSettings,
    expand_home,
    ledger_path,
    param_mistake,
    shard_of,
)
from ruler_cli.contradictions import refuse_contradictions
from ruler_cli.errors import UsageError
from ruler_cli.keys import is_key_name
from ruler_cli.reading.location import Location
from ruler_cli.suggestions import nearest, other_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ruler_cli.config_file import ConfigFile
    from ruler_cli.config_values import JudgeTable

T = TypeVar("T", bound="DataclassInstance")
_COMMAND_ONLY = ("summary", "quiet", "progress", "engine", "ray_address", "ray_workers")
"""Options of `score` that are for the command line."""


def score_settings(options: Options, source: str, output: str = "") -> ScoreSettings:
    """Return the settings of a run; UsageError if an option is wrong or contradicts another one."""
    with name_sources(options):
        return _checked_settings(options, source, output)


def _checked_settings(options: Options, source: str, output: str) -> ScoreSettings:
    for one in fields(options):
        value = getattr(options, one.name)
        if isinstance(value, float) and math.isnan(value):  # it passes every bound
            option = f"--{one.name.replace('_', '-')}"
            raise UsageError(f"{option} nan: is no number; give one, or leave the option out")
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
        ask=_settings(AskSettings, options, rubric=_rubric(options.rubric)),
        pool=_settings(PoolSettings, options),
        combine=_settings(CombineSettings, options, by_outcome=options.order_by_outcome),
        max_failures=_max_failures(options.max_failures),
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
    shard = None if options.shard is None else shard_of(options.shard)
    return _settings(InputSettings, options, source=source, format=options.format_, shard=shard)


def file_note(options: Options, settings: ScoreSettings, *, quiet: bool = False) -> str | None:
    """Return a sentence on what a run takes from the file of settings; None if that is nothing.

    The file may lie in a directory that somebody else wrote, and it decides where keys and rollouts go: if
    it does, there is a sentence for a `quiet` run too.
    """
    if options.file is None:
        return None
    found = {field: origin.place for field, origin in options.origins.items() if origin.rank == 1}
    lines = {place: field for field, place in reversed(found.items())}  # an alias and its option have one
    taken = [min(long_names(field), key=len)[2:] for field in reversed(lines.values())]
    tables = options.file.judges
    taken += [f"judge {judge.name}" for judge in settings.judges if judge.name in tables]
    sent = [way for judge in settings.judges if (way := _way_of_file(judge, options))]
    if not taken or (quiet and not sent):
        return None
    note = "; ".join([f"settings of {options.file.name}: {', '.join(taken)}", *sent])
    key = options.origins.get("api_key_env")
    keyless = [judge for judge in settings.judges if not judge.api_key_env and judge.api_base]
    if key and key.rank < 3 and any(key.rank == 2 or judge.name not in tables for judge in keyless):
        note += (
            f"; the key of {key.place} is not sent to this endpoint; if it is meant, give --api-key-env VAR"
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
        and (value == getattr(table, name) if table is not None else options.rank(name) == 1)
    ]
    return f"{judge.label} is asked {' '.join(clauses)}" if clauses else ""


def scored_input(options: Options, source: str) -> InputSettings:
    """Return how the records of a scored file are read; its outcome is what `--labels` names."""
    return replace(input_settings(options, source), outcome=options.labels, outcome_option="--labels")


def text_lookup(options: Options) -> Callable[[Iterable[str]], Mapping[str, str]]:
    """Return a lookup of texts by their digests in the ledger of `--ledger`."""
    from ruler_cli.ledger.texts import texts

    path = ledger_path(options.one_ledger or os.environ.get(LEDGER_VARIABLE))
    return partial(texts, [] if path is None else [path])


def settings(**options: Any) -> ScoreSettings:
    """Return the settings of a run from options of `ruler score`, named as on the command line.

    `settings(judge_model=["fast", "strong"], passes=4, max_cost=20)`: a list for an option that is repeated,
    `param` and `price` also as `{"temperature": 0}` and `(2, 8)`. An option that is not given, or None, has
    the value of its variable, else of `ruler.toml` in the working directory, else its default; but
    `ledger=None` keeps no replies. `config` names another file, or "none". UsageError if an option is wrong
    or contradicts another one; nothing is printed.
    """
    from ruler_cli.cli.parse_options import check_options, read_options

    given = {name: value for name, value in options.items() if value is not None}
    if options.get("ledger", "") is None:
        given["ledger"] = "none"
    file = given.pop("config", None)
    words = [] if file is None else ["--config", os.fspath(file)]
    checked = check_options("score", given, read_options("score", words))
    for name in _COMMAND_ONLY:
        if name in given:
            raise UsageError(f"{name}: is for the command, and has no effect from Python; leave it out")
    if checked.dry_run:  # what else it was given for would be sent
        raise UsageError("dry_run: is for the command, and `score_file` would send; leave it out")
    return score_settings(checked, "-", "-")


def other_judges(options: Options, judges: Iterable[JudgeSettings]) -> list[JudgeSettings]:
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
    judges = [_judge(name, price, options) for name, price in zip(names, prices, strict=True)]
    for judge in judges:
        _check_address(judge, options.file)
    return judges


def _prices_of(names: Sequence[str], options: Options) -> Sequence[tuple[float, float] | None]:
    """Return the price of each judge; one of the file is for the judges that the file names, if any."""
    own = [] if options.file is None else _judge_names(options.file.tables.get("score", {}))
    others = max(options.rank("model"), options.rank("escalate")) > 1
    if options.rank("price") != 1 or not own or not others:
        return _prices(options.price, len(names))
    known = dict(zip(own, _prices(options.price, len(own)), strict=True))
    return [known.get(name) for name in names]


def _judge_names(table: Mapping[str, Any]) -> list[str]:
    """Return the judges that a table of the file names, that of `escalate` last."""
    return [*table.get("model", ()), *([table["escalate"]] if "escalate" in table else [])]


def _judge(name: str, price: tuple[float, float] | None, options: Options) -> JudgeSettings:
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
        if not own["api_base"] and options.rank("api_key_env") < 3 and _other_provider(name, options):
            own["api_key_env"] = None
        return _settings(JudgeSettings, options, model=name, params=params, price=price, name="", **own)

    def chosen(option: str) -> bool:
        return options.rank(option) > 1

    way: dict[str, Any] = {
        option: getattr(options, option) if chosen(option) else getattr(table, option) or default
        for option, default in (("via", "auto"), ("timeout", options.timeout))
    }
    way |= _endpoint(options, table)
    limits: dict[str, Any] = {
        option: None if chosen(option) else getattr(table, option)
        for option in ("rpm", "tpm", "concurrency", "max_outage")
    }
    params = {**table.params, **params} if chosen("param") else {**params, **table.params}
    own_price = price if chosen("price") else table.price
    return JudgeSettings(model=table.model, name=name, params=params, price=own_price, **way, **limits)


def _check_address(judge: JudgeSettings, file: ConfigFile | None) -> None:
    """Raise UsageError, which names the judge's table, if its endpoint is no address."""
    table = None if file is None else file.judges.get(judge.name)
    if file is None or table is None or table.api_base is None or judge.api_base != table.api_base:
        return
    from ruler_cli.judges.resolve import check_own_address

    try:
        check_own_address(judge)
    except UsageError as error:
        place, reason = file.place("judges", judge.name), str(error).removeprefix("--api-base: ")
        raise UsageError(f"{place}: [judges.{judge.name}] api_base: {reason}") from None


def _endpoint(options: Options, table: JudgeTable | None) -> dict[str, Any]:
    """Return the endpoint of a judge and the variable of its key, which are a pair.

    A key goes to no endpoint that it was not named for: one of the file to none of the command line or of a
    variable, and one of a variable to none of the file, which somebody else may have written. Variables do
    not replace one half of a pair in a judge's table.
    """
    base, key = options.api_base, options.api_key_env
    from_base, from_key = options.rank("api_base"), options.rank("api_key_env")
    if table is not None and from_base < 3 and (table.api_base or table.api_key_env):
        return {"api_base": table.api_base, "api_key_env": key if from_key == 3 else table.api_key_env}
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
    known = {provider_of(model) for model in models}  # None: a judge's table, or a bare name
    return bool(known) and None not in known and provider_of(name) not in {None, *known}


def _refuse_misspelt(name: str, tables: Iterable[str], file: str) -> None:
    """Raise UsageError for a name that is nearly a table's, and no model's."""
    from ruler_cli.judges.pricing import ModelInfo, model_info
    from ruler_cli.judges.providers import EMBEDDED

    known = name in EMBEDDED or model_info(name) != ModelInfo()
    near = None if known else nearest(name, tables, 0.75)
    if near is not None:
        raise UsageError(f"-m {name}: is no judge of {file}; did you mean {near}?")


def _params(pairs: list[str] | None) -> dict[str, Any]:
    """Parse `-p KEY=VALUE`; VALUE is text if it is not JSON."""
    params: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            name, _, number = pair.partition(":")
            example = f"{name}={number}" if name.isidentifier() and number else "temperature=0.2"
            raise UsageError(f"-p {pair}: write it as KEY=VALUE, e.g. -p {example}")
        if is_key_name(key):
            raise UsageError(f"-p {key}: a key never stands on a command line; use --api-key-env VAR")
        try:
            params[key] = json.loads(value)
        except ValueError:
            params[key] = value
        if mistake := param_mistake(key, params[key], "--api-base URL", "-m NAME"):
            raise UsageError(f"-p {key}: {mistake}")
    return params


def _prices(texts: list[str] | None, number: int) -> Sequence[tuple[float, float] | None]:
    """Return the price of each of `number` judges, from one for all or one for each; None: not given."""
    prices = []
    for text in texts or ():
        try:
            prompt, completion = (float(part) for part in text.split(","))
            if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
                raise ValueError
        except ValueError:
            raise UsageError(
                f"--price {text}: write two numbers, USD per million prompt and completion tokens, e.g. 2,8"
            ) from None
        prices.append((prompt, completion))
    if not prices:
        return [None] * number
    if len(prices) not in (1, number):
        raise UsageError(
            f"--price is given {len(prices)} times for {count(number, 'judge')}; give it once for all, "
            "or once for each in order, the one of --escalate last"
        )
    return prices * number if len(prices) == 1 else prices


def _max_failures(text: str | None) -> MaxFailures | None:
    """Parse `--max-failures N|P%`."""
    if text is None:
        return None
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) if percent else int(text)
        if not 0 <= number <= (100 if percent else 10**12):
            raise ValueError
    except ValueError:
        raise UsageError(f"--max-failures {text}: write a number, e.g. 20, or a share, e.g. 5%") from None
    return MaxFailures(number, percent)


_ENDING = re.compile(r"[^\s.].*\.[A-Za-z]\w{0,7}")


def _rubric(text: str | None) -> str | None:
    """Return the text of `--rubric TEXT` or `@FILE`, None without the option.

    One word that is a path, or that ends as a file's name does, is no text.
    """
    if text is None:
        return None
    if not text.strip("@ \t\n"):
        raise UsageError("--rubric: is empty; give a text or @FILE, or leave it out for the built-in one")
    if not text.startswith("@"):
        short = len(text) < 4096
        if short and os.path.isfile(text):  # noqa: PTH113 - no error for what is no path
            raise UsageError(f"--rubric {text}: is a file; write @{text} to have it read")
        if short and len(text.split()) == 1 and ("/" in text or _ENDING.fullmatch(text)):
            advice = other_file(text, "write @FILE to have one read, or a text of several words", before="@")
            raise UsageError(f"--rubric {text}: there is no such file; {advice}")
        return text
    try:
        rubric = Path(text[1:]).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        advice = other_file(text[1:], "check the path", before="@")
        raise UsageError(f"--rubric {text}: no such file; {advice}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--rubric {text}: cannot be read: {why}") from None
    if not rubric:
        raise UsageError(f"--rubric {text}: the file is empty")
    return rubric


def _ledgers(names: list[str] | None) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the ledger that is written, None for none, and the others that are only read."""
    if not names:
        return ledger_path(os.environ.get(LEDGER_VARIABLE)), ()
    first, *others = names
    if _is_pattern(first):
        raise UsageError(
            f"--ledger {first}: the first ledger is written, and a pattern names several; write --ledger "
            f"PATH --ledger '{first}'"
        )
    if others and "none" in (first, *others):
        raise UsageError("--ledger none: keeps nothing, so no other --ledger goes with it; leave one out")
    if "" in others:
        raise UsageError("--ledger: one of them has no name; give its path")
    matches = [name for other in others for name in _matches(other)]
    return ledger_path(first), tuple(path for path in map(ledger_path, matches) if path is not None)


def _is_pattern(text: str) -> bool:
    """Tell if a name is a pattern; the name of a file that exists is none."""
    return glob.has_magic(text) and not os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111 - no error for what is no path


def _matches(text: str) -> list[str]:
    """Return the ledgers that a name or a pattern matches, sorted; UsageError if a pattern matches none."""
    if not _is_pattern(text):
        return [text]
    paths = sorted(glob.glob(str(expand_home(text))))  # noqa: PTH207 - a pattern may begin at the root
    if not paths:
        raise UsageError(f"--ledger {text}: no file matches this pattern; check the path")
    return paths
