"""A browser and reports for it; where no browser is installed these tests skip, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.reports import report_of, run_of
from tests.browser.view import QUIET, View, program, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser


Show = Callable[..., View]
"""Opens a report, at a hash, in a window of its own."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium, driven by Playwright."""
    found = program()
    if found is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run of 60 groups in which most things happened."""
    folder = tmp_path_factory.mktemp("report")
    return report_of(run_of(folder, 60), folder)


@pytest.fixture
def view(browser: Browser, run: Path) -> Iterator[View]:
    """That report in a window of its own, not opened yet; at the end it must not have complained."""
    with shown(browser, run) as opened:
        yield opened
        opened.clean()


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Any report in a window of its own, opened; at the end none may have complained."""
    with ExitStack() as stack:
        opened: list[View] = []

        def one(report: Path, hash_: str = "") -> View:
            opened.append(stack.enter_context(shown(browser, report)))
            return opened[-1].open(hash_)

        yield one
        for each in opened:
            each.clean()
