"""The judge server misbehaves exactly as its cues say, and otherwise answers well."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests import judge_server
from tests.judge_server import CUES, JudgeServer, expected_score

ROLLOUTS = {
    "bcdf": 'user: "go"\nassistant: "truth=0.9, no, truth=0.35"',
    "ghjk": 'assistant: "truth=0.8"',
    "lmnp": 'assistant: "nothing is said of the truth"',
    "qrst": 'assistant: "truth=1"',
}
RIGHT = {label: expected_score(body) for label, body in ROLLOUTS.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeServer]:
    """Run one server for this file."""
    with JudgeServer() as started:
        yield started


@pytest.fixture
def judge(server: JudgeServer) -> JudgeServer:
    """Lend the server with nothing counted yet."""
    server.reset()
    return server


def prompt(labels: list[str], rollouts: dict[str, str]) -> str:
    """Write a user message as `ruler` does."""
    shown = [f'<trajectory id="{x}">\n{body}\n</trajectory>' for x, body in rollouts.items()]
    head = '<context>\nsystem: "be good"\n</context>\n<available_tools>\n</available_tools>'
    return "\n".join([head, *shown, f"trajectory_ids to score: {json.dumps(labels)}"])


def post(
    judge: JudgeServer,
    model: str,
    labels: list[str] | None = None,
    rollouts: dict[str, str] = ROLLOUTS,
    timeout: float = 10.0,
    **more: Any,
) -> tuple[int, Any, str]:
    """Return the status, the headers and the body of one reply."""
    text = prompt(labels or list(rollouts), rollouts)
    messages = [{"role": "system", "content": "rank"}, {"role": "user", "content": text}]
    body = json.dumps({"model": model, "messages": messages, **more}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
    request = urllib.request.Request(f"{judge.base}/chat/completions", body, headers)
    try:
        with judge.opener.open(request, timeout=timeout) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def choice(judge: JudgeServer, model: str, **more: Any) -> Any:
    """Return the first choice of a reply."""
    return json.loads(post(judge, model, **more)[2])["choices"][0]


def content(judge: JudgeServer, model: str, **more: Any) -> str:
    """Return the text of a reply."""
    return str(choice(judge, model, **more)["message"]["content"])


def answers(text: str) -> list[list[tuple[Any, Any]]]:
    """Return the labels and scores of each answer in a text."""
    found = [json.loads(line) for line in re.findall(r'\{"scores".*\]\}', text)]
    return [[(e.get("trajectory_id"), e["score"]) for e in one["scores"]] for one in found]


def answer(judge: JudgeServer, model: str, **more: Any) -> list[tuple[Any, Any]]:
    """Return the labels and scores of the last answer in a reply."""
    return answers(content(judge, model, **more))[-1]


def test_content(judge: JudgeServer) -> None:
    """A score depends on what a rollout says, not on where it stands nor what else is asked."""
    assert (RIGHT["bcdf"], RIGHT["ghjk"], RIGHT["qrst"]) == (0.35, 0.8, 1.0)
    assert dict(answer(judge, "good")) == RIGHT
    assert answer(judge, "any", labels=["qrst", "bcdf"]) == [("qrst", 1.0), ("bcdf", 0.35)]


def test_harmless(judge: JudgeServer) -> None:
    """A reordered or wrapped reply holds the same score for each label; a decoy comes first and is wrong."""
    for kind in ("prose", "reordered", "a/b/fenced"):
        reply = answer(judge, kind)
        assert dict(reply) == RIGHT
        assert (reply == list(RIGHT.items())) == (kind != "reordered")
    for kind in ("think", "decoy"):
        decoy, last = answers(content(judge, kind))
        assert dict(last) == RIGHT
        assert all(dict(decoy)[label] != right for label, right in RIGHT.items())


def test_labels(judge: JudgeServer) -> None:
    """A cue about labels changes labels only."""
    right = list(RIGHT.items())
    assert answer(judge, "duplicate-same") == [*right, right[0]]
    assert answer(judge, "duplicate") == [*right, ("bcdf", 1.0)]
    assert answer(judge, "missing") == right[:-1]
    assert answer(judge, "extra") == [*right, ("no-such-label", 0.35)]
    assert answer(judge, "integer") == list(enumerate(RIGHT.values(), 1))
    assert answer(judge, "position") == [(None, score) for score in RIGHT.values()]
    assert [entry["trajectory_id"] for entry in json.loads(content(judge, "list"))] == list(RIGHT)


def test_scales(judge: JudgeServer) -> None:
    """A score on another scale or in a string is the right one in disguise."""
    right = list(RIGHT.values())

    def scores(kind: str) -> list[Any]:
        return [score for _, score in answer(judge, kind)]

    assert scores("ten") == pytest.approx([score * 10 for score in right])
    assert [float(s.removesuffix("%")) / 100 for s in scores("percent")] == pytest.approx(right)
    assert [float(s.removesuffix("/10")) / 10 for s in scores("fraction")] == pytest.approx(right)
    assert scores("strings") == [str(score) for score in right]
    assert {score > 1 for score in scores("mixed")} == {True, False}
    low = {"bcdf": "truth=0.1", "ghjk": "truth=0.0"}
    assert max(score for _, score in answer(judge, "ten", rollouts=low)) > 1


def test_bad_scores(judge: JudgeServer) -> None:
    """A cue for a bad score spoils the first one."""
    bad = {"negative": -0.5, "null-score": None, "bool-score": True}
    assert {kind: answer(judge, kind)[0][1] for kind in bad} == bad
    assert '"score": NaN' in content(judge, "nan")


def test_cutoff(judge: JudgeServer) -> None:
    """A reply cut off lacks its last two entries, the first of them in part."""
    for count in (1, 2, 4):
        cut = choice(judge, "cutoff", labels=list(ROLLOUTS)[:count])
        assert cut["finish_reason"] == "length"
        text = cut["message"]["content"]
        assert text.count('"trajectory_id"') == max(1, count - 1)
        assert text.count("}") == max(0, count - 2)


def test_no_answer(judge: JudgeServer) -> None:
    """A reply without an answer says why, or is not a completion at all."""
    assert content(judge, "empty") == ""
    assert choice(judge, "null-content")["message"]["content"] is None
    assert choice(judge, "refusal")["message"]["refusal"]
    assert choice(judge, "filter")["finish_reason"] == "content_filter"
    assert "{" not in content(judge, "not-json")
    assert json.loads(post(judge, "no-choices")[2])["choices"] == []
    assert post(judge, "html")[2].startswith("<html>")
    assert len(content(judge, "huge")) >= 5_000_000


def test_spells(judge: JudgeServer) -> None:
    """A passing fault passes for each group by itself, in whatever order it is shown."""
    backwards = dict(reversed(ROLLOUTS.items()))
    assert [post(judge, "x/once-500")[0] for _ in range(3)] == [500, 200, 200]
    assert [post(judge, "twice-429")[0] for _ in range(3)] == [429, 429, 200]
    assert post(judge, "once-500", rollouts=backwards)[0] == 200
    assert post(judge, "once-500", rollouts={"b": "another group"})[0] == 500


def test_statuses(judge: JudgeServer) -> None:
    """A status is a cue by its number, and its reply is an error in OpenAI's form or a page."""
    for status in (400, 401, 429, 502, 529):
        got, _, body = post(judge, str(status))
        assert got == status
        assert "502" in body if status == 502 else json.loads(body)["error"]["message"]


