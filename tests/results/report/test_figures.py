"""The figures of a run, compared with a computation from all of its groups at once."""

from __future__ import annotations

import gc
import json
import math
import random
import statistics
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.cli.sentences import findings
from ruler_cli.results.figures import (
    FileFigures,
    ReportFigures,
)
from ruler_cli.results.record import GroupRecord, RolloutRecord, changed
from ruler_cli.scoring.figures import scores_by_position
from ruler_cli.types import iso
from tests.conftest import ROOT, Ruler
from tests.results.report.values import NOON, drawn, group
from tests.results.report.written import no_texts

_BAR = {"from", "to", "n", "values"}
_NAMES: dict[str, Any] = {
    "groups": {
        "all",
        "scored",
        "failed",
        "unmarked",
        "tied",
        "live",
        "alone",
        "one_score",
        "explained",
        "same_explanations",
    },
    "rollouts": {"all", "scored", "failed", "labelled", "suspect", "moved"},
    "failed_by_kind": {"reply", "transport"},
    "reasons": [{"kind", "reason", "groups", "first"}],
    "flags": {"suspect", "cached"},
    "judges": {"a", "b"},
    "passes": {"1", "2"},
    "made_by": {
        "served",
        "versions",
        "rubrics",
        "more_rubrics",
        "params",
        "more_params",
    },
    "cost_usd": None,
    "cost_groups": None,
    "usage": {
        "calls",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "estimated",
    },
    "latency_s": {"p50", "p90", "p99", "max"},
    "started_at": None,
    "ended_at": None,
    "scores": {"bins": [_BAR], "mean": None, "sd": None},
    "spread": {"bins": [_BAR], "median": None},
    "against_label": {
        "cells": [{"score", "label", "n", "values"}],
        "pairs": 0,
        "against": 0,
        "tied": 0,
        "agreement": 0,
        "groups": 0,
    },
    "slots": {
        "bins": [{"from", "to", "mean", "error", "n"}],
        "groups": 0,
        "corrected": 0,
    },
    "lengths": {
        "cells": [{"score", "bytes", "n", "values"}],
        "slope": 0,
        "error": 0,
        "correlation": 0,
        "groups": 0,
    },
    "criteria": 0,
    "reliability": {"bins": [_BAR], "median": 0, "groups": 0},
    "over_time": {
        "unit": 0,
        "bins": [{"from", "to", "groups", "failed", "values"}],
        "left_out": 0,
    },
}
"""Every name of the schema; a value that is no set, object or list is not compared."""


def of(groups: Iterable[GroupRecord]) -> ReportFigures:
    """Return the figures of these groups."""
    builder = FileFigures()
    for one in groups:
        builder.add(one)
    return builder.figures(no_texts)


ALL = list(drawn(1500))
FIGURES = of(ALL)
ROLLOUTS = [r for g in ALL for r in g.rollouts]
SCORES = [r.score for r in ROLLOUTS if r.score is not None]


def near(value: float | None) -> object:
    """The value up to rounding."""
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def rank(values: Sequence[float], share: float) -> object:
    """The least value at or above this share of all, within the error of a quantile."""
    return pytest.approx(
        sorted(values)[max(0, math.ceil(share * len(values)) - 1)], rel=0.0051
    )


def within(value: float, ends: Sequence[float]) -> bool:
    """Tell if a bin of tenths holds a value: its start belongs to it, and the last end too."""
    return ends[0] <= value < ends[1] or value == ends[1] == 1


def same_names(value: Any, names: Any) -> bool:
    """Tell if a value has these names, at every depth."""
    if isinstance(names, set):
        return isinstance(value, dict) and value.keys() == names
    if isinstance(names, list):
        return (
            isinstance(value, list)
            and bool(value)
            and all(same_names(v, names[0]) for v in value)
        )
    if isinstance(names, dict):
        same = isinstance(value, dict) and value.keys() == names.keys()
        return same and all(same_names(value[name], names[name]) for name in names)
    return True


def test_names() -> None:
    """Figures have every name of the schema and no other, also without any group, as strict JSON."""
    assert same_names(FIGURES, _NAMES)
    assert json.loads(json.dumps(FIGURES, allow_nan=False)) == json.loads(
        json.dumps(FIGURES)
    )
    nothing = of([])
    assert nothing.keys() == _NAMES.keys()
    assert nothing["latency_s"] == dict.fromkeys(("p50", "p90", "p99", "max"))
    assert (nothing["cost_usd"], nothing["scores"]) == (
        None,
        {"bins": [], "mean": None, "sd": None},
    )
    failed = of([group([None, None])] * 3)
    assert (failed["groups"]["failed"], failed["scores"], failed["cost_usd"]) == (
        3,
        nothing["scores"],
        None,
    )


