"""What `ruler check --batch` says of a provider's batch API: the price, the time, how many batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ruler_cli.cli.units import dollars
from ruler_cli.estimate.batched import HOURS, Batched
from ruler_cli.estimate.outlay import Range


def batch_rows(found: Sequence[Batched]) -> list[tuple[str, str]]:
    """Rows of the page, each of several judges with its own."""
    out = []
    for number, one in enumerate(found, 1):
        at = f" {number}" if len(found) > 1 else ""
        out.append((f"batch cost{at}", _cost(one)))
        if one.batches is not None:
            out.append((f"batches{at}", _batches(one, one.batches)))
    if any(one.provider for one in found):
        out.append(
            ("batch time", f"up to {HOURS} hours; again as much for requests that follow from answers")
        )
    return out


def batch_json(found: Sequence[Batched]) -> dict[str, Any]:
    """The same for a program; the cost of all is null where one is not known."""
    costs = [one.cost_usd for one in found]
    known = [cost for cost in costs if cost is not None]
    cost = sum(known[1:], known[0]) if known and len(known) == len(costs) else None
    return {
        "hours": HOURS,
        "cost_usd": _range(cost),
        "judges": [
            {
                "model": one.judge,
                "provider": one.provider,
                "cost_usd": _range(one.cost_usd),
                "price": None if one.cost_usd is None else "listed" if one.listed else "half",
                "batches": _range(one.batches),
                "requests_per_batch": one.limits.requests,
                "bytes_per_batch": one.limits.bytes,
            }
            for one in found
        ],
    }


def _cost(one: Batched) -> str:
    if one.provider is None:
        return f"{one.judge} has no batch API that ruler speaks; `ruler render` writes the requests"
    if one.cost_usd is None:
        return "unknown, as the cost is"
    how = "as its provider lists it" if one.listed else "half the price of calls"
    return f"{dollars(one.cost_usd)}, {how}"


def _batches(one: Batched, batches: Range) -> str:
    most = f"{one.limits.requests:,} requests or {(one.limits.bytes or 0) / 1e6:.0f} MB each"
    return f"{batches.expected:.0f} (up to {batches.high:.0f}), of at most {most}"


def _range(found: Range | None) -> dict[str, float] | None:
    return None if found is None else {"low": found.low, "expected": found.expected, "high": found.high}
