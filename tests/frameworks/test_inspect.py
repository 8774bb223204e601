"""Inspect logs, made by inspect_ai, scored by the command and read by inspect_ai again.

It needs pytest, ruler and inspect-ai with pandas and pyarrow, and nothing else of the tests:

    python -m pytest --confcutdir=tests/frameworks tests/frameworks/test_inspect.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "inspect_ai", reason="inspect-ai is not installed", exc_type=ImportError
)

from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.log import (
    EvalLog,
    EvalSample,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.log import read_eval_log_sample_summaries as summaries
from inspect_ai.model import ModelConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, includes, mean, scorer, stderr
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import tool

ROOT = Path(__file__).resolve().parents[2]
_FRESH = ("id", "uuid", "span_id", "parent_id", "timestamp", "working_start")
"""Members of an event that differ from one scoring to the next."""


def _add() -> Any:
    """Make a tool."""

    async def execute(x: int, y: int) -> str:
        """Add two numbers.

        Args:
            x: one
            y: the other
        """
        return str(x + y)

    return execute


def _fail_at(sample: str, epoch: int) -> Any:
    """Make a solver that fails for one sample."""

    async def solve(state: Any, _generate: Any) -> Any:
        if (state.sample_id, state.epoch) == (sample, epoch):
            raise ValueError("the sandbox died")
        return state

    return solve


def _length() -> Any:
    """Make a second scorer of the log."""

    async def score_length(state: Any, _target: Any) -> Score:
        return Score(
            value=len(state.output.completion) / 50, metadata={"of": 50}
        )

    return score_length


# as decorators they would leave the functions without types
add, fail_at = tool(name="add")(_add), solver(name="fail_at")(_fail_at)
length = scorer(metrics=[mean(), stderr()], name="length")(_length)


def _outputs() -> Iterator[ModelOutput]:
    for number in count():
        call = ModelOutput.for_tool_call(
            "mockllm/model", "add", {"x": number, "y": 1}
        )
        text = (
            f"The answer is {number}. "
            + "Indeed. " * (number * 7 % 5)
            + "é\u2028" * (number == 4)
        )
        for output in (call, ModelOutput.from_content("mockllm/model", text)):
            output.usage = ModelUsage(
                input_tokens=10, output_tokens=5, total_tokens=15
            )
            yield output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three samples in four epochs: two scorers, a tool, and samples that fail early and late."""
    dataset = [
        Sample(id="one", input="1 + 1", target="Indeed", metadata={"level": 1}),
        Sample(id="two", input="Please fail the judge. " * 40, target="Indeed"),
        Sample(id=3, input="3 + 3", target="Indeed"),
    ]
    steps = [fail_at("one", 2), use_tools(add()), generate(), fail_at("one", 3)]
    folder = tmp_path_factory.mktemp("logs")
    [log] = eval(
        Task(
            dataset=dataset,
            solver=steps,
            scorer=[includes(), length()],
            epochs=4,
            name="sums",
        ),
        model=get_model("mockllm/model", custom_outputs=_outputs()),
        log_dir=str(folder),
        fail_on_error=False,
        display="none",
        max_samples=1,
    )
    assert log.status == "success"
    # a model that is not here, without a key: only its name is known
    log = read_eval_log(log.location)
    log.eval.model, log.eval.model_roles = (
        "openai/gpt-9",
        {"grader": ModelConfig(model="anthropic/x")},
    )
    write_eval_log(log, folder / "x.eval")
    return folder / "x.eval"


