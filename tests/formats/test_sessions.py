"""Sessions of coding agents as rollouts."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import first_records, parse
from ruler_cli.files.values import words
from ruler_cli.formats.events import KINDS, open_records
from ruler_cli.formats.reader import detect
from ruler_cli.formats.table import FORMATS, fits, rollouts_of
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Rollout
from tests.conftest import ROOT
from tests.formats.changes import raws
from tests.prompting.test_coverage import coverage_of
from tests.values import line, render

SAMPLES = ROOT / "samples/formats"
NAMES = words(
    "claude_code codex copilot_cli cursor gemini_cli kimi_code opencode pi qwen_code"
)
FORMS = {form.family: form for form in FORMATS}


def one(family: str, record: dict[str, Any]) -> Rollout:
    """Return the rollout of a record of a format."""
    assert fits(FORMS[family], record)
    (rollout,) = rollouts_of(FORMS[family], record)
    return rollout


def rendered(family: str, *events: Any) -> list[str]:
    """Return the lines that a judge reads of a session's events."""
    return render(one(family, {"events": list(events)}).messages)


@pytest.mark.parametrize("name", NAMES)
def test_file_for_each_session(name: str, tmp_path: Path) -> None:
    """Sessions in separate files have the groups and messages of their records in one file."""
    records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
    for number, record in enumerate(records):
        path = tmp_path / f"{number}.json"
        events = record.get("events")
        indent = None if events else 1
        texts = [json.dumps(part, indent=indent) for part in events or [record]]
        path.write_text("\n".join(texts))
    with ExitStack() as stack:
        result = list(open_records(str(tmp_path), stack).records())
        reader = detect("in", first_records("in", result), InputSettings("in"))
        read = [reader.read(part)[0] for part in result]
    alike = [reader.read(line(record))[0] for record in records]
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
                messages = one(name.replace("_", "-"), parse(raw)).messages
                first = [m["role"] for m in messages].index("assistant")
                for noise in ("2026", "/tmp/run", "reminder"):
                    assert noise not in str(messages[:first])


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
                    (rollout,) = rollouts_of(
                        FORMS[name.replace("_", "-")], record
                    )
                    assert any(
                        m["role"] == "assistant" for m in rollout.messages
                    )
                    rendered += 1
            assert rendered


def test_several_in_a_file(subtests: pytest.Subtests) -> None:
    """Several sessions in one file are unreadable, because their tasks may differ."""
    for name in NAMES:
        if name == "opencode":
            continue
        with subtests.test(name=str(name)):
            records = [parse(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]
            events = [
                event
                for record in records
                for event in record.get("events", ())
            ]
            with pytest.raises(UnreadableError, match="holds several sessions"):
                rollouts_of(FORMS[name.replace("_", "-")], {"events": events})


def test_repeated_thought() -> None:
    """A thought that the agent has twice is shown twice, unless the second is a copy of a turn's."""
    thought = {"type": "reasoning", "summary": [{"text": "Again."}]}
    call = {"type": "function_call", "name": "sh", "call_id": "c"}
    task = {"type": "message", "role": "user", "content": "Fix it."}
    items = [task, thought, call, thought]
    events = [{"type": "response_item", "payload": item} for item in items]
    assert str(rendered("codex", *events)).count("Again.") == 2
    told = (
        ("user.message", {"content": "Fix it."}),
        ("assistant.message", {"content": "Done.", "reasoningText": "Again."}),
        ("assistant.reasoning", {"content": "Again."}),
    )
    copied = [{"type": kind, "data": data} for kind, data in told]
    assert str(rendered("copilot-cli", *copied)).count("Again.") == 1


SESSIONS = [*(ROOT / "tests/data/sessions").iterdir()]
HELLO = [
    'user: "Say hello."',
    'assistant: "I look."',
    'call sh: {"cmd":"echo hi"}',
    'tool sh: "hi"',
    'assistant: "Done."',
]


def read_file(path: Path) -> tuple[str, Rollout]:
    """Return the format and the rollout of a file."""
    with ExitStack() as stack:
        lines = list(open_records(str(path), stack).records())
        reader = detect("in", first_records("in", lines), InputSettings("in"))
        ((record,),) = map(reader.read, lines)
        return reader.format.family, record.rollouts[0]


def test_one_run_of_each_agent(subtests: pytest.Subtests) -> None:
    """One run is one rollout, whichever agent wrote it, each turn once and nothing of the harness.

    What was printed may be without the prompt. The files have the shape of each agent's own output, of the version
    that `events.toml` and the page on formats name.
    """
    page = (ROOT / "docs/formats.md").read_text()
    read = set()
    for path in SESSIONS:
        with subtests.test(path=path.name):
            family, rollout = read_file(path)
            text = "\n".join(render(rollout.messages))
            text = text.replace(f"{RAN}: {ECHO}", f"sh: {COMMAND}")
            lines = text.replace(RAN, "sh").split("\n")
            wanted = HELLO[path.stem in UNPROMPTED :]
            assert (lines, rollout.unknown) == (wanted, ())
            assert KINDS[family].tried in page
            read.add(family.replace("-", "_"))
    assert read == {*NAMES}


# what Codex prints of a call, and of its arguments; and what its session has
RAN, ECHO, COMMAND = "command_execution", '"echo hi"', '{"cmd":"echo hi"}'
UNPROMPTED = ("claude_code_printed", "codex_printed", "opencode_printed")


def test_turns_that_were_taken_back(subtests: pytest.Subtests) -> None:
    """Turns that the user took back are another part of the rollout, whichever agent wrote it."""
    for path in (ROOT / "tests/data/sessions_taken_back").iterdir():
        with subtests.test(path=path.name):
            _, rollout = read_file(path)
            parts = [rollout.messages, *rollout.histories]
            lines = [" ".join(render(part)) for part in parts]
            kept = 'user: "Fix." assistant: "A" user: "Thus." assistant: "C"'
            assert lines == [kept, 'user: "No." assistant: "B"']


def test_unknown_events() -> None:
    """An event of an unknown type is shown as JSON if it holds anything; a session of several is refused."""
    path = ROOT / "tests/data/sessions/claude_code.jsonl"
    events = [*map(json.loads, path.read_text().splitlines())]
    strange = {"type": "tool-run", "run": {"command": "x", "output": "failed"}}
    known = [{**events[-2], "uuid": f"more {number}"} for number in range(9)]
    empty = {"type": "of-a-later-version", "level": 3, "tokens": {"output": 9}}
    record = {"events": [*events, *known, strange, empty]}
    rollout = one("claude-code", record)
    assert rollout.unknown == ("tool-run",)
    shown = json.dumps('{"run":{"command":"x","output":"failed"}}')
    assert render(rollout.messages)[-1] == f"tool-run: {shown}"
    coverage = coverage_of(record)
    assert (
        "1 events, which are shown as JSON: tool-run" in coverage.warnings()[0]
    )
    with pytest.raises(
        UnreadableError, match=r"version 2\.1\.197 .*`tool-run`"
    ):
        rendered("claude-code", *events, strange)
    long = {**strange, "type": "x" * 10_000}
    coverage = coverage_of({"events": [*events, *known, long]})
    assert len(coverage.warnings()[0]) < 300
    with pytest.raises(UnreadableError) as refused:
        rendered("claude-code", *events, long)
    assert len(refused.value.reason) < 500
