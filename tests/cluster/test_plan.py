"""What read tasks are told, and the chunks that they make of it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.blocks import Blocks
from ruler_cli.cluster import plan as plans
from ruler_cli.cluster.chunk import Chunk, chunks_of
from ruler_cli.cluster.places import parts_of
from ruler_cli.reading import open_input
from ruler_cli.records import Group
from ruler_cli.settings import InputSettings, ScoreSettings
from tests.cluster.conftest import many
from tests.conftest import write

LINES = many(150)
APART = [{"group_id": g["group_id"], **g["trajectories"][k]} for k in range(4) for g in LINES]
ADJACENT = [{"group_id": g["group_id"], **t} for g in LINES for t in g["trajectories"]]
COLUMNS = [
    {
        "prompt": [t["messages"][0]["content"] + g["group_id"] for g in pair for t in g["trajectories"]],
        "completion": [t["messages"][1]["content"] for g in pair for t in g["trajectories"]],
        "step": [1 for g in pair for _ in g["trajectories"]],
        "reward": [t["reward"] for g in pair for t in g["trajectories"]],
    }
    for pair in zip(LINES[::2], LINES[1::2], strict=True)
]


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(
    "records", [LINES, APART, ADJACENT, COLUMNS], ids=["lines", "apart", "adjacent", "columns"]
)
@pytest.mark.parametrize("document", [False, True])
def test_the_same_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[Any], adaptive: bool, document: bool
) -> None:
    """Chunks hold the groups of the input in their order, however they lie and wherever ranges are cut."""
    monkeypatch.setattr(plans, "_RANGE", 20_000)
    source = write(tmp_path / "in.jsonl", records)
    if document:
        source.write_text(json.dumps(records))
    settings = ScoreSettings(InputSettings(str(source)), "out.jsonl", adaptive=adaptive)
    with ExitStack() as stack:
        found = open_input(settings.input, stack, lambda problem: pytest.fail(problem.reason))
        assert found.reader is not None
        parts, node = parts_of(settings, found, "home", stack)
        assert node == "home"
        assert len(parts) > 1
        chunks = [[Chunk.unpacked(chunk.packed()) for chunk in part.read()] for part in parts]
        assert [len(each) for each in chunks] == [part.chunks for part in parts]
        read = [list(chunk.read(found.reader)) for each in chunks for chunk in each]
        groups = list(found.groups)
    assert [group for each in read for group in each] == groups
    if adaptive:
        assert [len(each) for each in read] == _blocks(groups)
    assert [len(each) for each in read] == [len(chunk.groups) for chunk in chunks_of(groups, adaptive)]


def _blocks(groups: list[Group]) -> list[int]:
    """How many groups decide together."""
    blocks, sizes = Blocks(2), list[int]()
    last: Any = None
    for group in groups:
        member: Any = blocks.place(group)
        if member._block is not last:
            sizes.append(0)
        last = member._block
        sizes[-1] += 1
    return sizes
