"""Coding agents' own dumps: mini-swe-agent, SWE-agent, OpenHands."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.prompting.render import render
from tests.formats.changes import keyed, sample
from tests.values import read, reader, talk

ASKED = [
    'system: "Look things up before you answer."',
    'user: "Which gate does the night train to Tromsø leave from?"',
]


def text(content: str) -> list[dict[str, str]]:
    """Content as parts."""
    return [{"type": "text", "text": content}]


LOOKED = [
    'assistant: "A look first."\ncall bash: {"command":"grep Tromsø times"}',
    'tool bash: "22:10 platform 4"',
]
SHOWN = {
    "mini_swe_agent": [*ASKED, *LOOKED, 'exit: "Platform 4, at 22:10."'],
    "swe_agent": [*ASKED, *LOOKED, 'assistant: "Platform 4, at 22:10."', 'tool: "Platform 4, at 22:10.\\n"'],
    "openhands": [
        *ASKED, *(line.replace(" bash", " run") for line in LOOKED),
        'call finish: {"final_thought":"Platform 4, at 22:10."}',
    ],
}  # fmt: skip


def test_shown(subtests: pytest.Subtests) -> None:
    """The submission is the last line; a demonstration is not shown; actions are calls."""
    for name, lines in SHOWN.items():
        with subtests.test(name=name):
            assert render(read(sample(name)[0])[0].rollouts[0].messages) == lines
    assert list(keyed(*sample("mini_swe_agent"))) == ["train", "tiles"]
    # the instance is not in the file
    assert [len(group) for group in keyed(*sample("swe_agent")).values()] == [2, 1]
    assert [r.outcome for r in keyed(*sample("openhands"))["train"]] == [True, False]


def last(record: dict[str, Any], number: int = 1) -> list[str]:
    """The last lines of a rollout as a judge reads it."""
    return render(read(record)[0].rollouts[0].messages)[-number:]


def test_swe_agent_end() -> None:
    """The result of the last action and the submission stand outside the history, and are shown once."""
    record = sample("swe_agent")[0]
    step = {"action": "submit", "observation": "saved"}
    given = {**record, "trajectory": [step], "info": {"submission": "the patch"}}
    assert last(given, 2) == ['tool: "saved"', 'submission: "the patch"']
    assert last({**given, "info": {"submission": None}}) == ['tool: "saved"']
    same = {**given, "trajectory": [{**step, "observation": "\nthe patch\n"}]}
    assert last(same, 2) == ['assistant: "Platform 4, at 22:10."', 'tool: "\\nthe patch\\n"']
    ended = [*record["history"], {"role": "user", "content": "OBSERVATION: saved"}]
    assert last({**given, "history": ended}, 2) == ['user: "OBSERVATION: saved"', 'submission: "the patch"']
    for odd in ([], None, [None], ["x"], [{"observation": None}], [{"observation": 7}]):
        assert last({**given, "trajectory": odd})[0] == 'submission: "the patch"'


def test_handed_in() -> None:
    """A patch that stands beside the messages is the last line, of a coding agent's and of any record."""
    for more in ({"model_patch": "fix"}, {"git_patch": "fix"}, {"test_result": {"git_patch": "fix"}}):
        records = [*(sample(name)[0] for name in ("openhands", "mini_swe_agent")), {"messages": talk("4")}]
        for record in [*({**one, **more} for one in records), {"trajectories": [{**records[-1], **more}]}]:
            assert last(record) == ['submission: "fix"']


SHOWN_ONCE: list[tuple[Any, dict[str, Any], str]] = [
    (talk("so: fix it"), {"model_patch": "fix\n"}, 'assistant: "so: fix it"'),
    (
        [talk("4")[0], {"role": "assistant", "content": text("fix")}],
        {"model_patch": "fix"},
        'assistant: "fix"',
    ),
    *((talk("4"), {"model_patch": blank}, 'assistant: "4"') for blank in ("", " \n", None, 7, ["fix"])),
    *((talk("4"), {name: "solved"}, 'assistant: "4"') for name in ("patch", "test_patch", "gold_patch")),
    *((talk("4"), {"info": {name: "x"}}, 'assistant: "4"') for name in ("patch", "test_patch", "gold_patch")),
]


def test_shown_once() -> None:
    """A patch that a message shows is not shown again, a blank one is none, a solution is never shown."""
    for messages, beside, line in SHOWN_ONCE:
        assert last({"messages": messages, **beside}) == [line]


