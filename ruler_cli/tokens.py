"""Text → tokens: a guess where no judge has counted them, and the fewest that it can be.

No tokenizer is at hand, and one costs as much as a call.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits

CHARACTERS_PER_TOKEN = 3.8
"""Characters of a prompt or an answer per token."""
BYTES_PER_TOKEN = 3.8
"""UTF-8 bytes of a rendered prompt per token."""
_OF_FEWEST = 1.5
"""Tokens for each of the fewest, at least: nine tokenizers make 1.5 to 2.2 of English, code and hexadecimal digits."""
_PER_SPACELESS = 4
"""Characters per token, at most, of a script without spaces; measured: 1.1 to 2.4."""
_SPACELESS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3041-\u30fa\u3400-\u9fff\uf900-\ufaff]+"
)
"""Thai, Lao, Tibetan, Burmese; Khmer; Kana without the mark ー, of which lines are made; Han."""
_LETTERS = [*ascii_letters.encode(), *range(0xC3, 0xE2), *range(0xEA, 0xEE)]
"""ASCII letters, and the first bytes in UTF-8 of scripts with spaces; E2, EE, EF and F0 begin marks and pictures."""
_CLASSES = bytes(
    ord("a") if byte in _LETTERS else ord("1") if byte in digits.encode() else ord(" ")
    for byte in range(256)
)
_INSIDE = bytes([ord("'"), *range(0x80, 0xC0)])
"""Bytes that end no run: an apostrophe, since "don't" is one token of o200k, and later bytes of a character."""
_BEGINS = (b" a", b" 1", b"a1", b"1a")


def fewest_tokens(text: str) -> int:
    """Return a number of tokens that a text has with any tokenizer.

    None merges two runs of letters or of digits, and few merge four characters of a script without spaces.
    Blanks, marks and pictures count nothing: a run of them may be one token.
    """
    spaceless = 0
    if not text.isascii():
        spaced, runs = _SPACELESS.subn(" ", text)
        spaceless = len(text) - len(spaced) + runs
        text = spaced
    classes = f" {text}".encode("utf-8", "replace").translate(_CLASSES, _INSIDE)
    return spaceless // _PER_SPACELESS + sum(map(classes.count, _BEGINS))


def likely_tokens(text: str) -> int:
    """Guess the tokens of a text by its bytes, and by its runs where those are short, as in hexadecimal digits."""
    size = len(text.encode("utf-8", "replace"))
    return int(max(size / BYTES_PER_TOKEN, _OF_FEWEST * fewest_tokens(text))) + 1


def possible(tokens: int, text: str) -> bool:
    """Tell if a text can be so few tokens as are reported; what is below half of the fewest is a broken counter."""
    return bool(tokens or not text) and 2 * tokens >= fewest_tokens(text)
