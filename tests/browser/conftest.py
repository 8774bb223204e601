"""A browser and reports for it; without an installed browser these tests skip with that reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.browser.reports import plain, report_of, ruler, run_of, write
from tests.browser.truth import Truth
from tests.browser.view import QUIET, View, program, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HERE = Path(__file__).parent
Show = Callable[..., View]
"""Opens a report, at a hash, in a window of its own."""


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out long tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Select the tests marked `smoke` of this folder for `make test`."""
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's chromium, driven by Playwright.

    It ends with this folder's tests: as long as it is driven an event loop runs in this thread, and the
    tests that come after need their own.
    """
    result = program()
    if result is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=result, args=list(QUIET)
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored file of 60 groups in which most things happened."""
    return run_of(tmp_path_factory.mktemp("report"), 60)


@pytest.fixture(scope="session")
def run(scored: Path) -> Path:
    """The report of that file."""
    return report_of(scored, scored.parent)


@pytest.fixture(scope="session")
def truth(scored: Path) -> Truth:
    """The truth of the scored file, read without the report."""
    return Truth.of(scored)


@pytest.fixture(scope="session")
def figures(scored: Path) -> dict[str, Any]:
    """The figures of `ruler report --json`."""
    reported: dict[str, Any] = orjson.loads(
        ruler("report", scored, "--json", folder=scored.parent).stdout
    )
    return dict(reported["figures"])


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 2,000 small groups."""
    folder = tmp_path_factory.mktemp("many")
    return report_of(
        write(
            folder / "many.jsonl",
            [plain(f"group-{i}", 0.2, 0.8) for i in range(2_000)],
        ),
        folder,
    )


@pytest.fixture
def view(browser: Browser, run: Path) -> Iterator[View]:
    """The report of the run in a window of its own, not opened yet; it must log no error."""
    with shown(browser, run) as opened:
        yield opened
        opened.clean()


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Any report, opened in a window of its own; none may log an error. Names are those of `shown`."""
    with ExitStack() as stack:
        opened: list[View] = []

        def one(report: Path, hash_: str = "", **window: Any) -> View:
            opened.append(stack.enter_context(shown(browser, report, **window)))
            return opened[-1].open(hash_)

        yield one
        for each in opened:
            each.clean()
