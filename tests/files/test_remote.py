"""Remote objects: read in parts, written whole or not at all, with error messages without keys."""

from __future__ import annotations

import gc
import io
import random
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import RulerError, UsageError
from ruler_cli.files import error_map
from ruler_cli.files.location import Location
from ruler_cli.files.output import PassThrough, create_file
from tests.files.object_store import Store

SECRET = "wJalr/XUtn+FEMI"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Start an empty store for s3:// addresses."""
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
    gc.collect()  # a client that is collected later would close itself in another test's loop


@pytest.fixture
def memory() -> Iterator[dict[str, Any]]:
    """Return the objects of memory://, none at first."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system.store
    system.store.clear()


def message_of(error: pytest.ExceptionInfo[RulerError]) -> str:
    """Return the message, which contains no key."""
    text = str(error.value)
    assert SECRET not in text
    assert "AKIA" not in text
    return text


def reading(name: str) -> Any:
    """Open an object for reading."""
    return Location(name).store().open()


def writing(name: str) -> closing[PassThrough]:
    """Open an object for writing; the context discards what is not committed."""
    return closing(create_file(Location(name), force=True))


def listed(name: str) -> Any:
    """Return the listing of the objects that an address matches."""
    return Location(name).listed()


def expanded(name: str) -> list[str]:
    """Return the objects that an address matches."""
    return Location(name).store().expand()


ADDRESSES = (
    "s3://b/x",
    "hf://datasets/a/b/x.parquet",
    "GS://b/x",
    "http://h/x",
    "memory://x",
)
FILES = (
    "file:///x",
    "C:\\x",
    "C:/x",
    "c://x",
    "x.jsonl",
    "-",
    "dir/s3://x",
    "",
    "://x",
)
SHOWN = (
    (f"s3://AKIA:{SECRET}@bucket/a/x.jsonl", "s3://bucket/a/x.jsonl"),
    ("s3://bucket/a@b/x.jsonl?versionId=3", "s3://bucket/a@b/x.jsonl"),
    ("s3://bucket/part-?.jsonl", "s3://bucket/part-?.jsonl"),
    ("https://me:pw@host:8080/x.jsonl?sig=abc#f", "https://host:8080/x.jsonl"),
    ("https://host/x?token", "https://host/x"),
    ("hf://datasets/a/b@main/x.parquet", "hf://datasets/a/b@main/x.parquet"),
    ("sftp://me:pw@host/x@y", "sftp://host/x@y"),
    ("x.jsonl", "x.jsonl"),
    ("http://user:pa/ss@host:9/x.jsonl", "http://host:9/x.jsonl"),
    ("http://host:8080/a@b.jsonl", "http://host:8080/a@b.jsonl"),
)


def test_addresses() -> None:
    """An address has a scheme of two letters or more, and is shown without user, password and query."""
    assert [
        name for name in (*ADDRESSES, *FILES) if Location(name).remote
    ] == list(ADDRESSES)
    assert [Location(name).public for name, _ in SHOWN] == [
        shown for _, shown in SHOWN
    ]


@given(
    st.text(alphabet="abc:/@+=", min_size=1, max_size=12),
    st.sampled_from(["s3", "gs", "hf", "az"]),
)
def test_no_key_is_shown(secret: str, scheme: str) -> None:
    """No part of a secret key in an address is shown, with any characters in it."""
    assert (
        Location(f"{scheme}://KEY:{secret}@bucket/x").public
        == f"{scheme}://bucket/x"
    )


def test_read(store: Store) -> None:
    """An object is read at any offset, in blocks, and only the blocks that are read are fetched."""
    data = random.Random(1).randbytes(30 << 20)
    store.objects["/bucket/x"] = data
    with reading("s3://bucket/x") as file:
        assert file.read(10) == data[:10]
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:]
        file.seek(15 << 20)
        assert file.read(1000) == data[15 << 20 :][:1000]
        assert store.served < 10 << 20
        file.seek(0)
        assert b"".join(iter(lambda: file.read(1 << 20), b"")) == data
    assert store.largest <= 2 << 20


def test_http(store: Store) -> None:
    """A server that supports ranges is read in parts; this storage is read-only."""
    store.objects["/bucket/x"] = b"abc" * 2_000_000
    name = f"{store.url}/bucket/x?sig={SECRET}"
    with reading(name) as file:
        file.seek(5_000_001)
        assert file.read(4) == b"abca"
    assert not Location(name).many
    with pytest.raises(UsageError, match="this storage is read-only") as error:
        writing(name)
    message_of(error)


@pytest.mark.parametrize(
    "size", [0, 20_000_000], ids=["empty", "several parts"]
)
def test_atomic(store: Store, size: int) -> None:
    """An object appears with `commit`, whole; without it the old object stays, and no part remains."""
    data = random.Random(1).randbytes(size)
    store.objects["/bucket/out"] = b"old"
    with pytest.raises(ZeroDivisionError), writing("s3://bucket/out") as out:
        out.stream.write(data)
        raise ZeroDivisionError
    assert (store.objects, store.uploads) == ({"/bucket/out": b"old"}, {})
    with writing("s3://bucket/out") as out:
        for at in range(0, size, 1 << 20):
            out.stream.write(data[at : at + (1 << 20)])
        assert store.objects == {"/bucket/out": b"old"}
        out.commit()
    assert (store.objects, store.uploads) == ({"/bucket/out": data}, {})


def test_sentences(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an address that cannot be read or written is one sentence of ruler's own."""
    import s3fs

    store.objects |= {"/bucket/d/x": b"x", "/bucket/long": bytes(10 << 20)}

    def refuses(act: Any, name: str, words: str) -> None:
        with pytest.raises(UsageError, match=words) as error:
            act(name)
        message_of(error)

    refuses(
        reading,
        "s3://bucket/y",
        r"s3://bucket/y: cannot be read: no such object",
    )
    refuses(
        writing,
        "s3://nobucket/y",
        r"s3://nobucket/y: cannot be written: no such object",
    )
    refuses(
        listed,
        "s3://bucket/*.none",
        r"s3://bucket/\*.none: holds no file to read",
    )
    refuses(expanded, "s3://bucket/**.jsonl", "cannot be read")
    refuses(
        reading, f"s3://AKIA:{SECRET}@bucket/x", r"^s3://bucket/x: holds a key"
    )
    refuses(reading, "foo://x/y", "fsspec knows no addresses of this kind")
    with reading("s3://bucket/long") as file:
        file.read(10)
        store.refuse = 403
        denied = pytest.raises(
            UsageError, match="access denied; check the credentials"
        )
        with denied, error_map.reading("s3://bucket/long"):
            file.read()
    s3fs.S3FileSystem.clear_instance_cache()  # it lists objects that do not exist
    refuses(reading, "s3://bucket/x", "access denied; check the credentials")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    refuses(reading, "s3://bucket/x", "EndpointConnectionError")
    refuses(
        reading, "http://127.0.0.1:9/x", "check the address and the network"
    )


