"""What a failed call means: status, body code and message → scope and kind, in one table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from ruler_cli.records import Fault, Kind

_KEY = re.compile(r"\b(?:sk|pk|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*.]{8,}|\bBearer\s+\S+")
_OBJECT = re.compile(r"\s?(?:ssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_LONGEST = 300
_LOOKED_AT = 4000
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|guided", re.IGNORECASE)
_CONTEXT = re.compile(
    r"maximum context length (?:is|of) (?P<limit>\d{1,9})\b.{0,200}?\b(?P<actual>\d{1,9}) (?:input )?tokens"
    r"|prompt is too long: (?P<actual2>\d{1,9}) tokens > (?P<limit2>\d{1,9})",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: it holds where the status is listed (or none is) and the pattern is found."""

    statuses: frozenset[int]
    pattern: re.Pattern[str] | None
    kind: Kind
    scope: Literal["run", "group", "call"]
    way_out: str = ""

    def holds(self, status: int, text: str) -> bool:
        """Whether this row speaks of the failure."""
        return (not self.statuses or status in self.statuses) and (
            self.pattern is None or self.pattern.search(text) is not None
        )


def _row(
    statuses: tuple[int, ...], pattern: str, kind: Kind, scope: Literal["run", "group", "call"], way: str = ""
) -> Row:
    return Row(frozenset(statuses), re.compile(pattern, re.IGNORECASE) if pattern else None, kind, scope, way)


TABLE: tuple[Row, ...] = (
    _row(
        (), r"insufficient_quota|credit balance|billing|exceeded your current quota",
        "refused", "run", "add credit, or use another key with --api-key-env",
    ),
    _row((401, 403), "", "refused", "run", "set the right key, in the variable that --api-key-env names"),
    _row(
        (404,), "", "refused", "run",
        "check the model's name (-m) and the endpoint (--api-base, which usually ends in /v1)",
    ),
    _row((400, 422), r"model.{0,40}(?:not found|does not exist)|unknown model", "refused", "run", "check -m"),
    _row((400, 413, 422), r"context.?length|prompt is too long|too many tokens", "too_long", "group"),
    _row((413,), "", "too_long", "group"),
    _row((), r"content.?(?:policy|filter)|content_policy_violation", "refused", "group"),
    _row((429, 529), "", "transport", "call"),
    _row(
        (301, 302, 303, 307, 308), "", "refused", "run",
        "the endpoint sends elsewhere, where a key must not follow; give its real address as --api-base",
    ),
    _row((408, 409, 425), "", "transport", "call"),
    _row(tuple(range(500, 600)), "", "transport", "call"),
    _row(tuple(range(400, 500)), "", "refused", "group"),
)  # fmt: skip
"""The first row that holds decides; what no row knows may be tried again."""


def classify(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, key: str | None = None
) -> Fault:
    """The Fault of an error answer; its reason is one sentence without the key."""
    message = message[:_LOOKED_AT]  # a gateway may echo the whole request
    text = f"{code[:100]} {message}"
    said = clean(message or code or "no message", key)
    row = next((row for row in TABLE if row.holds(status, text)), None)
    reason = f"the judge answered {status}: {said}" + (f"; {row.way_out}" if row and row.way_out else "")
    if row is None:
        return Fault("transport", reason, "call")
    wait = retry_after(headers or {}) if row.scope == "call" else None
    return Fault(row.kind, reason, row.scope, wait, context_of(text) if row.kind == "too_long" else None)


def refuses_format(status: int, message: str) -> bool:
    """Whether an endpoint says that it does not take the answer format asked for."""
    return status in (400, 404, 415, 422, 500, 501) and _FORMAT.search(message) is not None


def context_of(text: str) -> tuple[int, int] | None:
    """(limit, actual) tokens as the judge's own message states them."""
    found = _CONTEXT.search(text[:_LOOKED_AT])
    if not found:
        return None
    parts = found.groupdict()
    return int(parts["limit"] or parts["limit2"]), int(parts["actual"] or parts["actual2"])


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or Retry-After in seconds or as a date."""
    low = {name.lower(): value.strip() for name, value in headers.items()}
    try:
        if "retry-after-ms" in low:
            seconds = float(low["retry-after-ms"]) / 1000
            return max(0.0, seconds) if math.isfinite(seconds) else None
        value = low.get("retry-after", "")
        if re.fullmatch(r"[0-9.]+", value):
            return float(value)
        if value:
            return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
    return None


def clean(text: str, key: str | None = None) -> str:
    """Foreign text, fit for one line of a terminal, a log or a report: no key, no control, not long."""
    if key:
        text = text.replace(key, "[key]")
    text = _KEY.sub("[key]", _OBJECT.sub("", _CONTROL.sub(" ", text))).strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