def test_counts() -> None:
    """Every group and rollout is counted once by its status, and words are counted by group."""
    n, annotated = FIGURES["groups"], [g for g in ALL if g.status != "unmarked"]
    assert n["all"] == len(ALL) == n["scored"] + n["failed"] + n["unmarked"]
    assert n["failed"] == sum(g.failed for g in ALL) > 0 < n["unmarked"]
    assert (n["tied"], n["live"]) == (
        sum(g.is_tied for g in ALL),
        sum(g.live for g in ALL),
    )
    assert n["one_score"] == sum(g.one_score for g in ALL)
    assert FIGURES["rollouts"] == {
        "all": len(ROLLOUTS),
        "scored": len(SCORES),
        "failed": sum(r.status == "failed" for r in ROLLOUTS),
        "labelled": sum(r.label is not None for r in ROLLOUTS),
        "suspect": sum(r.suspect for r in ROLLOUTS),
        "moved": sum(r.score != r.judge_score for r in ROLLOUTS),
    }
    assert FIGURES["failed_by_kind"] == Counter(g.kind for g in ALL if g.failed)
    assert FIGURES["flags"] == Counter(flag for g in ALL for flag in g.flags)
    assert FIGURES["judges"] == Counter(g.judge for g in annotated)
    assert FIGURES["passes"] == Counter(
        str(g.passes) for g in annotated if g.passes is not None
    )


def test_one_rollout() -> None:
    """Counts of a file with one rollout are numbers, and no truth values."""
    counts = of([group([0.5], [1.0])])["rollouts"]
    assert json.dumps([counts["all"], counts["labelled"]]) == "[1, 1]"


def test_sums_and_quantiles() -> None:
    """Sums are over the groups with a value, and quantiles are within half a percent."""
    costs = [g.cost_usd for g in ALL if g.cost_usd is not None]
    assert (FIGURES["cost_usd"], FIGURES["cost_groups"]) == (
        near(math.fsum(costs)),
        len(costs),
    )
    assert FIGURES["usage"]["prompt_tokens"] == sum(
        g.usage["prompt_tokens"] for g in ALL
    )
    waits = [g.latency_s for g in ALL if g.latency_s is not None]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert FIGURES["latency_s"][name] == rank(waits, share)
    assert FIGURES["latency_s"]["max"] == max(waits)
    assert FIGURES["scores"]["mean"] == near(statistics.fmean(SCORES))
    assert FIGURES["scores"]["sd"] == near(statistics.pstdev(SCORES))
    spreads = [g.sd for g in ALL if g.sd is not None]
    assert FIGURES["spread"]["median"] == rank(spreads, 0.5)
    reported = [g.reliability for g in ALL if g.reliability is not None and g.scores]
    assert (FIGURES["reliability"]["groups"], FIGURES["reliability"]["median"]) == (
        len(reported),
        rank(reported, 0.5),
    )


def test_bins() -> None:
    """A bin counts its values, an edge belongs to the bin above, and the last bin has higher values too."""
    for i, bar in enumerate(FIGURES["scores"]["bins"]):
        assert (bar["from"], bar["to"]) == (i / 20, (i + 1) / 20)
        assert bar["n"] == sum(within(s, (bar["from"], bar["to"])) for s in SCORES)
    spreads = [round(g.sd, 9) for g in ALL if g.sd is not None]
    for bar in FIGURES["spread"]["bins"][:-1]:
        assert bar["n"] == sum(bar["from"] <= sd < bar["to"] for sd in spreads)
    odd = of([group([-3.0, 7.0])])
    assert [bar["n"] for bar in odd["scores"]["bins"]] == [1, *[0] * 18, 1]
    assert (
        odd["scores"]["mean"],
        odd["scores"]["sd"],
        odd["spread"]["bins"][-1]["n"],
    ) == (2.0, 5.0, 1)


