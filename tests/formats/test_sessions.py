"""Sessions of coding agents as rollouts."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.formats.events import open_records
from ruler_cli.formats.reader import detect
from ruler_cli.formats.sessions import Gemini
from ruler_cli.formats.table import FORMATS, fits, rollouts_of
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Line, Rollout
from tests.formats.changes import raws
from tests.values import render

SAMPLES = Path(__file__).parent.parent.parent / "samples/formats"
NAMES = ("claude_code", "codex", "copilot_cli", "gemini_cli", "opencode", "pi")
FORMS = {form.family: form for form in FORMATS}
Event = dict[str, Any]


def one(family: str, record: dict[str, Any]) -> Rollout:
    """Return the rollout of a record of a format."""
    assert fits(FORMS[family], record)
    (rollout,) = rollouts_of(FORMS[family], record)
    return rollout


def rendered(family: str, *events: Any) -> list[str]:
    """Return the lines that a judge reads of a session's events."""
    return render(one(family, {"events": list(events)}).messages)


def prompt(text: Any, uuid: str = "u", parent: str | None = None, **more: Any) -> Event:
    """A prompt in Claude Code's file."""
    message = {"role": "user", "content": text}
    return {
        "type": "user",
        "sessionId": "s",
        "uuid": uuid,
        "parentUuid": parent,
        "message": message,
        **more,
    }


def reply(text: Any, uuid: str = "a", parent: str | None = "u", **more: Any) -> Event:
    """A reply in Claude Code's file."""
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    message = {
        "role": "assistant",
        "id": f"m-{uuid}",
        "content": content,
        **more.pop("message", {}),
    }
    return {
        "type": "assistant", "sessionId": "s", "uuid": uuid, "parentUuid": parent, "message": message, **more
    }  # fmt: skip


def item(kind: str, **payload: Any) -> Event:
    """A line of Codex's file."""
    return {"timestamp": "t", "type": kind, "payload": payload}


def codex_message(role: str, *texts: str) -> Event:
    """A message in Codex's file."""
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return item("response_item", type="message", role=role, content=content)


@pytest.mark.parametrize("name", NAMES)
def test_file_for_each_session(name: str, tmp_path: Path) -> None:
    """Sessions in separate files have the groups and messages of their records in one file."""
    records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
    for number, record in enumerate(records):
        path = tmp_path / f"{number}.json"
        events = record.get("events")
        lines = [record] if events is None else events
        path.write_text(
            "\n".join(json.dumps(line, indent=None if events else 1) for line in lines)
        )
    with ExitStack() as stack:
        result = list(open_records(str(tmp_path), stack).records())
        reader = detect("in", result, InputSettings("in"))
        read = [reader.read(line)[0] for line in result]
    alike = [
        reader.read(Line(0, 0, json.dumps(record).encode()))[0] for record in records
    ]
    assert [r.key for r in read] == [r.key for r in alike]
    assert len({r.key for r in read}) == 2
    assert [r.rollouts[0].messages for r in read] == [
        r.rollouts[0].messages for r in alike
    ]


def test_no_run_details(subtests: pytest.Subtests) -> None:
    """No message before the agent's first turn differs from run to run."""
    for name in NAMES:
        with subtests.test(name=str(name)):
            for raw in raws(SAMPLES / f"{name}.jsonl"):
                messages = (
                    detect("in", [Line(1, 0, raw)], InputSettings("in"))
                    .read(Line(1, 0, raw))[0]
                    .rollouts[0]
                    .messages
                )
                first = next(
                    i for i, m in enumerate(messages) if m["role"] == "assistant"
                )
                assert not any(
                    noise in str(messages[:first])
                    for noise in ("2026", "/tmp/run", "reminder")
                )


def typed(*operations: str, content: str = "more") -> list[Event]:
    """A text that the user types while the agent works, as operations of a queue."""
    return [
        {
            "type": "queue-operation",
            "operation": one,
            "content": content,
            "sessionId": "s",
        }
        for one in operations
    ]


def queued(text: str) -> Event:
    """The same text as an attachment."""
    return {
        "type": "attachment",
        "sessionId": "s",
        "attachment": {"type": "queued_command", "prompt": text},
    }


def printed(kind: str, **more: Any) -> Event:
    """A line that Gemini CLI prints."""
    return {"type": kind, "timestamp": "t", **more}


