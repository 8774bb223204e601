"""What somebody may have meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruler_cli import nearest


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("--max_cost", "--max-cost"),
        ("MAXCOST", "--max-cost"),
        ("--pases", "--passes"),
        ("--min", "--min-passes"),
        ("--m", None),
        ("--zebra", None),
        ("", None),
    ],
)
def test_nearest(word: str, found: str | None) -> None:
    """Case, `-` and `_` count for nothing; then comes what a word begins, then the nearest in spelling."""
    assert nearest.nearest(word, ["--max-cost", "--passes", "--min-passes"]) == found


def test_question() -> None:
    """Nothing is asked where nothing is near."""
    assert nearest.question("a") == "; did you mean a?"
    assert not nearest.question(None)


def test_file(tmp_path: Path) -> None:
    """Names are compared without their endings, which would make all files near to each other."""
    for name in ("rollouts.jsonl", "rollouts.jsonl.partial", "rollouts.txt", "b.jsonl", "runs/one.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = {
        "rolouts.jsonl": "rollouts.jsonl",
        "rollouts.json": "rollouts.jsonl",
        "rollouts.text": "rollouts.txt",
        "a.jsonl": None,
        "run/one.jsonl": "runs/one.jsonl",
        "run/zebra.jsonl": None,
        "run/on.jsonl": "runs/one.jsonl",
        "zebra/one.jsonl": None,
    }
    for name, meant in found.items():
        assert nearest.file(f"{tmp_path}/{name}") == (meant and f"{tmp_path}/{meant}"), name


def test_file_of_no_path() -> None:
    """What can be no path has no file near it, and is no error."""
    assert nearest.file("x" * 5000 + "/y" * 5000) is None
    assert nearest.file("\0/\0") is None


@pytest.mark.parametrize(
    ("dotted", "found"),
    [
        ("task-id", "task_id"),
        ("taskId", "task_id"),
        ("meta.pased", "meta.passed"),
        ("passed", "meta.passed"),
        ("rewrad", "reward"),
        ("zebra", None),
    ],
)
def test_path(dotted: str, found: str | None) -> None:
    """A path is looked for in records and in the rollouts of a group, then by its last part alone."""
    members: list[dict[str, object]] = [{"reward": 1}]
    records = ({"task_id": 1, "meta": {"passed": True}}, {"trajectories": members})
    assert nearest.path(dotted, records) == found


def test_path_of_a_hostile_record() -> None:
    """A record of any depth and breadth is looked at for a bounded time."""
    deep: dict[str, object] = {}
    for _ in range(900):
        deep = {"a": deep}
    broad: dict[str, object] = {str(i): {"x": i} for i in range(100_000)}
    assert nearest.path("zebra", (deep, broad)) is None
