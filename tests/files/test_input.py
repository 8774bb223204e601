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

from ruler_cli.errors import InputChanged, UsageError
from ruler_cli.files.error_map import zstd
from ruler_cli.files.index import place
from ruler_cli.formats.reader import Reader
from ruler_cli.runs import input as input_module
from ruler_cli.runs.input import Input, open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Line, Problem, Record
from tests.conftest import write as write_records
from tests.files.test_archive import packed as archived
from tests.files.test_open import PACKS, fed
from tests.values import talk

EMPTY = "no records: INPUT is empty, or holds blank lines only"


def dump(keys: str) -> bytes:
    """Make a trajectory for each letter; a dot is a line that cannot be read."""
    return b"".join(
        b"broken\n"
        if k == "."
        else json.dumps({"group_id": k, "messages": talk(str(i))}).encode() + b"\n"
        for i, k in enumerate(keys, 1)
    )


def groups(result: Input) -> list[tuple[str, list[int]]]:
    """Return the groups' keys, with the numbers of their lines."""
    return [(g.key, [r.line.number for r in g.records]) for g in result.groups]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of INPUT."""
    return tmp_path / "in.jsonl"


def test_groups(path: Path) -> None:
    """A file is read twice, compressed or not, and each problem is reported once."""
    for keys, wanted in (
        ("aabb", [("a", [1, 2]), ("b", [3, 4])]),
        ("ab.ab", [("a", [1, 4]), ("b", [2, 5])]),
        (".ba.", [("b", [2]), ("a", [3])]),
    ):
        for pack in PACKS:
            path.write_bytes(pack(dump(keys)))
            problems: list[Problem] = []
            with ExitStack() as stack:
                result = open_input(InputSettings(str(path)), stack, problems.append)
                assert groups(result) == wanted
                assert result.in_order is (keys != "ab.ab")
            assert [p.line for p in problems] == [
                i for i, k in enumerate(keys, 1) if k == "."
            ]


def test_description(path: Path) -> None:
    """The description of INPUT is one line."""
    path.write_bytes(dump("aabbb"))
    with ExitStack() as stack:
        output = open_input(InputSettings(str(path)), stack, lambda p: None).found()
    assert (
        output
        == "native trajectories, key `group_id`: 5 records, 2 groups of 2 to 3 rollouts, adjacent"
    )


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
        assert result.survey is None
        assert groups(result) == [("a", [1, 2]), ("b", [3])]
        assert result.found() == "native trajectories, key `group_id`, streamed"
    assert seen == [("a", 1), ("a", 1), ("b", 1)]


def test_scattered_pipe(tmp_path: Path) -> None:
    """With `--grouping scattered` a whole pipe is spooled to disk, then scored as a file is."""
    for number, pack in enumerate(PACKS):
        pipe, problems = tmp_path / f"pipe{number}", list[Problem]()
        fed(pipe, pack(dump("ab.ab").replace(b"\n", b"\n\n", 1)))
        with ExitStack() as stack:
            result = open_input(
                InputSettings(str(pipe), grouping="scattered"), stack, problems.append
            )
            assert not result.in_order
            assert groups(result) == [("a", [1, 5]), ("b", [3, 6])]
        assert [p.where for p in problems] == ["line 4"]
    fed(tmp_path / "pipe", b'{"messages": []}\n')
    settings = InputSettings(str(tmp_path / "pipe"), grouping="scattered")
    with (
        ExitStack() as stack,
        pytest.raises(UsageError, match="none of its lines can be read"),
    ):
        open_input(settings, stack, lambda p: None)


def as_list(keys: str) -> bytes:
    """Make the same records as a pretty-printed list."""
    return b"[\n " + b",\n ".join(dump(keys).splitlines()) + b"\n]\n"


def test_document(tmp_path: Path) -> None:
    """A JSON document is read like a file of lines, also from a pipe, and its locations say `item`."""
    cases = itertools.product(("aab", "abab", "a.ba"), PACKS, (False, True))
    for number, (keys, pack, pipe) in enumerate(cases):
        path, problems = tmp_path / f"{number}.json", list[Problem]()
        if pipe:
            fed(path, pack(as_list(keys)))
        else:
            path.write_bytes(pack(as_list(keys)))
        with ExitStack() as stack:
            result = open_input(InputSettings(str(path)), stack, problems.append)
            read = sorted(n for _, numbers in groups(result) for n in numbers)
            assert read == [i for i, k in enumerate(keys, 1) if k != "."]
            assert result.in_order is (keys == "aab")
        assert [p.where for p in problems] == [
            f"item {i}" for i, k in enumerate(keys, 1) if k == "."
        ]


def test_no_records_in_a_file(path: Path) -> None:
    """A file without records is no error; a file without a readable record is refused."""
    for text in (b"", b"\n \n"):
        path.write_bytes(text)
        with ExitStack() as stack:
            result = open_input(InputSettings(str(path)), stack, lambda p: None)
            assert (result.reader, groups(result), result.found()) == (None, [], EMPTY)
    path.write_bytes(b'{"messages": []}\n')
    with (
        ExitStack() as stack,
        pytest.raises(UsageError, match="none of its lines can be read"),
    ):
        open_input(InputSettings(str(path)), stack, lambda p: None)


@pytest.mark.parametrize("keys", ["aab", "aba"])
def test_appended(path: Path, keys: str) -> None:
    """Lines that are appended after the survey are not scored: they could belong to any group."""
    path.write_bytes(dump(keys))
    with ExitStack() as stack:
        result = open_input(InputSettings(str(path)), stack, lambda p: None)
        with path.open("ab") as file:
            file.write(dump("aab."))
        assert sorted(n for _, numbers in groups(result) for n in numbers) == [1, 2, 3]


def test_changed(path: Path) -> None:
    """A file that was overwritten since the survey, or whose last line was incomplete, is refused."""
    whole, many = dump("aab"), dump("ab" * 10_000)
    for before, after in ((whole[:-20], whole), (many, b"x" * len(many))):
        path.write_bytes(before)
        with ExitStack() as stack:
            result = open_input(InputSettings(str(path)), stack, lambda p: None)
            path.write_bytes(after)
            with pytest.raises(InputChanged, match="changed while it was read"):
                groups(result)


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
            path, archived(0, {f"samples/{n}.json": row for n, row in enumerate(rows)})
        )
    if kind == "parquet":
        pq.write_table(
            pa.Table.from_pylist(list(map(json.loads, rows))), path, compression="none"
        )
        return path, path
    make: dict[str, Callable[[bytes], bytes]] = {
        "jsonl": bytes,
        "json": lambda text: b"[" + b",\n".join(text.splitlines()) + b"]",
        "objects": lambda text: b"".join(
            row.replace(b", ", b",\n") + b"\n" for row in text.splitlines()
        ),
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
    "objects",
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
    pad = b'{"note": "%s", ' % (b"x" * 100_000)  # no buffer holds all of the file
    before = b"".join(pad + line[1:] for line in dump(keys).splitlines(keepends=True))
    after = before.replace(b'"4', b'"9').replace(b" 4", b" 9")
    assert (before != after, len(before)) == (True, len(after))
    for change in ("equal", "cut", "swap"):
        source, file = contained(tmp_path, kind, before)
        with ExitStack() as stack:
            result = open_input(InputSettings(str(source)), stack, lambda p: None)
            assert result.survey is not None
            first = [[r.line.raw for r in g.records] for g in result.again()]
            if change == "cut":
                os.truncate(file, file.stat().st_size // 2)
            else:
                swapped = b"".join(reversed(before.splitlines(keepends=True)))
                contained(tmp_path, kind, after if change == "equal" else swapped)
            again: list[list[bytes]] = []
            copied = (
                not result.in_order and result.container.fd is None
            )  # a temporary file has the records
            try:
                again += ([r.line.raw for r in g.records] for g in result.groups)
                assert copied or kind == "list.gz"
            except InputChanged as error:
                assert str(error).startswith(f"{source}: changed while it was read (")
                assert str(error).endswith("; run again when no program writes it")
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
        first_places = [each[0] for each in numbers.values()]
        picked = [
            list(map(place, group.records)) for group in result.picked(first_places)
        ]
        assert picked == list(numbers.values())
        for wanted in numbers.values():
            (group,) = result.picked(wanted[:1])
            assert [place(record) for record in group.records] == wanted
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(InputChanged, match="changed while it was read"):
            list(result.picked(first_places))


def test_directory(tmp_path: Path) -> None:
    """Files of another kind are left out, with their keys; a problem names its file."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, keys in (("b-2.jsonl", "xx"), ("b-10.jsonl", "x.")):
        text = dump(keys).replace(b'"group_id": "x", ', b"")
        (folder / name).write_bytes(text)
    (folder / "a.json").write_text('{"group_id": 3}')
    problems: list[Problem] = []
    with ExitStack() as stack:
        result = open_input(InputSettings(str(folder)), stack, problems.append)
        assert result.notes == ["a.json holds no record of this format: left out"]
        assert result.found().startswith(
            "native trajectories, key: hash of the prompt: 3 records"
        )
        assert [r.line.where for g in result.groups for r in g.records] == [
            "b-2.jsonl line 1",
            "b-2.jsonl line 2",
            "b-10.jsonl line 1",
        ]
    assert [p.where for p in problems] == ["b-10.jsonl line 2"]


