"""Line bytes → value, for all the JSON that dumps hold.

orjson reads strict JSON. Python's own reader takes the rest, which dumps written by Python hold: NaN,
Infinity, lone surrogates, and integers beyond 64 bits, which orjson would round. The value is only read:
a record is written back as its own bytes (see `splice`), so nothing is rounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.types import Line

_CONTROLS = re.compile(
    b"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])"
)
"""DEL, C1 controls, line separators and direction marks, as UTF-8; JSON escapes the C0 controls itself."""


def too_large(size: int) -> str:
    """Return the reason why a record of `size` bytes is not read."""
    return f"has {size >> 20:,} MiB, more than --set max_record allows; raise it, or make records smaller"


def parse(raw: bytes, *, exact: bool = True) -> dict[str, Any]:
    """Read one line as a JSON object; UnreadableError with the reason if it is not one.

    With `exact` off, an integer beyond 64 bits may become the float next to it: the search for such
    integers takes half as long as parsing.
    """
    value = parse_value(raw, exact=exact)
    if not isinstance(value, dict):
        raise UnreadableError(
            "is JSON but not an object; every record must be one {…} object"
        )
    return value


def parse_value(raw: bytes, *, exact: bool = True) -> Any:
    """Read any JSON value; UnreadableError with the reason if the bytes are not JSON."""
    if exact and _beyond_64_bits(raw):
        return _tolerant(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as strict:
        return _tolerant(raw, str(strict).split(":")[0])


def parse_text(text: str) -> Any:
    """Read JSON that is text inside a record; UnreadableError with the reason if the text is not JSON."""
    return parse_value(text.encode("utf-8", "surrogatepass"))


def dump(value: Any) -> bytes:
    """Encode a value as JSON; it may hold lone surrogates and integers beyond 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def dump_escaped(value: Any) -> bytes:
    """Encode a value that holds a judge's text, and escape the characters that disturb a terminal."""
    return escaped(dump(value))


def escaped(raw: bytes) -> bytes:
    """Return JSON, with the characters escaped that disturb a terminal."""
    if raw.isascii() and b"\x7f" not in raw:
        return raw
    return _CONTROLS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), raw)


def _tolerant(raw: bytes, complaint: str = "") -> Any:
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"is not UTF-8 (byte {error.start}); convert it, e.g. with iconv"
        ) from None
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise UnreadableError(
            "is nested too deeply to be read; flatten the record"
        ) from None
    except ValueError as error:
        raise UnreadableError(f"is not JSON ({complaint or error})") from None


def _beyond_64_bits(raw: bytes) -> bool:
    """Return whether orjson may round an integer: one of 19 digits or more outside a fraction."""
    zeros = raw.translate(_DIGITS)
    at = -1
    while (at := zeros.find(_LONG, at + 1)) >= 0:
        if at == 0 or raw[at - 1] in b" \t\r\n:,[-":
            return True
        at = _RUN.match(zeros, at).end()  # type: ignore[union-attr]  # a run of zeros begins here
    return False


def _integer(digits: str) -> int | float:
    """Convert any integer: Python refuses more than 4,300 digits, and a dump may hold them."""
    return int(digits) if len(digits) < 4000 else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)
_LONG = b"0" * 19
_RUN = re.compile(rb"0+")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def first_records(
    name: str,
    first: Sequence[Line],
) -> list[tuple[Line, dict[str, Any]]]:
    """Return the first lines that are JSON objects; UsageError if none is."""
    records = []
    problem = ""
    for line in first:
        try:
            records.append((line, parse(line.raw)))
        except UnreadableError as error:
            reason = too_large(line.skipped) if line.skipped else error
            problem = problem or f"{line.where} {reason}"
    if not records:
        remedy = "give JSON lines, one object per line, or one JSON document"
        raise UsageError(
            problem,
            remedy,
            place=name,
        )
    return records
