"""Request files: split at a provider's limits, all of them or none, and none of an earlier rendering left."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import zstd
from ruler_cli.files.requests import Bound, RequestFiles

ONE = [Bound("openai/o3")]


def line(number: int, model: str = "o3", size: int = 0) -> bytes:
    """A request of ours."""
    return (
        b'{"custom_id":"%032x","method":"POST","url":"/v1/chat/completions","body":{"model":"%s","pad":"%s"}}\n'
        % (number, model.encode(), b"x" * size)
    )


def params(number: int, model: str = "claude") -> bytes:
    """The same for Anthropic."""
    return b'{"custom_id":"%032x","params":{"model":"%s"}}\n' % (number, model.encode())


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def written(path: Path, count: int, *bounds: Bound, size: int = 0) -> list[tuple[str, int, int]]:
    """Write so many requests for each judge."""
    with RequestFiles(str(path), bounds or ONE) as files:
        for judge, number in itertools.product(range(len(bounds) or 1), range(count)):
            assert files.put(judge, line(number, size=size))
        return files.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where requests go."""
    return tmp_path / "requests.jsonl"


def test_one_file(path: Path) -> None:
    """What fits one file is one, by the name that was given."""
    assert written(path, 3) == [(str(path), 3, 3 * len(line(0)))]
    assert path.read_bytes() == line(0) + line(1) + line(2)
    assert names(path.parent) == ["requests.jsonl"]


def test_split_by_number(path: Path) -> None:
    """More requests than a file may hold are parts in order, the last of them the rest."""
    made = written(path, 7, Bound("openai/o3", requests=3))
    assert [(Path(name).name, number) for name, number, _ in made] == [
        ("requests-0001.jsonl", 3),
        ("requests-0002.jsonl", 3),
        ("requests-0003.jsonl", 1),
    ]
    assert names(path.parent) == [Path(name).name for name, _, _ in made]
    assert b"".join(Path(name).read_bytes() for name, _, _ in made) == b"".join(map(line, range(7)))


@pytest.mark.parametrize(("around", "parts"), [(0, [2, 2, 1]), (1, [1, 1, 1, 1, 1])])
def test_split_by_size(around: int, parts: list[int], path: Path) -> None:
    """A part may be exactly as large as a file may be, with what comes around it."""
    made = written(path, 5, Bound("openai/o3", bytes=2 * len(line(0)), around=around))
    assert [number for _, number, _ in made] == parts


def test_exactly_full(path: Path) -> None:
    """As many as one file may hold are no several."""
    assert [name for name, _, _ in written(path, 3, Bound("openai/o3", requests=3))] == [str(path)]


def test_larger_than_a_file(path: Path) -> None:
    """A request that fits no file is told, and the others are written."""
    with RequestFiles(str(path), [Bound("openai/o3", bytes=len(line(0)))]) as files:
        assert files.put(0, line(0))
        assert not files.put(0, line(1, size=1))
        assert files.put(0, line(2))
        made = files.commit()
    assert [Path(name).read_bytes() for name, _, _ in made] == [line(0), line(2)]


def test_nothing(path: Path) -> None:
    """Without a request there is an empty file, which takes the place of what was there."""
    written(path, 7, Bound("openai/o3", requests=3))
    assert written(path, 0) == [(str(path), 0, 0)]
    assert (names(path.parent), path.read_bytes()) == (["requests.jsonl"], b"")


def test_all_or_none(path: Path) -> None:
    """Until all is written the files of before stand as they were, and an end before that leaves nothing."""
    written(path, 7, Bound("openai/o3", requests=3))
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent)}
    with pytest.raises(OutputError), RequestFiles(str(path), [Bound("openai/o3", requests=1)]) as files:
        files.put(0, line(8))
        files.put(0, line(9))
        assert {name for name in names(path.parent) if name.endswith(".jsonl")} == set(before)
        raise OutputError("no room")
    assert {name: (path.parent / name).read_bytes() for name in names(path.parent)} == before


