"""Groups of a scored file, one after another → the figures of the run; no group stays in memory.

The figures are one JSON object, which `ruler report --json` prints, a page for a browser embeds and the
terminal's page puts into sentences: docs/json.md describes it. Names are stable; new ones may be added.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ruler_cli.formats.annotate import usage_fields
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.results.report.bins import (
    Bins,
    FailureReasons,
    LabelCells,
    WordCounts,
    bars_along,
    iso,
    quantile,
)
from ruler_cli.results.report.made_by import MadeBy, TextLookup, no_texts
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.scoring.sums import (
    LengthSums,
    Moments,
    PositionBias,
    relative_position,
)
from ruler_cli.types import Usage

ReportFigures = Mapping[str, Any]
"""The figures of a run; None: not known."""
ENOUGH = 10
"""Groups from which on a chart shows more than a list of them."""
_YEAR = 366 * 86400.0
_TIMED = 0.9
"""The share of judged groups that must have a time for an axis of time."""
_ROUNDED = 0.0005 + 1e-9
"""Rounding of a position in a file."""
_NO_TREND = {"slope": None, "error": None, "correlation": None, "groups": 0}
_MOST = 1000
"""Rollouts in a request up to which three decimals tell each position from the next."""
_CORRECTED = 0.001
"""A difference between a score and those of its passes, which have three decimals, that is no rounding."""


class FiguresBuilder:
    """Builds the figures of a run, group by group; it stores some numbers of a group, a label of a rollout.

    Groups judged more than a year from the median time are no part of the axis of time, nor of the run's
    start and end. If more than one group in ten has no such time, the axis is the number of the group in
    the file.
    """

    def __init__(self, lookup: TextLookup = no_texts) -> None:
        """`lookup` finds the texts of rubrics and parameters."""
        self._lookup, self._made = lookup, MadeBy()
        self._groups = Counter[str]()
        self._rollouts = Counter[str]()
        self._kinds, self._flags = WordCounts(12), WordCounts()
        self._judges, self._passes = WordCounts(), WordCounts()
        self._reasons = FailureReasons()
        self._cost, self._costed, self._usage = 0.0, 0, Usage()
        self._latencies, self._sds, self._reliabilities = (
            array("d"),
            array("d"),
            array("d"),
        )
        self._score_bins, self._sd_bins, self._reliability_bins = (
            Bins(1, 20),
            Bins(0.5, 20),
            Bins(1, 10),
        )
        self._tenths = Bins(1, 10)
        self._label_cells = LabelCells(self._tenths)
        self._length_cells = Counter[tuple[int, int]]()
        self._score_moments, self._length_trend, self._positions = (
            Moments(),
            LengthSums(),
            PositionBias(),
        )
        self._pairs, self._against, self._tied, self._labelled = 0, 0.0, 0, 0
        self._in_order = self._corrected = 0
        # of judged groups: their number in the file, the time if it is known, and the kind of failure
        self._numbers, self._times, self._failures = array("q"), array("d"), list[str]()

    def add(self, group: ScoredGroup, own_rubric: str | None = None) -> None:
        """Count the next group of the file; its record may have a rubric of its own."""
        self._groups["all"] += 1
        self._groups[group.status] += 1
        for flag in group.flags:
            self._flags.add(flag)
        if group.status != "unmarked":
            self._add_judged(group)
            self._made.add(group, own_rubric)
        self._add_rollouts(group)
        if group.scores:
            self._add_scored(group)

    def _add_judged(self, group: ScoredGroup) -> None:
        if group.failed:
            self._reasons.add(group.kind, group.reason, group.key)
        if group.judge:
            self._judges.add(group.judge)
        if group.passes is not None:
            self._passes.add(str(group.passes))
        if group.cost is not None:
            self._cost += group.cost
            self._costed += 1
        self._usage += group.usage
        if group.latency is not None:
            self._latencies.append(group.latency)
        self._numbers.append(self._groups["all"])
        self._times.append(math.nan if group.judged_at is None else group.judged_at)
        self._failures.append(
            sys.intern(self._kinds.add(group.kind)) if group.failed else ""
        )

    def _add_rollouts(self, group: ScoredGroup) -> None:
        self._rollouts["all"] += len(group.rollouts)
        for rollout in group.rollouts:
            self._rollouts["failed"] += rollout.status == "failed"
            self._rollouts["suspect"] += rollout.suspect
            self._rollouts["labelled"] += rollout.label is not None
            self._rollouts["moved"] += rollout.score != rollout.judge_score
            if rollout.score is None:
                continue
            self._score_bins.add(rollout.score)
            tenth = self._tenths.add(rollout.score)
            if rollout.label is not None:
                self._label_cells.add(tenth, rollout.label)
            self._length_cells[tenth, rollout.size.bit_length()] += 1

    def _add_scored(self, group: ScoredGroup) -> None:
        self._groups["tied"] += group.tied
        self._groups["alone"] += group.alone
        self._groups["one_score"] += group.one_score
        self._add_explanations(group)
        self._score_moments.add(group.scores)
        if group.sd is not None:
            self._sd_bins.add(
                round(group.sd, 9)
            )  # as in the table, to which a bin links
            self._sds.append(group.sd)
        if group.reliability is not None:
            self._reliability_bins.add(group.reliability)
            self._reliabilities.append(group.reliability)
        against, pairs = group.disputes
        self._against += against
        self._pairs += pairs
        self._tied += group.pairs.tied
        judged = [
            (r.size, r.judge_score) for r in group.rollouts if r.judge_score is not None
        ]
        if len(judged) > 1:
            self._length_trend.add(
                [size for size, _ in judged], [score for _, score in judged]
            )
        self._labelled += any(
            r.score is not None and r.label is not None for r in group.rollouts
        )
        by_position = scores_by_position(group)
        self._positions.add(*by_position)
        if len(next(iter(by_position), ())) > 1:
            self._in_order += _in_input_order(group)
            self._corrected += any(map(_is_corrected, group.rollouts))

    def _add_explanations(self, group: ScoredGroup) -> None:
        """Count a group that explains several rollouts; embedded judges say the same of many by design."""
        texts = [
            rollout.explanation.strip()
            for rollout in group.rollouts
            if rollout.score is not None
        ]
        if (
            len(texts) < 2
            or "" in texts
            or group.alone
            or {*EMBEDDED} & {*group.judge.split(", ")}
        ):
            return
        self._groups["explained"] += 1
        self._groups["same_explanations"] += len(set(texts)) == 1

    def figures(self) -> ReportFigures:
        """Return the figures of all groups so far."""
        groups, rollouts = self._groups, self._rollouts
        groups["live"] = groups["scored"] - groups["tied"]
        rollouts["scored"] = self._score_moments.number
        timed = self._timed()
        of_groups = [
            "all",
            "scored",
            "failed",
            "unmarked",
            "tied",
            "live",
            "alone",
            "one_score",
        ]
        of_groups += ["explained", "same_explanations"]
        of_rollouts = ("all", "scored", "failed", "labelled", "suspect", "moved")
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        return {
            "groups": {name: groups[name] for name in of_groups},
            "rollouts": {name: rollouts[name] for name in of_rollouts},
            "failed_by_kind": self._kinds.by_count(),
            "reasons": self._reasons.commonest(),
            "flags": self._flags.by_count(),
            "judges": self._judges.by_count(),
            "passes": self._passes.by_number(),
            "made_by": self._made.figures(self._lookup, self._judges.by_count()),
            "cost_usd": self._cost if self._costed else None,
            "cost_groups": self._costed,
            "usage": usage_fields(self._usage),
            "latency_s": {
                name: quantile(self._latencies, share) for name, share in shares.items()
            },
            "started_at": iso(min((at for at, _ in timed), default=None)),
            "ended_at": iso(max((at for at, _ in timed), default=None)),
            **self._charts(),
            "over_time": self._over_time(timed),
        }

    def _charts(self) -> dict[str, Any]:
        n, pairs, trend = (
            self._score_moments.number,
            self._pairs,
            self._length_trend.trend(),
        )
        positions = self._positions
        if (
            positions.groups >= ENOUGH and positions.groups == self._in_order
        ):  # few may be so by chance
            positions = (
                PositionBias()
            )  # a position says what the rollout is, not how the judge is biased
        return {
            "scores": {
                "bins": self._score_bins.bars(),
                "mean": self._score_moments.mean if n else None,
                "sd": math.sqrt(self._score_moments.square / n) if n else None,
            },
            "spread": {
                "bins": self._sd_bins.bars(),
                "median": quantile(self._sds, 0.5),
            },
            "against_label": {
                "cells": self._label_cells.cells(),
                "pairs": pairs,
                "against": self._against,
                "tied": self._tied,
                "agreement": 1 - self._against / pairs if pairs else None,
                "groups": self._labelled,
            },
            "slots": {
                "bins": [
                    {
                        "from": b.start,
                        "to": b.stop,
                        "mean": b.mean,
                        "error": b.error,
                        "n": b.scores,
                    }
                    for b in positions.bins()
                ],
                "groups": positions.groups,
                "corrected": self._corrected,
            },
            "lengths": {
                "cells": [
                    {
                        "score": self._tenths.ends(score),
                        "bytes": [float(1 << size >> 1), 2.0**size],
                        "n": n,
                        "values": {
                            "score": self._tenths.values(score),
                            "bytes": [1 << size >> 1, (1 << size) - 1],
                        },
                    }
                    for (score, size), n in sorted(self._length_cells.items())
                ],
                **(asdict(trend) if trend else _NO_TREND),
            },
            "reliability": {
                "bins": self._reliability_bins.bars(),
                "median": quantile(self._reliabilities, 0.5),
                "groups": len(self._reliabilities),
            },
        }

    def _timed(self) -> list[tuple[float, str]]:
        """Return times of judged groups within a year of the median time, with the kind of failure."""
        timed = [
            one
            for one in zip(self._times, self._failures, strict=True)
            if math.isfinite(one[0])
        ]
        median = quantile([at for at, _ in timed], 0.5)
        return (
            []
            if median is None
            else [one for one in timed if abs(one[0] - median) <= _YEAR]
        )

    def _over_time(self, timed: Sequence[tuple[float, str]]) -> dict[str, Any]:
        judged = len(self._numbers)
        if timed and len(timed) >= _TIMED * judged:
            return {
                "unit": "time",
                "bins": bars_along(timed, "time"),
                "left_out": judged - len(timed),
            }
        numbered = list(zip(self._numbers, self._failures, strict=True))
        return {"unit": "group", "bins": bars_along(numbered, "group"), "left_out": 0}


def charts(figures: ReportFigures) -> tuple[str, ...]:
    """Name the charts that these figures deserve, the most important first.

    A chart needs ENOUGH groups, and something that differs; that of `failures` a failed group.
    """
    scored = figures["groups"]["scored"]
    labels = {tuple(cell["label"]) for cell in figures["against_label"]["cells"]}
    lengths = {tuple(cell["bytes"]) for cell in figures["lengths"]["cells"]}
    counted = {
        "scores": scored,
        "spread": sum(bar["n"] for bar in figures["spread"]["bins"]),
        "labels": figures["against_label"]["groups"] if len(labels) > 1 else 0,
        "slots": figures["slots"]["groups"] if len(figures["slots"]["bins"]) > 1 else 0,
        "reliability": figures["reliability"]["groups"],
        "lengths": scored if len(lengths) > 1 else 0,
        "failures": figures["groups"]["all"] if figures["groups"]["failed"] else 0,
    }
    return tuple(name for name, groups in counted.items() if groups >= ENOUGH)


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
    lengths = {len(row) for row in (*distinct, *distinct.values())}
    if len(lengths) != 1 or len(distinct) > _MOST:
        return []
    rows = [
        sorted(
            (positions[index], scores[index]) for positions, scores in distinct.items()
        )
        for index in range(*lengths)
    ]
    last = len(distinct) - 1
    if any(
        abs(at * last - i) > _ROUNDED * last
        for row in rows
        for i, (at, _) in enumerate(row)
    ):
        return []
    return [tuple(score for _, score in row) for row in rows]


def _in_input_order(group: ScoredGroup) -> bool:
    """Tell if the judge saw the distinct rollouts in input order, as with --order input."""
    positions = list(
        dict.fromkeys(r.positions for r in group.rollouts if r.status == "scored")
    )
    return positions == sorted(positions)


def _is_corrected(rollout: ScoredRollout) -> bool:
    """Tell if a score or its spread is not that of the passes, as with --debias or --standardize."""
    passes = Moments()
    passes.add(rollout.pass_scores)
    if rollout.judge_score is None or not passes.number:
        return False
    spread = passes.deviation if rollout.spread is None else rollout.spread
    return (
        max(abs(rollout.judge_score - passes.mean), abs(spread - passes.deviation))
        > _CORRECTED
    )


def curve_positions(group: ScoredGroup) -> list[list[float] | None]:
    """Return the bins of the position bias in which each rollout counts, by pass; None if it does not.

    A bin is given by its middle, from 0 to 1.
    """
    size = len(next(iter(scores_by_position(group)), ()))
    if size < 2:
        return [None] * len(group.rollouts)
    return [
        [
            relative_position(round(position * (size - 1)), size)
            for position in r.positions
        ]
        if r.status == "scored"
        else None
        for r in group.rollouts
    ]
