"""The bodies of error answers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.judges.answer_form import error_of, status_within

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "detail", "metadata", "raw"]), inner)
    ),
)


@pytest.mark.parametrize(
    ("body", "signs", "message"),
    [
        ({"error": {"message": "m", "code": "c", "type": "t"}}, "c t", "m"),
        ({"error": "m", "error_type": "t"}, "t", "m"),
        ({"message": "m", "__type": "ThrottlingException"}, "ThrottlingException", "m"),
        ([{"error": {"code": 429, "message": "m", "status": "S"}}], "429 S", "m"),
        ({"error": {"message": "m", "innererror": {"code": "R"}}}, "R", "m"),
        ({"error": {"message": "m", "details": [{"retryDelay": "3s"}]}}, "retryDelay: 3s", "m"),
        ({"error": {"message": "m", "code": 1, "metadata": {"raw": "theirs"}}}, "1", "m: theirs"),
        ({"detail": [{"loc": ["a"], "msg": "n", "input": {"code": "x"}}]}, "", "['a']: n"),
        ({"detail": "Not Found"}, "", "Not Found"),
        ("text", "", "text"),
    ],
)
def test_json(body: Any, signs: str, message: str) -> None:
    """Codes at any depth and the message are found, and the request that is echoed is not."""
    assert error_of(orjson.dumps(body)) == (signs, message)


@pytest.mark.parametrize(
    "aside",
    [
        "\n\nLiteLLM: model group 'daily' failed with the error above. No fallback was attempted.",
        ". Received Model Group=daily\nAvailable Model Group Fallbacks=None LiteLLM Retried: 2 times",
        " LiteLLM Retried: 2 times, LiteLLM Max Retries: 2",
        "\nmodel=daily. context_window_fallbacks=None. fallbacks=None.\n\nSet 'context_window_fallback'",
        "\nmodel=daily. content_policy_fallback=None. fallbacks=None.",
    ],
)
def test_aside(aside: str) -> None:
    """Of a proxy's answer what its backend said is told, and not the proxy's own routing."""
    body = {"error": {"message": f"OpenAIException - The server had an error{aside}", "code": "500"}}
    assert error_of(orjson.dumps(body))[1].rstrip(".") == "OpenAIException - The server had an error"


def test_page() -> None:
    """Of a page its title is told, else its words."""
    assert error_of(b"<html><title>502\n Bad Gateway</title>more</html>") == ("", "502 Bad Gateway")
    assert error_of(b"<p>no <b>way</b></p>") == ("", "no way")
    assert error_of(b"error code: 1015") == ("", "error code: 1015")
    assert error_of(b"") == ("", "")


def test_status_within() -> None:
    """An error that came with status 200 has its own status, or none."""
    assert status_within(b'{"error":{"code":429,"message":"m"}}') == 429
    assert status_within(b'{"error":"Unexpected endpoint"}') == 200
    assert status_within(b'{"error":{"code":7}}') == 200
    assert status_within(b'{"choices":[{}],"error":{"code":429}}') is None
    assert status_within(b'{"id":"x"}') is None
    assert status_within(b"<html>") is None


@given(JSON.map(orjson.dumps) | st.binary(max_size=300))
def test_any_body(data: bytes) -> None:
    """No body raises, and what is told of it is bounded."""
    signs, message = error_of(data)
    assert len(signs) <= 4000
    assert len(message) <= 2000
    assert status_within(data) in {None, 200, *range(400, 600)}