class _Judge(BaseHTTPRequestHandler):
    """A judge that likes short rollouts, and refuses those that ask for it."""

    asked = 0

    def do_POST(self) -> None:
        """Answer a chat completion."""
        request = json.loads(
            self.rfile.read(int(self.headers["Content-Length"]))
        )
        text = request["messages"][-1]["content"]
        _Judge.asked += 1
        parts = re.findall(
            r'<trajectory id="([^"]+)">(.*?)</trajectory>', text, re.DOTALL
        )
        scores = [
            {
                "trajectory_id": label,
                "explanation": "Short is good.",
                "score": round(1 / len(part), 4),
            }
            for label, part in parts
        ]
        refused = "fail the judge" in text
        message = {
            "role": "assistant",
            "content": json.dumps({"scores": scores}),
        }
        usage = {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
        }
        answer = {
            "id": "a",
            "model": "j",
            "choices": [{"message": message}],
            "usage": usage,
        }
        body = json.dumps(
            {"error": {"message": "no"}} if refused else answer
        ).encode()
        self.send_response(400 if refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Write no line for a request."""


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    """The address of the judge."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


class _Ruler:
    """The command, with one judge and one ledger."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder, self.base = folder, base

    def __call__(self, *args: object) -> subprocess.CompletedProcess[str]:
        keys = {
            name: value
            for name, value in os.environ.items()
            if not name.endswith("_API_KEY")
        }
        return subprocess.run(
            [sys.executable, "-m", "ruler_cli", *map(str, args)],
            env={
                **keys,
                "PYTHONPATH": str(ROOT),
                "XDG_CACHE_HOME": str(self.folder),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def score(self, source: object, output: str, *more: object) -> Path:
        """Score a log in which one group fails, and return OUTPUT."""
        done = self(
            "score",
            source,
            output,
            "-m",
            "openai/j",
            "--api-base",
            self.base,
            *more,
        )
        assert done.returncode == 1, done.stderr
        assert "2 of 3 groups scored" in done.stderr, done.stderr
        assert not done.stdout
        return self.folder / output


@pytest.fixture(scope="module")
def ruler(tmp_path_factory: pytest.TempPathFactory, judge: str) -> _Ruler:
    """The command in a folder of its own."""
    return _Ruler(tmp_path_factory.mktemp("runs"), judge)


@pytest.fixture(scope="module")
def scored(ruler: _Ruler, made: Path) -> Path:
    """The log with ruler's scores."""
    return ruler.score(made, "y.eval")


def _sample(log: EvalLog, name: object, epoch: int) -> EvalSample:
    return next(
        sample
        for sample in log.samples or ()
        if (sample.id, sample.epoch) == (name, epoch)
    )


def _plain(log: EvalLog) -> dict[str, Any]:
    """A log as values, without what is new at each scoring."""
    value: dict[str, Any] = json.loads(
        log.model_dump_json(exclude={"location"})
    )
    for sample in value["samples"]:
        for event in sample["events"]:
            for name in (
                _FRESH
                if event["event"] in ("score", "span_begin", "span_end")
                else ()
            ):
                event.pop(name, None)
    return value


def _timeless(log: EvalLog) -> str:
    """A log as text, without the times of ruler; events in any order, which is inspect_ai's own."""
    value = _plain(log)
    for sample in value["samples"]:
        sample["events"] = sorted(
            json.dumps(event, sort_keys=True) for event in sample["events"]
        )
    text = json.dumps(value, sort_keys=True)
    return re.sub(
        r'"(judged_at|cached|latency_s)\\?": (\\?"[^"]*"|[\w.]+)',
        "",
        text.replace('\\"', '"'),
    )


def test_as_inspect_appends(made: Path, scored: Path, tmp_path: Path) -> None:
    """The log is the one that inspect_ai's own `score` makes of a scorer with the same scores."""
    ours = read_eval_log(scored)
    by_sample = {
        (sample.id, sample.epoch): (sample.scores or {}).get("ruler")
        for sample in ours.samples or ()
    }

    def like() -> Any:
        async def score_given(state: Any, _target: Any) -> Score | None:
            return by_sample[state.sample_id, state.epoch]

        return score_given

    log = read_eval_log(made)
    roles, log.eval.model_roles = log.eval.model_roles, None
    log = score(
        log,
        scorer(metrics=[mean(), stderr()], name="ruler")(like)(),
        model="none",
        action="append",
        display="none",
    )
    log.eval.model_roles = roles
    write_eval_log(log, tmp_path / "like.eval")
    theirs = read_eval_log(tmp_path / "like.eval")
    assert _plain(ours) == _plain(theirs)
    assert [sample.model_dump_json() for sample in summaries(scored)] == [
        sample.model_dump_json() for sample in summaries(tmp_path / "like.eval")
    ]


def test_scores(made: Path, scored: Path) -> None:
    """Each score lands on its own sample, with its annotation; the log's own scores stay."""
    before, after = read_eval_log(made), read_eval_log(scored)
    for old, new in zip(before.samples or (), after.samples or (), strict=True):
        scores = dict(new.scores or {})
        ours = scores.pop("ruler", None)
        assert (new.id, new.epoch, new.messages, new.metadata) == (
            old.id,
            old.epoch,
            old.messages,
            old.metadata,
        )
        assert scores == (old.scores or {})
        assert ours is not None
        annotation = ours.metadata or {}
        if annotation["status"] == "failed":
            continue
        assert 0 < float(ours.as_float()) < 1
        assert (annotation["status"], annotation["score"]) == (
            "scored",
            ours.value,
        )
        assert annotation["group"]["key"] == str(new.id)
        assert annotation["independent_reward"] == (
            scores["includes"].value if scores else None
        )
        assert ours.explanation == "Short is good."
    short = min(
        (sample for sample in after.samples or () if sample.id == 3),
        key=lambda sample: len(sample.output.completion),
    )
    values = [
        (sample.scores or {})["ruler"].as_float()
        for sample in after.samples or ()
        if sample.id == 3
    ]
    assert (short.scores or {})["ruler"].as_float() == max(values)


def test_failures(scored: Path) -> None:
    """A sample without a score is unscored with the reason, or has no entry; no failure is a zero."""
    log = read_eval_log(scored)
    failed = [
        (sample.scores or {})["ruler"]
        for sample in log.samples or ()
        if sample.id == "two"
    ]
    assert len(failed) == 4
    for sample in failed:
        assert str(sample.value) == "nan"
        assert sample.reason == "grader_failed"
        assert sample.explanation == (sample.metadata or {})["reason"] != ""
    early = _sample(log, "one", 2)
    assert early.error is not None
    unscored = (early.scores or {})["ruler"]
    assert (str(unscored.value), unscored.reason) == ("nan", "scoring_failed")
    assert "has no turn of the agent" in str(unscored.explanation)
    assert (_sample(log, "one", 3).scores or {})["ruler"].as_float() > 0
    assert log.results is not None
    [ours] = [sample for sample in log.results.scores if sample.name == "ruler"]
    assert (ours.scored_samples, ours.unscored_samples) == (2, 1)
    means = []
    for name in ("one", 3):
        every = [
            (sample.scores or {})["ruler"].as_float()
            for sample in log.samples or ()
            if sample.id == name
        ]
        values = [value for value in every if value == value]  # noqa: PLR0124 - NaN is not itself
        means.append(sum(values) / len(values))
    assert ours.metrics["mean"].value == pytest.approx(sum(means) / 2)


def test_scored_again(ruler: _Ruler, scored: Path) -> None:
    """Scoring a log again, in place, asks nothing, replaces ruler's scores and leaves all else."""
    before, asked = read_eval_log(scored), _Judge.asked
    again = ruler.folder / "again.eval"
    again.write_bytes(scored.read_bytes())
    ruler.score("again.eval", "again.eval")
    assert _Judge.asked == asked
    after = read_eval_log(again)

    assert _timeless(after) == _timeless(before)
    assert sorted(path.name for path in ruler.folder.glob("again*")) == [
        "again.eval",
        "again.eval.failed.jsonl",
    ]


def test_refused(ruler: _Ruler, made: Path) -> None:
    """Options that a log cannot obey are refused before a call; another scorer `ruler` is never replaced."""
    asked = _Judge.asked
    before = sorted(path.name for path in ruler.folder.iterdir())
    done = ruler(
        "score", made, "drop.eval", "-m", "offline", "--on-failure", "drop"
    )
    assert (done.returncode, "keeps all samples" in done.stderr) == (2, True), (
        done.stderr
    )
    log = read_eval_log(made)
    for sample in (log.samples or ())[:1]:
        sample.scores = {**(sample.scores or {}), "ruler": Score(value=1)}
    write_eval_log(log, ruler.folder / "foreign.eval")
    done = ruler("score", "foreign.eval", "out.eval", "-m", "offline")
    assert (
        done.returncode,
        "is not ruler's own; rename it" in done.stderr,
    ) == (
        1,
        True,
    ), done.stderr
    assert _Judge.asked == asked
    left = {path.name for path in ruler.folder.iterdir()} - {
        "foreign.eval",
        "out.eval.failed.jsonl",
    }
    assert sorted(left) == before
