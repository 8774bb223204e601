"""What a provider tells, read with care: ids, numbers and times of a batch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ruler_cli.errors import RulerError
from ruler_cli.judges.faults import clean

_ID = re.compile(r"[\x21-\x7e]{1,200}")


class OddError(RulerError):
    """An answer that is no batch, or no listing."""


def id_of(value: Mapping[str, Any], who: str) -> str:
    """The id of a batch or file; OddError where there is none that could stand in an address."""
    id = value.get("id")
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise OddError(f"{who}: its answer names no id; check --api-base")
    return id


def count(value: Mapping[str, Any], name: str) -> int:
    """A number of requests; what is none counts as 0, since providers count late."""
    number = value.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def word(value: Any, key: str | None) -> str:
    """A word of the provider's, fit to be shown; "" where there is none."""
    return clean(value, key) if isinstance(value, str) else ""


def time_of(value: Any, who: str) -> float:
    """Unix time of a number or an RFC 3339 text; OddError for what is neither.

    A guess could hide a batch from who looks for it, who would then pay for it again.
    """
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            read = None
        if read is not None:
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise OddError(f"{who}: its answer does not tell when a batch was created; check --api-base")


def entries(page: Mapping[str, Any], who: str) -> list[Mapping[str, Any]]:
    """The entries of a page of a listing; OddError where it is none."""
    data = page.get("data")
    if not isinstance(data, list) or not all(isinstance(each, Mapping) for each in data):
        raise OddError(f"{who}: its answer is no listing; check --api-base")
    return data
