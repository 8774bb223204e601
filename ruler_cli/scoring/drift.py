"""Numbers of the steps of a training, one after another → evidence that they rise.

The k-th number has a rank r among the k numbers so far. If all orders of the numbers are equally likely, the ranks
are independent, and each is any of 1 to k with the same chance (Rényi 1962). So a bet on high ranks that pays
k · r^a / (1^a + 2^a + … + k^a) is fair, and the product of all bets from an onset on is a test martingale: conformal
testing of exchangeability (Vovk, Nouretdinov & Gammerman 2003, "Testing exchangeability on-line"; Vovk 2021, "Testing
randomness online"). The evidence is the mean of these products over onsets, with weights

    k / ((j + k - 1)(j + k))

of the j-th one, which sum to 1. By Ville's inequality (1939) it ever reaches 1/p with a probability of at most p,
however long the series is and however often it is looked at, whatever the noise is distributed like.

Numbers that follow one another are not exchangeable. So a quarter of the last number is taken off each: then the rate
is exact for noise that follows itself with a correlation of 1/4, and lower without. `python -m benchmarks.drift`
measures what it is for more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, fsum, log, log1p
from typing import NamedTuple

BEFORE = 3
"""Numbers before the earliest onset."""
LEAST = 9
"""Numbers from which on anything can be told: of fewer, not even a rise without any noise is beyond chance."""
_CORRELATION = 0.25
_POWER = 5
"""The power of a rank in a bet: the higher it is, the more goes to the highest ranks."""
_SPREAD = 30
"""The k of the onsets' weights: half of the weight is on the first 30."""
_DIGITS = 9
"""Decimals of a number that count: what differs less is rounding."""


class Rise(NamedTuple):
    """Evidence of a rise within the first `end` numbers: the natural logarithm of the e-value.

    `since` is the index of the first number behind the most likely onset.
    """

    end: int
    since: int
    evidence: float


def rises(
    values: Sequence[float],
    weights: Sequence[float],
) -> Iterator[Rise]:
    """Yield the evidence after each number, from the LEAST-th on; none for fewer numbers.

    `weights`, from 0 to 1, are the shares that are bet. Equal numbers have their mean rank: as the bets are convex,
    that pays less than any order of them does on average.
    """
    ranked: list[float] = []
    onsets = []
    for end, (last, value) in enumerate(pairwise(values), 2):
        number = round(value - _CORRELATION * last, _DIGITS)
        rank = (
            1 + (bisect_left(ranked, number) + bisect_right(ranked, number)) / 2
        )
        insort(ranked, number)
        ranks = range(1, end)
        pays = len(ranks) * rank**_POWER / sum(item**_POWER for item in ranks)
        bet = log1p(weights[end - 1] * (pays - 1))
        later = end - 1 - BEFORE + _SPREAD
        if end > BEFORE:
            onsets.append(log(_SPREAD / (later * (later + 1))))
        onsets = [item + bet for item in onsets]
        if end >= LEAST:
            products = [*onsets, log(_SPREAD / (later + 1))]
            largest = max(products)
            evidence = largest + log(
                fsum(exp(item - largest) for item in products)
            )
            yield Rise(
                end,
                BEFORE + onsets.index(max(onsets)),
                evidence,
            )
