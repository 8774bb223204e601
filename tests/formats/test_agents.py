"""Coding agents' own dumps: mini-swe-agent, SWE-agent, OpenHands."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.scoring.render import render
from tests.formats.changes import SCORED, changed, keyed, same_twice, sample, written
from tests.values import read

ASKED = [
    'system: "Look things up before you answer."',
    'user: "Which gate does the night train to Tromsø leave from?"',
]
NAMES = ["mini_swe_agent", "swe_agent", "openhands"]


def shown(name: str) -> list[str]:
    """The first rollout of a sample as a judge reads it."""
    return render(read(sample(name)[0])[0].rollouts[0].messages)


def text(said: str) -> list[dict[str, str]]:
    """Content as parts."""
    return [{"type": "text", "text": said}]


def test_mini() -> None:
    """What was submitted is the last message, of the role `exit`."""
    assert list(keyed(*sample("mini_swe_agent"))) == ["train", "tiles"]
    assert shown("mini_swe_agent") == [
        *ASKED,
        'assistant: "A look first."\ncall bash: {"command":"grep Tromsø times"}',
        'tool bash: "22:10 platform 4"',
        'exit: "Platform 4, at 22:10."',
    ]


def test_swe_agent() -> None:
    """A demonstration is not shown; the instance is not in the file, so equal prompts are a group."""
    assert [len(group) for group in keyed(*sample("swe_agent")).values()] == [2, 1]
    assert shown("swe_agent") == [
        *ASKED,
        'assistant: "A look first."\ncall bash: {"command":"grep Tromsø times"}',
        'tool bash: "22:10 platform 4"',
        'assistant: "Platform 4, at 22:10."',
    ]


def test_openhands() -> None:
    """Actions are calls, observations results; a report's verdict is an outcome."""
    groups = keyed(*sample("openhands"))
    assert [r.outcome for r in groups["train"]] == [True, False]
    assert shown("openhands") == [
        *ASKED,
        'assistant: "A look first."\ncall run: {"command":"grep Tromsø times"}',
        'tool run: "22:10 platform 4"',
        'call finish: {"final_thought":"Platform 4, at 22:10."}',
    ]


def test_openhands_pairs() -> None:
    """Older files hold pairs of action and observation; what was asked may stand beside them only."""
    act = {"id": 1, "source": "agent", "action": "write", "args": {"path": "a.py", "content": "x = 1"}}
    pair = [act, {"cause": 1, "observation": "write", "content": "ok"}]
    found = read({"instance_id": "i", "instruction": "Fix.", "history": [pair]})[0].rollouts[0].messages
    assert render(found) == [
        'user: "Fix."',
        'call write: {"path":"a.py","content":"x = 1"}',
        'tool write: "ok"',
    ]


def test_openhands_sdk() -> None:
    """Newer files hold the SDK's events."""
    history: list[dict[str, Any]] = [
        {"kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "Be brief."}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"content": text("Fix.")}},
        {"kind": "ActionEvent", "tool_name": "terminal", "tool_call_id": "t", "action": {"command": "ls"},
         "thought": text("Look."), "reasoning_content": "Hm."},
        {"kind": "ObservationEvent", "tool_call_id": "t", "observation": {"content": text("a.py")}},
        {"kind": "AgentErrorEvent", "tool_call_id": "t", "error": "no such tool"},
        {"kind": "ConversationStateUpdateEvent"},
    ]  # fmt: skip
    assert render(read({"instance_id": "i", "history": history})[0].rollouts[0].messages) == [
        'system: "Be brief."',
        'user: "Fix."',
        'assistant thinking: "Hm."\nassistant: "Look."\ncall terminal: {"command":"ls"}',
        'tool terminal: "a.py"',
        'tool terminal: "no such tool"',
    ]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_done(name: str) -> None:
    """A run without a step says so."""
    where = "messages" if name == "mini_swe_agent" else "history"
    with pytest.raises(UnreadableError, match=rf"has no (messages|events) in `{where}`"):
        read({**sample(name)[0], where: []})


def test_demonstration_only() -> None:
    """A history that is a demonstration only is no rollout."""
    with pytest.raises(UnreadableError, match="a demonstration only"):
        read({**sample("swe_agent")[0], "history": [{"role": "user", "content": "d", "is_demo": True}]})


@pytest.mark.parametrize("name", NAMES)
def test_written(name: str) -> None:
    """There was no reward, so one is added, and `ruler`."""
    for record in sample(name):
        assert changed(record, written(record, SCORED)) == {"reward", "ruler"}
        same_twice(record)
