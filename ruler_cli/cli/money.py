"""USD as a person reads it."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal


def rounded(usd: float, *, up: bool | None = None) -> str:
    """To the cent, and below ten cents to two digits that count: little is not nothing."""
    exact = Decimal(f"{usd:.9g}")
    cents = 2 if not usd or usd >= 0.1 else 1 - exact.adjusted()
    how = ROUND_HALF_EVEN if up is None else ROUND_CEILING if up else ROUND_FLOOR
    return f"{exact.quantize(Decimal(1).scaleb(-cents), how):f}"
