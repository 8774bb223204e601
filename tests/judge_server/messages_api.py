"""Anthropic's Messages API by the same judge: its requests and replies as chat completions, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def chat_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """A request of the Messages API as one for a chat completion."""
    system = params.get("system") or ""
    if not isinstance(system, str):
        system = "".join(block["text"] for block in system)
    first = [{"role": "system", "content": system}] if system else []
    schema = (
        "tools" in params
        or "output_format" in params
        or "output_config" in params
    )
    form = {"response_format": {"type": "json_schema"}} if schema else {}
    return {
        "model": params["model"],
        "messages": [*first, *params["messages"]],
        **form,
    }


def message_of(params: Mapping[str, Any], chat: Any) -> dict[str, Any]:
    """A chat completion as a Message; the answer is the input of a tool if one is forced."""
    choice = (chat.get("choices") or [{}])[0] if isinstance(chat, dict) else {}
    message = choice.get("message") or {}
    text = message.get("content") or message.get("refusal") or ""
    stops = {"length": "max_tokens", "content_filter": "refusal"}
    stop = (
        "refusal"
        if message.get("refusal")
        else stops.get(choice.get("finish_reason", ""), "end_turn")
    )
    content: list[dict[str, Any]] = (
        [{"type": "text", "text": text}] if text else []
    )
    tool = (params.get("tool_choice") or {}).get("name")
    if tool and stop == "end_turn":
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError:
            answer = None
        if isinstance(answer, dict):
            content = [
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": tool,
                    "input": answer,
                }
            ]
            stop = "tool_use"
    usage = (
        chat["usage"]
        if isinstance(chat, dict)
        else {"prompt_tokens": 0, "completion_tokens": 0}
    )
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": params["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": usage["completion_tokens"],
        },
    }