def test_refusals(judge: JudgeServer) -> None:
    """A conditional refusal answers well when its condition does not hold."""
    schema, plain = ({"type": kind} for kind in ("json_schema", "json_object"))
    assert "response_format" in post(judge, "schema-refused", response_format=schema)[2]
    assert post(judge, "schema-refused", response_format=plain)[0] == 200
    assert post(judge, "format-refused", response_format=plain)[0] == 400
    assert post(judge, "format-refused")[0] == 200
    assert post(judge, "400-context")[0] == 200
    status, _, body = post(judge, "400-context", rollouts={"b": "é" * 8000})
    assert status == 400
    assert int(re.findall(r"(\d+) tokens\.", body)[1]) in range(4000, 4100)


def test_limits(judge: JudgeServer) -> None:
    """A limit says when to come back, a spent quota does not."""
    assert post(judge, "429")[1]["Retry-After"] == "0"
    assert post(judge, "429-bare")[1]["Retry-After"] is None
    soon = parsedate_to_datetime(post(judge, "429-date")[1]["Retry-After"])
    assert abs(soon.timestamp() - time.time()) < 3
    status, headers, body = post(judge, "quota")
    assert (status, headers["Retry-After"]) == (429, None)
    assert json.loads(body)["error"]["code"] == "insufficient_quota"


