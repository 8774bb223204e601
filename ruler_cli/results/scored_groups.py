"""A group that was scored, as its marks tell it, and what may be asked of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ruler_cli.scoring.reliability import one_score
from ruler_cli.scoring.sums import Concordance, concordance
from ruler_cli.types import Usage

AnnotationStatus = Literal["scored", "failed", "unmarked"]
LabelSource = Literal["", "reward", "outcome"]


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """One rollout with its mark; parts of one rollout are one.

    `at` are the places of its parts among `Group.rollouts`. `score` is what ruler wrote as the reward,
    `judged` the judges' own score where an outcome or a reward has moved it, else the same. `label` is the
    first original reward, else the outcome, as a number. `slots` are the positions it was shown at, 0 first,
    1 last, one for each pass; `pass_scores` its scores there, empty where the file does not say them beside
    the score; `judges` the scores of a panel's. `spread` is the standard deviation of its score over passes.
    `size`: bytes of what the agent did. A rollout that has no score has a `kind` and a `reason`.

    `odd` names those of `score` and `judge_score` that hold no usable number; `more_judges` are scores of a
    panel beyond the first few. `label_from` is where a label stands, also one that is no number.
    """

    at: tuple[int, ...]
    status: AnnotationStatus
    score: float | None = None
    judged: float | None = None
    label: float | None = None
    explanation: str = ""
    spread: float | None = None
    slots: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    judges: Mapping[str, float] = field(default_factory=dict)
    suspect: bool = False
    size: int = 0
    kind: str = ""
    reason: str = ""
    judge: str = ""
    label_source: LabelSource = ""
    odd: tuple[str, ...] = ()
    more_judges: int = 0

    @property
    def place(self) -> float | None:
        """The mean place over passes, from 0 to 1."""
        return math.fsum(self.slots) / len(self.slots) if self.slots else None


@dataclass(frozen=True)
class ScoredGroup:
    """One group, its rollouts in input order, and the group's part of the marks.

    `failed` where it was asked about and no rollout has a score: `kind` and `reason` say why.
    `cost` in USD; `latency` in seconds; `judged_at` in seconds since 1970. None: the file does not say.
    `flags` are words: suspect, degraded, escalated, windows, shortened, alone, cached. `odd` names the
    fields of the group's part that hold what they cannot.
    """

    key: str
    rollouts: tuple[ScoredRollout, ...]
    status: AnnotationStatus
    kind: str = ""
    reason: str = ""
    judge: str = ""
    passes: int | None = None
    annotated_tied: bool | None = None
    reliability: float | None = None
    weight: float | None = None
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    cost: float | None = None
    latency: float | None = None
    judged_at: float | None = None
    flags: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The scores there are."""
        return tuple(r.score for r in self.rollouts if r.score is not None)

    @cached_property
    def mean(self) -> float | None:
        """The mean score; None without any."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else None

    @cached_property
    def sd(self) -> float | None:
        """The standard deviation of the scores, by which GRPO divides; None with fewer than two."""
        if len(self.scores) < 2 or self.mean is None:
            return None
        if min(self.scores) == max(self.scores):  # rounding of their mean is no spread
            return 0.0
        return math.sqrt(math.fsum((s - self.mean) ** 2 for s in self.scores) / len(self.scores))

    @property
    def failed(self) -> bool:
        """Whether ruler was asked and no rollout has a score."""
        return self.status == "failed"

    @property
    def tied(self) -> bool:
        """Whether its scores say nothing: not told apart beyond the judge's noise, or all the same.

        The same by the judge, or as written. Files of earlier versions do not mark one score for all.
        """
        if not self.scores or self.annotated_tied is True:
            return bool(self.scores)
        return one_score(self.scores) or self._judged_alike

    @property
    def one_score(self) -> bool:
        """Whether the judge gave the same to rollouts that differ: it saw them at several places."""
        places = {r.slots for r in self.rollouts if r.score is not None}
        return len(places) > 1 and self._judged_alike

    @property
    def _judged_alike(self) -> bool:
        judged = [r.judged for r in self.rollouts if r.score is not None]
        return None not in judged and one_score(judged)

    @property
    def live(self) -> bool:
        """Whether a trainer learns from it: scored, and not tied."""
        return bool(self.scores) and not self.tied

    @cached_property
    def pairs(self) -> Concordance:
        """Pairs of unlike labels, and how the judge orders them."""
        both = [(r.judged, r.label) for r in self.rollouts if r.judged is not None and r.label is not None]
        return concordance(*zip(*both, strict=True)) if both else Concordance(0, 0, 0, 0)

    @property
    def disputes(self) -> tuple[float, int]:
        """Pairs that the judge orders against their labels, a tie as half of one; pairs of unlike labels."""
        return self.pairs.lost + self.pairs.tied / 2, self.pairs.pairs

    @property
    def disagreement(self) -> float | None:
        """The share of those pairs, from 0 to 1; None where no two labels differ."""
        against, pairs = self.disputes
        return against / pairs if pairs else None
