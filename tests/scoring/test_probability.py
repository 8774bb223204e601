"""The likely first words of a reply → the probability of yes, or the reason why there is none."""

from __future__ import annotations

import math

import pytest

from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.probability import word_share


def listed(**probabilities: float) -> list[tuple[str, float]]:
    """Return tokens with the logarithms of their probabilities; `_` in a name is a space."""
    return [
        (token.replace("_", " "), math.log(share))
        for token, share in probabilities.items()
    ]


def test_spellings() -> None:
    """All spellings of a word count together: case, spaces, quotes, marks of a tokenizer."""
    likely = [
        *listed(Yes=0.3, _yes=0.1, YES=0.1, No=0.2),
        ("▁no", math.log(0.1)),
        ('"No', math.log(0.1)),
        ("**Yes", math.log(0.1)),
    ]
    assert word_share(likely).score == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize(
    ("likely", "score"),
    [
        (listed(Yes=0.99, Sure=0.001), 0.9995),
        (listed(No=0.995, Not=0.001), 0.0005),
    ],
)
def test_missing_word(likely: list[tuple[str, float]], score: float) -> None:
    """A missing word is at most as likely as the least likely one of the list; the score is in the middle."""
    result = word_share(likely)
    assert result.score == pytest.approx(score, abs=1e-4)
    assert result.error + 1e-6 > abs(round(result.score) - result.score)


@pytest.mark.parametrize(
    ("likely", "why"),
    [
        ([], "neither Yes nor No, but nothing"),
        (
            listed(Maybe=0.9, I=0.1),
            r"neither Yes nor No, but “Maybe” \(90%\), “I” \(10%\)",
        ),
        (listed(Maybe=0.99, Yes=0.001, No=0.002), "neither Yes nor No"),
        (listed(Yes=0.6), "No is not among the first words that it lists"),
        ([("Yes", 0.0)], "lists one word alone, with a probability of 1"),
        ([("No", 0.005)], "lists one word alone"),
        ([("Yes", 0.0), ("No", 0.0)], "sum to 2"),
        (listed(Yes=0.7, No=0.3, Maybe=0.2), r"sum to 1\.2"),
        (listed(No=0.5, Not=0.2), "Yes is not among"),
        # drawn at a high temperature, and less likely than what is not listed
        (listed(So=1e-6, Yes=0.6, Maybe=0.1), "No is not among"),
        ([("Yes", 0.5), ("No", -1.0)], "above 1"),
        ([("Yes", math.nan), ("No", -1.0)], "above 1"),
        ([("\x1b[31m", 0.0)], "neither Yes nor No, but “"),
    ],
)
def test_no_answer(likely: list[tuple[str, float]], why: str) -> None:
    """A score that could move by more than 0.01 is an error with its reason, never one half."""
    with pytest.raises(DefectError, match=why) as error:
        word_share(likely)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("decimals", "most"), [(1, 0.06), (2, 0.006), (6, 1e-6)]
)
def test_rounding(decimals: int, most: float) -> None:
    """Logarithms with few decimals leave the score as uncertain as their last decimal does."""
    likely = [
        (token, round(x, decimals)) for token, x in listed(Yes=0.543, No=0.457)
    ]
    result = word_share(likely)
    assert abs(result.score - 0.543) <= result.error + 1e-6
    assert result.error <= most
