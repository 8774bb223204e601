"""Numbers with their units."""

from __future__ import annotations

from ruler_cli.cli.units import rounded, size


def test_size() -> None:
    """A size has the unit that makes its number at least 1 and below 1,000."""
    sizes = {
        0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB",
        999_960_000: "1.0 GB", 2e12: "2000.0 GB",
    }  # fmt: skip
    assert {number: size(number) for number in sizes} == sizes


def test_money() -> None:
    """Money is rounded to the cent, small amounts to two significant digits."""
    assert [rounded(usd) for usd in (0, 1.005, 0.0123456, 0.1)] == [
        "0.00",
        "1.00",
        "0.012",
        "0.10",
    ]
    assert rounded(0.0121, up=True) == "0.013"
