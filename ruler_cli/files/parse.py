"""Line bytes → value, also where JSON libraries disagree.

orjson reads what is strict; Python's own reader takes the rest (NaN, Infinity, numbers beyond a
double, lone surrogates), because dumps written by Python hold them. The value is only looked at:
what is written back is the line's own bytes (see `splice`), so nothing is rounded on the way.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError

MAX_DEPTH = 500
"""Nesting beyond which a record is refused: deeper JSON overflows common readers."""


def parse(raw: bytes) -> dict[str, Any]:
    """Read one line as a JSON object; UnreadableError says why it is none."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as strict:
        value = _tolerant(raw, strict)
    if not isinstance(value, dict):
        raise UnreadableError(
            f"is JSON but no object (it is {_NAMES.get(type(value), 'another value')}); "
            "every line must be one {…} object"
        )
    return value


def _tolerant(raw: bytes, strict: Exception) -> Any:
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 (byte {error.start}); convert it, e.g. with iconv") from None
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise UnreadableError("is nested too deeply to be read; flatten the record") from None
    except ValueError:
        raise UnreadableError(f"is not JSON ({str(strict).split(':')[0]})") from None


def _integer(digits: str) -> int | float:
    """Any integer: Python refuses to convert more than 4,300 digits, a dump may hold them."""
    return int(digits) if len(digits) < 4000 else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)
_NAMES = {
    list: "a list", str: "a string", int: "a number", float: "a number",
    bool: "a boolean", type(None): "null",
}  # fmt: skip
