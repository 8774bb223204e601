"""The slot curve of a scored file: what the run itself knew of it."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.marked.read import Marks
from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.reading import open_input
from ruler_cli.records import Rollout
from ruler_cli.report.overview import Gathering
from ruler_cli.report.slots import requests
from ruler_cli.report.values import Overview
from ruler_cli.settings import InputSettings
from tests.conftest import ROOT, Ruler

PANEL = ["-m", "simulated", "-m", "offline"]


def groups(path: Path) -> list[MarkedGroup]:
    """What the marks of a scored file say."""
    with ExitStack() as stack:
        found = open_input(InputSettings(str(path)), stack, lambda problem: pytest.fail(str(problem)))
        assert found.reader
        return list(map(Marks(found.reader).group, found.groups))


def overview(path: Path) -> Overview:
    """The figures of a scored file."""
    gathering = Gathering()
    for one in groups(path):
        gathering.add(one)
    return gathering.overview()


def dump(path: Path) -> None:
    """The sample, with an identical rollout in every second group, an unreadable one in every third."""
    lines = (ROOT / "samples" / "simulated.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for record in records[::2]:
        record["trajectories"].insert(0, {**record["trajectories"][3], "reward": 1})
    for record in records[::3]:
        record["trajectories"].insert(2, {"messages": [], "reward": 0})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    "how",
    [
        ["-m", "simulated"],
        ["-m", "simulated", "--passes", "4"],
        ["-m", "simulated", "--debias"],
        ["-m", "simulated", "--passes", "3", "--debias", "--blend", "0.5"],
        ["-m", "simulated", "--order-by-outcome"],
        [*PANEL, "--passes", "3", "--standardize"],
    ],
    ids=" ".join,
)
def test_the_curve_of_the_run(how: list[str], ruler: Ruler, tmp_path: Path) -> None:
    """The marks of a file tell the slot curve that the run's summary has, whatever corrected the scores."""
    dump(tmp_path / "in.jsonl")
    ruler("score", "in.jsonl", "out.jsonl", *how, "--summary", "run.json")
    figures = json.loads((tmp_path / "run.json").read_text())["figures"]
    found = overview(tmp_path / "out.jsonl")
    assert found.slot_groups == figures["slot_groups"] == 40
    assert len(found.slots) == len(figures["slot_curve"]) >= 6
    for bar, wanted in zip(found.slots, figures["slot_curve"], strict=True):
        assert bar.ends == pytest.approx((wanted["start"], wanted["stop"]))
        assert (bar.mean, bar.error) == pytest.approx((wanted["mean"], wanted["error"]), abs=1e-6)
        assert bar.n == wanted["scores"]


def test_windows_are_left_out(ruler: Ruler, tmp_path: Path) -> None:
    """Groups judged in windows are left out, for a file does not say which rollouts a request showed."""
    dump(tmp_path / "in.jsonl")
    ruler("score", "in.jsonl", "out.jsonl", "-m", "simulated", "--group-size", "4")
    found = overview(tmp_path / "out.jsonl")
    assert found.scored == 40
    assert 0 < found.slot_groups == 40 - found.flags["windows"] < 10


def marked(orders: list[list[int]], scores: list[list[float]]) -> MarkedGroup:
    """A group whose rollouts were shown in these orders and given these scores by slot."""
    last = max(1, len(orders[0]) - 1)
    return MarkedGroup(
        "g",
        tuple(
            MarkedRollout(
                (i,),
                Rollout([]),
                "scored",
                0.5,
                scores[0][orders[0].index(i)] if len(orders) == 1 else 0.5,
                slots=tuple(round(order.index(i) / last, 3) for order in orders),
                pass_scores=()
                if len(orders) == 1
                else tuple(row[order.index(i)] for order, row in zip(orders, scores, strict=True)),
            )
            for i in range(len(orders[0]))
        ),
        "scored",
    )


@given(st.randoms(), st.integers(1, 40) | st.sampled_from([999, 1000]), st.integers(1, 4), st.integers(0, 3))
def test_requests(dice: random.Random, size: int, passes: int, twins: int) -> None:
    """Each pass comes back slot by slot as the judge gave it; identical rollouts count once."""
    orders = [dice.sample(range(size), size) for _ in range(passes)]
    scores = [[dice.random() for _ in range(size)] for _ in range(passes)]
    group = marked(orders, scores)
    rollouts = [*group.rollouts, *dice.choices(group.rollouts, k=twins)]
    dice.shuffle(rollouts)
    assert requests(replace(group, rollouts=tuple(rollouts))) == [tuple(row) for row in scores]


def test_what_tells_no_request() -> None:
    """A group of which a rollout, a pass's score or a slot is missing says nothing of the curve."""
    orders, scores = [[0, 1, 2, 3], [3, 2, 1, 0]], [[0.1, 0.2, 0.3, 0.4]] * 2
    whole = marked(orders, scores)
    first, *others = whole.rollouts
    assert len(requests(whole)) == 2

    def said(*rollouts: MarkedRollout) -> list[tuple[float, ...]]:
        return requests(replace(whole, rollouts=rollouts))

    for i in range(4):
        assert said(*whole.rollouts[:i], *whole.rollouts[i + 1 :]) == []
    for odd in (
        replace(first, pass_scores=()),
        replace(first, slots=(), pass_scores=()),
        replace(first, slots=(0.0,), pass_scores=(0.5,)),
        replace(first, slots=(0.2, 1.0)),
        replace(first, status="failed", score=None, judged=None),
    ):
        assert said(odd, *others) == []
    assert requests(replace(whole, flags=("windows",))) == []
    assert said() == []
    big = marked([list(range(1001))], [[0.5] * 1001])
    assert requests(big) == []


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ([0.25, 1], (0.25, 1.0)),
        ([-3, 1e9], (-3.0, 1e9)),
        ([0.25], ()),
        ([0.25, 0.5, 0.75], ()),
        ([0.25, None], ()),
        ([0.25, "0.5"], ()),
        ([0.25, True], ()),
        ([0.25, float("nan")], ()),
        ([0.25, 10**400], ()),
        ([0.25, [0.5]], ()),
        ({"0": 0.25, "1": 0.5}, ()),
        ("0.25", ()),
        (0.25, ()),
        (None, ()),
    ],
)
def test_scores_of_passes_are_read(told: Any, read: tuple[float, ...], tmp_path: Path) -> None:
    """What passes gave is believed where it is a list of finite numbers, one for each slot."""
    mark = {"status": "scored", "score": 0.5, "slots": [0, 1], "pass_scores": told}
    rollout = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
    record = {"group_id": "a", "trajectories": [{**rollout, "ruler": mark}]}
    (tmp_path / "s.jsonl").write_text(json.dumps(record) + "\n")
    (group,) = groups(tmp_path / "s.jsonl")
    assert group.rollouts[0].pass_scores == read
    assert group.rollouts[0].slots == (0.0, 1.0)
