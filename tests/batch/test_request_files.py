"""Request files: split at a provider's limits, written all or not at all, without files of earlier runs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.compression import zstd
from ruler_cli.runs.batch.request_files import Limits, RequestFiles, names_for

ANY = Limits()


def line(number: int, size: int = 0) -> bytes:
    """A request line of ruler."""
    return (
        b'{"custom_id":"%032x","method":"POST","url":"/v1/chat/completions","body":{"model":"o3","pad":"%s"}}\n'
        % (number, b"x" * size)
    )


def names(folder: Path) -> list[str]:
    """Return the names of a folder's files."""
    return sorted(path.name for path in folder.iterdir())


def written(path: Path, count: int, limits: Limits = ANY) -> list[tuple[str, int, int]]:
    """Write so many requests for one judge."""
    with RequestFiles(str(path), limits) as files:
        assert all(files.write(line(number)) for number in range(count))
        files.end()
        return files.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the request file."""
    return tmp_path / "requests.jsonl"


def test_one_file(path: Path) -> None:
    """Requests that fit one file are one file of the given name, which replaces an earlier one."""
    for count in (3, 0):
        assert written(path, count, Limits(requests=3)) == [
            (str(path), count, count * len(line(0)))
        ]
        assert path.read_bytes() == b"".join(map(line, range(count)))
        assert names(path.parent) == ["requests.jsonl"]


def test_split(path: Path) -> None:
    """More requests than fit one file are parts in order, with 64 bytes reserved around each.

    A request that fits no file is reported, and the others are written.
    """
    made = written(path, 7, Limits(requests=3))
    assert [(Path(name).name, number) for name, number, _ in made] == [
        (f"requests-000{part}.jsonl", number)
        for part, number in ((1, 3), (2, 3), (3, 1))
    ]
    assert names(path.parent) == [Path(name).name for name, _, _ in made]
    assert b"".join(Path(name).read_bytes() for name, _, _ in made) == b"".join(
        map(line, range(7))
    )
    for most, parts in (
        (2 * len(line(0)), [2, 2, 1]),
        (2 * len(line(0)) - 1, [1, 1, 1, 1, 1]),
    ):
        assert [
            number for _, number, _ in written(path, 5, Limits(bytes=most + 64))
        ] == parts
    with RequestFiles(str(path), Limits(bytes=len(line(0)) + 64)) as files:
        assert [files.write(line(n, size=n == 1)) for n in range(3)] == [
            True,
            False,
            True,
        ]
        files.end()
        made = files.commit()
    assert [Path(name).read_bytes() for name, _, _ in made] == [line(0), line(2)]


def test_all_or_none(path: Path) -> None:
    """Earlier files are unchanged until all parts are written, and an interrupted rendering leaves none."""
    written(path, 7, Limits(requests=3))
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent)}
    with (
        pytest.raises(OutputError),
        RequestFiles(str(path), Limits(requests=1)) as files,
    ):
        files.write(line(8))
        files.write(line(9))
        assert {name for name in names(path.parent) if name.endswith(".jsonl")} == set(
            before
        )
        raise OutputError("no room")
    assert {
        name: (path.parent / name).read_bytes() for name in names(path.parent)
    } == before


def test_no_stale_part(path: Path) -> None:
    """Fewer parts than before, or one file, replace all earlier parts and those of a killed rendering."""
    written(path, 7, Limits(requests=2))
    path.with_name("requests.jsonl.partial").write_bytes(line(1))
    written(path, 5, Limits(requests=2))
    assert names(path.parent) == [f"requests-000{number}.jsonl" for number in (1, 2, 3)]
    written(path, 5)
    assert names(path.parent) == ["requests.jsonl"]
    written(path, 3, Limits(requests=2))
    assert names(path.parent) == ["requests-0001.jsonl", "requests-0002.jsonl"]


def test_crash_during_removal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop at any point the next rendering removes the stale files; none stands beside a new one."""
    remove = Path.unlink
    for steps in range(5):
        written(path, 8, Limits(requests=2))
        left = iter(range(steps))

        def die(self: Path, *_: object, left: object = left, **__: object) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]  # an iterator
                raise KeyboardInterrupt
            remove(self)

        with (
            monkeypatch.context() as patch,
            pytest.raises(KeyboardInterrupt),
            RequestFiles(str(path), ANY) as files,
        ):
            files.end()
            patch.setattr(Path, "unlink", die)
            files.commit()
            raise KeyboardInterrupt
        stale = [f"requests-000{number}.jsonl" for number in range(1, 5 - steps)]
        there = [name for name in names(path.parent) if not name.endswith(".partial")]
        assert there == stale + ["requests.jsonl"] * (steps == 4)
        written(path, 1)
        assert names(path.parent) == ["requests.jsonl"]


