"""Progress: a bar on a terminal, a line every 30 seconds elsewhere, and the counter of a slow command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_cli.cli.progress import Console
from ruler_cli.runs.waits import WaitReports
from ruler_cli.types import JudgeWait, Status, Summary
from tests.conftest import ROOT, group, write
from tests.judge_server import JudgeServer
from tests.on_terminal import watched

GROUPS = [group(f"g{i}", 0.1, 0.9) for i in range(40)]
PRICE = ("--price", "1000,1000")
BAR = re.compile(r" *\d+%\|[█▏▎▍▌▋▊▉ ]*\| \d+/\d+ \[\d\d:\d\d<.+")


def test_closed_stderr(tmp_path: Path) -> None:
    """A run whose stderr is closed shows nothing, in any mode, and writes OUTPUT."""
    write(tmp_path / "in.jsonl", GROUPS[:2])
    line = 'exec "$0" -m ruler_cli score in.jsonl out.jsonl -m offline --progress bar 2>&-'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", line, sys.executable],
        cwd=tmp_path,
        env=env,
        check=False,
        timeout=60,
    )
    assert (done.returncode, (tmp_path / "out.jsonl").exists()) == (0, True)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the console."""
    made = Clock()
    monkeypatch.setattr("ruler_cli.cli.progress.time.monotonic", made)
    return made


def logged(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line on stderr."""
    return capsys.readouterr().err.splitlines()[-1].removeprefix("ruler: ")


SUMMARY = Summary(groups=40, kept=10, failed={"reply": 3}, cost_usd=1.2)
WAITS = Status(12, 16, 4, 512, 1.31e6, 33.2, "requests per minute", retrying=2)


def test_log(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A log has the facts in one line, every 30 seconds; a wait of unknown length has its reason alone."""
    console = Console("log", "in.jsonl")
    console.started(100)
    for second in range(1, 60):
        clock.now += 1
        console.tick(SUMMARY, WAITS)
        assert bool(capsys.readouterr().err) is (second == 30), second
    clock.now += 1
    console.tick(SUMMARY, WAITS)
    assert logged(capsys) == (
        "40% 40/100 [01:00<02:00,  2.00s/group, waiting 34 s: requests per minute, $1.20, 3 failed, "
        "12 of 16 calls in flight, 2 to try again, 10 from the ledger, 512 requests/min, 1.31M tokens/min]"
    )
    clock.now += 30
    console.tick(Summary(), Status(1, 4, 2, why="--max-cost"))
    assert ", waiting: --max-cost, 1 of 4 calls" in logged(capsys)


BARS = {
    200: ",  2.00s/group, waiting 34 s: requests per minute, $1.20, 3 failed, 12 of 16 calls in flight, "
    "2 to try again, 10 from the ledger",
    120: ",  2.00s/group, waiting 34 s, $1.20, 3 failed",
    80: ",  2.00s/group, waiting 34 s, $1.20",
    0: ",  2.00s/group, waiting 34 s, $1.20",
    60: ", waiting 34 s, $1.20",
    50: "",
    40: "",
}
"""The end of a bar by the width of the terminal; 0: it does not say it."""


def test_bar(
    clock: Clock,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bar has ten cells in any width, and facts are left out whole, the least needed first."""
    for width, end in BARS.items():
        size = os.terminal_size((width, 24))
        monkeypatch.setattr("os.get_terminal_size", lambda _, s=size: s)
        console = Console("bar", "in.jsonl")
        console.started(100)
        clock.now += 60
        console.tick(SUMMARY, WAITS)
        bar = capfd.readouterr().err.removeprefix("\r\x1b[K")
        assert bar.startswith(" 40%|████      | 40/100 [01:00<02:00")
        assert bar[36 : 36 + len(end)] == end
        assert bar.endswith("]") and len(bar) < (width or 80)


DOWN = "the judge is down: the judge answered 503: \x1b[31mno\u202e upstream 例例例 sk-abcdefghijkl (one at http://h/v1)"


def test_outage(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A wait for a judge has a line with its cause when it begins, one at its end, and each of the log."""
    down = Status(
        1, 4, 2, waiting=7.0, why=DOWN, waits=(JudgeWait("one", DOWN, 900.0),)
    )
    for mode in ("log", "none"):
        console = Console(mode, "in.jsonl")
        console.started(3)
        waits = WaitReports(console)
        for status in [down] * 65 + [Status(1, 4, 2)] * 10:
            clock.now += status is down
            waits.look(clock.now, status)
            console.tick(Summary(), status)
        lines = capsys.readouterr().err.splitlines()
        cause = r"the judge is down: the judge answered 503: \x1b[31mno\u202e upstream 例例例 "
        assert lines[0].startswith(f"ruler: warning: {cause}")
        assert sum("calls wait for up to 15 minutes" in x for x in lines) == 1
        assert lines[-1] == "ruler: one answers after 64 s"
        logs = [line for line in lines if ", waiting 7 s: " in line]
        assert len(logs) == (2 if mode == "log" else 0)
        assert all(
            f", waiting 7 s: {cause}" in line and "(one at http://h/v1)" in line
            for line in logs
        )


def bars(screens: list[list[str]]) -> list[str]:
    """The bar, whenever it was drawn; it is the last line then."""
    return [
        screen[-1] for screen in screens if screen and BAR.match(screen[-1])
    ]


def run(server: JudgeServer, *more: str, judge: str = "good") -> list[str]:
    """The words of a run."""
    return [
        *f"score in.jsonl out.jsonl -m openai/{judge} --api-base {server.base}".split(),
        *more,
    ]


def shows(pattern: str, times: int = 1) -> Callable[[list[str]], bool]:
    """Return whether so many different texts of a pattern were on the screen."""
    seen = set[str]()

    def stop(screen: list[str]) -> bool:
        seen.update(re.findall(pattern, "\n".join(screen)))
        return len(seen) >= times

    return stop


def test_limited_run(server: JudgeServer, tmp_path: Path) -> None:
    """A run at --rpm says that it waits, why and how long, beside ten cells; Ctrl-C leaves a clean screen."""
    write(tmp_path / "in.jsonl", GROUPS)
    words = run(server, "--rpm", "20", *PRICE)
    code, screens = watched(tmp_path, *words, stop=shows(r"waiting \d s", 3))
    assert code == 130
    drawn = bars(screens)
    assert max(map(len, drawn)) <= 80
    assert any(", waiting" in line for line in drawn)
    # facts for which there is no room are left out whole
    assert min(len(line.split("|")[1]) for line in drawn) >= 10
    assert all(line.endswith("]") for line in drawn)
    ends = [x for x in screens[-1] if x.startswith("ruler: ")][-3:]
    assert ends[-2] == "ruler: interrupted"
    assert ends[-1].startswith("ruler: to resume: ruler score")
    assert " groups scored in " in ends[0]
    assert not [
        line for line in screens[-1] if "%" in line or "waiting" in line
    ]


def test_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence is shown once in a run, however many workers warn of the same, and so is the reason of failures.

    No number of reasons takes memory.
    """
    console = Console("log", "in.jsonl")
    for show in (console.warn, console.warn, console.note, console.note):
        show("odd")
    for key in ("a", "b"):
        console.failed(key, "reply", "odd")
    console.close()
    assert capsys.readouterr().err == (
        "ruler: warning: odd\nruler: odd\n"
        "ruler: group a not scored (reply): odd\nruler: … and 1 more group not scored\n"
    )
    tracemalloc.start()
    for number in range(9999):
        console.failed("c", "reply", f"odd {number}")
    held, _ = tracemalloc.get_traced_memory()
    assert held < 99_999
