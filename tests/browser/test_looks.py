"""Dark and light, paper, narrow windows, and a browser that runs no scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Show
from tests.browser.view import Theme, shown

PAGES = (
    "#overview",
    "#groups?where=live&mean=0..0.9",
    "#group=task-2",
    "#group=task-5",
    "#group=nobody",
)
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(show: Show, run: Path, theme: Theme) -> None:
    """In both themes every text has a contrast of at least 4.5 against its background."""
    view = show(run, theme=theme)
    for hash_ in PAGES:
        view.go(hash_)
        view.settled()
        result: list[tuple[str, float]] = view.page.evaluate(COLOURS)
        assert len(result) >= 5, hash_
        assert [pair for pair in result if pair[1] < 4.5] == [], hash_


@pytest.mark.smoke
def test_without_scripts(browser: Browser, run: Path, figures: dict[str, Any]) -> None:
    """A browser that runs no scripts shows the main figures, and a sentence that the rest needs them."""
    with shown(browser, run, scripts=False) as view:
        view.page.goto(view.address)
        text = view.text
        view.clean()
    assert "Scripts are off" in text
    assert "Opening the report" not in text
    rows = dict(line.split("\t") for line in text.splitlines() if "\t" in line)
    groups = figures["groups"]
    states = f"{groups['scored']} of {groups['all']} scored ({groups['live']} live, "
    assert rows["groups"].startswith(states)
    assert rows["failed"].startswith("2 ")
    assert f" of {figures['rollouts']['all']} scored" in rows["rollouts"]
    assert rows["mean score"] == f"{figures['scores']['mean']:.2f}"


def test_damaged_file(browser: Browser, run: Path, tmp_path: Path) -> None:
    """A damaged file shows a sentence about the damage in place of the page."""
    before, annotation, data = run.read_text().partition('id="data">')
    (tmp_path / "cut.html").write_text(f"{before}{annotation}{data[:200]}{data[400:]}")
    with shown(browser, tmp_path / "cut.html") as view:
        view.page.goto(view.address)
        view.find("#app").filter(has_text="This report cannot be opened").wait_for()
        view.clean()
