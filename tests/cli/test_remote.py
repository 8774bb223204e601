"""`ruler score` from and to addresses: streamed in, written whole or not at all, no key in any sentence."""

from __future__ import annotations

import gc
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import zstd
from ruler_cli.runs.file import RunResult, score
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Observer
from tests.conftest import Ruler, group, rollout
from tests.files.object_store import Store
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.anyio

SCORE = ("-m", "offline", "--ledger", "none")
ROLLOUTS = [
    rollout(i / 10, f"{i}", group_id="aabbcc"[i], reward=i) for i in range(6)
]
SCATTERED = [
    rollout(i / 10, f"{i}", group_id="ab"[i % 2], reward=i) for i in range(6)
]


def lines(records: list[Any]) -> bytes:
    """Records as JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def table(records: list[Any]) -> bytes:
    """Records as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), file)
    return file.getvalue()


def rewards(data: bytes) -> list[int]:
    """The original rewards of the records of JSON lines that are scored."""
    records = [json.loads(line) for line in data.splitlines()]
    assert all(0 <= record["reward"] <= 1 for record in records)
    return [record["ruler"]["independent_reward"] for record in records]


@pytest.fixture
def memory() -> Iterator[dict[str, Any]]:
    """The objects of memory://, empty at first."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system.store
    system.store.clear()


def put(name: str, data: bytes) -> None:
    """Write an object at memory://."""
    with fsspec.open(f"memory://{name}", "wb") as file:
        file.write(data)


def get(name: str) -> bytes:
    """Return the bytes of an object at memory://."""
    with fsspec.open(f"memory://{name}", "rb") as file:
        result: bytes = file.read()
    return result


async def run(
    source: str, output: str, observer: Observer | None = None, **more: Any
) -> RunResult:
    """Score one address into another."""
    judge = more.pop("judge", JudgeSettings("offline"))
    return await score(
        ScoreSettings(InputSettings(source), output, judge, **more), observer
    )


async def test_lines(memory: dict[str, Any]) -> None:
    """Lines at an address are written to another, compressed by its name; no other object is left there."""
    for pack, records in (
        (bytes, ROLLOUTS),
        (gzip.compress, SCATTERED),
        (zstd.compress, SCATTERED),
    ):
        put("in/a", pack(lines(records)))
        assert (
            await run("memory://in/a", "memory://out/b.jsonl")
        ).stopped is None
        assert rewards(get("out/b.jsonl")) == [0, 1, 2, 3, 4, 5]
        await run("memory://in/a", "memory://out/b.jsonl.gz")
        assert rewards(gzip.decompress(get("out/b.jsonl.gz"))) == [
            0,
            1,
            2,
            3,
            4,
            5,
        ]
        assert set(memory) == {"/in/a", "/out/b.jsonl", "/out/b.jsonl.gz"}


async def test_parquet(memory: dict[str, Any], tmp_path: Path) -> None:
    """A table at an address is written as a table, in place too, or as lines if OUTPUT names them."""
    put("a.parquet", table(SCATTERED))
    await run("memory://a.parquet", "memory://a.parquet")
    after = pq.read_table(io.BytesIO(get("a.parquet"))).to_pylist()
    assert [row["ruler"]["independent_reward"] for row in after] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    await run("memory://a.parquet", str(tmp_path / "b.jsonl"))
    assert rewards((tmp_path / "b.jsonl").read_bytes()) == [0, 1, 2, 3, 4, 5]


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("memory://in", "memory://in/all.jsonl", {}, "lies in INPUT"),
    ("memory://in/*", "memory://in/a", {}, "lies in INPUT"),
    ("memory://in/a", "memory://out/", {}, "is a directory"),
    ("memory://in/none", "memory://b", {}, "no such object"),
    ("memory://none/*", "memory://b", {}, "holds no file to read"),
    (
        "memory://in/a",
        "memory://b",
        {"on_failure": "drop"},
        "with --set failed=FILE",
    ),
    (
        "memory://in/a",
        "memory://b",
        {"failed": Path("s3://u:secret@b/x")},
        "plain file on this machine",
    ),
    ("what://in/a", "b", {}, "no addresses of this kind"),
]


async def test_refused(memory: dict[str, Any]) -> None:
    """An address that cannot be read or written is reported, and no object is left behind."""
    put("in/a", lines(ROLLOUTS))
    for source, output, more, message in REFUSED:
        with pytest.raises(UsageError, match=message) as error:
            await run(source, output, **more)
        assert "secret" not in str(error.value)
        assert set(memory) == {"/in/a"}


