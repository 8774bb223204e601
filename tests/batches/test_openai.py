"""OpenAI's side: the file, its name, the tag, and what its words mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ruler_cli.batches.provider import UnclearError
from ruler_cli.batches.told import OddError
from ruler_cli.errors import RulerError
from tests.batch_server import BatchServer
from tests.batches.apis import TAG, api, every, requests, submit
from tests.batches.raw import Call, serving

pytestmark = pytest.mark.anyio


def _batch(**fields: Any) -> dict[str, Any]:
    return {"id": "batch_1", "object": "batch", "status": "in_progress", "created_at": 1000, **fields}


def _read(value: Any) -> Any:
    return api("openai", BatchServer(), via="http").remote(value)


async def test_upload(batch_server: BatchServer, tmp_path: Path) -> None:
    """The file arrives byte by byte, under its name and for its purpose."""
    file = requests(tmp_path / "r.jsonl", "openai", 5)
    async with api("openai", batch_server) as made:
        id = await made.upload(file, TAG)
        kept = batch_server.store.files[id]
        assert (kept.data, kept.name, kept.purpose) == (file.read_bytes(), f"ruler-{TAG}.jsonl", "batch")
        assert await made.uploaded(TAG) == id
        assert await made.uploaded("tag") is None


async def test_uploaded_among_many(batch_server: BatchServer) -> None:
    """A file is found on any page of the listing, the newest where there are several."""
    for at in range(9):
        batch_server.store.keep(f"ruler-{'x' if at in (1, 2) else at}.jsonl", "batch", b"{}\n")
    async with api("openai", batch_server) as made:
        assert await made.uploaded("x") == "file-0003"


@pytest.mark.parametrize("kind", ["drop-after", "500-after", "half"])
async def test_upload_is_not_made_twice(kind: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A file that arrived while its answer did not is found by its name."""
    async with api("openai", batch_server) as made:
        batch_server.fault("upload", kind)
        id = await made.upload(requests(tmp_path / "r.jsonl", "openai", 2), TAG)
    assert list(batch_server.store.files) == [id]


