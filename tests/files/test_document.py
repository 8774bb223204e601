"""JSON documents as records."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers import Container
from ruler_cli.files.containers.document import Document, shape_of
from ruler_cli.files.containers.lines import JsonLines

A, B = b'{"a": 1}', b'{"b": [2, "]}"]}'
PRETTY = b'{\n "a": 1\n}'


def opened(path: Path, stack: ExitStack, text: bytes) -> Container:
    """Write a file and open it."""
    path.write_bytes(text)
    return open_container(str(path), stack)


SPACE = st.text(" \n\t\r", max_size=2).map(str.encode)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(['"', "\\", "]}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECT = st.builds(
    lambda value, indent, plain: json.dumps(
        value, indent=indent, ensure_ascii=plain
    ).encode(),
    st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A document of any kind, and its records."""
    records = draw(st.lists(OBJECT, max_size=4))
    parts: list[bytes] = []
    for record in records:
        parts += [b"," if parts else b"", draw(SPACE), record, draw(SPACE)]
    listed = b"[" + (b"".join(parts) or draw(SPACE)) + b"]"
    name = draw(
        st.sampled_from(
            ["", "trajectory_groups", "simulations", "samples", "results"]
        )
    )
    if name == "results":
        inner = (
            b'{"version": 3, "results":'
            + draw(SPACE)
            + listed
            + draw(SPACE)
            + b', "stats": {}}'
        )
        listed = (
            b'{"evalId": "x",\n"results":'
            + draw(SPACE)
            + inner
            + draw(SPACE)
            + b', "config": {}}'
        )
    elif name:
        head = (
            b'{\n"eval": '
            + draw(OBJECT)
            + draw(SPACE)
            + b', "%s":' % name.encode()
        )
        listed = (
            head
            + draw(SPACE)
            + listed
            + draw(SPACE)
            + b', "z": '
            + draw(OBJECT)
            + b"}"
        )
    return draw(SPACE) + listed + draw(SPACE), records


@given(documents())
def test_any_document(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[bytes, list[bytes]]
) -> None:
    """The records of a document are its own bytes, each at its offset."""
    text, records = made
    with ExitStack() as stack:
        container = opened(tmp_path_factory.mktemp("doc") / "d", stack, text)
        assert isinstance(container, Document)
        first = list(container.records())
        assert [line.raw for line in first] == records
        assert list(container.records()) == first
        assert [line.where for line in first] == [
            f"item {i + 1}" for i in range(len(first))
        ]
        assert all(text[x.offset :].startswith(x.raw) for x in first)


def test_objects(tmp_path: Path) -> None:
    """Pretty-printed objects in a row are records, one after another."""
    text = b"\n".join([PRETTY, PRETTY + PRETTY, b"{}\n"])
    with ExitStack() as stack:
        container = opened(tmp_path / "d", stack, text)
        assert [line.raw for line in container.records()] == [
            PRETTY,
            PRETTY,
            PRETTY,
            b"{}",
        ]
        assert [line.where for line in container.records()][:2] == [
            "object 1",
            "object 2",
        ]


DEEP = b'{"a": ' * 40 + b'[{"x": "}\\\\"}]' + b"}" * 40
WHOLE = (
    b'{\n"eval": {"a": "]"},\n"samples": [{"b": [1, "\\"]"]},\n '
    + DEEP
    + b'], "z": [3]\n}\n'
)


@pytest.mark.parametrize(
    "text", [WHOLE, b"[\n" + DEEP + b', {"a": 1}, 2 ]', PRETTY + b"\n" + PRETTY]
)
def test_cut_anywhere(tmp_path: Path, text: bytes) -> None:
    """A document that is cut off anywhere is an error, or reads as JSON lines; no record is lost silently."""
    for size in range(len(text) + 1):
        with ExitStack() as stack:
            container = opened(tmp_path / "d", stack, text[:size])
            try:
                lines = list(container.records())
            except UsageError as error:
                assert "is JSON that is damaged" in str(error)
                continue
            if isinstance(container, JsonLines):
                continue
            assert text[:size].rstrip()[-1:] == text.rstrip()[-1:]
            assert all(text[x.offset :].startswith(x.raw) for x in lines)


