"""Replies into a ledger: any order, repeated, by several processes at once, and no answer is overwritten."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.replies import (
    ImportResult,
    RejectedRow,
    import_rows,
)
from ruler_cli.types import CallError, Reply

TOO_LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"


def key(name: object) -> bytes:
    """The key of a request."""
    return blake2b(str(name).encode(), digest_size=16).digest()


def row(name: object, response: Any = None, error: Any = None) -> bytes:
    """A line of a batch's output or error file."""
    return json.dumps(
        {"custom_id": key(name).hex(), "response": response, "error": error}
    ).encode()


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
    return row(
        name, {"status_code": 200, "request_id": "r", "body": body(text)}
    )


def long(name: object) -> bytes:
    """A row of a request that failed for good."""
    error = {"message": TOO_LONG, "code": "context_length_exceeded"}
    return row(
        name, {"status_code": 400, "request_id": "r", "body": {"error": error}}
    )


def expired(name: object) -> bytes:
    """A row of a request that must be sent again."""
    return row(name, None, {"code": "batch_expired", "message": "not executed"})


def broken(name: object) -> bytes:
    """A row whose body is no chat completion."""
    return row(
        name, {"status_code": 200, "request_id": "r", "body": {"choices": []}}
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def stored(ledger: Ledger) -> dict[str, str]:
    """Return the text of each request's answer, or the kind of its error."""
    result = {}
    for (one,) in ledger._written.run("SELECT DISTINCT key FROM replies"):
        reply = ledger.find(one)
        if reply is not None:
            result[one.hex()] = (
                reply.text if isinstance(reply, Reply) else reply.kind
            )
    return result


def import_lines(
    lines: Iterable[bytes],
    ledger: Ledger,
    model: str | None = None,
    keys: set[bytes] | None = None,
) -> ImportResult:
    """Import every row of a reply file."""
    rows = [
        (f"line {n}", n, line)
        for n, line in enumerate(lines, 1)
        if line.strip()
    ]
    return import_rows(ledger, rows, model, keys)


def count_rows(ledger: Ledger) -> int:
    """Count the rows of a ledger."""
    return sum(ledger.stats().rows.values())


# stored rows


def test_stored_rows(ledger: Ledger) -> None:
    """Answers and lasting errors are stored as in a live run; requests to send again are not."""
    file = [
        good(1),
        b"\n",
        long(2),
        expired(3),
        broken(4),
        b"  ",
        good(5, "else"),
        good(1),
    ]
    result = import_lines(file, ledger)
    assert (result.rows, result.new, result.repeated) == (6, 2, 1)
    assert result.failed == {"too_long": 1}
    assert result.again == {
        "expired": 1,
        "no chat completion": 1,
    }
    assert stored(ledger) == {
        key(1).hex(): "fine",
        key(2).hex(): "too_long",
        key(5).hex(): "else",
    }
    assert ledger.stats().rows == {
        "answer": 2,
        "truncated": 0,
        "refusal": 0,
        "odd": 1,
        "fault": 1,
    }
    reply = ledger.find(key(1))
    assert reply == reply_of(json.dumps(body("fine")).encode())
    failed = ledger.find(key(2))
    assert isinstance(failed, CallError)
    assert failed.context == (4096, 5000)


MAKERS = (good, long, expired, broken)
rows = st.lists(
    st.tuples(st.sampled_from(MAKERS), st.integers(0, 3)), max_size=12
)


@given(picked=rows, seed=st.randoms(use_true_random=False), before=rows)
def test_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    picked: list[tuple[Any, int]],
    seed: random.Random,
    before: list[tuple[Any, int]],
) -> None:
    """The order of the rows changes neither the ledger nor the counts, for any earlier content."""
    file = [make(name) for make, name in picked]
    reported = []
    for repeat in range(2):
        folder = tmp_path_factory.mktemp("any")
        with Ledger(folder / "ledger.sqlite") as ledger:
            import_lines([make(name) for make, name in before], ledger)
            result = import_lines(file, ledger)
            reported.append((result, stored(ledger)))
        if not repeat:
            seed.shuffle(file)
    assert reported[0] == reported[1]


# foreign rows


def test_foreign_id(ledger: Ledger) -> None:
    """A row with another custom_id is counted and named with its line, safe for a terminal."""
    names = [
        "request-1",
        "\x1b[31m\n" + "x" * 1000,
        key(1).hex() + "0",
        "",
        "٣" * 32,
    ]
    lines = [
        json.dumps({"custom_id": name, "text": "x"}).encode() for name in names
    ]
    result = import_lines([good(1), *lines, b"{}", good(2)], ledger)
    assert (
        result.new,
        result.foreign,
        result.unreadable,
        count_rows(ledger),
    ) == (
        2,
        5,
        1,
        2,
    )
    assert [one.where for one in result.rejected] == [
        f"line {number}" for number in range(2, 8)
    ]
    assert "'request-1'" in result.rejected[0].reason
    assert result.rejected[-1] == RejectedRow("line 7", 7, "has no custom_id")
    for one in result.rejected:
        assert one.reason.isprintable()
        assert len(one.reason) < 200


# several processes
