"""What a batch's scores are worth, as lines of the closing block: only what there is to say."""

from __future__ import annotations

from collections.abc import Iterator

from ruler_cli.figures import Figures, Length, Odd, Pair

_GROUPS = 20
"""Below this many groups a curve or a slope is mostly chance."""
_SURE = 2.0
"""Standard errors from which on a slope is told."""
_NAMED = 3
"""Odd rollouts that are named in a line; the summary lists more."""
_LONG = 40
"""Characters of a group's key that are shown."""


def lines(figures: Figures) -> list[str]:
    """One line for each thing that a person should know of the scores."""
    return [*_passes(figures), *_slots(figures), *_length(figures.length), *_judges(figures), *_odd(figures)]


def _passes(figures: Figures) -> Iterator[str]:
    if figures.degraded:
        yield f"degraded: of {_count(figures.degraded, 'group')} a pass brought no scores"
    told = sum(figures.reliability)
    if figures.reliability_median is not None:
        low = sum(figures.reliability[:5])
        where = f", below 0.5 in {low} of {_count(told, 'group')}" if told > 1 else ""
        yield f"reliability: {figures.reliability_median:.2f}{' in the median' * (told > 1)}{where}"


def _slots(figures: Figures) -> Iterator[str]:
    curve = figures.slot_curve
    if figures.slot_groups < _GROUPS or not curve:
        return
    worst = max((b.error for b in curve if b.error is not None), default=None)
    error = "" if worst is None else f" (each ± {worst:.3f} at most)"
    done = ", subtracted" if figures.debiased else ""
    yield f"slot curve, first to last: {' '.join(f'{b.mean:+.3f}' for b in curve)}{error}{done}"


def _length(length: Length | None) -> Iterator[str]:
    if length is None or length.groups < _GROUPS or abs(length.slope) <= _SURE * length.error:
        return
    yield (
        f"length: twice as long scores {length.slope:+.3f} ± {length.error:.3f}, "
        f"correlation {length.correlation:+.2f} within groups"
    )


def _judges(figures: Figures) -> Iterator[str]:
    for pair in figures.judges:
        if pair.correlation is not None:
            yield f"{pair.judges[0]} and {pair.judges[1]}: {_agreement(pair)}"


def _agreement(pair: Pair) -> str:
    within = f"scores correlate {pair.correlation:.2f} within groups"
    return within if pair.errors is None else f"{within}, errors against the reward {pair.errors:.2f}"


def _odd(figures: Figures) -> Iterator[str]:
    kinds = (
        (figures.flawed, figures.flawed_listed, "passed with a score below 0.5 (flawed positives)"),
        (figures.near_misses, figures.near_misses_listed, "failed with a score from 0.5 on (near misses)"),
    )
    for number, listed, what in kinds:
        if number:
            yield f"{_count(number, 'rollout')} {what}: {_some(listed, number)}"
    if figures.without_outcome:
        yield f"{_count(figures.without_outcome, 'rollout')} without an outcome"


def _some(listed: tuple[Odd, ...], number: int) -> str:
    named = [f"group {_short(odd.group)} rollout {odd.rollout} ({odd.score:.2f})" for odd in listed[:_NAMED]]
    return ", ".join(named) + (", …" if number > len(named) else "")


def _short(key: str) -> str:
    return key if len(key) <= _LONG else f"{key[:_LONG]}…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
