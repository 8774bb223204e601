"""A wait for a judge is reported when it begins, not for each call, and at its end."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli import (
    JudgedGroup,
    JudgeSettings,
    PoolSettings,
    Scorer,
    ScoreSettings,
)
from ruler_cli.runs.waits import WaitReports
from ruler_cli.types import (
    CallError,
    JudgeWait,
    Observer,
    Reply,
    Request,
    Status,
)
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.runs import Say, Stage, Stub, truthful
from tests.virtual import virtually


class Heard(Observer):
    """Its events, in words."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def waiting(self, judge: str, why: str, seconds: float) -> None:
        """Add a wait."""
        self.words.append(f"{judge} {why} {seconds:g}")

    def answering(self, judge: str, seconds: float) -> None:
        """Add its end."""
        self.words.append(f"{judge} back after {seconds:g}")


def down(*judges: str, why: str = "down", queued: int = 1) -> Status:
    """The state while calls wait for these judges."""
    return Status(
        queued=queued,
        waits=tuple(JudgeWait(judge, why, 9.0) for judge in judges),
    )


def reported(*looks: tuple[float, Status]) -> list[str]:
    """Return the words of an observer of the state at these times."""
    heard = Heard()
    waits = WaitReports(heard)
    for now, status in looks:
        waits.look(now, status)
    return heard.words


def test_changes() -> None:
    """Begin and end are reported at once, and the wait between them once a minute, with its cause then."""
    looks = [
        (float(now), down("one", why="503" if now < 30 else "refused"))
        for now in range(130)
    ]
    assert reported(
        (0.0, Status()), *looks, (130.0, Status()), (131.0, Status())
    ) == [
        "one 503 9",
        "one refused 9",
        "one refused 9",
        "one back after 130",
    ]


def test_flapping() -> None:
    """Waits that come and go within a minute of a report are one report."""
    often = [
        (float(now), down("one") if now % 2 == 0 else Status())
        for now in range(40)
    ]
    assert reported(*often) == ["one down 9", "one back after 1"]
    stays = [(float(now), down("one")) for now in range(40, 70)]
    assert reported(*often, *stays, (70.0, Status())) == [
        "one down 9",
        "one back after 1",
        "one down 9",
        "one back after 30",
    ]


def test_idle() -> None:
    """While no call waits, only the begin and the end of an outage are reported."""
    looks = [(float(now), down("one", queued=0)) for now in range(500)]
    assert reported(*looks, (500.0, Status())) == [
        "one down 9",
        "one back after 500",
    ]


