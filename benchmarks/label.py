"""A page of comparisons: its size, the seconds to make it, and a walk through 20 of them.

    python -m benchmarks.label [--quick]

50 pairs are drawn from the groups of `benchmarks.report`. In headless Chromium a walk opens the page, gives a name,
reads each comparison down to its end by the space bar, answers by a key, and downloads labels.jsonl. It pauses
for PAUSE seconds at each screen, as somebody who reads fast; a second walk does not pause. What is left of the first
walk without its pauses is what the page takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import report
from benchmarks.commands import run
from benchmarks.results import Result, alone
from tests.browser.view import View, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAUSE = 4.0
"""Seconds at each screen of text."""
_PAIRS = 50
_WALK = 20
_AT_END = "innerHeight + scrollY >= document.documentElement.scrollHeight - 2"


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for the page, and, if there is a browser, one for each walk."""
    groups = 100 if quick else 1_000
    page = folder / "label.html"
    scored = report.scored_file(folder, groups)
    cost = run("ruler_cli", "report", scored, "--label", _PAIRS, "-o", page)
    sizes = f"{page.stat().st_size / 1e6:.2f} MB from {scored.stat().st_size / 1e6:.0f} MB"
    name = f"page of {_PAIRS} pairs out of {groups:,} groups, seconds to make"
    detail = f"{sizes}, {cost.peak / 2**20:.0f} MiB"
    yield Result(None, name, cost.wall, detail)
    with report.chromium() as browser:
        for pause in (0.0,) if quick else (0.0, PAUSE):
            if browser is not None:
                yield _walk(browser, page, pause)


def _walk(browser: Browser, page: Path, pause: float) -> Result:
    """Label 20 pairs from the opening of the page to the download."""
    begin = time.perf_counter()
    screens = 0
    with shown(browser, page) as view:
        view.open()
        view.find("input[name=name]").fill("Ana")
        view.page.keyboard.press("Enter")
        for number in range(_WALK):
            screens += _read(view, pause)
            view.page.keyboard.press("120?"[number % 4])
        view.page.keyboard.press("s")
        with view.page.expect_download() as found:
            view.by("button", "Download labels.jsonl").click()
        lines = Path(found.value.path()).read_text().splitlines()
    seconds = time.perf_counter() - begin
    own = seconds - screens * pause
    name = (
        f"{_WALK} labels from open to download, {pause:g} s a screen, seconds"
    )
    detail = f"{len(lines)} lines, {screens} screens of text, {own:.1f} s without pauses"
    return Result(None, name, seconds, detail)


def _read(view: View, pause: float) -> int:
    """Read the comparison in sight down to its end; return the screens that it has."""
    view.find(".l-side .g-turn").first.wait_for()
    screens = 1
    time.sleep(pause)
    while pause and not view.page.evaluate(_AT_END):
        view.page.keyboard.press("PageDown")
        view.page.wait_for_timeout(150)  # it scrolls smoothly
        time.sleep(pause)
        screens += 1
    return screens


if __name__ == "__main__":
    sys.exit(alone(measure))
