"""Several passes of one judge: their requests, their cached replies and their scores."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import group
from tests.runs import (
    Stage,
    Stub,
    failing,
    given,
    group_of,
    refusing,
    shifting,
)

GROUPS = [group(f"g{i:02}", 0.1, 0.5, i / 20, 0.9) for i in range(12)]
for _made in GROUPS:
    for _rollout in _made["trajectories"]:
        _rollout["reward"] /= 3  # 0 to 1, so that they can be blended


def exact(values: list[float]) -> float:
    """The mean, rounded once."""
    return float(sum(map(Fraction, values)) / len(values))


@pytest.mark.parametrize("passes", [1, 3])
def test_mean_of_all_passes(
    passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K passes are K calls for each group, and its scores are the exact mean of theirs."""
    judge = Stub(say=shifting)
    stage = Stage(tmp_path, monkeypatch, GROUPS, judge)
    done = stage.run(passes=passes)
    assert done.summary.complete
    assert judge.passes_asked == [
        (f"g{i:02}", pass_index)
        for i in range(12)
        for pass_index in range(passes)
    ]
    for i, record in enumerate(stage.records()):
        for n, (rollout, truth) in enumerate(
            zip(record["trajectories"], (0.1, 0.5, i / 20, 0.9), strict=True)
        ):
            text = f'assistant: "g{i:02}-{n} truth={truth}"'
            wanted = exact(
                [given(text, pass_index) for pass_index in range(passes)]
            )
            assert rollout["reward"] == pytest.approx(wanted, rel=1e-15)
            assert rollout["ruler"]["passes"] == passes
            assert len(rollout["ruler"]["slots"]) == passes


def test_first_goes_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other passes of a group wait for its first reply, so that prefix caches hit, and then go at once."""
    judge = Stub()
    groups = [group(f"g{i:03}", 0.1, 0.9) for i in range(120)]
    Stage(tmp_path, monkeypatch, groups, judge).run(passes=4, concurrency=8)
    assert judge.most == 8
    begun: set[str] = set()
    first: dict[str, float] = {}
    ahead = []
    for request, (start, end) in zip(judge.asked, judge.times, strict=True):
        name = group_of(request)
        begun.add(name)
        if request.pass_index == 0:
            first[name] = end
            continue
        assert start >= first[name]
        assert start <= first[name] + 6 * judge.latency
        ahead.append(len(begun) - 1 - int(name[1:]))
    assert max(ahead) <= 24  # of 120: those in flight and in the line beside it


def test_failed_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed pass leaves the mean of the others and is reported; --set min_passes can make it an error."""
    judge = Stub(
        say=failing(
            lambda r: (group_of(r), r.pass_index) == ("g03", 1), shifting
        )
    )
    stage = Stage(tmp_path, monkeypatch, GROUPS, judge)
    done = stage.run(passes=3)
    assert (done.summary.complete, done.summary.degraded) == (True, 1)
    assert [part["degraded"] for part in stage.parts()] == [
        i == 3 for i in range(12)
    ]
    assert stage.parts()[3]["passes"] == 2
    first = 'assistant: "g03-0 truth=0.1"'
    assert stage.rewards()[3][0] == pytest.approx(
        exact([given(first, 0), given(first, 2)]), rel=1e-15
    )
    stage.forget()
    done = stage.run(passes=3, min_passes=3)
    assert (stage.asked, done.summary.failed) == (0, {"transport": 1})
    assert stage.rewards()[3] == [None] * 4
    assert (
        "2 of 3 passes scored every rollout, and 3 are needed"
        in stage.parts()[3]["reason"]
    )
    stage.run(passes=3, min_passes=2)
    assert stage.asked == 0
    assert stage.parts()[3]["degraded"]


@pytest.mark.parametrize("pass_index", [0, 2])
def test_retry_failed(
    pass_index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--retry-failed asks the failed pass again, and nothing else."""
    judge = Stub(
        say=failing(
            lambda r: (group_of(r), r.pass_index) == ("g03", pass_index),
            shifting,
        )
    )
    stage = Stage(tmp_path, monkeypatch, GROUPS, judge)
    stage.run(passes=3)
    judge.say = shifting
    stage.forget()
    assert stage.run(passes=3).summary.degraded == 1
    assert stage.asked == 0
    done = stage.run(passes=3, retry_failed=True)
    assert (judge.passes_asked, done.summary.degraded) == (
        [("g03", pass_index)],
        0,
    )
    again = stage.masked()
    stage.run(passes=3, ledger=None)
    assert stage.masked() == again


def test_refused_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second refusal no further pass asks about the group."""
    judge = Stub(say=refusing)
    stage = Stage(tmp_path, monkeypatch, GROUPS, judge)
    done = stage.run(passes=8)
    assert done.summary.failed == {"refused": 12}
    assert stage.asked == 2 * 12


def test_too_few_groups_to_debias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--debias corrects nothing in a batch of fewer than 20 groups, and a warning says so."""
    for number, debiased in ((19, False), (20, True)):
        warned: list[str] = []
        name = "ruler_cli.types.Observer.warn"
        monkeypatch.setattr(
            name, lambda _, sentence, to=warned: to.append(sentence)
        )
        groups = [group(f"g{i:02}", 0.1, 0.9) for i in range(number)]
        stage = Stage(tmp_path, monkeypatch, groups, Stub())
        figures = stage.run(passes=2, debias=True).summary.figures
        assert figures
        assert figures.debiased is debiased
        assert ("here are 19" in " ".join(warned)) is not debiased


def test_blend_uses_the_first_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scored file is blended and ordered with the reward that it had first; without one its group fails."""
    bare = group("bare", 0.9, 0.1)
    for rollout in bare["trajectories"]:
        del rollout["reward"]
    groups = [
        group("a", 0.9, 0.1),
        group("b", 0.2, 0.8),
        bare,
    ]  # rewards 0 and 1
    stage = Stage(tmp_path, monkeypatch, groups, Stub())
    stage.run()
    first = stage.rewards()
    (tmp_path / "again.jsonl").write_bytes(
        (tmp_path / "out.jsonl").read_bytes()
    )
    stage.forget()
    rows: list[tuple[dict[str, Any], list[list[Any]]]] = [
        ({"blend": 0.5}, [[0.45, 0.55], [0.1, 0.9], [None, None]]),
        ({"order_by_outcome": True}, [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]),
        ({}, first),
    ]
    for more, wanted in rows:
        done = stage.run(source="again.jsonl", output="again.jsonl", **more)
        assert stage.rewards("again.jsonl") == wanted
        assert done.summary.failed == ({"input": 1} if "blend" in more else {})
        record = stage.records("again.jsonl")[0]["trajectories"][0]
        assert record["ruler"]["judge_score"] == 0.9
    assert stage.asked == 0


def test_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone rollout is asked about once and flagged; with --set single=score it is scored in every pass."""
    judge = Stub(say=shifting)
    stage = Stage(tmp_path, monkeypatch, [group("g00", 0.3), GROUPS[1]], judge)
    stage.run(passes=3, min_passes=2)
    assert judge.passes_asked == [
        ("g00", 0),
        ("g01", 0),
        ("g01", 1),
        ("g01", 2),
    ]
    assert stage.parts()[0]["tied"]
    stage.forget()
    stage.run(passes=3, min_passes=2, single="score")
    assert judge.passes_asked == [("g00", 1), ("g00", 2)]
    assert (stage.parts()[0]["tied"], stage.parts()[0]["passes"]) == (False, 3)
