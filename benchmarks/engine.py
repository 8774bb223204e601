"""An engine that reads a file of judge requests and writes a file of replies, like each kind of engine.

    python -m benchmarks.engine FORM REQUESTS REPLIES

FORM is openai or vllm (output of their batches), anthropic (results of its Message Batches) or ray
(rows of text, as an engine without a protocol writes them). Rows come in random order. Scores are
those of the tests' judge server, so that the results can be compared with a live run.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from tests.judge_server.conduct import Conduct
from tests.judge_server.judge import Judge
from tests.judge_server.messages_api import chat_of, message_of


def completion(judge: Judge, body: dict[str, Any]) -> dict[str, Any]:
    """Return the chat completion that the judge server would send."""
    reply = judge.answer(orjson.dumps(body), 0.0, accepted=True)
    result: dict[str, Any] = orjson.loads(reply.body)
    return result


def _openai(judge: Judge, row: dict[str, Any]) -> dict[str, Any]:
    response = {
        "status_code": 200,
        "request_id": "r",
        "body": completion(judge, row["body"]),
    }
    return {
        "id": "b",
        "custom_id": row["custom_id"],
        "response": response,
        "error": None,
    }


def _anthropic(judge: Judge, row: dict[str, Any]) -> dict[str, Any]:
    params = row["params"]
    message = message_of(params, completion(judge, chat_of(params)))
    return {
        "custom_id": row["custom_id"],
        "result": {"type": "succeeded", "message": message},
    }


def _ray(judge: Judge, row: dict[str, Any]) -> dict[str, Any]:
    output = completion(judge, row["body"])
    return {
        "custom_id": row["custom_id"],
        "generated_text": output["choices"][0]["message"]["content"],
        "prompt_tokens": output["usage"]["prompt_tokens"],
        "completion_tokens": output["usage"]["completion_tokens"],
    }


FORMS: dict[str, Callable[[Judge, dict[str, Any]], dict[str, Any]]] = {
    "openai": _openai,
    "vllm": _openai,
    "anthropic": _anthropic,
    "ray": _ray,
}


def answer(form: str, requests: Path, replies: Path) -> int:
    """Answer every request, in random order; return the number of requests."""
    judge = Judge(Conduct())
    offsets: list[tuple[int, bytes]] = []
    with requests.open("rb") as lines:
        for number, line in enumerate(lines):
            offsets.append(
                (
                    number,
                    orjson.dumps(FORMS[form](judge, orjson.loads(line)))
                    + b"\n",
                )
            )
    random.Random(len(offsets)).shuffle(offsets)
    with replies.open("wb") as out:
        out.writelines(line for _, line in offsets)
    return len(offsets)


if __name__ == "__main__":
    answer(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
