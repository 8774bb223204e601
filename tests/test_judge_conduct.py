"""The judge server keeps its limits, its chance and its books, whatever it is asked."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import statistics
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from tests.judge_server import JudgeServer
from tests.judging_server.conduct import Conduct, around
from tests.judging_server.cues import MALFORMED
from tests.judging_server.meters import Load, Window
from tests.test_judge_server import ROLLOUTS, post, prompt


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeServer]:
    """Run one server for this file."""
    with JudgeServer(lifetime=120) as started:
        yield started


@pytest.fixture
def judge(server: JudgeServer) -> JudgeServer:
    """Lend the server as it started."""
    server.reset()
    return server


def at_once(judge: JudgeServer, count: int) -> list[tuple[int, Any, str]]:
    """The replies to so many requests that are all under way together."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: post(judge, "good"), range(count)))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what has to come soon."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def send(judge: JudgeServer, model: str) -> socket.socket:
    """Ask on a connection of its own, and leave the answer to come."""
    body = json.dumps({"model": model, "messages": [{"content": prompt(list(ROLLOUTS), ROLLOUTS)}]}).encode()
    connection = socket.create_connection(("127.0.0.1", int(judge.root.rpartition(":")[2])), timeout=10)
    connection.sendall(b"POST /chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return connection


def test_capacity(judge: JudgeServer) -> None:
    """Above the capacity a request is refused at once, and what is refused takes no room."""
    judge.configure(capacity=3, latency=0.5, retry_after=0.25)
    replies = at_once(judge, 8)
    assert Counter(status for status, _, _ in replies) == {200: 3, 429: 5}
    assert {headers["Retry-After"] for status, headers, _ in replies if status == 429} == {"0.25"}
    warm_up, after = judge.stats()["phases"]
    assert (warm_up["requests"] + after["requests"], warm_up["refused"] + after["refused"]) == (8, 5)
    assert [status for status, _, _ in at_once(judge, 3)] == [200] * 3


def test_capacity_changes(judge: JudgeServer) -> None:
    """The capacity changes on schedule after the first request, or when it is told to."""
    judge.configure(latency=0.5, schedule=[[0, 4], [0.3, 2]])
    assert [status for status, _, _ in at_once(judge, 1)] == [200]
    assert Counter(status for status, _, _ in at_once(judge, 6)) == {200: 2, 429: 4}
    judge.configure(schedule=[], capacity=5)
    assert Counter(status for status, _, _ in at_once(judge, 6)) == {200: 5, 429: 1}
    assert [phase["capacity"] for phase in judge.stats()["phases"]] == [4, 2, 2, 5]


def test_load() -> None:
    """The share of a capacity that is used is slot-seconds over slot-seconds, after the warm-up."""
    load = Load()
    rooms = [load.arrive(now, 2) for now in (0.0, 0.0, 1.0)]
    assert rooms == [True, True, False]
    load.leave(1.0)  # the refused one
    load.leave(2.0)
    load.leave(4.0)
    load.arrive(5.0, 2)
    load.arrive(7.0, 4)
    warm_up, two, four = (phase.report(0.0) for phase in load.phases)
    assert (warm_up["used"], warm_up["requests"], warm_up["refused"]) == (1.0, 2, 0)
    assert (two["began"], two["until"], two["used"]) == (1.0, 7.0, (2 + 2 * 1 + 2) / (2 * 6))
    assert (two["requests"], two["refused"], four["requests"], four["capacity"]) == (2, 1, 1, 4)


def test_window() -> None:
    """The fullest window is the fullest of all that end with an arrival."""
    dice, window = Random(1), Window(60)
    arrivals = sorted((dice.uniform(0, 400), dice.randrange(100)) for _ in range(300))
    for now, tokens in arrivals:
        window.add(now, tokens)
    inside = [[t for at, t in arrivals if now - 60 < at <= now] for now, _ in arrivals]
    assert window.most_requests == max(map(len, inside))
    assert window.most_tokens == max(map(sum, inside))


def test_window_wait() -> None:
    """A request waits until enough of those before it are out of the window, and not for ever."""
    window = Window(60)
    for now, tokens in ((0.0, 10), (20.0, 30), (30.0, 50)):
        window.add(now, tokens)
    assert [window.wait(30, None, 100, tokens) for tokens in (10, 11, 21, 51, 500)] == [0, 30, 50, 60, 60]
    assert [window.wait(30, rpm, None, 1) for rpm in (4, 3, 2, 1)] == [0, 30, 50, 60]
    assert window.wait(90, None, 100, 500) == 0


@pytest.mark.parametrize("limit", [{"rpm": 3}, {"tpm": 1000, "bytes_per_token": 1}])
def test_rate(judge: JudgeServer, limit: dict[str, float]) -> None:
    """Above a rate a request is refused, with the seconds until there is room if it is to say so."""
    judge.configure(retry_after=1, **limit)
    replies = [post(judge, "good") for _ in range(5)]
    passed = [status for status, _, _ in replies].count(200)
    assert [status for status, _, _ in replies] == [200] * passed + [429] * (5 - passed)
    assert passed == 3 if "rpm" in limit else 1 <= passed < 5
    assert 50 <= int(replies[-1][1]["Retry-After"]) <= 60
    judge.configure(retry_after=None)
    assert post(judge, "good")[1]["Retry-After"] is None


def test_rate_passes(judge: JudgeServer) -> None:
    """What is out of the sliding window no longer counts."""
    judge.configure(rpm=1, window=0.2)
    assert post(judge, "good")[0] == 200
    time.sleep(0.25)
    assert post(judge, "good")[0] == 200


def test_rates(judge: JudgeServer) -> None:
    """Requests and tokens are measured without a limit too; a refused one uses no tokens."""
    judge.configure(completion=70)
    used = json.loads(post(judge, "good")[2])["usage"]
    post(judge, "good")
    post(judge, "500")
    judge.configure(rpm=100, tpm=10_000)
    rates = judge.stats()["rates"]
    assert rates["fullest"] == {"requests": 3, "tokens": 2 * used["total_tokens"]}
    assert rates["tokens"] == {"prompt": 2 * used["prompt_tokens"], "completion": 2 * 70}
    minutes = rates["seconds"] / 60
    assert rates["utilisation"]["rpm"] == pytest.approx(2 / minutes / 100)
    assert rates["utilisation"]["tpm"] == pytest.approx(rates["mean"]["tpm"] / 10_000)


CHAOS = {"429": 0.1, "429-bare": 0.1, "500": 0.1, "drop": 0.1, "malformed": 0.2, "hang": 0.05}


def outcomes(judge: JudgeServer, contents: range) -> list[str]:
    """What a client sees of each of so many requests."""
    return [outcome(judge, {"a": f"truth=0.5 {number}"}) for number in contents]


def outcome(judge: JudgeServer, rollouts: dict[str, str]) -> str:
    """What a client sees of a request, in a word or as its body."""
    try:
        status, headers, body = post(judge, "good", rollouts=rollouts, timeout=0.1)
    except http.client.RemoteDisconnected:
        return "drop"
    except http.client.IncompleteRead:
        return "half"
    except TimeoutError:
        return "hang"
    if status == 200:
        return body.partition('"created"')[0] + body.partition('"model"')[2]
    return f"{status} {headers['Retry-After']}"


def test_chaos_repeats(judge: JudgeServer) -> None:
    """Chance is the same in every run, in whatever order it is asked; with another seed it is not."""
    judge.configure(chaos=CHAOS, retry_after=3, seed=5)
    first, again = outcomes(judge, range(60)), outcomes(judge, range(60))
    assert first != again  # a retry is decided anew
    with JudgeServer(chaos=CHAOS, retry_after=3, seed=5) as other:
        assert outcomes(other, range(59, -1, -1))[::-1] == first
        other.reset()
        other.configure(seed=6)
        assert outcomes(other, range(60)) != first
    assert {"429 3", "429 None", "500 None", "drop"} <= set(first + again)


def test_chaos_shares() -> None:
    """Each fault comes as often as it is asked for, and a malformed reply is of every kind."""
    conduct = Conduct().with_({"chaos": CHAOS})
    drawn = Counter(conduct.fault(conduct.dice(b"%d" % n, 0)) for n in range(4000))
    malformed = {kind: drawn.pop(kind) for kind in MALFORMED}
    assert sum(malformed.values()) / 4000 == pytest.approx(0.2, rel=0.15)
    assert min(malformed.values()) > 4000 * 0.2 / len(MALFORMED) / 2
    for kind, share in (*CHAOS.items(), (None, 1 - sum(CHAOS.values()))):
        if kind != "malformed":
            assert drawn[kind] / 4000 == pytest.approx(share, rel=0.25)


def test_draws() -> None:
    """A drawn number has the mean that is asked for, and is the same without a spread."""
    dice = Random(2)
    drawn = [around(3.0, 0.8, dice) for _ in range(20_000)]
    assert statistics.fmean(drawn) == pytest.approx(3.0, rel=0.05)
    assert min(drawn) < 1.0
    assert max(drawn) > 9.0
    assert around(3.0, 0.0, dice) == 3.0


def test_usage_is_set(judge: JudgeServer) -> None:
    """Tokens are as dense, and completions as long, as they are set."""
    sparse = json.loads(post(judge, "good")[2])["usage"]["prompt_tokens"]
    judge.configure(bytes_per_token=3.8 / 3, completion=400)
    usage = json.loads(post(judge, "good")[2])["usage"]
    assert usage["prompt_tokens"] == pytest.approx(3 * sparse, abs=3)
    assert usage["completion_tokens"] == 400
    judge.configure(completion_spread=0.5)
    spread = [json.loads(post(judge, "good")[2])["usage"]["completion_tokens"] for _ in range(9)]
    assert len(set(spread)) > 1


def test_latency_measured(judge: JudgeServer) -> None:
    """The latency is told as it was, which is a little more than what was asked for."""
    judge.configure(latency=0.05)
    start = time.monotonic()
    post(judge, "good")
    assert 0.05 <= judge.stats()["latency"] <= time.monotonic() - start


def test_books(judge: JudgeServer) -> None:
    """Every whole completion is billed to its content, good or not; a failure is not."""
    judge.configure(completion=50)
    for model in ("good", "good", "good", "not-json", "500", "drop", "half"):
        outcome(judge, {"a": "truth=1"}) if model == "good" else ask(judge, model)
    books = judge.stats()["books"]
    assert (books["contents"], books["times"], books["paid_again"]) == (5, {"1": 1, "3": 1}, 2)
    assert (books["answered"]["calls"], books["answered"]["completion"]) == (4, 200)
    assert books["abandoned"]["calls"] == 0


def ask(judge: JudgeServer, model: str) -> None:
    """Ask and let what comes come."""
    try:
        post(judge, model)
    except (http.client.HTTPException, OSError):
        return


def test_abandoned(judge: JudgeServer) -> None:
    """A caller that is gone before its answer pays, and is no longer in flight."""
    judge.configure(latency=60)
    with send(judge, "good"), send(judge, "good"):
        until(lambda: judge.stats()["in_flight"] == 2)
    until(lambda: judge.stats()["in_flight"] == 0)
    books = judge.stats()["books"]
    assert (books["abandoned"]["calls"], books["answered"]["calls"], books["paid_again"]) == (2, 0, 1)


def test_conduct(judge: JudgeServer) -> None:
    """A setting that does not exist is refused, and a reset goes back to the start."""
    for wrong in ({"capcity": 3}, {"chaos": {"no-such-cue": 1}}, {"chaos": {"500": 0.9, "429": 0.2}}):
        with pytest.raises(urllib.error.HTTPError, match="400"), refused():
            judge.configure(**wrong)
    judge.configure(capacity=0)
    assert post(judge, "good")[0] == 429
    judge.reset()
    assert post(judge, "good")[0] == 200


class refused:  # noqa: N801 - reads as what it is: a block
    """Close the reply that an HTTPError holds."""

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close it."""
        if isinstance(error, urllib.error.HTTPError):
            error.close()


def test_many(judge: JudgeServer) -> None:
    """Two thousand connections are held at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    try:
        with ExitStack() as held:
            for _ in range(2000):
                held.enter_context(send(judge, "hang"))
            until(lambda: judge.stats()["in_flight"] == 2000)
        until(lambda: judge.stats()["in_flight"] == 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
