"""Traces: spans of several dialects, Langfuse's observations, LangSmith's runs."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.files.parse import parse
from ruler_cli.formats.events import open_records
from ruler_cli.types import Rollout
from tests.conftest import ROOT
from tests.formats.changes import keyed, sample
from tests.values import read, render

SYSTEM: dict[str, Any] = {"role": "system", "content": "You count."}
QUESTION: dict[str, Any] = {
    "role": "user",
    "content": "How many bees are there in the hive?",
}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "name": "count", "arguments": "{}"}],
}
RESULT: dict[str, Any] = {
    "role": "tool",
    "tool_call_id": "c",
    "content": "7,012",
}
REPLY: dict[str, Any] = {
    "role": "assistant",
    "content": "There are 7,012 bees.",
}
RENDERED = [
    'system: "You count."',
    'user: "How many bees are there in the hive?"',
    "call count: {}",
    'tool count: "7,012"',
    'assistant: "There are 7,012 bees."',
]


def rollout(record: Any) -> Rollout:
    """Return the only rollout of a record."""
    ((result,),) = [r.rollouts for r in read(record)]
    return result


ALL = [SYSTEM, QUESTION, CALL, RESULT]


RUN = {
    "id": "1",
    "trace_id": "t1",
    "run_type": "llm",
    "inputs": QUESTION["content"],
    "outputs": REPLY,
}


OTLP = {"traceId": "t1", "spanId": "1", "attributes": [
    {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
    {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(ALL)}},
    {"key": "gen_ai.output.messages", "value": {"stringValue": json.dumps([REPLY])}}]}  # fmt: skip
FIRST = {
    "traceId": "t1",
    "spanId": "0",
    "startTimeUnixNano": "18446744073709551616",
}
ONE = {
    "name": "chat",
    "start_time": "2026-01-01T00:00:01Z",
    "attributes": {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(ALL),
        "gen_ai.output.messages": json.dumps([REPLY]),
    },
}


def batch(*spans: Any, **names: str) -> dict[str, Any]:
    """Spans in an OTLP batch."""
    return {
        names.get("outer", "resourceSpans"): [
            {"scopeSpans": [{"spans": list(spans)}]}
        ]
    }


@pytest.mark.parametrize(
    "lines",
    [
        [batch(OTLP, {**OTLP, "traceId": "t2"}), batch(FIRST)],
        [batch(OTLP, outer="batches"), batch({**OTLP, "traceId": "t2"}, outer="batches")],
        [OTLP, {**OTLP, "traceId": "t2"}],
        [{"data": [{**ONE, "context": {"trace_id": t, "span_id": "1"}} for t in ("t1", "t2")],
          "next_cursor": None}],
        [[RUN, {**RUN, "trace_id": "t2"}]],
        [{**RUN, "run_id": "1", "id": None, "trace_id": t} for t in ("t1", "t2")],
        [{"runs": [RUN, {**RUN, "trace_id": "t2"}], "cursors": {}}],
        [RUN, {**RUN, "trace_id": "t2"}, {**RUN, "id": "2", "run_type": "chain", "inputs": {}}],
        [{"id": "1", "traceId": t, "type": "GENERATION", "parentObservationId": None, "input": ALL,
          "output": REPLY} for t in ("t1", "t2")],
    ],
)  # fmt: skip
def test_gathered(tmp_path: Path, lines: list[Any]) -> None:
    """Spans are gathered by trace from OTLP's batches and from pages of Phoenix."""
    path = tmp_path / "in.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    with ExitStack() as stack:
        records = [
            parse(line.raw) for line in open_records(str(path), stack).records()
        ]
    assert len(records) == 2
    result = [
        rollout for rollouts in keyed(*records).values() for rollout in rollouts
    ]
    assert [render(r.messages)[-1] for r in result] == [RENDERED[-1]] * 2


REAL = sorted((ROOT / "tests/data/traces").iterdir())


@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_real_output(path: Path) -> None:
    """The output of each package that docs/formats.md names, of two runs, is the same two rollouts."""
    with ExitStack() as stack:
        lines = [*open_records(str(path), stack).records()]
    rollouts = [rollout(parse(line.raw)) for line in lines]
    assert [render(r.messages) for r in rollouts] == [RENDERED] * 2
    assert not any(r.histories for r in rollouts)


SCORES: list[Any] = [
    ([{"name": "a", "value": 0.5}], 0.5),
    ([{"name": "a", "value": 0.5}, {"name": "b", "stringValue": "good"}], 0.5),
    ([{"name": "a", "value": 0.5}, {"name": "b", "value": 1}], None),
    ([], None),
    ("none", None),
]


def test_scores(subtests: pytest.Subtests) -> None:
    """A score is the outcome if it is the only numeric one."""
    for scores, outcome in SCORES:
        with subtests.test(scores=str(scores), outcome=str(outcome)):
            assert (
                rollout({**sample("langfuse")[0], "scores": scores}).outcome
                == outcome
            )
