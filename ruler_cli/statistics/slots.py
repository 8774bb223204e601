"""The slot curve: how a judge's scores depend on the place at which it sees a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from ruler_cli.figures import Bin

_STRETCHES = 6
"""Equal stretches between the first slot and the last, so that each slot of a group of 8 has its own bin."""

_BINS = _STRETCHES + 2

ENOUGH = 20
"""Groups below which a curve is mostly the noise of the rollouts themselves."""


@dataclass(slots=True)
class _Sums:
    """Of one bin: a group's mean in it counts by its weight, the number of its scores in the bin."""

    groups: int = 0
    w: float = 0.0
    wm: float = 0.0
    ww: float = 0.0
    wwm: float = 0.0
    wwmm: float = 0.0

    def add(self, weight: int, mean: float) -> None:
        self.groups += 1
        self.w += weight
        self.wm += weight * mean
        self.ww += weight**2
        self.wwm += weight**2 * mean
        self.wwmm += weight**2 * mean**2

    @property
    def mean(self) -> float:
        return self.wm / self.w

    @property
    def square_error(self) -> float:
        """The squared standard error of the mean: the ratio estimator's, by whole groups.

        Scores of one group are not independent, groups are (Cochran 1977, on clusters of unequal sizes).
        """
        mean, g = self.mean, self.groups
        square = self.wwmm - 2 * mean * self.wwm + mean**2 * self.ww
        return max(0.0, square) / self.w**2 * g / (g - 1)


def _bin(slot: int, size: int) -> int:
    """The first slot is bin 0, the last the last; a slot between stands for the stretch around it."""
    if slot == 0:
        return 0
    if slot == size - 1:
        return _BINS - 1
    return 1 + (2 * slot - 1) * _STRETCHES // (2 * (size - 2))


def middle(slot: int, size: int) -> float:
    """Where in its bin's stretch a slot of a request of `size` stands: 0 the first, 1 the last."""
    if slot in (0, size - 1):
        return float(slot > 0)
    return (2 * slot - 1) / (2 * (size - 2))


class SlotCurve:
    """Mean centred score by relative slot over a batch, as running sums (rule 6).

    It means something only where orders were random: then the rollouts behind a slot are alike on average.
    """

    def __init__(self) -> None:
        self._bins = [_Sums() for _ in range(_BINS)]
        self.groups = 0

    def add(self, *requests: Sequence[float]) -> None:
        """Count one group: for each request that showed its rollouts the scores by slot.

        A request of one rollout says nothing and is ignored, a group without any other does not count.
        """
        sums, counts = [0.0] * _BINS, [0] * _BINS
        for scores in requests:
            size = len(scores)
            if size < 2:
                continue
            mean = fsum(scores) / size
            for slot, score in enumerate(scores):
                place = _bin(slot, size)
                sums[place] += score - mean
                counts[place] += 1
        self.groups += any(counts)
        for bin_, total, count in zip(self._bins, sums, counts, strict=True):
            if count:
                bin_.add(count, total / count)

    @property
    def enough(self) -> bool:
        """Whether there are groups enough to correct by the curve."""
        return self.groups >= ENOUGH

    def curve(self) -> tuple[Bin, ...]:
        """The bins that any score fell into, from the first slot to the last."""
        edges = [0.0, *(i / _STRETCHES for i in range(_STRETCHES + 1)), 1.0]
        return tuple(
            Bin(
                edges[i],
                edges[i + 1],
                bin_.mean,
                sqrt(bin_.square_error) if bin_.groups > 1 else None,
                round(bin_.w),
            )
            for i, bin_ in enumerate(self._bins)
            if bin_.groups
        )

    def corrections(self, size: int) -> tuple[float, ...]:
        """What to subtract from the scores of a request of `size` rollouts, by slot; they sum to zero.

        Each bin's mean times τ²/(τ² + se²) (empirical Bayes, Efron & Morris 1975), τ² the variance of the
        bins' means beyond what their errors explain: a curve that is all noise corrects nothing. Zeros
        where there are not enough groups.
        """
        if not self.enough or size < 2:
            return (0.0,) * size
        shrunk = self._shrunk()
        found = [shrunk[_bin(slot, size)] for slot in range(size)]
        mean = fsum(found) / size
        return tuple(value - mean for value in found)

    def _shrunk(self) -> list[float]:
        used = [b for b in self._bins if b.groups > 1]
        weight = fsum(b.w for b in used)
        mean = fsum(b.wm for b in used) / weight
        spread = fsum(b.w * (b.mean - mean) ** 2 for b in used) / weight * len(used) / (len(used) - 1)
        true = max(0.0, spread - fsum(b.w * b.square_error for b in used) / weight)
        if true <= 0:
            return [0.0] * _BINS
        return [b.mean * true / (true + b.square_error) if b.groups > 1 else 0.0 for b in self._bins]
