"""What judges said of a group, as numbers, and what it comes to: ballots → outcome → verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ruler_cli.records import Failure, Usage


@dataclass(frozen=True, slots=True)
class Ballot:
    """One usable answer: what one judge gave the distinct rollouts of one request.

    `judge` is its number in the panel, `turn` the pass and `window` the part of the group that was shown
    at once, from 0 (0 where that was all of it). `bodies` are distinct rollouts in the order shown, so
    that a place in it is a slot; `scores` in [0, 1] and `explanations` are aligned with it.
    """

    judge: int
    turn: int
    window: int
    bodies: tuple[int, ...]
    scores: tuple[float, ...]
    explanations: tuple[str, ...]
    rescaled: bool = False
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Miss:
    """A request that brought no scores: of which judge, pass and window, and why."""

    judge: int
    turn: int
    window: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that was said of a group before it becomes a verdict: no text of the dump, no batch needed.

    `owner[i]` is the distinct body of rollout i, None where it could not be read and `faults[i]` says
    why. `sizes` are bytes of each body, `suspects` bodies whose text addresses a judge. `judges` is how
    many were to score it, `windows` how many parts of a pass (1: all at once). `final` is the judge whose
    scores stand alone because the group was escalated to it. `rewards` are the first original rewards
    of the rollouts, `outcomes` whether a verifier passed them, None where there is none.

    `seconds` is what judges took for their replies, `kept` that none of them had to be asked for, `used`
    the tokens of all replies by judge, whenever they were asked for, `paid` of those that were asked now,
    `ended` when this run had judged it, in seconds since 1970 in UTC.
    """

    owner: tuple[int | None, ...]
    faults: tuple[str, ...]
    sizes: tuple[int, ...]
    ballots: tuple[Ballot, ...] = ()
    misses: tuple[Miss, ...] = ()
    suspects: frozenset[int] = frozenset()
    shortened: int = 0
    judges: int = 1
    windows: int = 1
    final: int | None = None
    rewards: tuple[float | None, ...] = ()
    outcomes: tuple[bool | None, ...] = ()
    seconds: float = 0.0
    kept: bool = False
    used: tuple[Usage, ...] = ()
    paid: tuple[Usage, ...] = ()
    ended: float = 0.0

    @property
    def alone(self) -> bool:
        """Whether there was nothing to compare: one rollout, or all identical."""
        return len(self.sizes) == 1

    @property
    def usage(self) -> Usage:
        """Tokens of all replies of the group."""
        return sum(self.used, Usage())

    @property
    def rescaled(self) -> int:
        """How many replies stood on a scale to 10."""
        return sum(ballot.rescaled for ballot in self.ballots)

    @property
    def unknown(self) -> int:
        """How many ids in replies belong to no rollout."""
        return sum(ballot.unknown for ballot in self.ballots)


@dataclass(frozen=True, slots=True)
class RolloutScore:
    """A rollout's score in [0, 1]; None with the reason for an explanation if it could not be read.

    `judged` is the judges' own score, before an original reward was mixed in or an outcome ordered it,
    `by_judge` that of each judge by its number, `spread` the standard deviation over passes. `slots` are
    where it was shown in each pass, from 0 (first) to 1 (last), and `pass_scores` what the judge gave it
    there, before any correction. `suspect`: its text addresses a judge.
    """

    score: float | None
    explanation: str
    judged: float | None = None
    spread: float | None = None
    by_judge: Mapping[int, float] = field(default_factory=dict)
    slots: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The scores of a group's rollouts, in input order, and how good they are.

    `used` are the numbers of the judges whose scores they are the mean of. `reliability` is that of the
    mean of all passes, `passes_for` how many would bring it to 0.9; both are None where one pass tells
    nothing. `tied`: no relative signal, for rollouts are alike, or have one score, or passes do not tell
    the differences from noise. `one_score`: rollouts differ, and judges gave all the same. `degraded`:
    some pass failed.
    """

    rollouts: tuple[RolloutScore, ...]
    used: tuple[int, ...] = ()
    passes: int = 1
    tied: bool = False
    one_score: bool = False
    reliability: float | None = None
    weight: float | None = None
    passes_for: int | None = None
    degraded: bool = False

    @property
    def scores(self) -> tuple[float | None, ...]:
        """The score of each rollout."""
        return tuple([rollout.score for rollout in self.rollouts])