def test_values_of_bins() -> None:
    """The values of a bin or cell, as a closed range, hold exactly what it counts."""

    def held(x: float | None, ends: Sequence[float]) -> bool:
        return x is not None and ends[0] <= x <= ends[1]

    spreads = [None if g.sd is None else round(g.sd, 9) for g in ALL]
    reported = [g.reliability if g.scores else None for g in ALL]
    for name, values in (
        ("scores", SCORES),
        ("spread", spreads),
        ("reliability", reported),
    ):
        for bar in FIGURES[name]["bins"]:
            held_by = (
                sum(held(x, bar["values"]) for x in values) if bar["values"] else 0
            )
            assert held_by == bar["n"], (name, bar)
    for name, of_rollout in (("against_label", "label"), ("lengths", "bytes")):
        for cell in FIGURES[name]["cells"]:
            ends, found = cell["values"], 0
            for r in ROLLOUTS:
                x = r.label if of_rollout == "label" else r.size
                found += held(r.score, ends["score"]) and held(x, ends[of_rollout])
            assert cell["n"] == found
    times = [g.time for g in ALL if g.status != "unmarked"]
    for bar in FIGURES["over_time"]["bins"]:
        assert bar["groups"] == sum(
            held(at, bar["values"]) for at in times if bar["values"]
        )


def test_scores_against_labels() -> None:
    """Cells count rollouts by score and label, and pairs are those of every group."""
    result = FIGURES["against_label"]
    both = [
        (r.score, r.label)
        for r in ROLLOUTS
        if r.score is not None and r.label is not None
    ]
    assert sum(cell["n"] for cell in result["cells"]) == len(both)
    for cell in result["cells"]:
        inside = [
            s for s, y in both if cell["label"] == [y, y] and within(s, cell["score"])
        ]
        assert cell["n"] == len(inside) > 0
    assert result["pairs"] == sum(g.pairs.pairs for g in ALL)
    assert result["against"] == sum(g.pairs.against for g in ALL)
    assert result["tied"] == sum(g.pairs.tied for g in ALL)
    assert result["agreement"] == near(1 - result["against"] / result["pairs"])


@pytest.mark.parametrize("n", [101, 30_000])
def test_many_labels(n: int) -> None:
    """More than 12 different labels are in 12 equal bins that hold all of them."""
    labels = [(i * 7919) % 100_003 / 100_003 if n > 101 else i / 100 for i in range(n)]
    cells = of(group([0.5], [label]) for label in labels)["against_label"]["cells"]
    assert (len(cells), sum(cell["n"] for cell in cells)) == (12, n)
    assert (cells[0]["label"][0], cells[-1]["label"][1]) == (min(labels), max(labels))
    for cell in cells:
        assert cell["n"] == pytest.approx(n / 12, rel=0.1)


def test_lengths() -> None:
    """Cells are powers of two of bytes, and the trend is the slope within groups."""
    for cell in FIGURES["lengths"]["cells"]:
        least, most = cell["bytes"]
        inside = [r for r in ROLLOUTS if r.score is not None and least <= r.size < most]
        assert cell["n"] == sum(
            r.score is not None and within(r.score, cell["score"]) for r in inside
        )
        assert most == 2 * least or (least, most) == (0, 1)
    assert sum(cell["n"] for cell in FIGURES["lengths"]["cells"]) == len(SCORES)
    xx = xy = 0.0
    for g in ALL:
        reported = [
            (math.log2(max(1, r.size)), r.judge_score)
            for r in g.rollouts
            if r.judge_score is not None
        ]
        if len(reported) > 1:
            x, y = (statistics.fmean(row[i] for row in reported) for i in (0, 1))
            xx += sum((a - x) ** 2 for a, _ in reported)
            xy += sum((a - x) * (b - y) for a, b in reported)
    assert FIGURES["lengths"]["slope"] == near(xy / xx)


def test_reasons() -> None:
    """Reasons that differ in numbers and ids only are one, worded as the first; the commonest is first."""
    reported = [
        ("a", "tried 3 times"),
        ("b", "cut"),
        ("c", "tried 12 times"),
        ("d", "request 0123456789abcdef0"),
    ]
    reported += [("e", "request fedcba98765432100")] * 2 + [
        (str(i), "x" * i) for i in range(9)
    ]
    result = of(group([None], key=key, reason=reason) for key, reason in reported)[
        "reasons"
    ]
    assert [(r["groups"], r["reason"][:9], r["first"]) for r in result[:3]] == [
        (3, "request 0", "d"),
        (2, "tried 3 t", "a"),
        (1, "cut", "b"),
    ]
    assert len(result) == 6


