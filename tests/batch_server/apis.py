"""Both sides of the batch server: OpenAI's Files and Batch API, Anthropic's Message Batches API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from tests.batch_server.rows import Api
from tests.batch_server.store import Batch, Store

_RUNNING = ("validating", "in_progress", "finalizing")
_TIMES = (
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "expired",
    "cancelling",
    "cancelled",
)
_MOST: dict[Api, tuple[int, int]] = {
    "openai": (50_000, 200_000_000),
    "anthropic": (100_000, 256_000_000),
}
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(slots=True)
class Answer:
    """Status, body and headers."""

    body: bytes
    status: int = 200
    mime: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: `step` is its name, `id` the one in its path."""

    api: Api
    step: str
    id: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]
    root: str


def refuse(
    api: Api, status: int, message: str, code: str = "invalid_request_error"
) -> Answer:
    """An error as the API words it."""
    if api == "anthropic":
        body: dict[str, Any] = {
            "type": "error",
            "error": {"type": code, "message": message},
        }
    else:
        body = {
            "error": {"message": message, "type": code, "param": None, "code": code}
        }
    return Answer(orjson.dumps(body), status)


def answer(store: Store, ask: Ask) -> Answer:
    """Do one step."""
    api = ask.api
    if api == "anthropic" and not ask.headers.get("anthropic-version"):
        return refuse(api, 400, "anthropic-version: header is required")
    if ask.step in ("upload", "create") and len(ask.body) > _MOST[api][1]:
        return refuse(api, 413, "The request is too large.", "request_too_large")
    shown: Callable[[Batch], Any] = (
        _openai if api == "openai" else lambda batch: _anthropic(batch, ask.root)
    )
    if ask.step == "upload":
        return _upload(store, ask)
    if ask.step == "create":
        made = (
            _create_openai(store, ask)
            if api == "openai"
            else _create_anthropic(store, ask)
        )
        return made if isinstance(made, Answer) else _ok(shown(made))
    if ask.step == "list":
        return _page(store, ask, shown)
    if ask.step == "results" and api == "openai":
        data = store.files.get(ask.id)
        return (
            refuse(api, 404, "No such File.")
            if data is None
            else Answer(data, mime="application/x-jsonl")
        )
    batch = store.batches.get(ask.id)
    if batch is None or batch.api != api:
        return refuse(api, 404, f"No such batch: {ask.id}.", "not_found_error")
    if ask.step == "results":
        if not batch.output:
            return refuse(
                api,
                404,
                "No results yet: the batch is still in progress.",
                "not_found_error",
            )
        return Answer(store.files[batch.output], mime="application/x-jsonl")
    if ask.step == "cancel":
        if batch.ended:
            message = f"Cannot cancel a batch with status '{batch.ended}'."
            return refuse(api, 409 if api == "openai" else 400, message)
        batch.canceling = True
    elif store.conduct.pace == "retrieve":
        store.advance(batch)
    return _ok(shown(batch))


def _ok(value: Any) -> Answer:
    return Answer(orjson.dumps(value))


def _page(store: Store, ask: Ask, shown: Callable[[Batch], Any]) -> Answer:
    """One page of a listing, newest first, without batches that are too new for it."""
    batches = [batch for batch in store.batches.values() if batch.api == ask.api]
    after = ask.query.get("after" if ask.api == "openai" else "after_id")
    if after is None:  # the first page of a listing: the hidden come nearer
        seen = [batch for batch in batches if not batch.hidden][::-1]
        for batch in batches:
            batch.hidden = max(0, batch.hidden - 1)
    else:
        seen = batches[: [batch.id for batch in batches].index(after)][::-1]
    cut = seen[: min(int(ask.query.get("limit", 20)), store.conduct.page)]
    ends = {
        "first_id": cut[0].id if cut else None,
        "last_id": cut[-1].id if cut else None,
    }
    more = len(seen) > len(cut)
    return _ok(
        {
            "object": "list",
            "data": [shown(each) for each in cut],
            "has_more": more,
            **ends,
        }
    )


