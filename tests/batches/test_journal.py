"""The journal of batches: each request out in one batch at most, each step on the disk."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ruler_cli.batches.journal import OPEN, Batch, Journal, State, Way, there
from ruler_cli.errors import UsageError
from ruler_cli.ledger import Ledger, key_of
from ruler_cli.records import Reply, Request

WAY = Way("openai", "openai/m", None, "KEY", "0123abcd")
KEYS = [bytes([i]) * 16 for i in range(6)]


def intend(journal: Journal, *keys: bytes) -> Batch:
    """The intent to submit these requests."""
    with journal.writing() as writing:
        id, _ = writing.begin(WAY, "owner")
        for key in keys:
            assert writing.claim(id, key)
        writing.measure(id, len(keys), 100, 0.5)
    return journal.one(id)


def free(journal: Journal, key: bytes, newest: int = 0) -> bool:
    """Whether a request may be submitted."""
    with journal.writing(newest) as writing:
        id, _ = writing.begin(WAY, "another")
        taken = writing.claim(id, key)
        writing._db.execute("DELETE FROM batch_keys WHERE batch = ?", (id,))
        writing.drop(id)
    return taken


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a ledger will be."""
    return tmp_path / "ledger.sqlite"


def test_recorded(place: Path) -> None:
    """What is recorded is there for the next process, field by field."""
    with Journal(place) as journal:
        batch = intend(journal, *KEYS[:2])
        moved = journal.move(batch, "submitted", remote="batch_1", label="validating", not_it={"b", "a"})
    with Journal(place) as journal:
        (found,) = journal.open()
        assert found == moved
        assert (found.way, found.owner, found.requests, found.bytes, found.usd) == (WAY, "owner", 2, 100, 0.5)
        assert (found.remote, set(found.not_it)) == ("batch_1", {"a", "b"})
        assert journal.keys(found.id) == set(KEYS[:2])
        assert journal.remotes() == {"batch_1"}


def test_out_once(place: Path) -> None:
    """A request that is out in an open batch is not free, and cannot be claimed by another."""
    with Journal(place) as journal:
        batch = intend(journal, KEYS[0])
        assert not free(journal, KEYS[0])
        assert free(journal, KEYS[1])
        with pytest.raises(AssertionError):  # and what was begun with it is taken back
            intend(journal, KEYS[1], KEYS[0])
        assert [each.id for each in journal.batches()] == [batch.id]
        assert free(journal, KEYS[1])


@pytest.mark.parametrize("state", ["collected", "canceled", "failed", "abandoned"])
def test_closed(state: State, place: Path) -> None:
    """A batch that is closed, however, frees its requests; one that is open does not."""
    with Journal(place) as journal:
        batch: Batch | None = intend(journal, KEYS[0])
        for opened in OPEN:
            assert batch is not None
            batch = journal.move(batch, opened)
            assert not free(journal, KEYS[0])
        assert batch is not None
        closed = journal.move(batch, state, reason="so it is")
        assert closed is not None
        assert (closed.open, closed.reason) == (False, "so it is")
        assert free(journal, KEYS[0])
        assert journal.keys(batch.id) == set()


def test_moved_by_another(place: Path) -> None:
    """Of two processes that move a batch out of one state, one does."""
    with Journal(place) as one, Journal(place) as two:
        batch = intend(one, KEYS[0])
        assert one.move(batch, "abandoned") is not None
        assert two.move(batch, "uploaded", file="file-1") is None
        assert two.one(batch.id).state == "abandoned"
        assert free(two, KEYS[0])


def test_unknown_field(place: Path) -> None:
    """A field that a batch does not have, or that never changes, is refused."""
    with Journal(place) as journal:
        batch = intend(journal, KEYS[0])
        with pytest.raises(ValueError, match="tag"):
            journal.move(batch, "uploaded", tag="other")


def test_answered_meanwhile(place: Path) -> None:
    """What was answered since one began to look is not free; what was answered before may be asked again."""
    request = Request("s", "u", ("a",))
    key = key_of("openai/m", {}, request)
    with Journal(place) as journal, Ledger(place) as ledger:
        before = journal.newest()
        ledger.keep(key, "openai/m", Reply("{}", body=b'{"choices":[{"message":{"content":"{}"}}]}'), 1.0)
        assert not free(journal, key, before)
        assert free(journal, key, journal.newest())


def test_at_once(place: Path) -> None:
    """Of many that choose at once, one has each request."""
    keys = [i.to_bytes(16) for i in range(200)]

    def choose(_: int) -> int:
        with Journal(place) as journal, journal.writing() as writing:
            number, tag = writing.begin(WAY, "owner")
            assert tag
            mine = 0
            for key in keys:
                mine += mine < 60 and writing.claim(number, key)
        return mine

    Journal(place).close()
    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(choose, range(8))) == [0, 0, 0, 0, 20, 60, 60, 60]


def test_same_file(place: Path) -> None:
    """The tables stand beside the replies, and an older ruler sees a ledger of its own version."""
    with Ledger(place) as ledger, Journal(place) as journal:
        intend(journal, KEYS[0])
        assert ledger.find(KEYS[0]) is None
    with sqlite3.connect(place) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    with Ledger(place) as ledger:
        assert ledger.stats().rows["answer"] == 0
        ledger.clear()
    with Journal(place) as journal:
        assert len(journal.open()) == 1


def test_survives_power_cut(place: Path) -> None:
    """Each commit is on the disk, not only with the system."""
    with Journal(place) as journal:
        assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_no_ledger(place: Path) -> None:
    """What is no ledger is refused with a sentence; whether one is there can be asked without making it."""
    assert not there(place)
    place.write_text("no database at all, but long enough to look like one" * 40)
    assert there(place)
    with pytest.raises(UsageError, match="--ledger"):
        Journal(place)
