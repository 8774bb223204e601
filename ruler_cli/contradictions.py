"""Settings that cannot be: of another type, out of bounds, or in contradiction with one another."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import is_dataclass
from itertools import combinations
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ruler_cli.config import JudgeSettings, PoolSettings, ScoreSettings, param_mistake
from ruler_cli.errors import UsageError, WrongShapeError

_MOST = sys.float_info.max
"""The largest number that is finite."""


def _refuse_types(settings: Any) -> None:
    """Raise WrongShapeError if a value has another type than its field, as a program may give it."""
    if not isinstance(settings, ScoreSettings):
        kind = type(settings).__name__
        raise WrongShapeError(f"settings: is of type {kind}; give ScoreSettings(judge=JudgeSettings(NAME))")
    holders: list[tuple[str, Any]] = [("settings", settings)]
    for place, holder in holders:  # it grows as it is read
        for name, hint in get_type_hints(type(holder)).items():
            value, where = getattr(holder, name), f"{place}.{name}"
            if not _fits(value, hint):
                raise WrongShapeError(f"{where}: {_mismatch(value, hint)}")
            several = value if isinstance(value, list | tuple) else (value,)
            holders += [(where, one) for one in several if is_dataclass(one)]


def _fits(value: Any, hint: Any) -> bool:
    """Tell if a value has the type of a field; a list may stand for a tuple."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False
        kinds = args if args[-1] is not ... else args[:1] * len(value)
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if hint in (int, float):  # also those of numpy
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _mismatch(value: Any, hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"is none of {', '.join(map(repr, get_args(hint)))}"
    form = hint.__name__ if isinstance(hint, type) else re.sub(r"[\w.]+\.(?=\w)", "", str(hint))
    kind = type(value).__name__
    if isinstance(value, list | tuple) and value:
        kind += f"[{', '.join([type(item).__name__ for item in value[:3]])}]"
    return f"is of type {kind}; give {form}"


def _refuse_numbers(settings: ScoreSettings) -> None:
    """Raise UsageError if a number is out of its bounds, or none."""
    ask, pool, combine, judges = settings.ask, settings.pool, settings.combine, settings.judges
    failures = () if settings.max_failures is None else (settings.max_failures,)
    limited: list[PoolSettings | JudgeSettings] = [pool, *judges]
    rows: list[tuple[str, float | None, float, float]] = [
        ("--passes", ask.passes, 1, math.inf),
        ("--group-size", ask.group_size, 2, math.inf),
        ("context_tokens", ask.context_tokens, 1, math.inf),
        ("--min-passes", combine.min_passes, 1, math.inf),
        ("--blend", combine.blend, 0, 1),
        ("--retries", pool.retries, 0, math.inf),
        ("--max-cost", pool.max_cost, 0, math.inf),
        *(("--max-failures", each.number, 0, 100 if each.percent else _MOST) for each in failures),
        ("grace", settings.grace, 0, math.inf),
        *(("--concurrency", each.concurrency, 1, math.inf) for each in limited),
        *(("--max-outage", each.max_outage, 0, math.inf) for each in limited),
        *(("--rpm", each.rpm, 0.01, math.inf) for each in limited),
        *(("--tpm", each.tpm, 1, math.inf) for each in limited),
        *(("--timeout", judge.timeout, 0.001, math.inf) for judge in judges),
        *(("--price", usd, 0, _MOST) for judge in judges for usd in judge.price or ()),
    ]
    for option, value, least, most in rows:
        if value is not None and not least <= value <= most:  # `nan` is not, either
            bounds = f"from {least:g} to {most:g}" if most < _MOST else f"of {least:g} or more"
            raise UsageError(f"{option} {value:g}: give a number {bounds}")


def _refuse_judges(settings: ScoreSettings) -> None:
    """Raise UsageError if a judge has no name of its own, or a key among its parameters, or no fallback."""
    judges = settings.judges
    names = [judge.label for judge in judges]
    for name, value in [pair for judge in judges for pair in judge.params.items()]:
        mistake = param_mistake(name, value, "JudgeSettings(api_base=…)", "JudgeSettings(model=…)")
        if name == "api_key":  # it would be sent in the body of the request
            mistake = "give it as JudgeSettings(api_key=…)"
        if mistake:
            raise UsageError(f"params: `{name}` is no parameter of a call; {mistake}")
    for name in names:
        if not name.strip():
            raise UsageError("-m or --escalate: the judge has no name")
        if name != name.strip() or "," in name:
            split = " ".join(f"-m {one.strip()}" for one in name.split(",") if one.strip())
            raise UsageError(f"-m or --escalate '{name}': is no one name; write {split}")
        if "://" in name:
            raise UsageError(
                "-m or --escalate: is an address; give it as --api-base URL, and the model's name there as -m"
            )
        if name.startswith("-"):
            raise UsageError(f"-m or --escalate: its value is missing in front of {name}")
        if name.endswith("/"):
            raise UsageError(f"-m or --escalate {name}: the model's own name is missing behind its provider")
        if names.count(name) > 1:
            raise UsageError(f"{name} is named twice as a judge; --passes asks one judge several times")
    if settings.fallback and not settings.panel:
        raise UsageError("--fallback needs another judge to fall back on; give -m again")


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if options of one run contradict one another, or cannot be by themselves.

    A group gets 2 passes first, see `judging.adaptive.FIRST`.
    """
    _refuse_types(settings)
    _refuse_judges(settings)
    _refuse_numbers(settings)
    ask, combine = settings.ask, settings.combine
    if ask.rubric is not None and not ask.rubric.strip():
        raise UsageError("rubric: is empty; give a text, or leave it out for the built-in one")
    averaged = settings.panel and not settings.fallback
    judges = settings.judges
    for one, other in combinations(judges, 2):
        if (one.model, one.params) == (other.model, other.params):
            raise UsageError(
                f"judges {one.label} and {other.label} are one judge to the ledger, which keeps replies by "
                f"model ({one.model}) and parameters; leave one out, or set them apart with params"
            )
    if combine.standardize and not averaged:
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if combine.debias and ask.order == "input":
        raise UsageError(
            "--debias: in input order a position says what the rollout is; leave out --order input"
        )
    if ask.passes < 2 and settings.adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if ask.passes < 2 and settings.escalate and not averaged:
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")
    few = f"--min-passes {combine.min_passes}"
    if combine.min_passes > ask.passes:
        raise UsageError(f"{few}: is more than --passes {ask.passes}, so no group could be scored")
    if combine.min_passes > 2 and settings.adaptive:
        raise UsageError(f"{few}: with --adaptive most groups get 2 passes; give 2 or less")
    if combine.min_passes > 2 and settings.escalate:
        raise UsageError(
            f"{few}: the judge of --escalate gives 2 passes, so its scores would never count; give 2 or less"
        )
    if settings.draw is not None and (settings.adaptive or settings.escalate):
        option = "--adaptive" if settings.adaptive else "--escalate"
        raise UsageError(
            f"--spend spread: {option} decides over groups that are neighbours in INPUT, and drawn ones are "
            "not; leave one of the two out"
        )
    needing_all = (
        ("--adaptive", settings.adaptive, "give --passes 2 here, and --adaptive", ""),
        ("--escalate", settings.escalate, "leave it out here, and give it", ""),
        ("--debias", combine.debias, "leave it out here, and give it", ": it costs no call"),
        ("--standardize", combine.standardize, "leave it out here, and give it", ": it costs no call"),
    )
    for option, given, instead, cost in needing_all:
        if given and settings.input.shard is not None:
            raise UsageError(
                f"{option}: needs the replies to all groups, and a shard has some; {instead} to the last "
                f"run, over the whole file with the --ledger of every shard{cost}"
            )
