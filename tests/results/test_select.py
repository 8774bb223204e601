"""Selections of whole files: the rollouts that stay, their order, and refusals."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.results.choice import Choice, Keep, widest
from ruler_cli.results.conditions import parse_condition
from ruler_cli.results.select import select
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.conftest import ROOT, read
from tests.results.select_values import (
    GROUPS,
    annotated_groups,
    annotation,
    dump,
    grouped,
    lines,
    scored_by,
    selected,
    trajectory,
)
from tests.values import few, talk


def ids(path: Path) -> list[str]:
    """Return the ids of rollouts in groups on lines, or in trajectories on lines, in their order."""
    return [
        t["id"]
        for record in read(path)
        for t in record.get("trajectories", [record])
    ]


WHERE = {
    "live": "a0 a1 a2 d0 d1 d2",
    "tied": "b0 b1 e0 e1",
    "failed": "c0 c1",
    "scored reliability=..0.5": "b0 b1 d0 d1 d2",
    "reliability=.5...5": "d0 d1 d2",
    "disagreement": "d0 d1 d2",
    "disagreement=0.5..": "b0 b1 d0 d1 d2",
    "disagreement=..0": "a0 a1 a2",
    "score=0.5..0.8": "a2 b0 b1 d0 e1",
    "score=0.5.. score=..0.8 live": "a2 d0",
    "mean=..0.5": "a0 a1 a2 b0 b1 d0 d1 d2",
    "mean=0.5..0.5": "a0 a1 a2 b0 b1 d0 d1 d2",
    "mean=0.51..": "e0 e1",
    "mean=..0.3": "",
    "live tied": "",
}
"""Conditions, and the rollouts of GROUPS for which all of them hold."""


def test_conditions(tmp_path: Path) -> None:
    """All conditions must hold, a range includes both ends, and records keep their order."""
    for records in (GROUPS, lines(*GROUPS)):
        source = dump(tmp_path / "in.jsonl", records)
        for where, kept in WHERE.items():
            tally = selected(source, tmp_path / "out.jsonl", *where.split())
            assert ids(tmp_path / "out.jsonl") == kept.split(), where
            assert (
                tally["groups"],
                tally["rollouts"],
                tally["kept rollouts"],
            ) == (
                5,
                12,
                len(kept.split()),
            )
            assert tally["kept groups"] == len(
                {name[0] for name in kept.split()}
            )


ENDED = {
    "truncated": "a1 b0",
    "aborted": "b1",
    "error": "c1",
    "finished": "a0 c0 d0",
    "truncated score=0.8..": "a1",
    "truncated live": "a1",
    "truncated aborted": "",
    "error failed": "c1",
    "finished mean=..0.6": "a0",
}


def test_endings(tmp_path: Path) -> None:
    """Rollouts are selected by how they ended, also those that have no score."""
    groups = [
        grouped("a", 0.1, 0.9),
        grouped("b", 0.7, None),
        grouped("c", None, None),
        grouped("d", 0.8),
    ]
    ends = iter(["", "truncated", "truncated", "aborted", "", "error", "odd"])
    for group in groups:
        for row in group["trajectories"]:
            row["ruler"]["ended"] = next(ends)
    # of an older version
    del groups[0]["trajectories"][0]["ruler"]["ended"]
    for records in (groups, lines(*groups)):
        source = dump(tmp_path / "in.jsonl", records)
        for where, kept in ENDED.items():
            tally = selected(source, tmp_path / "out.jsonl", *where.split())
            assert ids(tmp_path / "out.jsonl") == kept.split(), where
            assert tally["kept rollouts"] == len(kept.split())
    keep = Keep(1, "score")
    selected(source, tmp_path / "out.jsonl", "aborted", keep=keep)
    assert ids(tmp_path / "out.jsonl") == []


WAYS = {
    "relability": "is not a condition; did you mean reliability? the conditions are live",
    "relability=0.7..": "did you mean reliability? the conditions are live",
    "=x": "is not a condition; the conditions are live",
    "error=timeout": "is not a condition; did you mean error?",
    "metadata.model=x": "is not a condition; the conditions are live",
    "kettle": "disagreement, mean, reliability, score, criteria.NAME, truncated",
    "": "--where : is not a condition; the conditions are",
    "score > 0.8": "is not a condition; the conditions are live",
    "live=1..": "is not a condition; did you mean live?",
    "score=0.8": "is not a range; write e.g. live, score=0.7..",
    "score=..": "is not a range",
    "score=nan..": "is not a range",
    "score=a..b": "is not a range",
    "score=0.8..0.2": "is not a range",
    "reliability=70..": "reliability and disagreement are from 0 to 1",
    "\x1b[31mlive": "--where \ufffd[31mlive: is not a condition; the conditions are live",
}


def test_suggestion() -> None:
    """An invalid condition is reported with a suggestion, or with the syntax of a range."""
    for text, message in WAYS.items():
        with pytest.raises(UsageError) as error:
            parse_condition(text)
        assert message in str(error.value)
        assert "\x1b" not in str(error.value)


KEEP_CASES = (
    (Keep(1, "score"), "", "a1 b0 d0 e1"),
    (Keep(2, "variance"), "", "a0 a1 b0 b1 d0 d1 e0 e1"),
    (Keep(2, "variance"), "score=..0.6", "a0 a2 b0 b1 d1 e0"),
    (Keep(9, "score"), "live", "a0 a1 a2 d0 d1"),
)


def test_keep(tmp_path: Path) -> None:
    """Conditions apply first; a rollout without a score is never kept, and a group without any is counted."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    for keep, where, kept in KEEP_CASES:
        tally = selected(
            source, tmp_path / "out.jsonl", *where.split(), keep=keep
        )
        assert ids(tmp_path / "out.jsonl") == kept.split()
        assert tally["unscored"] == (0 if "live" in where else 1)
        groups = read(tmp_path / "out.jsonl")
        assert [g["ruler"] for g in groups] == [
            g["ruler"] for g in GROUPS if g["group_id"] in kept
        ]


