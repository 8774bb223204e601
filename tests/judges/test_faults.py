"""What an error answer means: one row of the table after the other."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from ruler_cli.judges.faults import TABLE, classify, clean, context_of, refuses_format, retry_after

ROWS = [
    (429, "insufficient_quota", "You exceeded your current quota", "refused", "run"),
    (400, "", "Your credit balance is too low", "refused", "run"),
    (401, "invalid_api_key", "Incorrect API key", "refused", "run"),
    (403, "", "Forbidden", "refused", "run"),
    (404, "model_not_found", "The model does not exist", "refused", "run"),
    (400, "", "model `x` not found", "refused", "run"),
    (307, "", "moved", "refused", "run"),
    (400, "context_length_exceeded", "too long", "too_long", "group"),
    (413, "", "Payload", "too_long", "group"),
    (400, "content_filter", "The response was filtered", "refused", "group"),
    (400, "", "bad request", "refused", "group"),
    (422, "", "unprocessable", "refused", "group"),
    (429, "rate_limit_exceeded", "slow down", "transport", "call"),
    (529, "", "Overloaded", "transport", "call"),
    (408, "", "timeout", "transport", "call"),
    (500, "", "oops", "transport", "call"),
    (503, "", "unavailable", "transport", "call"),
    (0, "", "who knows", "transport", "call"),
]


@pytest.mark.parametrize(("status", "code", "message", "kind", "scope"), ROWS)
def test_row(status: int, code: str, message: str, kind: str, scope: str) -> None:
    """Status, code and message decide kind and scope."""
    fault = classify(status, code, message)
    assert (fault.kind, fault.scope) == (kind, scope)


def test_every_row_is_tested() -> None:
    """Each row of the table is the first to hold for some failure above."""
    reached = {
        next(i for i, row in enumerate(TABLE) if row.holds(status, f"{code} {message}"))
        for status, code, message, *_ in ROWS
        if status
    }
    assert reached == set(range(len(TABLE)))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "x"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"Retry-After": "soon"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Retry-After is read in seconds and milliseconds, and nonsense is nothing."""
    assert retry_after(headers) == seconds


def test_retry_after_date() -> None:
    """Retry-After as a date is seconds from now, never negative."""
    assert 50 < (retry_after({"Retry-After": formatdate(time.time() + 60, usegmt=True)}) or 0) <= 60
    assert retry_after({"Retry-After": formatdate(0, usegmt=True)}) == 0


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (
            "maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens",
            (4096, 5000),
        ),
        ("maximum context length of 10 tokens ... request has 12 input tokens", (10, 12)),
        ("prompt is too long: 210000 tokens > 200000 maximum", (200000, 210000)),
        ("too long", None),
    ],
)
def test_context(message: str, found: tuple[int, int] | None) -> None:
    """The judge's own numbers of its context are read from its message."""
    assert context_of(message) == found


def test_context_of_hostile_text() -> None:
    """A message that echoes a hostile request is looked at only so far, so that the look ends."""
    assert context_of("maximum context length is 1 " * 3000 + "9" * 40_000) is None
    assert context_of("x" * 10_000 + "prompt is too long: 2 tokens > 1") is None


def test_refuses_format() -> None:
    """Only an error that speaks of the answer's format is a refusal of it."""
    assert refuses_format(400, "'response_format' of type 'json_schema' is not supported")
    assert not refuses_format(400, "bad request")
    assert not refuses_format(429, "json_schema")


def test_clean() -> None:
    """Foreign text loses keys, control characters and length."""
    text = clean("bad key my-own-key and sk-proj-abcdefgh123\x1b[31m\nBearer abc" + "x" * 999, "my-own-key")
    assert "my-own-key" not in text
    assert "sk-proj" not in text
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) <= 301
