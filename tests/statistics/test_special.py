"""Special functions against SciPy 1.17.1 (`digamma`, `polygamma`, `betainc`, `stats.f.sf`, `chi2.sf`)."""

from __future__ import annotations

from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.statistics.reliability import digamma, f_survival, trigamma, trigamma_inverse

degrees = st.floats(0.5, 5_000)


@pytest.mark.parametrize(
    ("x", "psi", "slope"),
    [
        (0.5, -1.9635100260214235, 4.93480220054468),
        (1, -0.5772156649015329, 1.6449340668482266),
        (1.5, 0.03648997397857652, 0.9348022005446793),
        (2, 0.42278433509846713, 0.6449340668482266),
        (3.5, 1.103156640645243, 0.3303577561002349),
        (7, 1.872784335098467, 0.15354517795933756),
        (24.5, 3.178126146353308, 0.04166064216101649),
        (1000.0, 6.907255195648812, 0.001000500166666633),
        (1000000.0, 13.81551005796419, 1.0000005000001667e-06),
    ],
)
def test_polygamma(x: float, psi: float, slope: float) -> None:
    """Digamma, trigamma and its inverse are SciPy's."""
    assert digamma(x) == pytest.approx(psi, rel=1e-12)
    assert trigamma(x) == pytest.approx(slope, rel=1e-12)
    assert trigamma_inverse(slope) == pytest.approx(x, rel=1e-9)


@given(st.floats(1e-12, 1e12))
def test_trigamma_inverse(y: float) -> None:
    """The inverse takes trigamma back, however large or small."""
    assert trigamma(trigamma_inverse(y)) == pytest.approx(y, rel=1e-11)


@pytest.mark.parametrize(
    ("f", "d1", "d2", "wanted"),
    [
        (2.5, 7, 7, 0.12487833212325292),
        (3.787043539890237, 7, 7, 0.05000000000119494),
        (3.5, 7, 12.3, 0.026684716964355624),
        (2.01, 7, 700, 0.05153680014674877),
        (30, 7, 7, 0.0001053867230713024),
        (1.3, 7, 100000.0, 0.24556909555154866),
        (1.3, 7, 1e7, 0.24555612986837778),  # mpmath 1.3, 40 digits
        (1.5126561646702392, 8, 1e8, 0.14674325536193195),  # mpmath
        (0.2, 63, 49, 0.9999999976034223),
        (1.1, 1999, 1701, 0.020747847610883004),
        (9, 1, 1, 0.20483276469913345),
        (161.4476, 1, 1, 0.050000005983092066),
        (5, 1, 3.3, 0.10325957094337712),
        (2.0095941, 7, inf, 0.04999968233459404),
        (0.1, 7, inf, 0.9983357368454033),
        (20, 7, inf, 5.082977510439557e-27),
        (1.05, 1999, inf, 0.05871634186381563),
        (3.841458820694124, 1, inf, 0.04999999999999989),
        (0, 3, 3, 1),
        (inf, 3, 3, 0),
    ],
)
def test_f_survival(f: float, d1: float, d2: float, wanted: float) -> None:
    """The tail of F is SciPy's, with infinite degrees of freedom that of χ²."""
    assert f_survival(f, d1, d2) == pytest.approx(wanted, rel=1e-9)


@given(st.floats(0, 50), st.floats(1, 1e4))
def test_two_numerator_degrees(f: float, d2: float) -> None:
    """With two degrees of freedom above, the tail of F is elementary: (1 + 2f/d₂) to the −d₂/2."""
    assert f_survival(f, 2, d2) == pytest.approx((1 + 2 * f / d2) ** (-d2 / 2), rel=1e-9)
    assert f_survival(f, 2, inf) == pytest.approx(exp(-f), rel=1e-9)


@given(st.floats(1e-3, 10), degrees)
def test_towards_infinity(f: float, d1: float) -> None:
    """From many degrees of freedom to infinitely many nothing jumps."""
    d1 = min(d1, 50)
    at = [f_survival(f, d1, d2) for d2 in (0.999e6 * d1, 1.001e6 * d1, 1e12, inf)]
    assert at[0] == pytest.approx(at[1], abs=1e-8)
    assert at[2] == pytest.approx(at[3], abs=1e-9)
    assert abs(at[1] - at[3]) < 1e-4


@given(st.floats(1e-3, 100), st.floats(1.01, 3), degrees, degrees)
def test_falls(f: float, factor: float, d1: float, d2: float) -> None:
    """A larger F is never more probable to be exceeded, and a probability is one."""
    assert 0 <= f_survival(f * factor, d1, d2) <= f_survival(f, d1, d2) + 1e-12 <= 1 + 1e-11
