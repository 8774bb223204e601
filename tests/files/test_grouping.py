"""Records as groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.grouping import fetched, records
from ruler_cli.files.scratch import Index, place
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.table import PROMPT_HASH, Format
from ruler_cli.runs.input import (
    Openings,
    Survey,
    streamed,
    survey,
)
from ruler_cli.settings.models import Grouping, InputSettings
from ruler_cli.types import Line, Problem, Rollout
from tests.values import reader, talk


@pytest.fixture
def index() -> Iterator[Index]:
    """An index, closed at the end."""
    made = Index()
    yield made
    made.close()


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


def surveyed(keys: str, grouping: Grouping, index: Index) -> Survey:
    """Survey the lines of these keys."""
    return survey(
        rows(keys),
        READER,
        InputSettings(grouping=grouping),
        index,
        lambda problem: None,
    )


@given(st.text("abc.", max_size=12))
def test_places(keys: str) -> None:
    """Scattered groups come in the order of their first line, their lines in input order."""
    index = Index()
    result = surveyed(keys, "scattered", index)
    places = [[number for number, *_ in group] for _, group in index.places()]
    letters = list(dict.fromkeys(keys.replace(".", "")))
    assert places == [
        [i for i, k in enumerate(keys, 1) if k == letter] for letter in letters
    ]
    assert result.groups == len(letters)
    assert [n for n, *_ in index.lines()] == [
        i for i, k in enumerate(keys, 1) if k != "."
    ]
    index.close()


def test_not_adjacent() -> None:
    """`--grouping consecutive` names the first two lines of a group that other groups separate."""
    for keys, one, other in (("aabcb", 3, 5), ("aba", 1, 3), ("ccabbac", 3, 6)):
        output = f"line {one} and line {other} are one group with others between"
        with closing(Index()) as index, pytest.raises(UsageError, match=output):
            surveyed(keys, "consecutive", index)


def test_consecutive(index: Index) -> None:
    """From a pipe, adjacent records of one key are a group, and a key that returns later is an error."""
    problems: list[Problem] = []
    read = records(rows("aa.bba"), READER.read, problems.append)
    groups = streamed(read, READER, InputSettings(), index, Openings(), lambda *_: None)
    assert [
        (g.key, [r.line.number for r in g.records])
        for g in (next(groups), next(groups))
    ] == [
        ("a", [1, 2]),
        ("b", [4, 5]),
    ]
    with pytest.raises(
        UsageError, match=r"line 6: group 'a' comes back .* began at line 1"
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
        with closing(Index()) as index:
            result = survey(lines, WHOLE, InputSettings(), index, lambda p: None)
            assert len(list(index.groups())) == len(lines)
        assert (result.grouping, result.groups) == ("line", len(lines))
        assert result.warnings() == [message]
    again: tuple[Grouping, ...] = ("consecutive", "scattered")
    for grouping in again:
        with (
            closing(Index()) as index,
            pytest.raises(UsageError, match="already is a group"),
        ):
            survey(
                group_lines(("a", 1)),
                WHOLE,
                InputSettings(grouping=grouping),
                index,
                lambda p: None,
            )


def test_warnings() -> None:
    """Groups that look wrong are warned about, with advice."""
    for keys, message in (
        ("abc", "every group has one rollout (key `group_id`)"),
        ("aaa", None),
        ("bcdefghijklmnopq" + "a" * 40, "very uneven, 1 to 40"),
        ("aabb", None),
        ("a", None),
    ):
        with closing(Index()) as index:
            result = surveyed(keys, "auto", index).warnings()
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


def test_columns(index: Index) -> None:
    """A columnar line has as many groups as keys, and equal keys of two lines are two groups."""
    made = [{"id": list(keys), "text": list(keys)} for keys in ("aab", "b", "cccc")]
    rows = [Line(i, 0, json.dumps(record).encode()) for i, record in enumerate(made, 1)]
    result = survey(
        rows, Reader(COLUMNS, PROMPT_HASH), InputSettings(), index, lambda p: None
    )
    assert (result.records, result.groups, result.rollouts) == (4, 4, 8)
    assert (result.grouping, result.smallest, result.largest, result.singles) == (
        "line",
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
    read=lambda record: [Rollout(talk(record["text"]), member=record["member"])],
    group_by="id",
)


def test_parts(index: Index) -> None:
    """Parts of one rollout count as one in the sizes of groups, in any records."""
    made = [
        {"id": key, "text": "x", "member": member}
        for key, member in ("a1", "a1", "b1", "a2", "b1")
    ]
    rows = [Line(i, 0, json.dumps(record).encode()) for i, record in enumerate(made, 1)]
    new_rollouts: list[int] = []
    reader = Reader(PARTS, "id")
    result = survey(
        rows,
        reader,
        InputSettings(),
        index,
        lambda p: None,
        on_record=lambda r, n: new_rollouts.append(n),
    )
    assert new_rollouts == [1, 0, 1, 1, 0]
    assert (result.records, result.rollouts, result.groups) == (5, 3, 2)
    assert (result.smallest, result.largest, result.singles) == (1, 2, 1)


def test_part_of_a_columnar_line(tmp_path: Path) -> None:
    """The number of a record selects one group of a columnar line."""
    raw = b'{"id": ["a", "b", "a"], "text": ["x", "y", "z"]}'
    read = Reader(COLUMNS, PROMPT_HASH).read
    records = read(Line(7, 0, raw))
    (tmp_path / "in").write_bytes(raw)
    with (tmp_path / "in").open("rb") as file:
        places = [(7, 0, len(raw), hash(raw))]
        group = fetched(file.fileno(), read, place(records[1]), places, Line)
    assert (group.key, len(group.rollouts)) == (records[1].key, 1)


def test_on_record(index: Index) -> None:
    """The survey reports each record that can be read."""
    reported: list[int] = []
    survey(
        rows("ab.a"),
        READER,
        InputSettings(),
        index,
        lambda p: None,
        on_record=lambda r, n: reported.append(r.line.number),
    )
    assert reported == [1, 2, 4]


def test_by_line(index: Index) -> None:
    """`--grouping line` makes every trajectory a group, whatever its key."""
    result = surveyed("aab", "line", index)
    assert (result.grouping, result.groups) == ("line", 3)


def test_full_disk(index: Index) -> None:
    """A full disk stops the run with a sentence that names TMPDIR."""
    index._db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(OutputError, match="TMPDIR"):
        for number in range(100_000):
            list(index.in_turn([(number, bytes(1000))]))
