"""Rows of the user's own: in ruler.toml, from Python and from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from ruler_cli.formats.reader import Reader, detect
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Line, Record
from tests.conftest import Ruler

TASK: dict[str, Any] = {
    "task": {"id": 7, "text": "Add 2 and 2."},
    "notes": "Use integers.",
    "runs": [
        {"out": "4", "ok": True, "r": 1},
        {"out": "5", "ok": False, "r": 0},
    ],
    "gold": "4",
}
ROW = """
[formats.mine]
messages = "runs[].out"
prompt = ["task.text", "notes"]
reward = "runs[].r"
outcome = "runs[].ok"
group_by = "task.id"
reference = "gold"
"""


def line(record: Any, number: int = 1) -> Line:
    """Return a record as a line."""
    return Line(number, 0, json.dumps(record).encode())


def reader(*records: Any, **settings: Any) -> Reader:
    """Return the reader of records."""
    first = [(line(record), record) for record in records]
    return detect("x", first, InputSettings(**settings))


def read(record: Any, **settings: Any) -> Record:
    """Return a record as these settings read it."""
    return reader(record, **settings).read(line(record))[0]


def last_texts(record: Record) -> list[Any]:
    """Return the last text of each rollout."""
    return [rollout.messages[-1]["content"] for rollout in record.rollouts]


def test_reward_through_a_list(ruler: Ruler, tmp_path: Path) -> None:
    """A reward read through a list is kept, no other field of the record is written, and scoring again agrees."""
    record = {"q": "Q?", "a": ["4", "five"], "s": [0.1, 0.2], "rewards": [7, 9]}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    words = (
        "-m",
        "offline",
        "--messages",
        "a[]",
        "--prompt",
        "q",
        "--reward",
        "s[]",
    )
    assert ruler("score", "in.jsonl", "out.jsonl", *words).returncode == 0
    assert ruler("score", "out.jsonl", "again.jsonl", *words).returncode == 0
    for name in ("out.jsonl", "again.jsonl"):
        out = json.loads((tmp_path / name).read_text())
        assert {key: out[key] for key in record} == record
        noted = [
            rollout_of["independent_reward"]
            for rollout_of in out["ruler"]["rollouts"]
        ]
        assert noted == [0.1, 0.2]


def test_row(ruler: Ruler, tmp_path: Path) -> None:
    """A named row reads a record as a group, and writes each score into the rollout's own object."""
    (tmp_path / "ruler.toml").write_text(ROW)
    (tmp_path / "in.jsonl").write_text(json.dumps(TASK) + "\n")
    done = ruler(
        "score", "in.jsonl", "out.jsonl", "-m", "offline", "--format", "mine"
    )
    assert done.returncode == 0
    out = json.loads((tmp_path / "out.jsonl").read_text())
    assert [run["ruler"]["independent_reward"] for run in out["runs"]] == [1, 0]
    assert [run["r"] for run in out["runs"]] == [
        run["ruler"]["score"] for run in out["runs"]
    ]
    assert (out["ruler"]["key"], out["ruler"]["size"]) == ("7", 2)
    prompt = ruler("prompt", "in.jsonl", "--format", "mine").stdout
    assert "Add 2 and 2.\\n\\nUse integers." in prompt
    assert '"gold"' not in prompt


def test_named_by_keys(ruler: Ruler, tmp_path: Path) -> None:
    """A row with `has` is found without its name, also where one of ruler's own fits."""
    (tmp_path / "ruler.toml").write_text(
        '[formats.own]\nhas = "prompt said"\nmessages = "said"\nprompt = "prompt"\n'
    )
    record = {"prompt": "Hi", "completion": "a draft", "said": "Hello."}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    done = ruler("prompt", "in.jsonl")
    assert "Hello." in done.stdout
    assert "a draft" not in done.stdout


