"""An answer of the batch server, errors in either API's form, and pages of listings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import orjson

from tests.batch_server.rows import Api


@dataclass(slots=True)
class Answer:
    """Status, body and headers."""

    body: bytes
    status: int = 200
    mime: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: `step` is its name, `id` what its path names."""

    api: Api
    step: str
    id: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]
    root: str


def ok(value: Any) -> Answer:
    """A JSON answer."""
    return Answer(orjson.dumps(value))


def refuse(api: Api, status: int, message: str, code: str) -> Answer:
    """An error as the API words it."""
    if api == "anthropic":
        body: dict[str, Any] = {"type": "error", "error": {"type": code, "message": message}}
    else:
        body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return Answer(orjson.dumps(body), status)


def missing(api: Api, what: str) -> Answer:
    """A 404."""
    return refuse(api, 404, f"No such {what}.", "not_found_error")


class Entry(Protocol):
    """What a listing holds."""

    id: str
    hidden: int


E = TypeVar("E", bound=Entry)


def page(
    entries: Sequence[E], after: str | None, limit: int, shown: Callable[[E], Any], **more: Any
) -> Answer:
    """One page of entries, newest first; what is too new for this listing is not in it."""
    if after is None:  # the first page of a listing: the hidden come nearer
        seen = [entry for entry in entries if not entry.hidden]
        for entry in entries:
            entry.hidden = max(0, entry.hidden - 1)
    else:
        seen = list(entries)
    seen = seen[::-1]
    if after is not None:
        at = next((i for i, entry in enumerate(seen) if entry.id == after), len(seen))
        seen = seen[at + 1 :]
    cut = seen[:limit]
    ends = {"first_id": cut[0].id if cut else None, "last_id": cut[-1].id if cut else None}
    return ok({**more, "data": [shown(entry) for entry in cut], "has_more": len(seen) > limit, **ends})
