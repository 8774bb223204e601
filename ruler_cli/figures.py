"""What the scores of a batch are worth, in figures: part of a run's summary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bin:
    """A part of the slot curve: rollouts shown between `start` and `stop`, from 0 (first) to 1 (last).

    `mean` is how far their scores are above the mean of all shown with them, `error` its standard
    error, `scores` how many there are.
    """

    start: float
    stop: float
    mean: float
    error: float | None
    scores: int


@dataclass(frozen=True, slots=True)
class Length:
    """Scores against length, within groups.

    `slope` is what a rollout of twice the bytes gets more, `error` its standard error, with a group as
    the unit; `correlation` is of the score with the logarithm. `groups` are those whose rollouts differ
    in length.
    """

    slope: float
    error: float
    correlation: float
    groups: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two judges that scored the same rollouts.

    `correlation` is of their scores within groups, over `rollouts`. `errors` is the same of what is left
    of both once the original reward is taken out, over the `rewarded` rollouts that have one: what two
    judges get wrong together no panel of them puts right. None where too little is known.
    """

    judges: tuple[str, str]
    correlation: float | None
    rollouts: int
    errors: float | None
    rewarded: int


@dataclass(frozen=True, slots=True)
class Odd:
    """A rollout whose score contradicts its outcome: its group's key, its number in it from 1, its score."""

    group: str
    rollout: int
    score: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of the scores of a batch.

    `groups` were scored; `tie_rate` is the share of them without relative signal, `degraded` counts
    those of which a pass failed. `slot_curve` is over `slot_groups` groups and `debiased` tells that it
    was subtracted. `reliability` counts groups by tenths of it, 0.0 to 0.1 first, `reliability_median`
    is over those. `noise` is the standard deviation of one score over passes, all groups together.
    `flawed` passed their check with a score below 0.5, `near_misses` failed with one from 0.5 on: the
    most extreme of them are listed. `without_outcome` are rollouts of which a verifier said nothing
    although it did of others, or although outcomes were asked for.
    """

    groups: int = 0
    tie_rate: float | None = None
    degraded: int = 0
    slot_curve: tuple[Bin, ...] = ()
    slot_groups: int = 0
    debiased: bool = False
    length: Length | None = None
    judges: tuple[Pair, ...] = ()
    reliability: tuple[int, ...] = (0,) * 10
    reliability_median: float | None = None
    noise: float | None = None
    flawed: int = 0
    flawed_listed: tuple[Odd, ...] = ()
    near_misses: int = 0
    near_misses_listed: tuple[Odd, ...] = ()
    without_outcome: int = 0
