"""Format numbers for a person: counts, money, time, figures by their names, and templates of lines with a figure."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

_PLURALS = {
    "reply": "replies",
    "batch": "batches",
    "pass": "passes",
    "group has its own": "groups have their own",
    "line or trajectory": "lines or trajectories",
}
_MOST = 6
"""Parts of a figure that are shown."""
_MINUTE, _HOUR = 60, 3600


def count(
    number: int,
    what: str,
) -> str:
    """Return a number with its noun, e.g. `1 group`, `2 groups`."""
    noun = what if number == 1 else _PLURALS.get(what, what + "s")
    return f"{number:,} {noun}"


def columns(
    rows: Sequence[Sequence[str]],
) -> Iterator[str]:
    """Yield rows as lines with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def short(number: float) -> str:
    """Return a number in three digits, e.g. `1.23k`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def seconds(number: float) -> str:
    """Return a duration in s, min or h."""
    if number < _MINUTE:
        return f"{number:.1f} s"
    if number < _HOUR:
        return f"{number / _MINUTE:.1f} min"
    return f"{number / _HOUR:.1f} h"


def usd(amount: float) -> str:
    """Return an amount to the cent, a small one to two significant digits."""
    return f"${rounded(amount)}" if amount else "$0"


def rounded(
    usd: float,
    *,
    up: bool = False,
) -> str:
    """Return USD to the cent, below ten cents to two significant digits: a small amount is not 0."""
    digits = 2
    if 0 < usd < 0.1:
        digits = 1 - math.floor(math.log10(usd))
    if up:
        # what is above the ninth digit is noise of floats
        usd = math.ceil(float(f"{usd * 10**digits:.9g}")) / 10**digits
    return f"{usd:.{digits}f}"


def in_words(value: Any) -> str:
    """Write a figure, or several by their names: nothing for 0, absent and empty ones, but a measured 0 counts."""
    if isinstance(value, dict):
        parts = []
        for name, figure in islice(value.items(), _MOST):
            words = in_words(figure)
            if words:
                parts.append(f"{name} {words}")
        return ", ".join(parts) + ", …" * (len(value) > _MOST)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return str(value or "")


class _Figures(string.Formatter):
    """Format a number with its noun, which stands in the place of a format."""

    def format_field(self, value: Any, form: str) -> str:
        return count(value, form)


_FIGURES = _Figures()


def lines(
    template: str, figures: Mapping[str, Any], *objects: Any
) -> Iterator[str]:
    """Fill the lines of a template, a figure each, e.g. `{0.name:noun}` of an attribute of the first object.

    A line is left out if its figure is absent or 0.
    """
    for line in template.strip().splitlines():
        name = line.partition("{")[2].partition(":")[0]
        with suppress(AttributeError):
            value, _ = _FIGURES.get_field(name, objects, figures)
            if value:
                yield _FIGURES.vformat(line, objects, figures)
