"""Files of events as records: each file is one rollout."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.containers.lines import JsonLines
from ruler_cli.files.output import Output
from ruler_cli.formats.events import (
    AssembledRollouts,
    assemble_rollouts,
    may_be_event,
    open_records,
)
from ruler_cli.messages.dialects import normalize_message
from ruler_cli.types import Line
from tests.files.test_document import JSON
from tests.files.test_open import fed
from tests.values import render

SAMPLES = Path(__file__).parent.parent.parent / "samples"
USER = '{"role": "user",  "content": "Sort \\u00e9 1.0"}'
ASSISTANT = (
    '{"content": "done", "role": "assistant", "n": 12345678901234567890123}'
)
MESSAGES = f"[{USER}, {ASSISTANT}]"
SESSION = [
    '{"type": "user", "sessionId": "s", "uuid": "a", "message": {"role": "user", "content": "Do it"}}',
    '{"type": "of-a-later-version", "n": 1.0}',
    '{"type": "assistant", "sessionId": "s", "parentUuid": "a", "uuid": "b", "message": {"content": []}}',
]
LEFT_ALONE = (
    '{"id": 1, "timestamp": "t", "instructions": "i", "output": "o"}',
    '{"type": "chat", "sessionId": "s", "input": "q"}',
    '{"messages": [%s]}' % USER, '{"role": "user", "content": "q", "prompt": "p"}', "[]\n[]", "[1]\n", "",  # noqa: UP031
    "[[]]", '{"role": "user"}', "{}", '{"samples": [%s], "eval": 1}' % USER, "[[%s], 1]" % MESSAGES,  # noqa: UP031
    '{"eval": 1, "samples": [%s]}' % USER, '{"traceId": "t"}', '{"type": "user"}',  # noqa: UP031
    '{"type": ["a", "b"], "timestamp": 1, "input": "q"}',
)  # fmt: skip
SPANS = [
    f'{{"trace_id": "t{trace}", "span_id": "{n}"}}'
    for n, trace in enumerate((2, 1, 2, 3, 1))
]


def records(path: Path, text: str | bytes, *more: str) -> list[Line]:
    """Return the records of a file; each pass gives the same."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with ExitStack() as stack:
        container = open_records(str(path), stack, *more)
        every = list(container.records())
        assert list(container.records()) == every
        assert [container.where(line.number) for line in every] == [
            line.where for line in every
        ]
    return every


def record_texts(path: Path, text: str | bytes, *more: str) -> list[str]:
    """Return the records of a file as text."""
    return [line.raw.decode() for line in records(path, text, *more)]


def test_conversation_file(tmp_path: Path) -> None:
    """A file of messages, list or lines, compressed or not, is one rollout, of the messages' own bytes."""
    pretty = json.dumps(json.loads(MESSAGES), indent=1)
    for text in (
        MESSAGES,
        f"{USER}\n{ASSISTANT}\n",
        pretty,
        f"\n{USER}\n\n{ASSISTANT}",
    ):
        for packed in (text.encode(), gzip.compress(text.encode())):
            (raw,) = record_texts(tmp_path / "run.jsonl", packed)
            assert json.loads(raw) == {
                "file": "run.jsonl",
                "messages": json.loads(MESSAGES),
            }
            assert text == pretty or (USER in raw and ASSISTANT in raw)


def test_lines_that_are_lists(tmp_path: Path) -> None:
    """A line that is a list of messages is a rollout; a line that cannot be read stays as it is."""
    torn = MESSAGES[:-9]
    every = records(tmp_path / "in", f"{MESSAGES}\n\n{torn}\n{MESSAGES}\n")
    assert [line.raw.decode() for line in every] == [
        f'{{"messages": {MESSAGES}}}',
        torn,
        every[0].raw.decode(),
    ]
    assert [line.where for line in every] == ["line 1", "line 3", "line 4"]
    assert (
        record_texts(tmp_path / "in", f"[{MESSAGES}, {MESSAGES}]")
        == [f'{{"messages": {MESSAGES}}}'] * 2
    )
    sharegpt = (
        '[{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]'
    )
    assert (
        record_texts(tmp_path / "in", f"{sharegpt}\n{sharegpt}\n")
        == [f'{{"conversations": {sharegpt}}}'] * 2
    )


