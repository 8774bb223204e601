"""Progress: two lines on a terminal, a line every 30 seconds elsewhere, and the counter of a slow command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_cli.cli import progress
from ruler_cli.cli.progress import Console, fitting
from ruler_cli.types import JudgeWait, Status, Summary, WaitReports
from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import JudgeServer
from tests.on_terminal import watched
from tests.values import few

GROUPS = [group(f"g{i}", 0.1, 0.9) for i in range(40)]
PRICE = ("--price", "1000,1000")
BUSY = Status(12, 16, 4, 512, 1.31e6)
BAR = re.compile(r" *\d+% \|[█▏▎▍▌▋▊▉ ]{9,}\| (\d+ of \d+ groups?)(, .+)?$")


@pytest.mark.parametrize(("tty", "moment"), [(True, 0), (True, 3600), (False, 0)])
def test_bar(
    tty: bool,
    moment: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Groups are counted on a terminal, after a moment; elsewhere nothing is written."""
    monkeypatch.setattr(progress, "_COUNTER_DELAY", moment)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    with progress.group_counter() as one:
        for _ in range(3):
            one()
    assert ("group" in capsys.readouterr().err) is (tty and not moment)


def test_closed_stderr(tmp_path: Path) -> None:
    """A run whose stderr is closed shows nothing, in any mode, and writes OUTPUT."""
    write(tmp_path / "in.jsonl", GROUPS[:2])
    line = (
        'exec "$0" -m ruler_cli score in.jsonl out.jsonl -m offline --progress bar 2>&-'
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", line, sys.executable],
        cwd=tmp_path,
        env=env,
        check=False,
        timeout=60,
    )
    assert (done.returncode, (tmp_path / "out.jsonl").exists()) == (0, True)


def test_second_line() -> None:
    """No part of the second line is cut: those that do not fit are left out, the least important first."""
    parts = [
        "waiting 34 s: requests per minute",
        "12 of 16 calls in flight",
        "$1.20 of about $4.60",
        "3 failed",
    ]
    assert fitting(parts, 120) == ", ".join(parts)
    assert fitting(parts, 80) == f"{parts[0]}, {parts[1]}, {parts[3]}"
    assert fitting(parts, 40) == parts[0]
    assert fitting(parts, 5) == ""


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


