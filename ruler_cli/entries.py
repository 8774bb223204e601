"""One row of a ledger: how an answer or a failed call's mark is written, and how a mark is read."""

from __future__ import annotations

import json
import time
from typing import Literal, get_args

from ruler_cli.records import Fault, Kind, Reply

Status = Literal["answer", "truncated", "refusal", "odd", "fault"]
"""A reply (whole, cut off, declined), a body that is no chat completion, the mark of a call given up."""
Entry = tuple[bytes, float, float, str, Status, int | None, int | None, int | None, bytes]
"""Key, Unix time, seconds, model, status, prompt, completion and cached tokens, body."""

INSERT = (
    "INSERT INTO replies (key, at, seconds, model, status, prompt, completion, cached, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
NEWEST = "SELECT status FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_RANKS: dict[Status | None, int] = {None: 0, "odd": 1, "fault": 2}
"""How much a status says; that of a reply says most."""
_REPLY = 3


def says_more(status: Status, held: Status | None) -> bool:
    """Whether an answer that came otherwise than by a call is to stand over what a ledger holds.

    An answer over a mark, a mark over a body that is none; of two of a kind the first stays. So it does
    not matter in which order such answers come.
    """
    return _RANKS.get(status, _REPLY) > _RANKS.get(held, _REPLY)


def entry_of(key: bytes, model: str, answer: Reply | Fault, seconds: float) -> Entry:
    """The row of an answer that came now; ValueError where it is to be asked again and not kept."""
    # a name that comes from a command line may hold what is no text
    name = model.encode("utf-8", "backslashreplace").decode()
    if isinstance(answer, Reply):
        if not answer.body:
            raise ValueError("a reply without a body was made here and is not kept")
        status: Status = "refusal" if answer.refusal else "truncated" if answer.truncated else "answer"
        used = answer.usage
        counts = (used.prompt, used.completion, used.cached)
        return key, time.time(), seconds, name, status, *counts, answer.body
    if answer.scope == "call" and answer.body:
        return key, time.time(), seconds, name, "odd", None, None, None, answer.body
    if answer.scope != "group" or not answer.sent or answer.kind in ("budget", "interrupted"):
        raise ValueError(f"not a call that failed for good: {answer}")
    mark = {"kind": answer.kind, "reason": answer.reason, "context": answer.context}
    return key, time.time(), seconds, name, "fault", None, None, None, json.dumps(mark).encode()


def mark_of(body: bytes) -> Fault | None:
    """The mark that a row holds; None where it cannot be read."""
    try:
        mark = json.loads(body)
        kind, reason, context = mark["kind"], mark["reason"], mark["context"]
        sizes = None if context is None else (int(context[0]), int(context[1]))
    except (ValueError, LookupError, TypeError):
        return None
    return Fault(kind, str(reason), "group", context=sizes) if kind in get_args(Kind) else None
