"""The table of groups: order, filters, search, virtual rows, keys, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.highlights import reasons
from tests.browser.conftest import Show
from tests.browser.truth import Truth, natural
from tests.browser.view import View

TALL = 3_000
"""Pixels in which all 60 rows are drawn."""


def sorts(truth: Truth) -> dict[str, Callable[[int], Any]]:
    """The sort key of each column."""
    groups = truth.groups

    def figure(name: str) -> Callable[[int], Any]:
        return lambda i: truth.value(i, name)

    return {
        "key": lambda i: natural(groups[i].key),
        "task": lambda i: natural(truth.tasks[i]),
        "rollouts": lambda i: len(groups[i].rollouts),
        "scores": lambda i: max(groups[i].scores, default=None),
        **{
            name: figure(name)
            for name in (
                "mean",
                "sd",
                "reliability",
                "disagreement",
                "cost_usd",
                "tokens",
            )
        },
        "telling": lambda i: truth.telling[i],
    }


COLUMNS = {
    name: name
    for name in (
        "key",
        "mean",
        "sd",
        "reliability",
        "task",
        "rollouts",
        "tokens",
    )
}
COLUMNS |= {
    "cost_usd": "cost",
    "scores": "scores 0 to 1",
    "telling": "flags",
    "disagreement": "disputed",
}


def head(view: View, title: str) -> Any:
    """The button in a column's head."""
    return view.find(".head").get_by_role("button", name=title, exact=True)


def test_sort(show: Show, run: Path, truth: Truth) -> None:
    """A click on a column's head sorts as Python does, a second click reverses; empty values come last."""
    view = show(run, "#groups", height=TALL)
    assert view.keys == truth.ordered()
    for column, key in sorts(truth).items():
        ways = set()
        for _ in range(2):
            head(view, COLUMNS[column]).click()
            now = view.find(f".head .cell.{column}").get_attribute("aria-sort")
            assert view.keys == truth.ordered(key, down=now == "descending"), (
                column,
                now,
            )
            ways.add(now)
        assert ways == {"ascending", "descending"}, column
        assert view.find(".head [aria-sort]:not([aria-sort=none])").count() == 1


@pytest.mark.smoke
def test_cells(show: Show, run: Path, truth: Truth) -> None:
    """Each row shows its group's figures, rounded, its flags, and its scores as dots with a name."""
    view = show(run, "#groups?sort=ordinal", height=TALL)
    cells = "rows => rows.map(row => [...row.children].map(cell => cell.textContent.trim()))"
    rows = view.find(".body [role=row]").evaluate_all(cells)
    assert len(rows) == 60
    named = "rows => rows.map(row => row.querySelector('.strip')?.getAttribute('aria-label') ?? '')"
    names = view.find(".body [role=row]").evaluate_all(named)
    marked = "rows => rows.map(row => [...row.querySelectorAll('.mark')].map(mark => mark.textContent))"
    flags = view.find(".body [role=row]").evaluate_all(marked)
    for i, (row, name, group) in enumerate(
        zip(rows, names, truth.groups, strict=True)
    ):
        # a reason stands in the place of a failed group's figures
        row[4:4] = ["–"] * (11 - len(row))
        key, _, _, scores, mean, sd, reliability, against, count, _, tokens = (
            row
        )
        assert (key, int(count)) == (group.key, len(group.rollouts))
        for shown, figure, half in (
            (mean, group.mean, 0.0051),
            (sd, group.sd, 0.0051),
        ):
            assert (
                shown == "–"
                if figure is None
                else abs(float(shown) - figure) < half
            )
        assert (reliability == "–") == (group.reliability is None)
        assert against == (
            "–"
            if group.disagreement is None
            else f"{group.disagreement + 1e-9:.0%}"
        )
        assert tokens == f"{truth.value(i, 'tokens'):,.0f}"
        assert ("suspect" in flags[i]) == ("suspect" in group.flags)
        assert ("disputed" in flags[i]) == ("disagrees" in reasons(group))
        if group.failed:
            assert (scores, name) == (group.reason, "")
        else:
            result = [
                float(score) for score in re.findall(r"([\d.]+) \(", name)
            ]
            assert result == pytest.approx(
                sorted(group.scores, reverse=True), abs=0.0051
            )
