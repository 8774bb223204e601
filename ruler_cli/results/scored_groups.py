"""A scored group by its annotations in the file, and the figures that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal

from ruler_cli.scoring.statistics import Concordance, Moments, concordance, one_score
from ruler_cli.types import Usage

AnnotationStatus = Literal["scored", "failed", "unmarked"]
LabelSource = Literal["", "reward", "outcome", "given"]


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """One rollout with its annotation; a rollout in several parts counts as one.

    `indices` are those of its parts among `Group.rollouts`. `score` is the reward that ruler wrote.
    `judge_score` is the judges' own score, which an outcome or a reward may have moved. `label` is the
    first original reward, else the outcome, as a number. `positions` are those at which the judge saw it,
    from 0 (first) to 1 (last), one for each pass. `pass_scores` are its scores there, empty if the file has
    none. `judges` holds the scores of a panel. `spread` is the standard deviation of its score over passes.
    `size` is the number of bytes that the agent wrote. A rollout without a score has a `kind` and a `reason`.

    `odd_score`: annotated as scored, but the score is no finite number. `more_judges` counts scores of a
    panel beyond the first few. `label_source` is set also if the label is no number.
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
    label_source: LabelSource = ""
    odd_score: bool = False
    more_judges: int = 0

    @property
    def mean_position(self) -> float | None:
        """The mean position over passes, from 0 to 1."""
        return fmean(self.positions) if self.positions else None


@dataclass(frozen=True)
class ScoredGroup:
    """One group, its rollouts in input order, and the group's part of the annotations.

    `judged_at` is in seconds since 1970; None: the file does not say.
    `odd_cost`: the file has a cost that is impossible. `flags` are words: suspect, degraded, escalated,
    windows, shortened, alone, cached. `kind` and `reason` say why a group failed. `rubric` and `params` are
    digests, `version` is that of ruler, `served` names the models that answered; empty in files of older
    versions.
    """

    key: str
    rollouts: tuple[ScoredRollout, ...]
    status: AnnotationStatus
    kind: str = ""
    reason: str = ""
    judge: str = ""
    passes: int | None = None
    annotated_tied: bool = False
    reliability: float | None = None
    weight: float | None = None
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    cost_usd: float | None = None
    odd_cost: bool = False
    latency_s: float | None = None
    judged_at: float | None = None
    rubric: str = ""
    params: str = ""
    version: str = ""
    served: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

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

    @property
    def mean(self) -> float | None:
        """The mean score; None without any."""
        return fmean(self.scores) if self.scores else None

    @cached_property
    def sd(self) -> float | None:
        """The standard deviation of the scores; None with fewer than two."""
        return deviation(self.scores) if len(self.scores) > 1 else None

    @property
    def failed(self) -> bool:
        """True if ruler judged the group and no rollout has a score."""
        return self.status == "failed"

    @property
    def tied(self) -> bool:
        """True if its scores differ by no more than the judge's noise, or not at all."""
        equal = self.annotated_tied or one_score(self.scores)
        return bool(self.scores) and equal

    @property
    def one_score(self) -> bool:
        """True if the judge gave one score to rollouts that differ: it saw them at different positions."""
        scored = [r for r in self.rollouts if r.score is not None]
        scores = [r.judge_score for r in scored]
        several = len({r.positions for r in scored}) > 1
        return several and None not in scores and one_score(scores)

    @property
    def alone(self) -> bool:
        """True if it is scored and the judge saw one distinct rollout; identical ones share positions."""
        positions = [r.positions for r in self.rollouts if r.score is not None]
        return len(positions) == 1 or (len(set(positions)) == 1 and any(positions))

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
        scores, labels = [score for score, _ in both], [label for _, label in both]
        return concordance(scores, labels)

    @property
    def against(self) -> float:
        """The pairs that the judge orders against their labels, a tie as one half."""
        return self.pairs.lost + self.pairs.tied / 2

    @property
    def disagreement(self) -> float | None:
        """The share of pairs ordered against their labels, from 0 to 1; None if no two labels differ."""
        return self.against / self.pairs.pairs if self.pairs.pairs else None


def deviation(scores: Sequence[float]) -> float:
    """Return the standard deviation by which GRPO divides: exactly 0 for equal scores."""
    moments = Moments()
    moments.add(scores)
    return math.sqrt(moments.square / moments.number)
