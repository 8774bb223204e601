"""The projected cost of 100 million rollouts."""

from __future__ import annotations

import pytest

from benchmarks.projection import (
    MEASURED,
    PRICES,
    Row,
    project,
    read,
    shown,
    table,
    wrong,
)

_TITLES = {**MEASURED, **PRICES}
_GIVEN = {key: float(3 + number) for number, key in enumerate(_TITLES)}
_GIVEN |= {
    "prompt": 3450.0,
    "completion": 480.0,
    "server_completion": 180.0,
    "openai": 14_100.0,
}


def _computed(**changed: float) -> dict[str, float]:
    return {row.title: row.values[0] for row in project([_GIVEN | changed])}


def _cells() -> list[list[str]]:
    stated = [
        Row(title, (_GIVEN[key],), "measured") for key, title in _TITLES.items()
    ]
    lines = table(["a kind"], [*stated, *project([_GIVEN])]).splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_follows() -> None:
    """A table follows from its measured rows; a computed row that was changed, and a lost one, are named."""
    assert wrong(_cells()) == []
    for title in ("tokens, billions", "batches at OpenAI", "OUTPUT, TB"):
        cells = _cells()
        for row in cells:
            row[1] = "77" if row[0] == title else row[1]
        (sentence,) = wrong(cells)
        assert sentence.startswith(f"{title}: ['77']")
    assert wrong(_cells()[1:]) == [f"there is no row {MEASURED['input']!r}"]


def test_limits() -> None:
    """A batch is full by number or by bytes; hours are those of the limit that is reached first."""
    assert _computed(openai=1_000.0)["batches at OpenAI"] == 250
    assert _computed(openai=150_000_000.0)["batches at OpenAI"] == 12_500_000
    title = "hours at 10,000 requests and 30 million tokens a minute"
    assert _computed(prompt=1_000.0)[title] == pytest.approx(
        12_500_000 / 10_000 / 60
    )
    assert _computed(prompt=29_520.0)[title] == pytest.approx(
        12_500_000 / 1_000 / 60
    )


def test_half_in_batches() -> None:
    """A batch costs half, for each model by its own price."""
    for name in ("openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"):
        result = _computed()
        assert result[f"{name}, in batches, thousand USD"] * 2 == pytest.approx(
            result[f"{name}, list price, thousand USD"]
        )


def test_cell() -> None:
    """A cell has three digits that count, and reads back as what it shows."""
    for value, cell in (
        (12_500_000, "12,500,000"),
        (0.01234, "0.0123"),
        (999.6, "1,000"),
    ):
        assert shown(value) == cell
        assert shown(read(cell)) == cell
