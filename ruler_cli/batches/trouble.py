"""What went wrong with one request to a batch API → an error with a way out, and whether to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from ruler_cli.batches.provider import UnreachedError
from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.judges.answer_form import error_of
from ruler_cli.judges.faults import classify, clean

_NO_BATCHES = (
    "where no batches are offered, write the requests with `ruler render` and take the answers in with "
    "`ruler ledger import`"
)
_LATER = "run the same command again later"
_UNTOLD = frozenset({408, 409, 424, 425, 499})
"""Refusals that do not tell whether the request was handled."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One request that failed.

    `passing`: another try may do; not before `wait` seconds where the server named them. `done` tells that
    the request may have been handled all the same. `status` is 0 where no answer came.
    """

    error: RulerError
    passing: bool = False
    done: bool = False
    wait: float | None = None
    status: int = 0


def answered(
    who: str, status: int, headers: Mapping[str, str], data: bytes, key: str | None, whole: bool
) -> Trouble:
    """The trouble of an error answer; `whole` tells whether all of the request had been sent."""
    signs, message = error_of(data)
    fault = classify(status, signs, message, headers, key)
    said = who + fault.reason.removeprefix("the judge")
    done = whole and (status >= 500 or status in _UNTOLD)
    if status in (404, 405):
        reason = (
            f"{who} answered {status}: {clean(message or 'not found', key)}; check --api-base; {_NO_BATCHES}"
        )
        return Trouble(RefusedError(reason), status=status)
    if status == 401 and not key:
        told = f"{who} answered 401, and no key was sent to it; name the key's variable"
        return Trouble(RefusedError(f"{told}: --api-key-env VAR"), done=done, status=status)
    if fault.kind != "transport":
        return Trouble(RefusedError(said), done=done, status=status)
    passing = fault.scope == "call" and status != 409  # what is in the way there does not pass
    return Trouble(RulerError(f"{said}; {_LATER}"), passing, done, fault.retry_after, status)


def unreadable(who: str, why: str, whole: bool = True) -> Trouble:
    """The trouble of an answer that is none: a page of a portal, one that is too large."""
    return Trouble(RulerError(f"{who}: its answer {why}; check --api-base"), done=whole)


def broken(who: str, error: Exception, key: str | None, whole: bool) -> Trouble:
    """The trouble of a connection; `whole` tells whether all of the request had been sent."""
    why = clean(str(error) or type(error).__name__, key)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        if isinstance(error, aiohttp.ClientConnectorError):
            why = clean(str(error.os_error), key)
        way = "check the network and --api-base, and run the same command again"
        return Trouble(UnreachedError(f"{who} cannot be reached ({why}); {way}"), passing=True)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Trouble(RefusedError(f"the proxy to {who} refuses ({error.status}); check HTTPS_PROXY"))
    if isinstance(error, ValueError):  # aiohttp's InvalidURL is one
        reason = f"{who}: its address cannot be used ({why}); check --api-base"
        return Trouble(RefusedError(reason), done=whole)
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return Trouble(RulerError(f"{who} did not answer in time; {_LATER}"), passing=True, done=whole)
    return Trouble(RulerError(f"the connection to {who} broke ({why}); {_LATER}"), passing=True, done=whole)
