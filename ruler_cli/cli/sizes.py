"""Bytes as a person reads them."""

from __future__ import annotations

_WHOLE = 999.95
"""What is rounded to a tenth is 1,000 from here on."""


def size(number: float) -> str:
    """So many bytes, with a unit of 1,000 each: little is not nothing."""
    if number < 1000:
        return "1 byte" if number == 1 else f"{number:.0f} bytes"
    for unit in ("kB", "MB"):
        number /= 1000
        if number < _WHOLE:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} GB"