@pytest.mark.parametrize("kind", ["drop", "500", "429"])
async def test_upload_again(kind: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A file that did not arrive is sent again."""
    async with api("openai", batch_server) as made:
        batch_server.fault("upload", kind, times=2)
        assert await made.upload(requests(tmp_path / "r.jsonl", "openai", 2), TAG) == "file-0001"


async def test_only_a_whole_file_is_found(tmp_path: Path) -> None:
    """A file of that name that the provider rejected, or that is of another size, is not taken for ours."""
    file, posts = requests(tmp_path / "r.jsonl", "openai", 2), 0
    named = {"filename": f"ruler-{TAG}.jsonl", "status": "processed"}
    cut = named | {"id": "file-cut", "bytes": 3}
    bad = named | {"id": "file-bad", "bytes": len(file.read_bytes()), "status": "error"}

    async def play(call: Call) -> None:
        nonlocal posts
        await call.body()
        if "GET" in call.head:
            await call.answer(orjson.dumps({"data": [cut, bad], "has_more": False}))
            return
        posts += 1
        await call.answer(b'{"id": "file-whole"}', 200 if posts > 1 else 500)

    async with serving(play, []) as base:
        server = BatchServer()
        server.openai = base
        async with api("openai", server) as made:
            assert await made.upload(file, TAG) == "file-whole"
            assert await made.uploaded(TAG) == "file-cut"  # no size is known there


async def test_file_that_lacks_bytes(tmp_path: Path) -> None:
    """A file of which the provider holds another size is not used."""

    async def play(call: Call) -> None:
        await call.body()
        await call.answer(b'{"id": "file-1", "bytes": 3}')

    async with serving(play, []) as base:
        server = BatchServer()
        server.openai = base
        async with api("openai", server) as made:
            with pytest.raises(RulerError, match=r"3 of \d+ bytes arrived"):
                await made.upload(requests(tmp_path / "r.jsonl", "openai", 1), TAG)


async def test_dropped_tag(batch_server: BatchServer, tmp_path: Path) -> None:
    """Where an endpoint drops the tag, the uploaded file tells whose batch it is."""
    batch_server.conduct.tags = False
    async with api("openai", batch_server) as made:
        await submit(made, requests(tmp_path / "r.jsonl", "openai", 2))
        found = await every(made.listed(0))
        assert [(each.tag, each.file) for each in found] == [(None, await made.uploaded(TAG))]


async def test_failed_validation(batch_server: BatchServer, tmp_path: Path) -> None:
    """A batch that was not valid has failed, for a reason, and nothing is billed."""
    file = tmp_path / "r.jsonl"
    file.write_text(requests(file, "openai", 1).read_text() * 2)
    async with api("openai", batch_server) as made:
        remote = await made.retrieve((await submit(made, file)).id)
        assert (remote.state, remote.label) == ("failed", "failed")
        assert remote.reason.startswith("line 1: A custom_id comes twice")
        assert await every(made.results(remote)) == []
    assert batch_server.billed == 0


async def test_results_gone(batch_server: BatchServer, tmp_path: Path) -> None:
    """Results that the provider has deleted are told as such."""
    async with api("openai", batch_server) as made:
        remote = await made.retrieve((await submit(made, requests(tmp_path / "r.jsonl", "openai", 1))).id)
        batch_server.store.files.clear()
        with pytest.raises(RulerError, match=r"no longer \(file file-0002\); submit what is missing again"):
            await every(made.results(remote))


async def test_both_files(batch_server: BatchServer, tmp_path: Path) -> None:
    """What was answered comes first, then what was not."""
    async with api("openai", batch_server) as made:
        file = requests(tmp_path / "r.jsonl", "openai", 6, "some-row-refused")
        remote = await made.retrieve((await submit(made, file)).id)
        assert (remote.succeeded, remote.failed) == (4, 2)
        codes = [orjson.loads(row)["response"]["status_code"] for row in await every(made.results(remote))]
    assert codes == [200] * 4 + [400] * 2


@pytest.mark.parametrize(
    ("label", "state"),
    [
        ("validating", "running"),
        ("in_progress", "running"),
        ("finalizing", "running"),
        ("cancelling", "running"),
        ("completed", "ended"),
        ("COMPLETED", "ended"),
        ("expired", "ended"),
        ("cancelled", "ended"),
        ("failed", "failed"),
        ("a_new_word", "running"),
    ],
)
def test_states(label: str, state: str) -> None:
    """Every word is of a batch that goes on, unless it is known as an end."""
    assert _read(_batch(status=label)).state == state


def test_end_without_files() -> None:
    """A batch that has ended goes on until its files are there: paid answers are not missed."""
    counts = {"total": 3, "completed": 2, "failed": 1}
    for files in ({}, {"error_file_id": "e"}):
        assert _read(_batch(status="completed", request_counts=counts, **files)).state == "running"
    there = _read(_batch(status="completed", request_counts=counts, output_file_id="o", error_file_id="e"))
    assert (there.state, there.files) == ("ended", ("o", "e"))
    assert _read(_batch(status="cancelled", request_counts={"total": 3})).state == "ended"


async def test_results_not_there_yet(batch_server: BatchServer, tmp_path: Path) -> None:
    """Results that are counted but have no file yet are not taken for none."""
    async with api("openai", batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", "openai", 2))
        batch_server.store.batches[first.id].output = None
        with pytest.raises(RulerError, match="not there yet"):
            await every(made.results(first))


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (None, "its provider does not say why"),
        ({"data": [{"message": "bad \x1b[2J"}]}, "bad  [2J"),
        ({"data": [{"code": "too_many", "line": 7}, {}]}, "line 7: too_many (and 1 more)"),
        ({"data": [None, 3]}, "its provider does not say why"),
    ],
)
def test_reasons(errors: Any, reason: str) -> None:
    """Why a batch failed is one clean sentence, whatever its errors look like."""
    assert _read(_batch(status="failed", errors=errors)).reason == reason


@pytest.mark.parametrize(
    "fields",
    [{"id": None}, {"id": "a b"}, {"id": ""}, {"status": None}, {"created_at": None}, {"created_at": "soon"}],
)
def test_no_batch(fields: dict[str, Any]) -> None:
    """What has no id, no state or no time is no batch: nothing is guessed."""
    with pytest.raises(OddError):
        _read(_batch(**fields))


def test_odd_counts() -> None:
    """Counts and metadata of any shape are read as far as they go."""
    odd = _read(_batch(request_counts={"total": "9", "completed": -1, "failed": True}, metadata=[1]))
    assert (odd.total, odd.succeeded, odd.failed, odd.tag) == (0, 0, 0, None)
    assert _read(_batch(created_at="1970-01-01T00:00:10Z")).created == 10.0


async def test_creation_without_id(tmp_path: Path) -> None:
    """A creation that is answered without a batch's id is unclear; a listing that goes round is told."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.body()
        if "GET" in call.head:
            await call.answer(orjson.dumps({"data": [_batch()], "has_more": len(heads) < 9}))
        else:
            await call.answer(b'{"object": "batch"}')

    async with serving(play, heads) as base:
        server = BatchServer()
        server.openai = base
        async with api("openai", server) as made:
            with pytest.raises(UnclearError, match="whether there is a batch now"):
                await made.create(tmp_path, "file-1", TAG, 1)
            with pytest.raises(OddError, match="comes again"):
                await every(made.listed(0))


def test_failed_late() -> None:
    """A batch that is told as failed and has answers has ended: they are paid for."""
    assert _read(_batch(status="failed", output_file_id="file-1")).state == "ended"
    assert _read(_batch(status="failed")).state == "failed"


async def test_completed_before_its_files(batch_server: BatchServer, tmp_path: Path) -> None:
    """Where neither files nor counts are there yet, a batch that is completed has no results for now."""
    async with api("openai", batch_server) as made:
        remote = await submit(made, requests(tmp_path / "r.jsonl", "openai", 5))
        kept = batch_server.store.batches[remote.id]
        files, kept.output, kept.done, kept.lines = kept.output, None, [], []
        with pytest.raises(RulerError, match="not there yet"):
            await every(made.results(await made.retrieve(remote.id)))
        kept.output = files
        assert len(await every(made.results(await made.retrieve(remote.id)))) == 5
