"""A verdict as fields: the names that other people's scripts rely on, and nothing that JSON does not know."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from ruler_cli.annotate import group_fields, marks_of
from ruler_cli.ballots import Outcome
from ruler_cli.records import Group, Usage
from ruler_cli.scoring.batch import Batch
from ruler_cli.scoring.combine import combine
from ruler_cli.settings import CombineSettings
from tests.scoring.saying import ballot, groups, judged, miss
from tests.values import group, talk

NAMES = ("one", "two", "three", "strong")
ROLLOUT = {"status", "score", "explanation", "judge", "passes", "slots"}
ALWAYS = {"status", "key", "judge", "size", "usage", "cost_usd", "judged_at", "latency_s", "cached"}
GROUP = ALWAYS | {"passes", "tied"}


def outcome(said: Outcome) -> Outcome:
    """The same, with what it took."""
    used = (Usage(100, 10, 5, 2), Usage(1, 1, 0, 1))
    return replace(said, seconds=1.23456, used=used, paid=used, ended=1795227245.9)


def of(said: Outcome) -> Group:
    """A group with as many rollouts."""
    return group(*(talk(str(i)) for i in range(len(said.owner))))


def fields(said: Outcome, names: tuple[str, ...] = ("one",), **how: Any) -> tuple[list[Any], dict[str, Any]]:
    """What is written of it, as JSON has it."""
    verdict = combine(said, CombineSettings(**how), Batch())
    made = of(said)
    marks = [mark.fields for mark in marks_of(made, outcome(said), verdict, names)]
    part = group_fields(made, outcome(said), verdict, names, 0.123456789)
    return json.loads(json.dumps([marks, part], allow_nan=False))  # type: ignore[no-any-return]  # any JSON


def test_one_pass() -> None:
    """One pass of one judge has the fields that it always had, and the slots."""
    marks, part = fields(judged(ballot([0.1, 0.9])))
    assert marks[0] == {
        "status": "scored",
        "score": 0.1,
        "explanation": "judge 0 turn 0 body 0",
        "judge": "one",
        "passes": 1,
        "slots": [0.0],
    }
    assert marks[1]["slots"] == [1.0]
    assert part == {
        "status": "scored",
        "key": "g",
        "judge": "one",
        "size": 2,
        "passes": 1,
        "tied": False,
        "usage": {"calls": 3, "prompt_tokens": 101, "completion_tokens": 11, "cached_tokens": 5},
        "cost_usd": 0.12345679,
        "judged_at": "2026-11-21T02:14:05Z",
        "latency_s": 1.235,
        "cached": False,
    }


def test_panel_and_escalation() -> None:
    """Judges are told by name with each one's scores; who was asked and brought nothing is not among them."""
    marks, part = fields(
        judged(ballot([0.1, 0.9]), ballot([0.3, 0.5], 0, 2), miss(0, 1), judges=3), NAMES[:3]
    )
    assert (part["judge"], part["degraded"]) == ("one, three", True)
    assert [mark["judges"] for mark in marks] == [{"one": 0.1, "three": 0.3}, {"one": 0.9, "three": 0.5}]
    strong = [ballot([0.4, 0.6], turn, 1) for turn in range(2)]
    marks, part = fields(judged(ballot([0.1, 0.9]), *strong, final=1), ("one", "strong"))
    assert (part["judge"], part["escalated"], marks[0]["judge"]) == ("strong", True, "strong")
    assert marks[0]["judges"] == {"one": 0.1, "strong": 0.4}
    assert marks[0]["score"] == 0.4
    _, part = fields(judged(ballot([0.1, 0.9]), miss(0, 1), final=1), ("one", "strong"))
    assert (part["judge"], part["degraded"]) == ("one", True)


def test_what_the_reward_changed() -> None:
    """Where a reward or an outcome changed a score, the judge's own stands beside it, and only there."""
    said = judged(ballot([0.9, 0.2, 0.1]), rewards=(0.0, 1.0, 0.1), outcomes=(False, True, None))
    marks, _ = fields(said, by_outcome=True)
    assert [mark["score"] for mark in marks] == pytest.approx([0.55, 0.55, 0.1])
    assert [mark.get("judge_score") for mark in marks] == [0.9, 0.2, None]
    marks, _ = fields(said, blend=0.5)
    assert [mark.get("judge_score") for mark in marks] == [0.9, 0.2, None]


def test_pass_scores() -> None:
    """What judges gave stands judge by judge and pass by pass, as the slots do, to three decimals."""
    said = [ballot([0.12345, 0.9], 1, 1), ballot([0.3, 0.5], bodies=(1, 0)), ballot([0.2, 0.7], 1)]
    marks, _ = fields(judged(*said, judges=2, size=2, owner=(1, 0, 1), faults=("",) * 3), ("one", "two"))
    assert [mark["slots"] for mark in marks] == [[0, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert [mark["pass_scores"] for mark in marks] == [[0.3, 0.7, 0.9], [0.5, 0.2, 0.123], [0.3, 0.7, 0.9]]


def test_told_only_where_it_is() -> None:
    """Windows, suspects and what was mended have a field where there is something to tell, else none."""
    said = judged(
        ballot([0.1, 0.9], rescaled=True, unknown=2),
        owner=(0, 1, None),
        faults=("", "", "no messages"),
        suspects=frozenset({1}),
        shortened=3,
    )
    marks, part = fields(said)
    assert [mark.get("suspect") for mark in marks] == [None, True, None]
    assert marks[2] == {"status": "failed", "kind": "input", "reason": "no messages", "judge": "one"}
    assert {name: part[name] for name in ("rescaled", "unknown_ids", "shortened")} == {
        "rescaled": 1,
        "unknown_ids": 2,
        "shortened": 3,
    }
    assert not {"windows", "escalated", "degraded"} & part.keys()


def test_failure() -> None:
    """A failed group has its kind and reason on each rollout and on the group, and when and what it cost."""
    said = judged(miss(kind="refused", reason="no"), size=2)
    marks, part = fields(said)
    assert marks == [{"status": "failed", "kind": "refused", "reason": "no", "judge": "one"}] * 2
    assert (part["status"], part["kind"], part["reason"], part["usage"]["calls"]) == (
        "failed",
        "refused",
        "no",
        3,
    )
    assert part["judged_at"] == "2026-11-21T02:14:05Z"
    assert part.keys() == ALWAYS | {"kind", "reason"}


@given(groups())
def test_any_group(said: Outcome) -> None:
    """Whatever judges say, each rollout has a mark that is JSON, with a score in range or a reason."""
    marks, part = fields(said, NAMES)
    assert len(marks) == len(said.owner)
    for mark in marks:
        if mark["status"] == "scored":
            assert 0 <= mark["score"] <= 1
            assert mark.keys() >= ROLLOUT
            assert len(mark["slots"]) == len(said.ballots)
            assert all(0 <= slot <= 1 for slot in mark["slots"])
            given = mark.get("pass_scores", [mark.get("judge_score", mark["score"])])
            assert len(given) == len(mark["slots"])
            assert ("pass_scores" in mark) is (len(said.ballots) > 1)
        else:
            assert mark["reason"]
    assert part.keys() >= GROUP
    assert (part["passes"] > 1) <= ("reliability" in part or len(said.sizes) == 1)
