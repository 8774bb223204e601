"""What both providers do alike: submit once, find again, fetch, cancel."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ruler_cli.batches.provider import UnclearError, UnknownBatchError
from ruler_cli.errors import RefusedError, RulerError
from tests.batch_server import BatchServer
from tests.batches.apis import APIS, KEY, TAG, api, every, requests, submit
from tests.batches.raw import Call, serving

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("name", APIS)


@both
async def test_happy(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """What was submitted is processed once, and every request has its row."""
    file = requests(tmp_path / "r.jsonl", name, 5)
    async with api(name, batch_server) as made:
        first = await submit(made, file)
        assert (first.state, first.tag) == ("running", TAG if made.tagged else None)
        remote = await made.retrieve(first.id)
        assert (remote.state, remote.total, remote.succeeded, remote.failed) == ("ended", 5, 5, 0)
        rows = [json.loads(row) for row in await every(made.results(remote))]
    assert {row["custom_id"] for row in rows} == {f"{i:032x}" for i in range(5)}
    assert (batch_server.created, batch_server.billed, batch_server.billed_again) == (1, 5, 0)
    assert batch_server.keys == {KEY}


@both
async def test_results_of_a_remembered_batch(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """Results are found by the id alone, as a later run has it."""
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 3))
        assert not first.files
        assert len(await every(made.results(first))) == 3


@both
async def test_listing(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """All pages are listed, newest first, back to the time asked for and no further."""
    async with api(name, batch_server) as made:
        for at in range(8):
            batch_server.conduct.clock = 1000.0 + at
            await submit(made, requests(tmp_path / "r.jsonl", name, 1, start=at), f"tag-{at}")
        assert [each.created for each in await every(made.listed(0))] == [1007.0 - at for at in range(8)]
        batch_server.steps.clear()
        assert [each.created for each in await every(made.listed(1006.0))] == [1007.0, 1006.0]
        assert batch_server.steps == ["list"]


@both
async def test_listing_out_of_order(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A listing that is not in the order of time is read to its end: nothing new is missed in it."""
    times = [1009.0, 1008.0, 1001.0, 1002.0, 1007.0, 1003.0]  # the last is listed first
    async with api(name, batch_server) as made:
        for at, when in enumerate(times):
            batch_server.conduct.clock = when
            await submit(made, requests(tmp_path / "r.jsonl", name, 1, start=at))
        found = [each.created for each in await every(made.listed(1005.0))]
    assert sorted(found) == [1007.0, 1008.0, 1009.0]


@both
async def test_listing_lags(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A new batch may be missing from a listing and be in a later one."""
    batch_server.conduct.lag = 2
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 1))
        seen = [[each.id for each in await every(made.listed(0))] for _ in range(3)]
    assert seen == [[], [], [first.id]]


@both
async def test_steps(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A batch runs until its provider says that it has ended."""
    batch_server.conduct.pace = "advance"
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 2))
        states = []
        for _ in range(4):
            states.append((await made.retrieve(first.id)).state)
            batch_server.advance()
    assert states == ["running", "running", "running", "ended"]


@both
@pytest.mark.parametrize("steps", [0, 1])
async def test_cancel(name: str, steps: int, batch_server: BatchServer, tmp_path: Path) -> None:
    """A canceled batch ends with what was done, and has a row for what was not."""
    batch_server.conduct.pace = "advance"
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 4))
        batch_server.advance(steps)
        assert (await made.cancel(first.id)).state == "running"
        assert (await made.cancel(first.id)).state == "running"  # once more does no harm
        batch_server.advance()
        remote = await made.cancel(first.id)  # nor does it at the end
        assert (remote.state, remote.succeeded) == ("ended", 2 * steps)
        assert len(await every(made.results(remote))) == 4
    assert batch_server.billed == 2 * steps


