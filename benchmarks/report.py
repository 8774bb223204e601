"""The HTML report of 100, 1,000 and 10,000 groups: its size, and the seconds to write and to open it.

    python -m benchmarks.report [--quick]

Groups of 8 rollouts, scored twice each by the simulated judge. Each report opens three times in a fresh
window of headless Chromium, from disk, and the slowest counts: from the start of the navigation until the
second frame after the first view was drawn. Scrolling moves the table in 240
frames by 120 pixels each, as a wheel does, and then from its top to its end: the figure is the share of
frames that take longer than two frames of a screen with 60 a second. A search is timed from the change of the
address until the table shows its groups: the first one, two seconds after the page was opened, and the slowest of
the next.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from benchmarks.commands import command, ended, run
from benchmarks.results import Result, alone
from tests.browser.view import QUIET, program, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SOON = 2.0
"""Seconds in which a report of 10,000 groups must be open."""
_OPENINGS = 3
_FRAME = 1000 / 60
"""Milliseconds of a frame of a screen with 60 a second."""
_STEPS = 240
_WHEEL = 120
"""Pixels of a frame when a user turns the wheel fast."""
_SCROLL = """async ([frame, steps, pixels]) => {
  const grid = [...document.querySelectorAll("*")].find(
    (e) => e.scrollHeight > 4 * e.clientHeight && ["auto", "scroll"].includes(getComputedStyle(e).overflowY),
  ) ?? document.scrollingElement;
  const by = pixels || (grid.scrollHeight - grid.clientHeight) / steps;
  const late = [];
  let before = await new Promise(requestAnimationFrame);
  for (let i = 1; i <= steps; i++) {
    grid.scrollTop = by * i;
    const now = await new Promise(requestAnimationFrame);
    if (now - before > 2 * frame) late.push(now - before);
    before = now;
  }
  return [late.length / steps, Math.max(0, ...late)];
}"""
_SEARCH = """async (words) => {
  const status = () => document.querySelector("p[role=status]").textContent;
  const start = performance.now();
  location.hash = link({ search: words });
  do await new Promise(requestAnimationFrame);
  while (drawnHash !== location.hash || status().includes("searching"));
  return performance.now() - start;
}"""
_SEARCHES = (
    "kettle",
    "get_order gate",
    "refund truth=0.5",
    "seat window 7",
    "nothing",
)
_BEFORE_A_SEARCH = 2_000
"""Milliseconds in which a person finds the search and types."""
_WORDS = "search book cancel refund order parcel kettle window policy gate seat".split()  # noqa: SIM905 - plain


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each size, if there is a browser."""
    with chromium() as browser:
        for groups in (100, 1_000) if quick else (100, 1_000, 10_000):
            if browser is not None:
                yield _one(folder, groups, browser)


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """Open headless Chromium; None if there is none."""
    found = program()
    if found is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=found, args=list(QUIET)
        )
        yield browser
        browser.close()


def _one(folder: Path, groups: int, browser: Browser) -> Result:
    report = folder / f"report-{groups}.html"
    scored = scored_file(folder, groups)
    cost = run("ruler_cli", "report", scored, "-o", report)
    opened = max(_open(browser, report) for _ in range(_OPENINGS))
    late, longest = _scroll(browser, report, _WHEEL)
    through, most = _scroll(browser, report, 0)
    first, later = _search(browser, report)
    sizes = f"{report.stat().st_size / 1e6:.1f} MB from {scored.stat().st_size / 1e6:.0f} MB"
    detail = (
        f"{sizes}, written in {cost.wall:.1f} s and {cost.peak / 2**20:.0f} MiB; late frames {late:.1%} by "
        f"the wheel, the longest {longest:.0f} ms; {through:.1%} and {most:.0f} ms from top to end; "
        f"searched in {later:.0f} ms, the first time in {first / 1000:.1f} s"
    )
    return Result(
        None,
        f"report of {groups:,} groups, seconds until open",
        opened,
        detail,
        limit=SOON,
    )


def _open(browser: Browser, report: Path) -> float:
    """Measure seconds from the start of the navigation until the report signals that it is shown."""
    with shown(browser, report) as view:
        view.page.add_init_script(
            "new MutationObserver((_, watch) => { if (document.documentElement?.dataset.ready) {"
            "watch.disconnect(); window.openedAt = performance.now(); } })"
            ".observe(document, { attributes: true, subtree: true });"
        )
        view.open()
        return float(view.page.evaluate("window.openedAt")) / 1000


def _search(browser: Browser, report: Path) -> tuple[float, float]:
    """Return the milliseconds of the first search, and of the slowest of the next."""
    with shown(browser, report) as view:
        view.open("#groups")
        view.page.wait_for_timeout(_BEFORE_A_SEARCH)
        first, *later = [
            view.page.evaluate(_SEARCH, words) for words in _SEARCHES
        ]
        return float(first), max(map(float, later))


def _scroll(browser: Browser, report: Path, pixels: int) -> tuple[float, float]:
    """Return the share of late frames, and the longest frame in milliseconds."""
    with shown(browser, report) as view:
        view.open("#groups")
        late, longest = view.page.evaluate(_SCROLL, [_FRAME, _STEPS, pixels])
        return float(late), float(longest)


def scored_file(folder: Path, groups: int) -> Path:
    """Write so many groups of 8 rollouts, and score them."""
    dice = random.Random(groups)
    source, scored = folder / "in.jsonl", folder / f"scored-{groups}.jsonl"
    with source.open("wb") as file:
        for number in range(groups):
            file.write(orjson.dumps(_group(number, dice)) + b"\n")
    ended(command(source, scored, None, m="simulated", passes=2))
    return scored


def _group(number: int, dice: random.Random) -> dict[str, Any]:
    def words(least: int, most: int) -> str:
        return " ".join(dice.choices(_WORDS, k=dice.randint(least, most)))

    prompt = [
        {
            "role": "system",
            "content": f"You are the help desk of an airline. {words(80, 80)}",
        },
        {"role": "user", "content": f"Task {number}: {words(12, 12)}"},
    ]
    return {
        "group_id": f"task-{number}",
        "trajectories": [
            {
                "messages": [*prompt, *_turns(dice, words)],
                "reward": float(dice.random() < 0.5),
            }
            for _ in range(8)
        ],
    }


def _turns(dice: random.Random, words: Any) -> Iterator[dict[str, Any]]:
    for turn in range(dice.randint(2, 7)):
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "get_order", "arguments": "{}"},
        }
        yield {
            "role": "assistant",
            "content": words(5, 25),
            "tool_calls": [call],
        }
        yield {
            "role": "tool",
            "tool_call_id": f"c{turn}",
            "content": words(5, 40),
        }
    yield {
        "role": "assistant",
        "content": f"Done: truth={dice.random():.2f} {words(8, 12)}",
    }


if __name__ == "__main__":
    sys.exit(alone(measure))
