"""Both batch APIs of the server: OpenAI's Files and Batch API, Anthropic's Message Batches API."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import orjson

from tests.judge_server.batch_rows import Api
from tests.judge_server.batch_store import Batch, Conduct, Store
from tests.judge_server.judge import Judge
from tests.judge_server.replies import Reply

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
Hook = Callable[[str], Any]
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


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


_ROUTES: tuple[tuple[str, Api, str], ...] = (
    (r"POST /v1/files", "openai", "upload"),
    (r"GET /v1/files/([^/]+)/content", "openai", "results"),
    (r"POST /v1/batches", "openai", "create"),
    (r"GET /v1/batches", "openai", "list"),
    (r"GET /v1/batches/([^/]+)", "openai", "retrieve"),
    (r"POST /v1/batches/([^/]+)/cancel", "openai", "cancel"),
    (r"POST /v1/messages/batches", "anthropic", "create"),
    (r"GET /v1/messages/batches", "anthropic", "list"),
    (r"GET /v1/messages/batches/([^/]+)", "anthropic", "retrieve"),
    (r"GET /v1/messages/batches/([^/]+)/results", "anthropic", "results"),
    (r"POST /v1/messages/batches/([^/]+)/cancel", "anthropic", "cancel"),
)
_REFUSALS = {
    "400": (400, "We could not process your request.", "invalid_request_error"),
    "401": (401, "Incorrect API key provided.", "authentication_error"),
    "403": (403, "Your key has no access to this.", "permission_error"),
    "404": (404, "Not found.", "not_found_error"),
    "413": (413, "The request is too large.", "request_too_large"),
    "429": (429, "Rate limit reached for requests.", "rate_limit_error"),
    "quota": (429, "You exceeded your current quota.", "insufficient_quota"),
    "500": (500, "The server had an error.", "api_error"),
    "302": (302, "It is elsewhere.", "moved"),
}
_HEADERS = {"429": "Retry-After: 0\r\n", "302": "Location: /v2\r\n"}


@dataclass(slots=True)
class _StepError:
    """An error of the next requests of one step.

    `drop` hangs up, the request unhandled; `half` in the middle of the answer; `hang` never answers; `html`
    and `huge` answer with a page and without end; all else is in _REFUSALS. With `-after` the request has
    been handled.
    """

    step: str
    kind: str
    times: int

    def strikes(self, step: str) -> bool:
        """Return whether this request fails, and count it."""
        self.times -= self.step == step
        return self.step == step and self.times >= 0


class BatchApis:
    """Both batch APIs of one account, beside a judge.

    The names of the steps are upload, create, list, retrieve, results and cancel. `before(step)` is called
    when a request came in whole; if it returns False, the request is lost. `after(step)` is called when it
    was done and nothing is answered yet. Both may take their time, or kill the client. `conduct` are fields of
    Conduct.
    """

    def __init__(self, judge: Judge, **conduct: Any) -> None:
        self.judge = judge
        self.conduct = Conduct(**conduct)
        self.store = Store(self.conduct, judge)
        self.before: Hook = lambda step: None
        self.after: Hook = lambda step: None
        self.step_errors: list[_StepError] = []
        self.steps: list[str] = []
        self.keys: set[str] = set()
        self.mistakes: list[Exception] = []
        self.lock = threading.RLock()

    @property
    def created(self) -> int:
        """Batches ever created."""
        return len(self.store.batches)

    @property
    def billed(self) -> int:
        """Requests ever billed, of all batches."""
        return sum(self.store.billed.values())

    @property
    def billed_again(self) -> int:
        """Requests billed more than once."""
        return sum(count - 1 for count in self.store.billed.values() if count)

    def advance(self, steps: int = 1) -> None:
        """Advance every batch by so many steps; three end it."""
        with self.lock:
            for _ in range(steps):
                for batch in list(self.store.batches.values()):
                    self.store.advance(batch)

    def fault(self, step: str, kind: str, times: int = 1) -> None:
        """Make the next requests of one step fail."""
        assert kind.removesuffix("-after") in {
            *_REFUSALS,
            "drop",
            "half",
            "hang",
            "html",
            "huge",
        }
        self.step_errors.append(_StepError(step, kind, times))

    def reply(
        self,
        route: str,
        query: str,
        body: bytes,
        headers: dict[str, str],
        root: str,
    ) -> Reply | None:
        """The reply to a request of a batch API; None if it is of none."""
        for pattern, api, step in _ROUTES:
            if result := re.fullmatch(pattern, route):
                id = result[1] if result.groups() else ""
                ask = Ask(
                    api, step, id, dict(parse_qsl(query)), body, headers, root
                )
                try:
                    return self._step(ask)
                except Exception as error:  # noqa: BLE001 - a test's mistake, raised at its end
                    self.mistakes.append(error)
                    return refuse(api, 500, repr(error), "api_error")
        return None

    def _step(self, ask: Ask) -> Reply:
        failure = next(
            (each.kind for each in self.step_errors if each.strikes(ask.step)),
            "",
        )
        handled = (
            not failure
            or failure.endswith("-after")
            or failure in ("half", "html", "huge")
        )
        output, created = Reply(b""), None
        with self.lock:
            if self.before(ask.step) is False:
                failure, handled = "drop", False
            if handled:
                self.steps.append(ask.step)
                bearer = ask.headers.get("authorization", "")[7:]
                self.keys.add(ask.headers.get("x-api-key") or bearer)
                count = self.created
                output = answer(self.store, ask)
                if self.created > count:
                    created = list(self.store.batches.values())[-1]
                self.after(ask.step)
            if created and self.conduct.pace == "at once":
                while not created.ended:
                    self.store.advance(created)
        kind = failure.removesuffix("-after")
        if kind in _REFUSALS:
            output = refuse(ask.api, *_REFUSALS[kind])
            output.headers = _HEADERS.get(kind, "")
        elif kind == "html":
            output.body, output.mime = (
                b"<html><title>Welcome</title></html>",
                "text/html",
            )
        elif kind:
            output.delivery = "flood" if kind == "huge" else kind
        return output


def refuse(
    api: Api, status: int, message: str, code: str = "invalid_request_error"
) -> Reply:
    """An error as the API words it."""
    if api == "anthropic":
        body: dict[str, Any] = {
            "type": "error",
            "error": {"type": code, "message": message},
        }
    else:
        body = {
            "error": {
                "message": message,
                "type": code,
                "param": None,
                "code": code,
            }
        }
    return Reply(orjson.dumps(body), status)


def answer(store: Store, ask: Ask) -> Reply:
    """Do one step."""
    api = ask.api
    if api == "anthropic" and not ask.headers.get("anthropic-version"):
        return refuse(api, 400, "anthropic-version: header is required")
    if ask.step in ("upload", "create") and len(ask.body) > _MOST[api][1]:
        return refuse(
            api, 413, "The request is too large.", "request_too_large"
        )
    shown: Callable[[Batch], Any] = (
        _openai
        if api == "openai"
        else lambda batch: _anthropic(batch, ask.root)
    )
    if ask.step == "upload":
        return _upload(store, ask)
    if ask.step == "create":
        made = (
            _create_openai(store, ask)
            if api == "openai"
            else _create_anthropic(store, ask)
        )
        return made if isinstance(made, Reply) else _ok(shown(made))
    if ask.step == "list":
        return _page(store, ask, shown)
    if ask.step == "results" and api == "openai":
        data = store.files.get(ask.id)
        return (
            refuse(api, 404, "No such File.")
            if data is None
            else Reply(data, mime="application/x-jsonl")
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
        return Reply(store.files[batch.output], mime="application/x-jsonl")
    if ask.step == "cancel":
        if batch.ended:
            message = f"Cannot cancel a batch with status '{batch.ended}'."
            return refuse(api, 409 if api == "openai" else 400, message)
        batch.canceling = True
    elif store.conduct.pace == "retrieve":
        store.advance(batch)
    return _ok(shown(batch))


def _ok(value: Any) -> Reply:
    return Reply(orjson.dumps(value))


def _page(store: Store, ask: Ask, shown: Callable[[Batch], Any]) -> Reply:
    """One page of a listing, newest first, without batches that are too new for it."""
    batches = [
        batch for batch in store.batches.values() if batch.api == ask.api
    ]
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


def _upload(store: Store, ask: Ask) -> Reply:
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
        {
            "id": store.keep(data, name),
            **about,
            "filename": name,
            "purpose": purpose,
        }
    )


def _create_openai(store: Store, ask: Ask) -> Batch | Reply:
    body = orjson.loads(ask.body)
    data = store.files.get(body["input_file_id"])
    if data is None:
        return refuse("openai", 400, "Invalid file: it does not exist.")
    if (body["endpoint"], body["completion_window"]) != (
        "/v1/chat/completions",
        "24h",
    ):
        return refuse("openai", 400, "Invalid endpoint or window.")
    lines = [orjson.loads(line) for line in data.splitlines()]
    batch = store.begin(
        "openai", lines, body.get("metadata"), body["input_file_id"]
    )
    ids = {line["custom_id"] for line in lines}
    if {(line["method"], line["url"]) for line in lines} != {
        ("POST", "/v1/chat/completions")
    }:
        batch.invalid = "The requests name another endpoint."
    elif len(ids) != len(lines) or len(lines) > _MOST["openai"][0]:
        batch.invalid = (
            "A custom_id comes twice, or there are too many requests."
        )
    elif len({line["body"]["model"] for line in lines}) != 1:
        batch.invalid = "The requests name several models."
    if store.conduct.fails:
        batch.invalid = "The batch is not valid, said the test."
    return batch


def _create_anthropic(store: Store, ask: Ask) -> Batch | Reply:
    lines = orjson.loads(ask.body)["requests"]
    ids = [line["custom_id"] for line in lines]
    fine = all(
        set(line) == {"custom_id", "params"}
        and _ID.fullmatch(line["custom_id"])
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