@pytest.mark.anyio
async def test_function(tmp_path: Path) -> None:
    """A program's own reader makes rollouts of a record, which keeps its other fields."""

    def rollout_of(record: Mapping[str, Any]) -> Any:
        return {
            "messages": [
                {"role": "user", "content": record["q"]},
                {"role": "assistant", "content": record["said"]},
            ]
        }

    record = {"q": "Hi", "said": "Hello.", "x": 1}
    assert last_texts(read(record, format=rollout_of)) == ["Hello."]
    record_read = read(
        {**record, "n": 2},
        format=lambda record: [rollout_of(record)] * record["n"],
    )
    assert last_texts(record_read) == ["Hello.", "Hello."]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [
        json.dumps(record | {"said": answer}) for answer in ("Hello.", "What?")
    ]
    source.write_text("\n".join(lines))
    settings = ruler_cli.load_settings(
        model="offline", format=rollout_of, ledger=None
    )
    await ruler_cli.score_file(source, output, settings)
    for out in map(json.loads, output.read_text().splitlines()):
        assert out["x"] == 1
        assert out["reward"] == out["ruler"]["score"]


def test_mistakes(ruler: Ruler, tmp_path: Path) -> None:
    """A row without messages, with a word that there is not, or with a path that leads nowhere is refused."""
    (tmp_path / "in.jsonl").write_text(json.dumps(TASK) + "\n")
    for text, message in (
        ('[formats.x]\nprompt = "q"\n', "has neither `messages` nor `answers`"),
        (
            '[formats.x]\nmesages = "q"\n',
            "no such option: mesages; did you mean messages?",
        ),
        ('[formats.auto]\nmessages = "runs"\n', "is a name of ruler's own"),
        (
            '[formats.x]\nmessages = "runs"\nreward = "a|b"\n',
            "is one path, because the score is written there",
        ),
        (
            '[formats.x]\nmessages = "runs[].uot"\n',
            "[formats.x] messages runs[].uot: none of the first records has it",
        ),
    ):
        (tmp_path / "ruler.toml").write_text(text)
        done = ruler("check", "in.jsonl", "-m", "offline", "--format", "x")
        assert done.returncode == 2
        assert message in done.stderr


def test_listed(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler formats` lists the user's rows before ruler's own."""
    (tmp_path / "ruler.toml").write_text(ROW)
    lines = ruler("formats").stdout.splitlines()
    assert lines[1].startswith("mine ")
    assert any(row.startswith("verl ") for row in lines)


def test_no_cut_of_entries(ruler: Ruler, tmp_path: Path) -> None:
    """A rollout that is no item of one list cannot be taken out of its record."""
    record = {"q": "Q?", "out": {"m1": "4 four", "m2": "five"}}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    words = "--messages", "out{}.value", "--prompt", "q"
    assert (
        ruler(
            "score", "in.jsonl", "s.jsonl", "-m", "offline", *words
        ).returncode
        == 0
    )
    done = ruler(
        "select", "s.jsonl", "k.jsonl", "--keep", 1, "--by", "score", *words
    )
    assert done.returncode == 2
    assert "holds its answers in lists" in done.stderr


def test_scored_records(ruler: Ruler, tmp_path: Path) -> None:
    """A scored file is read by the row of its document, whose records it holds."""
    (tmp_path / "ruler.toml").write_text(
        '[formats.mine]\nrecords = "data[]"\nmessages = "a"\nprompt = "q"\n'
    )
    data = [{"q": "2+2?", "a": "4"}, {"q": "2+2?", "a": "five"}]
    (tmp_path / "in.json").write_text(json.dumps({"data": data}))
    words = "--format", "mine"
    done = ruler("score", "in.json", "out.jsonl", "-m", "offline", *words)
    assert done.returncode == 0
    assert ruler("report", "out.jsonl", *words).returncode == 0
    assert ruler(
        "select", "out.jsonl", "-", "--keep", 1, "--by", "score", *words
    ).stdout
