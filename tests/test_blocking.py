"""A Scorer for code without asyncio: any number of threads, one pool, and nothing left behind at the end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from ruler_cli import (
    JudgeSettings,
    PoolSettings,
    RefusedError,
    Scorer,
    ScoreSettings,
    UsageError,
    WrongShapeError,
    score_file,
    score_group,
)
from tests.conftest import ROOT
from tests.judge_server import JudgeServer
from tests.test_scorer import GROUPS, OFFLINE, TRUE, at, many


def test_in_order(server: JudgeServer) -> None:
    """All groups of an iterable come back in order, and the counts are there afterwards too."""
    with Scorer(at(server)) as scorer:
        assert [
            judged.scores for judged in scorer.score_all(iter(GROUPS))
        ] == TRUE
        assert scorer.score_all([]) == []
        (alone,) = scorer.score_all(GROUPS[1:2])
        assert alone.scores == TRUE[1]
        assert scorer.summary().scored == 4
    assert (scorer.summary().scored, scorer.summary().asked) == (4, 4)
    with pytest.raises(UsageError, match="the Scorer is not open"):
        scorer.score_all(GROUPS)
    with scorer:
        assert scorer.summary().scored == 0


def test_many_threads(server: JudgeServer) -> None:
    """Threads share one pool: its limits hold over all of them."""
    server.configure(latency=0.05)
    with (
        Scorer(at(server, pool=PoolSettings(concurrency=3))) as scorer,
        ThreadPoolExecutor(8) as threads,
    ):
        parts = [many(40)[i : i + 5] for i in range(0, 40, 5)]
        out = list(threads.map(scorer.score_all, parts))
        assert all(
            judged.scores[:2] == (0.1, 0.9) for part in out for judged in part
        )
        assert scorer.summary().scored == 40
    assert server.stats()["in_flight_max"] == 3


def test_errors_keep_their_types(server: JudgeServer) -> None:
    """Errors are raised where the groups were given, and the Scorer goes on after them."""
    with Scorer(at(server, "401")) as scorer:
        for _ in range(2):
            with pytest.raises(RefusedError, match="key"):
                scorer.score_all(GROUPS)
        with pytest.raises(WrongShapeError, match="group 1: "):
            scorer.score_all([3])
        with pytest.raises(WrongShapeError, match="give several groups"):
            scorer.score_all(GROUPS[0])

        async def endless() -> Any:
            yield GROUPS[0]

        with pytest.raises(TypeError, match="not iterable"):
            scorer.score_all(endless())

        class Remote:
            @property
            def trajectories(self) -> Any:
                raise TimeoutError("of the program")

        with pytest.raises(TimeoutError, match="of the program"):
            scorer.score_all([Remote()])
    with pytest.raises(UsageError, match="NO_SUCH_KEY"):
        Scorer(
            ScoreSettings(
                judge=JudgeSettings("openai/x", api_key_env="NO_SUCH_KEY")
            )
        ).__enter__()


@pytest.mark.anyio
async def test_in_an_event_loop(server: JudgeServer) -> None:
    """In an event loop what would block it is refused, and the rest works from any loop and thread."""
    with pytest.raises(UsageError, match="use `async with"):
        Scorer(OFFLINE).__enter__()
    async with Scorer(at(server)) as scorer:
        with pytest.raises(UsageError, match=r"use `await scorer\.score"):
            scorer.score_all(GROUPS)
        out = await anyio.to_thread.run_sync(scorer.score_all, GROUPS)
        assert [judged.scores for judged in out] == TRUE
        assert (await anyio.to_thread.run_sync(scorer.summary)).scored == 3
    blocking = await anyio.to_thread.run_sync(Scorer(at(server)).__enter__)
    judged = await asyncio.to_thread(blocking.score_all, GROUPS)
    assert [one.scores for one in judged] == TRUE
    with pytest.raises(UsageError, match="open in another event loop"):
        await anext(blocking.score_groups(GROUPS))
    await blocking.close()
    assert blocking.summary().scored == 3


@pytest.mark.anyio
async def test_open_and_close() -> None:
    """`open` and `close` are what `async with` does; to open twice is refused, to close twice is not."""
    scorer = Scorer(OFFLINE)
    await scorer.close()
    assert scorer.summary().groups == 0
    with pytest.raises(UsageError, match="is not open"):
        await scorer.score(GROUPS[0])
    for _ in range(2):
        assert await scorer.open() is scorer
        with pytest.raises(UsageError, match="already open"):
            await scorer.open()
        assert not (await scorer.score(GROUPS[0])).failed
        await asyncio.gather(scorer.close(), scorer.close())
        assert scorer.summary().scored == 1


def test_loop_that_ends(
    server: JudgeServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A Scorer that is not closed is closed with its event loop, and may be opened in another one."""
    scorer = Scorer(at(server))

    async def opens() -> None:
        await scorer.open()
        assert (await scorer.score(GROUPS[0])).scores == TRUE[0]

    for _ in range(2):
        asyncio.run(opens())
        assert scorer.summary().scored == 1
    assert caplog.messages == []


def test_without_asyncio() -> None:
    """A sentence says what to do where no event loop of asyncio runs, as under trio."""
    awaited: list[Coroutine[Any, Any, Any]] = [
        Scorer(OFFLINE).open(),
        Scorer(OFFLINE).close(),
        Scorer(OFFLINE).__aenter__(),
        Scorer(OFFLINE).score(GROUPS[0]),
        score_group(GROUPS[0], "offline"),
        score_file("in.jsonl", "out.jsonl", OFFLINE),
    ]
    for one in awaited:
        with pytest.raises(
            UsageError, match=r"`scorer.score_all\(groups\)`; under trio"
        ):
            one.send(None)


