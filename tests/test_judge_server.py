"""The meters and the bills of the judge server, which tests of limits and costs rely on.

The tests that use it show its other behaviour.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import urllib.request
from random import Random

from tests import judge_server
from tests.judge_server import CUES, JudgeServer
from tests.judge_server.meters import Load, Window


def test_load() -> None:
    """The used share of a capacity is busy seconds over all seconds of its places, after the warm-up."""
    load = Load()
    allowed = [load.arrive(now, 2) for now in (0.0, 0.0, 1.0)]
    assert allowed == [True, True, False]
    load.leave(1.0)  # the refused one
    load.leave(2.0)
    load.leave(4.0)
    load.arrive(5.0, 2)
    load.arrive(7.0, 4)
    warm_up, two, four = (phase.report(0.0) for phase in load.phases)
    assert (warm_up["used"], warm_up["requests"], warm_up["refused"]) == (
        1.0,
        2,
        0,
    )
    assert (two["began"], two["until"], two["used"]) == (
        1.0,
        7.0,
        (2 + 2 * 1 + 2) / (2 * 6),
    )
    assert (
        two["requests"],
        two["refused"],
        four["requests"],
        four["capacity"],
    ) == (
        2,
        1,
        1,
        4,
    )


def test_window() -> None:
    """The fullest window is the fullest of all that end with an arrival."""
    dice, window = Random(1), Window(60)
    arrivals = sorted(
        (dice.uniform(0, 400), dice.randrange(100)) for _ in range(300)
    )
    for now, tokens in arrivals:
        window.add(now, tokens)
    inside = [
        [t for at, t in arrivals if now - 60 < at <= now] for now, _ in arrivals
    ]
    assert window.most_requests == max(map(len, inside))
    assert window.most_tokens == max(map(sum, inside))


def test_books() -> None:
    """Every whole completion is billed to its model and content, good or not; a failure is not."""
    shown = '<trajectory id="b">\nassistant: "truth=1"\n</trajectory>\ntrajectory_ids to score: ["b"]'
    with JudgeServer(completion=50) as judge:
        for model in (
            "good",
            "good",
            "good",
            "not-json",
            "500",
            "drop",
            "half",
        ):
            body = {
                "model": model,
                "messages": [{"role": "user", "content": shown}],
            }
            url = f"{judge.base}/chat/completions"
            request = urllib.request.Request(url, json.dumps(body).encode())
            with (
                contextlib.suppress(http.client.HTTPException, OSError),
                judge.opener.open(request) as reply,
            ):
                reply.read()
        books = judge.stats()["books"]
    assert (books["contents"], books["times"], books["paid_again"]) == (
        5,
        {"1": 1, "3": 1},
        2,
    )
    assert (books["answered"]["calls"], books["answered"]["completion"]) == (
        4,
        200,
    )
    assert books["abandoned"]["calls"] == 0


def test_end() -> None:
    """The server ends by itself, in silence, when its lifetime is over or its stdin closes."""
    for lifetime, text in (("0.1", None), ("600", "")):
        command = [
            sys.executable,
            "-m",
            "tests.judge_server",
            "--lifetime",
            lifetime,
        ]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe
        ) as process:
            if text is None:
                assert process.wait(10) == 0
            out, err = process.communicate(timeout=10)
        assert (process.returncode, err) == (0, b"")
        assert list(json.loads(out)) == ["port"]


def test_docstring() -> None:
    """The module's docstring lists every cue."""
    assert set(CUES) <= set((judge_server.__doc__ or "").split())
