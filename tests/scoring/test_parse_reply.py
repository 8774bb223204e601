"""A reply is parsed into scores, or has a defect."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.parse_reply import (
    SCALE,
    CutOffError,
    DefectError,
    ScaleError,
    parse,
)
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
    f"So: {GOOD}\nI hope this helps!",
    f"I weighed it. Then:\n```json\n{GOOD}\n```\nTell me if you want more.",
    f'The rollout wrote {{"scores": [ and stopped.\n{GOOD}',
    f"The rollout wrote {listed(('best', 1.0))}, which I ignore.\n{GOOD}",
    f"{GOOD}\nNote: the rollout wrote {listed(('best', 1.0))}, which I ignored.",
    f"{GOOD}\nThe second one ends with '<think>' alone.",
    GOOD.replace(
        "so", "it wrote </think> and <thinking> and <|channel|>analysis"
    ),
    f"<think>hm</think>{GOOD.replace('so', 'it wrote </think>')}",
    f"<think>{answer(1, 0)} or {GOOD.replace('0.25', '0.3')}</think>{GOOD}",
    f"<thinking>{answer(1, 0)}</thinking> {GOOD}",
    f"<seed:think>{answer(1, 0)}</seed:think>{GOOD}",
    f"[THINK]{answer(1, 0)}[/THINK]{GOOD}",
    f"<|channel|>analysis<|message|>{answer(1, 0)}<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}<|return|>",
    f"<|channel|>final <|constrain|>json<|message|>{GOOD}",
    f"analysisWe try {answer(1, 0)}.assistantfinal{GOOD}",
    f"<|channel>thought\n{answer(1, 0)}<channel|>{GOOD}",
    GOOD.replace(
        '"so"', '"so", "details": ' + listed(("bcdf", 1), ("ghjk", 0)), 1
    ),
    f"My initial view of each attempt:\n```json\n{GOOD}\n```\nThe first one gets less, since it needs a detour.",
    f"I read them all. {GOOD} I hope this helps.",
    'The snippet {"scores": 3} and {foo: 1} are fine.\n' + GOOD,
    "Scores: " + GOOD.replace("so", 'the code {foo: 1} and {\\"scores\\": 3}'),
    "{" + GOOD,
    "{" + GOOD + "}",
    f'{{"draft": {answer(1, 0)}, "final": {GOOD}}}',
    f"{GOOD}\n```",
    GOOD.replace("so", "One.\nTwo."),
    KEYED.replace("so", "One.\tTwo.\r\n"),
    '{"scores": {"bcdf": 0.25, "ghjk": "1.0"}}',
    json.dumps(json.loads(KEYED)["scores"]),
    '{"bcdf": 0.25, "ghjk": 1}',
    f"Here they are:\n```json\n{json.dumps(json.loads(KEYED)['scores'])}\n```",
]
"""Forms in which the two labels have the scores 0.25 and 1."""
MENDED = [
    GOOD.replace("}]", "},]").replace("}, {", ",},\n {"),
    f"Here it is:\n{GOOD.replace('1}]', '1},]')}",
    f"I weighed it.\n```json\n{GOOD.replace('1}]', '1},]')}\n```\nThat is all.",
]
"""Forms with commas too many, in which the labels have the same scores."""
OTHERS = [
    (keyed(("zzzz", 7), ONE, TWO), [0.25, 1.0], False, 1),
    (listed(("zzzz", 7), ONE, TWO, (1, 0)), [0.25, 1.0], False, 2),
    (answer("8/10", "45 / 100"), [0.8, 0.45], False, 0),
    (answer("80%", "5.5 %"), [0.8, 0.055], False, 0),
    (answer(-0.0, "-0"), [0.0, 0.0], True, 0),
    (answer(1.0000001, -0.0000001), [1.0, 0.0], True, 0),
    (answer("1.000001", "-0.000001"), [1.0, 0.0], True, 0),
    (answer("100.00001%", 0.9999999), [1.0, 1.0], True, 0),
    (answer("10/10", "0%"), [1.0, 0.0], False, 0),
    (answer("10/10", 1), [1.0, 1.0], True, 0),
    (answer(1, 1.0), [1.0, 1.0], True, 0),
    (answer(1, 0.999), [1.0, 0.999], False, 0),
]
"""Replies with their scores, True if plain numbers are 0 and 1 alone, and the number of unknown ids."""


def test_read(subtests: pytest.Subtests) -> None:
    """Every good form of an answer is parsed, by id and never by position."""
    for text, scores, bounds, unknown in [
        *((text, [0.25, 1.0], False, 0) for text in (*SAME, *MENDED)),
        *OTHERS,
    ]:
        with subtests.test(text=text):
            result = parse(text, LABELS)
            assert [
                result.entries[label][0][0] for label in LABELS
            ] == pytest.approx(scores)
            assert (result.bounds, result.unknown) == (bounds, unknown)
            assert result.mended is (text in MENDED)
            assert all(
                0 <= score <= 1 for (score,), _ in result.entries.values()
            )
            assert not any(
                str(score).startswith("-")
                for (score,), _ in result.entries.values()
            )


DEFECTS = {
    "was empty": [""],
    "no JSON object": [GOOD[:-3], GOOD.replace("0.25", "9" * 5000)],
    "no JSON object with `scores`": [
        *("I cannot.", '{"score": 1}', "7", '{"bcdf": 1}', "bcdf: 1, ghjk: 0"),
        # a slip beside another verdict, or one that may hide a number
        f"{answer(1, 0)[:-1]},}}\n{GOOD.replace('}]', '},]')}",
        GOOD.replace("0.25", "0.25 // was 0.9"),
        GOOD.replace("0.25", "0.25 # {\n"),
        GOOD.replace("0.25", "0.25 // fine"),
        GOOD.replace("so", 'he said "so"'),
        GOOD.replace('"so"', "'so'"),
        GOOD.replace("so", "so\\"),
        str(json.loads(GOOD)).replace("so", "it's so"),
        GOOD.replace("}, {", "} {"),
        GOOD.replace("}", "} // fine\n", 2),
        GOOD.replace("so", r"It uses \(x^2\)"),
        str(json.loads(GOOD)),
        GOOD.replace("}, {", "},, {"),
    ],
    "`scores` was neither a list nor an object": [
        '{"scores": "bcdf 1, ghjk 0"}'
    ],
    "an entry of `scores` was no object": [
        '{"scores": {"bcdf": null, "ghjk": 0}}',
        '{"scores": [0.5, 0.5]}',
        KEYED.replace('{"exp', '{"trajectory_id": "ghjk", "exp', 1),
        keyed(("bcdf", 1), TWO, ("bcdf", 0.5)),
    ],
    "1 of 2 ids had no score": [
        keyed(ONE),
        listed(ONE),
        GOOD.replace("bcdf", "BCDF"),
    ],
    "2 of 2 ids had no score": [
        keyed(("0", 1), ("1", 0)),
        listed(("1", 1), ("2", 0)),
        listed((0, 1), (1, 0)),
    ],
    "two different scores": [listed(ONE, TWO, ("bcdf", 0.3))],
    SCALE: [
        answer(odd, 1)
        for odd in (
            11,
            10,
            3,
            "8",
            1.05,
            1.00001,
            "12/10",
            "101%",
            -0.1,
            -0.00001,
        )
    ]
    + [
        answer(1.5, 0),
        answer(80, 60),
        answer(0.5, 7),
        keyed(ONE, ("ghjk", -1)),
    ],
    "no number": [
        *(
            answer(odd, 1)
            for odd in ("1/0", True, None, "high", "0.8x", "0,8", [0.8])
        ),
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
                with pytest.raises(
                    DefectError, match=re.escape(reason)
                ) as result:
                    parse(text, LABELS)
                assert "\n" not in str(result.value)


DRAFT = answer(0.99, 0.99)
BROKEN = GOOD.replace("}]", "}, ]").replace("so", "a\nb")
CUT_OFF = [
    *(f"{mark} say {DRAFT}\nBut wait" for mark in (
        "<think>", "<thinking>", "<Thought>", "<reasoning>", "<mm:think>", "[THINK]", "◁think▷", "<|channel>thought",
        "<|channel|>analysis<|message|>", "<|channel|>commentary to=x<|message|>", "<|START_THINKING|>",
    )),
    f"<think>{DRAFT}",
    f"<think>a</think><think>{DRAFT}",
    f"{DRAFT}<think>no, that is",
    f"<|channel|>analysis<|message|>{DRAFT}<|end|>",
    f"analysisThe first is {DRAFT}",
    "<think>" + GOOD.replace("so", "it wrote </think>"),
]  # fmt: skip
"""Replies that end inside a thought."""
DRAFTS = [
    f"Let me try. First idea: {DRAFT}\nThe second did not do it. The final answer is",
    f"{DRAFT}\nThe second one did not do what was",
    f"```json\n{DRAFT}\n```\nHmm, wait. The second failed.",
    f"I compare them. {DRAFT} The second one needs less.",
    f"I compare them. {DRAFT} The second one said that it was done, and nobody did it so far, as its last call shows.",
    f"Perhaps so:\n{DRAFT}",
    f"Draft: {DRAFT}",
    f"My first idea would be\n```json\n{DRAFT}\n```",
    f"Draft: {DRAFT}\nFinal:\n{BROKEN}",
    f"{DRAFT}\n{BROKEN}",
    f"{DRAFT}\n{GOOD[:-5]}",
    f"{DRAFT}\n{json.loads(GOOD)}",
    f"{DRAFT}\nbcdf: 0.25, ghjk: 1.",
    f"{DRAFT}\nFinal scores: 0.25 and 1.",
    f"{DRAFT}\nDer zweite verdient 0.25.",
    f"{DRAFT}\nNo. The second one did not do it.",
    f"{DRAFT}\n等等第二个没有完成任务。",
    DRAFT[:-1]
    + ', "final_scores": '
    + json.dumps({"bcdf": 0.25, "ghjk": 1})
    + "}",
    f'{{"draft": {DRAFT}, "final": {json.dumps(json.loads(GOOD)["scores"])}}}',
    f"{DRAFT}\nNow: {listed(ONE)}",
    f"{DRAFT}\n{listed(ONE, ('zzzz', 1))}",
    f"{DRAFT}\n```json\n",
    f'{DRAFT}\n{{"final": {json.dumps(json.loads(GOOD)["scores"])}}}',
    f'{DRAFT}\n{{"bcdf": 0.25, "ghjk": 1, "so": "b"}}',
    "<think>" + DRAFT + "</think>\n" + GOOD[:-5],
    "<think>" + DRAFT + "</think>\n",
    '{"scores": [{"trajectory_id": "bcdf", "details": '
    + DRAFT
    + ', "explanation": "so", "score": 0.25},, ]}',
]
"""Replies that break off behind a draft, or whose last verdict is broken."""


def test_drafts(subtests: pytest.Subtests) -> None:
    """No draft is taken for the verdict: a reply that ends in a thought is cut off, any other is a defect."""
    for text in (*CUT_OFF, *DRAFTS):
        with subtests.test(text=text):
            error = CutOffError if text in CUT_OFF else DefectError
            with pytest.raises(error) as raised:
                parse(text, LABELS)
            assert (type(raised.value) is CutOffError) is (text in CUT_OFF)


def test_whole(subtests: pytest.Subtests) -> None:
    """Text around a verdict that must be whole, and slips in it, are defects; a closed thought before it is none."""
    for text in (
        GOOD,
        KEYED,
        f"```json\n{GOOD}\n```",
        f"<think>{DRAFT}</think>{GOOD}",
    ):
        assert parse(text, LABELS, whole=True).entries["bcdf"] == (
            (0.25,),
            "so",
        )
    for text in (f"So: {GOOD}", f"{GOOD} That is all.", *MENDED):
        with subtests.test(text=text), pytest.raises(DefectError):
            parse(text, LABELS, whole=True)


def test_scale() -> None:
    """A plain number outside the scale is a sign of another scale; one that names its own is a mistake."""
    for odd, kind in (
        (8, ScaleError),
        (-0.5, ScaleError),
        ("12/10", DefectError),
    ):
        with pytest.raises(DefectError) as error:
            parse(answer(odd, 1), LABELS)
        assert type(error.value) is kind


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
    "escaped quotes": '{"scores": [' + '"\\' * 500_000 + "]}",
    "single quotes": "{'" + "\\'" * 500_000 + "}",
    "comments": "{" + "/*" * 500_000 + "}",
    "slashes": "{" + "//" * 500_000 + "}",
    "fences": "```" * 300_000 + "{" + "```" * 5 + "x",
    "blanks": " \n" * 400_000 + GOOD + " \n" * 50_000 + "x",
    "thoughts": "<think>" * 100_000 + GOOD,
    "marks": '[{"' * 300_000,
}


def test_hostile(subtests: pytest.Subtests) -> None:
    """A hostile reply is a defect within seconds."""
    for name, text in HOSTILE.items():
        with subtests.test(name=name), pytest.raises(DefectError):
            parse(text, LABELS)


@given(values | st.text(max_size=30))
def test_anything(value: Any) -> None:
    """Any JSON and any text is parsed or a defect."""
    for text in (
        str(value),
        *map(json.dumps, (value, {"scores": value}, {"scores": [value]})),
    ):
        with suppress(DefectError):
            parse(text, LABELS)


scores = (
    st.floats(0, 1)
    | st.integers(0, 2)
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
        0 <= score <= 1
        for row in result
        for (score,), _ in row.entries.values()
    )


SLIPS = '"{}[],:\\\n '
"""Characters that a damage inserts: all that a mend looks at."""


@given(st.sampled_from([*SAME, *MENDED]), st.data(), st.integers(1, 3))
def test_damaged(text: str, data: st.DataObject, times: int) -> None:
    """A reply with marks lost, added or changed gives the scores that it had, or is a defect: a mend moves none."""
    for _ in range(times):
        # numbers and ids stay: with others it is another reply
        places = [
            i
            for i, mark in enumerate(text)
            if not (mark.isalnum() or mark in ".-_")
        ]
        at = data.draw(st.sampled_from(places))
        put = data.draw(st.sampled_from(SLIPS) | st.just(""))
        text = text[:at] + put + text[at + data.draw(st.integers(0, 1)) :]
    with suppress(DefectError):
        result = parse(text, LABELS)
        if result.mended:
            assert [result.entries[label][0] for label in LABELS] == [
                (0.25,),
                (1.0,),
            ]