def test_foreign_file(path: Path) -> None:
    """A file without requests of ruler is not removed, but reported."""
    (path.parent / "requests-0001.jsonl").write_bytes(line(1))
    for name in ("requests.jsonl", "requests-0001.jsonl", "requests-0002.jsonl"):
        for text in ('{"custom_id": "1"}\n', "a note", '{"messages": []}\n', "\x00"):
            (path.parent / name).write_text(text)
            before = names(path.parent)
            with pytest.raises(UsageError, match=f"{name}: is in the way"):
                RequestFiles(str(path), ANY)
            assert (names(path.parent), (path.parent / name).read_text()) == (
                before,
                text,
            )
        (path.parent / name).write_bytes(line(1))


def test_similar_names(path: Path) -> None:
    """A rendering under a similar name, with a year or another word, is not part of this one."""
    others = [
        "requests-2024.jsonl",
        "requests.test.jsonl",
        "requests-0003.jsonl",
        "requests.o3.json",
    ]
    for name in others:
        (path.parent / name).write_bytes(line(1))
    written(path, 1)
    assert names(path.parent) == sorted([*others, "requests.jsonl"])


def test_panel_names() -> None:
    """Each judge of a panel has files under its own plain and distinct name."""
    assert names_for("a/r.jsonl.gz", ["openai/o3"]) == ["a/r.jsonl.gz"]
    assert names_for("a/r.jsonl.gz", ["openai/o3", "hosted_vllm/Qwen/Qwen3-8B"]) == [
        "a/r.openai-o3.jsonl.gz",
        "a/r.hosted_vllm-Qwen-Qwen3-8B.jsonl.gz",
    ]
    odd = [
        "../../etc/passwd",
        "a b:c?*|",
        ".",
        "",
        "é" * 300,
        "x" * 300,
        "-rf",
        "\udcff",
        "con\n\x1b[2J",
    ]
    result = [
        Path(name)
        for name in names_for("a/r.jsonl", odd + [judge.upper() for judge in odd])
    ]
    assert {str(path.parent) for path in result} == {"a"}
    assert len({path.name.lower() for path in result}) == len(result)
    assert all(path.name.startswith("r.") and path.name.isascii() for path in result)
    assert all(path.name.isprintable() and len(path.name) < 120 for path in result)


@pytest.mark.parametrize(
    ("ending", "read"), [(".gz", gzip.decompress), (".zst", zstd.decompress)]
)
def test_compressed(ending: str, read: Callable[[bytes], bytes], path: Path) -> None:
    """A file is compressed by its name, part by part, and compressed parts are recognized as ruler's."""
    compressed = path.with_name(path.name + ending)
    written(compressed, 3, Limits(requests=2))
    assert names(path.parent) == [
        f"requests-0001.jsonl{ending}",
        f"requests-0002.jsonl{ending}",
    ]
    parts = [(path.parent / name).read_bytes() for name in names(path.parent)]
    assert b"".join(map(read, parts)) == line(0) + line(1) + line(2)
    written(compressed, 3)
    assert names(path.parent) == [f"requests.jsonl{ending}"]
    first = compressed.read_bytes()
    written(compressed, 3)
    assert compressed.read_bytes() == first


def test_concurrent_renderings(path: Path) -> None:
    """Two renderings at once do not write the same files."""
    with RequestFiles(str(path), ANY) as files:
        with pytest.raises(UsageError, match="another run"):
            RequestFiles(str(path), ANY)
        files.end()
        assert files.commit()


def test_unwritable_path() -> None:
    """A path that cannot be written is reported before anything is read, with the way out."""
    for name, output in (
        ("no/such/requests.jsonl", "mkdir -p"),
        (".", "directory"),
        ("s3://b/requests.jsonl", "address"),
        ("a\0b", "cannot be written"),
        (f"{__file__}/requests.jsonl", "Not a directory; give another name, or `-`"),
    ):
        with pytest.raises(UsageError, match=output):
            RequestFiles(name, ANY)


def test_link(path: Path) -> None:
    """If the name is a link, its target is written, compressed by its own name."""
    (path.parent / "there").mkdir()
    there = path.parent / "there" / "real.jsonl"
    there.write_bytes(b"")
    path.symlink_to(there)
    written(path, 1)
    assert path.is_symlink()
    assert there.read_bytes() == line(0)
    compressed = there.with_name("real.jsonl.gz")
    path.unlink()
    path.symlink_to(compressed)
    written(path, 1)
    assert gzip.decompress(compressed.read_bytes()) == line(0)


def test_link_at_a_part(path: Path) -> None:
    """A link that stands where a part is written goes, and its target stays."""
    precious = path.with_name("precious")
    precious.write_text("mine")
    for part in (1, 2):
        path.with_name(f"requests-000{part}.jsonl.partial").symlink_to(precious)
    path.with_name("requests.jsonl.partial").hardlink_to(precious)
    assert len(written(path, 2, Limits(requests=1))) == 2
    assert precious.read_text() == "mine"
