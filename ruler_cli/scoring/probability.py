"""The likely first words of a reply → the probability that the judge answers yes, and how far it may be off.

A model that writes badly may know well: the probabilities of its first word say what it knows (Zheng et al. 2023,
"Judging LLM-as-a-Judge", ask for a written score; Liu et al. 2023, "G-Eval", weigh it by probabilities). Engines
list the most likely tokens only, OpenAI 20 and some 5, so a word may be missing from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.types import clean, value

Likely = Sequence[tuple[str, float]]
"""Tokens that may begin a reply, each with the natural logarithm of its probability; the first is the drawn one."""
_AROUND = " \t\r\n\"'`*_.,:;!-()[]{}<>▁ĠĊ"
"""Characters around a word that a tokenizer or Markdown adds."""
_MOVES = 0.01
"""Greatest distance between two scores that the same list allows."""
_LEAST = 0.01
"""Least probability of both words together: below it the judge was about to say something else."""
_DECIMALS = 7
"""Decimals of a logarithm that count: those of a number of 32 bits."""
_DIGITS = 6
"""Decimals of a share."""
_NAMED = 3
"""Tokens that a sentence names."""


@value
class Share:
    """The place of an answer among its words or levels, from 0 to 1, and the greatest error of that number."""

    score: float
    error: float


YES = ("no", "yes")
"""The words that answer a question without levels, the lowest first."""


def expectation(
    shares: Sequence[float],
    half: float = 0.0,
) -> Share:
    """Return the mean place of levels with these probabilities, each rounded by `half` a unit at most."""
    top = len(shares) - 1
    whole = math.fsum(shares)
    score = (
        math.fsum(at * share for at, share in enumerate(shares)) / whole / top
    )
    moved = math.fsum(abs(at / top - score) for at in range(top + 1))
    return Share(score, half * moved / whole)


def word_share(
    likely: Likely,
    words: Sequence[str] = YES,
) -> Share:
    """Return the mean place of the words in their probabilities, over all spellings: the share of yes for two.

    A word that is not listed is at most as likely as the least likely token of the list, and as what is left of 1. The
    drawn token bounds nothing: it may be less likely than tokens that are not listed. DefectError if none is listed or
    all are unlikely, if a missing one could move the score by more than 0.01, if a number is not a logarithm of a
    probability, if all sum to more than 1, or if one alone has all of it: an engine that knows no probabilities writes
    0.0 for each.
    """
    listed = []
    for token, logprob in likely:
        word = token.strip(_AROUND).casefold()
        listed.append((word, _probability(logprob)))
    whole = math.fsum(probability for _, probability in listed)
    if listed and whole > math.exp(_MOVES + _rounding(likely)):
        raise DefectError(
            f"the probabilities of its first words sum to {whole:.3g}"
        )
    names = [word.casefold() for word in words]
    shares = [
        math.fsum(probability for word, probability in listed if word == name)
        for name in names
    ]
    named = math.fsum(shares)
    if named < _LEAST:
        shown = ", ".join(_spelled(likely)) or "nothing"
        wanted = " nor ".join(map(str.capitalize, reversed(names)))
        raise DefectError(f"its first word is neither {wanted}, but {shown}")
    if len(listed) == 1 and whole >= 1:
        raise DefectError("it lists one word alone, with a probability of 1")
    absent = [
        name.capitalize()
        for name, share in zip(
            names,
            shares,
            strict=True,
        )
        if not share
    ]
    missing = 0.0
    if absent:
        least = min((probability for _, probability in listed[1:]), default=1.0)
        missing = max(0.0, min(len(absent) * least, 1 - whole))
    middle = expectation(shares).score * named
    low = middle / (named + missing)
    high = (middle + missing) / (named + missing)
    if high - low > _MOVES:
        raise DefectError(
            f"{absent[-1]} is not among the first words that it lists ({len(likely)}), and may be as likely as "
            f"{missing:.2g}"
        )
    score = (low + high) / 2
    # the derivative of the share by the difference of both logarithms is score * (1 - score)
    rounding = 2 * _rounding(likely) * score * (1 - score)
    return Share(round(score, _DIGITS), (high - low) / 2 + rounding)


def _probability(logarithm: float) -> float:
    if not logarithm <= _MOVES:
        raise DefectError(
            f"a probability of its first words is above 1 ({logarithm:g} as a logarithm)"
        )
    return min(1.0, math.exp(logarithm))


def _rounding(likely: Likely) -> float:
    """Return half of the last decimal of the logarithms as they are written."""
    decimals = [repr(float(logprob)).partition(".")[2] for _, logprob in likely]
    # 1e-07 has more than are counted
    return 0.5 * 0.1 ** max(min(len(digits), _DECIMALS) for digits in decimals)


def _spelled(likely: Likely) -> Iterable[str]:
    best = sorted(likely, key=lambda pair: -pair[1])[:_NAMED]
    return (
        f"“{clean(token)}” ({math.exp(min(0.0, logprob)):.0%})"
        for token, logprob in best
    )
