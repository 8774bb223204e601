"""`ruler score` on Parquet: tables in, tables out, as pandas reads them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT, SHARED, Ruler, read
from tests.judge_server import JudgeServer

SCORE = ("-m", "simulated", "--ledger", "none")
TRL = SHARED / "formats" / "trl_completions_00040.parquet"


def prompt(text: str) -> list[dict[str, Any]]:
    """A prompt as a list of structs."""
    return [{"role": "user", "content": f"Find {text}."}]


def trl(keys: str) -> pa.Table:
    """A row of TRL for each letter, equal letters a group; a dot is a row without a completion."""
    rows = [
        {
            "step": 40,
            "prompt": f"Find {key}.",
            "completion": None if key == "." else f"truth=0.{number % 10}",
            "length_reward": float("nan") if number % 2 else 0.5,
            "advantage": -0.25,
        }
        for number, key in enumerate(keys)
    ]
    schema = pa.schema(
        [
            pa.field("step", pa.int32(), nullable=False),
            ("prompt", pa.large_string()),
            ("completion", pa.string()),
            ("length_reward", pa.float32()),
            ("advantage", pa.float64()),
        ],
        metadata={"run": "r1"},
    )
    return pa.Table.from_pylist(rows, schema)


def verl(*answers: Sequence[str | None]) -> pa.Table:
    """Rows of verl's generation: a prompt of structs and the list of its answers."""
    rows = [
        {"prompt": prompt(str(i)), "responses": list(texts), "index": i}
        for i, texts in enumerate(answers)
    ]
    return pa.Table.from_pylist(rows)


