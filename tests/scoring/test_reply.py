"""A reply as scores, or its defect."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.reply import DefectError, read, read_complete
from tests.values import values

LABELS = ("bcdf", "ghjk")


def entry(label: Any, score: Any, said: Any = "so") -> dict[str, Any]:
    """One entry of a verdict."""
    return {"trajectory_id": label, "explanation": said, "score": score}


def verdict(*scores: Any) -> str:
    """A verdict on the two labels."""
    return json.dumps({"scores": [entry(*pair) for pair in zip(LABELS, scores, strict=True)]})


def keyed(*pairs: tuple[str, Any]) -> str:
    """A verdict as an object; an id may stand in it twice."""
    members = (f'"{label}": {{"explanation": "so", "score": {json.dumps(score)}}}' for label, score in pairs)
    return f'{{"scores": {{{", ".join(members)}}}}}'


GOOD = verdict(0.25, 1)
KEYED = keyed(("bcdf", 0.25), ("ghjk", 1))
FINE: list[tuple[str, str, list[float], bool, int]] = [
    ("plain", GOOD, [0.25, 1.0], False, 0),
    ("keyed", KEYED, [0.25, 1.0], False, 0),
    ("keyed, best first", keyed(("ghjk", 1), ("bcdf", 0.25)), [0.25, 1.0], False, 0),
    ("keyed in prose", f"Here it is: {KEYED} Bye.", [0.25, 1.0], False, 0),
    ("keyed after a list", f"{verdict(1, 0)}\nNo: {KEYED}", [0.25, 1.0], False, 0),
    ("keyed, the same twice", keyed(("bcdf", 0.25), ("ghjk", 1), ("bcdf", 0.25)), [0.25, 1.0], False, 0),
    ("keyed, of ten", keyed(("bcdf", 8), ("ghjk", "10")), [0.8, 1.0], True, 0),
    ("keyed, unknown ids", keyed(("zzzz", 7), ("bcdf", 0.25), ("ghjk", 1)), [0.25, 1.0], False, 1),
    (
        "keyed, with its id",
        KEYED.replace('{"exp', '{"trajectory_id": "bcdf", "exp', 1),
        [0.25, 1.0],
        False,
        0,
    ),
    ("fence", f"```json\n{GOOD}\n```", [0.25, 1.0], False, 0),
    ("bare fence", f"```\n{GOOD}```", [0.25, 1.0], False, 0),
    ("prose and fence", f"Here it is:\n```json\n{GOOD}\n```\nBye.", [0.25, 1.0], False, 0),
    ("thought", f"<think>{verdict(1, 0)}</think>\n{GOOD}", [0.25, 1.0], False, 0),
    ("thought without beginning", f"{verdict(1, 0)} hm </think>{GOOD}", [0.25, 1.0], False, 0),
    ("two verdicts, the last counts", f"{verdict(1, 0)}\nNo: {GOOD}", [0.25, 1.0], False, 0),
    ("a bare list", json.dumps(json.loads(GOOD)["scores"]), [0.25, 1.0], False, 0),
    ("other keys", json.dumps({"note": {"scores": 1}, **json.loads(GOOD)}), [0.25, 1.0], False, 0),
    ("wrapped", f'{{"answer": {GOOD}}} and {{}}', [0.25, 1.0], False, 0),
    ("strings", verdict("0.25", " 1 "), [0.25, 1.0], False, 0),
    ("fractions", verdict("8/10", "45 / 100"), [0.8, 0.45], False, 0),
    ("percent", verdict("80%", "5.5 %"), [0.8, 0.055], False, 0),
    ("of ten", verdict(8, 10), [0.8, 1.0], True, 0),
    ("of ten with ends", verdict(1, 7.5), [0.1, 0.75], True, 0),
    ("of ten as strings", verdict("7", 0), [0.7, 0.0], True, 0),
    ("of ten beside a fraction", verdict("9/10", 7), [0.9, 0.7], True, 0),
    ("minus nought", verdict(-0.0, "-0"), [0.0, 0.0], False, 0),
    ("spaces around an id", GOOD.replace("bcdf", " bcdf\\n"), [0.25, 1.0], False, 0),
    ("best first", json.dumps({"scores": json.loads(GOOD)["scores"][::-1]}), [0.25, 1.0], False, 0),
    (
        "the same twice",
        json.dumps({"scores": [*json.loads(GOOD)["scores"], entry("bcdf", "0.25")]}),
        [0.25, 1.0],
        False,
        0,
    ),
    (
        "unknown ids",
        json.dumps({"scores": [entry("zzzz", 7), *json.loads(GOOD)["scores"], entry(1, 0)]}),
        [0.25, 1.0],
        False,
        2,
    ),
]


def test_read(subtests: pytest.Subtests) -> None:
    """Every form in which judges answer well is read, by id and never by position."""
    for name, text, scores, rescaled, unknown in FINE:
        with subtests.test(name=name, text=text, scores=scores, rescaled=rescaled, unknown=unknown):
            found = read(text, LABELS)
            assert [found.entries[label][0] for label in LABELS] == pytest.approx(scores)
            assert (found.rescaled, found.unknown) == (rescaled, unknown)
            assert not any(str(score).startswith("-") for score, _ in found.entries.values())


DEFECTS = [
    ("empty", "", "was empty"),
    ("prose", "I cannot.", "no JSON object with `scores`"),
    ("another object", '{"score": 1}', "no JSON object with `scores`"),
    ("a number", "7", "`scores` was neither a list nor an object"),
    ("a word for the list", '{"scores": "bcdf 1, ghjk 0"}', "`scores` was neither a list nor an object"),
    ("numbers by id", '{"scores": {"bcdf": 1, "ghjk": 0}}', "an entry of `scores` was no object"),
    ("one id is missing", keyed(("bcdf", 1)), "1 of 2 ids had no score"),
    ("positions as keys", keyed(("0", 1), ("1", 0)), "2 of 2 ids had no score"),
    ("an id in another's place", KEYED.replace('{"exp', '{"trajectory_id": "ghjk", "exp', 1), "no object"),
    ("one id with two entries", keyed(("bcdf", 1), ("ghjk", 0), ("bcdf", 0.5)), "no object"),
    ("a keyed entry without a score", KEYED.replace('"score": 0.25', '"points": 1'), "no number"),
    ("a keyed score out of range", keyed(("bcdf", 1), ("ghjk", -1)), "negative"),
    ("no object", '{"scores": [0.5, 0.5]}', "no object"),
    ("one is missing", json.dumps({"scores": [entry("bcdf", 1)]}), "1 of 2 ids had no score"),
    ("positions", json.dumps({"scores": [entry("1", 1), entry("2", 0)]}), "2 of 2 ids had no score"),
    ("numbers as ids", json.dumps({"scores": [entry(0, 1), entry(1, 0)]}), "2 of 2 ids had no score"),
    ("another case", GOOD.replace("bcdf", "BCDF"), "1 of 2 ids had no score"),
    (
        "two scores for one",
        json.dumps({"scores": [*json.loads(GOOD)["scores"], entry("bcdf", 0.3)]}),
        "two different scores",
    ),
    ("two scores in one", GOOD.replace('"score": 0.25', '"score": 0.1, "score": 0.9'), "no number"),
    ("mixed scales", verdict(0.5, 7), "mixed scales"),
    ("negative", verdict(-0.1, 1), "negative"),
    ("over ten", verdict(11, 1), "out of range"),
    ("a slip is no scale", verdict(1.05, 1), "out of range"),
    ("a slip beside nought", verdict(1.5, 0), "out of range"),
    ("of a hundred", verdict(80, 60), "out of range"),
    ("over the whole", verdict("12/10", 1), "out of range"),
    ("over 100 %", verdict("101%", 1), "out of range"),
    ("by nought", verdict("1/0", 1), "no number"),
    ("NaN", verdict(float("nan"), 1), "no number"),
    ("infinite", verdict(float("inf"), 1), "no number"),
    ("a huge integer", GOOD.replace("0.25", "9" * 400), "no number"),
    ("a monstrous integer", GOOD.replace("0.25", "9" * 5000), "no JSON object"),
    ("true", verdict(True, 1), "no number"),
    ("null", verdict(None, 1), "no number"),
    ("a word", verdict("high", 1), "no number"),
    ("a placeholder", verdict("0.8x", 1), "no number"),
    ("a comma", verdict("0,8", 1), "no number"),
    ("a list", verdict([0.8], 1), "no number"),
    ("cut off", GOOD[:-3], "no JSON object"),
    ("cut off in a thought", "<think>hm", "no JSON object"),
]


def test_defects(subtests: pytest.Subtests) -> None:
    """A reply that is wrong in any part is no verdict, and the defect is named."""
    for name, text, reason in DEFECTS:
        with subtests.test(name=name, text=text, reason=reason):
            with pytest.raises(DefectError, match=re.escape(reason)) as found:
                read(text, LABELS)
            assert "\n" not in str(found.value)


HOSTILE = {
    "braces": "{" * 5_000_000,
    "braces and keys": '{"scores":' * 500_000,
    "brackets": '{"scores": ' + "[" * 2_500_000,
    "deep": '{"scores":' + "[" * 900 + "]" * 900 + "}",
    "deep score": '{"scores":[{"trajectory_id":"bcdf","score":' + "[" * 900 + "]" * 900 + "}]}",
    "objects": '{"scores": [' + '{"a":1},' * 600_000,
    "newlines": "```" + "\n" * 1_000_000 + "x",
    "digits": verdict("1" * 1_000_000 + "x", "1" * 1_000_000 + "/x"),
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
                read(text, LABELS)
            read_complete(text, LABELS)


@given(values | st.text(max_size=30))
def test_anything(value: Any) -> None:
    """Any JSON and any text is a reading or a defect."""
    for text in (str(value), *map(json.dumps, (value, {"scores": value}, {"scores": [value]}))):
        with suppress(DefectError):
            read(text, LABELS)
        read_complete(text, LABELS)


scores = st.floats(0, 1) | st.integers(0, 10) | st.sampled_from(["0.5", "7/10", "30%", "x", None, -1, 11])


@given(st.lists(scores, min_size=1, max_size=6), st.randoms())
def test_permuted(given_scores: list[Any], random: Any) -> None:
    """The order of the entries changes neither a verdict nor whether there is one."""
    labels = [f"l{i}" for i in range(len(given_scores))]
    entries = [entry(*pair) for pair in zip(labels, given_scores, strict=True)]
    found = []
    for _ in range(2):
        with suppress(DefectError):
            found.append(read(json.dumps({"scores": entries}), labels))
        random.shuffle(entries)
    assert len(found) != 1
    assert found[:1] == found[1:]
    assert all(0 <= score <= 1 for one in found for score, _ in one.entries.values())


@given(st.sampled_from([GOOD, KEYED]), st.floats(0, 1))
def test_cut_anywhere(text: str, share: float) -> None:
    """Of a reply that was cut off only whole entries are taken, from a list and from an object."""
    end = round(share * len(text))
    found = read_complete(text[:end], LABELS)
    assert set(found.items()) <= {("bcdf", (0.25, "so")), ("ghjk", (1.0, "so"))}
    assert ("bcdf" in found) is (end > text.index("}"))


def test_cut_doubtful() -> None:
    """Nothing is taken of a reply that was cut off on another scale, twice for one id, or in a thought."""
    cut = '{"scores": [' + json.dumps(entry("bcdf", 8)) + ", {"
    assert read_complete(cut, LABELS) == {}
    double = '{"scores": [' + json.dumps(entry("bcdf", 0.8)) + "," + json.dumps(entry("bcdf", 0.9))
    assert read_complete(double, LABELS) == {}
    assert read_complete(keyed(("bcdf", 0.8), ("bcdf", 0.9))[:-2], LABELS) == {}
    assert read_complete("<think>" + GOOD, LABELS) == {}
    assert read_complete("no verdict", LABELS) == {}
