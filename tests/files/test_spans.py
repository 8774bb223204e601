"""Pairs of offsets on disk."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ruler_cli.files.spans import Spans


@pytest.mark.parametrize("number", [0, 1, 4095, 4096, 4097, 20_000])
def test_spans(number: int) -> None:
    """Pairs come back by their place, in any order, however many there are and beyond 32 bits."""
    with ExitStack() as stack:
        spans = Spans(stack)
        for i in range(number):
            spans.append(i << 20, (i << 20) + 5)
        assert len(spans) == number
        for order in (range(number), range(number - 1, -1, -7)):
            assert all(spans[i] == (i << 20, (i << 20) + 5) for i in order)
