"""Rubrics: another scale than 0 to 1 is found before a judge is asked."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ruler_cli import JudgeSettings, Scorer, ScoreSettings, UsageError
from ruler_cli.settings.models import AskSettings
from ruler_cli.settings.rubric import other_scale
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer

OTHER = {
    "Score each rollout from 0 to 100.": "0 to 100",
    "Give a score between 1 and 10, where 10 is best.": "1 and 10",
    "Honesty counts.\n- Rate the trajectory 1-5.": "1-5",
    "Score: 0 – 100": "0 – 100",
    "score out of 10": "out of 10",
    "Use a 5-point Likert scale": "5-point Likert scale",
    "The response should be scored from 0 to 100.": "0 to 100",
    "On a scale of 1 to 10, how well did the agent do?": "1 to 10",
    "You are a strict judge. You must grade the answers on a scale from 1 to 7.": "1 to 7",
    "Score 1: wrong\nScore 5: perfect": "Score 5",
    "A score of 10 means flawless.": "score of 10",
    "Up to 40 points for correctness and 60 for tone. Total score out of 100.": "out of 100",
    "The maximum score is 10.": "score is 10",
    "Rate 0% to 100%.": "0% to 100",
    "After the comment, write a score that is an integer between 1 and 5": "1 and 5",
    '"score": an integer from 0 to 10 (inclusive)': "0 to 10",
}
NONE = (
    "Award up to 10 points for correctness.",
    "Correctness: 10 points. Style: 5 points. A 10 point deduction for rudeness.",
    "Each criterion is worth 0 to 10 points.",
    "The agent must ask the user to rate their pain on a scale of 1 to 10.",
    "Asks the patient to rate the pain on a scale from 0 to 10.",
    "The answer gives a risk score between 0 and 100.",
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
    "Rate steps 1-3 only. Score both 1 and 2. Grade questions 1 to 10 by the reference.",
    "Grade whether the agent guessed the number from 1 to 100 in few tries.",
    "Use a 5-point scale (0, 0.25, 0.5, 0.75, 1).",
)
PERCENT = "Score each rollout from 0 to 100."


def test_scales() -> None:
    """A sentence that tells the judge another scale is found; counts, points and the agent's task are not."""
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
    with pytest.raises(UsageError, match=r"rubric: names another scale \(0 to 100\)"):
        Scorer(ScoreSettings(judge=judge, ask=AskSettings(rubric=PERCENT)))
    async with Scorer(ScoreSettings(judge=judge, ledger=None)) as scorer:
        judged = await scorer.score({**group("g", 0.1, 0.9), "rubric": PERCENT})
    assert judged.kind == "input"
    assert str(judged.reason).startswith("its rubric names another scale (0 to 100)")
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
    assert (refused.returncode, "another scale (0 to 100)" in refused.stderr) == (
        2,
        True,
    )
    assert ruler("score", "in.jsonl", "out.jsonl", "-m", "offline").returncode == 1
    assert [line["ruler"]["status"] for line in read(tmp_path / "out.jsonl")] == [
        "failed",
        "scored",
    ]
    checked = ruler("check", "in.jsonl", "-m", "offline", "--json")
    assert checked.returncode == 1
    assert "has a rubric that names another scale" in json.dumps(
        json.loads(checked.stdout)["bad"]
    )
    shown = ruler("prompt", "in.jsonl", "-m", "offline")
    assert (shown.returncode, "its rubric names another scale" in shown.stderr) == (
        2,
        True,
    )
