"""The documentation's pictures, taken of real runs over the samples: `make pictures`."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
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
JUDGED, MADE = "2026-11-21T13:37:22Z", "1795269600"
"""The times in scored files and reports: pictures of the same figures are the same."""
_FRAME = "body{margin:0;background:#0c0c0c;padding:14px}pre{margin:0;font:14px/1.3 'DejaVu Sans Mono',monospace}"
_REPLIES = {
    "Shall I extend it": (
        0.94,
        "Looks the loan up, says when it is due, and extends it after the reader agrees, as the policy asks.",
    ),
    "I have extended it": (
        0.71,
        "Extends the right loan in the fewest turns, but without the confirmation that the policy asks for.",
    ),
    "Which book do you mean": (
        0.12,
        "Never looks at the loans of the reader, asks for a number that it could find, and hands over.",
    ),
    "Neither can be extended": (
        0.95,
        "Looks at both loans, changes neither, and gives the reader the reason for each.",
    ),
    "I extended Middlemarch": (
        0.15,
        "Extends a loan that two readers wait for, which the policy forbids, and tries one that was used up.",
    ),
    "I am not able to extend": (
        0.86,
        "Comes to the right answer with its reasons, after one call that fails on a misspelt number.",
    ),
}
"""Replies of the judge of the conversations: a score and an explanation, by words of the rollout."""


class _Judge(BaseHTTPRequestHandler):
    """A judge that gives _REPLIES."""

    def do_POST(self) -> None:
        """Answer one request."""
        request = json.loads(
            self.rfile.read(int(self.headers["Content-Length"]))
        )
        text = request["messages"][-1]["content"]
        scores = []
        for label, rollout in re.findall(
            r'<trajectory id="(.+?)">\n(.+?)\n</trajectory>', text, re.DOTALL
        ):
            score, explanation = next(
                reply for words, reply in _REPLIES.items() if words in rollout
            )
            scores.append(
                {
                    "trajectory_id": label,
                    "explanation": explanation,
                    "score": score,
                }
            )
        message = {
            "role": "assistant",
            "content": json.dumps({"scores": scores}),
        }
        reply = json.dumps(
            {"choices": [{"message": message, "finish_reason": "stop"}]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def _judge() -> Iterator[str]:
    """The address of the judge."""
    with HTTPServer(("127.0.0.1", 0), _Judge) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def take(folder: Path, browser: Browser) -> None:
    """Score two samples, open their reports, and save the pictures."""
    run, conversations = folder / "scored.jsonl", folder / "tau_bench.jsonl"
    _score("simulated", run, "-m", "simulated", "--passes", "4")
    with _judge() as base:
        _score(
            "tau_bench",
            conversations,
            "-m",
            "judge",
            "--api-base",
            base,
            "--ledger",
            "none",
        )
    page = folder / "scored.html"
    talks = folder / "tau_bench.html"
    _ruler("report", run, "-o", page)
    _ruler("report", conversations, "-o", talks)
    with shown(browser, page, width=1280) as view:
        _picture(view, "overview", "", below="#chart-scores")
    with shown(browser, page, theme="dark", width=1280) as view:
        _picture(view, "overview-dark", "", below="#chart-scores")
    with shown(browser, page, width=1280, height=662) as view:
        _picture(view, "groups", "#groups")
    with shown(browser, page, width=1920, height=900) as view:
        _picture(
            view, "groups-wide", "#groups?where=disputed&sort=-disagreement"
        )
    with shown(browser, talks) as view:
        view.open("#groups")
        key = view.page.evaluate("opened.rows.key[0]")
        _picture(
            view,
            "group",
            f"#group={key}",
            below=".g-columns .g-row:nth-child(4)",
        )
    with shown(browser, talks, width=1280) as view:
        _marked(view, f"#group={key}", folder)
        _picture(
            view,
            "marks",
            f"#group={key}",
            below=".g-columns .g-row:nth-child(3)",
        )
    with shown(browser, page, width=390, height=856) as view:
        _picture(view, "phone-groups", "#groups")
        _picture(view, "phone", "", below="[aria-labelledby=worst-head]")
    with shown(
        browser,
        talks,
        theme="dark",
        width=390,
        height=844,
    ) as view:
        _picture(
            view,
            "phone-group-dark",
            f"#group={key}",
            below=".g-columns .g-row:nth-child(3)",
        )
    _two_judges(folder, run, browser)
    _labels(conversations, browser)
    _training(folder, run, browser)
    _terminal(folder, run, browser)


def _marked(view: View, hash_: str, folder: Path) -> None:
    """Mark a group and its rollouts, as two people would."""
    view.open(hash_).settled()
    view.page.keyboard.press("r")
    for key, words in (
        ("g", "Asks before it extends, as the policy says."),
        ("b", "The right loan, but nobody agreed to it."),
    ):
        view.page.keyboard.press(key)
        view.page.keyboard.press("n")
        view.page.keyboard.type(words)
        view.page.keyboard.press("Escape")
        view.page.keyboard.press("ArrowRight")
    of_bo = view.page.evaluate(
        "() => ({ group: opened.rows.key[0], by: 'bo',"
        " note: 'The judge should not like the second one this much.' })"
    )
    file = folder / "bo.jsonl"
    file.write_text(json.dumps(of_bo))
    view.go("#groups").find("#marks input[type=file]").set_input_files(
        str(file)
    )
    view.until("!!document.querySelector('.mark.own')")


def _two_judges(folder: Path, scored: Path, browser: Browser) -> None:
    """The overview of two files."""
    other, page = folder / "other.jsonl", folder / "compare.html"
    judge = ("-m", "simulated", "-p", "seed=5", "-p", "noise=0.3")
    _score("simulated", other, *judge)
    _ruler("compare", scored, other, "-o", page)
    with shown(browser, page, width=1280) as view:
        _picture(view, "compare", "", below="footer")


def _labels(scored: Path, browser: Browser) -> None:
    """A comparison on the page for labels, on screens and on a phone."""
    page = scored.with_name("label.html")
    _ruler("label", scored, "--pairs", "6", "-o", page)
    for name, width, height in (
        ("label", 1280, 800),
        ("label-wide", 1920, 900),
        ("label-phone", 390, 844),
    ):
        with shown(browser, page, width=width, height=height) as view:
            view.open()
            view.find("input[name=name]").fill("Ana")
            view.page.keyboard.press("Enter")
            view.find(".l-side .g-turn").first.wait_for()
            view.page.keyboard.press("1")
            view.find("h2").filter(has_text="Comparison 2").wait_for()
            view.find(".l-side .g-turn").first.wait_for()
            view.page.screenshot(path=PICTURES / f"{name}.png")
            view.clean()


def _training(folder: Path, scored: Path, browser: Browser) -> None:
    """The page of a training whose scores rise from step 90 on, and whose answers grow and turn to the judge."""
    lines = scored.read_text().splitlines()
    files = []
    for step in range(10, 250, 10):
        dice = random.Random(step)
        since = max(0, step - 120) / 10
        groups = [json.loads(line) for line in dice.sample(lines, 28)]
        for rollout in (
            one for group in groups for one in group["trajectories"]
        ):
            words = max(1, round(dice.gauss(40, 12) * (1 + 0.06 * since)))
            own = rollout["ruler"]
            score = own["score"] + 0.02 * since + (words - 40) * 0.0003 * since
            own |= {"score": score, "judge_score": score}
            own["suspect"] = dice.random() < 0.003 * since
            own["ended"] = "truncated" if dice.random() < 0.02 else ""
            rollout["messages"][-1]["content"] += " and so on" * words
        files.append(folder / f"step-{step}.jsonl")
        text = "".join(json.dumps(group) + "\n" for group in groups)
        files[-1].write_text(text)
    _ruler("trend", *files, "-o", folder / "trend.html")
    with shown(browser, folder / "trend.html", width=1280) as view:
        _picture(view, "trend", "", below="#chart-bytes")
    with shown(browser, folder / "trend.html", width=1920, height=1080) as view:
        _picture(view, "trend-wide", "")
    with shown(browser, folder / "trend.html", theme="dark", width=390) as view:
        _picture(view, "trend-phone", "", below="#chart-gap")


def _score(sample: str, scored: Path, *judge: str) -> None:
    """Score a sample, as if at the time JUDGED."""
    _ruler("score", ROOT / f"samples/{sample}.jsonl", scored, *judge)
    scored.write_text(
        re.sub(
            r'"judged_at": ?"[^"]+"',
            f'"judged_at":"{JUDGED}"',
            scored.read_text(),
        )
    )


def _ruler(*args: str | Path) -> None:
    command = [sys.executable, "-m", "benchmarks.simulated", *map(str, args)]
    subprocess.run(
        command,
        check=True,
        cwd=ROOT,
        timeout=300,
        env={"SOURCE_DATE_EPOCH": MADE, **os.environ},
    )


def _picture(view: View, name: str, hash_: str, below: str = "") -> None:
    """Save what the window shows; with an element `below`, the page down to it."""
    view.open(hash_)
    view.until("!document.querySelector('.g-later')")  # later parts are built
    if below:
        end = view.find(below).evaluate(
            "element => element.getBoundingClientRect().bottom + scrollY"
        )
        view.page.set_viewport_size(
            {
                "width": view.page.evaluate("innerWidth"),
                "height": round(end) + 6,
            }
        )
    view.page.screenshot(path=PICTURES / f"{name}.png")
    view.clean()


def _terminal(folder: Path, scored: Path, browser: Browser) -> None:
    """The screen of a terminal of 80 columns."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True
    )
    console.print(Text("$ ruler report scored.jsonl", style="bold"))
    console.print(Text.from_ansi(_on_terminal(["report", scored.name], folder)))
    page = folder / "terminal.html"
    page.write_text(
        console.export_html(inline_styles=True, theme=_THEME), encoding="utf-8"
    )
    window = browser.new_context(
        viewport={"width": 760, "height": 600}
    ).new_page()
    window.goto(page.as_uri())
    window.add_style_tag(content=_FRAME)
    window.screenshot(path=PICTURES / "terminal.png", full_page=True)


def _on_terminal(args: list[str], folder: Path) -> str:
    """The output of the command on a terminal."""
    ours, theirs = pty.openpty()
    env = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "LINES": str(LINES),
        "TERM": "xterm-256color",
    }
    env |= {"PYTHONPATH": str(ROOT), "PAGER": "cat"}
    env.pop("NO_COLOR", None)
    done = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.simulated", *args],
        stdout=theirs,
        stdin=theirs,
        cwd=folder,
        env=env,
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
        print(
            "pictures: no browser is installed: apt-get install chromium",
            file=sys.stderr,
        )
        return 1
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ruler-pictures-") as folder,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(
            executable_path=result, args=list(QUIET)
        )
        take(Path(folder), browser)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