def art(version: int) -> pa.Table:
    """Two groups of two ART trajectories, as each version of ART writes a table."""
    rows = []
    for number in range(4):
        messages = [
            *prompt(str(number // 2)),
            {"role": "assistant", "content": f"truth=0.{number}"},
        ]
        row = {
            "group_index": number // 2,
            "group_metadata": "{}",
            "group_metrics": "{}",
            "group_logs": ["g"],
        }
        row |= {
            "reward": float(number),
            "metrics": '{"correct": true}',
            "metadata": "{}",
            "logs": ["log"],
        }
        row["messages"] = [
            {**message, "tool_calls": None, "trainable": False}
            for message in messages
        ]
        if version == 2:
            whole = {
                "messages_and_choices": messages,
                "reward": float(number),
                "metrics": {"correct": True},
            }
            row = {
                "format_version": 2,
                "trajectory_index": number % 2,
                "group_json": "{}",
                **row,
            }
            row["trajectory_json"] = json.dumps(whole, separators=(",", ":"))
        rows.append(row)
    return pa.Table.from_pylist(rows).replace_schema_metadata(
        {"art.trajectory_parquet.version": str(version)}
    )


def check_unchanged(before: pa.Table, after: pa.Table, *changed: str) -> None:
    """Check that `after` begins with the columns of `before`, equal except for the changed ones."""
    file = io.BytesIO()
    pq.write_table(before, file)
    before = pq.read_table(
        file
    )  # Parquet has its own name for what a list holds
    assert after.schema.names[: len(before.schema)] == before.schema.names
    assert (
        dict(before.schema.metadata or {}).items()
        <= dict(after.schema.metadata or {}).items()
    )
    for field in before.schema:
        if field.name not in changed:
            old, new = (
                before.column(field.name).to_pylist(),
                after.column(field.name).to_pylist(),
            )
            assert repr(old) == repr(new)  # NaN is NaN


def annotations_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The `ruler` of each row."""
    return list(frame["ruler"])


@pytest.mark.parametrize(
    ("name", "keys"),
    [("in.parquet", "aaabbb"), ("in.jsonl", "abbaab"), ("-", "abbaab")],
)
def test_trl(ruler: Ruler, tmp_path: Path, keys: str, name: str) -> None:
    """TRL's table, under any name, scattered or not, is written with its columns, a reward and `ruler`."""
    path = tmp_path / ("in.parquet" if name == "-" else name)
    pq.write_table(trl(keys), path, row_group_size=2)
    done = (
        piped(tmp_path, path)
        if name == "-"
        else ruler("score", name, "out.parquet", *SCORE)
    )
    assert done.returncode == 0, done.stderr
    check_unchanged(trl(keys), pq.read_table(tmp_path / "out.parquet"))
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["reward"].between(0, 1).all()
    assert [
        annotation["score"] for annotation in annotations_of(frame)
    ] == list(frame["reward"])
    assert {annotation["status"] for annotation in annotations_of(frame)} == {
        "scored"
    }


def piped(folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with a table on stdin."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.simulated",
        "score",
        "-",
        "out.parquet",
        *SCORE,
    ]
    with path.open("rb") as file:
        cat = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        done = subprocess.run(
            command, stdin=cat.stdout, capture_output=True, text=True, cwd=folder, timeout=120, check=False,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert cat.stdout is not None
        cat.stdout.close()
        assert cat.wait(20) == 0
    return done


@pytest.mark.parametrize("version", [1, 2])
def test_art_twice(ruler: Ruler, tmp_path: Path, version: int) -> None:
    """ART's rows keep the first reward, even if they are scored again in place."""
    pq.write_table(art(version), tmp_path / "a.parquet")
    for source in ("a.parquet", "b.parquet"):
        done = ruler("score", source, "b.parquet", *SCORE)
        assert done.returncode == 0, done.stderr
        after = pq.read_table(tmp_path / "b.parquet")
        check_unchanged(
            art(version), after, "reward", "metrics", "logs", "trajectory_json"
        )
        frame = after.to_pandas()
        assert [
            annotation["independent_reward"]
            for annotation in annotations_of(frame)
        ] == [
            0.0,
            1.0,
            2.0,
            3.0,
        ]
        assert frame["reward"].between(0, 1).all()
        assert [
            json.loads(text)["independent_reward"] for text in frame["metrics"]
        ] == [0, 1, 2, 3]
        if version == 2:
            inside = [
                json.loads(text)["reward"] for text in frame["trajectory_json"]
            ]
            assert inside == list(frame["reward"])


def native(groups: int) -> pa.Table:
    """Groups of two native trajectories, of which the last group cannot be judged."""
    rows = []
    for number in range(groups):
        talks = [
            [*prompt("a"), {"role": "assistant", "content": f"truth=0.{i}"}]
            for i in (2, 8)
        ]
        talks = [talk[: 2 * (number < groups - 1)] for talk in talks]
        trajectories = [{"messages": talk, "reward": 1.0} for talk in talks]
        rows.append({"group_id": f"g{number}", "trajectories": trajectories})
    return pa.Table.from_pylist(rows)


def test_structs(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler` and new `metrics` are structs, for pyarrow and pandas, and stay so when scored again."""
    pq.write_table(native(300), tmp_path / "in.parquet")
    for source in ("in.parquet", "out.parquet"):
        assert ruler("score", source, "out.parquet", *SCORE).returncode == 1
        schema = pq.read_schema(tmp_path / "out.parquet")
        kind, part = (
            schema.field("trajectories").type.value_type,
            schema.field("ruler").type,
        )
        assert {field.type for field in kind.field("metrics").type} == {
            pa.float64()
        }
        kinds = {
            "score": pa.float64(),
            "reason": pa.string(),
            "schema": pa.int64(),
            "suspect": pa.bool_(),
        }
        assert {
            name: kind.field("ruler").type.field(name).type for name in kinds
        } == kinds
        assert (part.field("rubric").type, part.field("tied").type) == (
            pa.string(),
            pa.bool_(),
        )
        assert part.field("usage").type.field("calls").type == pa.int64()
        frame = pd.read_parquet(tmp_path / "out.parquet")
        assert [record["status"] for record in frame["ruler"]] == [
            "scored"
        ] * 299 + ["failed"]
        rollouts = [
            trajectory for row in frame["trajectories"] for trajectory in row
        ]
        assert [record["ruler"]["score"] for record in rollouts] == [
            record["reward"] for record in rollouts
        ]
        assert [record["ruler"]["score"] is None for record in rollouts] == [
            False
        ] * 598 + [True] * 2
        assert {
            record["metrics"]["independent_reward"] for record in rollouts
        } == {1.0}


def test_unreadable(ruler: Ruler, tmp_path: Path) -> None:
    """An unreadable row is named and stands as JSON in the failed file, and OUTPUT lacks it."""
    pq.write_table(trl("a.ab.b"), tmp_path / "in.parquet", row_group_size=2)
    done = ruler("score", "in.parquet", "out.parquet", *SCORE)
    assert done.returncode == 1
    assert (
        "in.parquet: row 2 has no answer: `completion` is null" in done.stderr
    )
    failed = read(tmp_path / "out.parquet.failed.jsonl")
    assert [row["prompt"] for row in failed] == ["Find .."] * 2
    assert list(pd.read_parquet(tmp_path / "out.parquet")["prompt"]) == [
        f"Find {k}." for k in "aabb"
    ]


def test_stopped(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A run that stops leaves a readable table in OUTPUT.partial."""
    pq.write_table(
        verl(*(["truth=0.1", "truth=0.9"] for _ in range(30))),
        tmp_path / "in.parquet",
    )
    more = ("--api-base", server.base, "-c", "1", "--max-failures", "3")
    done = ruler(
        "score", "in.parquet", "out.parquet", "-m", "openai/400", *more
    )
    assert done.returncode == 1
    assert "out.parquet.partial" in done.stderr
    assert 3 < len(pq.read_table(tmp_path / "out.parquet.partial")) < 30
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    "args", [("check", "in.parquet"), ("score", ".", "-", *SCORE)], ids=" ".join
)
def test_without_pyarrow(
    process: Ruler, tmp_path: Path, args: Sequence[str]
) -> None:
    """If pyarrow is not installed, a sentence names the command to install it."""
    pq.write_table(trl("aabb"), tmp_path / "in.parquet")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['pyarrow'] = None\n"
    )
    paths = f"{tmp_path / '.hidden'}:{ROOT}"
    done = process(*args, PYTHONPATH=paths)
    assert done.returncode == 2
    assert "pip install pyarrow" in done.stderr


def test_binary_below_a_score(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """A table with binary data is refused as OUTPUT before a call; OUTPUT .jsonl takes it."""
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "truth=0.4"},
    ]
    first = {"messages": turns, "reward": 0.5, "image": b"\x89PNG"}
    second = first | {
        "messages": [turns[0], turns[1] | {"content": "truth=0.9"}]
    }
    table = pa.table({"group_id": ["a"], "trajectories": [[first, second]]})
    pq.write_table(table, tmp_path / "in.parquet")
    more = ("-m", "openai/o3", "--api-base", server.base)
    done = ruler("score", "in.parquet", "out.parquet", *more)
    assert done.returncode == 2
    assert "the column `trajectories` of INPUT is list<" in done.stderr
    assert ruler("score", "in.parquet", "out.jsonl", *SCORE).returncode == 0
