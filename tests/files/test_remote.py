"""Remote objects: read in parts, written whole or not at all, told in sentences without keys."""

from __future__ import annotations

import gc
import io
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import OutputError, RulerError, UsageError
from ruler_cli.files import remote_output
from ruler_cli.files.parquet import Parquet
from ruler_cli.files.remote import expand_remote, is_remote, open_remote, public
from ruler_cli.files.remote_output import RemoteFile
from tests.files.object_store import Store

SECRET = "wJalr/XUtn+FEMI"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An empty store that s3:// leads to."""
    import s3fs

    with Store() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def memory() -> Iterator[dict[str, Any]]:
    """The objects of memory://, none at first."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system.store
    system.store.clear()


def said(error: pytest.ExceptionInfo[RulerError]) -> str:
    """The sentence, which holds no key."""
    text = str(error.value)
    assert SECRET not in text
    assert "AKIA" not in text
    return text


@pytest.mark.parametrize(
    ("name", "remote"),
    [
        ("s3://b/x", True), ("hf://datasets/a/b/x.parquet", True), ("GS://b/x", True),
        ("http://h/x", True), ("memory://x", True), ("file:///x", False), ("C:\\x", False),
        ("C:/x", False), ("c://x", False), ("x.jsonl", False), ("-", False), ("dir/s3://x", False),
        ("", False), ("://x", False),
    ],
)  # fmt: skip
def test_is_remote(name: str, remote: bool) -> None:
    """An address has a scheme of two letters or more; a drive and file:// are this machine."""
    assert is_remote(name) is remote


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (f"s3://AKIA:{SECRET}@bucket/a/x.jsonl", "s3://bucket/a/x.jsonl"),
        ("s3://bucket/a@b/x.jsonl?versionId=3", "s3://bucket/a@b/x.jsonl"),
        ("s3://bucket/part-?.jsonl", "s3://bucket/part-?.jsonl"),
        ("https://me:pw@host:8080/x.jsonl?sig=abc#f", "https://host:8080/x.jsonl"),
        ("https://host/x?token", "https://host/x"),
        ("hf://datasets/a/b@main/x.parquet", "hf://datasets/a/b@main/x.parquet"),
        ("sftp://me:pw@host/x@y", "sftp://host/x@y"),
        ("x.jsonl", "x.jsonl"),
    ],
)
def test_public(name: str, shown: str) -> None:
    """An address is shown without user, password and query."""
    assert public(name) == shown


@given(st.text(alphabet="abc:/@+=", min_size=1, max_size=12), st.sampled_from(["s3", "gs", "hf", "az"]))
def test_no_key_is_shown(secret: str, scheme: str) -> None:
    """Whatever a secret key in an address holds, nothing of it is shown."""
    assert public(f"{scheme}://KEY:{secret}@bucket/x") == f"{scheme}://bucket/x"


def test_read(store: Store) -> None:
    """An object is read at any place, in blocks, and only what is asked for is fetched."""
    data = random.Random(1).randbytes(30 << 20)
    store.objects["/bucket/x"] = data
    with open_remote("s3://bucket/x") as file:
        assert file.seekable()
        assert file.read(10) == data[:10]
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:]
        file.seek(15 << 20)
        assert file.read(1000) == data[15 << 20 :][:1000]
        assert store.served < 10 << 20
        file.seek(0)
        assert b"".join(iter(lambda: file.read(1 << 20), b"")) == data
    assert store.largest <= 2 << 20


def test_parquet(store: Store) -> None:
    """Of a remote Parquet file the first rows come before it is fetched."""
    noise = random.Random(1)
    table = pa.table({"i": list(range(3000)), "s": [noise.randbytes(5000).hex() for _ in range(3000)]})
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=300, use_dictionary=False, compression="NONE")
    store.objects["/bucket/x.parquet"] = file.getvalue()
    with open_remote("s3://bucket/x.parquet") as stream:
        rows = Parquet("s3://bucket/x.parquet", stream).records()
        assert next(rows).raw.startswith(b'{"i":0,"s":"')
        assert store.served < len(file.getvalue()) / 2
        assert sum(1 for _ in rows) == 2999


def test_http(store: Store) -> None:
    """A server that knows ranges is read in parts; nothing can be written there."""
    store.objects["/bucket/x"] = b"abc" * 2_000_000
    name = f"{store.url}/bucket/x?sig={SECRET}"
    with open_remote(name) as file:
        file.seek(5_000_001)
        assert file.read(4) == b"abca"
    assert expand_remote(name) == [name]
    with pytest.raises(UsageError, match="nothing can be written there") as error:
        RemoteFile(name)
    said(error)


