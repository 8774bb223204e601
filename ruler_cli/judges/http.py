"""The direct path: one POST to an OpenAI-compatible chat completions endpoint.

aiohttp, because a call through it costs a tenth of the CPU of the provider SDKs and so the judge,
not the client, is what is waited for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import aiohttp

from ruler_cli.judges.answer_form import reply_of
from ruler_cli.judges.body import Answering, chat_body
from ruler_cli.judges.endpoint import proxy_of
from ruler_cli.judges.error_body import error_of, status_within
from ruler_cli.judges.faults import classify, clean
from ruler_cli.records import Fault, Reply, Request

_BIGGEST = 32 << 20
"""Bytes of an answer that are read; a longer one is no verdict."""
_CONNECT = 30.0
"""Seconds to make a connection."""


@dataclass(slots=True)
class HttpJudge:
    """A judge behind `{base}/chat/completions`; `answering` is what it is asked for, as far as learnt."""

    name: str
    model: str
    base: str
    key: str | None = field(repr=False)
    timeout: float
    params: Mapping[str, Any]
    answering: Answering
    _session: aiohttp.ClientSession | None = None

    async def ask(self, request: Request) -> Reply | Fault:
        """POST once; once more for each form or limit of the answer that the endpoint refuses.

        The deadline is one for all of it, from the connection to the last byte.
        """
        if self._session is None:
            raise RuntimeError("the judge is not open")
        try:
            async with asyncio.timeout(self.timeout):
                return await self._ask(request, self._session)
        except TimeoutError:
            return Fault("transport", f"the judge did not answer within {self.timeout:g} s", "call")

    async def _ask(self, request: Request, session: aiohttp.ClientSession) -> Reply | Fault:
        for posts in itertools.count(1):
            asked = self.answering
            answer = await self._post(chat_body(self.model, self.params, request, asked), session)
            if isinstance(answer, Fault):
                return answer
            status, headers, data = answer
            if status < 300:
                reply = reply_of(data, self.key)
                within = status_within(data) if isinstance(reply, Fault) else None
                if within is None:
                    if isinstance(reply, Reply):
                        self.answering = self.answering.learnt(reply)
                    return replace(reply, posts=posts) if posts > 1 else reply
                status = within
            code, message = error_of(data)
            fault = classify(status, code, message, headers, self.key)
            if fault.context is None and (better := self.answering.refused(asked, status, message)):
                self.answering = better
                continue
            return replace(fault, posts=posts)
        raise AssertionError("a count without end")

    @property
    def _patience(self) -> float:
        return min(_CONNECT, self.timeout)

    def _unreached(self, why: str) -> Fault:
        reason = f"the judge at {self.base} cannot be reached ({why}); is it running, is --api-base right?"
        return Fault("transport", reason, "call", sent=False, billed=False)

    async def _post(
        self, body: bytes, session: aiohttp.ClientSession
    ) -> tuple[int, Mapping[str, str], bytes] | Fault:
        try:
            async with session.post(
                self.base + "/chat/completions", data=body, allow_redirects=False
            ) as response:
                data = await response.content.read(_BIGGEST)
                while chunk := await response.content.read(_BIGGEST):
                    data += chunk
                    if len(data) > _BIGGEST:
                        return Fault("transport", "the judge's answer is larger than 32 MiB", "call")
                return response.status, response.headers, data
        except aiohttp.ConnectionTimeoutError:
            return self._unreached(f"no connection within {self._patience:g} s")
        except aiohttp.ClientConnectorError as error:
            return self._unreached(clean(str(error.os_error), self.key))
        except (aiohttp.InvalidURL, ValueError) as error:  # a name that cannot be looked up, a bad proxy
            return Fault("transport", f"the judge's address cannot be used ({clean(str(error))})", "run")
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError) as error:
            why = clean(str(error) or type(error).__name__, self.key)
            return Fault("transport", f"the connection to the judge broke ({why})", "call")

    async def __aenter__(self) -> Self:
        """Open the session; its pool has no ceiling of its own."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            # the deadline is around the whole call; a host that is not there is told sooner
            timeout=aiohttp.ClientTimeout(sock_connect=self._patience),
            headers=headers,
            proxy=proxy_of(self.base),  # looked up once: aiohttp would ask the environment at every call
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
