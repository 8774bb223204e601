"""Judges that leave the scale from 0 to 1: what is asked again, what fails, and what is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import Scorer
from ruler_cli.scoring.parse_reply import SCALE
from ruler_cli.types import CallError, Criterion, Reply, Request, Rubric
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.judge_server.asks import expected_score
from tests.runs import Stage, Stub, answer, group_of, obedient, ten
from tests.virtual import virtually

GROUPS = [
    group("worst", 0.1, 0.0),
    group("good", 0.9, 0.2),
    group("low", 0.1, 0.1, 0.0),
    group("clear", 0.7, 0.3),
]
TRUTH = [[0.1, 0.0], [0.9, 0.2], [0.1, 0.1, 0.0], [0.7, 0.3]]
NOTHING = [[None] * len(row) for row in TRUTH]


def five(request: Request) -> Reply | CallError:
    """Grade from 1 to 5."""
    return answer(request, lambda text: 1 + round(4 * expected_score(text)))


@pytest.fixture
def staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Stage]:
    """Return a function that makes a stage of judges."""

    def make(*judges: Stub, groups: list[Any] = GROUPS) -> Stage:
        return Stage(tmp_path, monkeypatch, groups, *judges)

    return make


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("backwards", [False, True])
def test_obedient(
    staged: Callable[..., Stage], passes: int, backwards: bool
) -> None:
    """Scores of only 0 and 1 are asked again with the scale named, before or after the judge has left it."""
    turned = slice(None, None, -1 if backwards else 1)
    judge = Stub(say=obedient)
    stage = staged(judge, groups=GROUPS[turned])
    done = stage.run(passes=passes)
    assert stage.rewards() == [pytest.approx(row) for row in TRUTH[turned]]
    assert done.summary.complete
    assert done.summary.other_scale == 0
    asked = stage.asked
    assert asked >= 2 * len(GROUPS) * passes
    stage.run(passes=passes)
    assert stage.asked == asked
    assert stage.rewards() == [pytest.approx(row) for row in TRUTH[turned]]


@pytest.mark.parametrize("say", [ten, five])
def test_stubborn(staged: Callable[..., Stage], say: Any) -> None:
    """A judge that stays on its scale scores no group, whichever is read first."""
    for more in ({}, {"passes": 2}, {"ledger": None}):
        stage = staged(Stub(say=say))
        done = stage.run(**more)
        assert stage.rewards() == NOTHING
        assert done.summary.failed == {"reply": 4}
        assert all("scale" in part["reason"] for part in stage.parts())


def test_told(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """The command counts such groups on stderr and in `--summary`, and ends with exit code 1."""
    write(tmp_path / "in.jsonl", GROUPS)
    judge = ("-m", "hosted_vllm/of-ten-once", "--api-base", server.base)
    command = ("score", "in.jsonl", "out.jsonl", *judge, "--summary", "s.json")
    done = ruler(*command, "--concurrency", "1")
    assert done.returncode == 1
    assert (
        "1 group scored 0 and 1 alone by a judge that left that scale later"
        in done.stderr
    )
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["other_scale"], summary["exit_code"]) == (1, 1)
    done = ruler(*command, "-m", "hosted_vllm/ten")
    assert done.returncode == 0
    assert done.stderr.count("hosted_vllm/ten keeps to a scale other") == 1


def test_written_before(staged: Callable[..., Stage]) -> None:
    """Groups that were written before the judge left the scale are counted, in a run and by an open Scorer."""
    stage = staged(Stub(say=obedient))
    done = stage.run(concurrency=1)
    wanted = [[1.0, 0.0], *TRUTH[1:]]
    assert stage.rewards() == wanted
    assert (done.summary.other_scale, done.summary.complete) == (1, False)

    async def main() -> int:
        async with Scorer(stage.settings(ledger=None)) as scorer:
            for group, rewards in zip(GROUPS, wanted, strict=True):
                scored = (await scorer.score(group)).group["trajectories"]
                assert [rollout["reward"] for rollout in scored] == rewards
            return scorer.summary().other_scale

    assert virtually(main) == 1


def test_waiting(staged: Callable[..., Stage]) -> None:
    """Groups that wait for their batch when the judge leaves the scale fail with the reason, in a run and a stream."""
    # so many that the last are asked about once the first have all their passes
    groups = [*(group(f"worst{i}", 0.1, 0.0) for i in range(20)), *GROUPS[1:]]
    stage = staged(Stub(say=obedient), groups=groups)
    done = stage.run(concurrency=1, passes=2)
    wanted = [[None, None]] * 20 + TRUTH[1:]
    assert stage.rewards() == [pytest.approx(row) for row in wanted]
    assert (done.summary.scored, done.summary.failed) == (3, {"reply": 20})
    assert "left that scale" in stage.parts()[0]["reason"]
    assert done.summary.other_scale == 0

    async def main() -> list[Any]:
        settings = stage.settings(concurrency=1, ledger=None, debias=True)
        async with Scorer(settings) as scorer:
            return [
                list(judged.scores)
                async for judged in scorer.score_groups(groups)
            ]

    assert virtually(main) == [pytest.approx(row) for row in wanted]


def test_honest_bounds(staged: Callable[..., Stage]) -> None:
    """A judge that slips once and then keeps to the scale may give only 0 and 1: it is asked once more."""
    judge = Stub()

    def slips(request: Request) -> Reply | CallError:
        once = group_of(request) == "good" and SCALE not in request.user
        return answer(request, lambda text: expected_score(text) + 0.15 * once)

    judge.say = slips
    groups = [
        group("good", 0.9, 0.2),
        *(group(f"g{i}", 1.0, 0.0) for i in range(6)),
    ]
    stage = staged(judge, groups=groups)
    done = stage.run(concurrency=1)
    assert stage.rewards() == [[0.9, 0.2], *[[1.0, 0.0]] * 6]
    assert (stage.asked, done.summary.complete) == (14, True)


def test_each_judge_its_own(staged: Callable[..., Stage]) -> None:
    """Of a panel the one that left the scale is doubted, and the others' 0 and 1 are not asked again."""
    groups = [
        group("good", 0.9, 0.2),
        group("a", 1.0, 0.0),
        group("b", 1.0, 0.0),
    ]
    honest = Stub("honest")
    stage = staged(Stub("other", say=ten), honest, groups=groups)
    stage.run("other", "honest", concurrency=1)
    assert len(honest.asked) == 3
    assert stage.rewards() == [[0.9, 0.2], [1.0, 0.0], [1.0, 0.0]]
    assert all(part["judge"] == "honest" for part in stage.parts())


