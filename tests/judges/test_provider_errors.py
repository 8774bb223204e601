"""The meaning of error responses: the body, the rules of the table, the sizes in the message."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.judges import provider_errors
from ruler_cli.judges.provider_errors import (
    TABLE,
    ErrorResponse,
    ErrorRule,
    classify,
    context_of,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.types import BOM, CallError, clean
from tests.judges.answers import ANSWERS, CONTEXTS, Answer


def classified(answer: Answer) -> CallError:
    """Classify one answer, read as from the wire."""
    codes, message = error_of(answer.body)
    return classify(answer.status, f"{answer.route} {codes}".strip(), message)


def test_answer(subtests: pytest.Subtests) -> None:
    """Status, codes and message of a real answer decide kind, scope and rate."""
    for answer in ANSWERS:
        with subtests.test(answer=answer):
            call_error = classified(answer)
            reach = "rate" if call_error.rate else call_error.scope
            assert (call_error.kind, reach) == answer.meaning, call_error.reason
            assert call_error.scope == ("call" if call_error.rate else reach)


def call_errors(
    table: Sequence[ErrorRule], monkeypatch: pytest.MonkeyPatch
) -> list[CallError]:
    """Return the meanings of all responses by another table."""
    with monkeypatch.context() as patch:
        patch.setattr(provider_errors, "TABLE", tuple(table))
        return [classified(answer) for answer in ANSWERS]


def test_no_dead_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one row some answer, or some stated context, would have another meaning."""
    whole = call_errors(TABLE, monkeypatch)
    for index, row in enumerate(TABLE):
        assert (
            call_errors([*TABLE[:index], *TABLE[index + 1 :]], monkeypatch)
            != whole
        ), row
        assert row.remedy or row.scope != "run", row
    forms = provider_errors._CONTEXTS
    for index, form in enumerate(forms):
        monkeypatch.setattr(
            provider_errors, "_CONTEXTS", forms[:index] + forms[index + 1 :]
        )
        assert [context_of(message) for message, _ in CONTEXTS] != [
            expected for _, expected in CONTEXTS
        ], form


def test_refuses_format() -> None:
    """Only an error about the answer's format is a refusal of it."""
    for message in (
        "'response_format' of type 'json_schema' is not supported",
        "Failed to initialize samplers: failed to parse grammar",
        "The provided JSON schema contains features not supported by xgrammar.",
        "litellm.UnsupportedParamsError: nlp_cloud does not support parameters: ['response_format']",
    ):
        assert refuses_format(400, message)
        assert not refuses_format(400, "bad request: " + "a" * 1000 + message)
    assert not refuses_format(400, "bad request")
    assert not refuses_format(429, "json_schema")


def test_clean() -> None:
    """Foreign text loses keys, passwords, control characters and length."""
    text = clean(
        "bad key my-own-key and sk-proj-abcdefgh123\x1b[31m\nBearer abc"
        + "x" * 999,
        "my-own-key",
    )
    for gone in ("my-own-key", "sk-proj", "\x1b", "\n"):
        assert gone not in text
    assert clean("x" * 999) == "x" * 299 + "…"
    assert (
        clean("proxy http://me:secret@host:1/") == "proxy http://[key]@host:1/"
    )


def test_no_key() -> None:
    """If no key was sent, the error about it names no other variable."""
    for key, words in (("", "no key was sent"), ("sk-1", "set the right key")):
        assert f"; {words}" in classify(401, "", "who?", key=(key,)).reason


def test_context(subtests: pytest.Subtests) -> None:
    """The limit and the request's size are read from the message of each provider."""
    for message, expected in CONTEXTS:
        with subtests.test(message=message, expected=expected):
            assert context_of(message) == expected


def test_no_stated_context() -> None:
    """A message without both numbers states nothing, and one that echoes a request is read up to a bound."""
    for message in (
        "too long",
        "maximum context length is 4096 tokens",
        "x" * 10_000 + CONTEXTS[10][0],
    ):
        assert context_of(message) is None
    assert (
        context_of("maximum context length is 1 " * 3000 + "9" * 40_000) is None
    )


def test_texts() -> None:
    """The texts of a list are its message."""
    for name in ("detail", "message", "error"):
        _, message = error_of(orjson.dumps({name: ["max_tokens is above 9"]}))
        assert "max_tokens is above 9" in message, name


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "detail", "metadata", "raw"]
            ),
            inner,
        )
    ),
)