def test_session(tmp_path: Path) -> None:
    """A session is one record of its events, including events of unknown kinds."""
    (raw,) = record_texts(tmp_path / "s.jsonl", "\n".join(SESSION))
    assert raw == '{"file": "s.jsonl", "events": [%s]}' % ", ".join(SESSION)  # noqa: UP031 - braces


ROLES = ("user", "assistant")


def test_torn_line(tmp_path: Path) -> None:
    """A line that is not an object becomes text: it is not lost, ends no record, and adds one event."""
    for bad in (
        SESSION[0][:20],
        "null",
        '"}]"',
        "]}",
        "[1, 2]",
        '{"a": 1}, {"b": 2}',
        "\udc80",
    ):
        text = "\n".join([*SESSION, bad]).encode("utf-8", "surrogateescape")
        (raw,) = record_texts(tmp_path / "s.jsonl", text)
        assert json.loads(raw)["events"] == [
            *map(json.loads, SESSION),
            bad.replace("\udc80", "\ufffd"),
        ]
    (raw,) = record_texts(
        tmp_path / "m.jsonl", f"{USER}\n{ASSISTANT}\n{USER[:9]}"
    )
    assert json.loads(raw)["messages"][2] == {
        "role": "unreadable",
        "content": USER[:9],
    }


def test_scattered_traces(tmp_path: Path) -> None:
    """All spans of a trace are one record, anywhere in the file, in the order of the first spans."""
    for text in ("\n".join(SPANS), f"[{', '.join(SPANS)}]"):
        for packed in (text.encode(), gzip.compress(text.encode())):
            every = list(map(json.loads, record_texts(tmp_path / "t", packed)))
            assert [(r["trace_id"], [s["span_id"] for s in r["spans"]]) for r in every] == [
                ("t2", ["0", "2"]), ("t1", ["1", "4"]), ("t3", ["3"]),
            ]  # fmt: skip
            assert {r["file"] for r in every} == {"t"}


def test_torn_span(tmp_path: Path) -> None:
    """A span without a trace is a separate record, so that it is reported."""
    assert (
        record_texts(
            tmp_path / "t", "\n".join([*SPANS, '{"trace_id": "t1", "sp'])
        )[-1]
        == '{"trace_id": "t1", "sp'
    )


def test_table_of_messages(tmp_path: Path) -> None:
    """Messages that name their conversations are not one conversation, even if one message names none."""
    for event in (
        {"role": "user", "content": "q"},
        {"from": "human", "value": "q"},
        {"type": "human", "data": {"content": "q"}},
        {"type": "TextMessage", "source": "user", "content": "q"},
    ):
        rows = [
            json.dumps({"conversation_id": i % 2, "n": i, **event})
            for i in range(4)
        ]
        every = list(
            map(
                json.loads,
                record_texts(
                    tmp_path / "t", "\n".join([json.dumps(event), *rows])
                ),
            )
        )
        assert every[0] == event
        conversations = [
            (r["conversation_id"], r.get("messages") or r["conversations"])
            for r in every[1:]
        ]
        assert [(key, [m["n"] for m in ms]) for key, ms in conversations] == [
            ("0", [0, 2]),
            ("1", [1, 3]),
        ]


def test_pipe(tmp_path: Path) -> None:
    """Events that come through a pipe are the same records, but without a file name."""
    texts = (
        "\n".join(SESSION),
        f"{USER}\n{ASSISTANT}\n",
        MESSAGES,
        f"{MESSAGES}\n{MESSAGES}",
    )
    for number, text in enumerate(texts):
        pipe = tmp_path / f"pipe{number}"
        fed(pipe, text.encode())
        with ExitStack() as stack:
            container = open_records(str(pipe), stack, "")
            assert [
                line.raw.decode() for line in container.records()
            ] == record_texts(tmp_path / "file", text, "")


def test_records_are_no_events(tmp_path: Path) -> None:
    """No record of a known format is an event, and a container without events stays unchanged."""
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        with ExitStack() as stack:
            container = open_records(str(path), stack)
            assert isinstance(container, JsonLines)
            assert not any(
                may_be_event(line.raw) for line in container.records()
            ), path.stem
    for text in LEFT_ALONE:
        (tmp_path / "in").write_text(text)
        with ExitStack() as stack:
            assert not isinstance(
                open_records(str(tmp_path / "in"), stack), AssembledRollouts
            ), text


