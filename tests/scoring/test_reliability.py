"""Reliability: analysis of variance, moderated noise, ties and passes needed, and special functions.

Those are held against SciPy 1.17.1 (`digamma`, `polygamma`, `stats.f.sf`, `chi2.sf`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.combine import BatchStatistics, combine
from ruler_cli.scoring.statistics import (
    ROUNDING,
    Anova,
    NoiseEstimator,
    NoisePrior,
    f_survival,
    passes_for,
    polygamma,
    rate,
    trigamma_inverse,
)
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import Criterion, GroupScores, Rubric
from tests.scoring.group_results import group_result, one_pass
from tests.values import few

SHROUT_FLEISS = [
    (9, 2, 5, 8),
    (6, 1, 3, 2),
    (8, 4, 6, 8),
    (7, 1, 2, 6),
    (10, 5, 6, 9),
    (6, 2, 4, 7),
]
"""Six targets rated by four judges: Shrout & Fleiss 1979, table 2."""

Columns = list[list[float]]


@st.composite
def tables(draw: st.DrawFn) -> Columns:
    """Passes of rollouts on the grid that judges answer on."""
    n, k = draw(st.integers(2, 9)), draw(st.integers(2, 5))
    grid = st.integers(0, 20).map(lambda i: i / 20)
    return draw(
        st.lists(st.lists(grid, min_size=n, max_size=n), min_size=k, max_size=k)
    )


priors = st.one_of(
    st.just(NoisePrior()),
    st.builds(
        NoisePrior, st.floats(0.01, 100), st.floats(1e-5, 0.1), st.floats(1, 1e5)
    ),
    st.builds(NoisePrior, st.just(inf), st.floats(1e-5, 0.1), st.floats(1, 1e5)),
)


def test_textbook() -> None:
    """The table of Shrout & Fleiss has their mean squares and their ICC(3,1) = .71 and ICC(3,4) = .91."""
    anova = Anova.of(list(zip(*SHROUT_FLEISS, strict=True)))
    assert (anova.k, anova.df_item, anova.df_res) == (4, 5, 15)
    assert anova.ms_item == pytest.approx(11.24, abs=0.005)
    assert anova.ms_res == pytest.approx(1.02, abs=0.005)
    rated = rate(anova, NoisePrior())
    assert rated is not None
    four, tied = rated
    assert four == pytest.approx(0.91, abs=0.005)
    assert four / (4 - 3 * four) == pytest.approx(0.71, abs=0.005)
    assert not tied
    assert passes_for(four, 4) == 4


@given(tables(), priors)
def test_range(columns: Columns, prior: NoisePrior) -> None:
    """Reliability is in [0, 1] for any table, and a tie is never fully reliable."""
    rated = rate(Anova.of(columns), prior)
    assert rated is not None
    result, tied = rated
    assert 0 <= result <= 1
    assert result < 1 or not tied


def scaled_f(rng: random.Random, df: float, d0: float, variance: float) -> float:
    """A residual mean square with df degrees of freedom, if the groups' noise varies with d0."""
    true = variance if d0 == inf else variance * d0 / (2 * rng.gammavariate(d0 / 2, 1))
    return true * 2 * rng.gammavariate(df / 2, 1) / df


@pytest.mark.parametrize(("d0", "variance", "df"), [(3, 0.02, 7), (8, 0.02, 21)])
def test_noise_recovers(d0: float, variance: float, df: float) -> None:
    """From 20,000 scaled F variances the fit recovers d₀ to 10 % and s₀² to 5 %."""
    rng, noise = random.Random(7), NoiseEstimator()
    for _ in range(20_000):
        noise.add(scaled_f(rng, df, d0, variance), df)
    prior = noise.prior()
    assert prior.df == pytest.approx(d0, rel=0.1)
    assert prior.variance == pytest.approx(variance, rel=0.05)
    assert prior.pooled == 20_000 * df


def test_agreement_counts_as_rounding() -> None:
    """Groups whose passes agree exactly have the noise of the grid, and do not outweigh the others."""
    noise = NoiseEstimator()
    for _ in range(50):
        noise.add(0.0, 7)
    assert noise.prior().df == inf
    assert noise.prior().variance == pytest.approx(ROUNDING)
    for _ in range(50):
        noise.add(0.01, 7)
    prior = noise.prior()
    assert ROUNDING < prior.variance < 0.01
    assert prior.df > 0.5


@given(st.floats(0.001, 0.999), st.integers(1, 16))
def test_passes_for(reliability: float, k: int) -> None:
    """The number of passes reaches a reliability of 0.9 by Spearman–Brown, and one fewer does not."""
    result = passes_for(reliability, k)
    assert result is not None

    def reached(m: float) -> float:
        return m * reliability / (k + (m - k) * reliability)

    assert reached(result) >= 0.9 * (1 - 1e-9)
    assert result == 1 or reached(result - 1) < 0.9 * (1 + 1e-9)


def anovas(
    rng: random.Random, groups: int, n: int, k: int, spread: float = 0.0
) -> Iterator[Anova]:
    """Groups by the judge model of the specification: log-normal noise, answers on a grid of .05."""
    for _ in range(groups):
        sd = 0.075 * exp(rng.gauss(0, 0.5))
        truth = [0.5 + spread * rng.gauss(0, 1) for _ in range(n)]
        yield Anova.of(
            [
                [
                    min(20, max(0, round((t + rng.gauss(0, sd)) * 20))) / 20
                    for t in truth
                ]
                for _ in range(k)
            ]
        )


