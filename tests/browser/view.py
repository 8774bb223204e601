"""A page of the report as a browser shows it, and everything that the browser complains of or asks for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",  # CI is often root in a container, where the sandbox cannot be made
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 20_000
"""Milliseconds after which what does not come is a failure."""
Theme = Literal["light", "dark"]


def program() -> str | None:
    """The browser of this machine; None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class View:
    """One open page. `said` is what its console said, `asked` every address it asked for."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.said: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", self._dismiss)
        page.on("popup", lambda other: self.said.append(f"popup: {other.url}"))

    def open(self, hash_: str = "") -> View:
        """Load the report at a hash, as from a shared link, and wait until it is shown."""
        self.page.goto("about:blank")
        self.asked.clear()
        self.page.goto(self.address + hash_)
        return self.ready()

    def ready(self) -> View:
        """Wait until it is shown."""
        self.page.wait_for_selector("html[data-ready]")
        return self

    def _dismiss(self, dialog: Dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    @property
    def hash(self) -> str:
        """What stands behind the `#` of the address."""
        return str(self.page.evaluate("location.hash"))

    @property
    def text(self) -> str:
        """All that is to be read."""
        return self.page.inner_text("body")

    def clean(self) -> None:
        """The browser complained of nothing, asked for nothing but the file, and went nowhere else."""
        assert self.said == []
        assert {re.sub("#.*", "", address) for address in self.asked} == {self.address}
        assert re.sub("#.*", "", self.page.url) == self.address


@contextmanager
def shown(
    browser: Browser, report: Path, *, theme: Theme = "light", width: int = 1200, height: int = 900
) -> Iterator[View]:
    """A report in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, offline=True
    )
    try:
        yield View(context.new_page(), report.as_uri())
    finally:
        context.close()