@pytest.mark.parametrize("size", [0, 5, 20_000_000], ids=["empty", "small", "several parts"])
def test_whole(store: Store, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """An object appears with `commit`, whole, and not before, though its parts are sent as they fill."""
    monkeypatch.setattr(remote_output, "_PART", 6 << 20)
    data = random.Random(1).randbytes(size)
    with RemoteFile("s3://bucket/out") as out:
        for at in range(0, size, 1 << 20):
            out.write(data[at : at + (1 << 20)])
        assert store.objects == {}
        assert sum(len(parts) for parts in store.uploads.values()) == size // (6 << 20)
        out.commit()
    assert store.objects == {"/bucket/out": data}
    assert store.uploads == {}


@pytest.mark.parametrize("size", [5, 20_000_000], ids=["small", "several parts"])
def test_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """What is not committed never appears, its parts are removed, and what was there stays."""
    monkeypatch.setattr(remote_output, "_PART", 6 << 20)
    store.objects["/bucket/out"] = b"old"
    with pytest.raises(ZeroDivisionError), RemoteFile("s3://bucket/out") as out:
        out.write(bytes(size))
        raise ZeroDivisionError
    assert store.objects == {"/bucket/out": b"old"}
    assert store.uploads == {}


@pytest.mark.parametrize("after", [0, 1])
def test_refused_midway(store: Store, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """A store that stops taking parts is told with the way out, and nothing is left there."""
    monkeypatch.setattr(remote_output, "_PART", 6 << 20)
    store.refuse_puts_after = after

    def write() -> None:
        with RemoteFile("s3://bucket/out") as out:
            for _ in range(20):
                out.write(bytes(1 << 20))
            out.commit()

    with pytest.raises(OutputError, match=r"s3://bucket/out: cannot be written: access is refused") as error:
        write()
    said(error)
    assert store.objects == {}
    assert store.uploads == {}


def test_absent(store: Store) -> None:
    """An object, a bucket or a directory that is not there is told before anything is asked of a judge."""
    store.objects["/bucket/d/x"] = b"x"
    with pytest.raises(UsageError, match=r"s3://bucket/y: there is no such object"):
        open_remote("s3://bucket/y")
    with pytest.raises(UsageError, match=r"s3://nobucket/y: cannot be written: there is no such object"):
        RemoteFile("s3://nobucket/y")
    with pytest.raises(UsageError, match=r"s3://bucket/d: is a directory"):
        open_remote("s3://bucket/d")
    with pytest.raises(UsageError, match=r"s3://bucket/\*.none: there is no file"):
        expand_remote("s3://bucket/*.none")


def test_refused(store: Store) -> None:
    """A store that refuses is told in a sentence, without its own words."""
    store.refuse = 403
    with pytest.raises(UsageError, match="access is refused; check the credentials") as error:
        open_remote("s3://bucket/x")
    said(error)


def test_refused_while_reading(store: Store) -> None:
    """So is one that refuses while an object is read."""
    store.objects["/bucket/x"] = bytes(10 << 20)
    with open_remote("s3://bucket/x") as file:
        file.read(10)
        store.refuse = 403
        with pytest.raises(UsageError, match="access is refused") as error:
            file.read()
    said(error)


def test_no_credentials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the sentence says so."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UsageError, match="no credentials were found"):
        RemoteFile("s3://bucket/x")


def test_unreachable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not listen is told as that."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    for name in ("s3://bucket/x", "http://127.0.0.1:9/x"):
        with pytest.raises(UsageError, match="cannot be reached"):
            open_remote(name)


def test_key_in_address() -> None:
    """A key in the address of a store is refused, and not repeated."""
    with pytest.raises(UsageError, match=r"^s3://bucket/x: holds a key") as error:
        open_remote(f"s3://AKIA:{SECRET}@bucket/x")
    said(error)


def test_expand(store: Store) -> None:
    """A directory is the files directly in it, a pattern what it matches, in order; notes are left out."""
    for key in ("d/b.jsonl", "d/a.jsonl", "d/_SUCCESS", "d/.x", "d/sub/c.jsonl"):
        store.objects[f"/bucket/{key}"] = b"x"
    both = ["s3://bucket/d/a.jsonl", "s3://bucket/d/b.jsonl"]
    assert expand_remote("s3://bucket/d") == both
    assert expand_remote("s3://bucket/d/") == both
    assert expand_remote("s3://bucket/d/*.jsonl") == both
    assert expand_remote("s3://bucket/d/a.jsonl") == both[:1]
    assert expand_remote("s3://bucket/**/c.jsonl") == ["s3://bucket/d/sub/c.jsonl"]
    with pytest.raises(UsageError, match="is no pattern"):
        expand_remote("s3://bucket/**.jsonl")


def test_renamed(memory: dict[str, Any]) -> None:
    """Elsewhere an object is NAME.partial until `commit` renames it."""
    with RemoteFile("memory://d/x") as out:
        out.write(b"whole")
        assert "/d/x" not in memory
        out.commit()
    assert list(memory) == ["/d/x"]
    assert expand_remote("memory://d") == ["memory://d/x"]
    assert open_remote("memory://d/x").read() == b"whole"
    with RemoteFile("memory://d/x") as out:
        out.write(b"half")
    assert list(memory) == ["/d/x"]
    assert open_remote("memory://d/x").read() == b"whole"


@pytest.mark.parametrize("size", [5, 3_000_000], ids=["small", "several parts"])
def test_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int) -> None:
    """On the Hugging Face hub, too, a file is uploaded by `commit` and never without it."""
    from huggingface_hub import HfApi, HfFileSystem
    from huggingface_hub.hf_file_system import HfFileSystemResolvedRepositoryPath

    uploaded: list[tuple[str, bytes]] = []

    def upload(_: HfApi, *, path_or_fileobj: str, path_in_repo: str, **_more: Any) -> None:
        uploaded.append((path_in_repo, Path(path_or_fileobj).read_bytes()))

    def resolve(_: HfFileSystem, *_args: Any, **_more: Any) -> Any:
        return HfFileSystemResolvedRepositoryPath(
            repo_type="dataset", repo_id="a/b", revision="main", path_in_repo="x.jsonl"
        )

    monkeypatch.setattr(HfApi, "upload_file", upload)
    monkeypatch.setattr(HfFileSystem, "resolve_path", resolve)
    monkeypatch.setattr(remote_output, "_PART", 1 << 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with RemoteFile("hf://datasets/a/b/x.jsonl") as out:
        out.write(bytes(size))
        out.write(b"end")
    gc.collect()
    assert uploaded == []
    with RemoteFile("hf://datasets/a/b/x.jsonl") as out:
        out.write(bytes(size))
        out.commit()
    assert uploaded == [("x.jsonl", bytes(size))]
    assert list(tmp_path.iterdir()) == []


def test_parquet_out(memory: dict[str, Any]) -> None:
    """A Parquet file is written to a remote object as it is."""
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), file)
    with RemoteFile("memory://x.parquet") as out:
        encoder = Parquet("in.parquet", file).encoder(cast(BinaryIO, out))
        encoder.put(2, b'{"a":2,"reward":0.5}')
        encoder.end()
        out.commit()
    with open_remote("memory://x.parquet") as stream:
        found = Parquet("memory://x.parquet", stream)
        assert [line.raw for line in found.records()] == [b'{"a":2,"reward":0.5}']


