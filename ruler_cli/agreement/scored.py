"""A group of a scored file → what is measured of it: scores, labels, places, lengths, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ruler_cli.files.parse import dump
from ruler_cli.formats.reader import Reader
from ruler_cli.marked.read import MOST_JUDGES, Marks
from ruler_cli.marked.values import MarkedRollout
from ruler_cli.records import Group, Rollout

_JUDGES = "judges."

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
        self._marks, self._given, self._prints = Marks(reader, given=given), given, prints
        self._judges: dict[str, None] = {}
        self.seen = Seen()

    def group(self, group: Group) -> Scored:
        """One group; rollouts that are parts of one count once."""
        marked = self._marks.group(group)
        rollouts = marked.rollouts
        self.seen.groups += 1
        self.seen.rollouts += len(rollouts)
        self.seen.odd_costs += "cost_usd" in marked.odd
        for rollout in rollouts:
            self._count(rollout)
        return Scored(
            group.key,
            tuple([rollout.judged for rollout in rollouts]),
            tuple([rollout.label for rollout in rollouts]),
            tuple([rollout.place for rollout in rollouts]),
            tuple([rollout.size for rollout in rollouts]),
            self._panel(rollouts),
            marked.cost,
            _prints(group.rollouts, rollouts) if self._prints else (),
        )

    def _count(self, rollout: MarkedRollout) -> None:
        seen = self.seen
        # a score with the reward in it agrees with the reward: what the judge said is what is measured
        if rollout.judged is not None:
            seen.scored += 1
            seen.moved += rollout.judged != rollout.score
            name = rollout.judge
            if name and (name in seen.names or len(seen.names) < MOST_JUDGES):
                seen.names[name] = seen.names.get(name, 0) + 1
        elif rollout.odd:
            seen.odd_scores += 1
        elif rollout.status == "failed":
            seen.failed += 1
        else:
            seen.unmarked += 1
        seen.unlabelled += not rollout.label_from
        seen.outcomes += not self._given and rollout.label_from == "outcome"
        if rollout.label_from and rollout.label is None:
            seen.odd_labels += 1
        elif self._given and rollout.label is not None and rollout.label == rollout.score:
            seen.own_labels += 1

    def _panel(self, rollouts: Sequence[MarkedRollout]) -> dict[str, Scores]:
        by_judge: dict[str, list[float | None]] = {}
        for i, rollout in enumerate(rollouts):
            if not rollout.judges and not rollout.odd:
                continue
            self.seen.more_judges += rollout.more_judges
            told: dict[str, float | None] = dict(rollout.judges)
            told |= {name.removeprefix(_JUDGES): None for name in rollout.odd if name.startswith(_JUDGES)}
            for name, score in told.items():
                if name not in self._judges and len(self._judges) >= MOST_JUDGES:
                    self.seen.more_judges += 1
                    continue
                self._judges[name] = None
                by_judge.setdefault(name, [None] * len(rollouts))[i] = score
        return {name: tuple(scores) for name, scores in by_judge.items()}


def _prints(rollouts: Sequence[Rollout], marked: Sequence[MarkedRollout]) -> tuple[bytes, ...]:
    """A digest of all that each rollout holds, part by part."""
    return tuple(
        blake2b(b"".join(_json(rollouts[at]) for at in one.at), digest_size=8).digest() for one in marked
    )


def _json(rollout: Rollout) -> bytes:
    try:
        return b"".join(dump(messages) for messages in (rollout.messages, *rollout.histories))
    except RecursionError:  # so deep that it can be read but not written
        return b""
