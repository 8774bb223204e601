"""The server: routes, keys, hooks between steps, errors on cue."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from tests.batch_server.apis import Answer, Ask, answer, refuse
from tests.batch_server.rows import Api
from tests.batch_server.store import Conduct, Store

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
_HEADERS = {"429": {"Retry-After": "0"}, "302": {"Location": "/v2"}}
Hook = Callable[[str], Any]


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
        """Tell if this request fails, and count it."""
        self.times -= self.step == step
        return self.step == step and self.times >= 0


class BatchServer:
    """Both batch APIs on a loopback port: `with BatchServer() as server: … server.openai …`.

    `openai` and `anthropic` are what `--api-base` takes. The names of the steps are upload, create, list,
     retrieve, results and cancel. `before(step)` is called when a request came in whole; if it
    returns False, the request is lost. `after(step)` is called when it was done and nothing is answered
    yet. Both may take their time, or kill the client. `judge` are fields of the judging server's Conduct,
    `conduct` those of the batch server's.
    """

    def __init__(self, judge: dict[str, Any] | None = None, **conduct: Any) -> None:
        self.conduct = Conduct(**conduct)
        self.store = Store(self.conduct, judge or {})
        self.before: Hook = lambda step: None
        self.after: Hook = lambda step: None
        self.step_errors: list[_StepError] = []
        self.steps: list[str] = []
        self.keys: set[str] = set()
        self.mistakes: list[Exception] = []
        self.lock = threading.RLock()
        self.root = self.openai = self.anthropic = ""

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

    def __enter__(self) -> BatchServer:
        self._loop, self._over, ready = (
            asyncio.new_event_loop(),
            asyncio.Event(),
            threading.Event(),
        )
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the batch server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        if self.mistakes:
            raise self.mistakes[0]

    def _run(self, ready: threading.Event) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        server = web.Server(self._handle)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.openai, self.anthropic = f"{self.root}/v1", self.root
        ready.set()
        await self._over.wait()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request._client_max_size = 1 << 30
        body, route = await request.read(), f"{request.method} {request.path}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        if (
            route == "POST /v1/chat/completions"
        ):  # a live judge beside it, to compare with
            with self.lock:
                reply = self.store.judge.chat(body, None)
                self.store.judge.leave(reply, gone=False)
            return web.Response(
                body=reply.body, status=reply.status, content_type=reply.mime
            )
        for pattern, api, step in _ROUTES:
            if result := re.fullmatch(pattern, route):
                id = result[1] if result.groups() else ""
                ask = Ask(api, step, id, dict(request.query), body, headers, self.root)
                try:
                    return await self._step(request, ask)
                except ConnectionError:  # the client is gone
                    raise
                except (
                    Exception
                ) as error:  # raised at the end: the client sees a 500 only
                    self.mistakes.append(error)
                    raise
        return web.Response(status=404, text="no such route")

    async def _step(self, request: web.BaseRequest, ask: Ask) -> web.StreamResponse:
        failure = next(
            (each.kind for each in self.step_errors if each.strikes(ask.step)), ""
        )
        handled = (
            not failure
            or failure.endswith("-after")
            or failure in ("half", "html", "huge")
        )
        output, created = Answer(b""), None
        with self.lock:
            if self.before(ask.step) is False:
                failure, handled = "drop", False
            if handled:
                self.steps.append(ask.step)
                self.keys.add(
                    ask.headers.get("x-api-key")
                    or ask.headers.get("authorization", "")[7:]
                )
                count = self.created
                output = answer(self.store, ask)
                created = (
                    list(self.store.batches.values())[-1]
                    if self.created > count
                    else None
                )
                self.after(ask.step)
            if created and self.conduct.pace == "at once":
                while not created.ended:
                    self.store.advance(created)
        return await self._deliver(request, ask, output, failure)

    async def _deliver(
        self, request: web.BaseRequest, ask: Ask, output: Answer, failure: str
    ) -> web.StreamResponse:
        kind = failure.removesuffix("-after")
        if kind in _REFUSALS:
            output = refuse(ask.api, *_REFUSALS[kind])
            output.headers |= _HEADERS.get(kind, {})
        elif kind == "html":
            output = replace(
                output, body=b"<html><title>Welcome</title></html>", mime="text/html"
            )
        elif kind in ("drop", "hang"):
            while kind == "hang" and request.transport and not self._over.is_set():  # noqa: ASYNC110 - a transport has no event
                await asyncio.sleep(0.01)
            if request.transport:
                request.transport.abort()
        elif kind in ("half", "huge"):
            await _stream(request, output.body, endless=kind == "huge")
        return web.Response(
            body=output.body,
            status=output.status,
            content_type=output.mime,
            headers=output.headers,
        )


async def _stream(request: web.BaseRequest, body: bytes, endless: bool) -> None:
    """Half of an answer, or one without end."""
    response = web.StreamResponse()
    if not endless:
        response.content_length = len(body)
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        if not endless:
            await response.write(body[: len(body) // 2])
        while endless and request.transport:
            await response.write(b" " * 65536)
    if request.transport:
        request.transport.close()
