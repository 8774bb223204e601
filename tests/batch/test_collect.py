"""Collection: replies are stored once, failed calls are rows of the ledger, other requests are free again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ruler_cli.errors import RefusedError, UsageError
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.batches import Batches, BatchStatus
from ruler_cli.runs.batch.journal import Journal
from ruler_cli.runs.batch.providers import (
    Provider,
    RemoteBatch,
    UnreachableError,
)
from tests.batch.apis import APIS
from tests.batch.crashes import Client
from tests.judge_server import BatchServer
from tests.judge_server import batch_rows as rows

each_api = pytest.mark.parametrize("name", APIS)
one_api = pytest.mark.parametrize("name", APIS[:1])


def client_of(
    folder: Path,
    server: BatchServer,
    name: str,
    model: str = "m",
    **limits: int,
) -> Client:
    """A client with six requests."""
    return Client(folder, server, name, 6, model, **limits)


@each_api
def test_temporary_errors(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """Rows that failed temporarily, or are missing, are free, and the next submission takes only them."""
    for kind in ("error", "expired", "missing"):
        (tmp_path / kind).mkdir()
        client = client_of(
            tmp_path / kind, batch_server, name, f"some-row-{kind}"
        )
        client.submit()
        done = client.collect()
        (batch,) = client.batches()
        assert (batch.state, batch.answered, batch.failed, batch.left_out) == (
            "collected",
            4,
            0,
            2,
        ), kind
        assert (done.open, done.left_out) == ([], 2)
        assert client.submit().requests == 2
        assert client.collect().left_out == 0


@each_api
def test_lasting_errors(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """A refused row is a failed call in the ledger, and is sent again only with --retry-failed."""
    client = client_of(tmp_path, batch_server, name, "some-row-refused")
    client.submit()
    done = client.collect()
    assert (done.open, client.batches()[0].failed, done.left_out) == ([], 2, 0)
    with Ledger(client.ledger_path) as ledger:
        assert ledger.stats().rows["fault"] == 2
    assert client.submit().requests == 0
    assert client.submit(retry_failed=True).requests == 2


@each_api
def test_malformed_rows(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """Malformed, repeated and foreign rows are counted and reported, and affect no other row."""
    for kind, answered, odd in (
        ("malformed", 4, 2),
        ("duplicate", 6, 0),
        ("foreign", 6, 2),
    ):
        (tmp_path / kind).mkdir()
        client = client_of(
            tmp_path / kind, batch_server, name, f"some-row-{kind}"
        )
        client.submit()
        (closed,) = client.collect().closed
        assert (closed.answered, closed.left_out) == (
            answered,
            6 - answered,
        ), kind
        assert len(client.listener.warnings) == odd
        with Ledger(client.ledger_path) as ledger:
            assert ledger.stats().rows["answer"] == answered


def test_invalid(tmp_path: Path) -> None:
    """A batch that its provider rejects as invalid has failed, with the reason, and its requests are free."""
    with BatchServer(fails=True) as server:
        client = client_of(tmp_path, server, "openai")
        client.submit()
        done = client.collect()
        (batch,) = client.batches()
        assert (batch.state, batch.left_out, done.open) == ("failed", 6, [])
        assert "The batch is not valid, said the test." in batch.reason
        server.conduct.fails = False
        client.until_complete()
        assert client.missing() == 0


@one_api
def test_wait(name: str, tmp_path: Path) -> None:
    """With a wait the collection polls until all batches have ended, or the time is over."""
    with BatchServer(pace="retrieve") as server:
        client = client_of(tmp_path, server, name, requests=2)
        client.submit()
        assert client.collect().open
        assert not client.collect(wait=30.0).open
        assert [batch.state for batch in client.batches()] == ["collected"] * 3
    (tmp_path / "late").mkdir()
    with BatchServer(pace="advance") as server:
        client = client_of(tmp_path / "late", server, name)
        client.submit()
        assert client.collect(wait=0.2).open[0].remote is not None


@each_api
def test_cancel(name: str, tmp_path: Path) -> None:
    """Answers of a canceled batch are imported, and its other requests are free."""
    with BatchServer(pace="retrieve") as server:
        client = client_of(tmp_path, server, name)
        client.submit()
        client.collect()

        async def stop(batches: Batches) -> list[BatchStatus]:
            return await batches.cancel([client.batches()[0].tag])

        (status,) = client.run(stop)
        assert status.remote is not None
        client.collect(wait=10.0)
        (batch,) = client.batches()
        assert (batch.state, batch.answered, batch.left_out) == (
            "collected",
            3,
            3,
        )
        client.until_complete()
        assert (server.billed, server.billed_again) == (6, 0)


@one_api
def test_forget(name: str, tmp_path: Path) -> None:
    """A batch that is given up frees its requests without a request to its provider."""
    with BatchServer(pace="advance") as server:
        client = client_of(tmp_path, server, name)
        client.submit()
        steps = len(server.steps)

        def forget(name: str) -> None:
            async def main(batches: Batches) -> None:
                await batches.cancel([name], forget=True)

            client.run(main)

        with pytest.raises(UsageError, match="ruler batch status"):
            forget("nobody")
        forget(str(client.batches()[0].remote))
        assert len(server.steps) == steps
        assert client.batches()[0].state == "abandoned"
        assert client.submit().requests == 6


def test_lost_at_provider(tmp_path: Path, batch_server: BatchServer) -> None:
    """A batch that is missing at its provider stays open and does not block other batches."""
    client = client_of(tmp_path, batch_server, "openai")
    gone = replace(client.settings.judge, model="openai/gone")
    client.submit(judge=gone)
    client.submit()
    del batch_server.store.batches["batch_0001"]
    done = client.collect()
    assert isinstance(done.open[0].error, RefusedError)
    assert "--forget" in str(done.open[0].error)
    assert [batch.model for batch in done.closed] == ["openai/m"]
    assert client.submit(judge=gone).out == 6


@one_api
def test_key_in_rows(
    name: str,
    tmp_path: Path,
    batch_server: BatchServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that a provider returns in its rows is stored neither in the ledger nor in a reason."""
    key = "of-no-known-form-0123"
    monkeypatch.setattr("tests.batch.crashes.KEY", key)
    monkeypatch.setitem(
        rows._ERRORS,
        "refused",
        (400, "invalid_request_error", f"{key} has no right"),
    )
    client = client_of(tmp_path, batch_server, name, "some-row-refused")
    client.submit()
    (closed,) = client.collect().closed
    assert closed.reason.endswith("[key] has no right")
    assert key.encode() not in b"".join(
        file.read_bytes() for file in tmp_path.glob("ledger.sqlite*")
    )


