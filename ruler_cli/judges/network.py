"""The environment → the route to an endpoint: its proxy, and advice for a failed connection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ruler_cli.errors import UsageError
from ruler_cli.types import CallError, Reply, clean

UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def proxy_of(base: str) -> str | None:
    """Return the proxy for an endpoint, as the environment names it, or None; UsageError if it is not an HTTP proxy."""
    parts = urlsplit(base)
    host = parts.hostname
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not (host and proxy) or proxy_bypass(parts.netloc):
        return None
    # NO_PROXY may list the network of an address, which Python does not look at
    for entry in re.split(r"[\s,]+", proxies.get("no", "")):
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry, strict=False):
                return None
    kind, _, rest = proxy.rpartition("://")
    if kind not in ("", "http", "https"):
        raise UsageError(
            f"the environment names a {kind} proxy, and ruler uses HTTP proxies only",
            "name an HTTP proxy in HTTPS_PROXY and HTTP_PROXY, or exempt the host with NO_PROXY",
            place=f"judge at {base}",
        )
    return f"{kind or 'http'}://{rest}"


def advice(
    why: str,
    proxy: str | None = None,
) -> str:
    """Return advice for an endpoint that cannot be reached; `why` is the error."""
    if UNTRUSTED in why:
        return "if an authority of your own signed its certificate, name the authority's file in SSL_CERT_FILE"
    if proxy:
        return f"is the proxy {clean(proxy)} right? NO_PROXY names hosts that need none"
    return "is it running, and is the address right?"


async def in_time(
    seconds: float, answer: Awaitable[Reply | CallError]
) -> Reply | CallError:
    """Wait for the answer of a judge, from the connection to the last byte; return a CallError if it takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        late = f"the judge did not answer within {seconds:g} s"
        return CallError("transport", late, "call")
