"""Text → tokens: a guess where no judge has counted them, and the fewest that it can be.

No tokenizer is at hand, and one costs as much as a call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_letters, digits

CHARACTERS_PER_TOKEN = 3.8
"""Characters of a prompt or an answer per token."""
BYTES_PER_TOKEN = 3.8
"""UTF-8 bytes of a rendered prompt per token."""
PROMPT_FRAME = 400
PROMPT_ENTRY = 20
"""Tokens of a prompt beside its texts: of the whole, and of each rollout in it."""
_OF_FEWEST = 1.35
"""Tokens for each of the fewest: nine tokenizers make 1.2 to 2 of hexadecimal digits, 1.5 to 2 of English and code."""
_LEAST_BYTES = 3.2
"""Bytes of English, code and other prose per token, at the least."""
_PER_SPACELESS = 4
"""Characters per token, at the most, of a script without spaces; measured: 1.0 to 3.1."""
_SPACELESS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3041-\u30fa\u3400-\u9fff\uf900-\ufaff]+"
)
"""Thai, Lao, Tibetan, Burmese; Khmer; Kana without the mark ー, of which lines are made; Han."""
_LETTERS = [*ascii_letters.encode(), *range(0xC3, 0xE2), *range(0xEA, 0xEE)]
"""ASCII letters, and the first bytes in UTF-8 of scripts with spaces; E2, EE, EF and F0 begin marks and pictures."""
_DIGITS = digits.encode()
_CLASSES = bytes(
    1 if byte in _LETTERS else 2 if byte in _DIGITS else 0
    for byte in range(256)
)
_INSIDE = bytes([ord("'"), *range(0x80, 0xC0)])
"""Bytes that end no run: an apostrophe, since "don't" is one token of o200k, and later bytes of a character."""


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """Tokens of an answer: of its frame, of each rollout, and of each criterion's value for a rollout."""

    frame: float
    rollout: float
    value: float

    def of(
        self,
        rollouts: int,
        criteria: int,
    ) -> float:
        """Return the tokens of an answer about so many rollouts and criteria."""
        return self.frame + rollouts * (self.rollout + self.value * criteria)


BRIEF_ANSWER = AnswerSize(32, 48, 9)
"""The fewest, with explanations of ten words."""
USUAL_ANSWER = AnswerSize(100, 60, 9)
"""The guess before any answer is known."""
LONG_ANSWER = AnswerSize(256, 320, 16)
"""Room for an answer with a token for each letter."""
ESTIMATED_ANSWERS = (
    AnswerSize(0, 25, 6),
    AnswerSize(0, 60, 9),
    AnswerSize(0, 150, 16),
)
"""The low, expected and high numbers of an estimate: an id, a score and one or two sentences. An assumption."""


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
    classes = f"{text} ".encode("utf-8", "replace").translate(_CLASSES, _INSIDE)
    number = int.from_bytes(classes)
    # not 0 at each end of a run, and 3 between letters and digits: twice as fast as to count pairs
    ends = (number ^ number >> 8).to_bytes(len(classes))
    runs = (ends.count(1) + ends.count(2)) // 2 + ends.count(3)
    return spaceless // _PER_SPACELESS + runs


def likely_tokens(text: str) -> int:
    """Guess the tokens of a text by its bytes, and by its runs where those are short, as in hexadecimal digits."""
    size = len(text.encode("utf-8", "replace"))
    return (
        int(max(size / BYTES_PER_TOKEN, _OF_FEWEST * fewest_tokens(text))) + 1
    )


def most_tokens(text: str) -> int:
    """Guess how many tokens a text has at the most: for many tokenizers each digit is one."""
    data = text.encode("utf-8", "replace")
    plain = len(data.translate(None, _DIGITS))
    return max(
        likely_tokens(text), int(plain / _LEAST_BYTES) + len(data) - plain
    )


def possible(tokens: int, text: str) -> bool:
    """Return whether a text can be so few tokens as are reported; below half of the fewest it is a broken counter."""
    if not tokens:
        return not text
    # a text of n characters has n / 2 runs at most, so most counts need no look at the text
    return 4 * tokens > len(text) + 4 or 2 * tokens >= fewest_tokens(text)