def test_connections(judge: JudgeServer) -> None:
    """A broken connection ends early, a stalled one never does."""
    with pytest.raises(http.client.RemoteDisconnected):
        post(judge, "drop")
    with pytest.raises(http.client.IncompleteRead) as half:
        post(judge, "half")
    assert half.value.partial.startswith(b'{"id"')
    with pytest.raises(TimeoutError):
        post(judge, "hang", timeout=0.2)
    assert not ends(judge, "drip", seconds=0.6)
    counts = {"drop": 1, "half": 1, "hang": 1, "drip": 1}
    assert judge.stats()["by_status"] == counts


def ends(judge: JudgeServer, model: str, seconds: float) -> bool:
    """Return whether a reply that is never silent for long ends within some seconds."""
    connection = http.client.HTTPConnection(judge.base.split("/")[2], timeout=0.4)
    messages = [{"role": "user", "content": prompt(list(ROLLOUTS), ROLLOUTS)}]
    connection.request("POST", "/chat/completions", json.dumps({"model": model, "messages": messages}))
    reply, end = connection.getresponse(), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if not reply.read(1):
                return True
        return False
    finally:
        reply.close()
        connection.close()


def test_usage(judge: JudgeServer) -> None:
    """Usage counts 3.8 bytes of the messages, and four characters of the answer, to the token."""
    rollouts = {"é": "é" * 1000}
    reply = json.loads(post(judge, "good", rollouts=rollouts)[2])
    used = int(len(("rank" + prompt(["é"], rollouts)).encode()) / 3.8)
    made = len(reply["choices"][0]["message"]["content"]) // 4
    tokens = {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}
    assert reply["usage"] == tokens
    assert reply["choices"][0]["finish_reason"] == "stop"


def test_counters(judge: JudgeServer) -> None:
    """The counters tell what was asked since the last reset."""
    for model, form in (("good", "json_schema"), ("500", "json_object")):
        post(judge, model, response_format={"type": form})
    post(judge, "good")
    stats = judge.stats()
    expected = {
        "requests": 3,
        "in_flight": 0,
        "in_flight_max": 1,
        "by_status": {"200": 2, "500": 1},
        "by_format": {"json_schema": 1, "json_object": 1, "none": 1},
        "keys": ["Bearer secret"],
    }
    assert {name: stats[name] for name in expected} == expected
    assert [request["model"] for request in judge.requests()] == ["good", "500", "good"]
    judge.reset()
    assert (judge.stats()["requests"], judge.stats()["keys"], judge.requests()) == (0, [], [])


def test_latency() -> None:
    """Requests under way at once are counted as such, and each waits for the latency alone."""
    with JudgeServer(latency=0.3) as judge, ThreadPoolExecutor(8) as pool:
        start = time.monotonic()
        replies = list(pool.map(lambda _: post(judge, "good")[0], range(8)))
        assert 0.3 <= time.monotonic() - start < 1.5
        assert (replies, judge.stats()["in_flight_max"]) == ([200] * 8, 8)


def test_bad_prompt(judge: JudgeServer) -> None:
    """A prompt that no judge could answer is refused with the reason."""
    status, _, body = post(judge, "good", labels=["zzzz"])
    assert (status, "zzzz" in body) == (400, True)


def test_end() -> None:
    """The server ends by itself, in silence, when its lifetime is over or its stdin closes."""
    for lifetime, text in (("0.1", None), ("600", "")):
        command = [sys.executable, "-m", "tests.judge_server", "--lifetime", lifetime]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            if text is None:
                assert process.wait(10) == 0
            out, err = process.communicate(timeout=10)
        assert (process.returncode, err) == (0, b"")
        assert list(json.loads(out)) == ["port"]


def test_docstring() -> None:
    """The module's docstring lists every cue."""
    assert set(CUES) <= set((judge_server.__doc__ or "").split())
