"""Coding agents' own dumps: mini-swe-agent, SWE-agent, OpenHands."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.changes import sample
from tests.values import read, render


def last_lines(record: dict[str, Any], number: int = 1) -> list[str]:
    """Return the last rendered lines of a rollout."""
    return render(read(record)[0].rollouts[0].messages)[-number:]


def test_swe_agent_end() -> None:
    """The last action's result and the submission follow the history, once each."""
    record = sample("swe_agent")[0]
    step = {"action": "submit", "observation": "saved"}
    submitted = {
        **record,
        "trajectory": [step],
        "info": {"submission": "the patch"},
    }
    assert last_lines(submitted, 2) == [
        'tool: "saved"',
        'submission: "the patch"',
    ]
    assert last_lines({**submitted, "info": {"submission": None}}) == [
        'tool: "saved"'
    ]
    same = {
        **submitted,
        "trajectory": [{**step, "observation": "\nthe patch\n"}],
    }
    assert last_lines(same, 2) == [
        'assistant: "Platform 4, at 22:10."',
        'tool: "\\nthe patch\\n"',
    ]
    ended = [
        *record["history"],
        {"role": "user", "content": "OBSERVATION: saved"},
    ]
    assert last_lines({**submitted, "history": ended}, 2) == [
        'user: "OBSERVATION: saved"',
        'submission: "the patch"',
    ]
    for odd in (
        [],
        None,
        [None],
        ["x"],
        [{"observation": None}],
        [{"observation": 7}],
    ):
        assert (
            last_lines({**submitted, "trajectory": odd})[0]
            == 'submission: "the patch"'
        )


def test_json_text() -> None:
    """Calls of ATIF and contents of ADK read as JSON text as they do as values, and texts of either are shown."""
    record = sample("atif")[0]
    steps = record["steps"]
    texts = [
        {**step, "tool_calls": [*map(json.dumps, step.get("tool_calls", []))]}
        for step in steps
    ]
    whole = len(steps) + 9
    assert "call timetable" in " ".join(last_lines(record, whole))
    same = last_lines({**record, "steps": texts}, whole)
    assert same == last_lines(record, whole)
    odd = [*steps, {"source": "agent", "tool_calls": ["look up"]}]
    (line,) = last_lines({**record, "steps": odd})
    assert line.startswith("call") and "look up" in line
    session = sample("adk_sessions")[0]
    events = session["events"]
    stored = [
        {**event, "content": json.dumps(event["content"])}
        if "content" in event
        else event
        for event in events
    ]
    same = last_lines({**session, "events": stored}, whole)
    assert same == last_lines(session, whole)
    for content in ("Bye.", {"content": "Bye."}):
        told = [*events, {"author": "guide", "content": content}]
        line = last_lines({**session, "events": told})
        assert line == ['assistant guide: "Bye."']
