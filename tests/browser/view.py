"""A page of the report in a browser, with its console messages and its requests."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Locator, Page

    AriaRole = Literal[
        "button",
        "link",
        "region",
        "table",
        "cell",
        "grid",
        "searchbox",
        "combobox",
        "checkbox",
    ]

PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
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
"""Milliseconds after which a wait fails."""
Theme = Literal["light", "dark"]
_GO = """hash => new Promise(drawn => {
  if (location.hash === hash) return drawn();
  addEventListener("hashchange", () => requestAnimationFrame(() => drawn()), { once: true });
  location.hash = hash;
})"""
_DRAWN = """window.drawnHash = location.hash;
addEventListener("hashchange", () => { window.drawnHash = location.hash; });
for (const name of ["pushState", "replaceState"]) {
  const change = history[name];
  history[name] = function (...given) { change.apply(this, given); window.drawnHash = location.hash; };
}"""
"""Keeps the hash that the page has drawn. A link changes the address before the page hears of it."""


def program() -> str | None:
    """The browser of this machine; None if there is none."""
    return next(
        (result for name in PROGRAMS if (result := shutil.which(name))), None
    )


class View:
    """One open page. `messages` are those of its console, `asked` every address that it requested."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.messages: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.add_init_script(_DRAWN)
        page.on(
            "console",
            lambda message: self.messages.append(
                f"{message.type}: {message.text}"
            ),
        )
        page.on(
            "pageerror", lambda error: self.messages.append(f"error: {error}")
        )
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", self._dismiss)
        page.on(
            "popup", lambda other: self.messages.append(f"popup: {other.url}")
        )

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

    def go(self, hash_: str) -> View:
        """Change the address' hash, as a link within the page does, and wait until that is drawn."""
        self.page.evaluate(_GO, hash_)
        return self

    def _dismiss(self, dialog: Dialog) -> None:
        self.messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def find(self, selector: str) -> Locator:
        """The elements that match a CSS selector."""
        return self.page.locator(selector)

    def by(self, role: AriaRole, name: str) -> Locator:
        """The elements with this role and exactly this name for a screen reader."""
        return self.page.get_by_role(role, name=name, exact=True)

    def until(self, condition: str, of: Any = None) -> None:
        """Wait until a condition, JavaScript of a value or of none, is true.

        Playwright's own way to wait for one is to eval it in the page, where the policy forbids it.
        """
        function = condition if "=>" in condition else f"() => {condition}"
        last = monotonic() + PATIENCE / 1_000
        while not self.page.evaluate(function, of):
            assert monotonic() < last, f"never came: {condition} {of or ''}"
            self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def at(self, hash_: str) -> View:
        """Wait until the address has this hash, and the page is drawn for it."""
        self.until(
            "hash => location.hash === hash && window.drawnHash === hash", hash_
        )
        return self

    def settled(self) -> View:
        """Wait until the group's text is read and all its turns are in the document.

        In one condition: room for turns that are not built yet appears when the text is read.
        """
        self.until(
            "!document.body.innerText.includes('Reading the text')"
            " && !document.querySelector('.g-later')"
        )
        return self

    @property
    def count(self) -> int:
        """The number of matching groups, as the table announces it."""
        announced = self.find("p[role=status]").inner_text()
        return int(announced.split(" of ")[0].replace(",", ""))

    @property
    def keys(self) -> list[str]:
        """The keys in the table's rows, from the top: those in the document."""
        return self.find(".body .cell.key a").all_text_contents()

    @property
    def focus(self) -> str:
        """The focused element in HTML, without its content."""
        return str(
            self.page.evaluate("document.activeElement.outerHTML.split('>')[0]")
        )

    @property
    def hash(self) -> str:
        """The address after its `#`."""
        return str(self.page.evaluate("location.hash"))

    @property
    def text(self) -> str:
        """All visible text."""
        return self.page.inner_text("body")

    def clean(self) -> None:
        """Assert that the browser logged no error, requested only the file, and went nowhere else.

        The program of the search's worker is an address within the page.
        """
        assert self.messages == []
        outside = [one for one in self.asked if not one.startswith("blob:")]
        assert {re.sub("#.*", "", address) for address in outside} == {
            self.address
        }
        assert re.sub("#.*", "", self.page.url) == self.address


@contextmanager
def shown(
    browser: Browser,
    report: Path,
    *,
    theme: Theme = "light",
    width: int = 1200,
    height: int = 900,
    scripts: bool = True,
) -> Iterator[View]:
    """A report in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        offline=True,
        java_script_enabled=scripts,
    )
    try:
        yield View(context.new_page(), report.as_uri())
    finally:
        context.close()
