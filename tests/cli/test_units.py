"""Numbers with their units."""

from __future__ import annotations

from ruler_cli.cli.units import rounded


def test_money() -> None:
    """Money is rounded to the cent, small amounts to two significant digits."""
    assert [rounded(usd) for usd in (0, 1.005, 0.0123456, 0.1)] == [
        "0.00",
        "1.00",
        "0.012",
        "0.10",
    ]
    assert rounded(0.0121, up=True) == "0.013"