def test_no_credentials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the sentence says so."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UsageError, match="NoCredentialsError"):
        writing("s3://bucket/x")


def test_expand(store: Store) -> None:
    """A directory matches its direct files, a pattern its matches, in order; notes are left out."""
    for key in (
        "d/b.jsonl",
        "d/a.jsonl",
        "d/_SUCCESS",
        "d/.x",
        "d/sub/c.jsonl",
    ):
        store.objects[f"/bucket/{key}"] = b"x"
    both = ["s3://bucket/d/a.jsonl", "s3://bucket/d/b.jsonl"]
    for name in ("s3://bucket/d", "s3://bucket/d/", "s3://bucket/d/*.jsonl"):
        assert expanded(name) == both
    assert expanded("s3://bucket/d/a.jsonl") == both[:1]
    assert expanded("s3://bucket/**/c.jsonl") == ["s3://bucket/d/sub/c.jsonl"]


def test_renamed(memory: dict[str, Any]) -> None:
    """On other file systems an object is NAME.partial until `commit` renames it."""
    for text, commit in ((b"whole", True), (b"half", False)):
        with writing("memory://d/x") as out:
            out.stream.write(text)
            if commit:
                assert "/d/x" not in memory
                out.commit()
    assert list(memory) == ["/d/x"]
    assert expanded("memory://d") == ["memory://d/x"]
    assert reading("memory://d/x").read() == b"whole"


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing package names it."""
    known = sys.modules["fsspec.registry"].__dict__["_registry"]
    for scheme, missing in (("s3", "s3fs"), ("gs", "gcsfs")):
        monkeypatch.delitem(known, scheme, raising=False)
        monkeypatch.setitem(sys.modules, missing, None)  # importing it fails
        with pytest.raises(
            UsageError,
            match=rf"needs a package \(.*{missing}.*\); install s3fs for s3",
        ):
            reading(f"{scheme}://b/x")
