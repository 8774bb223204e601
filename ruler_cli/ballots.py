"""What judges said of a group, as numbers, and what it comes to: ballots → outcome → verdict."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """A score in [0, 1] and an explanation for each rollout of a group, in input order, and how good it is.

    A rollout that could not be read has None and the reason in the explanation's place. `judged` are the
    judges' own scores, before an original reward was mixed in or an outcome ordered them, and `used` the
    numbers of those whose scores they are the mean of. `spread` is the
    standard deviation over passes, `by_judge[j]` the scores of judge j, `slots[i]` where rollout i was
    shown in each pass, from 0 (first) to 1 (last), and `pass_scores[i]` what the judge gave it there, before
    any correction. `reliability` is that of the mean of all passes,
    `passes_for` how many would bring it to 0.9; both are None where one pass tells nothing. `tied`: no
    relative signal, for rollouts are alike, or have one score, or passes do not tell the differences from
    noise. `one_score`: rollouts differ, and judges gave all the same. `degraded`: some pass failed.
    `rescaled` and `unknown` count what the reply reader had to mend or ignore.
    """

    scores: tuple[float | None, ...]
    explanations: tuple[str, ...]
    suspects: frozenset[int] = frozenset()
    tied: bool = False
    one_score: bool = False
    passes: int = 1
    judged: tuple[float | None, ...] = ()
    used: tuple[int, ...] = ()
    spread: tuple[float | None, ...] = ()
    by_judge: tuple[tuple[float | None, ...], ...] = ()
    slots: tuple[tuple[float, ...], ...] = ()
    pass_scores: tuple[tuple[float, ...], ...] = ()
    reliability: float | None = None
    weight: float | None = None
    passes_for: int | None = None
    degraded: bool = False
    rescaled: int = 0
    unknown: int = 0
    shortened: int = 0
