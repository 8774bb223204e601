"""The rules of axe: names, roles, contrast, order, regions."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.view import View

COLOURS = """() => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found[3] === 1) return found;
    }
    return [255, 255, 255, 1];
  };
  const light = ([r, g, b]) => {
    const linear = v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map(v => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const worst = new Map();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.matches(":disabled, script, style, .g-unheard")) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const filled = element.closest("svg") && style.fill !== "none";
    const colour = parse(filled ? style.fill : style.color);
    const [a, b] = [light(colour), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${element.localName}.${element.getAttribute("class") ?? ""}`;
    if (!(worst.get(name) < contrast)) worst.set(name, contrast);
  }
  return [...worst];
}"""
"""Returns each kind of element with the lowest contrast of its texts."""
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
    """Assert names, contrasts of 4.5, ranks in steps, ids and landmarks that stand once, and no scrolling sideways."""
    assert violations(view) == []
    contrasts: list[tuple[str, float]] = view.page.evaluate(COLOURS)
    assert len(contrasts) > 3
    assert [pair for pair in contrasts if pair[1] < 4.5] == []
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
