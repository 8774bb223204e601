"""What a report says: the figures of a run, as values; each page shows the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ruler_cli.figures import Length
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Usage

Ends = tuple[float, float]
"""From and to; to itself belongs to the next stretch, but in the last one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """How many there are in a stretch."""

    ends: Ends
    n: int


@dataclass(frozen=True, slots=True)
class Cell:
    """How many rollouts have a score in one stretch and something else in another."""

    score: Ends
    other: Ends
    n: int


@dataclass(frozen=True, slots=True)
class SlotBar:
    """Rollouts shown in a stretch of places, 0 first, 1 last: how far scores are above their pass's mean.

    `error` is the standard error of `mean`, None where a single group says nothing of it.
    """

    ends: Ends
    mean: float
    error: float | None
    n: int


@dataclass(frozen=True, slots=True)
class TimeBar:
    """Groups judged in a stretch of time, and those of them that failed, by kind."""

    ends: Ends
    groups: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence that groups failed with, how many, and the key of the first."""

    kind: str
    reason: str
    groups: int
    first: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures of a run.

    Groups: `groups` are `scored`, `failed` or `unmarked`; the scored ones `tied` or `live`; of
    the tied ones `one_score` have rollouts that differ, and that the judge gave the same. `kinds` are failed
    groups by kind, `reasons` the commonest; `flags` and `judges` and `passes` count groups.
    Rollouts: `rollouts` are `rollouts_scored`, `rollouts_failed` or unmarked; `labelled` have a label,
    `own_labels` the very score for one, `suspects` address a judge.
    `cost` is USD over the `costed` groups that say it; `latency` has p50, p90, p99 and max, in seconds;
    `started` and `ended` are seconds since 1970, of the first and the last group.
    `scores` are rollouts by score, `spreads` groups by the standard deviation of their scores,
    `against_label` rollouts by score and label, of all pairs of unlike labels in a group (`pairs`)
    `against` are ordered the other way, ties as halves, by what the judges said. `slots` is the slot curve
    over `slot_groups`, by what each pass gave: those of several rollouts whose marks tell all of it.
    `lengths` are rollouts by score and bytes, `length` the trend within groups. `reliability` are groups by
    it. `over_time` is in seconds since 1970, or where the file names no time in numbers of groups.
    `untimed` are the groups asked about that tell no time, or one more than a year from the median.
    Quantiles are within 0.5 %. Where a file holds very many different words, the first ones are counted
    by name and the rest as `other`, of numbers of passes as 0. Bars are empty where there is nothing.
    """

    groups: int = 0
    scored: int = 0
    failed: int = 0
    unmarked: int = 0
    tied: int = 0
    one_score: int = 0
    live: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    flags: Mapping[str, int] = field(default_factory=dict)
    judges: Mapping[str, int] = field(default_factory=dict)
    passes: Mapping[int, int] = field(default_factory=dict)
    rollouts: int = 0
    rollouts_scored: int = 0
    rollouts_failed: int = 0
    labelled: int = 0
    own_labels: int = 0
    suspects: int = 0
    cost: float | None = None
    costed: int = 0
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    latency: Mapping[str, float] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    scores: tuple[Bar, ...] = ()
    score_mean: float | None = None
    score_sd: float | None = None
    spreads: tuple[Bar, ...] = ()
    spread_median: float | None = None
    against_label: tuple[Cell, ...] = ()
    pairs: int = 0
    against: float = 0.0
    slots: tuple[SlotBar, ...] = ()
    slot_groups: int = 0
    lengths: tuple[Cell, ...] = ()
    length: Length | None = None
    reliability: tuple[Bar, ...] = ()
    reliability_median: float | None = None
    reliable_groups: int = 0
    over_time: tuple[TimeBar, ...] = ()
    time_unit: Literal["time", "group"] = "time"
    untimed: int = 0

    @property
    def agreement(self) -> float | None:
        """The share of pairs of unlike labels that the scores put in their order."""
        return 1 - self.against / self.pairs if self.pairs else None


Because = Literal["failed", "disagrees", "suspect", "unsure", "tied", "spread", "rest"]
"""Why a group is worth a look: no scores; scores against labels; a rollout that addresses the judge;
few passes for its noise; nothing to learn from; scores far apart; nothing of all that."""


@dataclass(frozen=True, slots=True)
class Telling:
    """A group worth a look, why, and how much so by that: larger is more."""

    group: MarkedGroup
    because: Because
    much: float
