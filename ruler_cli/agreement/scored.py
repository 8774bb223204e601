"""A group of a scored file → what is measured of it: scores, labels, places, lengths, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.chat import first_turn
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import number
from ruler_cli.marked.labels import LARGEST, label_of
from ruler_cli.records import Group, Record, Rollout

MOST_JUDGES = 8
"""Judges of a panel that are told apart; a file that names more in its marks is damaged or hostile."""
_DIGITS = 9
"""Decimals of a score that count: a mean over passes in another order of addition is the same score."""

Scores = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """One group, its rollouts in input order; None: there is none that can be used.

    `judges` are the scores of each judge of a panel. `places` are where a rollout was shown, the mean
    over all passes, from 0 (first) to 1 (last); `sizes` bytes of what the agent did, as JSON; `cost` in
    USD for the whole group; `prints` digests of each rollout's messages, empty where none were wanted.
    """

    key: str
    scores: Scores
    labels: Scores
    places: Scores = ()
    sizes: tuple[int, ...] = ()
    judges: Mapping[str, Scores] = field(default_factory=dict)
    cost: float | None = None
    prints: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Seen:
    """What a file held, in rollouts; what could not be used is never taken for a zero.

    `failed`: not scored by ruler; `unmarked`: without a mark; `odd_scores`: marked as scored, by what is
    no finite number; `moved`: scored, but by --blend or --order-by-outcome away from what judges said;
    `unlabelled`: without a label; `outcomes`: labelled by what a verifier or a person said, for want of a
    reward; `odd_labels`: with a label that is no number; `own_labels`: whose label, where the user said
    that it stands, is the score itself.
    """

    groups: int = 0
    rollouts: int = 0
    scored: int = 0
    failed: int = 0
    unmarked: int = 0
    odd_scores: int = 0
    moved: int = 0
    unlabelled: int = 0
    outcomes: int = 0
    odd_labels: int = 0
    own_labels: int = 0
    odd_costs: int = 0
    more_judges: int = 0
    names: dict[str, int] = field(default_factory=dict)

    @property
    def marked(self) -> int:
        """Rollouts that `ruler score` has written a mark on."""
        return self.scored + self.failed + self.odd_scores

    @property
    def complete(self) -> bool:
        """Whether every rollout has a score and a label."""
        return not (
            self.failed
            + self.unmarked
            + self.odd_scores
            + self.unlabelled
            + self.odd_labels
            + self.more_judges
        )


class Extract:
    """Reads the marks of one scored file, group by group, and counts in `seen` what it finds.

    `given`: labels stand where the user said, which the reader hands over as the outcome; else a label
    is the first original reward, or where there is none the outcome that the format knows. `prints`:
    whether rollouts are to be known again in another file.
    """

    def __init__(self, reader: Reader, *, given: bool, prints: bool = False) -> None:
        self._reader, self._given, self._prints = reader, given, prints
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})
        self._judges: dict[str, None] = {}
        self.seen = Seen()

    def group(self, group: Group) -> Scored:
        """One group; rollouts that are parts of one count once."""
        marks: list[Mapping[str, Any] | None] = []
        told: list[tuple[Mapping[str, Any] | None, Rollout]] = []  # whose label counts, with its own mark
        sizes: list[int] = []
        prints: list[bytes] = []
        member_at: dict[str, int] = {}
        for record in group.records:
            value = self._value(record)
            for rollout in record.rollouts:
                text = _text(rollout)
                at = None if rollout.member is None else member_at.get(rollout.member)
                if at is not None:
                    sizes[at] += len(text)
                    prints[at] = _digest(prints[at] + text)
                    if self._tells_more(rollout, told[at][1]):
                        told[at] = (self._mark(value, rollout), rollout)
                    continue
                if rollout.member is not None:
                    member_at[rollout.member] = len(told)
                marks.append(self._mark(value, rollout))
                told.append((marks[-1], rollout))
                sizes.append(len(text))
                prints.append(_digest(_json(rollout.messages) + text) if self._prints else b"")
        self.seen.groups += 1
        self.seen.rollouts += len(told)
        return Scored(
            group.key,
            tuple(self._score(mark) for mark in marks),
            tuple(self._label(mark, rollout) for mark, rollout in told),
            tuple(_place(mark) for mark in marks),
            tuple(sizes),
            self._panel(marks),
            self._cost(group, marks),
            tuple(prints) if self._prints else (),
        )

    def _value(self, record: Record) -> dict[str, Any]:
        """The record as it stands; the groups of one columnar line share it."""
        if self._line[0] is not record.line.raw:
            try:
                self._line = (record.line.raw, parse(record.line.raw))
            except (RecursionError, UnreadableError):  # at the very depth that the reader could just read
                self._line = (record.line.raw, {})
        return self._line[1]

    def _score(self, mark: Mapping[str, Any] | None) -> float | None:
        if mark is None or "status" not in mark:
            self.seen.unmarked += 1
            return None
        if mark["status"] != "scored":
            self.seen.failed += 1
            return None
        # a score with the reward in it agrees with the reward: what the judge said is what is measured
        moved = mark.get("judge_score") is not None
        found = _finite(mark.get("judge_score" if moved else "score"))
        if found is None:
            self.seen.odd_scores += 1
            return None
        self.seen.scored += 1
        self.seen.moved += moved
        name = mark.get("judge")
        if isinstance(name, str) and (name in self.seen.names or len(self.seen.names) < MOST_JUDGES):
            self.seen.names[name] = self.seen.names.get(name, 0) + 1
        return found

    def _mark(self, value: dict[str, Any], rollout: Rollout) -> Mapping[str, Any] | None:
        return self._reader.mark(value, rollout) if value else None

    def _tells_more(self, part: Rollout, before: Rollout) -> bool:
        """Whether the label of a rollout is a later part's: dumps name it on the last that has one."""
        if self._given:
            return part.outcome is not None
        return part.reward is not None or (part.outcome is not None and before.reward is None)

    def _label(self, mark: Mapping[str, Any] | None, rollout: Rollout) -> float | None:
        raw = rollout.outcome if self._given else rollout.reward
        if not self._given and mark is not None and mark.get("independent_reward") is None:
            # the dump had no reward before ruler wrote its score there: a score is no label of itself
            score = _finite(mark.get("score"))
            raw = None if score is not None and number(raw) == score else raw
        if raw is None and rollout.outcome is not None:
            self.seen.outcomes += 1
            raw = rollout.outcome
        if raw is None:
            self.seen.unlabelled += 1
            return None
        found = label_of(raw)
        self.seen.odd_labels += found is None
        own = _finite(mark.get("score")) if self._given and mark is not None else None
        self.seen.own_labels += found is not None and found == own
        return found

    def _panel(self, marks: Sequence[Mapping[str, Any] | None]) -> dict[str, Scores]:
        by_judge: dict[str, list[float | None]] = {}
        for i, mark in enumerate(marks):
            told = mark.get("judges") if mark is not None and mark.get("status") == "scored" else None
            if not isinstance(told, Mapping):
                continue
            for name, score in told.items():
                if name not in self._judges and len(self._judges) >= MOST_JUDGES:
                    self.seen.more_judges += 1
                    continue
                self._judges[name] = None
                by_judge.setdefault(name, [None] * len(marks))[i] = _finite(score)
        return {name: tuple(scores) for name, scores in by_judge.items()}

    def _cost(self, group: Group, marks: Sequence[Mapping[str, Any] | None]) -> float | None:
        """USD for the group: its part stands on every rollout, or once on the record."""
        holders = [mark.get("group") for mark in marks if mark is not None]
        if self._reader.format.shape == "group" and group.records:
            holders.append(self._value(group.records[0]).get("ruler"))
        for holder in holders:
            if isinstance(holder, Mapping) and holder.get("cost_usd") is not None:
                found = _finite(holder["cost_usd"])
                if found is not None and found >= 0:
                    return found
                self.seen.odd_costs += 1
                return None
        return None


def _finite(value: Any) -> float | None:
    """A number that stands as a number; neither a truth value nor text is a score."""
    found = number(value) if type(value) in (int, float) else None
    return None if found is None or abs(found) > LARGEST else round(found, _DIGITS)


def _place(mark: Mapping[str, Any] | None) -> float | None:
    """The mean place over passes; None where a mark tells none, or what is no place."""
    told = mark.get("slots") if mark is not None else None
    if not isinstance(told, list) or not told:
        return None
    found = [place for place in map(_finite, told) if place is not None and 0 <= place <= 1]
    return math.fsum(found) / len(found) if len(found) == len(told) else None


def _text(rollout: Rollout) -> bytes:
    """What the agent did, as JSON; the prompt is the same for all of a group."""
    messages = rollout.messages
    return b"".join(_json(part) for part in (messages[first_turn(messages) :], *rollout.histories))


def _json(messages: Any) -> bytes:
    try:
        return dump(messages)
    except RecursionError:  # so deep that it can be read but not written
        return b""


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).digest()
