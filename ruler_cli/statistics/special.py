"""The special functions behind an F test and a fitted F distribution, to better than 1e-9 of their value."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, lgamma, log, log1p, sqrt

_FAR = 12.0
"""From here on the asymptotic series below give double precision with the terms they have."""

_TINY = 1e-300
"""Stands for a zero denominator in Lentz's method."""

_PRECISE = 1e-15

_ALMOST_CHI = 1e6
"""Where d2 is so many times d1 the continued fraction loses digits, and 1/d2 is small enough to go by."""


def digamma(x: float) -> float:
    """ψ(x), the derivative of log Γ, for x > 0.

    Abramowitz & Stegun 1964: 6.3.5 (recurrence) up to where 6.3.18 (asymptotic) is exact.
    """
    below = 0.0
    while x < _FAR:
        below += 1 / x
        x += 1
    t = 1 / (x * x)
    series = t * (1 / 12 - t * (1 / 120 - t * (1 / 252 - t * (1 / 240 - t * (1 / 132 - t * 691 / 32760)))))
    return log(x) - 0.5 / x - series - below


def trigamma(x: float) -> float:
    """The derivative of ψ, for x > 0 (Abramowitz & Stegun 1964: 6.4.6 and 6.4.12)."""
    below = 0.0
    while x < _FAR:
        below += 1 / (x * x)
        x += 1
    t = 1 / (x * x)
    series = t * (1 / 6 - t * (1 / 30 - t * (1 / 42 - t * (1 / 30 - t * (5 / 66 - t * 691 / 2730)))))
    return (1 + 0.5 / x + series) / x + below


def _tetragamma(x: float) -> float:
    """The second derivative of ψ, for x > 0 (Abramowitz & Stegun 1964: 6.4.6 and 6.4.13)."""
    below = 0.0
    while x < _FAR:
        below += 2 / (x * x * x)
        x += 1
    t = 1 / (x * x)
    series = t * (1 / 2 - t * (1 / 6 - t * (1 / 6 - t * (3 / 10 - t * (5 / 6 - t * 691 / 210)))))
    return -(1 + 1 / x + series) * t - below


def trigamma_inverse(y: float) -> float:
    """The x > 0 with trigamma(x) = y, for y > 0.

    Newton's method on 1/trigamma, which is convex and nearly linear: from 0.5 + 1/y, never above the root, it
    rises to it in a few steps (Smyth 2004, appendix). Beyond the limits the leading terms are exact.
    """
    if y > 1e15:
        return 1 / sqrt(y)
    if y < 1e-15:
        return 1 / y
    x = 0.5 + 1 / y
    for _ in range(50):
        now = trigamma(x)
        step = now * (1 - now / y) / _tetragamma(x)
        x += step
        if abs(step) < 1e-14 * x:
            break
    return x


def incomplete_beta(a: float, b: float, x: float, rest: float | None = None) -> float:
    """The regularized incomplete beta function I_x(a, b), for a, b > 0 and x in 0..1.

    `rest` is 1 − x where the caller knows it better than by subtraction. The continued fraction
    DLMF 8.17.22, on the side of the mean where it converges fast, by Lentz's method.
    """
    rest = 1 - x if rest is None else rest
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, rest, x)

    def term(m: int) -> float:
        half = m // 2
        if m % 2:
            return -(a + half) * (a + b + half) * x / ((a + m - 1) * (a + m))
        return half * (b - half) * x / ((a + m - 1) * (a + m))

    log_x = log(x) if x < 0.5 else log1p(-rest)
    log_rest = log(rest) if rest < 0.5 else log1p(-x)
    return exp(a * log_x + b * log_rest - _log_beta(a, b)) / a * _lentz(term)


def _lentz(term: Callable[[int], float]) -> float:
    """1/(1 + t₁/(1 + t₂/(1 + …))) (Thompson & Barnett 1986)."""
    c, d, value = 1.0, 0.0, 1.0
    for m in range(1, 100_000):
        t = term(m)
        d = 1 / (1 + t * d or _TINY)
        c = 1 + t / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISE:
            break
    return 1 / value


def _log_beta(a: float, b: float) -> float:
    """log B(a, b); where one argument is large, without the difference of two large log Γ."""
    a, b = min(a, b), max(a, b)
    if b < _FAR:
        return lgamma(a) + lgamma(b) - lgamma(a + b)
    rise = (b - 0.5) * log1p(a / b) + a * log(a + b) - a + _stirling(a + b) - _stirling(b)
    return lgamma(a) - rise


def _stirling(x: float) -> float:
    """What log Γ(x) is above Stirling's formula, for x ≥ 12 (Abramowitz & Stegun 1964: 6.1.41)."""
    t = 1 / (x * x)
    return (1 / 12 - t * (1 / 360 - t * (1 / 1260 - t * (1 / 1680 - t * (1 / 1188 - t * 691 / 360360))))) / x


def _gamma_survival(a: float, x: float) -> float:
    """Q(a, x), the regularized upper incomplete gamma function (DLMF 8.11.4 below the mean, 8.9.2 above)."""
    if x <= 0:
        return 1.0
    scale = exp(a * log(x) - x - lgamma(a))
    if x < a + 1:
        part = total = 1 / a
        n = a
        while part > total * 1e-17:
            n += 1
            part *= x / n
            total += part
        return 1 - scale * total
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for m in range(1, 100_000):
        t = -m * (m - a)
        b += 2
        d = 1 / (t * d + b or _TINY)
        c = b + t / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISE:
            break
    return scale * value


def f_survival(f: float, d1: float, d2: float) -> float:
    """The probability that an F variable with d1 and d2 degrees of freedom exceeds f.

    d1 > 0 is finite; d2 may be infinite, where d1·F is χ² with d1 degrees of freedom.
    Beyond d2 = 10⁶ d1 it is linear in 1/d2 between there and ∞.
    Abramowitz & Stegun 1964: 26.6.2, and 26.4.19 for d2 = ∞.
    """
    if f <= 0:
        return 1.0
    if f == inf:
        return 0.0
    if d2 > _ALMOST_CHI * d1:
        limit = _gamma_survival(d1 / 2, d1 * f / 2)
        if d2 == inf:
            return limit
        near = _ALMOST_CHI * d1
        return limit + (f_survival(f, d1, near) - limit) * (near / d2)
    whole = d2 + d1 * f
    return incomplete_beta(d2 / 2, d1 / 2, d2 / whole, d1 * f / whole)
