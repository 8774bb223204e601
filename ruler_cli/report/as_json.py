"""Figures and groups → JSON: the schema of `ruler report --json`, and of the data in its pages.

Names are stable; new ones may be added. null: it is not known. Money is in USD, times are in seconds or
ISO 8601 in UTC, sizes in bytes. A stretch holds its `from` and not its `to`, but for the last one;
values outside all stretches count in the first or the last.

Figures (`overview_json`):

- `groups` {all, scored, failed, unmarked, tied, live, one_score}: scored ones are either tied or live, and
  tied ones have `one_score` where rollouts differ and the judge gave all the same
- `rollouts` {all, scored, failed, labelled, suspect}
- `failed_by_kind` {kind: groups}; `reasons` [{kind, reason, groups, first}], the commonest, alike but for
  numbers, in the words of the first group, whose key `first` is
- `flags` {flag: groups}, `judges` {name: groups}, `passes` {number: groups}; beyond 24 different ones
  `other`
- `cost_usd` over the `cost_groups` that tell it; `usage` {calls, prompt_tokens, completion_tokens,
  cached_tokens}; `latency_s` {p50, p90, p99, max} of a group, within 0.5 %
- `started_at`, `ended_at`
- `scores` {bins [{from, to, n}], mean, sd}: rollouts by score
- `spread` {bins, median}: groups by the standard deviation of their scores
- `against_label` {cells [{score [from, to], label [from, to], n}], pairs, against, agreement}: rollouts by
  score and label, a single label as [y, y]; pairs of unlike labels in a group, and how many of them the
  judge orders against the labels (a tie is half of one)
- `slots` {bins [{from, to, mean, error, n}], groups}: how far the scores of a pass are above its mean by
  the place at which the judge saw the rollout, 0 first, 1 last; groups judged in windows are left out
- `lengths` {cells [{score, bytes [from, to], n}], slope, error, correlation, groups}: rollouts by score and
  bytes; `slope` is what twice the bytes bring within a group, `error` its standard error
- `reliability` {bins, median, groups}
- `over_time` {unit, bins [{from, to, groups, failed {kind: groups}}], left_out}: `unit` is `time`, in
  seconds since 1970, or `group`, the number in the file; `left_out` groups tell no time, or one more
  than a year off
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.records import Usage
from ruler_cli.report.texts import GroupText
from ruler_cli.report.values import Bar, Cell, Overview, Telling

_Json = dict[str, Any]


def overview_json(o: Overview) -> _Json:
    """The figures of a run, as the head of this module tells them."""
    return {
        "groups": {
            "all": o.groups,
            "scored": o.scored,
            "failed": o.failed,
            "unmarked": o.unmarked,
            "tied": o.tied,
            "live": o.live,
            "one_score": o.one_score,
        },
        "rollouts": {
            "all": o.rollouts,
            "scored": o.rollouts_scored,
            "failed": o.rollouts_failed,
            "labelled": o.labelled,
            "suspect": o.suspects,
        },
        "failed_by_kind": dict(o.kinds),
        "reasons": [
            {"kind": r.kind, "reason": r.reason, "groups": r.groups, "first": r.first} for r in o.reasons
        ],
        "flags": dict(o.flags),
        "judges": dict(o.judges),
        "passes": {str(passes) if passes else "other": n for passes, n in o.passes.items()},
        "cost_usd": o.cost,
        "cost_groups": o.costed,
        "usage": _usage(o.usage),
        "latency_s": {name: o.latency.get(name) for name in ("p50", "p90", "p99", "max")},
        "started_at": _iso(o.started),
        "ended_at": _iso(o.ended),
        **_charts(o),
    }


def _charts(o: Overview) -> _Json:
    trend = o.length
    return {
        "scores": {"bins": _bars(o.scores), "mean": o.score_mean, "sd": o.score_sd},
        "spread": {"bins": _bars(o.spreads), "median": o.spread_median},
        "against_label": {
            "cells": _cells(o.against_label, "label"),
            "pairs": o.pairs,
            "against": o.against,
            "agreement": o.agreement,
        },
        "slots": {
            "bins": [
                {"from": s.ends[0], "to": s.ends[1], "mean": s.mean, "error": s.error, "n": s.n}
                for s in o.slots
            ],
            "groups": o.slot_groups,
        },
        "lengths": {
            "cells": _cells(o.lengths, "bytes"),
            "slope": trend.slope if trend else None,
            "error": trend.error if trend else None,
            "correlation": trend.correlation if trend else None,
            "groups": trend.groups if trend else 0,
        },
        "reliability": {
            "bins": _bars(o.reliability),
            "median": o.reliability_median,
            "groups": o.reliable_groups,
        },
        "over_time": {
            "unit": o.time_unit,
            "bins": [
                {"from": t.ends[0], "to": t.ends[1], "groups": t.groups, "failed": dict(t.failed)}
                for t in o.over_time
            ],
            "left_out": o.untimed if o.time_unit == "time" else 0,
        },
    }


def telling_json(t: Telling) -> _Json:
    """A group worth a look: `because` says why, `much` how much so by that, `group` what it is."""
    return {"because": t.because, "much": t.much, "group": _summary(t.group)}


def group_json(g: MarkedGroup, text: GroupText | None) -> _Json:
    """One group, its rollouts in input order; with `text` what the judge read of them, line by line.

    `same_as` is the place of the first rollout with the same lines.
    """
    rollouts = [_rollout(rollout) for rollout in g.rollouts]
    found = {**_summary(g), "rollouts": rollouts}
    if text is None:
        return found
    for rollout, lines, same_as in zip(rollouts, text.rollouts, text.identical, strict=True):
        rollout |= {"lines": list(lines), "same_as": same_as}
    return found | {"context": list(text.context), "tools": text.tools}


def _summary(g: MarkedGroup) -> _Json:
    return {
        "key": g.key,
        "status": g.status,
        "kind": g.kind,
        "reason": g.reason,
        "judge": g.judge,
        "passes": g.passes,
        "scores": [r.score for r in g.rollouts],
        "labels": [r.label for r in g.rollouts],
        "mean": g.mean,
        "sd": g.sd,
        "tied": g.tied,
        "live": g.live,
        "reliability": g.reliability,
        "weight": g.weight,
        "disagreement": g.disagreement,
        "pairs": g.disputes[1],
        "usage": _usage(g.usage),
        "cost_usd": g.cost,
        "latency_s": g.latency,
        "judged_at": _iso(g.judged_at),
        "flags": list(g.flags),
    }


def _rollout(r: MarkedRollout) -> _Json:
    return {
        "status": r.status,
        "score": r.score,
        "judged": r.judged,
        "label": r.label,
        "explanation": r.explanation,
        "spread": r.spread,
        "slots": list(r.slots),
        "pass_scores": list(r.pass_scores),
        "judges": dict(r.judges),
        "suspect": r.suspect,
        "bytes": r.size,
        "kind": r.kind,
        "reason": r.reason,
    }


def _usage(usage: Usage) -> _Json:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
    }


def _bars(bars: Iterable[Bar]) -> list[_Json]:
    return [{"from": bar.ends[0], "to": bar.ends[1], "n": bar.n} for bar in bars]


def _cells(cells: Iterable[Cell], other: str) -> list[_Json]:
    return [{"score": list(cell.score), other: list(cell.other), "n": cell.n} for cell in cells]


def _iso(at: float | None) -> str | None:
    try:
        return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):  # no year that a calendar has
        return None
