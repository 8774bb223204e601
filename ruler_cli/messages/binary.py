"""Base64 and ciphertext in text → marks with their size: no judge can read them, and each takes thousands of tokens.

What is cut is surely binary: some kilobytes without a break that use the whole alphabet as bytes do, and are not text
in base64. Hashes, DNA, minified code, numbers, paths and tokens for log-ins stay.
"""

from __future__ import annotations

import re
from base64 import b64decode
from codecs import getincrementaldecoder
from hashlib import blake2b

SHORTEST = 4000
"""Characters of the shortest base64 that is left out; a data address says what it is, and may be shorter."""
_SHORTEST_DATA = 1000
_SHORTEST_RUN = 900
_LINE = 60
"""Characters of the shortest line of base64 that is broken into lines."""
_ALPHABET = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
)
_AS_A = bytes.maketrans(_ALPHABET, b"A" * len(_ALPHABET))
_RUNS = (
    b"A" * _SHORTEST_DATA,
    *[b"A" * _LINE + end for end in (b"\\", b"\n", b"\r")],
)
_BINARY = re.compile(
    rf"(data:[\w.+/;=-]{{0,100}};base64,)?(?<![\w+/-])"
    rf"([A-Za-z0-9+/_-]{{{_SHORTEST_DATA},}}+|(?:[A-Za-z0-9+/]{{{_LINE},}}+(?:\\+[rn]|\r?\n)++){{15,}}+[A-Za-z0-9+/]*+)"
    r"(={0,2})"
)
_BREAK = re.compile(r"\\+[rn]|\s")
_SAMPLE = 2000
_UTF_8 = getincrementaldecoder("utf-8")
_SHARES = ((str.isupper, 0.12), (str.islower, 0.12), (str.isdigit, 0.03))
_DISTINCT = 48
"""Least shares of capital letters, small letters and digits, and least number of different characters, in bytes."""
_CIPHER = re.compile(
    r'(?<!\\)(\\*)"(encrypted_(?:content|index|stdout)|redacted_thinking\1",\s?\1"data)\1":(\s?)\1"([^"\\\s]{40,})\1"'
)
"""Ciphertext of a provider, in JSON or in JSON text."""


def mark_of(text: str) -> str:
    """Return what stands for a binary text: its size, and a digest that other bytes do not have."""
    data = text.encode("utf-8", "surrogatepass")
    digest = blake2b(data, digest_size=6).hexdigest()
    return (
        f"[… {len(text):,} characters of base64 left out by ruler, {digest} …]"
    )


def has_binary(text: str) -> bool:
    """Return whether a text may hold base64 or ciphertext."""
    if "encrypted_" in text or "redacted_thinking" in text:
        return True
    begin, end = 0, _SHORTEST_RUN
    while (
        at := text.rfind(" ", begin, end) + 1 or text.rfind('"', begin, end) + 1
    ):
        begin, end = at, at + _SHORTEST_RUN
    if len(text) < end:
        return False
    runs = text.encode("utf-8", "surrogatepass").translate(_AS_A)
    return any(map(runs.__contains__, _RUNS))


def without_binary(text: str) -> str:
    """Return a text with marks in place of base64, and without ciphertext, which differs from call to call."""
    if not has_binary(text):
        return text
    text = _CIPHER.sub(r'\1"\2\1":\3\1"[left out]\1"', text)
    return _BINARY.sub(_marked, text)


def _marked(match: re.Match[str]) -> str:
    stated, run, end = match[1] or "", match[2], match[3]
    bare = _BREAK.sub("", run)
    least = _SHORTEST_DATA if stated else SHORTEST
    if len(bare) < least or not (stated or _is_binary(bare)):
        return match[0]
    return stated + mark_of(bare + end)


def _is_binary(run: str) -> bool:
    """Return whether a long run of base64's characters stands for bytes, not for text or for itself."""
    size = len(run)
    if len({*run}) < _DISTINCT:
        return False
    for is_kind, least in _SHARES:
        if sum(map(is_kind, run)) < least * size:
            return False
    sample = b64decode(run[:_SAMPLE].translate({45: 43, 95: 47}))
    try:
        _UTF_8().decode(sample)  # its last character may be cut off
    except UnicodeDecodeError:
        return True
    return False
