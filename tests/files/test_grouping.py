"""Records as groups."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.index import OutputOrder
from ruler_cli.formats.format import Format
from ruler_cli.formats.keys import PROMPT_HASH, GroupKey
from ruler_cli.formats.reader import Reader
from ruler_cli.runs.input import (
    OnRecord,
    Survey,
    streamed,
)
from ruler_cli.settings.models import Grouping, InputSettings
from ruler_cli.types import Line, Problem, Rollout
from tests.values import reader, talk


def rows(keys: str) -> list[Line]:
    """Make a trajectory for each letter, which is its group key; a dot is a line that cannot be read."""
    out, offset = [], 0
    for number, key in enumerate(keys, 1):
        raw = (
            b"{"
            if key == "."
            else json.dumps({"group_id": key, "messages": talk("x")}).encode()
        )
        out.append(Line(number, offset, raw))
        offset += len(raw) + 1
    return out


READER = reader({"group_id": "a", "messages": talk("x")})
WHOLE = reader({"group_id": "a", "trajectories": [{"messages": talk("x")}]})


@contextmanager
def counted(
    lines: list[Line],
    reader: Reader = READER,
    grouping: Grouping = "auto",
    on_record: OnRecord = lambda *_: None,
) -> Iterator[Survey]:
    """Survey lines."""
    settings = InputSettings(grouping=grouping)
    result = Survey(reader, settings, on_record=on_record)
    with closing(result.index):
        for record in result.read(lines, lambda problem: None):
            result.add(record)
        result.finish()
        yield result


@given(st.permutations([i for i, key in enumerate("ab.acb", 1) if key != "."]))
def test_output_order(done: list[int]) -> None:
    """Bodies of lines come out in the order of INPUT, in whatever order they are done."""
    with (
        counted(rows("ab.acb"), grouping="scattered") as result,
        closing(OutputOrder(result.index)) as order,
    ):
        written = list[tuple[int, bytes]]()
        for number in done:
            written += order.ordered([(number, b"%d" % number)])
    assert written == [(number, b"%d" % number) for number in sorted(done)]


def test_consecutive() -> None:
    """From a pipe, adjacent records of one key are a group, and a key that returns later is an error."""
    problems: list[Problem] = []
    read = Survey(READER, InputSettings())
    groups = streamed(read.read(rows("aa.bba"), problems.append), read)
    assert [
        (g.key, [r.line.number for r in g.records])
        for g in (next(groups), next(groups))
    ] == [
        ("a", [1, 2]),
        ("b", [4, 5]),
    ]
    with pytest.raises(
        UsageError, match="line 6 belongs to an earlier group, with others"
    ) as error:
        next(groups)
    assert "--grouping scattered" in str(error.value)
    assert [(p.line, p.raw) for p in problems] == [(3, b"{")]


def group_lines(*groups: tuple[Any, int]) -> list[Line]:
    """Make lines that are groups, from keys and numbers of rollouts."""
    made = [
        {"group_id": k, "trajectories": [{"messages": talk("x")}] * n}
        for k, n in groups
    ]
    return [Line(i, 0, json.dumps(g).encode()) for i, g in enumerate(made, 1)]


def test_group_lines() -> None:
    """Each line of groups is one group, even if two have one key; they cannot be grouped again."""
    for lines, message in (
        (
            group_lines(("a", 2), ("b", 3), ("a", 2)),
            "line 1 and line 3 have the same `group_id`; each is judged as its own group",
        ),
        (
            group_lines(("a", 1), ("b", 1)),
            "nothing can be compared: every group has one rollout",
        ),
    ):
        with counted(lines, WHOLE) as result:
            assert len(list(result.index.groups())) == len(lines)
        assert (result.layout, result.groups) == ("one per line", len(lines))
        assert result.warnings() == [message]


def test_warnings() -> None:
    """Groups that look wrong are warned about, with advice."""
    for keys, message in (
        ("abc", "every group has one rollout (key `group_id`)"),
        ("aaa", None),
        ("bcdefghijklmnopq" + "a" * 40, "very uneven, 1 to 40"),
        ("aabb", None),
        ("a", None),
    ):
        with counted(rows(keys)) as counts:
            result = counts.warnings()
        assert (
            not result
            if message is None
            else message in result[0] and "--group-by PATH" in result[0]
        )


COLUMNS = Format(
    name="columns",
    family="columns",
    shape="columns",
    has="id text",
    read=lambda record: [
        Rollout(talk(text), (i,), reward=i, key=record["id"][i])
        for i, text in enumerate(record["text"])
    ],
    listed=True,
)


def test_columns() -> None:
    """A columnar line has as many groups as keys, and equal keys of two lines are two groups."""
    made = [
        {"id": list(keys), "text": list(keys)} for keys in ("aab", "b", "cccc")
    ]
    lines = [
        Line(i, 0, json.dumps(record).encode())
        for i, record in enumerate(made, 1)
    ]
    with counted(lines, Reader(COLUMNS, GroupKey(PROMPT_HASH))) as result:
        pass
    assert (result.records, result.groups, result.rollouts) == (4, 4, 8)
    assert (
        result.layout,
        result.smallest,
        result.largest,
        result.singles,
    ) == (
        "one per line",
        1,
        4,
        2,
    )
    assert not result.warnings()


PARTS = replace(
    COLUMNS,
    shape="trajectory",
    listed=False,
    has="id text",
    read=lambda record: [
        Rollout(talk(record["text"]), member=record["member"])
    ],
    group_by="id",
)


def test_parts() -> None:
    """Parts of one rollout count as one in the sizes of groups, in any records."""
    made = [
        {"id": key, "text": "x", "member": member}
        for key, member in ("a1", "a1", "b1", "a2", "b1")
    ]
    lines = [
        Line(i, 0, json.dumps(record).encode())
        for i, record in enumerate(made, 1)
    ]
    new_rollouts: list[int] = []

    def on_record(record: object, rollouts: int) -> None:
        new_rollouts.append(rollouts)

    with counted(
        lines, Reader(PARTS, GroupKey.of_paths("id")), on_record=on_record
    ) as result:
        pass
    assert new_rollouts == [1, 0, 1, 1, 0]
    assert (result.records, result.rollouts, result.groups) == (5, 3, 2)
    assert (result.smallest, result.largest, result.singles) == (1, 2, 1)


def test_full_disk() -> None:
    """A full disk stops the run with a sentence that names TMPDIR."""
    with (
        counted(rows("ab")) as result,
        closing(OutputOrder(result.index)) as order,
    ):
        with order._bodies.locked() as db:
            db.execute("PRAGMA max_page_count = 2")
        with pytest.raises(OutputError, match="TMPDIR"):
            list(order.ordered([(2, bytes(100_000))]))


def test_no_temporary_file() -> None:
    """A table for which no temporary file can be opened stops the run with the same sentence."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        counted(rows("ab")) as result,
        closing(OutputOrder(result.index)) as order,
    ):
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            with pytest.raises(OutputError, match="TMPDIR"):
                list(order.ordered([(2, bytes(1_000_000))]))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