def test_no_stale_part(path: Path) -> None:
    """Fewer parts than before, or one file, leave none of those before."""
    written(path, 7, Bound("openai/o3", requests=2))
    written(path, 5, Bound("openai/o3", requests=2))
    assert names(path.parent) == [f"requests-000{number}.jsonl" for number in (1, 2, 3)]
    written(path, 5)
    assert names(path.parent) == ["requests.jsonl"]
    written(path, 3, Bound("openai/o3", requests=2))
    assert names(path.parent) == ["requests-0001.jsonl", "requests-0002.jsonl"]


@pytest.mark.parametrize("steps", range(9))
def test_a_crash_while_parts_are_removed(steps: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it stops, what is stale is found by the next rendering, and stands beside nothing new."""
    written(path, 8, Bound("openai/o3", requests=2))
    left, remove = iter(range(steps)), Path.unlink

    def die(self: Path, *_: object, **__: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        remove(self)

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        RequestFiles(str(path), ONE) as files,
    ):
        files.put(0, line(99))
        patch.setattr(Path, "unlink", die)
        files.commit()
        raise KeyboardInterrupt
    found = [name for name in names(path.parent) if not name.endswith(".partial")]
    stale = [f"requests-000{number}.jsonl" for number in range(1, 5 - min(steps, 4))]
    assert found == stale + ["requests.jsonl"] * (steps >= 4)
    written(path, 1)
    assert names(path.parent) == ["requests.jsonl"]


def test_what_a_killed_one_left(path: Path) -> None:
    """Parts that a killed rendering was writing are removed by the next one."""
    for number in (1, 2, 3):
        path.with_name(f"requests-000{number}.jsonl.partial").write_bytes(line(1))
    written(path, 1)
    assert names(path.parent) == ["requests.jsonl"]


@pytest.mark.parametrize("name", ["requests.jsonl", "requests-0001.jsonl", "requests-0002.jsonl"])
@pytest.mark.parametrize("text", ['{"custom_id": "1"}\n', "a note", '{"messages": []}\n', "\x00"])
def test_somebody_elses_file(name: str, text: str, path: Path) -> None:
    """A file that holds no requests of ours is not removed: it is told before anything is written."""
    (path.parent / "requests-0001.jsonl").write_bytes(line(1))
    (path.parent / name).write_text(text)
    before = names(path.parent)
    with pytest.raises(UsageError, match=f"{name}: is in the way"):
        RequestFiles(str(path), ONE)
    assert (names(path.parent), (path.parent / name).read_text()) == (before, text)


def test_other_names_are_left_alone(path: Path) -> None:
    """A rendering under another name, of a year or of other data, is no part of this one."""
    others = ["requests-2024.jsonl", "requests.test.jsonl", "requests-0003.jsonl", "requests.o3.json"]
    for name in others:
        (path.parent / name).write_bytes(line(1))
    written(path, 1)
    assert names(path.parent) == sorted([*others, "requests.jsonl"])


def test_sets_of_a_panel(path: Path) -> None:
    """Each judge has its set, named after it; those of other judges go with the panel that they belong to."""
    panel = [Bound("openai/o3", requests=2), Bound("hosted_vllm/Qwen/Qwen3-8B")]
    with RequestFiles(str(path), panel) as files:
        for number in range(3):
            files.put(0, line(number))
        files.put(1, line(7, "Qwen/Qwen3-8B"))
        made = files.commit()
    assert [Path(name).name for name, _, _ in made] == [
        "requests.openai-o3-0001.jsonl",
        "requests.openai-o3-0002.jsonl",
        "requests.hosted_vllm-Qwen-Qwen3-8B.jsonl",
    ]
    written(path, 1)
    assert names(path.parent) == ["requests.jsonl"]
    with RequestFiles(str(path), panel) as files:
        files.put(0, line(1))
        files.commit()
    assert names(path.parent) == ["requests.hosted_vllm-Qwen-Qwen3-8B.jsonl", "requests.openai-o3.jsonl"]
    assert (path.parent / "requests.hosted_vllm-Qwen-Qwen3-8B.jsonl").read_bytes() == b""


def test_sets_of_anthropic(path: Path) -> None:
    """A set in Anthropic's form is known as ours too."""
    with RequestFiles(str(path), [Bound("anthropic/claude"), Bound("openai/o3")]) as files:
        files.put(0, params(1))
        files.put(1, line(1))
        files.commit()
    written(path, 1)
    assert names(path.parent) == ["requests.jsonl"]


@pytest.mark.parametrize(
    "judge", ["../../etc/passwd", "a b:c?*|", ".", "", "é" * 300, "x" * 300, "-rf", "\udcff", "con\n\x1b[2J"]
)
def test_a_name_of_any_judge(judge: str, path: Path) -> None:
    """Whatever a judge is called, its file lies in the folder and has a plain name."""
    with RequestFiles(str(path), [Bound(judge), Bound(judge.upper()), Bound("openai/o3")]) as files:
        made = files.commit()
    found = names(path.parent)
    assert len(found) == len({name.lower() for name in found}) == 3
    assert sorted(Path(name).name for name, _, _ in made) == found
    assert all(name.startswith("requests.") and name.isascii() and name.isprintable() for name in found)
    assert max(map(len, found)) < 120


@pytest.mark.parametrize(("ending", "read"), [(".gz", gzip.decompress), (".zst", zstd.decompress)])
def test_packed(ending: str, read: object, path: Path) -> None:
    """By its name a file is packed, part by part, and what is packed is known as ours."""
    assert callable(read)
    packed = path.with_name(path.name + ending)
    written(packed, 3, Bound("openai/o3", requests=2))
    assert names(path.parent) == [f"requests-0001.jsonl{ending}", f"requests-0002.jsonl{ending}"]
    parts = [(path.parent / name).read_bytes() for name in names(path.parent)]
    assert b"".join(map(read, parts)) == line(0) + line(1) + line(2)
    written(packed, 3)
    assert names(path.parent) == [f"requests.jsonl{ending}"]
    first = packed.read_bytes()
    written(packed, 3)
    assert packed.read_bytes() == first


@pytest.mark.parametrize(("name", "part"), [("requests", "requests-0001"), (".jsonl", ".jsonl-0001")])
def test_names_without_an_ending(name: str, part: str, tmp_path: Path) -> None:
    """A part's number stands before the ending, or last where there is none."""
    written(tmp_path / name, 2, Bound("openai/o3", requests=1))
    assert part in names(tmp_path)


def test_two_at_once(path: Path) -> None:
    """Two renderings do not write the same files."""
    with RequestFiles(str(path), ONE), pytest.raises(UsageError, match="another run"):
        RequestFiles(str(path), ONE)


@pytest.mark.parametrize(
    ("name", "said"),
    [("no/such/requests.jsonl", "mkdir -p"), (".", "directory"), ("s3://b/requests.jsonl", "address")],
)
def test_places_that_cannot_be(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that cannot be written is told before anything is read, with the way out."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        RequestFiles(name, ONE)


def test_one_stream_is_for_one_judge() -> None:
    """stdout holds the requests of one model."""
    with pytest.raises(UsageError, match="one model"):
        RequestFiles("-", [Bound("a"), Bound("b")])


def test_a_link_stays_one(path: Path) -> None:
    """Where the name is a link, the file that it leads to is written."""
    (path.parent / "there").mkdir()
    there = path.parent / "there" / "real.jsonl"
    there.write_bytes(b"")
    path.symlink_to(there)
    written(path, 1)
    assert path.is_symlink()
    assert there.read_bytes() == line(0)
