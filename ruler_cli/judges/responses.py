"""OpenAI's Responses API, for models that chat completions do not have: a chat request → its request, and back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ruler_cli.judges.providers import LIMITS

_ENDS: dict[Any, str] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
"""Names of counts, each with its name in a chat completion."""


def response_arguments(chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a response; nothing is stored by the provider, as for a chat completion."""
    body = {"store": False, **chat}
    body["input"] = list(map(_message, body.pop("messages")))
    for name in LIMITS:
        if name in body:
            body["max_output_tokens"] = body.pop(name)
    form = body.pop("response_format", None)
    if isinstance(form, Mapping):
        schema = form.get("json_schema") or {}
        body["text"] = {"format": {"type": form.get("type"), **schema}}
    if effort := body.pop("reasoning_effort", None):
        body["reasoning"] = {"effort": effort, **(body.get("reasoning") or {})}
    return body


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if not isinstance(content, str):
        content = list(map(_part, content))
    return {**message, "content": content}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    picture = part.get("image_url")
    if picture is None:
        return {"type": "input_text", "text": part["text"]}
    more = {name: item for name, item in picture.items() if name != "url"}
    return {"type": "input_image", "image_url": picture["url"], **more}


def completion_of(response: Any) -> Any:
    """Return a response as a chat completion; any other value is returned as it is."""
    with suppress(AttributeError, KeyError, TypeError):
        output = [item for item in response["output"] if item.get("type") == "message"]
        parts = [part for item in output for part in item["content"]]
        texts = (part.get("text") or "" for part in parts)
        refusals = (part.get("refusal") or "" for part in parts)
        reason = (response.get("incomplete_details") or {}).get("reason")
        message = {"content": "".join(texts), "refusal": "".join(refusals) or None}
        if not response.get("error"):
            usage = response.get("usage") or {}
            return {
                "id": response.get("id"),
                "object": "chat.completion",
                "model": response.get("model"),
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", **message},
                        "finish_reason": _ENDS.get(reason, "stop"),
                    }
                ],
                "usage": {_USAGE.get(name, name): n for name, n in usage.items()},
            }
    return response
