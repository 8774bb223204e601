"""The rules of axe: names, roles, contrast, order, regions."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.view import View

CONTROLS = re.compile(
    r"- '?(button|link|textbox|searchbox|combobox|checkbox|grid|region|dialog|navigation|progressbar)\b"
)


def violations(view: View) -> list[str]:
    """Return a line for each element that breaks a rule; some rule must apply to the page."""
    report: dict[str, Any] = Axe().run(view.page).response
    assert len(report["passes"]) > 10
    return [
        f"{rule['id']}: {node['html']}: {node['failureSummary']}"
        for rule in report["violations"]
        for node in rule["nodes"]
    ]


def assert_accessible(view: View) -> None:
    """Assert names, contrasts, ranks in steps, ids and landmarks that stand once, and no scrolling sideways."""
    assert violations(view) == []
    tree = view.find("body").aria_snapshot()
    assert 'role="' not in tree
    lines = [line.strip() for line in tree.splitlines()]
    controls = [line for line in lines if CONTROLS.match(line)]
    assert controls
    assert [line for line in controls if '"' not in line] == []
    headings = view.find(
        "h1:visible, h2:visible, h3:visible, h4:visible, h5:visible"
    )
    rank = "all => all.map(heading => Number(heading.localName[1]))"
    ranks = headings.evaluate_all(rank)
    assert (ranks[0], ranks.count(1)) == (1, 1)
    assert all(later <= earlier + 1 for earlier, later in pairwise(ranks)), (
        ranks
    )
    ids = view.find("[id]").evaluate_all(
        "all => all.map(element => element.id)"
    )
    assert len(ids) == len(set(ids))
    for role in ("banner", "main"):
        assert view.page.get_by_role(role).count() == 1
    assert view.page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )
