"""The environment → the way to an endpoint: its proxy, and the certificates that are trusted."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ruler_cli.errors import UsageError
from ruler_cli.types import CallError, Reply, clean

BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with a file, or a directory, of the certificates of further authorities."""

UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def proxy_of(base: str) -> str | None:
    """Return the proxy for an endpoint, as the environment names it, or None; UsageError if it is no HTTP proxy."""
    parts = urlsplit(base)
    host = parts.hostname
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not (host and proxy) or proxy_bypass(parts.netloc):
        return None
    if _is_in_network(host, proxies.get("no", "")):
        return None
    kind, _, rest = proxy.rpartition("://")
    if kind not in ("", "http", "https"):
        raise UsageError(
            f"the environment names a {kind} proxy, and ruler speaks to HTTP proxies only",
            "name an HTTP proxy in HTTPS_PROXY and HTTP_PROXY, or except the host with NO_PROXY",
            place=f"judge at {base}",
        )
    return f"{kind or 'http'}://{rest}"


def judge_through(proxy: str | None) -> str:
    """Return the name of a judge in sentences, with its proxy."""
    return (
        f"the judge through the proxy {clean(proxy)}" if proxy else "the judge"
    )


def _is_in_network(host: str, listed: str) -> bool:
    """Return whether NO_PROXY lists the network of an address, which Python does not look at."""
    for entry in re.split(r"[\s,]+", listed):
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry, strict=False):
                return True
    return False


def trusted(base: str) -> ssl.SSLContext | bool:
    """Return the certificates that are trusted at an address; True: those that Python finds. UsageError as below."""
    if base.startswith("http:") or not any(map(os.environ.get, BUNDLES)):
        return True
    context = ssl.create_default_context()
    trust_bundles(context)
    return context


def trust_bundles(context: ssl.SSLContext) -> None:
    """Add the certificates that variables name; UsageError if the file of one holds none."""
    for name in BUNDLES:
        path = os.environ.get(name)
        if not path:
            continue
        kind = "capath" if Path(path).is_dir() else "cafile"
        try:
            context.load_verify_locations(**{kind: path})
        except OSError as error:  # an error of SSL, too
            why = error.strerror or error
            problem = f"no certificates can be read from {path} ({why})"
            raise UsageError(
                problem, "correct the variable", place=name
            ) from None


def advice(
    why: str,
    proxy: str | None = None,
) -> str:
    """Return what to look at if an endpoint cannot be reached; `why` is the error."""
    if UNTRUSTED in why:
        return "if an authority of your own has made its certificate, name that one's file in SSL_CERT_FILE"
    if proxy:
        return "is the proxy right? NO_PROXY names hosts that need none"
    return "is it running, and is the address right?"


async def in_time(
    seconds: float, answer: Awaitable[Reply | CallError]
) -> Reply | CallError:
    """Return the answer of a judge, from the connection to the last byte, or the error of one that takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        late = f"the judge did not answer within {seconds:g} s"
        return CallError("transport", late, "call")
