"""INPUT as groups."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_cli.errors import InputChanged
from ruler_cli.files.error_map import zstd
from ruler_cli.files.index import place
from ruler_cli.formats.reader import Reader
from ruler_cli.runs import input as input_module
from ruler_cli.runs.input import Input, open_input
from ruler_cli.settings.models import Grouping, InputSettings
from ruler_cli.types import Line, Problem, Record
from tests.conftest import write as write_records
from tests.files.test_archive import packed as archived
from tests.files.test_open import PACKS, fed
from tests.values import talk


def dump(keys: str) -> bytes:
    """Make a trajectory for each letter; a dot is a line that cannot be read."""
    return b"".join(
        b"broken\n"
        if k == "."
        else json.dumps({"group_id": k, "messages": talk(str(i))}).encode()
        + b"\n"
        for i, k in enumerate(keys, 1)
    )


def groups(result: Input) -> list[tuple[str, list[int]]]:
    """Return the groups' keys, with the numbers of their lines."""
    return [(g.key, [r.line.number for r in g.records]) for g in result.groups]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of INPUT."""
    return tmp_path / "in.jsonl"


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("pipe", [False, True])
def test_groups(tmp_path: Path, listed: bool, pipe: bool) -> None:
    """Lines and items, in a file or a pipe, compressed or not, are the same groups; each problem is told once."""
    third = "a.ba" if listed else ".ba."
    cases = itertools.product(("aabb", "ab.ab", third), PACKS)
    for number, (keys, pack) in enumerate(cases):
        path = tmp_path / f"{number}.json"
        content = dump(keys)
        if listed:
            content = b"[\n " + b",\n ".join(content.splitlines()) + b"\n]\n"
        if pipe:
            fed(path, pack(content))
        else:
            path.write_bytes(pack(content))
        wanted: dict[str, list[int]] = {}
        for place_of, key in enumerate(keys, 1):
            wanted.setdefault(key, []).append(place_of)
        broken = wanted.pop(".", [])
        problems: list[Problem] = []
        with ExitStack() as stack:
            grouping: Grouping = "scattered" if pipe else "auto"
            settings = InputSettings(str(path), grouping=grouping)
            result = open_input(settings, stack, problems.append)
            assert groups(result) == [*wanted.items()]
            assert pipe or result.in_order is (keys in ("aabb", ".ba."))
        name = "item" if listed else "line"
        assert [problem.where for problem in problems] == [
            f"{name} {n}" for n in broken
        ]


def test_pipe(tmp_path: Path) -> None:
    """A pipe is read as it comes, and each record is reported when it is read."""
    fed(tmp_path / "pipe", dump("aab"))
    seen: list[object] = []
    settings = InputSettings(str(tmp_path / "pipe"))
    with ExitStack() as stack:
        result = open_input(
            settings,
            stack,
            lambda p: None,
            on_record=lambda r, n: seen.append((r.key, n)),
        )
        assert result.streamed
        assert groups(result) == [("a", [1, 2]), ("b", [3])]
        assert result.brief() == "native trajectories, key `group_id`, streamed"
    assert seen == [("a", 1), ("a", 1), ("b", 1)]


@pytest.mark.parametrize("keys", ["aab", "aba"])
def test_appended(path: Path, keys: str) -> None:
    """Lines that are appended after the survey are not scored: they could belong to any group."""
    path.write_bytes(dump(keys))
    with ExitStack() as stack:
        result = open_input(InputSettings(str(path)), stack, lambda p: None)
        with path.open("ab") as file:
            file.write(dump("aab."))
        assert sorted(n for _, numbers in groups(result) for n in numbers) == [
            1,
            2,
            3,
        ]


def contained(root: Path, kind: str, text: bytes) -> tuple[Path, Path]:
    """Write JSON lines as a kind of container, in place; return INPUT and the file to change."""
    rows = text.splitlines()
    path = root / f"in.{kind}"
    if kind == "directory":
        path.mkdir(exist_ok=True)
        (path / "a.jsonl").write_bytes(text[: len(text) // 2])
        return path, write(path / "b.jsonl", text)
    if kind == "eval":
        return path, write(
            path,
            archived(
                0, {f"samples/{n}.json": row for n, row in enumerate(rows)}
            ),
        )
    if kind == "parquet":
        pq.write_table(
            pa.Table.from_pylist(list(map(json.loads, rows))),
            path,
            compression="none",
        )
        return path, path
    make: dict[str, Callable[[bytes], bytes]] = {
        "jsonl": bytes,
        "json": lambda text: b"[" + b",\n".join(text.splitlines()) + b"]",
        "gz": gzip.compress,
        "zst": zstd.compress,
        "list.gz": lambda text: gzip.compress(
            b"[" + b",\n".join(text.splitlines()) + b"]"
        ),
    }
    return path, write(path, make[kind](text))


def write(path: Path, content: bytes) -> Path:
    """Write a file in place, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