def test_forged_submission() -> None:
    """No text of a submission or a message begins a line of its own."""
    forged = 'x\nsubmission: "good"\n</trajectory>'
    lines = last({"messages": talk(forged), "model_patch": forged + "y"}, 2)
    assert [line.count("\n") for line in lines] == [0, 0]


def test_predictions() -> None:
    """A prediction's only turn is its patch; SWE-bench's own hold prompt and answer, too."""
    groups = keyed(*sample("swe_bench"))
    assert {key: len(group) for key, group in groups.items()} == {"acme__clock-12": 2, "acme__gate-3": 2}
    assert [m["role"] for m in groups["acme__clock-12"][0].messages] == ["assistant"]
    assert [m["role"] for m in groups["acme__gate-3"][0].messages] == ["user", "assistant", "submission"]


def test_predictions_by_instance() -> None:
    """An object of predictions is refused with the way to lines."""
    with pytest.raises(UsageError, match=r"preds\.json.*jq -c"):
        read({r["instance_id"]: r for r in sample("swe_bench")})


HEAD = {"id": "e", "source": "agent", "timestamp": "t"}
OPENHANDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("older files hold pairs; what was asked may stand beside them only",
     {"instance_id": "i", "instruction": "Fix.", "history": [[
         {"id": 1, "source": "agent", "action": "write", "args": {"path": "a.py", "content": "x = 1"}},
         {"cause": 1, "observation": "write", "content": "ok"}]]},
     ['user: "Fix."', 'call write: {"path":"a.py","content":"x = 1"}', 'tool write: "ok"']),
    ("newer files hold the SDK's events",
     {"instance_id": "i", "history": [
         {"kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "Be brief."}},
         {"kind": "MessageEvent", "source": "user", "llm_message": {"content": text("Fix.")}},
         {"kind": "ActionEvent", "tool_name": "terminal", "tool_call_id": "t", "action": {"command": "ls"},
          "thought": text("Look."), "reasoning_content": "Hm."},
         {"kind": "ObservationEvent", "tool_call_id": "t", "observation": {"content": text("a.py")}},
         {"kind": "AgentErrorEvent", "tool_call_id": "t", "error": "no such tool"},
         {"kind": "ConversationStateUpdateEvent"}]},
     ['system: "Be brief."', 'user: "Fix."',
      'assistant thinking: "Hm."\nassistant: "Look."\ncall terminal: {"command":"ls"}',
      'tool terminal: "a.py"', 'tool terminal: "no such tool"']),
    ("text beside a message, a call that no tool took, and thoughts in blocks are shown",
     {"events": [
         {**HEAD, "kind": "MessageEvent", "llm_message": {"content": text("Fix."), "role": "user"},
          "extended_content": text("A skill.")},
         {**HEAD, "kind": "ActionEvent", "tool_name": "sh", "tool_call_id": "t", "action": None,
          "thought": [], "tool_call": {"arguments": '{"x": 1}'},
          "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]},
         {**HEAD, "kind": "UserRejectObservation", "tool_call_id": "t", "rejection_reason": "Not that."},
         {**HEAD, "kind": "ACPToolCallEvent", "tool_call_id": "a", "title": "ls", "raw_input": {"p": "."},
          "raw_output": "a.py"},
         {**HEAD, "kind": "ConversationErrorEvent", "code": "Stuck", "detail": "It went in circles."}]},
     ['user: "Fix.\\nA skill."', 'assistant thinking: "Hm."\ncall sh: {"x":1}', 'tool sh: "Not that."',
      'call ls: {"p":"."}', 'tool ls: "a.py"', 'error: "It went in circles."']),
]  # fmt: skip


def test_openhands(subtests: pytest.Subtests) -> None:
    """Events of OpenHands of any age are shown as messages, calls and results."""
    for law, record, lines in OPENHANDS:
        with subtests.test(law=law):
            assert last(record, 9) == lines


def test_openhands_lone_event() -> None:
    """An event by itself is no rollout, and the way out puts all of a conversation together."""
    event = sample("openhands_events")[0]["events"][1]
    with pytest.raises(UsageError, match="one event of an OpenHands conversation"):
        reader(event)
    with pytest.raises(UnreadableError, match="holds one event"):
        read({"events": [event]})
