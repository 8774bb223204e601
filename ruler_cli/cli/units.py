"""Numbers with their units, as a person reads them: counts, bytes, money, time."""

from __future__ import annotations

from datetime import UTC, datetime

_PLURALS = {
    "reply": "replies", "batch": "batches", "pass": "passes", "line or trajectory": "lines or trajectories",
}  # fmt: skip
_WHOLE = 999.95
"""Anything above is 1,000 once it is rounded to a tenth."""
_MINUTES, _HOURS = 60, 3600


def count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"1 {what}" if number == 1 else f"{number} {_PLURALS.get(what, what + 's')}"


def short(number: float) -> str:
    """A number in three digits."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def size(number: float) -> str:
    """So many bytes, with a unit of 1,000 each: little is not nothing."""
    if number < 1000:
        return count(round(number), "byte")
    for unit in ("kB", "MB"):
        number /= 1000
        if number < _WHOLE:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} GB"


def seconds(x: float) -> str:
    """A time."""
    if x < _MINUTES:
        return f"{x:.1f} s"
    return f"{x / _MINUTES:.1f} min" if x < _HOURS else f"{x / _HOURS:.1f} h"


def moment(at: float) -> str:
    """Seconds since 1970 as a date and a time, to the minute."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def iso(at: float | None) -> str | None:
    """Seconds since 1970 for a program, to the second."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def usd(x: float) -> str:
    """Money: cents, and of less than a dollar four digits."""
    return "$0" if not x else f"${x:.2f}" if x >= 1 else f"${x:.4f}" if x >= 0.0001 else f"${x:.1e}"


def rounded(usd: float, *, up: bool | None = None) -> str:
    """USD to the cent, and below ten cents to two digits that count: little is not nothing."""
    from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

    exact = Decimal(f"{usd:.9g}")
    cents = 2 if not usd or usd >= 0.1 else 1 - exact.adjusted()
    how = ROUND_HALF_EVEN if up is None else ROUND_CEILING if up else ROUND_FLOOR
    return f"{exact.quantize(Decimal(1).scaleb(-cents), how):f}"
