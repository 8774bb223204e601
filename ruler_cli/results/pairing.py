"""Two scored files of one input → their groups side by side, by key and content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, NamedTuple

from ruler_cli.reading.parse import dump
from ruler_cli.results.scored_groups import ScoredGroup
from ruler_cli.types import Group, Rollout

DigestedGroup = tuple[ScoredGroup, tuple[bytes, ...]]
"""A group, and a digest of the messages of each rollout, which identifies it in another file."""


class GroupPair(NamedTuple):
    """A group in the first file and in the second; `number` is that of the first file's groups, from 1."""

    one: ScoredGroup
    other: ScoredGroup
    number: int


def with_digests(group: Group, scored_group: ScoredGroup) -> DigestedGroup:
    """Add the digests of its rollouts to a group."""
    parts = group.rollouts
    contents = (b"".join(_messages(parts[i]) for i in one.indices) for one in scored_group.rollouts)
    return scored_group, tuple([blake2b(one, digest_size=8).digest() for one in contents])


def _messages(rollout: Rollout) -> bytes:
    try:
        return b"".join(dump(messages) for messages in (rollout.messages, *rollout.histories))
    except RecursionError:  # so deep that it can be read but not written
        return b""


def pair_groups(
    first: Iterator[DigestedGroup],
    second: Iterator[DigestedGroup],
    counts: dict[str, Any],
    on_unlike: Callable[[str], object],
) -> Iterator[GroupPair]:
    """Yield the groups that stand in both files with the same rollouts.

    A rollout with a label in one file has it in both. `counts` gets the number of such `groups`, that of
    `unlike` ones (the key is the same, rollouts or labels differ), and those `alone` in each file.
    `on_unlike` gets a sentence for each group that is left out. Both files are read side by side; memory
    holds the groups that wait for their like in the other file.
    """
    counts |= {"groups": 0, "unlike": 0}
    waiting: tuple[dict[tuple[str, int], tuple[int, DigestedGroup]], ...] = ({}, {})
    times: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for number, row in enumerate(zip_longest(first, second), 1):
        for side, one in enumerate(row):
            if one is None:
                continue
            name = one[0].key
            key = (name, times[side][name])  # a key may stand in a file more than once
            times[side][name] += 1
            if key not in waiting[1 - side]:
                waiting[side][key] = number, one
                continue
            earlier, other = waiting[1 - side].pop(key)
            both = (other, one) if side else (one, other)
            if reason := _unlike(*both):
                counts["unlike"] += 1
                on_unlike(f"group {name!r}: {reason}; it is left out")
                continue
            counts["groups"] += 1
            scored = both[0][0], both[1][0]
            first_number = earlier if side else number
            yield GroupPair(_with_labels(*scored), _with_labels(*scored[::-1]), first_number)
    counts["alone"] = [len(groups) for groups in waiting]
    for side, file in enumerate(("first", "second")):
        for alone, _ in waiting[side]:
            on_unlike(f"group {alone!r} stands only in the {file} file; it is left out")


def _unlike(one: DigestedGroup, other: DigestedGroup) -> str:
    """Say why two groups of one key are not the same; empty if they are."""
    sizes = len(one[1]), len(other[1])
    if sizes[0] != sizes[1]:
        return f"has {sizes[0]} rollouts in the first file and {sizes[1]} in the second"
    if differ := sum(a != b for a, b in zip(one[1], other[1], strict=True)):
        return f"{differ} of its {sizes[0]} rollouts are others in the second file than in the first"
    labels = ((a.label, b.label) for a, b in zip(one[0].rollouts, other[0].rollouts, strict=True))
    if any(None not in pair and pair[0] != pair[1] for pair in labels):
        return "its labels in the first file are not those in the second"
    return ""


def _with_labels(one: ScoredGroup, other: ScoredGroup) -> ScoredGroup:
    """Fill in the labels that a group lacks from its like in the other file."""
    both = zip(one.rollouts, other.rollouts, strict=True)
    rollouts = tuple(replace(a, label=b.label) if a.label is None else a for a, b in both)
    return replace(one, rollouts=rollouts)
