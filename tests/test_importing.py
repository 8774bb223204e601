"""Replies into a ledger: any order, any number of times, by several at once, and nothing covered."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import OutputError
from ruler_cli.importing import Imported, Importer, Unread, take_in_stream
from ruler_cli.judges.answer_form import reply_of
from ruler_cli.ledger import Ledger
from ruler_cli.records import Fault, Reply
from tests.conftest import ROOT, group
from tests.runs import Stage, Stub, noisy

MARK = Fault("refused", "the judge answered 400: no", "group")
TOO_LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"


def key(name: object) -> bytes:
    """The key of a request."""
    return blake2b(str(name).encode(), digest_size=16).digest()


def row(name: object, response: Any = None, error: Any = None) -> bytes:
    """A line of a batch's output or error file."""
    return json.dumps({"custom_id": key(name).hex(), "response": response, "error": error}).encode()


def body(text: str, **more: Any) -> dict[str, Any]:
    """A chat completion."""
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return {
        "model": "gpt-4o",
        "choices": [choice],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    } | more


def good(name: object, text: str = "fine") -> bytes:
    """A row with an answer."""
    return row(name, {"status_code": 200, "request_id": "r", "body": body(text)})


def long(name: object) -> bytes:
    """A row of a request that failed for good."""
    error = {"message": TOO_LONG, "code": "context_length_exceeded"}
    return row(name, {"status_code": 400, "request_id": "r", "body": {"error": error}})


def expired(name: object) -> bytes:
    """A row of a request that is to be asked again."""
    return row(name, None, {"code": "batch_expired", "message": "not executed"})


def broken(name: object) -> bytes:
    """A row whose body is no chat completion."""
    return row(name, {"status_code": 200, "request_id": "r", "body": {"choices": []}})


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def held(ledger: Ledger) -> dict[str, str]:
    """What stands for each request: the text of its answer, or the kind of its failure."""
    found = {}
    for (one,) in ledger._read("SELECT DISTINCT key FROM replies"):
        kept = ledger.find(one)
        if kept is not None:
            found[one.hex()] = kept.text if isinstance(kept, Reply) else kept.kind
    return found


def take_in(lines: Iterable[bytes], ledger: Ledger, model: str | None = None) -> Imported:
    """Put every row of a reply file on record."""
    with Importer(ledger, model) as importer:
        for number, line in enumerate(lines, 1):
            if importer.add(line, number):
                importer.flush()
    return importer.result


def rows_of(ledger: Ledger) -> int:
    """How many rows a ledger has."""
    return sum(ledger.stats().rows.values())


# what is kept


def test_taken(ledger: Ledger) -> None:
    """Answers and failures for good are kept as a live run keeps them; what is to be asked again is not."""
    file = [good(1), b"\n", long(2), expired(3), broken(4), b"  ", good(5, "else"), good(1)]
    found = take_in(file, ledger)
    assert (found.rows, found.new, found.known, found.whole) == (6, 2, 1, False)
    assert (found.failed, found.again) == ({"too_long": 1}, {"expired": 1, "no chat completion": 1})
    assert held(ledger) == {key(1).hex(): "fine", key(2).hex(): "too_long", key(5).hex(): "else"}
    assert ledger.stats().rows == {"answer": 2, "truncated": 0, "refusal": 0, "odd": 1, "fault": 1}
    kept = ledger.find(key(1))
    assert kept == reply_of(json.dumps(body("fine")).encode())
    failed = ledger.find(key(2))
    assert isinstance(failed, Fault)
    assert failed.context == (4096, 5000)


def test_whole(ledger: Ledger) -> None:
    """Where every row is an answer, or stands beside one, all of it is in the ledger."""
    assert take_in([good(1), expired(1), good(2)], ledger) == Imported(3, 2)
    assert take_in([], ledger).whole


def test_model(ledger: Ledger) -> None:
    """The ledger names the model as it is told, else as the reply does, else as unknown."""
    take_in([good(1)], ledger, "openai/gpt-4o")
    take_in([good(2), json.dumps({"custom_id": key(3).hex().upper(), "text": "x"}).encode()], ledger)
    assert [tally.model for tally in ledger.stats().models] == ["gpt-4o", "openai/gpt-4o", "unknown"]


def test_twice(ledger: Ledger) -> None:
    """The same file a second time adds nothing, and is told as the first time but for what is new."""
    file = [good(1), long(2), expired(3), broken(4)]
    first = take_in(file, ledger)
    before = ledger._read("SELECT id, at FROM replies")
    second = take_in(file, ledger)
    assert ledger._read("SELECT id, at FROM replies") == before
    assert (first.new, first.known, second.new, second.known) == (1, 0, 0, 1)
    assert (first.failed, first.again) == (second.failed, second.again)


