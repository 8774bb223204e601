"""One request of a batch → its row of results, in either API's form, or its misbehaviour.

The model's name (after its last `/`) is the cue, as with the judging server: `row-KIND` for every row,
`once-row-KIND` for a request's first time, `some-row-KIND` for every third row, at its first time.
Any other name is answered as the judging server answers it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from tests.judge_server.judge import Judge
from tests.judge_server.messages_api import chat_of, message_of

Api = Literal["openai", "anthropic"]
KINDS = (
    "error",
    "429",
    "refused",
    "expired",
    "canceled",
    "malformed",
    "missing",
    "duplicate",
    "foreign",
)
"""Rows that: failed at the server, by a limit, for good; were not processed; are no JSON, are not there,
are there twice, are there with one of an unknown request."""
_CUE = re.compile(r"(?:(once|some)-)?row-([a-z0-9]+)")
_ERRORS = {
    "error": (500, "api_error", "Internal server error"),
    "429": (429, "rate_limit_error", "Rate limit reached for requests."),
    "refused": (
        400,
        "invalid_request_error",
        "This request cannot be processed.",
    ),
}
_UNDONE = {"expired": "batch_expired", "canceled": "batch_cancelled"}


@dataclass(frozen=True, slots=True)
class Row:
    """The lines of one request's result, and its kind: succeeded (and billed), errored, expired, canceled."""

    lines: tuple[bytes, ...]
    kind: str

    @property
    def good(self) -> bool:
        """Return whether it has scores."""
        return self.kind == "succeeded"


def cue_of(model: str, at: int, seen: int) -> str:
    """The cue of the row at a position, whose request came `seen` times before, if it has one."""
    actual = _CUE.fullmatch(model.rpartition("/")[2])
    if (
        actual is None
        or (actual[1] and seen)
        or (actual[1] == "some" and at % 3)
    ):
        return ""
    if actual[2] not in KINDS:
        raise ValueError(f"batch_server: no such row: {actual[2]}")
    return actual[2]


def undone(api: Api, custom_id: str, kind: str) -> Row:
    """A request that was not processed: `expired` or `canceled`."""
    if api == "anthropic":
        return Row((_anthropic(custom_id, {"type": kind}),), kind)
    error = {"code": _UNDONE[kind], "message": "This request was not executed."}
    return Row((_openai(custom_id, None, error),), kind)


def result_of(
    api: Api, line: Mapping[str, Any], kind: str, judge: Judge
) -> Row:
    """The result of a request: a reply, or a misbehaviour of this kind."""
    custom_id = str(line["custom_id"])
    if kind in _UNDONE:
        return undone(api, custom_id, kind)
    if kind in _ERRORS:
        return _failed(api, custom_id, *_ERRORS[kind])
    request = line["body"] if api == "openai" else chat_of(line["params"])
    reply = judge.chat(orjson.dumps(request), None)
    judge.leave(reply, gone=False)
    if reply.delivery != "whole":
        return _failed(api, custom_id, *_ERRORS["error"])
    if reply.status != 200:
        error = (
            orjson.loads(reply.body)["error"]
            if reply.mime == "application/json"
            else {}
        )
        output = error.get("message") or reply.body.decode()
        return _failed(
            api,
            custom_id,
            reply.status,
            str(error.get("code") or error.get("type")),
            output,
        )
    body = (
        orjson.loads(reply.body)
        if reply.mime == "application/json"
        else reply.body.decode()
    )
    if api == "anthropic":
        result = {
            "type": "succeeded",
            "message": message_of(line["params"], body),
        }
        good = _anthropic(custom_id, result)
    else:
        good = _openai(
            custom_id,
            {"status_code": 200, "request_id": "req_1", "body": body},
            None,
        )
    lines = {
        "malformed": (good[: len(good) // 2],),
        "missing": (),
        "duplicate": (good, good),
        "foreign": (
            good,
            good.replace(custom_id.encode(), b"0" * len(custom_id)),
        ),
    }.get(kind, (good,))
    return Row(lines, "succeeded")


def _failed(
    api: Api, custom_id: str, status: int, code: str, message: str
) -> Row:
    if api == "anthropic":
        error = {
            "type": "error",
            "error": {"type": code, "message": message},
            "request_id": "req_1",
        }
        return Row(
            (_anthropic(custom_id, {"type": "errored", "error": error}),),
            "errored",
        )
    body = {
        "error": {"message": message, "type": code, "param": None, "code": code}
    }
    response = {"status_code": status, "request_id": "req_1", "body": body}
    return Row((_openai(custom_id, response, None),), "errored")


def _openai(custom_id: str, response: Any, error: Any) -> bytes:
    row = {
        "id": f"batch_req_{custom_id[:8]}",
        "custom_id": custom_id,
        "response": response,
        "error": error,
    }
    return orjson.dumps(row)


def _anthropic(custom_id: str, result: Any) -> bytes:
    return orjson.dumps({"custom_id": custom_id, "result": result})
