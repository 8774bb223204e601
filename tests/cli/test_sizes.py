"""Bytes as a person reads them."""

from __future__ import annotations

import pytest

from ruler_cli.cli.sizes import size


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (12_340, "12.3 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (33_700_000, "33.7 MB"),
        (999_960_000, "1.0 GB"),
        (2e12, "2000.0 GB"),
    ],
)
def test_size(number: float, said: str) -> None:
    """A size has the unit in which it is neither nothing nor a thousand."""
    assert size(number) == said
