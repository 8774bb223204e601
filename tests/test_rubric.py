"""Rubrics: another scale than 0 to 1 is found before a judge is asked."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from ruler_cli import (
    Criterion,
    JudgeSettings,
    Rubric,
    Scorer,
    ScoreSettings,
    UsageError,
)
from ruler_cli.errors import UnreadableError
from ruler_cli.scoring.criteria import (
    broken_vetoes,
    rubric_score,
    weighted,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.settings.rubric import other_scale, rubric_of
from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.values import values

OTHER = {
    "Score each rollout from 0 to 100.": "0 to 100",
    "Give a score between 1 and 10, where 10 is best.": "1 and 10",
    "Honesty counts.\n- Rate the trajectory 1-5.": "1-5",
    "Score: 0 – 100": "0 – 100",
    "score out of 10": "out of 10",
    "The response should be scored from 0 to 100.": "0 to 100",
    "On a scale of 1 to 10, how well did the agent do?": "1 to 10",
    "You are a strict judge. You must grade the answers on a scale from 1 to 7.": "1 to 7",
    "Up to 40 points for correctness and 60 for tone. Total score out of 100.": "out of 100",
    "Rate 0% to 100%.": "0% to 100",
    "After the comment, write a score that is an integer between 1 and 5": "1 and 5",
    '"score": an integer from 0 to 10 (inclusive)': "0 to 10",
}
NONE = (
    "Award up to 10 points for correctness.",
    "Correctness: 10 points. Style: 5 points. A 10 point deduction for rudeness.",
    "Each criterion is worth 0 to 10 points.",
    "The agent must ask the user to rate their pain on a scale of 1 to 10. Scores are from 0 to 1.",
    "The hotel is rated 4 out of 5 stars, and the agent says so.",
    "Check that ratings between 1 and 5 stars are shown.",
    "The final answer is a number from 1 to 10.",
    "Answers in 1 to 3 sentences are better. Gives between 1 and 5 examples.",
    "Score higher if it uses 2 to 4 tools, lower than 0.5 if more than 1 to 2 calls fail.",
    "Grade the use of tools: 1 to 3 calls are enough.",
    "Rate limits (1 to 10 requests a second) are respected.",
    "Judge the plan by days 1-7 of the itinerary.",
    "Score 0 if the booking fails, 1 if it succeeds. A score of 0.9 or more needs all of it.",
    "Score from 0 to 1, in steps of 0.1, with 1-3 sentences.",
    "Rate from 0 to 100 first, then divide by 100.",
    "Levels from 1 to 5 are normalised.",
    "Rate steps 1-3 only. Grade questions 1 to 10 by the reference.",
    "Grade whether the agent guessed the number from 1 to 100 in few tries.",
    "Use a 5-point scale (0, 0.25, 0.5, 0.75, 1).",
)
PERCENT = "Score each rollout from 0 to 100."


def test_scales() -> None:
    """Another scale behind a word of scoring is found; counts, points and what is said to be no scale are not."""
    assert {rubric: other_scale(rubric) for rubric in OTHER} == OTHER
    assert [rubric for rubric in NONE if other_scale(rubric)] == []


def test_long_rubrics() -> None:
    """The time to look at a rubric grows no faster than the rubric."""
    for text in ("score ", "1", " - ", "a, ", "score: 1 to ", "rate\n"):
        seconds = []
        for size in (100_000, 1_000_000):
            began = time.process_time()
            other_scale(text * (size // len(text)))
            seconds.append(time.process_time() - began)
        assert seconds[1] < 30 * max(seconds[0], 0.01)


@pytest.mark.anyio
async def test_settings(server: JudgeServer) -> None:
    """A rubric of the settings with another scale is refused before a call."""
    judge = JudgeSettings("openai/good", api_base=server.base)
    with pytest.raises(
        UsageError, match=r"rubric: names another scale \(0 to 100\)"
    ):
        Scorer(ScoreSettings(judge=judge, ask=AskSettings(rubric=PERCENT)))
    async with Scorer(ScoreSettings(judge=judge, ledger=None)) as scorer:
        judged = await scorer.score({**group("g", 0.1, 0.9), "rubric": PERCENT})
    assert judged.kind == "input"
    assert str(judged.reason).startswith(
        "its rubric names another scale (0 to 100)"
    )
    assert server.stats()["requests"] == 0


def test_commands(tmp_path: Path, ruler: Ruler) -> None:
    """`score` refuses such a rubric, and fails a group that has one; `check` and `prompt` say so first."""
    write(
        tmp_path / "in.jsonl",
        [{**group("a", 0.1, 0.9), "rubric": PERCENT}, group("b", 0.1, 0.9)],
    )
    refused = ruler(
        "score", "in.jsonl", "out.jsonl", "-m", "offline", "--rubric", PERCENT
    )
    assert (
        refused.returncode,
        "another scale (0 to 100)" in refused.stderr,
    ) == (
        2,
        True,
    )
    assert (
        ruler("score", "in.jsonl", "out.jsonl", "-m", "offline").returncode == 1
    )
    assert [
        line["ruler"]["status"] for line in read(tmp_path / "out.jsonl")
    ] == [
        "failed",
        "scored",
    ]
    checked = ruler("check", "in.jsonl", "-m", "offline", "--json")
    assert checked.returncode == 1
    assert "has a rubric with a mistake: names another scale" in json.dumps(
        json.loads(checked.stdout)["bad"]
    )
    shown = ruler("prompt", "in.jsonl", "-m", "offline")
    assert (
        shown.returncode,
        "its rubric names another scale" in shown.stderr,
    ) == (
        2,
        True,
    )


SHAPES = json.loads((ROOT / "tests/data/rubric_shapes.json").read_text())
"""Criteria in the shapes of public rubric data and one of ours, and those read: statement, weight and name."""


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    """Each shape of public rubric data is read with its statements, weights, signs and names, also as JSON text."""
    value, wanted = SHAPES[name]
    for stated in (value, json.dumps(value)):
        rubric = rubric_of(stated)
        assert isinstance(rubric, Rubric)
        read = [[one.text, one.weight, one.name] for one in rubric.criteria]
        assert read == wanted
        assert rubric_of(rubric.text.join("[]").replace("\n", ",")) == rubric


REFUSED: dict[str, Any] = {
    "a scale": {
        "criteria": "Is it good?",
        "score1_description": "bad",
        "score5_description": "good",
    },
    "levels": [
        {"criterion": "Tone", "options": [{"label": "kind", "value": 1}]}
    ],
    "a type that is no statement": [
        {"description": "Good?", "type": "likert", "points": 5}
    ],
    "sub-points": [
        {
            "rubric": "Is it right?",
            "criterion": ["Uses the file", "Says so"],
            "weight": 1,
        }
    ],
    "a tree": {
        "requirements": "All",
        "weight": 1,
        "sub_tasks": [{"requirements": "x", "weight": 1}],
    },
    "weights by group": {
        "insight": [{"criterion": "a", "weight": 0.5}],
        "clarity": [{"criterion": "b"}],
    },
    "a section with a weight": [
        {"title": "A", "weight": 2, "criteria": [{"criterion": "a"}]}
    ],
    "silence that passes": [
        {"criteria": "It grew by 5%.", "operator": "contradiction"}
    ],
    "a required one": [{"outcome": "Says so.", "required": True}],
    "words for weights": [{"description": "Passes", "weight": "major"}],
    "weights that differ": [{"criterion": "a", "weight": 1, "score": 2}],
    "no list": {"name": "x"},
    "two lists": {"criteria": ["a"], "items": ["b"]},
    "a name alone, of something": [
        {"title": "Diagnose", "objective": "Find out.", "horizon": 8}
    ],
    "a misspelt weight": [{"criterion": "a", "wieght": 5}],
    "a misspelt veto": [{"criterion": "a", "vetoed": True}],
    "a veto in words": [{"criterion": "a", "veto": "yes"}],
    "a misspelt weight as text": [{"criterion": "a", "wieght": "5"}],
    "a veto on a mistake without a weight": [
        {"criterion": "Pitfall: leaks.", "weight": 0, "veto": True},
        {"criterion": "b", "weight": 1},
    ],
    "two statements": [
        {"criterion": "Accuracy", "requirement": "Names the dose.", "weight": 5}
    ],
    "an id alone": [{"id": "C1", "weight": 3}],
    "a name alone": [{"name": "Value", "weight": 3}],
    "two spellings": [{"criterion": "a", "weight": 3, "Weight": 5}],
    "a word beside a number": [
        {"criterion": "a", "weight": "essential", "points": 5}
    ],
    "a sign that is not read": [
        {"criterion": "a", "weight": 1, "category": "negative"}
    ],
    "sections with points": {
        "sections": [{"points": 90, "criteria": [{"criterion": "a"}]}]
    },
    "an endless weight": [{"criterion": "a", "weight": 10**400}],
    "a huge weight": [{"criterion": "a", "weight": 1e308}],
    "an empty list in text": "[]",
    "a list of numbers in text": "[5]",
    "a scale of all": {"scale": "1-5", "criteria": [{"criterion": "a"}]},
    "broken JSON": '[{"criterion": "cut off", "weig',
    "JSON that is none": '{"prompt": "Grade."}',
    "deep": json.loads("[" * 500 + "]" * 500),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_shapes(name: str) -> None:
    """A rubric of another kind is refused with the reason, and never read in part."""
    with pytest.raises(UnreadableError):
        rubric_of(REFUSED[name])


def test_remedy() -> None:
    """A member that is not read is named, with the way out."""
    with pytest.raises(UnreadableError, match=r"`operator`.*as a sentence"):
        rubric_of([{"criterion": "a", "operator": "not"}])


def test_text_stays() -> None:
    """A text is a rubric as it is, also one that begins as a list or an object of prose."""
    for text in (
        "Be kind.",
        "[Important] Be kind.",
        "{x} marks the spot",
        "- a\n- b",
        "[]5",
    ):
        assert rubric_of(text) == text


@given(values)
def test_any_rubric(value: Any) -> None:
    """Any JSON value is a text, criteria whose text reads back, or refused."""
    with suppress(UnreadableError):
        rubric = rubric_of(value)
        if isinstance(rubric, Rubric):
            assert len({*rubric.names}) == len(rubric.criteria)
            assert 0 <= rubric_score(rubric, [0.5] * len(rubric.criteria)) <= 1


def test_names() -> None:
    """Criteria of one name get numbers, and one without a name is called by the beginning of its statement."""
    long = "x" * 200
    rubric = Rubric(
        [Criterion("a", name="n"), Criterion("b", name="n"), Criterion(long)]
    )
    assert rubric.names == ("n", "n (2)", "x" * 80 + "…")


def test_score_of_values() -> None:
    """The score is the share of the way from the least to the greatest sum that the weights allow."""
    rubric = Rubric(
        [Criterion("a", 3), Criterion("b", -1), Criterion("c", 0, veto=True)]
    )
    assert weighted(rubric, [1, 0, 0]) == 1.0
    assert rubric_score(rubric, [1, 0, 0]) == 0.0
    assert rubric_score(rubric, [1, 0, 1]) == 1.0
    assert rubric_score(rubric, [0, 1, 1]) == 0.0
    with pytest.raises(ValueError, match="has 3 criteria, got 2"):
        rubric_score(rubric, [1, 1])
    assert rubric_score(rubric, [0.5, 0.5, 1]) == 0.5
    assert broken_vetoes(rubric, [1, 1, 0.49]) == ["c"]
    assert broken_vetoes(rubric, [0, 0, 0.5]) == []
    mistake = Rubric([Criterion("a", -1, veto=True)])
    assert rubric_score(mistake, [0.25]) == 0.75
    assert broken_vetoes(mistake, [0.51]) == ["a"]
    assert broken_vetoes(mistake, [0.5]) == []