def rejected(groups: list[Anova]) -> float:
    """The share of groups that are not tied, with the prior fitted to them."""
    noise = NoiseEstimator()
    for anova in groups:
        noise.add(anova.ms_res, anova.df_res)
    prior = noise.prior()
    return sum((rate(anova, prior) or (0, True))[1] is False for anova in groups) / len(
        groups
    )


@pytest.mark.parametrize(("n", "k"), few(1, [(8, 2), (4, 4), (2, 2)]))
def test_pure_noise(n: int, k: int) -> None:
    """About 5 % of the groups of pure noise are not tied, with the prior fitted to the batch."""
    assert rejected(list(anovas(random.Random(11), 4_000, n, k))) == pytest.approx(
        0.05, abs=0.012
    )


def test_reliability_is_calibrated() -> None:
    """Over many groups the mean reliability is the squared correlation of the mean with the truth."""
    rng, noise, tables = random.Random(13), NoiseEstimator(), []
    for _ in range(1_500):
        truth = [rng.gauss(0, 0.1) for _ in range(8)]
        columns = [[t + rng.gauss(0, 0.1) for t in truth] for _ in range(2)]
        tables.append((Anova.of(columns), truth, columns))
    for anova, _, _ in tables:
        noise.add(anova.ms_res, anova.df_res)
    prior = noise.prior()
    pooled = sum(anova.ms_item for anova, _, _ in tables) / len(tables)
    assert 1 - prior.variance / pooled == pytest.approx(2 / 3, abs=0.03)
    rated = [rate(anova, prior) for anova, _, _ in tables]
    median = sorted(result[0] for result in rated if result is not None)[
        len(tables) // 2
    ]
    assert median == pytest.approx(2 / 3, abs=0.06)


degrees = st.floats(0.5, 5_000)


@pytest.mark.parametrize(
    ("x", "psi", "slope"),
    [
        (0.5, -1.9635100260214235, 4.93480220054468),
        (1, -0.5772156649015329, 1.6449340668482266),
        (2, 0.42278433509846713, 0.6449340668482266),
        (7, 1.872784335098467, 0.15354517795933756),
        (1000.0, 6.907255195648812, 0.001000500166666633),
        (1000000.0, 13.81551005796419, 1.0000005000001667e-06),
    ],
)
def test_polygamma(x: float, psi: float, slope: float) -> None:
    """Digamma, trigamma and its inverse are SciPy's."""
    assert polygamma(0, x) == pytest.approx(psi, rel=1e-12)
    assert polygamma(1, x) == pytest.approx(slope, rel=1e-12)
    assert trigamma_inverse(slope) == pytest.approx(x, rel=1e-9)


@pytest.mark.parametrize(
    ("f", "d1", "d2", "wanted"),
    [
        (2.5, 7, 7, 0.12487833212325292),
        (3.787043539890237, 7, 7, 0.05000000000119494),
        (3.5, 7, 12.3, 0.026684716964355624),
        (1.3, 7, 1e7, 0.24555612986837778),  # mpmath 1.3, 40 digits
        (1.5126561646702392, 8, 1e8, 0.14674325536193195),  # mpmath
        (0.2, 63, 49, 0.9999999976034223),
        (1.1, 1999, 1701, 0.020747847610883004),
        (161.4476, 1, 1, 0.050000005983092066),
        (2.0095941, 7, inf, 0.04999968233459404),
        (20, 7, inf, 5.082977510439557e-27),
        (1.05, 1999, inf, 0.05871634186381563),
        (0, 3, 3, 1),
        (inf, 3, 3, 0),
    ],
)
def test_f_survival(f: float, d1: float, d2: float, wanted: float) -> None:
    """The tail of F is SciPy's, with infinite degrees of freedom that of χ²."""
    assert f_survival(f, d1, d2) == pytest.approx(
        wanted, rel=1e-9 if d2 < 1e6 * d1 else 1e-4
    )


@pytest.mark.parametrize("number", [1, 5, 200])
def test_identical_passes_of_criteria(number: int) -> None:
    """Passes with the same values of many criteria are reliable: a mean of many is finer than one value."""
    dice = random.Random(number)
    rubric = Rubric([Criterion(f"It holds {i}.") for i in range(number)])
    batch = BatchStatistics()
    results = []
    for _ in range(20):
        rows = [
            tuple(float(dice.random() < 0.5) for _ in range(number)) for _ in "abcdef"
        ]
        given = [rubric.score(row) for row in rows]
        passes = [one_pass(given, i, criteria=tuple(rows)) for i in range(2)]
        results.append(group_result(*passes, rubric=rubric))
        batch.add(results[-1])
    found = [combine(one, CombineSettings(), batch) for one in results]
    for one in found:
        assert isinstance(one, GroupScores)
        assert one.one_score or (one.reliability or 0.0) > 0.97


def test_one_heavy_criterion() -> None:
    """A criterion with all of the weight leaves a score as coarse as its value; signs do not matter."""
    for weights, share in (
        ((1, 0, 0), 1.0),
        ((1, -1), 0.5),
        ((3, 1), 10 / 16),
        ((1e-300,) * 4, 0.25),
    ):
        rubric = Rubric(
            [Criterion(f"It holds {i}.", one) for i, one in enumerate(weights)]
        )
        assert rubric.rounding == pytest.approx(share)
