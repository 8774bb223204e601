"""The documentation's pictures, taken of real runs over the samples: `make pictures`."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import MONOKAI as _THEME
from rich.text import Text

from tests.browser.view import QUIET, View, program, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, LINES = 80, 48
MADE = "1795269600"
"""The time in the reports: pictures of the same figures are the same."""
_FRAME = (
    "body{margin:0;background:#0c0c0c;padding:14px}pre{margin:0;font:14px/1.3 'DejaVu Sans Mono',monospace}"
)


def take(folder: Path, browser: Browser) -> None:
    """Score two samples, open their reports, and save the pictures."""
    run, conversations = folder / "scored.jsonl", folder / "tau_bench.jsonl"
    _ruler("score", ROOT / "samples/simulated.jsonl", run, "-m", "simulated", "--passes", "4")
    _ruler("score", ROOT / "samples/tau_bench.jsonl", conversations, "-m", "offline")
    for scored in (run, conversations):
        _ruler("report", scored, "-o", scored.with_suffix(".html"))
    with shown(browser, run.with_suffix(".html"), width=1280, height=1024) as view:
        _picture(view, "overview", "")
    with shown(browser, run.with_suffix(".html"), width=1280, height=680) as view:
        _picture(view, "groups", "#groups")
    with shown(browser, run.with_suffix(".html"), theme="dark", width=1280, height=1024) as view:
        _picture(view, "overview-dark", "")
    with shown(browser, conversations.with_suffix(".html"), height=1360) as view:
        view.open("#groups")
        key = view.page.evaluate("opened.rows.key[0]")
        _picture(view, "group", f"#group={key}")
    with shown(browser, run.with_suffix(".html"), width=390, height=844) as view:
        _picture(view, "phone", "")
        _picture(view, "phone-groups", "#groups")
    with shown(browser, conversations.with_suffix(".html"), theme="dark", width=390, height=844) as view:
        _picture(view, "phone-group-dark", f"#group={key}")
    _two_judges(folder, run, browser)
    _terminal(folder, run, browser)


def _two_judges(folder: Path, scored: Path, browser: Browser) -> None:
    """The overview of two files."""
    other, page = folder / "other.jsonl", folder / "compare.html"
    judge = ("-m", "simulated", "-p", "seed=5", "-p", "noise=0.3")
    _ruler("score", ROOT / "samples/simulated.jsonl", other, *judge)
    _ruler("report", scored, other, "-o", page)
    with shown(browser, page, width=1280, height=1000) as view:
        _picture(view, "compare", "")


def _ruler(*args: str | Path) -> None:
    command = [sys.executable, "-m", "ruler_cli", *map(str, args)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=300, env={"SOURCE_DATE_EPOCH": MADE, **os.environ})


def _picture(view: View, name: str, hash_: str) -> None:
    view.open(hash_)
    view.until("!document.querySelector('.g-turns div[style*=height]')")  # later parts are built
    view.page.screenshot(path=PICTURES / f"{name}.png")
    view.clean()


def _terminal(folder: Path, scored: Path, browser: Browser) -> None:
    """The screen of a terminal of 80 columns."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ ruler report scored.jsonl", style="bold"))
    console.print(Text.from_ansi(_on_terminal(["report", scored.name], folder)))
    page = folder / "terminal.html"
    page.write_text(console.export_html(inline_styles=True, theme=_THEME), encoding="utf-8")
    window = browser.new_context(viewport={"width": 760, "height": 600}).new_page()
    window.goto(page.as_uri())
    window.add_style_tag(content=_FRAME)
    window.screenshot(path=PICTURES / "terminal.png", full_page=True)


def _on_terminal(args: list[str], folder: Path) -> str:
    """The output of the command on a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color"}
    env |= {"PYTHONPATH": str(ROOT), "PAGER": "cat"}
    env.pop("NO_COLOR", None)
    done = subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", *args], stdout=theirs, stdin=theirs, cwd=folder, env=env
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # Linux raises it once no process writes any more
            break
        if not more:
            break
        output += more
    done.wait(timeout=60)
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


def _main() -> int:
    result = program()
    if result is None:
        print("pictures: no browser is installed: apt-get install chromium", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ruler-pictures-") as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=result, args=list(QUIET))
        take(Path(folder), browser)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
