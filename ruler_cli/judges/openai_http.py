"""Judge behind an OpenAI-compatible endpoint: one POST for each call.

aiohttp needs a tenth of the CPU that the provider SDKs need for a call, so the judge and not the client
limits the throughput.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Self

import aiohttp

from ruler_cli.judges.chat_completions import AnswerFormat, ChatJudge, chat_body
from ruler_cli.judges.network import advice, judge_through, proxy_of, trusted
from ruler_cli.judges.provider_errors import ErrorResponse, read_response
from ruler_cli.types import CallError, Reply, Request, clean

_BIGGEST = 32 << 20
"""Bytes of a response that are read; a longer one is an error."""
_CONNECT = 30.0
"""Seconds to make a connection."""


@dataclass(slots=True)
class HttpJudge(ChatJudge):
    """A judge behind `{base}/chat/completions`."""

    _session: aiohttp.ClientSession = field(init=False, repr=False)
    _proxy: str | None = field(default=None, init=False, repr=False)

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        body = chat_body(self.model, self.params, request, how)
        path = "responses" if how.responses else "chat/completions"
        url = f"{self.base}/{path}"
        try:
            async with self._session.post(
                url, data=body, allow_redirects=False
            ) as response:
                data = b""
                while chunk := await response.content.read(_BIGGEST):
                    data += chunk
                    if len(data) > _BIGGEST:
                        large = "the judge's answer is larger than 32 MiB"
                        return CallError("transport", large, "call")
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
            why = clean(str(getattr(error, "os_error", error)), self.key)
            through = self.who.removeprefix("the judge")
            unreached = f"the judge at {self.base} cannot be reached{through} ({why}); {advice(why, self._proxy)}"
            return CallError("transport", unreached, "call", sent=False, billed=False)
        except (aiohttp.InvalidURL, ValueError) as error:
            # a name that cannot be looked up, a bad proxy
            unusable = f"the judge's address cannot be used ({clean(str(error))})"
            return CallError("transport", unusable, "run")
        except (
            aiohttp.ClientError,
            ConnectionError,
            asyncio.IncompleteReadError,
        ) as error:
            why = clean(str(error) or type(error).__name__, self.key)
            broke = f"the connection to {self.who} broke ({why})"
            return CallError("transport", broke, "call")
        return read_response(response.status, data, response.headers, self.key)

    async def __aenter__(self) -> Self:
        """Open the session; it does not limit the number of connections."""
        headers = {"Content-Type": "application/json"}
        self.secret = self.key
        # aiohttp would read the environment for every call
        self._proxy = proxy_of(self.base or "")
        self.who = judge_through(self._proxy)
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=300, ssl=trusted(self.base or "")
            ),
            # `ask` has the deadline of the whole call; an unreachable host is reported sooner
            timeout=aiohttp.ClientTimeout(sock_connect=min(_CONNECT, self.timeout)),
            headers=headers,
            proxy=self._proxy,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