@pytest.mark.parametrize("seconds", [1, 61, 3600, 3_000_000])
def test_time(seconds: int) -> None:
    """At most 60 equal bars hold every annotated group by its time, in any order."""
    times = [NOON + (i * 7919) % seconds for i in range(min(seconds, 3000))]
    groups = [
        group([None] if i % 3 else [0.5], judged_at=at) for i, at in enumerate(times)
    ]
    result = of(groups)
    bars = result["over_time"]["bins"]
    assert (result["over_time"]["unit"], result["started_at"]) == (
        "time",
        iso(min(times)),
    )
    assert result["ended_at"] == iso(max(times))
    assert 1 <= len(bars) <= 60
    assert len({bar["to"] - bar["from"] for bar in bars}) == 1
    for bar in bars:
        inside = [
            g
            for g in groups
            if g.time is not None and bar["from"] <= g.time < bar["to"]
        ]
        assert bar["groups"] == len(inside)
        assert sum(bar["failed"].values()) == sum(g.failed for g in inside)
    assert sum(bar["groups"] for bar in bars) == len(groups)


def test_groups_without_times() -> None:
    """Groups without a time are no part of the axis of time, and are counted."""
    result = of(group([0.5], judged_at=NOON if i else None) for i in range(20))
    assert (result["over_time"]["left_out"], result["started_at"]) == (1, iso(NOON))
    assert [bar["groups"] for bar in result["over_time"]["bins"]] == [19]


def hostile(groups: int) -> Iterator[GroupRecord]:
    """Groups without a common word, label, time or size."""
    for i in range(groups):
        word = f"{i:x}".translate(str.maketrans("0123456789", "ghijklmnop"))
        yield group(
            [None] if i % 2 else [i / 7, -i * 1e40],
            [float(i)] if i % 2 else [i / 3, -i / 3],
            key=f"key {word}",
            kind=f"kind {word}" if i % 2 else "",
            reason=f"reason {word}",
            judge=f"judge {word}",
            passes=i,
            flags=(f"flag {word}",),
            rubric=f"{i:016x}",
            params=f"{i:016x}",
            version=word * 99,
            served=(word * 99,),
            judged_at=float((i * 7919 % groups) * 10**6 - 10**8),
            latency_s=1.00001**i,
            each=[{"size": i}] * (1 if i % 2 else 2),
        )


def usual(groups: int) -> Iterator[GroupRecord]:
    """Typical small groups, over 28 hours."""
    result = [changed(one, rollouts=one.rollouts[:2]) for one in drawn(300)]
    for i in range(groups):
        yield changed(result[i % 300], judged_at=iso(NOON + i * 7919 % 100_000))


def memory_of(groups: Iterable[GroupRecord]) -> int:
    """Return the bytes that the figures of these groups occupy."""
    tracemalloc.start()
    try:
        builder = FileFigures()
        for one in groups:
            builder.add(one)
        gc.collect()  # memory of freed small objects does not count
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_memory() -> None:
    """A group takes at most 250 bytes, for words of any length."""
    for groups in (usual, hostile):
        assert memory_of(groups(1500)) - memory_of(groups(1200)) < 300 * 250


def test_distinct_words() -> None:
    """A file of only distinct words, labels and times is counted whole, and no list is long."""
    result = of(hostile(6000))
    assert sum(result["judges"].values()) == result["groups"]["all"] == 6000
    assert sum(result["failed_by_kind"].values()) == result["groups"]["failed"] == 3000
    assert sum(result["flags"].values()) == sum(result["passes"].values()) == 6000
    assert 5_900 < result["passes"]["other"] < 6_000
    assert len(result["judges"]) < 30 > len(result["passes"])
    assert len(result["over_time"]["bins"]) <= 60