_HEAD = """
import asyncio, os, sys, threading, time
from ruler_cli import JudgeSettings, Scorer, ScoreSettings, UsageError
from tests.conftest import group

GROUPS = [group(f"g{i}", 0.1, 0.9) for i in range(20)]

def scorer(cue="good"):
    return Scorer(ScoreSettings(judge=JudgeSettings(f"openai/{cue}", sys.argv[1]), ledger=None))
"""


def program(code: str, server: JudgeServer) -> subprocess.Popen[str]:
    """Start a program with some groups and a function that makes a Scorer."""
    command = [sys.executable, "-W", "error", "-c", _HEAD + code, server.base]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    )


def output(code: str, server: JudgeServer) -> str:
    """Return what a program prints on stdout; it ends soon, with 0, and prints nothing on stderr."""
    with program(code, server) as running:
        printed, noise = running.communicate(timeout=60)
    assert (noise, running.returncode) == ("", 0)
    return printed


def test_never_closed(server: JudgeServer) -> None:
    """A Scorer opens at its first call, and is closed when the program ends, without a word."""
    code = """
one, hanging, async_ = scorer(), scorer("hang"), scorer()
print(len(one.score_all(GROUPS)), one.summary().scored)

def hang():
    try:
        hanging.score_all(GROUPS)
    except UsageError:  # it ends beside the program, and may not come to print it
        pass

async def opens():
    await async_.open()
    print((await async_.score(GROUPS[0])).scores)

threading.Thread(target=hang, daemon=True).start()
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(opens(), loop).result()
while not hanging.summary().asked:
    time.sleep(0.01)
"""
    assert output(code, server).splitlines() == ["20 20", "(0.1, 0.9)"]


def test_closed_before_a_group_begins(server: JudgeServer) -> None:
    """A group that is read while its Scorer is closed is not sent, and the event loop ends without a word."""
    code = """
hanging = scorer("hang")

class Closing:
    @property
    def trajectories(self):
        hanging.closing.set()
        return GROUPS[0]["trajectories"]

    @trajectories.setter
    def trajectories(self, annotated):
        pass

try:
    hanging.score_all([Closing()])
except UsageError as error:
    print(error)
print(hanging.summary().asked)
"""
    closed = "the Scorer was closed before its groups were all scored"
    assert output(code, server).splitlines() == [closed, "0"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_fork(server: JudgeServer) -> None:
    """A process that is forked is told to open its own Scorer, and that of its parent goes on."""
    code = """
with scorer() as one:
    one.score_all(GROUPS)
    if child := os.fork():
        print("child", os.waitpid(child, 0)[1], flush=True)
        print("parent", len(one.score_all(GROUPS)), flush=True)
        sys.exit()
    try:
        one.score_all(GROUPS)
    except UsageError as error:
        print(error, flush=True)
    print(one.summary().scored, flush=True)
    with scorer() as own:
        print(len(own.score_all(GROUPS)), flush=True)
"""
    assert output(code, server).splitlines() == [
        "the Scorer was opened before the fork; make one in each process",
        "20",
        "20",
        "child 0",
        "parent 20",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_fork_while_opened(server: JudgeServer) -> None:
    """A process that is forked while another thread opens a Scorer opens its own."""
    code = """
import ruler_cli.runs.scorer

begun, open_session = threading.Event(), ruler_cli.runs.scorer.open_session

async def slow(*given):
    begun.set()
    await asyncio.sleep(0.5)
    return await open_session(*given)

ruler_cli.runs.scorer.open_session = slow
opens = threading.Thread(target=lambda: scorer().score_all(GROUPS))
opens.start()
begun.wait()
if child := os.fork():
    print("child", os.waitpid(child, 0)[1], flush=True)
    opens.join()
    sys.exit()
with scorer() as own:
    print(len(own.score_all(GROUPS)), flush=True)
"""
    assert output(code, server).splitlines() == ["20", "child 0"]


def test_interrupted(server: JudgeServer) -> None:
    """Ctrl-C ends the call that waits, its requests, and the program."""
    code = """
with scorer("hang") as one:
    print("begun", flush=True)
    one.score_all(GROUPS)
"""
    with program(code, server) as running:
        assert running.stdout
        running.stdout.readline()
        while not server.stats()["in_flight"]:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, noise = running.communicate(timeout=20)
    assert noise.splitlines()[-1] == "KeyboardInterrupt"
    assert "exception was never retrieved" not in noise
    assert server.stats()["in_flight"] == 0


def test_closed_by_another_thread(server: JudgeServer) -> None:
    """To close a Scorer ends the calls of other threads with an error that says so."""
    scorer = Scorer(at(server, "hang"))
    ends: list[str] = []

    def hang() -> None:
        with pytest.raises(UsageError) as caught:
            scorer.score_all(GROUPS)
        ends.append(str(caught.value))

    with scorer:
        threads = [threading.Thread(target=hang) for _ in range(3)]
        for thread in threads:
            thread.start()
        # more than the groups of two threads: all three have begun
        while server.stats()["in_flight"] <= 2 * len(GROUPS):
            time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert (
        ends == ["the Scorer was closed before its groups were all scored"] * 3
    )
