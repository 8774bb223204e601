"""What an error answer means: one row of the table after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ruler_cli.judges import faults
from ruler_cli.judges.answer_form import error_of
from ruler_cli.judges.faults import TABLE, Row, classify, clean, refuses_format
from ruler_cli.records import Fault
from tests.judges.answers import ANSWERS, Answer


def judged(answer: Answer) -> Fault:
    """The Fault of one answer, read as from the wire."""
    return classify(answer.status, *error_of(answer.body))


def test_answer(subtests: pytest.Subtests) -> None:
    """Status, codes and message of a real answer decide kind, scope and rate."""
    for answer in ANSWERS:
        with subtests.test(answer=answer):
            fault = judged(answer)
            reach = "rate" if fault.rate else fault.scope
            assert (fault.kind, reach) == answer.meaning, fault.reason
            assert fault.scope == ("call" if fault.rate else reach)


def outcomes(table: Sequence[Row], monkeypatch: pytest.MonkeyPatch) -> list[Fault]:
    """What the answers mean by another table."""
    with monkeypatch.context() as patch:
        patch.setattr(faults, "TABLE", tuple(table))
        return [judged(answer) for answer in ANSWERS]


@pytest.mark.parametrize("index", range(len(TABLE)))
def test_no_dead_row(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one row of the table some answer would mean something else."""
    rest = [*TABLE[:index], *TABLE[index + 1 :]]
    assert outcomes(rest, monkeypatch) != outcomes(TABLE, monkeypatch)


def test_end_of_the_run_says_a_way_out() -> None:
    """Whatever ends the run says what to set or to do."""
    assert all(row.way_out for row in TABLE if row.reach == "run")


@pytest.mark.parametrize(
    ("status", "message", "word", "scope"),
    [
        (500, "", "false", "group"),
        (429, "", "false", "group"),
        (400, "", "true", "call"),
        (413, "", "True", "call"),
        (401, "", "true", "run"),
        (404, "", "false", "run"),
        (429, "insufficient_quota", "true", "run"),
        (500, "", "true", "call"),
        (400, "", "false", "group"),
        (503, "", "perhaps", "call"),
    ],
)
def test_should_retry(status: int, message: str, word: str, scope: str) -> None:
    """The server's own word moves a fault between call and group, and never to or from the run."""
    assert classify(status, "", message, {"X-Should-Retry": word}).scope == scope


def test_waits() -> None:
    """A fault carries the wait that its headers or message name, where there is another try."""
    assert classify(429, "", "slow", {"Retry-After": "7"}).retry_after == 7
    assert classify(429, "", "Please try again in 6m0s.", {}).retry_after == 360
    assert classify(500, "", "oops", {"retry-after": "3"}).retry_after == 3
    assert classify(401, "", "no", {"Retry-After": "7"}).retry_after is None
    assert (
        classify(429, *error_of(b'{"error":{"code":429,"details":[{"retryDelay":"34s"}]}}')).retry_after == 34
    )
    # on every answer of some providers, so of no meaning where no limit was passed
    assert classify(500, "", "oops", {"x-ratelimit-reset-requests": "6m0s"}).retry_after is None
    assert classify(429, "", "slow", {"x-ratelimit-reset-requests": "6m0s"}).retry_after == 360


def test_context_is_told() -> None:
    """A request that is too long carries the judge's numbers."""
    assert classify(400, "", "prompt is too long: 12 tokens > 10 maximum").context == (10, 12)
    assert classify(500, "", "oops").context is None


def test_refuses_format() -> None:
    """Only an error that speaks of the answer's format is a refusal of it."""
    assert refuses_format(400, "'response_format' of type 'json_schema' is not supported")
    assert refuses_format(400, "Failed to initialize samplers: failed to parse grammar")
    assert refuses_format(400, "The provided JSON schema contains features not supported by xgrammar.")
    assert refuses_format(
        400, "litellm.UnsupportedParamsError: nlp_cloud does not support parameters: ['response_format']"
    )
    assert not refuses_format(400, "bad request")
    assert not refuses_format(400, "bad request: " + "a" * 1000 + "response_format")
    assert not refuses_format(429, "json_schema")


def test_reason_is_clean() -> None:
    """The sentence of a fault holds no key, whoever wrote it into the answer."""
    fault = classify(401, "", "bad key my-own-key", None, "my-own-key")
    assert "my-own-key" not in fault.reason
    assert "[key]" in fault.reason


def test_clean() -> None:
    """Foreign text loses keys, passwords, control characters and length."""
    text = clean("bad key my-own-key and sk-proj-abcdefgh123\x1b[31m\nBearer abc" + "x" * 999, "my-own-key")
    assert "my-own-key" not in text
    assert "sk-proj" not in text
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) <= 301
    assert clean("proxy http://me:secret@host:1/") == "proxy http://[key]@host:1/"