def dump(path: Path) -> None:
    """Write the sample with an identical rollout in every second group, an unreadable one in every third."""
    lines = (ROOT / "samples" / "simulated.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for record in records[::2]:
        record["trajectories"].insert(0, {**record["trajectories"][3], "reward": 1})
    for record in records[::3]:
        record["trajectories"].insert(2, {"messages": [], "reward": 0})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    ("options", "corrected"),
    [
        ("-m simulated", False),
        ("-m simulated -m offline --passes 3 --set blend=0.5", False),
        ("-m simulated --set debias=true", True),
        ("-m simulated --passes 2 --set debias=true", True),
        ("-m simulated --passes 3 --set debias=true --set blend=0.5", True),
        ("-m simulated -m offline --passes 3 --set standardize=true", True),
    ],
)
def test_position_bias(
    options: str, corrected: bool, ruler: Ruler, tmp_path: Path
) -> None:
    """The annotations give the position bias of the run's summary, and tell that scores are corrected."""
    dump(tmp_path / "in.jsonl")
    ruler("score", "in.jsonl", "out.jsonl", *options.split(), "--summary", "run.json")
    figures = json.loads((tmp_path / "run.json").read_text())["figures"]
    page = json.loads(ruler("report", "out.jsonl", "--json").stdout)["figures"]
    result = page["slots"]
    assert result["groups"] == figures["slot_groups"] == 40
    assert len(result["bins"]) == len(figures["slot_curve"]) >= 6
    for bar, wanted in zip(result["bins"], figures["slot_curve"], strict=True):
        assert (bar["from"], bar["to"]) == pytest.approx(
            (wanted["start"], wanted["stop"])
        )
        assert (bar["mean"], bar["error"]) == pytest.approx(
            (wanted["mean"], wanted["error"]), abs=1e-6
        )
        assert bar["n"] == wanted["scores"]
    assert (result["corrected"] > 30) is corrected
    assert (result["corrected"] == 0) is not corrected
    sentence = dict(findings(page))["position"]
    assert sentence.endswith("; subtracted") is corrected


@pytest.mark.parametrize("passes", ["1", "3"])
def test_input_order(passes: str, ruler: Ruler, tmp_path: Path) -> None:
    """In input order a position says what the rollout is: neither a run nor a report calls that a bias."""
    dump(tmp_path / "in.jsonl")
    options = (
        "-m",
        "simulated",
        "--set",
        "order=input",
        "--passes",
        passes,
        "--summary",
        "run.json",
    )
    errors = ruler("score", "in.jsonl", "out.jsonl", *options).stderr
    assert "position bias: " not in errors
    figures = json.loads((tmp_path / "run.json").read_text())["figures"]
    assert (figures["slot_curve"], figures["slot_groups"]) == ([], 0)
    page = json.loads(ruler("report", "out.jsonl", "--json").stdout)["figures"]
    assert (page["slots"]["bins"], page["slots"]["groups"]) == ([], 0)
    assert "position" not in dict(findings(page))


def annotated_group(orders: list[list[int]], scores: list[list[float]]) -> GroupRecord:
    """A group whose rollouts were shown in these orders and got these scores by position."""
    last, several = max(1, len(orders[0]) - 1), len(orders) > 1
    rollouts = []
    for i in range(len(orders[0])):
        given = tuple(
            row[order.index(i)] for order, row in zip(orders, scores, strict=True)
        )
        positions = tuple(round(order.index(i) / last, 3) for order in orders)
        score, reported = (0.5, given) if several else (given[0], ())
        rollouts.append(
            RolloutRecord(
                "scored",
                0.5,
                score,
                indices=(i,),
                slots=positions,
                pass_scores=reported,
            )
        )
    return GroupRecord("scored", "g", rollouts=tuple(rollouts))


@given(
    st.integers(),
    st.integers(1, 40) | st.just(1000),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_scores_by_position(seed: int, size: int, passes: int, twins: int) -> None:
    """Each pass is restored by position as the judge scored it; identical rollouts count once."""
    dice = random.Random(seed)
    orders = [dice.sample(range(size), size) for _ in range(passes)]
    scores = [[round(dice.random(), 9) for _ in range(size)] for _ in range(passes)]
    group = annotated_group(orders, scores)
    rollouts = [*group.rollouts, *dice.choices(group.rollouts, k=twins)]
    dice.shuffle(rollouts)
    assert by_position(changed(group, rollouts=tuple(rollouts))) == scores


def by_position(group: GroupRecord) -> list[list[float]]:
    """The scores of each pass by position."""
    rollouts = group.values.rollouts
    return scores_by_position([one for one in rollouts if one.score is not None])


def test_incomplete_annotations() -> None:
    """A group that lacks a rollout, a pass's score or a position does not count for position bias."""
    whole = annotated_group([[0, 1, 2, 3], [3, 2, 1, 0]], [[0.1, 0.2, 0.3, 0.4]] * 2)
    first, *others = whole.rollouts
    assert len(by_position(whole)) == 2
    for rollouts in (
        others,
        [],
        [changed(first, pass_scores=()), *others],
        [changed(first, slots=(), pass_scores=()), *others],
        [changed(first, slots=(0.0,), pass_scores=(0.5,)), *others],
        [changed(first, slots=(0.2, 1.0)), *others],
        [changed(first, status="failed", score=None, judge_score=None), *others],
    ):
        assert by_position(changed(whole, rollouts=tuple(rollouts))) == []
    assert by_position(changed(whole, windows=2)) == []
