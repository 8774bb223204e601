"""The request types of the providers' own SDKs, which check requests to the last field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

SAMPLING = ("temperature", "top_k", "top_p")
"""Parameters that Anthropic's API takes for its earlier models and its SDK has no types for since 1.0."""


@cache
def _types(*, anthropic: bool) -> TypeAdapter[Any]:
    # each takes a second to import and to make
    if anthropic:
        from anthropic.types.messages.batch_create_params import Request

        return TypeAdapter(Request)
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming,
    )

    return TypeAdapter(CompletionCreateParamsNonStreaming)


def assert_typed(row: Mapping[str, Any]) -> None:
    """Raise AssertionError or pydantic's ValidationError unless an SDK would send the row with these fields.

    pydantic drops keys that a TypedDict does not name, and reads an Iterable only when it is iterated:
    so all of it is iterated, and must be unchanged.
    """
    anthropic = "params" in row
    if anthropic:
        params = {
            name: each
            for name, each in row["params"].items()
            if name not in SAMPLING
        }
        sent: Any = {**row, "params": params}
    else:
        assert set(row) == {"custom_id", "method", "url", "body"}
        sent = row["body"]
    assert (
        _whole(_types(anthropic=anthropic).validate_python(sent, strict=True))
        == sent
    )


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_whole(each) for each in value]
    return value