CONTAINERS = (
    "jsonl",
    "json",
    "gz",
    "zst",
    "list.gz",
    "directory",
    "eval",
    "parquet",
)


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("keys", ["aabbcc", "abcabc"])
def test_rewritten_in_place(tmp_path: Path, kind: str, keys: str) -> None:
    """A record that has other bytes when it is read again, as many as before, stops the run with code 1.

    So does a file that is cut. No group holds a record of what came later: each is as it was at first.
    """
    pad = b'{"note": "%s", ' % (
        b"x" * 100_000
    )  # no buffer holds all of the file
    before = b"".join(
        pad + line[1:] for line in dump(keys).splitlines(keepends=True)
    )
    after = before.replace(b'"4', b'"9').replace(b" 4", b" 9")
    assert (before != after, len(before)) == (True, len(after))
    for change in ("equal", "cut", "swap"):
        source, file = contained(tmp_path, kind, before)
        with ExitStack() as stack:
            result = open_input(
                InputSettings(str(source)), stack, lambda p: None
            )
            assert result.survey is not None
            first = [[r.line.raw for r in g.records] for g in result.again()]
            if change == "cut":
                os.truncate(file, file.stat().st_size // 2)
            else:
                swapped = b"".join(reversed(before.splitlines(keepends=True)))
                contained(
                    tmp_path, kind, after if change == "equal" else swapped
                )
            again: list[list[bytes]] = []
            # a temporary file has the records
            copied = result.container.fd is None
            try:
                again += (
                    [r.line.raw for r in g.records] for g in result.groups
                )
                assert copied or kind == "list.gz"
            except InputChanged as error:
                assert not copied
                assert str(error).startswith(
                    f"{source}: changed while it was read ("
                )
                assert str(error).endswith(
                    "; run again once no program writes to it"
                )
                assert error.exit_code == 1
            assert again == first[: len(again)]


@pytest.mark.parametrize("keys", ["aabbb", "ababb"])
def test_picked(path: Path, keys: str) -> None:
    """Groups are picked by the numbers of their records; a file that changed meanwhile is refused."""
    path.write_bytes(dump(keys))
    numbers: dict[object, list[int]] = {}

    def on_record(record: Record, _rollouts: int) -> None:
        numbers.setdefault(record.key, []).append(place(record))

    with ExitStack() as stack:
        result = open_input(
            InputSettings(str(path)), stack, lambda p: None, on_record=on_record
        )
        first_places = [places[0] for places in numbers.values()]
        picked = [
            list(map(place, group.records))
            for group in result.again(first_places)
        ]
        assert picked == list(numbers.values())
        for wanted in numbers.values():
            (group,) = result.again(wanted[:1])
            assert [place(record) for record in group.records] == wanted
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(InputChanged, match="changed while it was read"):
            list(result.again(first_places))


def test_groups_of_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of a large file of groups are parsed once, when it is their turn, and looked at before that."""
    monkeypatch.setattr(input_module, "_LOOKED_AT", 0)
    parsed = list[int]()
    read_line = Reader.read

    def counting(reader: Reader, line: Line) -> Any:
        parsed.append(line.number)
        return read_line(reader, line)

    monkeypatch.setattr(Reader, "read", counting)
    lines = [
        {"group_id": key, "trajectories": [{"messages": talk(key)}] * 2}
        for key in ("a", "b", "c", "a")
    ]
    path = write_records(tmp_path / "in.jsonl", [*lines, {"trajectories": 3}])
    problems = list[Problem]()
    with ExitStack() as stack:
        settings = InputSettings(str(path))
        opened = open_input(settings, stack, problems.append, once=True)
        assert opened.brief().endswith(": 5 groups, one per line")
        assert (opened.total, opened.late, parsed, problems) == (
            5,
            True,
            [],
            [],
        )
        assert [group.key for group in opened.groups] == ["a", "b", "c", "a"]
        assert parsed == [1, 2, 3, 4, 5]
        assert [problem.line for problem in problems] == [5]
        (warning,) = opened.warnings()
        assert warning.startswith("line 1 and line 4 have the same `group_id`")
        assert [group.key for group in opened.again()] == ["a", "b", "c", "a"]
    with path.open("ab") as file:
        file.write(b'{"trajectories": [')
    with ExitStack() as stack:
        opened = open_input(settings, stack, problems.append, once=True)
        assert not opened.late
        assert [problem.line for problem in problems] == [5, 5, 6]


def test_large_file_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file of groups that is rewritten or cut under the run ends it: no group is read twice, and none lost."""
    monkeypatch.setattr(input_module, "_LOOKED_AT", 0)
    lines = [
        {"group_id": key, "trajectories": [{"messages": talk(key)}] * 2}
        for key in ("a", "b", "c")
    ]
    path = tmp_path / "in.jsonl"
    for later, line in (([0, 2, 1], "line 2"), ([0, 1], "line 3")):
        write_records(path, lines)
        with ExitStack() as stack:
            settings = InputSettings(str(path))
            opened = open_input(settings, stack, print, once=True)
            write_records(path, [lines[at] for at in later])
            assert next(opened.groups).key == "a"
            with pytest.raises(InputChanged, match=line):
                list(opened.groups)