class ChangesObject(Observer):
    """An observer that changes the object after the survey."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def started(self, groups: int | None) -> None:
        """Change the object."""
        put("a", self.data)


async def test_changed(memory: dict[str, Any]) -> None:
    """An object that is replaced after its survey is scored as it was."""
    for changed in (ROLLOUTS[:3], [*ROLLOUTS, *ROLLOUTS]):
        put("a", lines(ROLLOUTS))
        done = await run(
            "memory://a", "memory://b", ChangesObject(lines(changed))
        )
        assert done.stopped is None
        assert len(rewards(get("b"))) == 6


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store, with no connection of an earlier test."""
    import s3fs

    with Store() as server:
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()
    gc.collect()  # a client that is collected later would close itself in another test's loop


def environment(store: Store) -> dict[str, str]:
    """Return the variables that point s3:// at a store."""
    return {
        "AWS_ENDPOINT_URL_S3": store.url,
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "verysecret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_MAX_ATTEMPTS": "1",
    }


def test_s3(ruler: Ruler, store: Store) -> None:
    """The command reads an object and writes another one."""
    store.objects["/bucket/in/a"] = lines(ROLLOUTS)
    paths = ("s3://bucket/in/a", "s3://bucket/out/b")
    done = ruler("score", *paths, *SCORE, **environment(store))
    assert done.returncode == 0, done.stderr
    assert rewards(store.objects["/bucket/out/b"]) == [0, 1, 2, 3, 4, 5]
    assert set(store.objects) == {"/bucket/in/a", "/bucket/out/b"}
    assert not store.uploads
    piped = ruler("score", "s3://bucket/in", "-", *SCORE, **environment(store))
    assert piped.returncode == 0, piped.stderr
    assert rewards(piped.stdout.encode()) == [0, 1, 2, 3, 4, 5]


def test_s3_stopped(
    process: Ruler, store: Store, server: JudgeServer, tmp_path: Path
) -> None:
    """A stopped run names the address, no file that does not exist, and the command to go on."""
    store.objects["/bucket/a"] = lines(
        [group(f"g{i}", 0.1, 0.9) for i in range(9)]
    )
    more = (
        *f"-m openai/400 --api-base {server.base} --max-failures 2".split(),
    )
    done = process(
        "score", "s3://bucket/a", "s3://bucket/b", *more, **environment(store)
    )
    assert done.returncode == 1
    assert "s3://bucket/b is unchanged" in done.stderr
    assert ".partial" not in done.stderr
    assert "to resume: ruler score s3://bucket/a s3://bucket/b" in done.stderr
    assert set(store.objects) == {"/bucket/a"}
    assert not store.uploads
    assert not list(tmp_path.iterdir())


def test_s3_refuses(ruler: Ruler, store: Store, server: JudgeServer) -> None:
    """A store that refuses the object at the end is reported, and the rerun sends no request again."""
    store.objects["/bucket/a"] = lines([group("g", 0.1, 0.9)])
    run = (
        *f"score s3://bucket/a s3://bucket/b -m openai/good --api-base {server.base}".split(),
    )
    store.refuse_puts_after = 0
    done = ruler(*run, **environment(store))
    assert done.returncode == 1
    assert "s3://bucket/b: cannot be written: access denied" in done.stderr
    assert [*store.objects] == ["/bucket/a"]
    store.refuse_puts_after = None
    assert ruler(*run, **environment(store)).returncode == 0
    assert server.stats()["requests"] == 1


def test_secrets(ruler: Ruler, store: Store) -> None:
    """No sentence of any command shows a secret of an address."""
    store.objects["/bucket/a"] = b"oops\n" + lines([*ROLLOUTS, 7])
    address = (
        store.url.replace("://", "://me:verysecret@")
        + "/bucket/a?token=verysecret"
    )
    for command in (
        ("check", address),
        ("check", address, "--json"),
        ("prompt", address),
        ("prompt", address, "--group", "none"),
        ("score", address, "-", *SCORE),
        ("score", address, "-", "-m", "offline", "--max-failures", "0"),
        ("score", "s3://key:verysecret@bucket/a", "b", *SCORE),
        ("score", "none", "s3://key:verysecret@bucket/b", *SCORE),
        (
            "score",
            "none",
            "b",
            "--set",
            "failed=s3://key:verysecret@bucket/b",
            *SCORE,
        ),
        (
            "score",
            "none",
            "b",
            "--summary",
            "s3://key:verysecret@bucket/b",
            *SCORE,
        ),
    ):
        done = ruler(*command, **environment(store))
        assert "verysecret" not in done.stderr + done.stdout, done.stderr
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1, 2), done.stderr
        if command[-1] == "--json":
            assert json.loads(done.stdout)["input"].endswith("/bucket/a")
