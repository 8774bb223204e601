"""Position bias over a batch: mean centred score by position, its errors, and the correction for it.

Positions are relative, from 0 (shown first) to 1 (shown last), so that groups of all sizes count together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import fsum, sqrt

from ruler_cli.scoring.sums import RatioSums
from ruler_cli.types import PositionBin

_INNER = 6
"""Equal bins between the first position and the last, so that each position of a group of 8 has its own."""
_BINS = _INNER + 2

ENOUGH = 20
"""Groups below which the means are mostly the noise of the rollouts themselves."""


def _square_error(sums: RatioSums) -> float:
    """The squared standard error of a bin's mean, from at least two groups."""
    return sums.square / sums.x**2 * sums.groups / (sums.groups - 1)


@lru_cache(maxsize=64)
def _bins_of(size: int) -> tuple[int, ...]:
    """The bin of each position in a request of `size` rollouts, at least 2.

    The first position has the first bin, the last position the last, and the others share the inner ones.
    """
    inner = [
        1 + (2 * position - 1) * _INNER // (2 * (size - 2))
        for position in range(1, size - 1)
    ]
    return (0, *inner, _BINS - 1)


def relative_position(position: int, size: int) -> float:
    """The position on the scale of the bins, for a request of `size` rollouts: 0 the first, 1 the last.

    A position between them is the centre of its share of the inner bins.
    """
    if position in (0, size - 1):
        return float(position > 0)
    return (2 * position - 1) / (2 * (size - 2))


class PositionBias:
    """Mean centred score by relative position over a batch, as running sums.

    It is a bias only if orders are random: then the rollouts behind a position are alike on average.
    `groups` counts the groups with something to compare.
    """

    def __init__(self) -> None:
        # x is the number of a group's scores in the bin, y their sum less that of the means
        self._bins = [RatioSums() for _ in range(_BINS)]
        self.groups = 0

    def add(self, *requests: Sequence[float]) -> None:
        """Count one group: for each request its scores in the order shown.

        Requests of one rollout are ignored; a group without any other does not count.
        """
        sums, counts = [0.0] * _BINS, [0] * _BINS
        for scores in requests:
            size = len(scores)
            if size < 2:
                continue
            mean = fsum(scores) / size
            for number, score in zip(_bins_of(size), scores, strict=True):
                sums[number] += score - mean
                counts[number] += 1
        self.groups += any(counts)
        for bin_, total, count in zip(self._bins, sums, counts, strict=True):
            if count:
                bin_.add(count, total)

    @property
    def enough(self) -> bool:
        """Tell if there are enough groups to correct for the bias."""
        return self.groups >= ENOUGH

    def bins(self) -> tuple[PositionBin, ...]:
        """The bins with any score, from the first position to the last."""
        edges = [0.0, *(i / _INNER for i in range(_INNER + 1)), 1.0]
        return tuple(
            PositionBin(
                edges[i],
                edges[i + 1],
                bin_.ratio,
                sqrt(_square_error(bin_)) if bin_.groups > 1 else None,
                round(bin_.x),
            )
            for i, bin_ in enumerate(self._bins)
            if bin_.groups
        )

    def corrections(self, size: int) -> tuple[float, ...]:
        """Amounts to subtract from the scores of a request of `size` rollouts, by position; they sum to 0.

        Each bin's mean times τ²/(τ² + se²) (empirical Bayes, Efron & Morris 1975), with τ² the variance of
        the bins' means beyond what their errors explain: means that are all noise correct nothing. Zeros
        if there are not enough groups.
        """
        if not self.enough or size < 2:
            return (0.0,) * size
        shrunk = self._shrunk()
        amounts = [shrunk[number] for number in _bins_of(size)]
        mean = fsum(amounts) / size
        return tuple(amount - mean for amount in amounts)

    def _shrunk(self) -> list[float]:
        """The means of all bins drawn towards 0; 0 for a bin with fewer than two groups."""
        used = [b for b in self._bins if b.groups > 1]
        weight = fsum(b.x for b in used)
        mean = fsum(b.y for b in used) / weight
        variance = (
            fsum(b.x * (b.ratio - mean) ** 2 for b in used)
            / weight
            * len(used)
            / (len(used) - 1)
        )
        true = max(0.0, variance - fsum(b.x * _square_error(b) for b in used) / weight)
        if true <= 0:
            return [0.0] * _BINS
        return [
            b.ratio * true / (true + _square_error(b)) if b.groups > 1 else 0.0
            for b in self._bins
        ]