def test_log(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A log has the same facts in one line, every 30 seconds."""
    console = Console("log", "in.jsonl")
    console.started(100)
    summary = Summary(groups=40, kept=10, failed={"reply": 3}, cost_usd=1.2)
    for second in range(1, 60):
        clock.now += 1
        console.tick(
            summary,
            Status(12, 16, 4, 512, 1.31e6, 33.2, "requests per minute", retrying=2),
        )
        assert bool(capsys.readouterr().err) is (second == 30), second
    clock.now += 1
    console.tick(
        summary, Status(12, 16, 4, 512, 1.31e6, 33.2, "requests per minute", retrying=2)
    )
    line = logged(capsys)
    assert re.match(
        r"40 of 100 groups, 0\d:\d\d left, [\d.]+ groups/min; waiting 34 s: requests per ",
        line,
    )
    assert line.endswith(
        "12 of 16 calls in flight, $1.20 of about $3.60, 3 failed, 2 to try again, 10 cached, "
        "512 requests/min, 1.31M tokens/min"
    )


def test_rate_without_cached_groups(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cached groups count in the bar; neither they nor their time count in the rate and the time left."""
    console = Console("log", "in.jsonl")
    console.started(10_000)
    for second in range(1, 101):
        clock.now += 1
        console.tick(Summary(groups=90 * second, kept=90 * second), Status(0, 16))
    assert "left" not in capsys.readouterr().err
    for second in range(1, 31):
        clock.now += 1
        console.tick(Summary(groups=9000 + 2 * second, kept=9000), BUSY)
    assert logged(capsys).startswith("9040 of 10000 groups, 08:00 left, 2.0 groups/s; ")


def test_wait_of_unknown_length(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it is not known how long a wait takes, its reason stands alone."""
    console = Console("log", "in.jsonl")
    console.started(3)
    clock.now += 30
    console.tick(Summary(), Status(1, 4, 2, why="--max-cost"))
    assert "; waiting: --max-cost, 1 of 4 calls" in logged(capsys)


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
        assert "for up to 15 minutes" in " ".join(lines[:2])
        assert lines[-1] == "ruler: one answers again after 64 s"
        logs = [line for line in lines if "; waiting 7 s: " in line]
        assert len(logs) == (2 if mode == "log" else 0)
        assert all(
            f"; waiting 7 s: {cause}" in line and "(one at http://h/v1)" in line
            for line in logs
        )


def lines_of(screen: list[str]) -> tuple[str, str] | None:
    """The two lines on a screen, if they are there."""
    for i, line in enumerate(screen):
        if BAR.match(line):
            assert len(screen) - i <= 2, screen  # nothing stands below them
            return line, screen[i + 1] if i + 1 < len(screen) else ""
    return None


def seen(screens: list[list[str]]) -> list[tuple[str, str]]:
    """The two lines, whenever they were drawn."""
    return [lines for lines in map(lines_of, screens) if lines]


def run(server: JudgeServer, *more: str, judge: str = "good") -> list[str]:
    """The words of a run."""
    return [
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        f"openai/{judge}",
        "--api-base",
        server.base,
        *more,
    ]


def shows(pattern: str, times: int = 1) -> Callable[[list[str]], bool]:
    """Tell if so many different texts of a pattern were on the screen."""
    found = set[str]()

    def stop(screen: list[str]) -> bool:
        found.update(re.findall(pattern, "\n".join(screen)))
        return len(found) >= times

    return stop


def test_limited_run(server: JudgeServer, tmp_path: Path) -> None:
    """A run at --rpm says that it waits, why and how long, at 80 columns; Ctrl-C leaves a clean screen."""
    write(tmp_path / "in.jsonl", GROUPS)
    words = run(server, "--rpm", "20", *PRICE)
    code, screens = watched(
        tmp_path, *words, stop=shows(r"waiting \d s: requests per minute", 3)
    )
    assert code == 130
    lines = seen(screens)
    assert max(len(line) for pair in lines for line in pair) < 80
    second = [pair[1] for pair in lines if pair[1].startswith("waiting")]
    assert re.fullmatch(
        r"waiting \d s: requests per minute, \d of \d calls in flight(, \$[\d.]+ of about \$[\d.]+)?.*",
        second[-1],
    )
    assert any(
        re.search(r"\d of 40 groups, \d\d:\d\d left, [\d.]+ groups/", pair[0])
        for pair in lines
    )
    assert lines_of(screens[-1]) is None
    assert "ruler: interrupted" in screens[-1]
    assert not [line for line in screens[-1] if "%" in line or "waiting" in line]


def test_judge_asks_to_wait(server: JudgeServer, tmp_path: Path) -> None:
    """After a 429 with Retry-After the seconds count down, before any group is done."""
    write(tmp_path / "in.jsonl", GROUPS)
    server.configure(capacity=0, retry_after=20)
    code, screens = watched(tmp_path, *run(server), stop=shows(r"waiting \d+ s", 3))
    assert code == 130
    waits = [
        re.match(r"waiting (\d+) s: the judge asked for it, ", second)
        for _, second in seen(screens)
    ]
    seconds = [int(wait[1]) for wait in waits if wait]
    assert seconds[0] in (19, 20, 21)
    assert seconds == sorted(seconds, reverse=True)
    assert any(first.startswith("  0% |") for first, _ in seen(screens))


def test_before_the_first_reply(server: JudgeServer, tmp_path: Path) -> None:
    """Before the first reply the lines show the time and the calls in flight, with nothing made up."""
    write(tmp_path / "in.jsonl", GROUPS)
    server.configure(latency=3.0)
    _, screens = watched(
        tmp_path, *run(server, *PRICE), "-c", "7", stop=shows(r"calls in flight")
    )
    first, second = next(lines for lines in seen(screens) if "in flight" in lines[1])
    assert re.search(r"\| 0 of 40 groups, 00:0\d elapsed$", first)
    assert second.startswith("7 of 7 calls in flight, 7 requests/min")
    assert "$" not in second


@pytest.mark.parametrize("columns", few(1, [60, 120]))
def test_resumed_run(
    columns: int, ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Cached groups are counted apart, and problems print above the lines without tearing them."""
    write(tmp_path / "in.jsonl", GROUPS[:30])
    assert ruler(*run(server), "--ledger", "kept").returncode == 0
    write(
        tmp_path / "in.jsonl",
        [*GROUPS[:30], {"group_id": "empty", "trajectories": []}, *GROUPS[30:38]],
    )
    server.configure(latency=1.2)
    more = ("-c", "4", "--ledger", "kept")
    code, screens = watched(tmp_path, *run(server, *more), columns=columns)
    assert code == 1
    lines = seen(screens)
    assert max(len(line) for pair in lines for line in pair) < columns
    assert any("cached" in second for _, second in lines)
    problem = "ruler: group empty not scored (input): the group has no trajectories"[
        : columns - 5
    ]
    assert any(
        any(line.startswith(problem) for line in screen) and lines_of(screen)
        for screen in screens
    )
    assert lines_of(screens[-1]) is None
    rates = [
        float(rate[1])
        for first, _ in lines
        if (rate := re.search(r"([\d.]+) groups/s", first))
    ]
    assert all(rate < 8 for rate in rates)  # not 30 groups in the first second


def test_stream(server: JudgeServer, tmp_path: Path) -> None:
    """From stdin, without a known number of groups, there is no bar, no percent and no time left."""
    server.configure(latency=1.2)
    text = "".join(json.dumps(each) + "\n" for each in GROUPS[:12])
    words = [
        "-" if word == "in.jsonl" else word for word in run(server, *PRICE, "-c", "4")
    ]
    code, screens = watched(tmp_path, *words, stdin=text)
    assert code == 0
    every = {line for screen in screens for line in screen}
    assert any(
        re.match(r"\d+ groups?, \d\d:\d\d elapsed, [\d.]+ groups/(s|min)$", line)
        for line in every
    )
    assert any(re.match(r"4 of 4 calls in flight, \$[\d.]+, ", line) for line in every)
    assert not [
        line for line in every if "%" in line or " left" in line or " of about" in line
    ]
    assert (
        screens[-1][-1] == "ruler: written to out.jsonl; next: ruler report out.jsonl"
    )


def test_dumb_terminal(server: JudgeServer, tmp_path: Path) -> None:
    """A terminal without escape codes gets lines only."""
    write(tmp_path / "in.jsonl", GROUPS[:3])
    _, screens = watched(tmp_path, *run(server), TERM="dumb")
    assert not seen(screens)