def test_answers_stay(ledger: Ledger) -> None:
    """An answer that is there is covered by nothing: no other answer, no failure, no broken body."""
    for name, finish in enumerate(("stop", "length", "content_filter")):
        said = body("first")
        said["choices"][0]["finish_reason"] = finish
        ledger.keep(key(name), "m", reply_of(json.dumps(said).encode()), 1.0)
        found = take_in([good(name, "second"), long(name), expired(name), broken(name)], ledger)
        assert found == Imported(4, 0, 1)
    assert (set(held(ledger).values()), rows_of(ledger)) == ({"first"}, 3)


def test_answers_beat_marks(ledger: Ledger) -> None:
    """An answer stands over a mark, and over an older answer that a mark covers."""
    ledger.keep(key(1), "m", MARK, 0.0)
    take_in([good(2)], ledger)
    ledger.keep(key(2), "m", MARK, 0.0)  # as --retry-failed may leave it
    assert held(ledger) == {key(1).hex(): "refused", key(2).hex(): "refused"}
    assert take_in([good(1), good(2, "again")], ledger) == Imported(2, 2)
    assert held(ledger) == {key(1).hex(): "fine", key(2).hex(): "again"}


def test_marks_of_before(ledger: Ledger) -> None:
    """A request that failed for good before is not asked again, so it is not counted as if it were."""
    ledger.keep(key(1), "m", MARK, 0.0)
    assert take_in([expired(1), broken(1)], ledger) == Imported(2, open={key(1): (True, "before")})
    assert rows_of(ledger) == 1


MAKERS = (good, long, expired, broken)
rows = st.lists(st.tuples(st.sampled_from(MAKERS), st.integers(0, 3)), max_size=12)


@given(picked=rows, seed=st.randoms(use_true_random=False), before=rows)
def test_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    picked: list[tuple[Any, int]],
    seed: random.Random,
    before: list[tuple[Any, int]],
) -> None:
    """The order of the rows changes nothing, neither what is held nor what is told, whatever was there."""
    file = [make(name) for make, name in picked]
    told = []
    for turn in range(2):
        folder = tmp_path_factory.mktemp("any")
        with Ledger(folder / "ledger.sqlite") as ledger:
            take_in([make(name) for make, name in before], ledger)
            found = take_in(file, ledger)
            told.append((found, held(ledger)))
        if not turn:
            seed.shuffle(file)
    assert told[0] == told[1]


# what is not taken


def test_not_ours(ledger: Ledger) -> None:
    """A row with another custom_id is counted and named with its line, fit for a terminal."""
    names = ["request-1", "\x1b[31m\n" + "x" * 1000, key(1).hex() + "0", "", "٣" * 32]
    lines = [json.dumps({"custom_id": name, "text": "x"}).encode() for name in names]
    found = take_in([good(1), *lines, b"{}", good(2)], ledger)
    assert (found.new, found.foreign, found.unreadable, rows_of(ledger)) == (2, 5, 1, 2)
    assert [one.where for one in found.odd] == [f"line {number}" for number in range(2, 8)]
    assert "'request-1'" in found.odd[0].reason
    assert found.odd[-1] == Unread(7, "has no custom_id", "line 7")
    for one in found.odd:
        assert one.reason.isprintable()
        assert len(one.reason) < 200


def test_few_are_named(ledger: Ledger) -> None:
    """All rows that are none are counted, the first are named."""
    found = take_in([b"{}"] * 1000, ledger)
    assert (found.unreadable, len(found.odd), found.rows) == (1000, 20, 1000)


def test_reading_fails(ledger: Ledger) -> None:
    """What was read before reading failed is on record."""

    def lines() -> Iterator[bytes]:
        yield good(1)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="is gone"):
        take_in(lines(), ledger)
    assert held(ledger) == {key(1).hex(): "fine"}


def test_writing_fails(ledger: Ledger) -> None:
    """A ledger that cannot be written ends it with a sentence, and rows that came together stay together."""
    refused = f"new.key = x'{key(2).hex()}' BEGIN SELECT raise(ABORT, 'disk full'); END"
    ledger._own.patient.execute(f"CREATE TRIGGER no BEFORE INSERT ON replies WHEN {refused}")
    with pytest.raises(OutputError, match="disk full"):
        take_in([good(1), good(2)], ledger)
    assert rows_of(ledger) == 0
    assert not ledger._own.patient.in_transaction


# many, and several at once