class Given(Container):
    """Lines that are given."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__("given")
        self._lines = lines

    def records(self) -> Iterator[Line]:
        """Yield every line."""
        for number, raw in enumerate(self._lines, 1):
            yield self.line(number, 0, raw)


@given(
    st.lists(
        st.binary(max_size=9) | JSON.map(lambda v: json.dumps(v).encode()),
        max_size=5,
    ),
    st.booleans(),
)
def test_any_lines(lines: list[bytes], message: bool) -> None:
    """A file of events is one JSON object with an item for each line that is not blank."""
    head = (USER if message else SESSION[0]).encode()
    whole = b"\n".join([*([head] * 20), *lines]).split(b"\n")
    present = [line for line in whole if line and not line.isspace()]
    with ExitStack() as stack:
        (record,) = assemble_rollouts(Given(present), "f", stack).records()
    assert len(
        json.loads(record.raw)["messages" if message else "events"]
    ) == len(present)


def test_directory(tmp_path: Path) -> None:
    """Each file of events in a directory is a rollout whose record names the file; others are unchanged."""
    (tmp_path / "in/task").mkdir(parents=True)
    (tmp_path / "in/task/1.json").write_text(MESSAGES)
    (tmp_path / "in/task/2.jsonl").write_text(f"{USER}\n{ASSISTANT}")
    (tmp_path / "in/3.jsonl").write_text('{"messages": []}\n')
    with ExitStack() as stack:
        every = list(open_records(str(tmp_path / "in"), stack).records())
    files = [
        (r.get("file"), r.get("folder"))
        for r in (json.loads(line.raw) for line in every)
    ]
    assert files == [
        (None, None),
        ("task/1.json", "task"),
        ("task/2.jsonl", "task"),
    ]
    assert [line.where for line in every] == [
        "3.jsonl line 1", "task/1.json rollout 1", "task/2.jsonl rollout 1",
    ]  # fmt: skip


def test_events_in_place(tmp_path: Path) -> None:
    """Rollouts never take the place of the events that they are made of."""
    (tmp_path / "in.jsonl").write_text("\n".join(SESSION))
    with (
        ExitStack() as stack,
        Output(str(tmp_path / "in.jsonl"), force=True) as out,
    ):
        container = open_records(str(tmp_path / "in.jsonl"), stack)
        with pytest.raises(
            UsageError, match=r"is INPUT, .* give another OUTPUT"
        ):
            out.write_as(container)


FRAMEWORKS: tuple[tuple[str, Any, Any], ...] = (
    (
        "events",
        {
            "id": 0,
            "source": "user",
            "message": "q",
            "action": "message",
            "args": {"content": "q"},
        },
        {
            "id": 1,
            "source": "agent",
            "cause": 0,
            "observation": "run",
            "content": "a",
        },
    ),
    (
        "messages",
        {"source": "user", "type": "TextMessage", "content": "q"},
        {"source": "guide", "type": "ToolCallRequestEvent", "content": []},
    ),
    (
        "messages",
        {"type": "human", "content": "q"},
        {"type": "ai", "data": {"content": "a"}},
    ),
    (
        "messages",
        {"role": "user", "content": "q"},
        {"type": "function_call", "name": "f", "call_id": "1"},
    ),
    (
        "messages",
        {"message": {"role": "user", "content": "q"}, "message_id": 0},
        {"message": {"role": "assistant", "content": "a"}, "message_id": 1},
    ),
    (
        "messages",
        {"message": {"content": "q"}, "role_at_backend": "user"},
        {"message": {"content": "a"}, "role_at_backend": "assistant"},
    ),
)
"""The field that contains them, and two events, of OpenHands, AutoGen, LangChain, Responses, Strands and CAMEL."""


def test_events_of_frameworks(tmp_path: Path) -> None:
    """Events of a framework are one rollout, as a list and as lines."""
    for member, first, second in FRAMEWORKS:
        for text in (
            json.dumps([first, second]),
            f"{json.dumps(first)}\n{json.dumps(second)}\n",
        ):
            (line,) = records(tmp_path / "run.json", text)
            assert json.loads(line.raw)[member] == [first, second]


def test_streamed_call_of_langchain() -> None:
    """A call that LangChain streamed from Anthropic has the arguments of `tool_calls`, not of its part."""
    part = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    call = {"id": "c", "name": "look", "args": {"at": 1}}
    message = {"type": "ai", "content": [part], "tool_calls": [call]}
    assert render(normalize_message(message)) == ['call look: {"at":1}']
    assert render(normalize_message({**message, "tool_calls": []})) == [
        "call look: {}"
    ]
