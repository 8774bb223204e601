"""The judge behind an endpoint: one session, its proxy and certificates, the bound on an answer.

aiohttp needs a tenth of the CPU that the provider SDKs need for a call, so the judge and not the client
limits the throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from multidict import CIMultiDict

from ruler_cli.judges.chat_completions import AnswerFormat, ChatJudge, chat_body
from ruler_cli.judges.decisions import Route, unshown
from ruler_cli.judges.network import advice, proxy_of
from ruler_cli.judges.provider_errors import ErrorResponse, read_response
from ruler_cli.judges.replies import LARGEST, TOO_LARGE
from ruler_cli.types import CallError, Reply, Request, clean

_CONNECT = 30.0
"""Seconds to make a connection."""


@dataclass(slots=True, kw_only=True)
class HttpJudge(ChatJudge):
    """A judge behind the `/chat/completions` of an endpoint, or behind the route of decision models.

    `headers` and `query` are those of every call. It is open while it is used as a context.
    """

    base: str
    headers: Mapping[str, str] = field(repr=False)
    query: str = ""
    route: Route | None = None
    _session: Any = None
    _proxy: str | None = None

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        route = self.route
        if route is None:
            body = chat_body(self.model, self.params, request, how)
            return await self._send("chat/completions", body)
        if error := unshown(request):
            return error
        body = route.body(self.model, self.params, request)
        answer = await self._send(route.path, body)
        if isinstance(answer, ErrorResponse):
            # rows of the table are about the API
            answer = answer._replace(codes=f"{route.path} {answer.codes}")
        return answer

    async def _send(
        self, path: str, body: bytes
    ) -> Reply | CallError | ErrorResponse:
        """Post a body to a path of the endpoint."""
        import aiohttp  # not before a call: it takes as long as all else

        secret = self.secret
        url = f"{self.base}/{path}{self.query}"
        try:
            async with self._session.post(
                url, data=body, allow_redirects=False
            ) as response:
                data = b""
                while chunk := await response.content.read(LARGEST):
                    data += chunk  # decompressed a little at a time
                    if len(data) > LARGEST:
                        return CallError("transport", TOO_LARGE, "call")
        except (
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientConnectorError,
        ) as error:
            why = clean(str(getattr(error, "os_error", error)), secret)
            unreached = f"the judge at {self.base} cannot be reached ({why}); {advice(why, self._proxy)}"
            return CallError(
                "transport", unreached, "call", sent=False, billed=False
            )
        except (aiohttp.InvalidURL, ValueError) as error:
            # a name that cannot be looked up, a bad proxy
            unusable = f"the judge's address cannot be used ({clean(str(error), secret)})"
            return CallError("transport", unusable, "run")
        except (
            aiohttp.ClientError,
            ConnectionError,
            asyncio.IncompleteReadError,
        ) as error:
            why = clean(str(error) or type(error).__name__, secret)
            broke = f"the connection to the judge broke ({why})"
            return CallError("transport", broke, "call")
        return read_response(response.status, data, response.headers, secret)

    async def __aenter__(self) -> Self:
        """Open the session; it does not limit the number of connections."""
        import aiohttp

        headers = CIMultiDict({"Content-Type": "application/json"})
        for name, value in self.headers.items():
            # it replaces another in any case
            headers[name] = value
        # aiohttp would read the environment for every call
        self._proxy = proxy_of(self.base)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            # no judge sees its earlier replies
            cookie_jar=aiohttp.DummyCookieJar(),
            # `ask` has the deadline of the whole call; an unreachable host is reported sooner
            timeout=aiohttp.ClientTimeout(
                sock_connect=min(_CONNECT, self.timeout)
            ),
            headers=headers,
            proxy=self._proxy,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