PROXY_MESSAGES = [
    "\n\nLiteLLM: model group 'daily' failed with the error above. No fallback was attempted.",
    ". Received Model Group=daily\nAvailable Model Group Fallbacks=None LiteLLM Retried: 2 times",
    " LiteLLM Retried: 2 times, LiteLLM Max Retries: 2",
    "\nmodel=daily. context_window_fallbacks=None. fallbacks=None.\n\nSet 'context_window_fallback'",
    "\nmodel=daily. content_policy_fallback=None. fallbacks=None.",
]


def test_proxy_messages() -> None:
    """The message of a proxy's error is its backend's, without the proxy's own routing."""
    for aside in PROXY_MESSAGES:
        body = {
            "error": {
                "message": f"OpenAIException - The server had an error{aside}",
                "code": "500",
            }
        }
        assert (
            error_of(orjson.dumps(body))[1].rstrip(".")
            == "OpenAIException - The server had an error"
        )


def test_listed_messages() -> None:
    """A message that is a list is shown, without the request that FastAPI gives back."""
    for body, message in (
        ({"error": ["Input is too long"]}, "['Input is too long']"),
        ({"error": [{"message": "gone"}]}, "[{'message': 'gone'}]"),
        (
            {"detail": [{"loc": ["n"], "msg": "bad", "input": "all"}]},
            "['n']: bad",
        ),
    ):
        assert error_of(orjson.dumps(body))[1] == message


def status_within(data: bytes) -> int | None:
    """Return the status of an error that came with status 200; None if it is no such error."""
    response = read_response(200, data)
    return response.status if isinstance(response, ErrorResponse) else None


def test_status_within() -> None:
    """An error that came with status 200 has its own status, or none."""
    assert status_within(b'{"error":{"code":429,"message":"m"}}') == 429
    assert status_within(b'{"error":"Unexpected endpoint"}') == 200
    assert status_within(b'{"error":{"code":7}}') == 200
    assert status_within(b'{"choices":[{}],"error":{"code":429}}') is None
    assert status_within(b'{"id":"x"}') is None
    whole = {"message": {"content": "fine"}, "finish_reason": "stop"}
    half = {"message": {"content": '{"sco'}, "finish_reason": "error"}
    gone = {"code": "502", "message": "gone"}
    for choice, beside, status in (
        (whole, {}, None),
        (whole, gone, None),
        (half, {}, 200),
        (half, gone, 502),
        (half | {"error": gone}, {}, 502),
        (half | {"error": "gone"}, {}, 200),
        (whole | {"error": gone}, {}, 502),
        (whole | {"provider_specific_fields": {"error": gone}}, {}, 502),
        (whole | {"native_finish_reason": "upstream_error"}, {}, 200),
        (half | {"finish_reason": "network_error"}, {}, 200),
        (half | {"finish_reason": "abort"}, {}, 200),
        (half | {"finish_reason": None}, gone, 502),
        (half | {"finish_reason": "length"}, {}, None),
    ):
        body = {"choices": [choice], "error": beside}
        assert status_within(orjson.dumps(body)) == status, body


def test_error_within() -> None:
    """An error inside a good answer has the message and the wait of the provider, also those in its metadata."""
    error = {
        "code": 429,
        "message": "Slow down, retry in 7s",
        "metadata": {"raw": "full"},
    }
    body = {"choices": [{"message": {"content": ""}, "error": error}]}
    response = read_response(200, orjson.dumps(body), {"x": "y"})
    assert isinstance(response, ErrorResponse)
    call_error = classify(*response)
    assert (call_error.rate, call_error.retry_after) == (True, 7)
    assert (
        call_error.reason
        == "the judge answered 429: Slow down, retry in 7s: full"
    )
    metadata = {"headers": {"Retry-After": 9}}
    error = {"code": 429, "message": "Slow down", "metadata": metadata}
    response = read_response(200, orjson.dumps({"error": error}))
    assert isinstance(response, ErrorResponse)
    assert classify(*response).retry_after == 9
    assert status_within(b"<html>") is None
    assert status_within(BOM + b'{"error":{"code":429,"message":"m"}}') == 429
    assert error_of(BOM + b'{"error":{"code":429,"message":"m"}}') == (
        "429",
        "m",
    )


@given(JSON.map(orjson.dumps) | st.binary(max_size=300))
def test_any_body(data: bytes) -> None:
    """No body raises, and its message is bounded."""
    signs, message = error_of(data)
    assert len(signs) <= 4000
    assert len(message) <= 2000
    assert status_within(data) in {None, 200, *range(400, 600)}
