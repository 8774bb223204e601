"""The page of two scored files: its data, its limits, its memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.results.report.written import (
    comparison,
    group,
    rollout,
    written,
)


def pair(
    folder: Path, *scores: tuple[str, tuple[float, float], tuple[float, float]]
) -> tuple[Path, Path]:
    """Two files of groups of two rollouts, with these scores in the first and in the second."""
    names = ("a.jsonl", "b.jsonl")
    files = []
    for side, name in enumerate(names):
        lines = [
            group(
                key,
                *(
                    rollout(
                        f"{key} {i}", row[side][i], explanation=f"{name} on {i}"
                    )
                    for i in range(2)
                ),
            )
            for key, *row in scores
        ]
        files.append(written(folder / name, *lines))
    return files[0], files[1]


def test_contents(tmp_path: Path) -> None:
    """Every group has both judges' scores in its row, both explanations, and its text once."""
    rows_of = (
        ("same", (0.2, 0.8), (0.2, 0.8)),
        ("turned", (0.2, 0.8), (0.9, 0.1)),
    )
    files = pair(tmp_path, *rows_of)
    page, result, unlike = comparison(*files, tmp_path / "c.html")
    assert (result[:3], unlike) == ((2, 2, 2), [])
    data, rows = page.data, page.data["rows"]
    assert data["source"] == "a.jsonl and b.jsonl"
    assert ["file", "a.jsonl", "b.jsonl", ""] in data["comparison"]["rows"]
    assert rows["key"] == ["same", "turned"]
    assert rows["scores"] == [[0.2, 0.8]] * 2
    assert rows["b_scores"] == [[0.2, 0.8], [0.9, 0.1]]
    assert (rows["pairs"], rows["against"]) == ([1, 1], [0.0, 1.0])
    assert (rows["distance"], rows["telling"]) == ([0.0, 0.7], [1, 0])
    first, second = (
        [f"{name}.jsonl on {i}" for i in range(2)] for name in "ab"
    )
    assert page.explanations[1] == [*first, *second]
    rollouts = page.group(1)["rollouts"]
    assert [told["explanation"] for told in rollouts] == first
    assert [told["second"]["explanation"] for told in rollouts] == second
    assert "a.jsonl on 0" not in page.text  # all text is packed
    assert {len(column) for column in rows.values()} == {2}


@pytest.mark.parametrize("turned", [False, True])
def test_memory(turned: bool, tmp_path: Path) -> None:
    """Ten times the groups take hardly more memory; out of order, no messages wait in memory."""

    def peak(count: int) -> int:
        lines = [
            group(f"g{i}", rollout("x" * 9_000, 0.1), rollout("y", 0.2))
            for i in range(count)
        ]
        first = written(tmp_path / f"a{count}.jsonl", *lines)
        second = written(
            tmp_path / f"b{count}.jsonl", *(lines[::-1] if turned else lines)
        )
        del lines
        tracemalloc.start()
        comparison(first, second, tmp_path / "c.html", most=50)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)  # imports
    assert peak(360) < peak(60) + (3 << 20 if turned else 1 << 20)
