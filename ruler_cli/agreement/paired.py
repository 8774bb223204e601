"""Two scored files of one input → pairs of groups: by key and content, never by place alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from ruler_cli.agreement.scored import Scored, Scores

OnUnlike = Callable[[str], object]
_Key = tuple[str, int]


@dataclass(slots=True)
class Matched:
    """How many groups the two files have in common, and how many they have not.

    `alone` are groups that only one file holds (first, second); `unlike` have one key and not the same
    rollouts or labels.
    """

    groups: int = 0
    unlike: int = 0
    alone: tuple[int, int] = (0, 0)


def paired(
    first: Iterator[Scored], second: Iterator[Scored], matched: Matched, on_unlike: OnUnlike
) -> Iterator[tuple[Scored, Scored]]:
    """Groups of both files that hold the same rollouts, both with the same labels.

    `on_unlike` is told in a sentence of each group that is left out. Files in one order are read side by
    side; what waits for its like in memory is what the other file has not, or has elsewhere.
    """
    waiting: tuple[dict[_Key, Scored], dict[_Key, Scored]] = ({}, {})
    times: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for found in zip_longest(first, second):
        for side, group in enumerate(found):
            if group is None:
                continue
            key = (group.key, times[side][group.key])  # a key may stand in a file more than once
            times[side][group.key] += 1
            other = waiting[1 - side].pop(key, None)
            if other is None:
                waiting[side][key] = group
                continue
            one, two = (other, group) if side else (group, other)
            why = _unlike(one, two)
            if why:
                matched.unlike += 1
                on_unlike(f"group {group.key!r}: {why}; it is left out")
                continue
            matched.groups += 1
            labels = _either(one.labels, two.labels)
            yield replace(one, labels=labels), replace(two, labels=labels)
    matched.alone = (len(waiting[0]), len(waiting[1]))
    for side, name in enumerate(("first", "second")):
        for alone, _ in waiting[side]:
            on_unlike(f"group {alone!r} stands only in the {name} file; it is left out")


def _unlike(one: Scored, other: Scored) -> str:
    """Why two groups of one key are not the same; empty where they are."""
    if len(one.scores) != len(other.scores):
        return f"has {len(one.scores)} rollouts in the first file and {len(other.scores)} in the second"
    differ = sum(a != b for a, b in zip(one.prints, other.prints, strict=True))
    if differ:
        return f"{differ} of its {len(one.prints)} rollouts are others in the second file than in the first"
    if any(None not in (a, b) and a != b for a, b in zip(one.labels, other.labels, strict=True)):
        return "its labels in the first file are not those in the second"
    return ""


def _either(one: Scores, other: Scores) -> Scores:
    """The label of a rollout where either file has it."""
    return tuple(a if a is not None else b for a, b in zip(one, other, strict=True))
