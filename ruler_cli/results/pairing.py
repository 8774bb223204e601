"""Two scored files of one input → their groups side by side, by key and content."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, NamedTuple

import orjson

from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.types import Group, Rollout

DigestedGroup = tuple[ScoredGroup, tuple[bytes, ...]]
"""A group, and a digest of the messages of each rollout, which identifies it in another file."""
_NumberedGroup = tuple[int, DigestedGroup]
"""A group, and its number in its file, from 1."""
_FILES = ("first", "second")
_UNSETTLED = 1000
"""Groups that wait although the other file has their key with other rollouts: it may come there again."""


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
    waiting, ended = _WaitingGroups(counts, on_left_out), False
    for number, row in enumerate(zip_longest(first, second), 1):
        if None in row and not ended:
            ended = True
            waiting.leave_alone(int(row[0] is None))
        for side, one in enumerate(row):
            if one is None:
                continue
            like = waiting.take_like(side, one)
            if like is None:
                waiting.add(side, number, one, last=ended)
                continue
            earlier, other = like
            scored = _in_one_order(other, one) if side else _in_one_order(one, other)
            if _labels_differ(*scored):
                waiting.leave_unlike(
                    one[0].key,
                    "its labels in the first file are not those in the second",
                )
                continue
            counts["groups"] += 1
            yield GroupPair(
                _with_labels(*scored),
                _with_labels(*scored[::-1]),
                earlier if side else number,
            )
    waiting.leave_all()


class _WaitingGroups:
    """The groups of each file, by key, whose like may come in the other; it counts those that have none."""

    def __init__(self, counts: dict[str, Any], on_left_out: OnLeftOut) -> None:
        self._counts, self._on_left_out = counts, on_left_out
        self._groups: tuple[dict[str, list[_NumberedGroup]], ...] = ({}, {})
        self._unsettled = deque[str]()

    def take_like(self, side: int, one: DigestedGroup) -> _NumberedGroup | None:
        """Take out the first group of the other file with this key and these rollouts; None without one."""
        key, digests = one[0].key, sorted(one[1])
        others = enumerate(self._groups[1 - side].get(key, ()))
        index = next(
            (i for i, (_, other) in others if sorted(other[1]) == digests), None
        )
        return None if index is None else self._take(1 - side, key, index)

    def add(self, side: int, number: int, one: DigestedGroup, *, last: bool) -> None:
        """Add a group of a file; `last` if the other file has ended."""
        key = one[0].key
        unsettled = key in self._groups[1 - side]
        if last and not unsettled:
            self._leave_alone(side, key)
            return
        self._groups[side].setdefault(key, []).append((number, one))
        if unsettled:  # a key may stand in a file more than once
            self._unsettled.append(key)
            if len(self._unsettled) > _UNSETTLED:
                self._settle(self._unsettled.popleft())

    def leave_alone(self, side: int) -> None:
        """Leave out the groups of a file with a key that does not wait in the other."""
        for key in [
            key for key in self._groups[side] if key not in self._groups[1 - side]
        ]:
            for _ in self._groups[side].pop(key):
                self._leave_alone(side, key)

    def leave_all(self) -> None:
        """Leave out all groups, at the end of both files."""
        for key in list(self._groups[0]):
            while self._settle(key):
                pass
        self.leave_alone(0)
        self.leave_alone(1)

    def leave_unlike(self, key: str, reason: str) -> None:
        """Leave out a group of both files."""
        self._counts["unlike"] += 1
        self._on_left_out(
            LeftOutGroup(key, f"group {key!r}: {reason}; it is left out", alone=False)
        )

    def _leave_alone(self, side: int, key: str) -> None:
        self._counts["alone"][side] += 1
        sentence = (
            f"group {key!r} stands only in the {_FILES[side]} file; it is left out"
        )
        self._on_left_out(LeftOutGroup(key, sentence, alone=True))

    def _settle(self, key: str) -> bool:
        """Leave out the first group of a key in each file; false if a file has none."""
        both = all(key in groups for groups in self._groups)
        if both:
            one, other = (self._take(side, key, 0)[1] for side in (0, 1))
            self.leave_unlike(key, _difference(one[1], other[1]))
        return both

    def _take(self, side: int, key: str, index: int) -> _NumberedGroup:
        same_key = self._groups[side][key]
        taken = same_key.pop(index)
        if not same_key:
            del self._groups[side][key]
        return taken


def _difference(one: Sequence[bytes], other: Sequence[bytes]) -> str:
    """Say how the rollouts of two groups of one key differ."""
    if len(one) != len(other):
        return (
            f"has {len(one)} rollouts in the first file and {len(other)} in the second"
        )
    others = (Counter(other) - Counter(one)).total()
    return f"{others} of its {len(one)} rollouts are others in the second file than in the first"


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