@pytest.mark.long
def test_many_in_bounded_memory(ledger: Ledger) -> None:
    """Of twenty thousand rows only those that failed take memory, 300 bytes at most."""
    pad = "x" * 1000

    def peak(number: int) -> int:
        tracemalloc.start()
        try:
            take_in(
                (MAKERS[name % 4](name) if name % 4 else good(name, pad) for name in range(number)), ledger
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(20_000) < 1.3 * peak(4000) + 300 * 12_000
    assert ledger.stats().rows == {"answer": 5000, "truncated": 0, "refusal": 0, "odd": 5000, "fault": 5000}


def test_two_processes(tmp_path: Path) -> None:
    """Two that import the same rows at once, each in an order of its own, add every answer once."""
    made = [good(name) for name in range(2500)] + [long(name) for name in range(0, 2500, 7)]
    added, both = 0, []
    for seed in (1, 2):
        random.Random(seed).shuffle(made)
        (tmp_path / f"{seed}.jsonl").write_bytes(b"\n".join(made))
        words = ["ledger", "import", f"{seed}.jsonl", "--ledger", "ledger.sqlite", "--json"]
        command = [sys.executable, "-m", "ruler_cli", *words]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        both.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE))
    for one in both:
        added += json.loads(one.communicate(timeout=120)[0])["new"]
    assert added == 2500
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.stats().rows["answer"] == 2500
        assert set(held(ledger).values()) == {"fine"}


# what a run makes of it


def as_openai(body: dict[str, Any]) -> dict[str, Any]:
    """A row of a batch's output file, but for its custom_id."""
    return {"id": "b", "response": {"status_code": 200, "request_id": "r", "body": body}, "error": None}


def test_as_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From imported answers, in any order, comes the output of the run that asked for them, and no call."""
    groups = [group(f"g{i}", 0.1, 0.3 + i / 100, 0.9) for i in range(12)]
    stage = Stage(tmp_path, monkeypatch, groups, Stub("one", noisy, price=(2.0, 8.0)))
    stage.run("one", passes=3)
    live, ledger = stage.masked(), tmp_path / "ledger.sqlite"
    with Ledger(ledger) as before:
        rows = before._read("SELECT key, body FROM replies")
        before.clear()
    lines = [
        json.dumps({**as_openai(json.loads(body)), "custom_id": key.hex()}).encode() for key, body in rows
    ]
    random.Random(7).shuffle(lines)
    with Ledger(ledger) as after:
        assert take_in(lines, after, "one").whole
    stage.forget()
    done = stage.run("one", passes=3, output="imported.jsonl", cached_only=True)
    assert done.summary.scored == 12
    assert stage.asked == 0
    took = re.compile(rb'"latency_s": ?[0-9.e-]+')
    assert took.sub(b"", stage.masked("imported.jsonl")) == took.sub(b"", live)


# the importer


def test_keys(ledger: Ledger) -> None:
    """Restricted to some requests, every other one is a foreign one."""
    with Importer(ledger, keys={key(1)}) as importer:
        importer.add(good(1), 1)
        importer.add(good(2), 2)
    found = importer.result
    assert (found.new, found.foreign, held(ledger)) == (1, 1, {key(1).hex(): "fine"})
    assert key(2).hex() in found.odd[0].reason


def test_fates(ledger: Ledger) -> None:
    """Each row's request is told with what it has come to, once that is on record."""
    take_in([good("held")], ledger)
    told: list[tuple[bytes, str]] = []

    def on_key(one: bytes, fate: str) -> None:
        assert (ledger.find(one) is not None) == (fate != "again")
        told.append((one, fate))

    with Importer(ledger, on_key=on_key) as importer:
        for line in (good(1), long(2), expired(3), broken(4), expired("held"), b"{}", long(5), good(5)):
            importer.add(line, 1)
        assert not told
    assert sorted(told) == sorted(
        [
            *((key(1), "answer"), (key(2), "failed"), (key(3), "again"), (key(4), "again")),
            *((key("held"), "answer"), (key(5), "failed"), (key(5), "answer")),
        ]
    )
    assert [fate for one, fate in told if one == key(5)] == ["failed", "answer"]


@pytest.mark.anyio
async def test_stream(ledger: Ledger) -> None:
    """Lines that come over a network are taken as a file's are, also those before it breaks."""

    async def lines(broken: bool) -> AsyncIterator[bytes]:
        for name in range(3000):
            yield good(name) + b"\n"
        if broken:
            raise ConnectionError("reset")

    with Importer(ledger) as importer, pytest.raises(ConnectionError):
        await take_in_stream(lines(True), importer)
    with Importer(ledger) as importer:
        assert await take_in_stream(lines(False), importer) == Imported(3000, 0, 3000)
