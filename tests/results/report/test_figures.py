"""The figures of a run, compared with a computation from all of its groups at once."""

from __future__ import annotations

import gc
import json
import math
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.cli.sentences import findings
from ruler_cli.results.figures import (
    FileFigures,
    ReportFigures,
)
from ruler_cli.results.record import GroupRecord
from ruler_cli.types import iso
from tests.conftest import ROOT, Ruler
from tests.results.report.values import NOON, group
from tests.results.report.written import group as scored_line
from tests.results.report.written import no_texts, rollout, written


def of(groups: Iterable[GroupRecord]) -> ReportFigures:
    """Return the figures of these groups."""
    builder = FileFigures()
    for row in groups:
        builder.add(row)
    return builder.figures(no_texts)


def test_by_hand(ruler: Ruler, tmp_path: Path) -> None:
    """Counts, sums, means, bins and trends of a small file are those that a hand computes."""

    def pair(*scores: float) -> list[Any]:
        places = ("ab", 0, 0.0), ("cd" * 50, 1, 1.0)
        return [
            rollout(text, score, independent_reward=label, slots=[slot])
            for score, (text, label, slot) in zip(scores, places, strict=True)
        ]

    part = {
        "cost_usd": 0.25,
        "latency_s": 2.0,
        "usage": {"prompt_tokens": 1000},
    }
    lost = {"status": "failed", "kind": "reply", "reason": "cut at 3"}
    lines = [
        scored_line("a", *pair(0.25, 0.75), reliability=0.75, **part),
        scored_line("b", *pair(0.9, 0.1), reliability=0.25, **part),
        scored_line(
            "t", *pair(0.5, 0.5), tied=True, judge="m", judged_at=iso(NOON)
        ),
        scored_line(
            "lost", rollout("x", None, **lost), **lost, judged_at=iso(NOON)
        ),
    ]
    bare = {"messages": rollout("z")["messages"]}
    lines.append({"group_id": "bare", "trajectories": [bare]})
    written(tmp_path / "s.jsonl", *lines)
    result = json.loads(ruler("report", "s.jsonl", "--json").stdout)["figures"]
    groups, rollouts = result["groups"], result["rollouts"]
    counts = {
        "all": 5,
        "scored": 3,
        "failed": 1,
        "unmarked": 1,
        "tied": 1,
        "live": 2,
    }
    assert groups | counts == groups
    assert (groups["alone"], groups["one_score"]) == (0, 1)
    counts = {"all": 8, "scored": 6, "failed": 1, "labelled": 6, "moved": 0}
    assert rollouts | counts == rollouts
    assert result["failed_by_kind"] == {"reply": 1}
    assert result["judges"] == {"offline": 3, "m": 1}
    assert (result["cost_usd"], result["cost_groups"]) == (0.5, 2)
    assert result["usage"]["prompt_tokens"] == 2000
    assert result["scores"]["mean"] == pytest.approx(0.5)
    assert result["scores"]["sd"] == pytest.approx((0.445 / 6) ** 0.5)
    bars = {
        bar["from"]: bar["n"] for bar in result["scores"]["bins"] if bar["n"]
    }
    assert bars == {0.1: 1, 0.25: 1, 0.5: 2, 0.75: 1, 0.9: 1}
    assert result["spread"]["median"] == result["reliability"]["median"] == 0.25
    labels = result["against_label"]
    names = ("pairs", "against", "tied", "agreement", "groups")
    assert [labels[name] for name in names] == [3, 1.5, 1, 0.5, 3]
    assert len(labels["cells"]) == 6
    cell = {"score": [0.9, 1.0], "label": [0.0, 0.0], "n": 1}
    assert labels["cells"][-1] == cell | {"values": {"score": [0.9] * 2, "label": [0.0] * 2}}  # fmt: skip
    assert [bar["mean"] for bar in result["slots"]["bins"]] == pytest.approx([0.05, -0.05])  # fmt: skip
    # scores on the logarithms of 37 and 135 bytes
    assert result["lengths"]["slope"] == pytest.approx(
        -0.1 / math.log2(135 / 37)
    )
    assert result["started_at"] == iso(NOON)
    assert of([])["scores"] == {"bins": [], "mean": None, "sd": None}


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
    result = of(
        group([None], key=key, reason=reason) for key, reason in reported
    )["reasons"]
    assert [(r["groups"], r["reason"][:9], r["first"]) for r in result[:3]] == [
        (3, "request 0", "d"),
        (2, "tried 3 t", "a"),
        (1, "cut", "b"),
    ]
    assert len(result) == 6


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
            passes=i + 1,
            rubric=f"{i:016x}",
            params=f"{i:016x}",
            version=word * 99,
            served=(word * 99,),
            judged_at=float((i * 7919 % groups) * 10**6 - 10**8),
            each=[{"size": i}] * (1 if i % 2 else 2),
        )


def held(groups: int) -> int:
    """Return the bytes that the figures of so many groups occupy."""
    tracemalloc.start()
    try:
        builder = FileFigures()
        for one_group in hostile(groups):
            builder.add(one_group)
        gc.collect()  # memory of freed small objects does not count
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_distinct_words() -> None:
    """A file of only distinct words and times is counted whole, in short lists and 250 bytes per group."""
    result = of(hostile(6000))
    for name in ("judges", "passes"):
        assert sum(result[name].values()) == 6000
        assert len(result[name]) < 30
    assert sum(result["failed_by_kind"].values()) == 3000
    assert held(1500) - held(1200) < 300 * 250


def dump(path: Path) -> None:
    """Write the sample with an identical rollout in every second group, an unreadable one in every third."""
    lines = (ROOT / "samples" / "simulated.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for record in records[::2]:
        record["trajectories"].insert(
            0, {**record["trajectories"][3], "reward": 1}
        )
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
        ("-m simulated --set order=input", None),
        ("-m simulated --set order=input --passes 3", None),
        ("-m simulated -m offline --passes 3 --set standardize=true", True),
    ],
)
def test_position_bias(
    options: str, corrected: bool | None, ruler: Ruler, tmp_path: Path
) -> None:
    """The annotations give the position bias of the run's summary, and tell that scores are corrected.

    In input order a position says what the rollout is: neither a run nor a report calls that a bias.
    """
    dump(tmp_path / "in.jsonl")
    ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        *options.split(),
        "--summary",
        "run.json",
    )
    figures = json.loads((tmp_path / "run.json").read_text())["figures"]
    page = json.loads(ruler("report", "out.jsonl", "--json").stdout)["figures"]
    result = page["slots"]
    groups = 0 if corrected is None else 40
    assert result["groups"] == figures["slot_groups"] == groups
    assert len(result["bins"]) >= 6 or not groups
    for bar, wanted in zip(result["bins"], figures["slot_curve"], strict=True):
        assert (bar["from"], bar["to"]) == pytest.approx(
            (wanted["start"], wanted["stop"])
        )
        assert (bar["mean"], bar["error"]) == pytest.approx(
            (wanted["mean"], wanted["error"]), abs=1e-6
        )
        assert bar["n"] == wanted["scores"]
    assert (result["corrected"] > 30) is bool(corrected)
    assert (result["corrected"] == 0) is not corrected
    sentence = dict(findings(page)).get("position bias")
    assert (sentence is None) is (corrected is None)
    assert (sentence or "").endswith("; subtracted") is bool(corrected)
