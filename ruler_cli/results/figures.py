"""Groups of a scored file, one after another → the figures of the run; no group stays in memory.

The figures are one JSON object, which `ruler report --json` prints, a page for a browser embeds and the
terminal's page puts into sentences: docs/json.md describes it. Names are stable; new ones may be added.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ruler_cli.formats.annotate import usage_fields
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.ledger.database import digest_of
from ruler_cli.results.counts import (
    Bins,
    FailureReasons,
    WordCounts,
    bars_along,
    cells,
    equal_bins,
    histogram,
    iso,
    quantile,
)
from ruler_cli.results.made_by import TextLookup, made_by
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.scoring.statistics import LengthSums, Moments, PositionBias
from ruler_cli.types import Usage

ReportFigures = Mapping[str, Any]
"""The figures of a run; None: not known."""
ENOUGH = 10
"""Groups from which on a chart shows more than a list of them."""
_MOST_RUBRICS = 24
"""Rubrics of records whose texts are kept."""
_MOST_LABELS = 12
"""Different labels up to which each has a cell; more are in as many bins."""
_CORRECTED = 0.001
"""A difference between a score and those of its passes, which have three decimals, that is no rounding."""
_GROUPS = (
    "all", "scored", "failed", "unmarked", "tied", "live", "alone", "one_score", "explained",
    "same_explanations",
)  # fmt: skip
_ROLLOUTS = ("all", "scored", "failed", "labelled", "suspect", "moved")


class FiguresBuilder:
    """Builds the figures of a run, group by group; it stores some numbers of a group and of a rollout.

    `groups` and `rollouts` are counts by name: those of the figures, and of values that cannot be used:
    `odd_costs`; `odd_scores`, `odd_labels`, `unlabelled`, `more_judges` (scores of a panel beyond the first
    few); `outcomes` counts labels that a verifier gave instead of a reward, `own_labels` labels at the user's
    path that equal the score.
    """

    def __init__(self) -> None:
        self.groups = Counter[str]()
        self.rollouts = Counter[str]()
        # of groups
        self._words: defaultdict[str, WordCounts] = defaultdict(WordCounts)
        self._rubrics: dict[str, str] = {}
        self._reasons = FailureReasons()
        self._usage = Usage()
        # a number of each group, or of each scored rollout, that has one
        self._numbers: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._length_trend = LengthSums()
        self._positions = PositionBias()
        self._pairs = Counter[str]()
        # the time of each judged group, and the kind of its failure
        self._timed: list[tuple[float, str]] = []

    def add(self, group: ScoredGroup, own_rubric: str | None = None) -> None:
        """Count the next group of the file; its record may have a rubric of its own."""
        self.groups["all"] += 1
        self.groups[group.status] += 1
        self.groups["odd_costs"] += group.odd_cost
        for flag in group.flags:
            self._words["flags"].add(flag)
        for rollout in group.rollouts:
            self._add_rollout(rollout)
        if group.status != "unmarked":
            self._add_judged(group, own_rubric)
        if group.scores:
            self._add_scored(group)

    def _add_judged(self, group: ScoredGroup, own_rubric: str | None) -> None:
        kind = ""
        if group.failed:
            self._reasons.add(group.kind, group.reason, group.key)
            kind = sys.intern(self._words["kinds"].add(group.kind))
        if group.judged_at is not None:
            self._timed.append((group.judged_at, kind))
        passes = "" if group.passes is None else str(group.passes)
        for name, words in (
            ("judges", [group.judge]),
            ("passes", [passes]),
            ("served", group.served),
            ("versions", [group.version]),
            ("rubrics", [group.rubric]),
            ("params", [group.params]),
        ):
            for word in filter(None, words):
                self._words[name].add(word)
        few = own_rubric and len(self._rubrics) < _MOST_RUBRICS
        if own_rubric and few and group.rubric == digest_of(own_rubric):
            self._rubrics[group.rubric] = own_rubric
        self._usage += group.usage
        for name, value in (("cost", group.cost_usd), ("latency", group.latency_s)):
            if value is not None:
                self._numbers[name].append(value)

    def _add_rollout(self, rollout: ScoredRollout) -> None:
        own, label = rollout.judge_score, rollout.label
        counts = {
            "all": True,
            rollout.status: not rollout.odd_score,
            "odd_scores": rollout.odd_score,
            "suspect": rollout.suspect,
            "moved": own is not None and own != rollout.score,
            "labelled": label is not None,
            "unlabelled": not rollout.label_source,
            "odd_labels": label is None and bool(rollout.label_source),
            "outcomes": rollout.label_source == "outcome",
            "own_labels": rollout.label_source == "given" and label == rollout.score,
            "more_judges": rollout.more_judges,
        }
        self.rollouts.update(counts)
        if rollout.score is not None:
            self._numbers["score"].append(rollout.score)
            self._numbers["label"].append(math.nan if label is None else label)
            self._numbers["bytes"].append(rollout.size)

    def _add_scored(self, group: ScoredGroup) -> None:
        self.groups["tied"] += group.tied
        self.groups["live"] += group.live
        self.groups["alone"] += group.alone
        self.groups["one_score"] += group.one_score
        self._add_explanations(group)
        if group.sd is not None:
            # as in the table, to which a bin links
            self._numbers["sd"].append(round(group.sd, 9))
        if group.reliability is not None:
            self._numbers["reliability"].append(group.reliability)
        labelled = any(
            r.score is not None and r.label is not None for r in group.rollouts
        )
        self._pairs.update(
            groups=labelled,
            pairs=group.pairs.pairs,
            lost=group.pairs.lost,
            tied=group.pairs.tied,
        )
        judged = [
            (r.size, r.judge_score) for r in group.rollouts if r.judge_score is not None
        ]
        if len(judged) > 1:
            sizes, scores = zip(*judged, strict=True)
            self._length_trend.add(sizes, scores)
        by_position = scores_by_position(group)
        self._positions.add(*by_position)
        if by_position and len(by_position[0]) > 1:
            self.groups["in_order"] += _in_input_order(group)
            self.groups["corrected"] += any(map(_is_corrected, group.rollouts))

    def _add_explanations(self, group: ScoredGroup) -> None:
        """Count a group that explains several rollouts; embedded judges say the same of many by design."""
        texts = [r.explanation.strip() for r in group.rollouts if r.score is not None]
        embedded = {*EMBEDDED} & {*group.judge.split(", ")}
        if len(texts) > 1 and all(texts) and not group.alone and not embedded:
            self.groups["explained"] += 1
            self.groups["same_explanations"] += len({*texts}) == 1

    def judges(self) -> list[str]:
        """Return the judges of the groups so far, the most frequent first."""
        return list(self._words["judges"].by_count())

    def figures(self, lookup: TextLookup) -> ReportFigures:
        """Return the figures of all groups so far; `lookup` finds texts of rubrics and parameters."""
        numbers, words = self._numbers, self._words
        judged = self.groups["all"] - self.groups["unmarked"]
        times = [at for at, _ in self._timed]
        latency = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        rollouts = {name: self.rollouts[name] for name in _ROLLOUTS}
        rollouts["failed"] += self.rollouts["odd_scores"]
        return {
            "groups": {name: self.groups[name] for name in _GROUPS},
            "rollouts": rollouts,
            "failed_by_kind": words["kinds"].by_count(),
            "reasons": self._reasons.commonest(),
            "flags": words["flags"].by_count(),
            "judges": words["judges"].by_count(),
            "passes": words["passes"].by_count(),
            "made_by": made_by(words, self._rubrics, lookup),
            "cost_usd": math.fsum(numbers["cost"]) if numbers["cost"] else None,
            "cost_groups": len(numbers["cost"]),
            "usage": usage_fields(self._usage),
            "latency_s": {
                name: quantile(numbers["latency"], share)
                for name, share in latency.items()
            },
            "started_at": iso(min(times, default=None)),
            "ended_at": iso(max(times, default=None)),
            "scores": self._scores(),
            "spread": {
                "bins": histogram(numbers["sd"], 0.5, 20),
                "median": quantile(numbers["sd"], 0.5),
            },
            "against_label": self._against_label(),
            "slots": self._position_bias(),
            "lengths": self._lengths(),
            "reliability": {
                "bins": histogram(numbers["reliability"], 1, 10),
                "median": quantile(numbers["reliability"], 0.5),
                "groups": len(numbers["reliability"]),
            },
            "over_time": {
                "unit": "time",
                "bins": bars_along(self._timed),
                "left_out": judged - len(times),
            },
        }

    def _scores(self) -> dict[str, Any]:
        scores, moments = self._numbers["score"], Moments()
        moments.add(scores)
        return {
            "bins": histogram(scores, 1, 20),
            "mean": moments.mean if scores else None,
            "sd": math.sqrt(moments.square / moments.number) if scores else None,
        }

    def _against_label(self) -> dict[str, Any]:
        points = zip(self._numbers["score"], self._numbers["label"], strict=True)
        known = [(score, label) for score, label in points if math.isfinite(label)]
        labels = sorted({label for _, label in known})
        exact = len(labels) <= _MOST_LABELS
        edges = [*labels, *labels[-1:]]
        if not exact:
            step = (labels[-1] - labels[0]) / _MOST_LABELS
            edges = [labels[0] + step * i for i in range(_MOST_LABELS)] + labels[-1:]
        found = cells(known, score=equal_bins(1, 10), label=Bins(edges))
        for cell in found if exact else ():
            cell["label"] = cell["values"]["label"]
        pairs, tied = self._pairs["pairs"], self._pairs["tied"]
        against = self._pairs["lost"] + tied / 2
        return {
            "cells": found,
            "pairs": pairs,
            "against": against,
            "tied": tied,
            "agreement": 1 - against / pairs if pairs else None,
            "groups": self._pairs["groups"],
        }

    def _position_bias(self) -> dict[str, Any]:
        positions, in_order = self._positions, self.groups["in_order"]
        if in_order >= ENOUGH and positions.groups == in_order:
            # a position says what the rollout is, not how the judge is biased; few may be so by chance
            positions = PositionBias()
        bins = [
            {"from": b.start, "to": b.stop, "mean": b.mean, "error": b.error, "n": b.scores}
            for b in positions.bins()
        ]  # fmt: skip
        corrected = self.groups["corrected"]
        return {"bins": bins, "groups": positions.groups, "corrected": corrected}

    def _lengths(self) -> dict[str, Any]:
        points = zip(self._numbers["score"], self._numbers["bytes"], strict=True)
        powers = Bins([0.0, *(2.0**n for n in range(64))])
        trend = self._length_trend.trend()
        unknown = {"slope": None, "error": None, "correlation": None, "groups": 0}
        return {
            "cells": cells(points, score=equal_bins(1, 10), bytes=powers),
            **(asdict(trend) if trend else unknown),
        }


def scores_by_position(group: ScoredGroup) -> list[tuple[float, ...]]:
    """Return for each pass the scores of the distinct rollouts in the order in which the judge saw them.

    Identical rollouts share their positions and count once. Empty if the annotations lack the
    rollouts of a request or their positions: windows, a missing rollout, passes without their scores.
    """
    if "windows" in group.flags:
        return []
    distinct: dict[tuple[float, ...], tuple[float, ...]] = {}
    for rollout in group.rollouts:
        if rollout.status == "scored":
            score, passes = rollout.judge_score, len(rollout.positions)
            only = () if score is None or passes != 1 else (score,)
            distinct.setdefault(rollout.positions, rollout.pass_scores or only)
    if len({len(row) for row in (*distinct, *distinct.values())}) != 1:
        return []
    last = len(distinct) - 1
    rows = []
    for positions, scores in zip(
        zip(*distinct, strict=True), zip(*distinct.values(), strict=True), strict=True
    ):
        seen = sorted(zip(positions, scores, strict=True))
        if [round(at * last) for at, _ in seen] != [*range(last + 1)]:
            return []
        rows.append(tuple(score for _, score in seen))
    return rows


def _in_input_order(group: ScoredGroup) -> bool:
    """Tell if the judge saw the distinct rollouts in input order, as with --order input."""
    positions = [r.positions for r in group.rollouts if r.status == "scored"]
    distinct = [*dict.fromkeys(positions)]
    return distinct == sorted(distinct)


def _is_corrected(rollout: ScoredRollout) -> bool:
    """Tell if a score or its spread is not that of the passes, as with --debias or --standardize."""
    passes = Moments()
    passes.add(rollout.pass_scores)
    if rollout.judge_score is None or not passes.number:
        return False
    spread = passes.deviation if rollout.spread is None else rollout.spread
    off = abs(rollout.judge_score - passes.mean), abs(spread - passes.deviation)
    return max(off) > _CORRECTED
