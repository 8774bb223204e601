"""Submission of the requests that are missing and in no open batch, within the limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import anyio
import pytest

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.runs.batch.batches import (
    BatchCostError,
    Batches,
    UncertainBatch,
)
from ruler_cli.runs.batch.journal import OPEN, Journal
from ruler_cli.runs.batch.providers import (
    Provider,
    RemoteBatch,
    UnclearError,
)
from ruler_cli.settings.models import PoolSettings
from tests.batch.apis import APIS
from tests.batch.crashes import Client
from tests.judge_server import BatchServer

each_api = pytest.mark.parametrize("name", APIS)


@pytest.fixture
def client(tmp_path: Path, batch_server: BatchServer) -> Client:
    """A client of OpenAI's API."""
    return Client(tmp_path, batch_server, "openai", 5)


@each_api
def test_limits(name: str, tmp_path: Path, batch_server: BatchServer) -> None:
    """No batch exceeds its provider's limits of requests and bytes, and together they hold all, once."""
    one = Client(tmp_path, batch_server, name, 7, requests=3)
    assert [batch.requests for batch in one.submit().batches] == [3, 3, 1]
    assert one.submit().out == 7
    one.until_complete()
    (tmp_path / "two").mkdir()
    size = max(batch.bytes // batch.requests for batch in one.batches())
    two = Client(tmp_path / "two", batch_server, name, 7, bytes=2 * size + 200)
    assert [batch.requests for batch in two.submit().batches] == [2, 2, 2, 1]
    assert all(batch.bytes <= 2 * size + 200 for batch in two.batches())
    two.until_complete()
    assert two.missing() == 0


def test_missing_only(client: Client, batch_server: BatchServer) -> None:
    """Requests in open batches and answered ones are not submitted; new ones of the input are."""
    assert client.submit().requests == 5
    assert client.submit().requests == 0
    more = client.source.read_text().replace("g0", "h0").splitlines()[0]
    client.source.write_text(client.source.read_text() + more + "\n")
    done = client.submit()
    assert (done.requests, done.out) == (1, 5)
    client.until_complete()
    assert client.submit().missing.answered == 6
    assert (batch_server.created, batch_server.billed_again) == (2, 0)


@each_api
def test_concurrent_submissions(
    name: str, tmp_path: Path, batch_server: BatchServer
) -> None:
    """If several processes submit at once, each request is submitted by one."""
    client = Client(tmp_path, batch_server, name, 40, requests=7)
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: client.submit(), range(4)))
    assert sum(each.requests for each in done) == 40
    client.until_complete()
    assert (
        batch_server.billed,
        batch_server.billed_again,
        client.missing(),
    ) == (
        40,
        0,
        0,
    )


def test_other_judges(client: Client, batch_server: BatchServer) -> None:
    """A judge that is refused, or whose batch may exist, keeps no other from being asked, nor new requests."""
    other = replace(client.settings.judge, model="openai/other")
    batch_server.fault("create", "quota")
    with pytest.raises(RefusedError):
        client.submit(panel=(other,))
    batch_server.fault("create", "drop")
    with pytest.raises(UnclearError):
        client.submit()
    text = client.source.read_text()
    client.source.write_text(text + text.replace('"g', '"h'))
    client.window = 1e6
    with pytest.raises(UncertainBatch, match="may still appear"):
        client.submit()
    states = [(batch.model, batch.state) for batch in client.batches()]
    assert states == [
        ("openai/m", "failed"),
        ("openai/other", "submitted"),
        ("openai/m", "creating"),
        ("openai/m", "submitted"),
    ]


def test_corrective_request(tmp_path: Path, batch_server: BatchServer) -> None:
    """The corrective request after an unusable reply is submitted automatically."""
    client = Client(tmp_path, batch_server, "openai", 3, model="once-missing")
    client.until_complete()
    assert (batch_server.created, batch_server.billed, client.missing()) == (
        2,
        6,
        0,
    )


def test_max_cost(client: Client, batch_server: BatchServer) -> None:
    """No batch is recorded or sent if its cost may exceed the limit, or if the price is unknown."""
    dear = replace(client.settings.judge, price=(1000.0, 1000.0))
    client.settings = replace(client.settings, pool=PoolSettings(max_cost=1.0))
    with pytest.raises(UsageError, match="--price IN,OUT"):
        client.submit()
    with pytest.raises(
        BatchCostError, match="nothing was submitted"
    ) as refused:
        client.submit(judge=dear)
    assert refused.value.exit_code == 4
    assert client.batches() == []
    assert batch_server.steps == []
    done = client.submit(judge=replace(client.settings.judge, price=(1.0, 1.0)))
    assert done.requests == 5
    assert 0 < sum(batch.usd or 0 for batch in done.batches) < 1


def test_another_key(client: Client) -> None:
    """With another key a lost batch is neither looked up nor given up, since only the first key lists it."""
    client.submit()
    with Journal(client.ledger_path) as journal:
        (batch,) = journal.batches(*OPEN)
        journal._file.run(
            "UPDATE batches SET account = 'other', remote = NULL, state = 'creating'"
        )
    (standing,) = client.collect().open
    assert isinstance(standing.error, RefusedError)
    assert f"ruler batch cancel --forget {batch.tag}" in str(standing.error)
    with pytest.raises(RefusedError, match=batch.tag):
        client.submit()
    assert [batch.state for batch in client.batches()] == ["creating"]


def test_forgotten_during_creation(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that another command gives up during its creation is reported with its provider's id."""
    whole = Provider.create

    async def create(
        self: Provider, tag: str, lines: BinaryIO, uploaded: str
    ) -> RemoteBatch:
        with Journal(client.ledger_path) as journal:
            (batch,) = journal.batches("creating")
            journal.move(batch, "abandoned")
        return await whole(self, tag, lines, uploaded)

    monkeypatch.setattr(Provider, "create", create)
    with pytest.raises(RulerError, match="cancel it at its provider"):
        client.submit()


def test_cancellation_during_creation(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation during a creation waits for the provider's answer, and the batch is on record."""
    whole = Provider.create

    async def main(batches: Batches) -> None:
        async def create(
            self: Provider, tag: str, lines: BinaryIO, uploaded: str
        ) -> RemoteBatch:
            scope.cancel()
            await anyio.sleep(0.01)
            return await whole(self, tag, lines, uploaded)

        monkeypatch.setattr(Provider, "create", create)
        with anyio.CancelScope() as scope:
            await batches.submit(client.settings, lambda _: None)

    client.run(main)
    assert [batch.state for batch in client.batches()] == ["submitted"]
