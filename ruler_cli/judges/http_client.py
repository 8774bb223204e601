"""Posts JSON to an endpoint: one session, its proxy and certificates, the bound of an answer.

aiohttp needs a tenth of the CPU that the provider SDKs need for a call, so the judge and not the client
limits the throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from multidict import CIMultiDict

from ruler_cli.judges.network import advice, judge_through, proxy_of, trusted
from ruler_cli.judges.provider_errors import ErrorResponse, read_response
from ruler_cli.judges.replies import LARGEST, TOO_LARGE
from ruler_cli.judges.streams import is_stream
from ruler_cli.types import CallError, Reply, Secret, clean

_PIECES = 32
"""Times that a stream may be larger than an answer."""
_CONNECT = 30.0
"""Seconds to make a connection."""
_OF_KEY = "api-key"
"""Azure's header of a key; it takes the place of a bearer's."""


@dataclass(slots=True)
class HttpClient:
    """The way to the endpoint at `base`, with further `headers` and a `query` in each call.

    `secrets` are texts of the parameters that may be secrets, the longest first.
    """

    base: str
    key: str | None = field(repr=False)
    timeout: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)
    secrets: Sequence[str] = field(default=(), repr=False)
    who: str = field(default="the judge", init=False)
    """The judge in sentences, with the proxy before it."""
    _session: aiohttp.ClientSession = field(init=False, repr=False)
    _proxy: str | None = field(default=None, init=False, repr=False)

    @property
    def secret(self) -> Secret:
        """The key and the secrets, which are removed from every message and reply."""
        return (*self.secrets, self.key or "")

    async def post(
        self,
        path: str,
        body: bytes,
    ) -> Reply | CallError | ErrorResponse:
        """Post a body to a path of the endpoint."""
        secret = self.secret
        url = f"{self.base}/{path}{self.query}"
        try:
            async with self._session.post(
                url, data=body, allow_redirects=False
            ) as response:
                data = b""
                while chunk := await response.content.read(LARGEST):
                    data += chunk  # decompressed a little at a time
                    # the pieces of a stream are many times the answer
                    if len(data) > LARGEST * (
                        _PIECES if is_stream(data) else 1
                    ):
                        return CallError("transport", TOO_LARGE, "call")
        except (
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientConnectorError,
        ) as error:
            why = clean(str(getattr(error, "os_error", error)), secret)
            through = self.who.removeprefix("the judge")
            unreached = f"the judge at {self.base} cannot be reached{through} ({why}); {advice(why, self._proxy)}"
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
            broke = f"the connection to {self.who} broke ({why})"
            return CallError("transport", broke, "call")
        return read_response(response.status, data, response.headers, secret)

    async def open(self) -> None:
        """Open the session; it does not limit the number of connections."""
        headers = CIMultiDict({"Content-Type": "application/json"})
        # aiohttp would read the environment for every call
        self._proxy = proxy_of(self.base)
        self.who = judge_through(self._proxy)
        if self.key and _OF_KEY not in self.headers:
            headers["Authorization"] = f"Bearer {self.key}"
        for (
            name,
            value,
        ) in self.headers.items():  # one replaces another in any case
            headers[name] = value
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=300, ssl=trusted(self.base)
            ),
            # `ask` has the deadline of the whole call; an unreachable host is reported sooner
            timeout=aiohttp.ClientTimeout(
                sock_connect=min(_CONNECT, self.timeout)
            ),
            headers=headers,
            proxy=self._proxy,
        )

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()
