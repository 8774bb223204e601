"""Selections end to end: what is kept, in which order, and what is refused."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.selection.values import Keep
from tests.conftest import ROOT, read
from tests.selection.values import GROUPS, dump, grouped, lines, mark, marked, scored_by, selected, trajectory
from tests.values import few, talk


def ids(path: Path) -> list[str]:
    """The rollouts of groups on lines, and of trajectories on lines, in their order."""
    return [t["id"] for record in read(path) for t in record.get("trajectories", [record])]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (["live"], "a0 a1 a2 d0 d1 d2"),
        (["tied"], "b0 b1 e0 e1"),
        (["failed"], "c0 c1"),
        (["scored", "reliability=..0.5"], "b0 b1 d0 d1 d2"),
        (["disagreement"], "d0 d1 d2"),
        (["disagreement=0.5.."], "b0 b1 d0 d1 d2"),
        (["disagreement=..0"], "a0 a1 a2"),
        (["score=0.5..0.8"], "a2 b0 b1 d0 e1"),
        (["score=0.5..", "score=..0.8", "live"], "a2 d0"),
        (["live", "tied"], ""),
    ],
)
def test_conditions(where: list[str], kept: str, each: bool, tmp_path: Path) -> None:
    """All conditions must hold, in both shapes alike; what is left keeps its order."""
    source = dump(tmp_path / "in.jsonl", lines(*GROUPS) if each else GROUPS)
    tally = selected(source, tmp_path / "out.jsonl", *where)
    assert ids(tmp_path / "out.jsonl") == kept.split()
    assert (tally.groups, tally.rollouts) == (5, 12)
    assert tally.kept_rollouts == len(kept.split())
    assert tally.kept_groups == len({name[0] for name in kept.split()})


@pytest.mark.parametrize(
    ("keep", "where", "kept"),
    [
        (Keep(1, "score"), [], "a1 b0 d0 e1"),
        (Keep(2, "variance"), [], "a0 a1 b0 b1 d0 d1 e0 e1"),
        (Keep(2, "variance"), ["score=..0.6"], "a0 a2 b0 b1 d1 e0"),
        (Keep(9, "score"), ["live"], "a0 a1 a2 d0 d1"),
    ],
)
def test_keep(keep: Keep, where: list[str], kept: str, tmp_path: Path) -> None:
    """Conditions come first; a rollout without a score is never kept, a group without any is counted."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    tally = selected(source, tmp_path / "out.jsonl", *where, keep=keep)
    assert ids(tmp_path / "out.jsonl") == kept.split()
    assert tally.unscored == (0 if "live" in where else 1)
    groups = read(tmp_path / "out.jsonl")
    assert [g["ruler"] for g in groups] == [g["ruler"] for g in GROUPS if g["group_id"] in kept]


def test_majority(tmp_path: Path) -> None:
    """The best of those with the commonest answer below the rollout, or below its record."""
    answers: dict[str, list[Any]] = {
        "a": ["1", 2, " 1 "],
        "b": ["x", "y"],
        "c": ["", None],
        "d": [None, 5, 5],
    }
    groups = [
        grouped("a", 0.1, 0.9, 0.5),
        grouped("b", 0.5, 0.6),
        grouped("c", 0.1, 0.2),
        grouped("d", 0.8, 0.2, None),
    ]
    for group in groups:
        for one, answer in zip(group["trajectories"], answers[group["group_id"]], strict=True):
            one["metadata"] = {"answer": answer}
    source = dump(tmp_path / "in.jsonl", groups)
    tally = selected(source, tmp_path / "out.jsonl", keep=Keep(1, "majority", "metadata.answer"))
    assert ids(tmp_path / "out.jsonl") == ["a2", "b1", "d1"]
    assert (tally.unanswered, tally.unscored) == (1, 0)
    with pytest.raises(UsageError, match=r"--answer metadata\.guess: no rollout"):
        selected(source, tmp_path / "no.jsonl", keep=Keep(1, "majority", "metadata.guess"))
    assert not (tmp_path / "no.jsonl").exists()


def test_answers_in_a_list(tmp_path: Path) -> None:
    """Of rollouts that are items of lists the answers are a list too, and it loses an item with them."""
    record = {"prompt": "p", "responses": ["a", "b", "c"], "said": [1, 2, 2], "rewards": [0.9, 0.2, 0.4],
              "ruler": {"status": "scored", "rollouts": [mark(0.9), mark(0.2), mark(0.4)]}}  # fmt: skip
    source = dump(tmp_path / "in.jsonl", [record])
    selected(source, tmp_path / "out.jsonl", keep=Keep(1, "majority", "said"))
    (found,) = read(tmp_path / "out.jsonl")
    assert (found["responses"], found["said"], found["rewards"]) == (["c"], [2], [0.4])
    assert found["ruler"]["rollouts"] == [mark(0.4)]
    with pytest.raises(
        UsageError, match="line 1 cannot lose a rollout exactly: it has as many items at `said`"
    ):
        selected(source, tmp_path / "out.jsonl", keep=Keep(1, "score"))
    assert read(tmp_path / "out.jsonl") == [found]


