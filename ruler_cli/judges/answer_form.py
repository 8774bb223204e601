"""What judges share: the form of an answer, the usage it reports, the sentence for a missing key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ruler_cli.records import Usage
from ruler_cli.scoring.words import SCHEMA

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""

FORMATS: tuple[dict[str, Any] | None, ...] = (
    {"type": "json_schema", "json_schema": {"name": "scores", "strict": True, "schema": SCHEMA}},
    {"type": "json_object"},
    None,
)
"""The schema; JSON with the form told in the prompt; plain text with the form told in the prompt."""


def missing_key(name: str, variable: str) -> str:
    """The sentence for a judge whose key is not there: what to set, and the two ways out."""
    return (
        f"judge {name} needs a key and {variable} is not set; set it (export {variable}=…), name "
        "another variable with --api-key-env VAR, or try the pipeline without a model: -m offline"
    )


def unknown_judge(name: str) -> str:
    """The sentence for a name that no provider has: how to write it, or what was meant."""
    meant = difflib.get_close_matches(name, EMBEDDED, 1)
    hint = f"did you mean `{meant[0]}`? Else write" if meant else "write"
    return (
        f"judge {name}: no provider is known by that name; {hint} it as provider/name, e.g. "
        "anthropic/…, or give --api-base for an endpoint of your own"
    )


def usage_of(value: Any) -> Usage:
    """The tokens of one call, from the `usage` object of the OpenAI protocol."""
    usage = value if isinstance(value, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(
        _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached), 1
    )


_MOST = 1 << 40
"""No call has so many tokens; a larger number is the endpoint's mistake."""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 0
