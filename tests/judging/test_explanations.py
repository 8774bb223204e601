"""Explanations as a judge sends them → as OUTPUT has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.json
import pytest

from ruler_cli import Scorer
from ruler_cli.judges.offline import blocks
from ruler_cli.judges.replies import reply_of
from ruler_cli.judging.exchange import exchange
from ruler_cli.prompting.prompt import build_layout, requests_of_pass
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import CallError, PassScores, Reply, Request
from tests.conftest import group
from tests.judge_server.asks import expected_score
from tests.runs import Stage, Stub
from tests.values import group as talks
from tests.values import talk
from tests.virtual import virtually


def replied(
    request: Request, explain: Callable[[dict[str, str]], str]
) -> Reply | CallError:
    """True scores, each with what `explain` makes of the rollouts by their labels."""
    shown = blocks(request.user)
    entries = [
        {
            "trajectory_id": label,
            "explanation": explain(shown),
            "score": expected_score(shown[label]),
        }
        for label in request.labels
    ]
    content = json.dumps({"scores": entries})
    return reply_of(
        json.dumps({"choices": [{"message": {"content": content}}]}).encode()
    )


def naming(request: Request) -> Reply | CallError:
    """Name each rollout by its label, beside the number that its text has."""
    numbered = {
        label: re.search(r"-(\d+) truth", text)
        for label, text in blocks(request.user).items()
    }
    named = "; ".join(
        f"{label} is number {result and result[1]}"
        for label, result in numbered.items()
    )
    return replied(request, lambda _: named)


def check_places(records: list[Any]) -> None:
    """Check that every explanation names rollouts by their places, and holds no label."""
    for record in records:
        for mine in (row["ruler"] for row in record["trajectories"]):
            named = re.findall(
                r"rollout (\d+) is number (\d+)", mine["explanation"]
            )
            assert len(named) == mine["explanation"].count(" is number ") > 1
            assert all(int(place) == int(number) + 1 for place, number in named)


@pytest.mark.parametrize(
    "how",
    [{}, {"passes": 2}, {"passes": 2, "group_size": 4}, {"order": "input"}],
    ids=str,
)
def test_places(
    how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label in an explanation becomes the rollout's place: asked or cached, in windows, of every judge."""
    groups = [group(f"g{i}", *(j / 10 for j in range(9))) for i in range(4)]
    stage = Stage(
        tmp_path, monkeypatch, groups, Stub("one", naming), Stub("two", naming)
    )
    for judges in (["one"], ["one", "two"]):
        assert stage.run(*judges, **how).summary.scored == 4
        check_places(stage.records())
    stage.forget()
    assert stage.run("one", **how, cached_only=True).summary.scored == 4
    check_places(stage.records())
    assert stage.asked == 0

    async def main() -> Any:
        async with Scorer(stage.settings("one", **how)) as scorer:
            return (await scorer.score(groups[0])).group

    check_places([virtually(main)])


def explained(sentence: str, *, as_it_is: bool = False) -> str:
    """The explanation of a group of five after `sentence`, with labels for A to E; or the sentence itself.

    The second rollout is the first one again, and the third cannot be judged.
    """
    made = talks(*map(talk, ("one", "one", "", "four", "five")))
    layout = build_layout(made, AskSettings())
    (part,) = requests_of_pass(layout, AskSettings(), 0)
    steps = exchange(layout, AskSettings(), part)
    request = next(steps)
    by_text = {
        text.split('"')[-2]: label
        for label, text in blocks(request.user).items()
    }
    labels = {"A": by_text["one"], "D": by_text["four"], "E": by_text["five"]}
    for letter, label in labels.items():
        sentence = sentence.replace(f"[{letter}]", label)
    if as_it_is:
        return sentence
    entries = [
        {"trajectory_id": label, "explanation": sentence, "score": 0.5}
        for label in request.labels
    ]
    try:
        steps.send(Reply(json.dumps({"scores": entries})))
    except StopIteration as end:
        assert isinstance(end.value, PassScores)
        return end.value.explanations[0]
    raise AssertionError("it asks again")


SENTENCES = {
    "worse than [D]": "worse than rollout 4",
    "Trajectory [A] beats rollout [E].": "Rollout 1 beats rollout 5.",
    "the trajectory `[D]`, \"[E]\" and '[A]'": "rollout 4, rollout 5 and rollout 1",
    "trajectory_id [D] ([E]); id: [A]": "rollout 4 (rollout 5); rollout 1",
    '<trajectory id="[D]">': "<rollout 4>",
    "[D]'s end, trajectories [D], [E]/[A]": "rollout 4's end, rollout 4, rollout 5/rollout 1",
    "轨迹[D]比[A]好。": "轨迹rollout 4比rollout 1好。",
    "x[D] [D]é [D]y [D]_ strengths html": None,
}


def test_words_around_a_label() -> None:
    """A label is replaced as a whole word only, with the noun before it and the quotes around it."""
    for sentence, wanted in SENTENCES.items():
        told = explained(sentence)
        if wanted is None:
            assert "rollout" not in told
        else:
            assert told == wanted


def test_capitals() -> None:
    """A word in capitals alone is no label, because rollouts may hold it; one that is named as a label is."""
    label = explained("[D]", as_it_is=True)
    assert explained(
        f"{label.upper()} 404, trajectory {label.upper()}, {label.title()}"
    ) == (f"{label.upper()} 404, rollout 4, Rollout 4")


@pytest.mark.parametrize("inside", [True, False])
def test_lone_surrogates(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone surrogate of a judge's is U+FFFD in OUTPUT, which every JSON reader then reads."""

    def say(request: Request) -> Reply | CallError:
        entries = [
            {"trajectory_id": row, "explanation": "a \ud83d b", "score": 0.5}
            for row in request.labels
        ]
        content = json.dumps({"scores": entries}, ensure_ascii=inside)
        body = {
            "model": "m\udc00",
            "choices": [{"message": {"content": content}}],
        }
        return reply_of(json.dumps(body).encode())

    stage = Stage(tmp_path, monkeypatch, [group("a", 0.1, 0.9)], Stub(say=say))
    for _ in range(2):  # asked, and cached
        assert stage.run().summary.scored == 1
        record = orjson.loads((tmp_path / "out.jsonl").read_bytes())
        assert record["trajectories"][0]["ruler"]["explanation"] == "a \ufffd b"
        assert record["ruler"]["served"] == ["m\ufffd"]
        assert pyarrow.json.read_json(tmp_path / "out.jsonl").num_rows == 1
    assert stage.asked == 1
