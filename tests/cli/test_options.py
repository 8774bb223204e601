"""Options of several judges: who is asked, at what price, and what cannot be meant."""

from __future__ import annotations

import pytest

from ruler_cli.cli import options
from ruler_cli.errors import UsageError


def test_models() -> None:
    """Judges come in the order given, and one is there by default."""
    assert options.models(None) == options.models([]) == ["openai/o3"]
    assert options.models(["b", "a"], "c", fallback=True) == ["b", "a"]


@pytest.mark.parametrize(
    ("names", "escalate", "fallback", "says"),
    [
        (["a", "b", "a"], None, False, "a is named twice"),
        (["a"], "a", False, "a is named twice"),
        (["a"], None, True, "another judge to fall back on"),
        (["a", ""], None, False, "no name"),
        (["a"], "", False, "no name"),
    ],
)
def test_models_refused(names: list[str], escalate: str | None, fallback: bool, says: str) -> None:
    """A judge named twice or not at all, and a fallback on nothing, are bad usage."""
    with pytest.raises(UsageError, match=says):
        options.models(names, escalate, fallback=fallback)


def test_prices() -> None:
    """A price given once is that of all judges, given for each that of each; without one all are unknown."""
    assert options.prices(None, 3) == [None] * 3
    assert options.prices(["1,2"], 3) == [(1.0, 2.0)] * 3
    assert options.prices(["1,2", "0,0"], 2) == [(1.0, 2.0), (0.0, 0.0)]


@pytest.mark.parametrize(("given", "count"), [(["1,2", "3,4"], 3), (["1,2", "3,4"], 1), (["1,2", "x"], 2)])
def test_prices_refused(given: list[str], count: int) -> None:
    """Another number of prices than of judges, and a price that is none, are bad usage."""
    with pytest.raises(UsageError, match="--price"):
        options.prices(given, count)


def test_passes_refused() -> None:
    """What decides by the answers so far needs two of them, of one judge or of two."""
    options.refuse_passes(1, judges=1, adaptive=False, escalate=None)
    options.refuse_passes(2, judges=1, adaptive=True, escalate="a")
    options.refuse_passes(1, judges=2, adaptive=False, escalate="a")
    for adaptive, escalate, name in ((True, None, "--adaptive"), (False, "a", "--escalate")):
        with pytest.raises(UsageError, match=name):
            options.refuse_passes(1, judges=1, adaptive=adaptive, escalate=escalate)
