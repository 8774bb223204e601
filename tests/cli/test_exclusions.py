"""The combinations of options that exclude one another, over all commands: found by trying every pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.cli import score
from ruler_cli.cli.options import RECORD_OPTIONS, SCORE_OPTIONS, SCORE_SETTINGS
from ruler_cli.errors import RulerError
from ruler_cli.settings.fields import choices_of, is_flag
from ruler_cli.settings.load import read_options, score_settings
from tests import people
from tests.conftest import Ruler, group, write

EXCLUDED = {
    "ask each": "passes group_size order single adaptive min_passes debias",
    "read text": "ask api",
    "ledger none": "cached_only engine",
    "shard": "engine debias standardize",
    "order input": "debias",
    "adaptive": "min_passes",
    "page": "as_json group",
}
"""An option, with a value if it is that of some values alone, and those that have no meaning beside it."""
MOST = 8
NAMES = (*SCORE_OPTIONS, *SCORE_SETTINGS)
VALUES: dict[str, list[Any]] = {
    "model": [["x/c", "x/d"]],
    "api_key_env": ["VAR"],
    "rubric": ["be fair"],
    "api_base": ["http://h/v1"],
    "params": [["a=1"]],
    "price": [["1,2"]],
    "ledger": [["none"]],
    "max_failures": ["3"],
    "shard": ["1/2"],
    "passes": ["3"],
    "min_passes": ["2", "3"],
    "blend": ["0.5"],
    "escalate_gap": ["0.2"],
}
"""Values of `score` that are not a word; any other option takes `9`."""
NEEDS: dict[str, dict[str, Any]] = {
    "question": {"read": "probability"},
    "adaptive": {"passes": "3"},
    "min_passes": {"passes": "3"},
    "standardize": {"model": ["x/c", "x/d"]},
    "ray_address": {"engine": "ray"},
}
"""Options that mean something beside others alone."""


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each option of `score` with each of its words, or a value, and with what it needs."""
    for name in NAMES:
        values = VALUES.get(name) or choices_of(name) or ["9"]
        for value in ["true"] if is_flag(name) else values:
            yield name, {name: value} | NEEDS.get(name, {})


def refused(values: dict[str, Any]) -> bool:
    """Return whether `score` refuses settings."""
    named = {"model": ["x/a"], "api_base": "http://h/v1"} | values
    try:
        options = read_options(NAMES, named, "none")
        settings = score_settings(options, "in.jsonl", "out.jsonl")
        score._refuse_engine(settings, options)
    except RulerError:
        return True
    return False


def listed(both: dict[str, Any]) -> set[str]:
    """Return the rows of EXCLUDED that settings are of."""
    rows = set()
    for row, others in EXCLUDED.items():
        name, _, value = row.partition(" ")
        given = both.get(name, ())
        values = [given] if isinstance(given, str) else given
        matches = name in both and (not value or value in values)
        if matches and not {*others.split()}.isdisjoint(both):
            rows.add(row)
    return rows


def test_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two settings of a run that are accepted alone are accepted together, but for those that are listed."""
    assert len(EXCLUDED) <= MOST
    monkeypatch.setattr(score, "find_spec", lambda _: True)
    monkeypatch.setattr(score, "_ask_ray", lambda _: None)
    alone = [*cases()]
    assert [values for _, values in alone if refused(values)] == []
    rows = set()
    for (name, first), (other, second) in itertools.combinations(alone, 2):
        both = first | second
        clash = any(both[key] != value for key, value in first.items())
        if name == other or clash or not refused(both):
            continue
        if both.get("read") == "probability":  # of each rollout alone
            both["ask"] = "each"
        assert listed(both), (first, second)
        rows |= listed(both)
    assert rows == {*EXCLUDED} - {"page"}


WORDS = {
    "page": ("-o", "page.html"),
    "as_json": ("--json",),
    "max_groups": ("--max-groups", "5"),
    "labels": ("--labels", "metrics.independent_reward"),
    "people": ("--people", "labels.jsonl"),
    "at_least": ("--at-least", "0"),
    "group": ("--group", "a"),
    "ledger": ("--ledger", "none"),
    "force": ("--force",),
    "pairs": ("--pairs", "3"),
    "seed": ("--seed", "3"),
    "where": ("--where", "live"),
    "keep": ("--keep", "2"),
    "by": ("--by", "variance"),
    "as_": ("--as", "pairs"),
    "gap": ("--gap", "0.1"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "report a.jsonl": (),
    "compare a.jsonl b.jsonl": (),
    "trend a.jsonl b.jsonl c.jsonl": (),
    "label a.jsonl": ("page",),
    "agree a.jsonl": (),
    "select a.jsonl out.jsonl": ("where",),
}
"""Commands on scored files, with the options that they need."""
WITH = {
    "max_groups": ("page",),
    "gap": ("as_",),
    "keep": ("by",),
    "by": ("keep",),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_scored_files(line: str, ruler: Ruler, tmp_path: Path) -> None:
    """Two options of a command on scored files are accepted together, but for those that are listed."""
    from ruler_cli.cli.config import read_words

    write(
        tmp_path / "in.jsonl", [group(key, 0.2, 0.9, 0.4) for key in "abcdefgh"]
    )
    for name in "abc":
        ruler(*f"score in.jsonl {name}.jsonl -m offline".split())
    labels = people.comparisons(tmp_path / "a.jsonl", 20, {"ana": 0.0})
    write(tmp_path / "labels.jsonl", labels)
    names, _ = read_words(line.split()[:1]).command.callback.takes
    names = [name for name in names if name not in RECORD_OPTIONS]
    for pair in itertools.combinations(names, 2):
        chosen = {*pair, *COMMANDS[line]}
        for name in pair:
            chosen.update(WITH.get(name, ()))
        words = [word for name in sorted(chosen) for word in WORDS[name]]
        done = ruler(*line.split(), *words)
        excluded = not chosen.isdisjoint(EXCLUDED["page"].split())
        expected = "page" in chosen and excluded
        assert (done.returncode == 2) is expected, (words, done.stderr)
