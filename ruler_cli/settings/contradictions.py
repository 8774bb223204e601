"""Settings that cannot be: of another type, out of bounds, or in contradiction with one another."""

from __future__ import annotations

import inspect
import math
import re
import sys
from dataclasses import is_dataclass
from functools import partial
from itertools import combinations
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ruler_cli.errors import Sentence, UsageError, WrongShapeError
from ruler_cli.settings.models import (
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
    param_mistake,
)
from ruler_cli.settings.rubric import scale_mistake

_MOST = sys.float_info.max
"""The largest number that is finite."""


def _refuse_types(settings: Any) -> None:
    """Raise WrongShapeError if a value has another type than its field, as a program may give it."""
    if not isinstance(settings, ScoreSettings):
        kind = type(settings).__name__
        raise WrongShapeError(
            f"settings: is of type {kind}; give settings(model=NAME) or a ScoreSettings"
        )
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
        return isinstance(value, Integral if hint is int else Real) and not isinstance(
            value, bool
        )
    return isinstance(value, origin or hint)


def _mismatch(value: Any, hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"is none of {', '.join(map(repr, get_args(hint)))}"
    form = (
        hint.__name__
        if isinstance(hint, type)
        else re.sub(r"[\w.]+\.(?=\w)", "", str(hint))
    )
    kind = type(value).__name__
    if isinstance(value, list | tuple) and value:
        kind += f"[{', '.join([type(item).__name__ for item in value[:3]])}]"
    return f"is of type {kind}; give {form}"


def _refuse_numbers(settings: ScoreSettings) -> None:
    """Raise UsageError if a number is out of its bounds, or none."""
    ask, pool, combine, judges = (
        settings.ask,
        settings.pool,
        settings.combine,
        settings.judges,
    )
    failures = () if settings.most_failures is None else (settings.most_failures,)
    limited: list[PoolSettings | JudgeSettings] = [pool, *judges]
    rows: list[tuple[str, float | None, float, float]] = [
        ("passes", ask.passes, 1, math.inf),
        ("group_size", ask.group_size, 2, math.inf),
        ("context_tokens", ask.context_tokens, 1, math.inf),
        ("min_passes", combine.min_passes, 1, math.inf),
        ("blend", combine.blend, 0, 1),
        ("retries", pool.retries, 0, math.inf),
        ("wait_for_judge", pool.wait_for_judge, 0, math.inf),
        ("max_cost", pool.max_cost, 0, math.inf),
        *(
            ("max_failures", each.number, 0, 100 if each.percent else _MOST)
            for each in failures
        ),
        ("grace", settings.grace, 0, math.inf),
        *(("concurrency", each.concurrency, 1, math.inf) for each in limited),
        *(("max_outage", each.max_outage, 0, math.inf) for each in limited),
        *(("rpm", each.rpm, 0.01, math.inf) for each in limited),
        *(("tpm", each.tpm, 1, math.inf) for each in limited),
        *(("timeout", judge.timeout, 0.001, math.inf) for judge in judges),
        *(("price", usd, 0, _MOST) for judge in judges for usd in judge.price or ()),
    ]
    for option, value, least, most in rows:
        if value is not None and not least <= value <= most:  # `nan` is not, either
            bounds = (
                f"from {least:g} to {most:g}"
                if most < _MOST
                else f"of {least:g} or more"
            )
            raise UsageError(
                f"give a number {bounds}", option=option, value=f"{value:g}"
            )


def _refuse_judges(settings: ScoreSettings) -> None:
    """Raise UsageError if a judge has no name of its own, or a key among its parameters, or no fallback."""
    judges = settings.judges
    names = [judge.label for judge in judges]
    for name, value in [pair for judge in judges for pair in judge.params.items()]:
        mistake = param_mistake(name, value)
        if name == "api_key":  # it would be sent in the body of the request
            mistake = "give it as JudgeSettings(api_key=…)"
        if mistake:
            raise UsageError(
                f"`{name}` is no parameter of a call", mistake, place="params"
            )
    for judge, name in zip(judges, names, strict=True):
        wrong = partial(
            UsageError, option="escalate" if judge is settings.escalate else "model"
        )
        if not name.strip():
            raise wrong("the judge has no name")
        if name != name.strip() or "," in name:
            each = [one.strip() for one in name.split(",") if one.strip()]
            split = " ".join(f"{{model:{{name{i}}}}}" for i in range(len(each)))
            remedy = Sentence(
                f"write {split}", **{f"name{i}": one for i, one in enumerate(each)}
            )
            raise wrong("is no one name", remedy, value=name)
        if "://" in name:
            remedy = Sentence(
                "give it as {api_base:URL}, and the model's name there as {model}"
            )
            raise wrong("is an address", remedy)
        if name.startswith("-"):
            raise wrong(f"its value is missing in front of {name}")
        if name.endswith("/"):
            raise wrong(
                "the model's own name is missing behind its provider", value=name
            )
        if names.count(name) > 1:
            remedy = Sentence("{passes} asks one judge several times")
            raise UsageError(f"{name} is named twice as a judge", remedy)
    for judge in judges:
        _refuse_function(judge)
    if settings.fallback and not settings.panel:
        raise UsageError(
            "there is no other judge to fall back on",
            "name another one",
            option="fallback",
        )


_WAYS = ("api_base", "api_key", "api_key_env")
"""Settings of the way to a judge, which a function has by itself."""


def _refuse_function(judge: JudgeSettings) -> None:
    """Raise an error if a judge's function is not asynchronous, or has settings of an endpoint beside it."""
    if judge.ask is None:
        return
    if not any(map(inspect.iscoroutinefunction, (judge.ask, type(judge.ask).__call__))):
        problem = "`ask` is no asynchronous function"
        raise WrongShapeError(
            problem, "define it with `async def`", place=f"judge {judge.label}"
        )
    ways = [name for name in _WAYS if getattr(judge, name) is not None] + ["via"] * (
        judge.via != "auto"
    )
    if ways:
        problem = "its function calls the model by itself"
        raise UsageError(
            problem, f"leave `{ways[0]}` out, or `ask`", place=f"judge {judge.label}"
        )


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if options of one run contradict one another, or cannot be by themselves.

    A group gets 2 passes first, see `judging.adaptive.FIRST`.
    """
    _refuse_types(settings)
    _refuse_judges(settings)
    _refuse_numbers(settings)
    ask, combine = settings.ask, settings.combine
    if ask.rubric is not None and not ask.rubric.strip():
        raise UsageError(
            "is empty",
            "give a text, or leave it out for the built-in one",
            option="rubric",
        )
    if mistake := scale_mistake(ask.rubric):
        raise UsageError(mistake, option="rubric")
    averaged = settings.panel and not settings.fallback
    judges = settings.judges
    for one, other in combinations(judges, 2):
        if (one.model, one.params) == (other.model, other.params):
            problem = (
                f"judges {one.label} and {other.label} are one judge to the ledger, which keeps replies by "
                f"model ({one.model}) and parameters"
            )
            raise UsageError(problem, "leave one out, or set them apart with params")
    _refuse_passes(settings)
    if combine.standardize and not averaged:
        remedy = Sentence("name several for a panel, without {fallback}")
        raise UsageError("there is one judge only", remedy, option="standardize")
    if combine.debias and ask.order == "input":
        problem = "in input order a position says what the rollout is"
        raise UsageError(problem, Sentence("leave out {order:input}"), option="debias")
    deciding = (
        "adaptive" if settings.adaptive else "escalate" if settings.escalate else ""
    )
    if settings.draw is not None and deciding:
        problem = f"{{{deciding}}} decides over groups that are neighbours in INPUT, and drawn ones are not"
        raise UsageError(
            Sentence(problem),
            "leave one of the two out",
            option="spend",
            value="spread",
        )
    needing_all = (
        ("adaptive", settings.adaptive, "give {passes:2} here, and {adaptive}", ""),
        ("escalate", settings.escalate, "leave it out here, and give it", ""),
        (
            "debias",
            combine.debias,
            "leave it out here, and give it",
            ": it costs no call",
        ),
        (
            "standardize",
            combine.standardize,
            "leave it out here, and give it",
            ": it costs no call",
        ),
    )
    for option, given, instead, cost in needing_all:
        if given and settings.input.shard is not None:
            last = (
                " to the last run, over the whole file with the {ledger} of every shard"
            )
            problem = "needs the replies to all groups, and a shard has some"
            raise UsageError(problem, Sentence(instead + last + cost), option=option)


def _refuse_passes(settings: ScoreSettings) -> None:
    """Raise UsageError if there are too few passes for what is to be done with them."""
    ask, least = settings.ask, settings.combine.min_passes
    averaged = settings.panel and not settings.fallback
    if ask.passes < 2 and settings.adaptive:
        remedy = Sentence("give {passes:3} or more")
        raise UsageError(
            Sentence("{adaptive} spends 2 passes on every group first"), remedy
        )
    if ask.passes < 2 and settings.escalate and not averaged:
        remedy = Sentence("give {passes:2} or more")
        raise UsageError(
            "one pass does not tell what is resolved", remedy, option="escalate"
        )
    wrong = partial(UsageError, option="min_passes", value=least)
    if least > ask.passes:
        raise wrong(
            Sentence(
                "is more than {passes:{most}}, so no group could be scored",
                most=ask.passes,
            )
        )
    if least > 2 and settings.adaptive:
        raise wrong(
            Sentence("with {adaptive} most groups get 2 passes"), "give 2 or less"
        )
    if least > 2 and settings.escalate:
        problem = Sentence(
            "the judge of {escalate} gives 2 passes, so its scores would never count"
        )
        raise wrong(problem, "give 2 or less")
