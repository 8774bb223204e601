"""OUTPUT is read by the libraries that people read it with, at their defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import group
from tests.runs import Stage, Stub, failing, group_of

GROUPS = 1500
LAST = f"g{GROUPS - 1}"

Rows = list[dict[str, Any]]


def _polars(path: Path) -> Rows:
    rows: Rows = pytest.importorskip("polars").read_ndjson(path).to_dicts()
    return rows


def _duckdb(path: Path) -> Rows:
    with pytest.importorskip("duckdb").connect() as database:
        # as JSON: Python's times of a zone would need one more package
        rows = database.sql(
            f"SELECT to_json(one) FROM (SELECT * FROM '{path}') one"
        ).fetchall()
        return [json.loads(row) for (row,) in rows]


def _pandas(path: Path) -> Rows:
    rows: Rows = (
        pytest.importorskip("pandas")
        .read_json(path, lines=True)
        .to_dict("records")
    )
    return rows


def _pyarrow(path: Path) -> Rows:
    rows: Rows = pytest.importorskip("pyarrow.json").read_json(path).to_pylist()
    return rows


def _datasets(path: Path) -> Rows:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(
        "json",
        data_files=str(path),
        split="train",
        cache_dir=str(path.parent / "cache"),
    )
    rows: Rows = loaded.to_list()
    return rows


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """OUTPUT of GROUPS groups of which the last one fails, by a judge without a price: by shape of record."""
    groups = [group(f"g{i}", i % 100 / 100, 0.5) for i in range(GROUPS)]
    flat = [
        {**each, "group_id": one["group_id"]}
        for one in groups
        for each in one["trajectories"]
    ]
    made = {}
    for name, records in {"groups": groups, "trajectories": flat}.items():
        folder = tmp_path_factory.mktemp(name)
        judge = Stub(say=failing(lambda request: group_of(request) == LAST))
        with pytest.MonkeyPatch.context() as patch:
            stage = Stage(folder, patch, records, judge)
            done = stage.run(ledger=None)
        assert (done.summary.scored, done.summary.failed) == (
            GROUPS - 1,
            {"transport": 1},
        )
        made[name] = folder / "out.jsonl"
    return made


def told(rows: Rows) -> list[Any]:
    """The values that a reader is to find of each rollout, with the group's part."""
    pairs = [
        (each["ruler"], row["ruler"])
        for row in rows
        for each in row.get("trajectories", [row])
    ]
    return [
        (
            own["score"]
            and round(own["score"], 9),  # pandas reads a number to 15 digits
            *(
                own["reason"],
                own["schema"],
                part["status"],
                part["tied"],
                part["cost_usd"],
            ),
        )
        for own, part in ((own, own.get("group", part)) for own, part in pairs)
    ]


@pytest.mark.parametrize("shape", ["groups", "trajectories"])
@pytest.mark.parametrize(
    "reader", [_polars, _duckdb, _pandas, _pyarrow, _datasets]
)
def test_readers(
    outputs: dict[str, Path],
    shape: str,
    reader: Callable[[Path], Rows],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every library finds all records, scores and failures, though the only failure stands at the end."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = [
        json.loads(line) for line in outputs[shape].read_bytes().splitlines()
    ]
    assert [one[0] for one in told(rows)[-2:]] == [None, None]
    read = reader(outputs[shape])
    assert len(read) == len(rows)
    assert told(read) == told(rows)
