"""OpenAI's Responses API, for models without chat completions: a chat request → its request, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.judges.providers import LIMITS

_ENDS: dict[Any, str] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


def response_arguments(chat: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a response; nothing is stored by the provider, as for a chat completion."""
    body = {"store": False, **chat}
    *_, user = body["input"] = body.pop("messages")
    if isinstance(user["content"], list):
        user["content"] = list(map(_part, user["content"]))
    for name in LIMITS:
        if name in body:
            body["max_output_tokens"] = body.pop(name)
    form = body.pop("response_format", None)
    if isinstance(form, Mapping):
        schema = form.get("json_schema") or {}
        body["text"] = {"format": {"type": form.get("type"), **schema}}
    if effort := body.pop("reasoning_effort", None):
        body["reasoning"] = {"effort": effort}
    return body


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    picture = part.get("image_url")
    if picture is None:
        return {"type": "input_text", "text": part["text"]}
    detail = {name: item for name, item in picture.items() if name != "url"}
    return {"type": "input_image", "image_url": picture["url"], **detail}


def completion_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response as a chat completion; LookupError or TypeError if it is none."""
    texts = {"output_text": "", "refusal": ""}
    for item in response["output"]:
        for part in item.get("content") or ():
            kind = part["type"]
            if kind in texts:
                texts[kind] += part.get("text") or part.get("refusal") or ""
    reason = (response.get("incomplete_details") or {}).get("reason")
    message = {"content": texts["output_text"], "refusal": texts["refusal"]}
    usage = response.get("usage") or {}
    return {
        "model": response.get("model"),
        "choices": [
            {"message": message, "finish_reason": _ENDS.get(reason, "stop")},
        ],
        "usage": {
            name.replace("input", "prompt").replace(
                "output", "completion"
            ): tokens
            for name, tokens in usage.items()
        },
    }
