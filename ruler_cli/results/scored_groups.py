"""A scored group by its annotations in the file, and the figures that follow from them."""

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
    """One rollout with its annotation; a rollout in several parts counts as one.

    `indices` are those of its parts among `Group.rollouts`. `score` is the reward that ruler wrote.
    `judge_score` is the judges' own score, which an outcome or a reward may have moved. `label` is the
    first original reward, else the outcome, as a number. `positions` are those at which the judge saw it,
    from 0 (first) to 1 (last), one for each pass. `pass_scores` are its scores there, empty if the file has
    none. `judges` holds the scores of a panel. `spread` is the standard deviation of its score over passes.
    `size` is the number of bytes that the agent wrote. A rollout without a score has a `kind` and a `reason`.

    `invalid_fields` names those of `score` and `judge_score` that hold no usable number. `more_judges`
    counts scores of a panel beyond the first few. `label_source` is set also if the label is no number.
    """

    indices: tuple[int, ...]
    status: AnnotationStatus
    score: float | None = None
    judge_score: float | None = None
    label: float | None = None
    explanation: str = ""
    spread: float | None = None
    positions: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    judges: Mapping[str, float] = field(default_factory=dict)
    suspect: bool = False
    size: int = 0
    kind: str = ""
    reason: str = ""
    judge: str = ""
    label_source: LabelSource = ""
    invalid_fields: tuple[str, ...] = ()
    more_judges: int = 0

    @property
    def mean_position(self) -> float | None:
        """The mean position over passes, from 0 to 1."""
        return (
            math.fsum(self.positions) / len(self.positions) if self.positions else None
        )


@dataclass(frozen=True)
class ScoredGroup:
    """One group, its rollouts in input order, and the group's part of the annotations.

    `cost` is in USD, `latency` in seconds, `judged_at` in seconds since 1970; None: the file does not say.
    `flags` are words: suspect, degraded, escalated, windows, shortened, alone, cached. `kind` and `reason`
    say why a group failed. `rubric` and `params` are digests, `version` is that of ruler, `served` names the
    models that answered; empty in files of older versions. `invalid_fields` names fields of the group's part
    with impossible values.
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
    rubric: str = ""
    params: str = ""
    version: str = ""
    served: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    invalid_fields: tuple[str, ...] = ()

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The scores of the rollouts that have one."""
        return tuple(r.score for r in self.rollouts if r.score is not None)

    @property
    def best_first(self) -> list[int]:
        """The indices of the rollouts, the highest score first, those without one last."""
        scores = [rollout.score for rollout in self.rollouts]
        indices = range(len(scores))
        return sorted(indices, key=lambda i: (scores[i] is None, -(scores[i] or 0.0)))

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
        return math.sqrt(
            math.fsum((s - self.mean) ** 2 for s in self.scores) / len(self.scores)
        )

    @property
    def failed(self) -> bool:
        """True if ruler judged the group and no rollout has a score."""
        return self.status == "failed"

    @property
    def tied(self) -> bool:
        """True if its scores differ by no more than the judge's noise, or not at all."""
        return bool(self.scores) and (
            self.annotated_tied is True or one_score(self.scores)
        )

    @property
    def one_score(self) -> bool:
        """True if the judge gave one score to rollouts that differ: it saw them at different positions."""
        positions = {r.positions for r in self.rollouts if r.score is not None}
        return len(positions) > 1 and self._equal_judge_scores

    @property
    def alone(self) -> bool:
        """True if it is scored and the judge saw one distinct rollout; identical ones share positions."""
        positions = [r.positions for r in self.rollouts if r.score is not None]
        return len(positions) == 1 or (len(set(positions)) == 1 and any(positions))

    @property
    def _equal_judge_scores(self) -> bool:
        judge_scores = [r.judge_score for r in self.rollouts if r.score is not None]
        return None not in judge_scores and one_score(judge_scores)

    @property
    def live(self) -> bool:
        """True if a trainer learns from it: it is scored and not tied."""
        return bool(self.scores) and not self.tied

    @cached_property
    def pairs(self) -> Concordance:
        """Pairs of rollouts with different labels, by the judge's order of them."""
        both = [
            (r.judge_score, r.label)
            for r in self.rollouts
            if r.judge_score is not None and r.label is not None
        ]
        return (
            concordance(*zip(*both, strict=True)) if both else Concordance(0, 0, 0, 0)
        )

    @property
    def disputes(self) -> tuple[float, int]:
        """The pairs that the judge orders against their labels, a tie as one half; all pairs."""
        return self.pairs.lost + self.pairs.tied / 2, self.pairs.pairs

    @property
    def disagreement(self) -> float | None:
        """The share of pairs ordered against their labels, from 0 to 1; None if no two labels differ."""
        against, pairs = self.disputes
        return against / pairs if pairs else None