def test_local(tmp_path: Path) -> None:
    """The same through fsspec's local files."""
    name = f"local://{tmp_path}/x"
    with RemoteFile(name) as out:
        out.write(b"whole")
        out.commit()
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert expand_remote(f"local://{tmp_path}") == [name]
    with open_remote(name) as file:
        assert file.read() == b"whole"


def test_unknown() -> None:
    """A scheme that nobody knows is named."""
    with pytest.raises(UsageError, match="foo:// is no kind of address"):
        open_remote("foo://x/y")


@pytest.mark.parametrize(
    ("name", "missing", "package"),
    [
        ("s3://b/x", "s3fs", "s3fs"),
        ("gs://b/x", "gcsfs", "gcsfs"),
        ("hf://b/x", "huggingface_hub", "huggingface_hub"),
        ("s3://b/x", "fsspec.core", "s3fs"),
    ],
)
def test_not_installed(monkeypatch: pytest.MonkeyPatch, name: str, missing: str, package: str) -> None:
    """Where a package is missing the sentence names it and the extra."""
    known = sys.modules["fsspec.registry"].__dict__["_registry"]
    monkeypatch.delitem(known, name.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, missing, None)  # importing it fails
    with pytest.raises(UsageError, match=rf"needs the package {package}; .*'ruler-cli\[remote\]'"):
        open_remote(name)
