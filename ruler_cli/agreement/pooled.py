"""AUC over all rollouts of all groups, for labels of which there are two."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


class Pooled:
    """Scores and labels as they come, in 11 bytes a rollout; given up at a third label."""

    def __init__(self) -> None:
        self._scores, self._units, self._labels = array("d"), array("H"), array("b")
        self._names: list[float] = []
        self._graded = False

    @property
    def two(self) -> tuple[float, float] | None:
        """The worse and the better label; None where there are not exactly two."""
        names = sorted(self._names)
        return None if self._graded or len(names) != 2 else (names[0], names[1])

    def add(self, unit: int, scores: Sequence[float], labels: Sequence[float]) -> None:
        """One group, which is in a unit of the bootstrap."""
        for score, label in zip(scores, labels, strict=True):
            if self._graded:
                return
            if label not in self._names:
                if len(self._names) == 2:
                    self._graded = True
                    del self._scores[:], self._units[:], self._labels[:]
                    return
                self._names.append(label)
            self._scores.append(score)
            self._units.append(unit)
            self._labels.append(self._names.index(label))

    def auc(self) -> float | None:
        """The share of pairs (better, worse) in which the better has the higher score, ties one half."""
        sides = self._sides()
        if sides is None:
            return None
        good, bad = sides
        return sum(_below(bad, score) for score in good) / (len(good) * len(bad))

    def terms(self) -> Iterator[tuple[int, float]]:
        """(unit, what a rollout adds to the error of the AUC), which come to 0 over all.

        AUC is no ratio of sums over groups, as rollouts of different groups are compared, but near its
        value it is linear in these (Obuchowski 1997, for ROC data in clusters).
        """
        sides, auc, two = self._sides(), self.auc(), self.two
        if sides is None or auc is None or two is None:
            return
        (good, bad), better = sides, self._names.index(two[1])
        for unit, score, name in zip(self._units, self._scores, self._labels, strict=True):
            if name == better:
                yield unit, (_below(bad, score) / len(bad) - auc) / len(good)
            else:
                yield unit, (1 - _below(good, score) / len(good) - auc) / len(bad)

    def _sides(self) -> tuple[list[float], list[float]] | None:
        """Sorted scores of what has the better label, and of what has the worse."""
        if self.two is None:
            return None
        better = self._names.index(self.two[1])
        sides: tuple[list[float], list[float]] = ([], [])
        for score, name in zip(self._scores, self._labels, strict=True):
            sides[name != better].append(score)
        return sorted(sides[0]), sorted(sides[1])


def _below(ordered: Sequence[float], score: float) -> float:
    """How many are lower, equal ones one half."""
    return (bisect_left(ordered, score) + bisect_right(ordered, score)) / 2