def variance(scores: Sequence[float]) -> float:
    """The variance by its definition."""
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores) / len(scores)


grades = (
    st.integers(0, 4).map(lambda n: n / 4)
    | st.floats(0, 1)
    | st.sampled_from([-1e50, -1.0, 1e6, 1e50])
)


@given(st.lists(grades, min_size=1, max_size=9), st.integers(1, 9))
def test_greatest_variance(scores: list[float], most: int) -> None:
    """No choice of as many has a greater variance, and no kept score lies between two omitted ones."""
    kept = widest(scores, most)
    assert len(kept) == len(set(kept)) == min(most, len(scores))
    best = max(
        variance(choice) for choice in itertools.combinations(scores, len(kept))
    )
    assert variance([scores[i] for i in kept]) >= best * (1 - 1e-9) - 1e-9
    left = sorted(score for i, score in enumerate(scores) if i not in kept)
    assert not left or all(
        scores[i] <= left[0] or scores[i] >= left[-1] for i in kept
    )


def test_ties() -> None:
    """Of equal scores the first is kept, and of equal choices the one with more high scores."""
    assert widest([0.5, 0.0, 1.0, 0.0, 1.0], 2) == [1, 2]
    assert widest([0.0, 0.5, 1.0, 0.5, 0.5], 3) == [0, 1, 2]
    assert widest([0.0, 0.1, 0.5, 0.9, 1.0], 3) == [0, 3, 4]
    assert (
        len(widest([i / 1e5 for i in range(100_000)], 50_000)) == 50_000
    )  # not quadratic


UNSCORED = [{"trajectories": [{"messages": talk("a")}]}]
REFUSED: list[tuple[list[Any], str, str]] = [
    (
        [grouped("a", 0.1, 0.9)],
        "reliability=0.1..",
        "has one; score with --passes 2 or more",
    ),
    (
        [grouped("a", 0.1, 0.9)],
        "disagreement",
        "no group of .* has one; .* with --labels PATH",
    ),
    (
        [
            grouped("a", 0.1, 0.9, labels=(1, 1)),
            grouped("b", 0.1, 0.9, labels=(0, 0)),
        ],
        "disagreement=0.5..",
        "no group of .* has one; .* different labels",
    ),
    (UNSCORED, "live", "no rollout has an annotation of ruler; score it first"),
    (UNSCORED, "score=0..", "no rollout has an annotation of ruler"),
]


def test_missing_figure(tmp_path: Path) -> None:
    """A condition on a figure that no group has is refused with the way out, and OUTPUT is unchanged."""
    (tmp_path / "out.jsonl").touch()
    for records, where, message in REFUSED:
        source = dump(tmp_path / "in.jsonl", records)
        with pytest.raises(UsageError, match=message):
            selected(source, tmp_path / "out.jsonl", where)
        assert (tmp_path / "out.jsonl").read_text() == ""
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "in.jsonl",
            "out.jsonl",
        ]