@pytest.mark.parametrize("appended", [True, False])
def test_shard_changes(tmp_path: Path, appended: bool) -> None:
    """Lines appended to a shard after the survey are ignored; any other change stops the run."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(dump(name * 2))
    with ExitStack() as stack:
        result = open_input(InputSettings(str(tmp_path)), stack, lambda p: None)
        (tmp_path / "a.jsonl").write_bytes(dump("aab" if appended else "a"))
        if appended:
            assert [key for key, _ in groups(result)] == ["a", "b"]
            return
        with pytest.raises(
            InputChanged, match=r"changed while it was read \(a\.jsonl\)"
        ):
            groups(result)


def test_no_records_in_a_directory(tmp_path: Path) -> None:
    """A directory without any JSON is refused; a directory of empty files is no error."""
    (tmp_path / "a.jsonl").touch()
    with ExitStack() as stack:
        assert (
            open_input(InputSettings(str(tmp_path)), stack, lambda p: None).found()
            == EMPTY
        )
    (tmp_path / "a.log").write_text("text")
    with (
        ExitStack() as stack,
        pytest.raises(UsageError, match=r"a\.log line 1 is not a JSON object"),
    ):
        open_input(InputSettings(str(tmp_path)), stack, lambda p: None)


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
        assert opened.found().endswith(": 5 groups, one per line")
        assert (opened.total, opened.late, parsed, problems) == (5, True, [], [])
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


def test_large_file_that_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file of groups that is shorter than it was ends with the reason."""
    monkeypatch.setattr(input_module, "_LOOKED_AT", 0)
    line = {"group_id": "a", "trajectories": [{"messages": talk("x")}] * 2}
    path = write_records(tmp_path / "in.jsonl", [line] * 3)
    with ExitStack() as stack:
        opened = open_input(InputSettings(str(path)), stack, print, once=True)
        size = path.stat().st_size
        os.truncate(path, size * 2 // 3)
        with pytest.raises(InputChanged, match="line 3"):
            list(opened.groups)