DAMAGED = [
    b"[{}",
    b'[{}, {"a": ',
    b"[{},, {}]",
    b'{\n"simulations": [{}]}}',
    PRETTY + b"\n{",
]


def test_damaged(tmp_path: Path) -> None:
    """A document that is damaged is an error with advice."""
    for text in DAMAGED:
        with ExitStack() as stack, pytest.raises(UsageError) as error:
            list(opened(tmp_path / "d", stack, text).records())
        problem = "is JSON that is damaged or truncated; mend it"
        assert problem in str(error.value), text


def kind(text: bytes) -> str | None:
    """Return the kind that is detected for a text; None is JSON lines."""
    shape = shape_of(text)
    if shape is None:
        return None
    return "holder" if shape.known else "list" if shape.steps else "objects"


KINDS = [
    (b"", None),
    (b" \n \n", None),
    (A, None),
    (A + b"\n" + B, None),
    (b"[" + A + b"]", "list"),
    (b"\xef\xbb\xbf [\n" + A + b"\n]\n \n", "list"),
    (b"[]", "list"),
    (b"[\n", None),
    (b"[1, 2]\n" + A, None),
    (b"[1, 2]\n\n\n", "list"),
    (b"[oops\n" + A, None),
    (PRETTY, "objects"),
    (PRETTY + b"\n" + PRETTY, "objects"),
    (b'{"a":\n1}', "objects"),
    (b"{\n", None),
    (b'{"trajectory_groups": [' + A + b"]}", "holder"),
    (b'{"trajectory_groups": [' + A + b"]}\n" + A, None),
    (b'{"x": {"simulations": []}, "simulations": [' + A + b"]}", "holder"),
    (b'{\n"simulations": [' + A + b"]}", "holder"),
    (b'{"simulations": {}}', None),
    (
        b'{"evalId": "x", "results": {"version": 3, "results": [' + A + b"]}}",
        "holder",
    ),
    (b'{"results": {"samples": [' + A + b"]}}", None),
    (b'{"results": [' + A + b"]}", None),
    (b'{"samples": [' + A + b"]}", None),
    (b'{"eval": {}, "samples": [' + A + b"]}", "holder"),
    (b'{"messages": [{"role": "us\n' + A, None),
    (b'{"messages": [\n' + A, None),
    (b'{"messages": [\n' + A + b"\n" + A, None),
    (b'{"trajectory_groups": [\n' + A + b"\n]}", "holder"),
    (b'{"trajectory_groups": [\n' + A + b",\n" + A + b"]}", "holder"),
    (b'{"trajectory_groups": [\n' + A + b"\n" + A, None),
    (
        b'{"a": [\n'
        + b"1,\n" * 18
        + A
        + b"\n], "
        + b'"b": "%s"}\n' % (b"x" * (1 << 20))
        + PRETTY,
        "objects",
    ),
    (b'{"messages": [\nll, "b": 1}\n' + A, None),
    (b'{"messages": [{"a": [\nll, "b": 1}\n\n]}]\n' + A + b"\n" + A, None),
    (b'{"messages": [\n' + A + b"\n]\n}\n" + A, "objects"),
    (b'{\n"a": [\n1,\n' + A + b"\n]\n}", "objects"),
    (b"{oops\n" + A, None),
    (b"{oops", None),
    (A + A, None),
    (b"oops\n[1]", None),
    (b'"text"\n' + A, None),
    (b'{"a": [{"b" 1}\n{"a": [2\n{"a": 3}\n', None),
    (b'{"a": 1, "b": \n{"deep": [[{"a": 2\n{"a": 3}\n', None),
]
"""The beginning of a text, and its kind."""


def test_kinds() -> None:
    """A document is distinguished from JSON lines, also from lines with a bad or torn first line."""
    for text, wanted in KINDS:
        assert kind(text) == wanted, text