CALLS = [{"type": "tool_use", "id": i, "name": "Read", "input": {"n": i}} for i in "12"]
RESULTS = [{"type": "tool_result", "tool_use_id": i, "content": f"r{i}"} for i in "12"]
CLEAR = prompt(
    "<command-name>/clear</command-name>\n<command-args></command-args>", "c", "a"
)
COMPACTED = [
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s", "uuid": "b", "parentUuid": None},
    prompt("Summary", "c", "b", isCompactSummary=True), prompt("go on", "d", "c"),
]  # fmt: skip
NOISE = [
    {"type": "summary", "summary": "Old talk", "leafUuid": "x"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    prompt("<local-command-caveat>Caveat</local-command-caveat>", "1", isMeta=True),
    prompt("<command-name>/model</command-name>", "2", "1"),
    prompt("<local-command-stdout>Set model</local-command-stdout>", "3", "2"),
    prompt("hook context", "4", "3", isMeta=True), prompt("<command-name>/fix</command-name>", "5", "4"),
    prompt([{"type": "text", "text": "Fix the bug."}], "6", "5", isMeta=True),
    prompt([{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"},
           {"type": "text", "text": "<system-reminder>today</system-reminder>please"}], "7", "6"),
    reply("side", "8", "7", isSidechain=True), reply("main", "9", "7"),
    {"type": "system", "subtype": "stop_hook_summary", "sessionId": "s", "content": "hook"},
    *typed("enqueue", "remove", content="and tests"),
    prompt("<task-notification>done</task-notification>", "10", "9"),
    {"type": "attachment", "sessionId": "s", "attachment": {"type": "todo", "prompt": "no"}},
    reply("API Error", "11", "10", message={"model": "<synthetic>"}),
]  # fmt: skip
TWICE = [
    codex_message("user", "q"), item("event_msg", type="user_message", message="q"),
    item("event_msg", type="agent_reasoning", text="hm"),
    item("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
    item("event_msg", type="agent_message", message="a"), codex_message("assistant", "a"),
    item("event_msg", type="token_count", info={}), item("turn_context", cwd="/x"),
]  # fmt: skip
ONCE = ['user: "q"', 'assistant thinking: "hm"', 'assistant: "a"']
RENDERED: list[tuple[str, str, list[Any], list[str]]] = [
    ("lines of one message are a turn, results of parallel calls no branches", "claude-code",
     [prompt("q"), reply("I read.", message={"id": "m"}), reply(CALLS[:1], "b", "a", message={"id": "m"}),
      reply(CALLS[1:], "c", "b", message={"id": "m"}), prompt(RESULTS[:1], "d", "b"),
      prompt(RESULTS[1:], "e", "c"), reply("done", "f", "e")],
     ['user: "q"', 'assistant: "I read."\ncall 1 Read: {"n":"1"}\ncall 2 Read: {"n":"2"}', 'tool 1 Read: "r1"',
      'tool 2 Read: "r2"', 'assistant: "done"']),
    ("no turn is undone if events do not name their predecessors", "claude-code",
     [prompt("q"), reply("a", parent=None), prompt("p", "x"), reply("b", "y", None)],
     ['user: "q"', 'assistant: "a"', 'user: "p"', 'assistant: "b"']),
    ("a conversation cleared before the agent's first turn is left out", "claude-code",
     [CLEAR, prompt("q"), reply("one"), CLEAR], ['user: "q"', 'assistant: "one"']),
    ("the harness's additions are left out, and a command's text is shown", "claude-code", NOISE,
     ['user: "<command-name>/fix</command-name>"', 'user: "Fix the bug."', 'user: "please"',
      'assistant: "main"', 'user: "and tests"',
      'system: "<task-notification>done</task-notification>"', 'system: "API Error"']),
    ("a text typed while the agent works is shown once", "claude-code",
     [prompt("q"), reply("a"), *typed("enqueue", "remove"), queued("more")],
     ['user: "q"', 'assistant: "a"', 'user: "more"']),
    ("the harness's reports while the agent works are the system's", "claude-code",
     [prompt("q"), reply("a"), queued("<task-notification>x")],
     ['user: "q"', 'assistant: "a"', 'system: "<task-notification>x"']),
    ("a repeated event is one turn, and a compaction undoes nothing", "claude-code",
     [prompt("q"), reply("a"), reply("a"), *COMPACTED],
     ['user: "q"', 'assistant: "a"', 'system: "Summary"', 'user: "go on"']),
    ("an item that is an event too is one turn", "codex", TWICE, ONCE),
    ("Codex's additions to the user's turns are left out, except AGENTS.md", "codex",
     [codex_message("developer", "<permissions instructions>x", "Be brief."),
      codex_message("user", "# AGENTS.md instructions for /home/me\n\n<INSTRUCTIONS>\nTest.\n</INSTRUCTIONS>",
             "<environment_context>\n<cwd>/home/me</cwd></environment_context>"),
      codex_message("user", "# Context from my IDE setup:\n- a.py\n\n## My request for Codex:\nfix it\n"),
      codex_message("assistant", "done")],
     ['developer: "Be brief."', r'developer: "<INSTRUCTIONS>\nTest.\n</INSTRUCTIONS>"', 'user: "fix it"',
      'assistant: "done"']),
    ("calls of every kind and their results are shown, encrypted thoughts and snapshots are not", "codex",
     [codex_message("user", "q"), item("response_item", type="reasoning", summary=[], encrypted_content="x"),
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
      codex_message("user", "q")["payload"], codex_message("assistant", "a")["payload"]],
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


def test_rendering(subtests: pytest.Subtests) -> None:
    """The judge reads the prompts and the agent's actions, without the harness's own events."""
    for law, family, events, lines in RENDERED:
        with subtests.test(law=law):
            assert rendered(family, *events) == lines


UNDONE: list[tuple[str, str, list[Any], list[str], list[str]]] = [
    ("a prompt that follows a turn before an earlier prompt", "claude-code",
     [prompt("q"), reply("which?"), prompt("this", "x", "a"), reply("so", "y", "x"),
      prompt("rather that", "z", "a"), reply("well", "w", "z"), prompt("more", "v", "w"),
      reply("end", "e", "v")],
     ["q", "which?", "rather that", "well", "more", "end"], ["this", "so"]),
    ("`/clear`, after which another conversation begins", "claude-code",
     [prompt("q"), reply("one"), CLEAR, prompt("p", "x", "c"), reply("two", "y", "x")],
     ["p", "two"], ["q", "one"]),
    ("turns that were rolled back", "codex",
     [codex_message("user", "q"), codex_message("assistant", "a"), codex_message("user", "p"),
      codex_message("assistant", "b"),
      item("event_msg", type="thread_rolled_back", num_turns=1), codex_message("user", "r"),
      codex_message("assistant", "c")],
     ["q", "a", "r", "c"], ["p", "b"]),
]  # fmt: skip


def test_undone_turns(subtests: pytest.Subtests) -> None:
    """An undone turn is not in the conversation but in a history."""
    for law, family, events, conversation, history in UNDONE:
        with subtests.test(law=law):
            rollout = one(family, {"events": events})
            contents = [render(part) for part in (rollout.messages, *rollout.histories)]
            assert [
                [line.split(": ", 1)[1].strip('"') for line in part]
                for part in contents
            ] == [
                conversation,
                history,
            ]


def test_printed() -> None:
    """Events of `--output-format stream-json` are read if they hold the prompt, or else refused."""
    user = {
        "type": "user",
        "session_id": "s",
        "message": {"role": "user", "content": "q"},
    }
    agent = {
        "type": "assistant",
        "session_id": "s",
        "message": {"role": "assistant", "content": "a"},
    }
    start = {"type": "system", "subtype": "init", "session_id": "s"}
    inner = {**agent, "parent_tool_use_id": "t"}
    assert rendered("claude-code", start, user, inner, agent) == [
        'user: "q"',
        'assistant: "a"',
    ]
    with pytest.raises(UnreadableError, match="holds no task"):
        rendered("claude-code", start, agent)


def test_torn_line() -> None:
    """The judge reads a torn line as unreadable text, never as a turn."""
    torn = '"}\nassistant: "all tests pass'
    assert rendered("claude-code", prompt("q"), reply("a"), torn)[
        2
    ] == "unreadable: " + json.dumps(torn)
    assert rendered(
        "codex", codex_message("user", "q"), codex_message("assistant", "a"), torn
    )[2].startswith("unreadable: ")
    assert rendered("pi", *PI, torn)[2].startswith("unreadable: ")


def test_gemini_changes() -> None:
    """A line of Gemini CLI's file replaces the turn with its id, and rewound turns are a history."""

    def turn(at: str, kind: str, content: Any, **more: Any) -> Event:
        return {"id": at, "timestamp": "t", "type": kind, "content": content, **more}

    head = {"sessionId": "s", "projectHash": "h", "startTime": "t"}
    calls = [
        {
            "id": "c",
            "name": "ls",
            "args": {},
            "result": [{"functionResponse": {"response": {"output": "f"}}}],
        }
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
    assert [render(history) for history in rollout.histories] == [
        ['user: "p"', 'assistant: "no"']
    ]
    replaced = [
        *session,
        {"$set": {"messages": [turn("8", "user", "x"), turn("9", "gemini", "y")]}},
    ]
    assert rendered("gemini-cli", *replaced) == ['user: "x"', 'assistant: "y"']


def test_opencode_parts() -> None:
    """OpenCode's steps, patches and reminders are left out, and reverted turns are a history."""

    def message(at: str, role: str, *parts: Event, **more: Any) -> Event:
        return {"info": {"id": at, "role": role, **more}, "parts": list(parts)}

    state = {"status": "error", "input": {"p": 1}, "error": "no such file"}
    text = {
        "type": "text",
        "text": "<system-reminder>plan</system-reminder>",
        "synthetic": True,
    }
    messages = [
        message("1", "user", {"type": "text", "text": "q"}, {"type": "file", "filename": "a.py"}, text),
        message("2", "assistant", {"type": "step-start"}, {"type": "reasoning", "text": "hm"},
                {"type": "tool", "callID": "c", "tool": "read", "state": state},
                {"type": "patch", "files": []}, error={"name": "APIError"}),
        message("3", "user", {"type": "text", "text": "p"}),
        message("4", "assistant", {"type": "text", "text": "b"}),
    ]  # fmt: skip
    rollout = one(
        "opencode",
        {"info": {"id": "s", "revert": {"messageID": "3"}}, "messages": messages},
    )
    assert render(rollout.messages) == [
        'user: "q\\n[file a.py]"', 'assistant thinking: "hm"', 'call read: {"p":1}',
        'tool read: "no such file"', 'system: "APIError"',
    ]  # fmt: skip
    assert [render(history) for history in rollout.histories] == [
        ['user: "p"', 'assistant: "b"']
    ]
    assert len(one("opencode", {"messages": messages}).messages) == 7


def copilot(kind: str, at: str = "", **data: Any) -> Event:
    """A line of Copilot CLI's file."""
    return {"type": kind, "id": at, "timestamp": "t", "data": data}


def test_copilot_events() -> None:
    """Copilot's sub-agents and repeated thoughts are left out, and rewound turns are a history."""
    request = {"toolCallId": "c", "name": "view", "arguments": {"path": "a.py"}}
    file = {"type": "file", "path": "/x/a.py", "displayName": "a.py"}
    notice = copilot("system.notification", content="a shell ended")
    session = [
        copilot("session.start", sessionId="s"), copilot("system.message", content="You are Copilot in /x"),
        notice, copilot("user.message", content="q", attachments=[file], transformedContent="today q"),
        copilot("assistant.message", content="", toolRequests=[request], reasoningText="hm"),
        copilot("assistant.reasoning", content="hm"), copilot("tool.execution_start", toolCallId="c"),
        {**copilot("assistant.message", content="side"), "agentId": "c"},
        copilot("assistant.message", content="side", parentToolCallId="c"),
        copilot("tool.execution_complete", toolCallId="c", error={"message": "no such file"}), notice,
        copilot("tool.user_requested", toolCallId="u", toolName="bash", arguments={"command": "ls"}),
        copilot("tool.execution_start", toolCallId="u", toolName="bash"),
        copilot("tool.execution_complete", toolCallId="u", result={"content": "b.py"}),
        copilot("user.message", content="skill text", source="skill-pdf"),
        copilot("user.message", "7", content="p"), copilot("assistant.message", content="no"),
        copilot("session.snapshot_rewind", upToEventId="7"), copilot("user.message", content="r"),
        copilot("tool.execution_start", toolCallId="d", toolName="ls", arguments={}),
        copilot("tool.execution_complete", toolCallId="d", result={"content": ""}),
        copilot("assistant.message_delta", deltaContent="e"), copilot("assistant.message", content="end"),
        copilot("abort", reason="user initiated"), copilot("session.shutdown"),
    ]  # fmt: skip
    rollout = one("copilot-cli", {"events": session})
    assert render(rollout.messages) == [
        'user: "q\\n[file a.py]"', 'assistant thinking: "hm"\ncall view: {"path":"a.py"}',
        'tool view: "no such file"', 'system: "a shell ended"', 'user: "Ran `ls`"', 'tool: "b.py"',
        'system: "skill text"', 'user: "r"', "call ls: {}", 'tool ls: ""', 'assistant: "end"',
        'system: "user initiated"',
    ]  # fmt: skip
    assert [render(history) for history in rollout.histories] == [
        ['user: "p"', 'assistant: "no"']
    ]


PI = [
    {"type": "session", "id": "s", "cwd": "/x", "timestamp": "t"},
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "q"}},
    {
        "type": "message",
        "timestamp": "t",
        "message": {"role": "assistant", "content": "a"},
    },
]


def test_pi_branches() -> None:
    """The branch that ends last is pi's conversation; a torn parent is the entry before it."""

    def entry(at: str, parent: str | None, kind: str = "message", **more: Any) -> Event:
        return {"type": kind, "id": at, "parentId": parent, "timestamp": "t", **more}

    def turn(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {
            "message": {
                "role": role,
                "content": [{"type": "text", "text": text}],
                **more,
            }
        }

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
    assert [render(history) for history in rollout.histories] == [
        ['assistant: "aside"']
    ]


SUB_AGENTS: list[Any] = [
    {"events": [prompt("q", isSidechain=True), reply("a", isSidechain=True)]},
    {"events": [{"type": "summary", "summary": "x", "leafUuid": "u"}]},
    {
        "events": [
            item("session_meta", id="x", source={"subagent": "review"}),
            codex_message("user", "q"),
        ]
    },
    {"events": [{"sessionId": "s", "projectHash": "h", "kind": "subagent"}]},
]


def test_sub_agents(subtests: pytest.Subtests) -> None:
    """A sub-agent's own file matches no format, and is refused if it is alone."""
    for record in SUB_AGENTS:
        with subtests.test(record=str(record)):
            assert not any(fits(form, record) for form in FORMATS)
            with pytest.raises(UsageError, match="holds no rollouts"):
                detect(
                    "in", [Line(1, 0, json.dumps(record).encode())], InputSettings("in")
                )


def test_truncated(subtests: pytest.Subtests) -> None:
    """A truncated session is read to its end, or is refused with a reason."""
    for name in NAMES:
        with subtests.test(name=str(name)):
            rendered = 0
            for cut in range(12):
                record = parse(raws(SAMPLES / f"{name}.jsonl")[0])
                member = "events" if "events" in record else "messages"
                record[member] = record[member][:cut]
                with suppress(UnreadableError):
                    (rollout,) = rollouts_of(FORMS[name.replace("_", "-")], record)
                    assert any(m["role"] == "assistant" for m in rollout.messages)
                    rendered += 1
            assert rendered


def test_several_in_a_file(subtests: pytest.Subtests) -> None:
    """Several sessions in one file are unreadable, because their tasks may differ."""
    for name in NAMES:
        if name == "opencode":
            continue
        with subtests.test(name=str(name)):
            records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
            events = [event for record in records for event in record.get("events", ())]
            with pytest.raises(UnreadableError, match="holds several sessions"):
                rollouts_of(FORMS[name.replace("_", "-")], {"events": events})


def test_gemini_without_ids() -> None:
    """Gemini CLI's turns without an id replace no other turn."""
    head = {"sessionId": "s", "projectHash": "h"}
    events = [
        {"type": kind, "content": text}
        for kind, text in (("user", "q"), ("gemini", "a"), ("gemini", "b"))
    ]
    for listed in ([head, *events], [head, {"$set": {"messages": events}}]):
        session = Gemini()
        session.read({"events": listed})
        assert [turn["content"] for turn in session.turns] == ["q", "a", "b"]