@one_api
def test_truncated_results(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """A row that is received incomplete is fetched once more, since it is paid for."""
    client = client_of(tmp_path, batch_server, name)
    client.submit()
    (remote,) = batch_server.store.batches.values()
    files, id = batch_server.store.files, str(remote.output)
    whole, files[id] = files[id], files[id][:-40]

    def mend(step: str) -> None:
        if step == "results":
            files[id] = whole

    batch_server.after = mend
    assert client.collect().left_out == 0
    assert client.batches()[0].answered == 6


@one_api
def test_renewed_key(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """A batch with a known id is collected with a new key for the same address, since keys expire."""
    client = client_of(tmp_path, batch_server, name)
    client.submit()
    with Journal(client.ledger_path) as journal:
        address, _, _ = client.batches()[0].account.partition(".")
        account = f"{address}.another"
        journal._file.run("UPDATE batches SET account = ?", account)
    assert not client.collect().open
    client.submit(retry_failed=True)
    assert client.missing() == 0


@one_api
def test_network_outage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long wait survives a network outage, but not an address that never answered."""
    queries = 0

    async def retrieve(self: Provider, id: str) -> RemoteBatch:
        nonlocal queries
        queries += 1
        if queries in gone:
            raise UnreachableError("it cannot be reached")
        return await whole(self, id)

    whole, gone = Provider.retrieve, {2, 3}
    monkeypatch.setattr(Provider, "retrieve", retrieve)
    with BatchServer(pace="retrieve") as server:
        client = client_of(tmp_path, server, name)
        client.submit()
        assert not client.collect(wait=30.0).open
        client.submit(judge=replace(client.settings.judge, model=f"{name}/n"))
        queries, gone = 0, {1}
        assert client.collect(wait=30.0).open