def test_windows(staged: Callable[..., Stage]) -> None:
    """Windows of one group stand on one scale: that of the request, or there is no score."""
    scores = (0.9, 0.8, 0.7, 0.6, 0.1, 0.0, 0.1, 0.0)
    for say, wanted in ((ten, [None] * 8), (obedient, scores)):
        stage = staged(Stub(say=say), groups=[group("w", *scores)])
        stage.run(group_size=2, ledger=None)
        (rewards,) = stage.rewards()
        assert rewards == pytest.approx(list(wanted), abs=0.06)


def test_criteria(staged: Callable[..., Stage]) -> None:
    """One value of 3 among 0 and 1 is asked again, and neither shrinks the others nor breaks a veto."""
    rubric = Rubric(
        [
            Criterion("It is right", 2, "right", veto=True),
            Criterion("It is short"),
        ]
    )

    def say(request: Request) -> Reply | CallError:
        odd = SCALE not in request.user
        entries: list[Any] = [
            {"trajectory_id": label, "explanation": "so", "criteria": dict.fromkeys(request.criteria, 1)}
            for label in request.labels
        ]  # fmt: skip
        entries[0]["criteria"][[*request.criteria][1]] = 3 if odd else 0
        return Reply(json.dumps({"scores": entries}), body=_body(entries))

    stage = staged(Stub(say=say), groups=[group("g", 0.5, 0.6)])
    done = stage.run(rubric=rubric)
    assert sorted(stage.rewards()[0]) == pytest.approx([2 / 3, 1.0])
    assert (stage.asked, done.summary.complete) == (2, True)


def _body(entries: list[dict[str, Any]]) -> bytes:
    message = {"content": json.dumps({"scores": entries})}
    return json.dumps({"choices": [{"message": message}]}).encode()
