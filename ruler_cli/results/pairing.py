"""Two scored files of one input → their groups side by side, by key and content."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.types import Group, Rollout

DigestedGroup = tuple[ScoredGroup, tuple[bytes, ...]]
"""A group, and a digest of the messages of each rollout, which identifies it in another file."""
_Waiting = dict[str, dict[tuple[bytes, ...], deque[tuple[int, DigestedGroup]]]]
"""Groups of a file that have not found their like, by key and digests, with their number from 1."""
_FILES = ("first", "second")


class GroupPair(NamedTuple):
    """A group in the first file and in the second; `number` is that of the first file's groups, from 1.

    The rollouts of both are in the order of the first file.
    """

    one: ScoredGroup
    other: ScoredGroup
    number: int


class LeftOutGroup(NamedTuple):
    """A group that is not compared, and a sentence that says why; `alone`: the other file lacks its key."""

    key: str
    sentence: str
    alone: bool


OnLeftOut = Callable[[LeftOutGroup], object]


def with_digests(group: Group, scored_group: ScoredGroup) -> DigestedGroup:
    """Add the digests of its rollouts to a group."""
    parts = group.rollouts
    contents = (
        b"".join(_messages(parts[i], i) for i in one.indices)
        for one in scored_group.rollouts
    )
    return scored_group, tuple(
        [blake2b(one, digest_size=8).digest() for one in contents]
    )


def _messages(rollout: Rollout, place: int) -> bytes:
    try:
        return b"".join(
            _canonical(messages) for messages in (rollout.messages, *rollout.histories)
        )
    except (
        RecursionError
    ):  # so deep that it can be read but not written: the same one has the same place
        return b"%d" % place


def _canonical(messages: list[Any]) -> bytes:
    """Encode messages alike, in any order of keys; a null member of a message is as good as none."""
    shown = [
        {name: value for name, value in message.items() if value is not None}
        if isinstance(message, dict)
        else message
        for message in messages
    ]
    try:
        return orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, a huge integer
        return json.dumps(shown, sort_keys=True).encode()


def pair_groups(
    first: Iterator[DigestedGroup],
    second: Iterator[DigestedGroup],
    counts: dict[str, Any],
    on_left_out: OnLeftOut,
) -> Iterator[GroupPair]:
    """Yield the groups that stand in both files with the same rollouts, each in any order.

    A rollout with a label in one file has it in both. `counts` gets the number of such `groups`, that of
    `unlike` ones (the key is the same, rollouts or labels differ), and those `alone` in each file.
    `on_left_out` gets each other group. Both files are read side by side; memory holds the groups that may
    still find their like in the other file.
    """
    counts |= {"groups": 0, "unlike": 0, "alone": [0, 0]}
    waiting: tuple[_Waiting, _Waiting] = ({}, {})

    def leave_alone(side: int, key: str) -> None:
        counts["alone"][side] += 1
        sentence = f"group {key!r} is only in the {_FILES[side]} file; it is left out"
        on_left_out(LeftOutGroup(key, sentence, alone=True))

    def leave_unlike(key: str, reason: str) -> None:
        counts["unlike"] += 1
        sentence = f"group {key!r}: {reason}; it is left out"
        on_left_out(LeftOutGroup(key, sentence, alone=False))

    for number, row in enumerate(zip_longest(first, second), 1):
        for side, one in enumerate(row):
            if one is None:
                continue
            key, content = one[0].key, tuple(sorted(one[1]))
            others = waiting[1 - side].get(key, {})
            if content not in others:
                if row[1 - side] is None and not others:  # the other file has ended
                    leave_alone(side, key)
                else:
                    like = waiting[side].setdefault(key, {})
                    like.setdefault(content, deque()).append((number, one))
                continue
            earlier, other = others[content].popleft()
            if not others[content]:
                del others[content]
            scored = _in_one_order(other, one) if side else _in_one_order(one, other)
            if _labels_differ(*scored):
                leave_unlike(key, "its labels in the two files differ")
                continue
            counts["groups"] += 1
            yield GroupPair(
                _with_labels(*scored),
                _with_labels(*scored[::-1]),
                earlier if side else number,
            )
    for key in dict.fromkeys((*waiting[0], *waiting[1])):
        left = [
            sorted(chain(*side.get(key, {}).values()), key=itemgetter(0))
            for side in waiting
        ]
        for a, b in zip_longest(*left):
            if a and b:
                leave_unlike(key, _difference(a[1][1], b[1][1]))
            else:
                leave_alone(int(a is None), key)


def _difference(one: Sequence[bytes], other: Sequence[bytes]) -> str:
    """Say how the rollouts of two groups of one key differ."""
    if len(one) != len(other):
        return (
            f"has {len(one)} rollouts in the first file and {len(other)} in the second"
        )
    others = (Counter(other) - Counter(one)).total()
    return f"{others} of its {len(one)} rollouts differ between the files"


def _in_one_order(
    one: DigestedGroup, other: DigestedGroup
) -> tuple[ScoredGroup, ScoredGroup]:
    """Put the rollouts of the second group in the order of the first; equal ones stay in their order."""
    if one[1] == other[1]:
        return one[0], other[0]
    by_digest: dict[bytes, deque[ScoredRollout]] = {}
    for digest, rollout in zip(other[1], other[0].rollouts, strict=True):
        by_digest.setdefault(digest, deque()).append(rollout)
    return one[0], replace(
        other[0], rollouts=tuple([by_digest[digest].popleft() for digest in one[1]])
    )


def _labels_differ(one: ScoredGroup, other: ScoredGroup) -> bool:
    labels = (
        (a.label, b.label) for a, b in zip(one.rollouts, other.rollouts, strict=True)
    )
    return any(None not in pair and pair[0] != pair[1] for pair in labels)


def _with_labels(one: ScoredGroup, other: ScoredGroup) -> ScoredGroup:
    """Fill in the labels that a group lacks from its like in the other file."""
    both = zip(one.rollouts, other.rollouts, strict=True)
    rollouts = tuple(
        replace(a, label=b.label) if a.label is None else a for a, b in both
    )
    return replace(one, rollouts=rollouts)