def test_empty_selection(tmp_path: Path) -> None:
    """If every group failed, or there is none, the output is empty, without an error."""
    for records in ([grouped("a", None, None)], []):
        source = dump(tmp_path / "in.jsonl", records)
        for where in ("reliability=0..", "disagreement", "live", "score=0.."):
            assert (
                selected(source, tmp_path / "out.jsonl", where)["kept groups"]
                == 0
            )
            assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.jsonl.gz"])
def test_interrupted(name: str, tmp_path: Path) -> None:
    """A selection that is stopped leaves OUTPUT as it was, and no other file."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    (tmp_path / name).write_text("")
    left = iter(range(2))

    def stop() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(
            InputSettings(str(source)), str(tmp_path / name), open_input,
            Choice([parse_condition("scored")]),
            on_problem=lambda _: None, on_group=stop,
        )  # fmt: skip
    assert (tmp_path / name).read_text() == ""
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", name}


def test_parts(tmp_path: Path) -> None:
    """The records of one rollout are kept together or not at all."""
    scored = scored_by(
        "simulated",
        ROOT / "samples" / "formats" / "verl_v1.jsonl",
        tmp_path / "scored.jsonl",
    )
    before = annotated_groups(scored)
    assert any(len(r.indices) > 1 for group in before for r in group.rollouts)
    for most in (1, 2):
        selected(scored, tmp_path / "out.jsonl", keep=Keep(most, "score"))
        after = annotated_groups(tmp_path / "out.jsonl")
        sizes = {
            (r.explanation, len(r.indices))
            for group in before
            for r in group.rollouts
        }
        assert {
            (r.explanation, len(r.indices))
            for group in after
            for r in group.rollouts
        } <= sizes
        assert [len(group.rollouts) for group in after] == [
            min(most, len(g.rollouts)) for g in before
        ]


HOSTILE = [
    float("nan"), float("inf"), 10**400, 2**64, "0.5", True, None, [0.5], {"a": 1}, -0.0, 1e308,
]  # fmt: skip


def test_hostile_annotations(tmp_path: Path) -> None:
    """An invalid score never counts as one, and affects no other rollout."""
    groups = [
        {"group_id": f"g{i}", "trajectories": [{**trajectory(odd), "ruler": {**annotation(0), "score": odd}},
                                               trajectory(0.5, id="fine")]}
        for i, odd in enumerate(HOSTILE)
    ]  # fmt: skip
    source = dump(tmp_path / "in.jsonl", groups)
    tally = selected(source, tmp_path / "out.jsonl", "score=0.4..0.6")
    assert (tally["kept groups"], tally["kept rollouts"]) == (
        len(HOSTILE),
        len(HOSTILE),
    )
    tally = selected(source, tmp_path / "out.jsonl", keep=Keep(9, "score"))
    assert (
        tally["kept rollouts"] == len(HOSTILE) + 2
    )  # -0.0 and 2**64 are numbers


@pytest.mark.parametrize("scatter", few(1, [True, False]))
def test_memory_is_flat(scatter: bool, tmp_path: Path) -> None:
    """Five times the groups take no more memory."""
    peaks = []
    for number in (60, 300):
        groups = [
            grouped(f"g{i}", 0.1, 0.9, 0.4, note="x" * 20_000)
            for i in range(number)
        ]
        records = lines(*groups) if scatter else groups
        if scatter:
            random.Random(1).shuffle(records)
        source = dump(tmp_path / "in.jsonl", records)
        del records, groups
        tracemalloc.start()
        selected(
            source, tmp_path / "out.jsonl", "live", keep=Keep(2, "variance")
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(ids(tmp_path / "out.jsonl")) == 2 * number
    assert peaks[1] < 1.5 * peaks[0]


def test_criteria_of_records(tmp_path: Path) -> None:
    """A selection counts only criteria that conditions name: each record may have others."""
    groups = []
    for name in ("sound", "brief"):
        record = grouped(name, 0.1, 0.9)
        for rollout in record["trajectories"]:
            rollout["ruler"]["criteria"] = [{"name": name, "value": 0.5}]
        groups.append(record)
    source = dump(tmp_path / "in.jsonl", groups)
    counts = selected(source, tmp_path / "out.jsonl", "criteria.sound=0.5..")
    assert (counts["kept rollouts"], counts["criteria.sound"]) == (2, 2)
    assert "criteria.brief" not in counts
