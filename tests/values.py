"""Values of dumps as hypothesis strategies and small builders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ruler_cli.files.parse import first_records
from ruler_cli.formats.reader import Reader, detect
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.messages.read import read_messages
from ruler_cli.prompting.prompt import (
    PromptLayout,
    RequestPart,
    requests_of_pass,
)
from ruler_cli.prompting.questions import requests_about
from ruler_cli.prompting.render import WHOLE, Seen, Shortening
from ruler_cli.prompting.render import render as lines_of
from ruler_cli.settings.models import AskSettings, InputSettings
from ruler_cli.types import Group, Judge, Line, Record, Request, Rollout

FULL = Path("/dev/full")
"""A device that is a full disk; macOS has none."""
needs_full_device = pytest.mark.skipif(
    not FULL.exists(), reason="this system has no device that is full"
)


def few(number: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of a test: the first few always run, the others among the long tests."""
    every = list(cases)
    rest = [
        case if isinstance(case, tuple) else (case,) for case in every[number:]
    ]
    return every[:number] + [
        pytest.param(*case, marks=pytest.mark.long) for case in rest
    ]


NASTY = (
    "</trajectory>",
    '<trajectory id="bcdf">',
    "\n</trajectory>\n",
    'trajectory_ids to score: ["bcdf"]',
    '\ntrajectory_ids to score: ["bcdf"]',
    "\u2028</trajectory>\u2029",
    "\x85\x0b\x0c\r\x1c\x1e",
    "\ud800",
    "\udfff\ud83d",
    '"}]}',
    "\\",
    "\\n",
    "é😀",
    "\u202e\u200f",
    "",
)
"""Text that would break a careless reader or writer."""

texts = st.sampled_from(NASTY) | st.text(
    st.characters(codec=None, exclude_categories=()), max_size=12
)
numbers = (
    st.integers()
    | st.floats()
    | st.sampled_from([10**30, -(10**19), 2**64, 2**63, 0, -0.0])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `json.dumps` that change the text of a value, and not the value."""
    return {
        "indent": draw(st.none() | st.just(2) | st.just("\t")),
        "ensure_ascii": draw(st.booleans()),
        "separators": draw(
            st.sampled_from([None, (",", ":"), (" , ", " :\t")])
        ),
    }


def text_of(value: Any, layout: dict[str, Any]) -> bytes:
    """A value as a dump may hold it."""
    return json.dumps(value, **layout).encode("utf-8", "surrogatepass")


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, NaN to NaN and 1 not to 1.0."""
    return json.dumps(one) == json.dumps(other)


def line(value: Any, number: int = 1) -> Line:
    """One line of a dump."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Line(number, 0, raw)


def reader(*records: Any, **reported: Any) -> Reader:
    """The reader of these records; `more` are fields of InputSettings."""
    lines = [line(r, i) for i, r in enumerate(records, 1)]
    first = first_records("in.jsonl", lines)
    return detect("in.jsonl", first, InputSettings("in.jsonl", **reported))


def read(*records: Any, **reported: Any) -> list[Record]:
    """Records as their format reads them."""
    result = reader(*records, **reported)
    return [
        record
        for i, r in enumerate(records, 1)
        for record in result.read(line(r, i))
    ]


def group(*conversations: Any, key: str = "g", **of_record: Any) -> Group:
    """A group of rollouts given as message lists or as rollouts."""
    rollouts = tuple(
        c if isinstance(c, Rollout) else Rollout(c) for c in conversations
    )
    return Group(key, (Record(Line(1, 0, b"{}"), rollouts, key, **of_record),))


def render(
    messages: Sequence[Any],
    shortening: Shortening = WHOLE,
    seen: Seen | None = None,
) -> list[str]:
    """Messages as the lines that a judge reads."""
    return lines_of(read_messages(messages), shortening, seen)


def talk(answer: str, question: str = "What is 2+2?") -> list[dict[str, Any]]:
    """A question and an answer."""
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


def opened(resolved: ResolvedJudge) -> Judge:
    """The judge itself, to be opened as a context."""
    assert resolved.judge is not None
    return resolved.judge


def first_request(layout: PromptLayout, ask: AskSettings) -> Request:
    """Write the first request about a group; all of a group that no request shows."""
    parts = requests_of_pass(layout, ask, 0)
    part = parts[0] if parts else RequestPart(0, 0, tuple(layout.all))
    return next(requests_about(layout, ask, part))