def test_labels_at_a_path(tmp_path: Path) -> None:
    """Labels may be named; without them nothing disagrees."""
    groups = [grouped("a", 0.1, 0.9), grouped("b", 0.1, 0.9)]
    for group, told in zip(groups, (("no", "yes"), ("passed", "failed")), strict=True):
        for one, label in zip(group["trajectories"], told, strict=True):
            one["metadata"] = {"told": label}
    source = dump(tmp_path / "in.jsonl", groups)
    given: dict[str, Any] = {"outcome": "metadata.told", "outcome_option": "--labels"}
    selected(source, tmp_path / "out.jsonl", "disagreement", **given)
    assert ids(tmp_path / "out.jsonl") == ["b0", "b1"]
    with pytest.raises(UsageError, match=r"no rollout of .* has a label .* with --labels PATH"):
        selected(source, tmp_path / "out.jsonl", "disagreement")
    assert ids(tmp_path / "out.jsonl") == ["b0", "b1"]


@pytest.mark.parametrize(
    ("records", "where", "says"),
    [
        ([grouped("a", 0.1, 0.9)], "reliability=0.1..", "two passes to tell; score with --passes 2 or more"),
        ([grouped("a", 0.1, 0.9)], "disagreement", "no rollout of .* has a label"),
        (
            [grouped("a", 0.1, 0.9, labels=(1, 1)), grouped("b", 0.1, 0.9, labels=(0, 0))],
            "disagreement=0.5..",
            "in no group of .* do the labels of scored rollouts differ",
        ),
        (
            [{"trajectories": [{"messages": talk("a")}]}],
            "live",
            "no rollout has a mark of ruler; score it first",
        ),
        ([{"trajectories": [{"messages": talk("a")}]}], "score=0..", "no rollout has a mark of ruler"),
    ],
)
def test_what_no_group_has(records: list[Any], where: str, says: str, tmp_path: Path) -> None:
    """A condition about what no group has is refused with the way out, and OUTPUT stays as it was."""
    source = dump(tmp_path / "in.jsonl", records)
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(UsageError, match=says):
        selected(source, tmp_path / "out.jsonl", where)
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("where", ["reliability=0..", "disagreement", "live", "score=0.."])
def test_all_failed(where: str, tmp_path: Path) -> None:
    """Where every group failed nothing is left, which is no mistake of whoever asks."""
    source = dump(tmp_path / "in.jsonl", [grouped("a", None, None)])
    assert selected(source, tmp_path / "out.jsonl", where).kept_groups == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_scattered(tmp_path: Path) -> None:
    """Records of scattered groups stay in the order of the input."""
    records = lines(*[grouped(f"g{i}", *(j / 9 for j in range(9))) for i in range(20)])
    random.Random(3).shuffle(records)
    source = dump(tmp_path / "in.jsonl", records)
    selected(source, tmp_path / "out.jsonl", keep=Keep(4, "variance"))
    wanted = [r for r in records if r["id"][-1] in "0178"]
    assert read(tmp_path / "out.jsonl") == wanted
    assert len(wanted) == 80


def test_parts_stay_together(tmp_path: Path) -> None:
    """A rollout in several records is kept whole or not at all."""
    scored = scored_by("simulated", ROOT / "samples" / "formats" / "verl_v1.jsonl", tmp_path / "scored.jsonl")
    before = marked(scored)
    assert any(len(r.at) > 1 for group in before for r in group.rollouts)
    for most in (1, 2):
        selected(scored, tmp_path / "out.jsonl", keep=Keep(most, "score"))
        after = marked(tmp_path / "out.jsonl")
        sizes = {(r.rollout.member, len(r.at)) for group in before for r in group.rollouts}
        assert {(r.rollout.member, len(r.at)) for group in after for r in group.rollouts} <= sizes
        assert [len(group.rollouts) for group in after] == [min(most, len(g.rollouts)) for g in before]


HOSTILE = [
    float("nan"), float("inf"), 10**400, 2**64, "0.5", True, None, [0.5], {"a": 1}, -0.0, 1e308,
]  # fmt: skip