def _upload(store: Store, ask: Ask) -> Answer:
    """Store the file of a multipart form."""
    boundary, parts = (
        ask.headers["content-type"].partition("boundary=")[2],
        dict[str, tuple[str, bytes]](),
    )
    for part in ask.body.split(b"--" + boundary.encode())[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        result = re.search(
            r'form-data; name="([^"]+)"(?:; filename="([^"]+)")?', head.decode()
        )
        if result is None or not data.endswith(b"\r\n"):
            raise ValueError("batch_server: not a multipart form")
        parts[result[1]] = (result[2] or "", data[:-2])
    (name, data), purpose = parts["file"], parts["purpose"][1].decode()
    about = {
        "object": "file",
        "bytes": len(data),
        "created_at": int(store.now),
        "status": "processed",
    }
    return _ok(
        {"id": store.keep(data, name), **about, "filename": name, "purpose": purpose}
    )


def _create_openai(store: Store, ask: Ask) -> Batch | Answer:
    body = orjson.loads(ask.body)
    data = store.files.get(body["input_file_id"])
    if data is None:
        return refuse("openai", 400, "Invalid file: it does not exist.")
    if (body["endpoint"], body["completion_window"]) != ("/v1/chat/completions", "24h"):
        return refuse("openai", 400, "Invalid endpoint or window.")
    lines = [orjson.loads(line) for line in data.splitlines()]
    batch = store.begin("openai", lines, body.get("metadata"), body["input_file_id"])
    ids = {line["custom_id"] for line in lines}
    if {(line["method"], line["url"]) for line in lines} != {
        ("POST", "/v1/chat/completions")
    }:
        batch.invalid = "The requests name another endpoint."
    elif len(ids) != len(lines) or len(lines) > _MOST["openai"][0]:
        batch.invalid = "A custom_id comes twice, or there are too many requests."
    elif len({line["body"]["model"] for line in lines}) != 1:
        batch.invalid = "The requests name several models."
    if store.conduct.fails:
        batch.invalid = "The batch is not valid, said the test."
    return batch


def _create_anthropic(store: Store, ask: Ask) -> Batch | Answer:
    lines = orjson.loads(ask.body)["requests"]
    ids = [line["custom_id"] for line in lines]
    fine = all(
        set(line) == {"custom_id", "params"} and _ID.fullmatch(line["custom_id"])
        for line in lines
    )
    few = 0 < len(ids) <= _MOST["anthropic"][0]
    if not fine or len(set(ids)) != len(ids) or not few or store.conduct.fails:
        return refuse("anthropic", 400, "requests: they are not valid")
    return store.begin("anthropic", lines)


def _openai(batch: Batch) -> dict[str, Any]:
    running = "cancelling" if batch.canceling else _RUNNING[min(batch.stage, 2)]
    errors = {
        "object": "list",
        "data": [{"code": "invalid", "line": 1, "message": batch.invalid}],
    }
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "errors": errors if batch.ended == "failed" else None,
        "input_file_id": batch.file,
        "completion_window": "24h",
        "status": batch.ended.replace("canceled", "cancelled") or running,
        "output_file_id": batch.output,
        "error_file_id": batch.errors,
        "created_at": int(batch.created),
        "expires_at": int(batch.created) + 86_400,
        **{f"{word}_at": None for word in _TIMES},
        "metadata": batch.metadata,
        "request_counts": {
            "total": len(batch.lines) if batch.stage else 0,
            "completed": sum(row.good for row in batch.done),
            "failed": sum(row.kind == "errored" for row in batch.done),
        },
    }


def _anthropic(batch: Batch, root: str) -> dict[str, Any]:
    kinds = Counter[str](row.kind for row in batch.done)
    if not batch.ended:
        kinds = Counter(processing=len(batch.lines))
    created = datetime.fromtimestamp(batch.created, UTC)
    running = "canceling" if batch.canceling else "in_progress"
    words = ("processing", "succeeded", "errored", "canceled", "expired")
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if batch.ended else running,
        "request_counts": {each: kinds[each] for each in words},
        "created_at": created.isoformat(),
        "ended_at": created.isoformat() if batch.ended else None,
        "expires_at": (created + timedelta(days=1)).isoformat(),
        "archived_at": None,
        "cancel_initiated_at": created.isoformat() if batch.canceling else None,
        "results_url": f"{root}/v1/messages/batches/{batch.id}/results"
        if batch.ended
        else None,
    }
