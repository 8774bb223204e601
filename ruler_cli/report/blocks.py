"""JSON ↔ what stands in the page: gzip in base64, in which no foreign character can be seen."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any

import orjson

from ruler_cli.scoring.render import readable_text

_LEVEL = 6
"""A level of 9 takes a fifth longer for the thousandth part; 3 is twice as fast and a tenth larger."""
_GZIP = zlib.MAX_WBITS | 16


def as_json(value: Any) -> bytes:
    """A value as JSON that every reader takes: lone surrogates become U+FFFD, NaN and Infinity null.

    Integers beyond 64 bits, up to the largest double, are rounded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, a huge integer
        return orjson.dumps(readable(value))


def packed(pieces: Iterable[bytes]) -> bytes:
    """Bytes, given in pieces, as one block: base64 of gzip, the same for the same bytes."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    done = [packer.compress(piece) for piece in pieces]
    return base64.b64encode(b"".join((*done, packer.flush())))


def unpacked(block: bytes) -> Any:
    """The value in a block."""
    return json.loads(zlib.decompress(base64.b64decode(block, validate=True), _GZIP))


def readable(value: Any) -> Any:
    """A value that any JSON can hold: no half of a surrogate pair, no integer beyond 64 bits."""
    if isinstance(value, str):
        return readable_text(value)
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else float(value)  # as JavaScript reads it anyway
    if isinstance(value, dict):
        return {readable_text(name): readable(item) for name, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list | tuple) else value
