"""Suggestions for mistyped words, files and paths."""

from __future__ import annotations

from pathlib import Path

from ruler_cli.settings import suggestions


def test_word() -> None:
    """The word nearest in spelling is suggested, or none."""
    known = ["max-cost", "passes", "min_passes"]
    suggested = {
        "max_cost": "max-cost",
        "pases": "passes",
        "passse": "passes",
        "paths": None,
        "zebra": None,
        "": None,
    }
    assert {
        word: suggestions.nearest(word, known) for word in suggested
    } == suggested
    assert suggestions.question("a") == "; did you mean a?"
    assert not suggestions.question(None)


def test_file(tmp_path: Path) -> None:
    """A missing file gets a suggestion by its name, and text that is no path gets none."""
    for name in (
        "rollouts.jsonl",
        "rollouts.jsonl.partial",
        "rollouts.txt",
        "runs/one.jsonl",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    suggested = {
        "rolouts.jsonl": "rollouts.jsonl",
        "rollouts.text": "rollouts.txt",
        "runs/on.jsonl": "runs/one.jsonl",
        "run/zebra.jsonl": None,
        "zebra/one.jsonl": None,
    }
    for name, suggestion in suggested.items():
        assert suggestions.suggest_file(f"{tmp_path}/{name}") == (
            suggestion and f"{tmp_path}/{suggestion}"
        ), name
    assert suggestions.suggest_file("x" * 5000 + "/y" * 5000) is None
    assert suggestions.suggest_file("\0/\0") is None
    (tmp_path / "file").touch()
    assert suggestions.suggest_file(f"{tmp_path}/file/in.jsonl") is None


def test_path() -> None:
    """A path is searched for in objects, and in the objects that they hold."""
    records = ({"task_id": 1, "meta": {"passed": True}}, {"reward": 1})
    paths = {
        "task-id": "task_id",
        "meta.pased": "meta.passed",
        "rewrad": "reward",
    }
    assert {
        dotted: suggestions.suggest_path(dotted, records) for dotted in paths
    } == paths
    assert suggestions.suggest_path("zebra", records) is None


def test_path_of_a_hostile_record() -> None:
    """The search in a record of any depth and breadth takes a bounded time."""
    deep: dict[str, object] = {}
    for _ in range(900):
        deep = {"a": deep}
    broad: dict[str, object] = {str(i): {"x": i} for i in range(100_000)}
    assert suggestions.suggest_path("zebra", (deep, broad)) is None
