"""The schema that other people's scripts rely on."""

from __future__ import annotations

import json
from typing import Any

from ruler_cli.report.as_json import group_json, overview_json, telling_json
from ruler_cli.report.overview import Gathering
from ruler_cli.report.texts import GroupText
from ruler_cli.report.values import Overview, Telling
from tests.report.values import NOON, drawn, group

_STRETCH = {"from", "to", "n"}
_NAMES: dict[str, Any] = {
    "groups": {"all", "scored", "failed", "unmarked", "tied", "live", "one_score"},
    "rollouts": {"all", "scored", "failed", "labelled", "suspect"},
    "failed_by_kind": {"reply", "transport"},
    "reasons": [{"kind", "reason", "groups", "first"}],
    "flags": {"suspect", "cached"},
    "judges": {"a", "b"},
    "passes": {"1", "2"},
    "cost_usd": None,
    "cost_groups": None,
    "usage": {"calls", "prompt_tokens", "completion_tokens", "cached_tokens"},
    "latency_s": {"p50", "p90", "p99", "max"},
    "started_at": None,
    "ended_at": None,
    "scores": {"bins": [_STRETCH], "mean": None, "sd": None},
    "spread": {"bins": [_STRETCH], "median": None},
    "against_label": {"cells": [{"score", "label", "n"}], "pairs": 0, "against": 0, "agreement": 0},
    "slots": {"bins": [{"from", "to", "mean", "error", "n"}], "groups": 0},
    "lengths": {"cells": [{"score", "bytes", "n"}], "slope": 0, "error": 0, "correlation": 0, "groups": 0},
    "reliability": {"bins": [_STRETCH], "median": 0, "groups": 0},
    "over_time": {"unit": 0, "bins": [{"from", "to", "groups", "failed"}], "left_out": 0},
}
"""Every name of the schema; a value that is no set, object or list is not looked into."""


def same_names(value: Any, names: Any) -> bool:
    """Whether a value has these names, all the way down."""
    if isinstance(names, set):
        return isinstance(value, dict) and value.keys() == names
    if isinstance(names, list):
        return isinstance(value, list) and bool(value) and all(same_names(v, names[0]) for v in value)
    if isinstance(names, dict):
        same = isinstance(value, dict) and value.keys() == names.keys()
        return same and all(same_names(value[name], names[name]) for name in names)
    return True


def figures(groups: int) -> Overview:
    """Of random groups."""
    gathering = Gathering()
    for one in drawn(groups):
        gathering.add(one)
    return gathering.overview()


def test_names() -> None:
    """Every name of the schema is there, and no other."""
    assert same_names(overview_json(figures(500)), _NAMES)


def test_names_without_anything() -> None:
    """A name is there also where there is nothing to tell, as null, 0 or empty."""
    found = overview_json(figures(0))
    assert found.keys() == _NAMES.keys()
    assert found["latency_s"] == dict.fromkeys(("p50", "p90", "p99", "max"))
    assert found["cost_usd"] is None
    assert found["scores"] == {"bins": [], "mean": None, "sd": None}


def test_strict_json() -> None:
    """It is JSON that every reader takes: no NaN, no number as a key."""
    found = overview_json(figures(300))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_times() -> None:
    """Times are ISO 8601 in UTC; one that no calendar has is null."""
    assert overview_json(Overview(started=0.0, ended=1e50))["started_at"] == "1970-01-01T00:00:00Z"
    assert overview_json(Overview(ended=1e50))["ended_at"] is None
    assert group_json(group([0.5], judged_at=NOON), None)["judged_at"] == "2025-11-24T16:00:00Z"


def test_other_passes() -> None:
    """Numbers of passes that were too many to tell apart are `other`."""
    assert overview_json(Overview(passes={0: 3, 2: 1}))["passes"] == {"other": 3, "2": 1}


def test_a_group() -> None:
    """A group has its own fields, those of each rollout, and its text only where it is wanted."""
    one = group([0.5, None], [1.0, 0.0], each=[{"judges": {"a": 0.5}}, {"reason": "no"}])
    plain = group_json(one, None)
    assert "context" not in plain
    assert (plain["scores"], plain["labels"]) == ([0.5, None], [1.0, 0.0])
    assert [r["status"] for r in plain["rollouts"]] == ["scored", "failed"]
    same = (("a", "b"), ("a", "b"))
    text = group_json(one, GroupText(("user: hi",), "none", "", same, (0, 0)))
    assert (text["context"], text["tools"]) == (["user: hi"], "none")
    assert [(r["lines"], r["same_as"]) for r in text["rollouts"]] == [(["a", "b"], 0)] * 2
    assert json.loads(json.dumps(text, allow_nan=False)) == text


def test_a_telling() -> None:
    """A group worth a look comes with why, and how much so."""
    found = telling_json(Telling(group([0.5, 0.7], key="k"), "spread", 0.1))
    assert (found["because"], found["much"], found["group"]["key"]) == ("spread", 0.1, "k")
    assert "rollouts" not in found["group"]
