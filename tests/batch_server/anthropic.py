"""Anthropic's side: the Message Batches API."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from tests.batch_server.answers import Answer, Ask, missing, ok, page, refuse
from tests.batch_server.store import Batch, Store

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST, _LARGEST = 100_000, 256_000_000
_VERSIONS = ("2023-06-01", "2026-10-21")
"""Versions of the API: the batches of both are the same, the later knows no sampling parameters."""


def answer(store: Store, ask: Ask) -> Answer:
    """Do one step."""
    if ask.headers.get("anthropic-version") not in _VERSIONS:
        return refuse("anthropic", 400, "anthropic-version: header is required", "invalid_request_error")
    if ask.step == "create":
        return _create(store, ask)
    root = store.conduct.results_host or ask.root
    if ask.step == "list":
        batches = [batch for batch in store.batches.values() if batch.api == "anthropic"]
        limit = min(int(ask.query.get("limit", 20)), store.conduct.page)
        return page(batches, ask.query.get("after_id"), limit, lambda batch: _shown(batch, root))
    batch = store.batches.get(ask.id)
    if batch is None or batch.api != "anthropic":
        return missing("anthropic", f"batch: {ask.id}")
    if ask.step == "results":
        if not batch.output:
            return missing("anthropic", "results yet: the batch is still in progress")
        return Answer(store.files[batch.output].data, mime="application/x-jsonl")
    if ask.step == "cancel":
        if batch.ended:
            return refuse("anthropic", 400, "The batch has ended.", "invalid_request_error")
        store.cancel(batch)
    elif store.conduct.pace == "retrieve":
        store.advance(batch)
    return ok(_shown(batch, root))


def _create(store: Store, ask: Ask) -> Answer:
    if len(ask.body) > _LARGEST:
        return refuse("anthropic", 413, "Request exceeds the maximum size.", "request_too_large")
    lines = orjson.loads(ask.body)["requests"]
    ids = [line["custom_id"] for line in lines]
    fine = all(set(line) == {"custom_id", "params"} and _ID.fullmatch(line["custom_id"]) for line in lines)
    if not fine or len(set(ids)) != len(ids) or not 0 < len(ids) <= _MOST or store.conduct.fails:
        return refuse("anthropic", 400, "requests: they are not valid", "invalid_request_error")
    return ok(_shown(store.begin("anthropic", lines), ask.root))


def _shown(batch: Batch, root: str) -> dict[str, Any]:
    kinds = Counter[str](row.kind for row in batch.done)
    if not batch.ended:
        kinds = Counter(processing=len(batch.lines))
    created = datetime.fromtimestamp(batch.created, UTC)
    running = "canceling" if batch.canceling else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if batch.ended else running,
        "request_counts": {
            each: kinds[each] for each in ("processing", "succeeded", "errored", "canceled", "expired")
        },
        "created_at": created.isoformat(),
        "ended_at": _time(batch, batch.ended),
        "expires_at": (created + timedelta(days=1)).isoformat(),
        "archived_at": None,
        "cancel_initiated_at": _time(batch, "canceling"),
        "results_url": f"{root}/v1/messages/batches/{batch.id}/results" if batch.ended else None,
    }


def _time(batch: Batch, word: str) -> str | None:
    """The time that a batch was given a word; None before."""
    when = batch.times.get(word)
    return None if when is None else datetime.fromtimestamp(when, UTC).isoformat()
