"""litellm's list of models, read from its package without the import, which takes seconds."""

from __future__ import annotations

import contextlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

_PRICES = "model_prices_and_context_window_backup.json"


def beside_litellm(file: str) -> bytes:
    """The contents of a file of litellm's package; empty if there is none."""
    package = importlib.util.find_spec("litellm")
    if package is not None and package.origin is not None:
        with contextlib.suppress(OSError):
            return (Path(package.origin).parent / file).read_bytes()
    return b""


def listed(name: str) -> dict[str, Any]:
    """The entry of a model, or of the one that it is another name of, with or without its provider; else empty."""
    table = _entries()
    entry = table.get(name) or table.get(name.partition("/")[2]) or {}
    return table.get(entry.get("alias_of", "")) or entry


@lru_cache(maxsize=1)
def _entries() -> dict[str, dict[str, Any]]:
    table: dict[str, Any] = orjson.loads(beside_litellm(_PRICES) or b"{}")
    table.pop("sample_spec", None)  # it tells of the fields in words
    return table