@both
async def test_cancel_that_is_refused(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A batch that runs on although its end was asked for is told as such."""
    batch_server.conduct.pace = "advance"
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 1))
        batch_server.fault("cancel", "403")
        with pytest.raises(RefusedError, match="answered 403"):
            await made.cancel(first.id)


@both
async def test_no_listing(name: str) -> None:
    """An endpoint that answers with anything but a listing has none: it is not taken to be empty."""

    async def play(call: Call) -> None:
        await call.answer(b'{"object": "list", "data": {}}')

    async with serving(play, []) as base:
        server = BatchServer()
        server.openai = server.anthropic = base
        async with api(name, server) as made:
            with pytest.raises(RulerError, match="is no listing"):
                await every(made.listed(0))


@both
async def test_expired(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """An expired batch gives what was done in time, and has a row for what was not."""
    batch_server.conduct.expires = 3
    async with api(name, batch_server) as made:
        remote = await made.retrieve((await submit(made, requests(tmp_path / "r.jsonl", name, 5))).id)
        assert (remote.state, remote.succeeded) == ("ended", 3)
        rows = await every(made.results(remote))
    assert len(rows) == 5
    assert sum(b"expired" in row for row in rows) == 2


@both
async def test_rows_as_they_came(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """Rows come as the provider wrote them: malformed, double and foreign ones too."""
    async with api(name, batch_server) as made:
        got = Counter[str]()
        kinds = ("malformed", "missing", "duplicate", "foreign", "error")
        for at, kind in enumerate(kinds):
            file = requests(tmp_path / "r.jsonl", name, 2, f"row-{kind}", start=2 * at)
            rows = await every(made.results(await submit(made, file, kind)))
            got[kind] = len(rows)
            got["json"] += sum(row.endswith(b"}") and row.startswith(b"{") for row in rows)
    assert [got[kind] for kind in kinds] == [2, 0, 4, 4, 2]
    assert got["json"] == 10


@both
async def test_unknown_batch(name: str, batch_server: BatchServer) -> None:
    """An id that the provider does not know is told as such, and is asked for once."""
    async with api(name, batch_server) as made:
        for ask in (made.retrieve, made.cancel):
            with pytest.raises(UnknownBatchError, match=r"knows no batch batch_9999: .*another key"):
                await ask("batch_9999")
    assert batch_server.steps == ["retrieve", "cancel"]


@both
@pytest.mark.parametrize("kind", ["drop-after", "500-after", "half", "html", "huge"])
async def test_unclear(name: str, kind: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A creation without a good answer is unclear, and never asked for again."""
    file = requests(tmp_path / "r.jsonl", name, 2)
    async with api(name, batch_server) as made:
        batch_server.fault("create", kind)
        with pytest.raises(UnclearError, match="whether there is a batch now is not known"):
            await submit(made, file)
        assert batch_server.created == 1
        listed = await every(made.listed(0))
        assert [each.tag for each in listed] == [TAG if made.tagged else None]


@both
@pytest.mark.parametrize("kind", ["drop", "500"])
async def test_unclear_though_nothing_was_done(
    name: str, kind: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """Nobody can tell a request that was lost from one whose answer was: it is not asked for again either."""
    async with api(name, batch_server) as made:
        batch_server.fault("create", kind)
        with pytest.raises(UnclearError):
            await submit(made, requests(tmp_path / "r.jsonl", name, 2))
    assert batch_server.created == 0


@both
async def test_unclear_after_silence(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A creation that is never answered is unclear once the deadline is over."""
    async with api(name, batch_server, timeout=0.2) as made:
        batch_server.fault("create", "hang-after")
        with pytest.raises(UnclearError, match="did not answer in time"):
            await submit(made, requests(tmp_path / "r.jsonl", name, 2))
    assert batch_server.created == 1


@both
async def test_limit_at_creation(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A creation that a limit refused was not done: it is asked for again, and done once."""
    waits: list[float] = []
    async with api(name, batch_server, waits) as made:
        batch_server.fault("create", "429", times=2)
        await submit(made, requests(tmp_path / "r.jsonl", name, 2))
    assert (batch_server.created, len(waits)) == (1, 2)


@both
@pytest.mark.parametrize("kind", ["401", "403", "quota", "400", "413", "302", "404"])
async def test_refused(name: str, kind: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """What will not pass is refused at once, in a sentence without the key."""
    async with api(name, batch_server) as made:
        batch_server.fault("create", kind)
        with pytest.raises(RefusedError) as caught:
            await submit(made, requests(tmp_path / "r.jsonl", name, 2))
    assert str(caught.value).startswith("the batch API at 127.0.0.1:")
    assert KEY not in str(caught.value)
    assert batch_server.created == 0


@both
@pytest.mark.parametrize("kind", ["429", "500", "drop", "half"])
@pytest.mark.parametrize("step", ["list", "retrieve", "results", "cancel"])
async def test_asked_again(
    name: str, kind: str, step: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A question that was not answered is asked again, and its answer is whole."""
    waits: list[float] = []
    async with api(name, batch_server, waits) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 3))
        batch_server.fault(step, kind, times=2)
        if step == "list":
            assert len(await every(made.listed(0))) == 1
        elif step == "results":
            assert len(set(await every(made.results(await made.retrieve(first.id))))) == 3
        else:
            assert (await getattr(made, step)(first.id)).state == "ended"
    assert len(waits) in (1, 2)  # aiohttp itself asks once more where a connection broke


@both
async def test_gives_up(name: str, batch_server: BatchServer) -> None:
    """A provider that stays out of order is given up with a sentence, after a few tries."""
    waits: list[float] = []
    async with api(name, batch_server, waits) as made:
        batch_server.fault("list", "500", times=100)
        with pytest.raises(RulerError, match=r"answered 500: .*run the same command again later"):
            await every(made.listed(0))
    assert 3 <= len(waits) <= 10


@both
async def test_redirect(name: str, batch_server: BatchServer) -> None:
    """An endpoint that sends elsewhere is not followed with a key."""
    async with api(name, batch_server) as made:
        batch_server.fault("list", "302")
        with pytest.raises(RefusedError, match="a key must not follow"):
            await every(made.listed(0))
    assert batch_server.steps == []


@both
async def test_unreached(name: str, tmp_path: Path) -> None:
    """Where nobody listens nothing was done: that is tried again, then told as what it is."""
    with BatchServer() as gone:
        pass
    waits: list[float] = []
    async with api(name, gone, waits) as made:
        with pytest.raises(RefusedError, match="cannot be reached"):
            await made.create(requests(tmp_path / "r.jsonl", name, 1), "file-1", TAG, 1)
    assert len(waits) > 1
