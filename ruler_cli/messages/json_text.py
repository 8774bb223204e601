"""Values → JSON that neither ends a line nor controls a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from ruler_cli.files.values import is_text
from ruler_cli.types import readable_text

_INVISIBLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_DIGITS = bytes.maketrans(b"123456789E+-", b"000000000e00")
_LONG_RUN = "0" * 16
_LONG_EXPONENT = "0e000"


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    try:
        return _visible(orjson.dumps(text))
    except TypeError:  # lone surrogates
        return _visible(orjson.dumps(readable_text(text)))


def json_or_quoted(value: Any) -> str:
    """Return JSON text as compact JSON; other text, or JSON with numbers beyond a double, as a string.

    To find such numbers every digit becomes a 0, in C: then a search for runs of digits is nearly free.
    """
    if not is_text(value):
        return json_text(value)
    if value[:1] in ("{", "["):
        try:
            data = value.encode()
            # as text, for a search in bytes takes ten times as long
            runs = data.translate(_DIGITS).decode("latin-1")
            if _LONG_RUN not in runs and _LONG_EXPONENT not in runs:
                return _visible(orjson.dumps(orjson.loads(data)))
        # no JSON, a lone surrogate, or nested too deeply
        except (ValueError, TypeError):
            pass
    return quoted(value)


def sorted_json(value: Any) -> str:
    """Return a value as JSON, its keys sorted; text is quoted."""
    if is_text(value):
        return json_or_quoted(value)
    return json_text(value, orjson.OPT_SORT_KEYS)


def json_text(
    value: Any,
    option: int = 0,
) -> str:
    """Return any value as compact JSON."""
    try:
        data = orjson.dumps(value, option=option)
        if b"null" not in data:  # which orjson also writes for NaN and Infinity
            return _visible(data)
    except TypeError:  # huge integers, lone surrogates, deep nesting
        pass
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=option > 0,
        )
    except RecursionError:
        return '"(nested too deeply to be shown)"'
    return _visible(readable_text(text).encode())


def _visible(data: bytes) -> str:
    """Return a text with the characters escaped that might end a line for a reader, or that control a terminal."""
    text = data.decode()
    # each of them begins with one of these bytes, which most text lacks: three searches in C
    if 0xE2 not in data and 0xC2 not in data and 0x7F not in data:
        return text
    if text.isprintable():
        return text
    return _INVISIBLE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)
