"""OpenAI's side: the Files API and the Batch API."""

from __future__ import annotations

import re
from typing import Any

import orjson

from tests.batch_server.answers import Answer, Ask, missing, ok, page, refuse
from tests.batch_server.store import Batch, File, Store

_RUNNING = ("validating", "in_progress", "finalizing")
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
_MOST, _LARGEST = 50_000, 200_000_000


def answer(store: Store, ask: Ask) -> Answer:
    """Do one step."""
    if ask.step == "upload":
        return _upload(store, ask)
    if ask.step == "create":
        return _create(store, orjson.loads(ask.body))
    if ask.step in ("files", "list"):
        limit = min(int(ask.query.get("limit", 20)), store.conduct.page)
        after = ask.query.get("after")
        if ask.step == "list":
            batches = [batch for batch in store.batches.values() if batch.api == "openai"]
            return page(batches, after, limit, _shown, object="list")
        wanted = ask.query.get("purpose")
        files = [file for file in store.files.values() if wanted in (None, file.purpose)]
        return page(files, after, limit, _file, object="list")
    if ask.step == "results":
        file = store.files.get(ask.id)
        return Answer(file.data, mime="application/octet-stream") if file else missing("openai", "File")
    batch = store.batches.get(ask.id)
    if batch is None or batch.api != "openai":
        return missing("openai", f"batch: {ask.id}")
    if ask.step == "cancel":
        if batch.ended:
            message = f"Cannot cancel a batch with status '{batch.ended}'."
            return refuse("openai", 409, message, "invalid_request_error")
        store.cancel(batch)
    elif store.conduct.pace == "retrieve":
        store.advance(batch)
    return ok(_shown(batch))


def _upload(store: Store, ask: Ask) -> Answer:
    parts = _parts(ask.headers["content-type"].partition("boundary=")[2], ask.body)
    (_, purpose), (name, data) = parts["purpose"], parts["file"]
    if len(data) > _LARGEST:
        return refuse("openai", 413, "The file is too large.", "request_too_large")
    return ok(_file(store.keep(name, purpose.decode(), data)))


def _parts(boundary: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """The parts of a form by their names: file name and bytes."""
    parts = {}
    for part in body.split(b"--" + boundary.encode())[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        found = re.search(r'form-data; name="([^"]+)"(?:; filename="([^"]+)")?', head.decode())
        if found is None or not data.endswith(b"\r\n"):
            raise ValueError("batch_server: not a multipart form")
        parts[found[1]] = (found[2] or "", data[:-2])
    return parts


def _create(store: Store, body: dict[str, Any]) -> Answer:
    file = store.files.get(body["input_file_id"])
    if file is None or file.purpose != "batch":
        return refuse("openai", 400, "Invalid file: it does not exist.", "invalid_request_error")
    if (body["endpoint"], body["completion_window"]) != ("/v1/chat/completions", "24h"):
        return refuse("openai", 400, "Invalid endpoint or window.", "invalid_request_error")
    lines, invalid = _read(file.data)
    batch = store.begin("openai", lines, body.get("metadata"), file.id)
    batch.invalid = "The batch is not valid, said the test." if store.conduct.fails else invalid
    return ok(_shown(batch))


def _read(data: bytes) -> tuple[list[dict[str, Any]], str]:
    """The requests of a file, and why they are none."""
    try:
        lines = [orjson.loads(line) for line in data.splitlines()]
        models = {line["body"]["model"] for line in lines}
        fine = all(line["method"] == "POST" and line["url"] == "/v1/chat/completions" for line in lines)
        ids = {line["custom_id"] for line in lines}
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        return [], f"This line is not valid: {error}"
    if not fine or len(models) != 1:
        return lines, "The requests name several models, or another endpoint."
    if len(ids) != len(lines) or len(lines) > _MOST:
        return lines, "A custom_id comes twice, or there are too many requests."
    return lines, ""


def _file(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.data),
        "created_at": int(file.created),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


def _shown(batch: Batch) -> dict[str, Any]:
    status = batch.ended.replace("canceled", "cancelled") or _RUNNING[batch.stage]
    if batch.canceling and not batch.ended:
        status = "cancelling"
    errors = {"object": "list", "data": [{"code": "invalid", "line": 1, "message": batch.invalid}]}
    good = sum(row.good for row in batch.done)
    counted = batch.stage > 0
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "errors": errors if batch.ended == "failed" else None,
        "input_file_id": batch.file,
        "completion_window": "24h",
        "status": status,
        "output_file_id": batch.output,
        "error_file_id": batch.errors,
        "created_at": int(batch.created),
        "expires_at": int(batch.created) + 86_400,
        **{f"{word}_at": _time(batch, word) for word in _TIMES},
        "metadata": batch.metadata,
        "request_counts": {
            "total": len(batch.lines) if counted else 0,
            "completed": good,
            "failed": sum(row.kind == "errored" for row in batch.done),
        },
    }


def _time(batch: Batch, word: str) -> int | None:
    """The time that a batch was given a word; None before."""
    when = batch.times.get(word.replace("cancell", "cancel"))
    return None if when is None else int(when)
