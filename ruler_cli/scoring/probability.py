"""The likely first words of a reply → the probability that the judge answers yes, and how far it may be off.

A model that writes badly may know well: the probabilities of its first word say what it knows (Zheng et al. 2023,
"Judging LLM-as-a-Judge", ask for a written score; Liu et al. 2023, "G-Eval", weigh it by probabilities). Engines
list the most likely tokens only, OpenAI 20 and some 5, so a word may be missing from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.types import clean

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
_SHOWN = 3
"""Tokens that a sentence names."""


@dataclass(frozen=True, slots=True)
class YesShare:
    """P(yes) / (P(yes) + P(no)), and the greatest error that the rounding of the probabilities leaves in it."""

    score: float
    error: float


def yes_share(likely: Likely) -> YesShare:
    """Return the share of yes in the probabilities of both words, over all their spellings.

    A word that is not listed is at most as likely as the least likely token of the list, and as what is left of 1.
    The drawn token bounds nothing: it may be less likely than tokens that are not listed.
    DefectError if neither is listed or both are unlikely, if the missing one could move the score by more than
    0.01, if a number is no logarithm of a probability, if all sum to more than 1, or if one alone has all of it: an
    engine that knows no probabilities writes 0.0 for each.
    """
    listed = [(_word(token), _probability(given)) for token, given in likely]
    whole = math.fsum(probability for _, probability in listed)
    if listed and whole > math.exp(_MOVES + _rounding(likely)):
        raise DefectError(f"the probabilities of its first words sum to {whole:.3g}")
    yes, no = (
        math.fsum(probability for word, probability in listed if word == wanted)
        for wanted in ("yes", "no")
    )
    both = yes + no
    if both < _LEAST:
        shown = ", ".join(_spelled(likely)) or "nothing"
        raise DefectError(f"its first word is neither Yes nor No, but {shown}")
    if len(listed) == 1 and whole >= 1:
        raise DefectError("it lists one word alone, with a probability of 1")
    missing = 0.0
    if not (yes and no):
        least = min((probability for _, probability in listed[1:]), default=1.0)
        missing = max(0.0, min(least, 1 - whole))
    low = yes / (both + missing)
    high = (yes + missing) / (both + missing)
    if high - low > _MOVES:
        absent = "No" if yes else "Yes"
        raise DefectError(
            f"{absent} is not among the first words that it lists ({len(likely)}), and may be as likely as "
            f"{missing:.2g}"
        )
    score = (low + high) / 2
    # the derivative of the share by the difference of both logarithms is score * (1 - score)
    rounding = 2 * _rounding(likely) * score * (1 - score)
    return YesShare(round(score, _DIGITS), (high - low) / 2 + rounding)


def _word(token: str) -> str:
    return token.strip(_AROUND).casefold()


def _probability(logarithm: float) -> float:
    if not logarithm <= _MOVES:
        raise DefectError(
            f"a probability of its first words is above 1 ({logarithm:g} as a logarithm)"
        )
    return min(1.0, math.exp(logarithm))


def _rounding(likely: Likely) -> float:
    """Return half of the last decimal of the logarithms as they are written."""
    decimals = [repr(float(given)).partition(".")[2] for _, given in likely]
    # 1e-07 has more than are counted
    return 0.5 * 0.1 ** max(min(len(each), _DECIMALS) for each in decimals)


def _spelled(likely: Likely) -> Iterable[str]:
    best = sorted(likely, key=lambda pair: -pair[1])[:_SHOWN]
    return (
        f"“{clean(token)}” ({math.exp(min(0.0, given)):.0%})" for token, given in best
    )
