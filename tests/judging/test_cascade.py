"""A stronger judge for the groups that the others leave undecided."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import CapReached
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.judge_server.replies import SILENT
from tests.runs import Stage, Stub, failing, group_of, refusing, served

GROUPS = [
    group("close", 0.5, 0.55, 0.6),
    group("clear", 0.2, 0.5, 0.9),
    group("edge", 0.4, 0.45, 0.5),
    group("over", 0.4, 0.51),
    group("same", 0.5, 0.5),
    group("alone", 0.3),
]
UNDECIDED = {"close", "edge", "same"}
"""The groups whose scores lie no further apart than 0.1."""
WEAK = "typesafe/weak"
Say = Any


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Stage]:
    """Return a maker of stages: of a weak judge, a strong one, and groups."""

    def make(
        weak: Say, strong: Say, groups: Sequence[Any] = GROUPS, **price: Any
    ) -> Stage:
        judges = (
            Stub(WEAK, weak, price=(0.0, 0.0)),
            Stub("strong", strong, **price),
        )
        return Stage(tmp_path, monkeypatch, groups, *judges)

    return make


def sent(stage: Stage, name: str = "strong") -> set[str]:
    """The groups that a judge was asked about."""
    return {group_of(request) for request in stage.judges[name].asked}


def test_gap(stage: Callable[..., Stage]) -> None:
    """The stronger judge is asked, in two orders, about the groups within the gap alone, and there its scores count."""
    run = stage(served("well"), served("well"))
    done = run.run(WEAK, escalate="strong")
    assert (sent(run), done.summary.escalated) == (UNDECIDED, 3)
    assert len(run.judges["strong"].asked) == 2 * len(UNDECIDED)
    for record in run.records():
        part, asked = record["ruler"], record["group_id"] in UNDECIDED
        assert (part["escalated"], part["judge"]) == (asked, "strong" if asked else WEAK)  # fmt: skip
        names = {mine["judge"] for row in record["trajectories"] for mine in row["ruler"]["judges"]}  # fmt: skip
        assert names == ({WEAK, "strong"} if asked else {WEAK})
    first = run.masked()
    run.forget()
    run.run(WEAK, escalate="strong")
    assert (run.asked, run.masked()) == (0, first)
    for gap, groups in ((0.0, {"same"}), (1.0, sent(run, WEAK) | {"clear", "over", *UNDECIDED})):  # fmt: skip
        run.run(WEAK, escalate="strong", escalate_gap=gap, ledger=None)
        assert sent(run) == groups
        run.forget()


def test_standard_error(stage: Callable[..., Stage]) -> None:
    """A group is undecided too if its scores lie within twice their standard error over passes."""

    def wavering(request: Any) -> Any:
        user = request.user
        if request.pass_index:
            user = user.replace("truth=0.6", "truth=0.55").replace(
                "=0.4", "=0.6"
            )
        return served()(replace(request, user=user))

    # both end at the same means, .5 and .575
    groups = [group("wavers", 0.4, 0.6), group("firm", 0.5, 0.575)]
    run = stage(wavering, served(), groups)
    run.run(WEAK, passes=2, escalate="strong", escalate_gap=0.05)
    assert sent(run) == {"wavers"}


def test_none_valid(stage: Callable[..., Stage]) -> None:
    """A group without scores of the weak judge is the stronger one's; not one that nobody can read."""
    silent = group("silent", 0.1, 0.9)
    for row in silent["trajectories"]:
        row["messages"][-1]["content"] += f" {SILENT}"
    empty = {"group_id": "empty", "trajectories": []}
    broken = failing(lambda row: group_of(row) == "clear", served("declines"))
    run = stage(broken, served(), [*GROUPS, silent, empty])
    done = run.run(WEAK, passes=2, escalate="strong")
    assert sent(run) == UNDECIDED | {"clear", "silent"}
    assert done.summary.failed == {"input": 1}
    assert run.rewards()[1] == pytest.approx([0.2, 0.5, 0.9])


def test_stronger_fails(stage: Callable[..., Stage]) -> None:
    """If the stronger judge fails, in one order or both, the other scores stay and the group is degraded."""
    half = failing(lambda request: request.pass_index == 1, served())
    for strong in (refusing, failing(lambda _: True), half):
        run = stage(served(), strong)
        done = run.run(WEAK, escalate="strong", ledger=None)
        assert (done.summary.escalated, done.summary.degraded) == (0, 3)
        assert run.rewards()[0] == pytest.approx([0.5, 0.55, 0.6])
        parts = run.parts()
        assert {part["key"] for part in parts if part["degraded"]} == UNDECIDED
        assert {part["judge"] for part in parts} == {WEAK}


def test_cap(stage: Callable[..., Stage]) -> None:
    """Under a cap the stronger judge is asked as far as it goes; every group keeps the scores that it has."""
    close = [group(f"g{n:02}", 0.5, 0.55) for n in range(30)]
    run = stage(served(), served(), close, price=(20.0, 50.0))
    run.judges["strong"].latency = 3.0
    done = run.run(WEAK, escalate="strong", max_cost=0.1)
    assert isinstance(done.stopped, CapReached)
    assert 0 < (done.summary.cost_usd or 0) <= 0.12
    assert all(reward is not None for row in run.rewards() for reward in row)
    done = run.run(WEAK, escalate="strong", max_cost=99.0)
    assert (done.stopped, done.summary.degraded) == (None, 0)


def test_told(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """`check` expects that the stronger judge is asked about some groups; the report shows which judge scored each."""
    write(tmp_path / "in.jsonl", GROUPS)
    (tmp_path / "ruler.toml").write_text(
        f'[judges.weak]\nmodel = "hosted_vllm/well"\napi_base = "{server.base}"\napi = "systemone"\n'
        f'[judges.strong]\nmodel = "hosted_vllm/strong"\napi_base = "{server.base}"\n'
    )
    asked = ("-m", "weak", "--escalate", "strong")

    def expected(*more: str) -> Any:
        facts = json.loads(
            ruler("check", "in.jsonl", *asked, *more, "--json").stdout
        )
        return facts["judges"][1]["calls"]

    blind = expected()
    assert 0 == blind["low"] < blind["expected"] < blind["high"]
    assert (
        ruler("score", "in.jsonl", "weak.jsonl", "-m", "weak").returncode == 0
    )
    assert ruler("score", "in.jsonl", "out.jsonl", *asked).returncode == 0
    chats = [row for row in server.requests() if "messages" in row]
    assert len(chats) == 6
    shown = " ".join(ruler("report", "out.jsonl").stdout.split())
    assert "judge strong (3 groups), weak (3 groups)" in shown
    assert "3 escalated" in shown