def test_warned_of() -> None:
    """An observer that only takes warnings is warned of both."""

    class Warned(Observer):
        words: list[str] = []  # noqa: RUF012 - one is made

        def warn(self, sentence: str) -> None:
            self.words.append(sentence)

    warned = Warned()
    waits = WaitReports(warned)
    endless = Status(waits=(JudgeWait("two", "gone", float("inf")),))
    for now, status in ((0.0, down("one")), (12.0, endless), (400.0, Status())):
        waits.look(now, status)
    assert warned.words == [
        "down; calls wait for up to 9 s",
        "one answers after 12 s",
        "gone; calls wait until it answers",
        "two answers after 6 minutes",
    ]


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_never_up(ruler: Ruler, tmp_path: Path) -> None:
    """A run waits for a judge that is not up yet as long as --set wait_for_judge says, and says so."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    judge = (
        "-m",
        "openai/good",
        "--api-base",
        f"http://127.0.0.1:{free_port()}/v1",
    )
    began = time.monotonic()
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        *judge,
        "--set",
        "wait_for_judge=1.5",
        "--set",
        "retries=0",
    )
    assert done.returncode == 3
    assert time.monotonic() - began > 1.5
    assert (
        "warning: the judge is not up yet: the judge at http://127.0.0.1"
        in done.stderr
    )
    assert (
        "the judge has not answered a call for 2 s; the last error: the judge at"
        in done.stderr
    )


@pytest.mark.anyio
async def test_up_later() -> None:
    """A judge that is not up yet at the first call is asked again until it is."""

    class Starting(Heard):
        def waiting(self, judge: str, why: str, seconds: float) -> None:
            super().waiting(judge, why, seconds)
            threading.Thread(target=server.__enter__).start()

    server, observer, port = JudgeServer(), Starting(), free_port()
    server.options += ["--port", str(port)]
    judge = JudgeSettings("openai/good", f"http://127.0.0.1:{port}/v1")
    pool = PoolSettings(wait_for_judge=60.0, retries=0)
    settings = ScoreSettings(judge=judge, pool=pool, ledger=None)
    try:
        async with Scorer(settings, observer=observer) as scorer:
            groups = [scorer.score(group(f"g{i}", 0.1, 0.9)) for i in range(64)]
            assert {
                judged.scores for judged in await asyncio.gather(*groups)
            } == {(0.1, 0.9)}
    finally:
        server.__exit__()
    begin, end = observer.words
    assert begin.startswith("openai/good the judge is not up yet: ")
    assert end.startswith("openai/good back after ")


DOWN = CallError("transport", "the judge answered 503", "call", billed=False)


def told(
    path: Path,
    patch: pytest.MonkeyPatch,
    say: Say,
    pool: PoolSettings,
    **more: Any,
) -> tuple[list[str], list[JudgedGroup[Any]], float]:
    """Score a group, and 64 ten seconds later; return what an observer hears, the groups and the seconds."""
    heard = Timed()

    async def main() -> tuple[list[str], list[JudgedGroup[Any]], float]:
        settings = Stage(path, patch, [], Stub(say=say)).settings(ledger=None)
        settings = replace(
            settings, pool=pool, judge=replace(settings.judge, **more)
        )
        async with Scorer(settings, observer=heard) as scorer:
            await scorer.score(group("first", 0.1, 0.9))
            await anyio.sleep_until(10.0)
            groups = [scorer.score(group(f"g{i}", 0.1, 0.9)) for i in range(64)]
            return (
                heard.words,
                await asyncio.gather(*groups),
                anyio.current_time() - 10.0,
            )

    return virtually(main)


class Timed(Observer):
    """Its waits, each with the second in which it is told of it."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def waiting(self, judge: str, why: str, seconds: float) -> None:
        """Add a wait."""
        self.words.append(
            f"{anyio.current_time():.0f}: {judge} {why} {seconds:.0f}"
        )

    def answering(self, judge: str, seconds: float) -> None:
        """Add its end."""
        self.words.append(f"{anyio.current_time():.0f}: {judge} back")


def from_nine(
    error: CallError, end: float
) -> Callable[[Request], Reply | CallError]:
    """A judge that answers with an error from second 9 to `end`, and with the truth before and after."""

    def say(request: Request) -> Reply | CallError:
        fails = 9.0 < anyio.current_time() < end
        return error if fails else truthful(request)

    return say


def test_short_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage of 12 s is told in its first second and at its end, and costs few seconds more."""
    gone = replace(DOWN, sent=False)
    for error in (DOWN, gone):
        words, out, seconds = told(
            tmp_path,
            monkeypatch,
            from_nine(error, 22.0),
            PoolSettings(concurrency=64),
        )
        assert not any(judged.failed for judged in out)
        assert (
            words[0]
            == "11: one the judge is down: the judge answered 503 (one) 900"
        )
        assert len(words) == 2
        assert words[1].endswith(": one back")
        assert seconds < 12.0 * 1.3 + 3.0  # a try, and a call after it


def test_wait_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that the judge asks all calls for is told if it is long."""
    for asked, number in ((20.0, 2), (2.0, 0)):
        limit = CallError(
            "transport",
            "429",
            "call",
            retry_after=asked,
            rate=True,
            billed=False,
        )
        words, out, _ = told(
            tmp_path, monkeypatch, from_nine(limit, 11.5), PoolSettings()
        )
        assert not any(judged.failed for judged in out)
        assert len(words) == number
        assert not number or words[0].startswith(
            "11: one the judge asks all calls to wait: 429 (one) 20"
        )


def test_patience_of_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge's own `max_outage` stands before that of the pool; groups fail when it has passed."""

    def say(request: Request) -> Reply | CallError:
        return DOWN if anyio.current_time() > 9.0 else truthful(request)

    for pool, own, most in (
        (900.0, 30.0, 30.0),
        (30.0, None, 30.0),
        (10.0, 60.0, 60.0),
    ):
        _, out, seconds = told(
            tmp_path,
            monkeypatch,
            say,
            PoolSettings(max_outage=pool),
            max_outage=own,
        )
        assert {judged.kind for judged in out} == {"transport"}
        assert most <= seconds <= most + 3.0
