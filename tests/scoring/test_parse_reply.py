"""A reply is parsed into scores, or has a defect."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.parse_reply import DefectError, parse, parse_complete
from tests.values import values

LABELS = ("bcdf", "ghjk")


def entry(label: Any, score: Any, output: Any = "so") -> dict[str, Any]:
    """One entry of an answer."""
    return {"trajectory_id": label, "explanation": output, "score": score}


def listed(*pairs: tuple[Any, Any]) -> str:
    """An answer as a list of ids and scores."""
    return json.dumps({"scores": [entry(*pair) for pair in pairs]})


def answer(*scores: Any) -> str:
    """An answer about the two labels."""
    return listed(*zip(LABELS, scores, strict=True))


def keyed(*pairs: tuple[str, Any]) -> str:
    """An answer as an object; an id may stand in it twice."""
    members = (
        f'"{label}": {{"explanation": "so", "score": {json.dumps(score)}}}'
        for label, score in pairs
    )
    return f'{{"scores": {{{", ".join(members)}}}}}'


ONE, TWO = ("bcdf", 0.25), ("ghjk", 1)
GOOD, KEYED = listed(ONE, TWO), keyed(ONE, TWO)
SAME = [
    GOOD,
    KEYED,
    keyed(TWO, ONE),
    listed(TWO, ONE),
    f"Here it is: {KEYED} Bye.",
    f"{answer(1, 0)}\nNo: {KEYED}",
    f"{answer(1, 0)}\nNo: {GOOD}",
    keyed(ONE, TWO, ONE),
    listed(ONE, TWO, ("bcdf", "0.25")),
    KEYED.replace('{"exp', '{"trajectory_id": "bcdf", "exp', 1),
    f"```json\n{GOOD}\n```",
    f"```\n{GOOD}```",
    f"Here it is:\n```json\n{GOOD}\n```\nBye.",
    f"<think>{answer(1, 0)}</think>\n{GOOD}",
    f"{answer(1, 0)} hm </think>{GOOD}",
    json.dumps(json.loads(GOOD)["scores"]),
    f"\ufeff\n{json.dumps(json.loads(GOOD)['scores'])}",
    json.dumps({"note": {"scores": 1}, **json.loads(GOOD)}),
    f'{{"answer": {GOOD}}} and {{}}',
    answer("0.25", " 1 "),
    GOOD.replace("bcdf", " bcdf\\n"),
]
"""Forms in which the two labels have the scores 0.25 and 1."""
OTHERS = [
    (keyed(("zzzz", 7), ONE, TWO), [0.25, 1.0], False, 1),
    (listed(("zzzz", 7), ONE, TWO, (1, 0)), [0.25, 1.0], False, 2),
    (answer("8/10", "45 / 100"), [0.8, 0.45], False, 0),
    (answer("80%", "5.5 %"), [0.8, 0.055], False, 0),
    (answer(-0.0, "-0"), [0.0, 0.0], False, 0),
    (keyed(("bcdf", 8), ("ghjk", "10")), [0.8, 1.0], True, 0),
    (answer(8, 10), [0.8, 1.0], True, 0),
    (answer(1, 7.5), [0.1, 0.75], True, 0),
    (answer("7", 0), [0.7, 0.0], True, 0),
    (answer("9/10", 7), [0.9, 0.7], True, 0),
    (answer(1.0000001, -0.0000001), [1.0, 0.0], False, 0),
    (answer("1.000001", "-0.000001"), [1.0, 0.0], False, 0),
    (answer(10.0000001, 1.0000001), [1.0, 0.10000001], True, 0),
    (answer("100.00001%", 0.9999999), [1.0, 1.0], False, 0),
    (answer(8, 1e-7), [0.8, 0.0], True, 0),
]
"""Replies with their scores, True for a scale to 10, and the number of unknown ids."""


def test_read(subtests: pytest.Subtests) -> None:
    """Every good form of an answer is parsed, by id and never by position."""
    for text, scores, rescaled, unknown in [
        *((text, [0.25, 1.0], False, 0) for text in SAME),
        *OTHERS,
    ]:
        with subtests.test(text=text):
            result = parse(text, LABELS)
            assert [result.entries[label][0][0] for label in LABELS] == pytest.approx(
                scores
            )
            assert (result.rescaled, result.unknown) == (rescaled, unknown)
            assert all(0 <= score <= 1 for (score,), _ in result.entries.values())
            assert not any(
                str(score).startswith("-") for (score,), _ in result.entries.values()
            )


DEFECTS = {
    "was empty": [""],
    "no JSON object": [GOOD[:-3], "<think>hm", GOOD.replace("0.25", "9" * 5000)],
    "no JSON object with `scores`": ["I cannot.", '{"score": 1}'],
    "`scores` was neither a list nor an object": ["7", '{"scores": "bcdf 1, ghjk 0"}'],
    "an entry of `scores` was no object": [
        '{"scores": {"bcdf": 1, "ghjk": 0}}',
        '{"scores": [0.5, 0.5]}',
        KEYED.replace('{"exp', '{"trajectory_id": "ghjk", "exp', 1),
        keyed(("bcdf", 1), TWO, ("bcdf", 0.5)),
    ],
    "1 of 2 ids had no score": [keyed(ONE), listed(ONE), GOOD.replace("bcdf", "BCDF")],
    "2 of 2 ids had no score": [
        keyed(("0", 1), ("1", 0)),
        listed(("1", 1), ("2", 0)),
        listed((0, 1), (1, 0)),
    ],
    "two different scores": [listed(ONE, TWO, ("bcdf", 0.3))],
    "mixed scales": [answer(0.5, 7), answer(0.9999999, 7)],
    "negative": [answer(-0.1, 1), keyed(ONE, ("ghjk", -1)), answer(-0.00001, 1)],
    "out of range": [
        answer(odd, 1) for odd in (11, 1.05, 1.00001, 10.00001, "12/10", "101%")
    ]
    + [answer(1.5, 0), answer(80, 60)],
    "no number": [
        *(answer(odd, 1) for odd in ("1/0", True, None, "high", "0.8x", "0,8", [0.8])),
        *(answer(float(odd), 1) for odd in ("nan", "inf")),
        KEYED.replace('"score": 0.25', '"points": 1'),
        GOOD.replace('"score": 0.25', '"score": 0.1, "score": 0.9'),
        GOOD.replace("0.25", "9" * 400),
    ],
}


def test_defects(subtests: pytest.Subtests) -> None:
    """A reply that is wrong in any part has no scores, and the defect is named."""
    for reason, replies in DEFECTS.items():
        for text in replies:
            with subtests.test(text=text, reason=reason):
                with pytest.raises(DefectError, match=re.escape(reason)) as result:
                    parse(text, LABELS)
                assert "\n" not in str(result.value)


HOSTILE = {
    "braces": "{" * 5_000_000,
    "braces and keys": '{"scores":' * 500_000,
    "brackets": '{"scores": ' + "[" * 2_500_000,
    "deep": '{"scores":' + "[" * 900 + "]" * 900 + "}",
    "deep score": '{"scores":[{"trajectory_id":"bcdf","score":'
    + "[" * 900
    + "]" * 900
    + "}]}",
    "objects": '{"scores": [' + '{"a":1},' * 600_000,
    "newlines": "```" + "\n" * 1_000_000 + "x",
    "digits": answer("1" * 1_000_000 + "x", "1" * 1_000_000 + "/x"),
    "quotes": '"' * 5_000_000,
    "think": "</think>" * 600_000,
    "keys": '"scores"' * 600_000,
    "spaced keys": ('"scores" ' + "{" * 1000) * 4_000,
    "surrogates": '{"scores": "\\ud800"}',
}


def test_hostile(subtests: pytest.Subtests) -> None:
    """A hostile reply is a defect within seconds."""
    for name, text in HOSTILE.items():
        with subtests.test(name=name):
            with pytest.raises(DefectError):
                parse(text, LABELS)
            parse_complete(text, LABELS)


@given(values | st.text(max_size=30))
def test_anything(value: Any) -> None:
    """Any JSON and any text is parsed or a defect."""
    for text in (
        str(value),
        *map(json.dumps, (value, {"scores": value}, {"scores": [value]})),
    ):
        with suppress(DefectError):
            parse(text, LABELS)
        parse_complete(text, LABELS)


scores = (
    st.floats(0, 1)
    | st.integers(0, 10)
    | st.sampled_from(["0.5", "7/10", "30%", "x", None, -1, 11])
)


@given(st.lists(scores, min_size=1, max_size=6), st.randoms())
def test_permuted(given_scores: list[Any], random: Any) -> None:
    """The order of the entries changes neither the scores nor the defect."""
    labels = [f"l{i}" for i in range(len(given_scores))]
    entries = [entry(*pair) for pair in zip(labels, given_scores, strict=True)]
    result = []
    for _ in range(2):
        with suppress(DefectError):
            result.append(parse(json.dumps({"scores": entries}), labels))
        random.shuffle(entries)
    assert len(result) != 1
    assert result[:1] == result[1:]
    assert all(
        0 <= score <= 1 for one in result for (score,), _ in one.entries.values()
    )


@given(st.sampled_from([GOOD, KEYED]), st.floats(0, 1))
def test_cut_anywhere(text: str, share: float) -> None:
    """Only complete entries of a reply that was cut off count, from a list and from an object."""
    end = round(share * len(text))
    result = parse_complete(text[:end], LABELS)
    assert set(result.items()) <= {("bcdf", ((0.25,), "so")), ("ghjk", ((1.0,), "so"))}
    assert ("bcdf" in result) is (end > text.index("}"))


def test_cut_doubtful() -> None:
    """A cut-off reply on another scale, with two scores for an id, or in a thought has no entries."""
    cut = '{"scores": [' + json.dumps(entry("bcdf", 8)) + ", {"
    assert parse_complete(cut, LABELS) == {}
    double = (
        '{"scores": ['
        + json.dumps(entry("bcdf", 0.8))
        + ","
        + json.dumps(entry("bcdf", 0.9))
    )
    assert parse_complete(double, LABELS) == {}
    assert parse_complete(keyed(("bcdf", 0.8), ("bcdf", 0.9))[:-2], LABELS) == {}
    assert parse_complete("<think>" + GOOD, LABELS) == {}
    assert parse_complete("no verdict", LABELS) == {}