def test_hostile_marks(tmp_path: Path) -> None:
    """What is no score is never one, whatever stands there, and nothing else is lost for it."""
    groups = [
        {"group_id": f"g{i}", "trajectories": [{**trajectory(odd), "ruler": {**mark(0), "score": odd}},
                                               trajectory(0.5, id="fine")]}
        for i, odd in enumerate(HOSTILE)
    ]  # fmt: skip
    source = dump(tmp_path / "in.jsonl", groups)
    tally = selected(source, tmp_path / "out.jsonl", "score=0.4..0.6")
    assert tally.kept_groups == len(HOSTILE)
    assert tally.kept_rollouts == len(HOSTILE)
    tally = selected(source, tmp_path / "out.jsonl", keep=Keep(9, "score"))
    assert tally.kept_rollouts == len(HOSTILE) + 2  # -0.0 and 2**64 are numbers


def test_hostile_fields(tmp_path: Path) -> None:
    """Fields of ruler's of any type raise nothing, and the file comes out as it was where all is kept."""
    odd: list[Any] = [None, [], {}, "x", 7, float("nan"), 10**400, [[]], {"status": []}]
    names = ("reliability", "tied", "judge", "passes", "usage", "cost_usd", "judged_at", "weight")
    dice = random.Random(5)
    groups = [grouped(f"g{i}", 0.1, 0.9, **{name: dice.choice(odd) for name in names}) for i in range(50)]
    for group in groups:
        for one in group["trajectories"]:
            one["ruler"] |= {
                n: dice.choice(odd) for n in ("spread", "slots", "judges", "explanation", "judge_score")
            }
    groups.append(grouped("last", 0.1, 0.9, reliability=0.5, labels=(0, 1)))
    source = dump(tmp_path / "in.jsonl", groups)
    selected(source, tmp_path / "out.jsonl", "scored")
    assert (tmp_path / "out.jsonl").read_bytes() == source.read_bytes()
    for where in ("live", "tied", "reliability=0..1", "disagreement"):
        selected(source, tmp_path / "some.jsonl", where, keep=Keep(1, "score"))
    assert ids(tmp_path / "some.jsonl") == []


def test_empty_groups(tmp_path: Path) -> None:
    """A group without rollouts is left out by whatever asks for a score, and is nothing else."""
    groups = [grouped("a"), grouped("b", 0.1, 0.9)]
    source = dump(tmp_path / "in.jsonl", groups)
    selected(source, tmp_path / "out.jsonl", "failed")
    assert read(tmp_path / "out.jsonl") == groups[:1]
    tally = selected(source, tmp_path / "out.jsonl", keep=Keep(1, "score"))
    assert (ids(tmp_path / "out.jsonl"), tally.unscored) == (["b1"], 1)


def test_no_records(tmp_path: Path) -> None:
    """An empty INPUT, as a selection may write it, gives an empty OUTPUT."""
    source = dump(tmp_path / "in.jsonl", [])
    assert selected(source, tmp_path / "out.jsonl", "live").groups == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_one_by_one_as_together(tmp_path: Path) -> None:
    """Conditions about groups may be given together or one after another, in any order."""
    dice = random.Random(9)
    groups = [
        grouped(
            f"g{i}",
            *(dice.randrange(5) / 4 for _ in range(4)),
            labels=[0, 1, 0, 1],
            reliability=dice.random(),
        )
        for i in range(60)
    ]
    source = dump(tmp_path / "in.jsonl", groups)
    where = ("live", "reliability=0.3..", "disagreement=0.25..", "scored")
    selected(source, tmp_path / "all.jsonl", *where)
    for order in itertools.islice(itertools.permutations(where), 0, 24, 5):
        at = source
        for i, one in enumerate(order):
            selected(at, tmp_path / f"{i}.jsonl", one)
            at = tmp_path / f"{i}.jsonl"
        assert at.read_bytes() == (tmp_path / "all.jsonl").read_bytes()
    assert 5 < len(read(tmp_path / "all.jsonl")) < 50


@pytest.mark.parametrize("scatter", few(1, [True, False]))
def test_memory_is_flat(scatter: bool, tmp_path: Path) -> None:
    """Five times the groups take no more memory."""
    peaks = []
    for number in (60, 300):
        groups = (grouped(f"g{i}", 0.1, 0.9, 0.4, note="x" * 20_000) for i in range(number))
        if scatter:
            records = lines(*groups)
            random.Random(1).shuffle(records)
        else:
            records = list(groups)
        source = dump(tmp_path / "in.jsonl", records)
        del records, groups
        tracemalloc.start()
        selected(source, tmp_path / "out.jsonl", "live", keep=Keep(2, "variance"))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(ids(tmp_path / "out.jsonl")) == 2 * number
    assert peaks[1] < 1.5 * peaks[0]
