"""Values that several people gave the same units → their agreement beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import fsum

ALPHA = ("values", "sum", "squares", "within")
"""Keys of the sums of `alpha_sums`."""


def kappa(counts: Mapping[tuple[Hashable, Hashable], float]) -> float | None:
    """Cohen's kappa of two people, from the number of units by the value that each of them gave.

    kappa = (p − e) / (1 − e), with p the share of units with equal values and e the one that two people with
    these shares of values would have by chance (Cohen 1960). None without units, or if both gave one value
    only.
    """
    units = fsum(counts.values())
    if not units:
        return None
    first: Counter[Hashable] = Counter()
    second: Counter[Hashable] = Counter()
    for (one, other), number in counts.items():
        first[one] += number  # type: ignore[assignment]  # weights
        second[other] += number  # type: ignore[assignment]
    equal = fsum(number for (a, b), number in counts.items() if a == b) / units
    chance = fsum(first[value] * second[value] for value in first) / units**2
    return (equal - chance) / (1 - chance) if chance < 1 else None


def alpha_sums(units: Iterable[Sequence[float]]) -> dict[str, float]:
    """Sum what units add to Krippendorff's alpha; one with fewer than two values adds nothing."""
    sums = dict.fromkeys(ALPHA, 0.0)
    for values in units:
        number = len(values)
        if number > 1:
            mean = fsum(values) / number
            square = fsum((value - mean) ** 2 for value in values)
            sums["values"] += number
            sums["sum"] += fsum(values)
            sums["squares"] += fsum(value * value for value in values)
            sums["within"] += square * number / (number - 1)
    return sums


def alpha(sums: Mapping[str, float]) -> float | None:
    """Krippendorff's alpha for values on an interval scale: any number of people, and any of their values missing.

    alpha = 1 − (observed disagreement) / (disagreement by chance), each the mean squared difference of two
    values: of one unit, and of all (Krippendorff 2004, chapter 11). None if all values are equal.
    """
    values, total, squares, within = (sums.get(name, 0.0) for name in ALPHA)
    if values < 2:
        return None
    square = squares - total * total / values
    if square <= 1e-12 * squares:
        return None
    return 1 - (values - 1) / values * within / square
