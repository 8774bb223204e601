"""If a client dies at any step, every request is answered in the end, and paid for once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_cli.errors import RulerError
from ruler_cli.runs.batch.batches import UncertainBatch
from ruler_cli.runs.batch.journal import OPEN, Journal
from ruler_cli.settings.models import AskSettings
from tests.batch.apis import APIS
from tests.batch.crashes import WINDOW, Client, Crash, Steps
from tests.batch.matrix import GROUPS, PER_BATCH, ends, kills, table
from tests.judge_server import BatchServer
from tests.values import few

each_api = pytest.mark.parametrize("name", APIS)


def assert_recovers(
    client: Client, server: BatchServer, billed: int = GROUPS
) -> None:
    """Check that every request is answered, and was paid for once."""
    client.until_complete()
    assert client.missing() == 0
    assert (server.billed, server.billed_again) == (billed, 0)


@pytest.fixture
def client(tmp_path: Path, name: str, batch_server: BatchServer) -> Client:
    """A client of that API."""
    return Client(tmp_path, batch_server, name, GROUPS)


def die(client: Client, step: str) -> None:
    """Run a process that ends at a step, named as in `Steps`."""

    class DiesAt(Steps):
        def reach(self, name: str) -> None:
            if name == step:
                self.fatal = len(self.passed)
            super().reach(name)

    with pytest.raises(Crash):
        client.submit(DiesAt())


@pytest.mark.long
@each_api
def test_every_step(name: str, tmp_path: Path) -> None:
    """A crash before or after any commit or call loses no request and pays for none twice.

    This test covers half of the steps at each API, `python -m benchmarks.batch_crashes` all of them at both.
    """
    results = list(ends(name, tmp_path, every=(APIS.index(name), 2)))
    print(table({name: results}))
    assert len(results) > 15
    assert not [each for each in results if not each.good]


@pytest.mark.long
@each_api
def test_late_listings(name: str, tmp_path: Path) -> None:
    """The same holds for every step until the creation of the first batch, if listings are late."""
    results = list(ends(name, tmp_path, lag=2, most=14, every=(1, 2)))
    assert "after create" in {each.point[3:] for each in results}
    assert not [each for each in results if not each.good]


@pytest.mark.parametrize(
    "step", few(1, ["create", "upload", "list", "retrieve", "results"])
)
def test_killed(step: str, tmp_path: Path) -> None:
    """The same holds if the system kills a process whose request is handled but not answered.

    `python -m benchmarks.batch_crashes` also kills it before, and at the other API.
    """
    (results,) = kills("openai", tmp_path, moments=("after",), steps=(step,))
    assert results.point == f"kill -9 after {step}"
    assert results.good


@pytest.mark.long
@each_api
def test_crash_during_recovery(name: str, tmp_path: Path) -> None:
    """The recovering process may die at each of its steps, too."""
    for number in range(100):
        here = tmp_path / str(number)
        here.mkdir()
        with BatchServer() as server:
            client = Client(here, server, name, GROUPS, requests=PER_BATCH)
            die(client, "after create")
            second = Steps(fatal=number)
            try:
                client.submit(second)
            except Crash:
                assert_recovers(client, server)
            else:
                assert_recovers(client, server)
                break
    assert number > 8


@each_api
def test_uncertain_batch(
    name: str, client: Client, batch_server: BatchServer
) -> None:
    """While a lost batch may still appear, its requests are open; then it is collected, or they are free."""
    batch_server.conduct.lag = 10**6
    die(client, "after create")
    for _ in range(2):
        assert isinstance(client.collect().open[0].error, UncertainBatch)
    assert [batch.state for batch in client.batches()] == ["creating"]
    for batch in batch_server.store.batches.values():
        batch.hidden = 0
    assert_recovers(client, batch_server)
    assert [batch.state for batch in client.batches()] == ["collected"]


@each_api
def test_given_up(name: str, client: Client, batch_server: BatchServer) -> None:
    """A batch that was never created is given up after the window, and only by `submit`."""
    die(client, "before create")
    for window in (1e6, 0.0):
        client.window = window
        (status,) = client.status()
        assert isinstance(status.error, UncertainBatch)
        assert bool(status.error.seconds_left) == bool(window)
    assert [batch.state for batch in client.batches()] == ["creating"]
    assert client.submit().requests == GROUPS
    assert [batch.state for batch in client.batches()] == [
        "abandoned",
        "submitted",
    ]
    assert_recovers(client, batch_server)


@pytest.mark.parametrize("name", APIS[:1])
def test_living_process(
    name: str, client: Client, batch_server: BatchServer
) -> None:
    """A batch that a living process is creating is neither searched for nor given up."""
    die(client, "before create")
    with Journal(client.ledger_path) as journal, journal.alone() as mine:
        assert mine
        (standing,) = client.collect().open
        assert (standing.batch.state, standing.error) == ("creating", None)
        assert "list" not in batch_server.steps
    assert_recovers(client, batch_server)


@each_api
def test_lost_answer(
    name: str, client: Client, batch_server: BatchServer
) -> None:
    """If the answer to a creation is lost, the client reports it and does not ask again."""
    batch_server.fault("create", "drop-after")
    with pytest.raises(RulerError, match="if there is a batch now"):
        client.submit()
    assert batch_server.created == 1
    assert_recovers(client, batch_server)
    assert batch_server.created == 1


@pytest.mark.parametrize("name", APIS[:1])
def test_refused(name: str, client: Client, batch_server: BatchServer) -> None:
    """A creation that is clearly refused frees its requests at once, and those of the following batches."""
    client.limits = {"requests": 2}
    batch_server.fault("create", "quota")
    with pytest.raises(RulerError):
        client.submit()
    assert [batch.state for batch in client.batches()] == ["failed"]
    with Journal(client.ledger_path) as journal:
        assert not journal.batches(*OPEN)
    assert_recovers(client, batch_server)


def test_running_candidate(tmp_path: Path) -> None:
    """Without tags, a batch as large as the lost one reserves its requests until it has ended."""
    with BatchServer(pace="advance") as server:
        client = Client(tmp_path, server, "anthropic", GROUPS)
        die(client, "after create")
        time.sleep(WINDOW)
        for _ in range(2):
            with pytest.raises(UncertainBatch, match="may be msgbatch_0001"):
                client.submit()
        server.advance(3)
        assert_recovers(client, server)
        assert [batch.remote for batch in client.batches()] == ["msgbatch_0001"]


def test_foreign_batches(tmp_path: Path) -> None:
    """Foreign batches of the same size are read once and not taken."""
    (tmp_path / "others").mkdir()
    with BatchServer() as server:
        others = Client(tmp_path / "others", server, "anthropic", GROUPS)
        others.settings = replace(others.settings, ask=AskSettings(seed=7))
        client = Client(tmp_path, server, "anthropic", GROUPS)
        others.submit()
        die(client, "after create")
        assert_recovers(client, server, 2 * GROUPS)
        others.until_complete()
        assert others.missing() == 0
        assert server.created == 2
        assert server.steps.count("results") == 4


def test_clock_ahead(tmp_path: Path) -> None:
    """With tags, a lost batch is identified although the client's clock was hours ahead."""
    with BatchServer(clock=time.time() - 5 * 3600) as server:
        client = Client(tmp_path, server, "openai", GROUPS)
        die(client, "after create")
        assert_recovers(client, server)
        assert server.created == 1


def test_clock_set_back(tmp_path: Path, batch_server: BatchServer) -> None:
    """Recovery waits no longer than the window if a clock was set back."""
    client = Client(tmp_path, batch_server, "openai", GROUPS)
    die(client, "before create")
    with Journal(client.ledger_path) as journal:
        journal._file.run("UPDATE batches SET changed = changed + 3600")
    client.window = 30.0
    (status,) = client.status()
    assert isinstance(status.error, UncertainBatch)
    assert 1.0 <= status.error.seconds_left <= 30.0
    client.window = WINDOW
    time.sleep(WINDOW)
    assert_recovers(client, batch_server)
