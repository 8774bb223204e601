"""Request → the body of a chat completions call: what a live run sends, and what a request file holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ruler_cli.judges.answer_form import FORMATS
from ruler_cli.records import Request

_ROOMS = ("max_completion_tokens", "max_tokens")


def room_of(base: str) -> str:
    """The parameter that bounds an answer at an endpoint: OpenAI's own models know no `max_tokens`."""
    return _ROOMS[0] if "api.openai.com" in base else _ROOMS[1]


def chat_body(model: str, params: Mapping[str, Any], request: Request, room: str, level: int = 0) -> bytes:
    """The JSON body; `room` names the parameter that bounds the answer, `level` is the answer's form."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
    }
    if FORMATS[level]:
        body["response_format"] = FORMATS[level]
    body |= params
    if request.room:
        told = [name for name in _ROOMS if name in params]
        body[told[0] if told else room] = request.room
    return orjson.dumps(body)
