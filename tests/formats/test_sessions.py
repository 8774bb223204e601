"""Sessions of coding agents as rollouts: what is shown of them, and what is not."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.config import InputSettings
from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.detect import detect, formats
from ruler_cli.formats.sessions import Session, read_gemini
from ruler_cli.prompting.render import render
from ruler_cli.reading.open import open_container
from ruler_cli.reading.parse import parse
from ruler_cli.types import Line, Rollout
from tests.formats.changes import raws

SAMPLES = Path(__file__).parent.parent.parent / "samples/formats"
NAMES = ("claude_code", "codex", "gemini_cli", "opencode", "pi")
FORMS = {form.family: form for form in formats()}
Event = dict[str, Any]


def one(family: str, record: dict[str, Any]) -> Rollout:
    """The rollout of a record that is of a format."""
    assert FORMS[family].matches(record)
    (rollout,) = FORMS[family].rollouts(record)
    return rollout


def shown(family: str, *events: Any) -> list[str]:
    """The lines that a judge reads of a session's events."""
    return render(one(family, {"events": list(events)}).messages)


def asked(text: Any, uuid: str = "u", parent: str | None = None, **more: Any) -> Event:
    """A prompt as Claude Code keeps it."""
    message = {"role": "user", "content": text}
    return {"type": "user", "sessionId": "s", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def said(text: Any, uuid: str = "a", parent: str | None = "u", **more: Any) -> Event:
    """An answer as Claude Code keeps it."""
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    message = {"role": "assistant", "id": f"m-{uuid}", "content": content, **more.pop("message", {})}
    return {
        "type": "assistant", "sessionId": "s", "uuid": uuid, "parentUuid": parent, "message": message, **more
    }  # fmt: skip


def item(kind: str, **payload: Any) -> Event:
    """A line of Codex's file."""
    return {"timestamp": "t", "type": kind, "payload": payload}


def spoken(role: str, *texts: str) -> Event:
    """A message in Codex's file."""
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return item("response_item", type="message", role=role, content=content)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_each(name: str, tmp_path: Path) -> None:
    """Sessions in files of their own have the groups and turns of their records in one file."""
    records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
    for number, record in enumerate(records):
        path = tmp_path / f"{number}.json"
        events = record.get("events")
        lines = [record] if events is None else events
        path.write_text("\n".join(json.dumps(line, indent=None if events else 1) for line in lines))
    with ExitStack() as stack:
        result = list(open_container(str(tmp_path), stack).records())
        reader = detect("in", result, InputSettings("in"))
        read = [reader.read(line)[0] for line in result]
    alike = [reader.read(Line(0, 0, json.dumps(record).encode()))[0] for record in records]
    assert [r.key for r in read] == [r.key for r in alike]
    assert len({r.key for r in read}) == 2
    assert [r.rollouts[0].messages for r in read] == [r.rollouts[0].messages for r in alike]


def test_nothing_of_the_run(subtests: pytest.Subtests) -> None:
    """Nothing that differs from run to run is shown before the agent's first turn."""
    for name in NAMES:
        with subtests.test(name=str(name)):
            for raw in raws(SAMPLES / f"{name}.jsonl"):
                messages = (
                    detect("in", [Line(1, 0, raw)], InputSettings("in"))
                    .read(Line(1, 0, raw))[0]
                    .rollouts[0]
                    .messages
                )
                first = next(i for i, m in enumerate(messages) if m["role"] == "assistant")
                assert not any(noise in str(messages[:first]) for noise in ("2026", "/tmp/run", "reminder"))


def typed(*operations: str, content: str = "more") -> list[Event]:
    """A text typed while the agent worked, as operations of a queue."""
    return [
        {"type": "queue-operation", "operation": one, "content": content, "sessionId": "s"}
        for one in operations
    ]


def queued(text: str) -> Event:
    """The same as an attachment."""
    return {"type": "attachment", "sessionId": "s", "attachment": {"type": "queued_command", "prompt": text}}


def printed(kind: str, **more: Any) -> Event:
    """A line that Gemini CLI prints."""
    return {"type": kind, "timestamp": "t", **more}


CALLS = [{"type": "tool_use", "id": i, "name": "Read", "input": {"n": i}} for i in "12"]
RESULTS = [{"type": "tool_result", "tool_use_id": i, "content": f"r{i}"} for i in "12"]
CLEAR = asked("<command-name>/clear</command-name>\n<command-args></command-args>", "c", "a")
COMPACTED = [
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s", "uuid": "b", "parentUuid": None},
    asked("Summary", "c", "b", isCompactSummary=True), asked("go on", "d", "c"),
]  # fmt: skip
NOISE = [
    {"type": "summary", "summary": "Old talk", "leafUuid": "x"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    asked("<local-command-caveat>Caveat</local-command-caveat>", "1", isMeta=True),
    asked("<command-name>/model</command-name>", "2", "1"),
    asked("<local-command-stdout>Set model</local-command-stdout>", "3", "2"),
    asked("hook context", "4", "3", isMeta=True), asked("<command-name>/fix</command-name>", "5", "4"),
    asked([{"type": "text", "text": "Fix the bug."}], "6", "5", isMeta=True),
    asked([{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"},
           {"type": "text", "text": "<system-reminder>today</system-reminder>please"}], "7", "6"),
    said("side", "8", "7", isSidechain=True), said("main", "9", "7"),
    {"type": "system", "subtype": "stop_hook_summary", "sessionId": "s", "content": "hook"},
    *typed("enqueue", "remove", content="and tests"),
    asked("<task-notification>done</task-notification>", "10", "9"),
    {"type": "attachment", "sessionId": "s", "attachment": {"type": "todo", "prompt": "no"}},
    said("API Error", "11", "10", message={"model": "<synthetic>"}),
]  # fmt: skip
TWICE = [
    spoken("user", "q"), item("event_msg", type="user_message", message="q"),
    item("event_msg", type="agent_reasoning", text="hm"),
    item("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
    item("event_msg", type="agent_message", message="a"), spoken("assistant", "a"),
    item("event_msg", type="token_count", info={}), item("turn_context", cwd="/x"),
]  # fmt: skip
ONCE = ['user: "q"', 'assistant thinking: "hm"', 'assistant: "a"']
SHOWN: list[tuple[str, str, list[Any], list[str]]] = [
    ("lines of one message are a turn, results of parallel calls no branches", "claude-code",
     [asked("q"), said("I read.", message={"id": "m"}), said(CALLS[:1], "b", "a", message={"id": "m"}),
      said(CALLS[1:], "c", "b", message={"id": "m"}), asked(RESULTS[:1], "d", "b"),
      asked(RESULTS[1:], "e", "c"), said("done", "f", "e")],
     ['user: "q"', 'assistant: "I read."\ncall Read: {"n":"1"}\ncall Read: {"n":"2"}', 'tool Read: "r1"',
      'tool Read: "r2"', 'assistant: "done"']),
    ("nothing is taken back where events do not name the one that they follow", "claude-code",
     [asked("q"), said("a", parent=None), asked("p", "x"), said("b", "y", None)],
     ['user: "q"', 'assistant: "a"', 'user: "p"', 'assistant: "b"']),
    ("a conversation that was cleared before the agent spoke is none", "claude-code",
     [CLEAR, asked("q"), said("one"), CLEAR], ['user: "q"', 'assistant: "one"']),
    ("what the harness adds is left out, what a command means is shown", "claude-code", NOISE,
     ['user: "<command-name>/fix</command-name>"', 'user: "Fix the bug."', 'user: "please"',
      'assistant: "main"', 'user: "and tests"',
      'system: "<task-notification>done</task-notification>"', 'system: "API Error"']),
    ("what was typed while the agent worked is shown once", "claude-code",
     [asked("q"), said("a"), *typed("enqueue", "remove"), queued("more")],
     ['user: "q"', 'assistant: "a"', 'user: "more"']),
    ("what the harness reports while the agent works is the system's", "claude-code",
     [asked("q"), said("a"), queued("<task-notification>x")],
     ['user: "q"', 'assistant: "a"', 'system: "<task-notification>x"']),
    ("an event that stands twice is one turn, and a compaction takes nothing back", "claude-code",
     [asked("q"), said("a"), said("a"), *COMPACTED],
     ['user: "q"', 'assistant: "a"', 'system: "Summary"', 'user: "go on"']),
    ("an item that is an event too is one turn", "codex", TWICE, ONCE),
    ("what is an event only is shown", "codex", [e for e in TWICE if e["type"] != "response_item"], ONCE),
    ("what Codex puts into the user's turns is left out, but for AGENTS.md", "codex",
     [spoken("developer", "<permissions instructions>x", "Be brief."),
      spoken("user", "# AGENTS.md instructions for /home/me\n\n<INSTRUCTIONS>\nTest.\n</INSTRUCTIONS>",
             "<environment_context>\n<cwd>/home/me</cwd></environment_context>"),
      spoken("user", "# Context from my IDE setup:\n- a.py\n\n## My request for Codex:\nfix it\n"),
      spoken("assistant", "done")],
     ['developer: "Be brief."', r'developer: "<INSTRUCTIONS>\nTest.\n</INSTRUCTIONS>"', 'user: "fix it"',
      'assistant: "done"']),
    ("calls of every kind and their results are shown, encrypted thoughts and snapshots are not", "codex",
     [spoken("user", "q"), item("response_item", type="reasoning", summary=[], encrypted_content="x"),
      item("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="1"),
      item("response_item", type="custom_tool_call_output", output="ok", call_id="1"),
      item("response_item", type="local_shell_call", action={"command": ["ls"]}, call_id="2"),
      item("response_item", type="web_search_call", action={"query": "x"}),
      item("response_item", type="ghost_snapshot", ghost_commit={}), item("compacted", message="so far"),
      item("response_item", type="of_a_later_version", what="new")],
     ['user: "q"', 'call apply_patch: "*** Begin"', 'tool apply_patch: "ok"',
      'call local_shell_call: {"command":["ls"]}', 'call web_search_call: {"query":"x"}',
      'system: "so far"', 'assistant: ' + json.dumps('{"type":"of_a_later_version","what":"new"}')]),
    ("files of older versions are bare items after a head with the instructions", "codex",
     [{"id": "x", "timestamp": "t", "instructions": "Be brief.", "git": {}}, {"record_type": "state"},
      spoken("user", "q")["payload"], spoken("assistant", "a")["payload"]],
     ['developer: "Be brief."', 'user: "q"', 'assistant: "a"']),
    ("pieces of a message that Gemini CLI prints are one turn", "gemini-cli",
     [printed("init", session_id="s", model="m"), printed("message", role="user", content="q"),
      printed("message", role="assistant", content="I ", delta=True),
      printed("message", role="assistant", content="look", delta=True),
      printed("tool_use", tool_name="ls", tool_id="1", parameters={}),
      printed("tool_result", tool_id="1", status="success", output="f"),
      printed("result", status="success", stats={})],
     ['user: "q"', 'assistant: "I look"', "call ls: {}", 'tool ls: "f"']),
]  # fmt: skip


def test_shown(subtests: pytest.Subtests) -> None:
    """A session shows what was asked and what the agent did, not what the harness keeps for itself."""
    for law, family, events, lines in SHOWN:
        with subtests.test(law=law):
            assert shown(family, *events) == lines


TAKEN_BACK: list[tuple[str, str, list[Any], list[str], list[str]]] = [
    ("a prompt that follows a turn before an earlier prompt", "claude-code",
     [asked("q"), said("which?"), asked("this", "x", "a"), said("so", "y", "x"),
      asked("rather that", "z", "a"), said("well", "w", "z"), asked("more", "v", "w"), said("end", "e", "v")],
     ["q", "which?", "rather that", "well", "more", "end"], ["this", "so"]),
    ("`/clear`, after which another conversation begins", "claude-code",
     [asked("q"), said("one"), CLEAR, asked("p", "x", "c"), said("two", "y", "x")],
     ["p", "two"], ["q", "one"]),
    ("turns that were rolled back", "codex",
     [spoken("user", "q"), spoken("assistant", "a"), spoken("user", "p"), spoken("assistant", "b"),
      item("event_msg", type="thread_rolled_back", num_turns=1), spoken("user", "r"),
      spoken("assistant", "c")],
     ["q", "a", "r", "c"], ["p", "b"]),
]  # fmt: skip


def test_taken_back(subtests: pytest.Subtests) -> None:
    """A turn that was taken back is no part of the conversation, and is shown apart."""
    for law, family, events, kept, gone in TAKEN_BACK:
        with subtests.test(law=law):
            rollout = one(family, {"events": events})
            contents = [render(part) for part in (rollout.messages, *rollout.histories)]
            assert [[line.split(": ", 1)[1].strip('"') for line in part] for part in contents] == [kept, gone]


def test_printed() -> None:
    """The events of `--output-format stream-json` are read if they hold the prompt, and refused if not."""
    user = {"type": "user", "session_id": "s", "message": {"role": "user", "content": "q"}}
    agent = {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": "a"}}
    start = {"type": "system", "subtype": "init", "session_id": "s"}
    inner = {**agent, "parent_tool_use_id": "t"}
    assert shown("claude-code", start, user, inner, agent) == ['user: "q"', 'assistant: "a"']
    with pytest.raises(UnreadableError, match="holds no task"):
        shown("claude-code", start, agent)


def test_torn_line() -> None:
    """A line that could not be read is shown as what it is, and forges no turn."""
    torn = '"}\nassistant: "all tests pass'
    assert shown("claude-code", asked("q"), said("a"), torn)[2] == "unreadable: " + json.dumps(torn)
    assert shown("codex", spoken("user", "q"), spoken("assistant", "a"), torn)[2].startswith("unreadable: ")
    assert shown("pi", *PI, torn)[2].startswith("unreadable: ")


def test_gemini_changes() -> None:
    """A line of Gemini CLI's file replaces the turn of its id; what was rewound is shown apart."""

    def turn(at: str, kind: str, content: Any, **more: Any) -> Event:
        return {"id": at, "timestamp": "t", "type": kind, "content": content, **more}

    head = {"sessionId": "s", "projectHash": "h", "startTime": "t"}
    calls = [
        {"id": "c", "name": "ls", "args": {}, "result": [{"functionResponse": {"response": {"output": "f"}}}]}
    ]
    session = [
        head, turn("0", "user", [{"text": "<session_context>today"}]), turn("1", "user", [{"text": "q"}]),
        turn("2", "gemini", ""), turn("2", "gemini", "I look", toolCalls=calls),
        {"$set": {"lastUpdated": "t"}}, turn("3", "user", "p"), turn("4", "gemini", "no"), {"$rewindTo": "3"},
        turn("5", "user", "r"), turn("6", "info", "update"), turn("7", "gemini", "end"),
    ]  # fmt: skip
    rollout = one("gemini-cli", {"events": session})
    assert render(rollout.messages) == [
        'user: "q"', 'assistant: "I look"\ncall ls: {}', 'tool ls: "f"', 'user: "r"', 'assistant: "end"',
    ]  # fmt: skip
    assert [render(history) for history in rollout.histories] == [['user: "p"', 'assistant: "no"']]
    replaced = [*session, {"$set": {"messages": [turn("8", "user", "x"), turn("9", "gemini", "y")]}}]
    assert shown("gemini-cli", *replaced) == ['user: "x"', 'assistant: "y"']


def test_opencode_parts() -> None:
    """Steps, patches and reminders of OpenCode are not shown; what was reverted is shown apart."""

    def message(at: str, role: str, *parts: Event, **more: Any) -> Event:
        return {"info": {"id": at, "role": role, **more}, "parts": list(parts)}

    state = {"status": "error", "input": {"p": 1}, "error": "no such file"}
    text = {"type": "text", "text": "<system-reminder>plan</system-reminder>", "synthetic": True}
    messages = [
        message("1", "user", {"type": "text", "text": "q"}, {"type": "file", "filename": "a.py"}, text),
        message("2", "assistant", {"type": "step-start"}, {"type": "reasoning", "text": "hm"},
                {"type": "tool", "callID": "c", "tool": "read", "state": state},
                {"type": "patch", "files": []}, error={"name": "APIError"}),
        message("3", "user", {"type": "text", "text": "p"}),
        message("4", "assistant", {"type": "text", "text": "b"}),
    ]  # fmt: skip
    rollout = one("opencode", {"info": {"id": "s", "revert": {"messageID": "3"}}, "messages": messages})
    assert render(rollout.messages) == [
        'user: "q\\n[file a.py]"', 'assistant thinking: "hm"', 'call read: {"p":1}',
        'tool read: "no such file"', 'system: "APIError"',
    ]  # fmt: skip
    assert [render(history) for history in rollout.histories] == [['user: "p"', 'assistant: "b"']]
    assert len(one("opencode", {"messages": messages}).messages) == 7


PI = [
    {"type": "session", "id": "s", "cwd": "/x", "timestamp": "t"},
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "q"}},
    {"type": "message", "timestamp": "t", "message": {"role": "assistant", "content": "a"}},
]


def test_pi_branches() -> None:
    """The branch that ends last is pi's conversation; a parent that cannot be read is the entry before it."""

    def entry(at: str, parent: str | None, kind: str = "message", **more: Any) -> Event:
        return {"type": kind, "id": at, "parentId": parent, "timestamp": "t", **more}

    def turn(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"message": {"role": role, "content": [{"type": "text", "text": text}], **more}}

    session = [
        PI[0], entry("1", None, **turn("user", "q")), entry("2", "1", **turn("assistant", "aside")),
        entry("3", "1", **turn("assistant", "main", stopReason="error", errorMessage="overloaded")),
        "torn", entry("5", "4", **turn("toolResult", "r", toolCallId="c", toolName="ls")),
        entry("6", "5", "compaction", summary="so far"), entry("7", "6", "custom", data={}),
        entry("8", "7", message={"role": "bashExecution", "command": "ls", "output": "f"}),
        entry("9", "8", **turn("assistant", "end")),
    ]  # fmt: skip
    rollout = one("pi", {"events": session})
    assert render(rollout.messages) == [
        'user: "q"', 'assistant: "main"', 'system: "overloaded"', 'unreadable: "torn"', 'tool ls: "r"',
        'system: "so far"', r'user: "Ran `ls`\nf"', 'assistant: "end"',
    ]  # fmt: skip
    assert [render(history) for history in rollout.histories] == [['assistant: "aside"']]


SUB_AGENTS: list[Any] = [
    {"events": [asked("q", isSidechain=True), said("a", isSidechain=True)]},
    {"events": [{"type": "summary", "summary": "x", "leafUuid": "u"}]},
    {"events": [item("session_meta", id="x", source={"subagent": "review"}), spoken("user", "q")]},
    {"events": [{"sessionId": "s", "projectHash": "h", "kind": "subagent"}]},
]


def test_sub_agents(subtests: pytest.Subtests) -> None:
    """A sub-agent's own file is no rollout: among others it is left out, alone it is refused."""
    for record in SUB_AGENTS:
        with subtests.test(record=str(record)):
            assert not any(form.matches(record) for form in formats())
            with pytest.raises(UsageError, match="no session of the agent itself"):
                detect("in", [Line(1, 0, json.dumps(record).encode())], InputSettings("in"))


def test_cut_off(subtests: pytest.Subtests) -> None:
    """A session that ends anywhere is shown as far as it goes, or refused in words."""
    for name in NAMES:
        with subtests.test(name=str(name)):
            shown = 0
            for cut in range(12):
                record = parse(raws(SAMPLES / f"{name}.jsonl")[0])
                member = "events" if "events" in record else "messages"
                record[member] = record[member][:cut]
                with suppress(UnreadableError):
                    (rollout,) = FORMS[name.replace("_", "-")].rollouts(record)
                    assert any(m["role"] == "assistant" for m in rollout.messages)
                    shown += 1
            assert shown


def test_several_in_a_file(subtests: pytest.Subtests) -> None:
    """Sessions that stand in one file one after another are no rollout: they may be of two tasks."""
    for name in NAMES[:3] + NAMES[4:]:
        with subtests.test(name=str(name)):
            records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
            events = [event for record in records for event in record.get("events", ())]
            with pytest.raises(UnreadableError, match="holds several sessions"):
                FORMS[name.replace("_", "-")].rollouts({"events": events})


def test_gemini_without_ids() -> None:
    """Turns of a chat of Gemini CLI that have no id take no other's place."""
    head = {"sessionId": "s", "projectHash": "h"}
    events = [
        {"type": kind, "content": text} for kind, text in (("user", "q"), ("gemini", "a"), ("gemini", "b"))
    ]
    for listed in ([head, *events], [head, {"$set": {"messages": events}}]):
        session = Session()
        read_gemini({"events": listed}, session)
        assert [turn["content"] for turn in session.turns] == ["q", "a", "b"]
