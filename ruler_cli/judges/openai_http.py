"""Judge behind an OpenAI-compatible endpoint: one POST for each call.

aiohttp needs a tenth of the CPU that the provider SDKs need for a call, so the judge and not the client
limits the throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict

from ruler_cli.judges.chat_completions import AnswerFormat, ChatJudge, chat_body
from ruler_cli.judges.provider_errors import ErrorResponse, read_response
from ruler_cli.types import LARGEST, TOO_LARGE, CallError, Reply, Request, clean

_CONNECT = 30.0
"""Seconds to make a connection."""


@dataclass(slots=True)
class HttpJudge(ChatJudge):
    """A judge behind `{base}/chat/completions`, with further `headers` and a `query` in each call."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)
    _session: aiohttp.ClientSession = field(init=False, repr=False)

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        body = chat_body(self.model, self.params, request, how)
        url = f"{self.base}/chat/completions{self.query}"
        try:
            async with self._session.post(
                url, data=body, allow_redirects=False
            ) as response:
                data = b""
                while chunk := await response.content.read(LARGEST):
                    data += chunk  # decompressed a little at a time
                    if len(data) > LARGEST:
                        return CallError("transport", TOO_LARGE, "call")
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
            why = clean(str(getattr(error, "os_error", error)), self.secret)
            unreached = f"the judge at {self.base} cannot be reached ({why}); is it running, and is the address right?"
            return CallError("transport", unreached, "call", sent=False, billed=False)
        except (aiohttp.InvalidURL, ValueError) as error:
            # a name that cannot be looked up, a bad proxy
            unusable = (
                f"the judge's address cannot be used ({clean(str(error), self.secret)})"
            )
            return CallError("transport", unusable, "run")
        except (
            aiohttp.ClientError,
            ConnectionError,
            asyncio.IncompleteReadError,
        ) as error:
            why = clean(str(error) or type(error).__name__, self.secret)
            broke = f"the connection to the judge broke ({why})"
            return CallError("transport", broke, "call")
        return read_response(response.status, data, response.headers, self.secret)

    async def __aenter__(self) -> Self:
        """Open the session; it does not limit the number of connections."""
        headers = CIMultiDict({"Content-Type": "application/json"})
        self.secret = (*self.secrets, self.key or "")
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        for name, value in self.headers.items():  # one replaces another in any case
            headers[name] = value
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            # `ask` has the deadline of the whole call; an unreachable host is reported sooner
            timeout=aiohttp.ClientTimeout(sock_connect=min(_CONNECT, self.timeout)),
            headers=headers,
            # aiohttp would read the environment for every call
            proxy=proxy_of(self.base or ""),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()


def proxy_of(base: str) -> str | None:
    """The proxy for an endpoint, as the environment names it, or None."""
    parts = urlsplit(base)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)
