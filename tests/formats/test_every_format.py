"""Every format there is, walked: example in, scored with `simulated`, out, read as its framework reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from ruler_cli.files.parse import parse
from ruler_cli.formats.detect import formats
from ruler_cli.formats.rewards import number
from ruler_cli.score import score
from ruler_cli.settings import InputSettings, JudgeSettings, ScoreSettings
from tests.formats.changes import changed, keyed, raws
from tests.formats.frameworks import READERS
from tests.values import reader

SAMPLES = Path(__file__).parent.parent.parent / "samples"
EXAMPLES = {p.stem: p for p in sorted(SAMPLES.rglob("*.jsonl")) if p.stem in READERS}
each_example = pytest.mark.parametrize("name", EXAMPLES)
LAYOUTS = (
    *("groups", "trajectories", "art_rows", "atropos", "inspect", "live_code_bench", "lm_eval", "ms_swift"),
    *("preference", "rewardbench2", "slime", "tau2", "tau_bench", "ultrafeedback", "verl"),
)
"""Of every way in which marks stand in a record an example, and the odd ones."""
each_layout = pytest.mark.parametrize("name", LAYOUTS)
_OURS = re.compile(r"(.*\.)?(ruler|metrics|logs)(\..*)?$")


def scored(name: str, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of an example before and after a run, whose output is `out.jsonl` in the folder."""
    out = folder / "out.jsonl"
    out.write_bytes(_output(name))
    return [parse(raw) for raw in raws(EXAMPLES[name])], [parse(raw) for raw in raws(out)]


@cache
def _output(name: str) -> bytes:
    """The output of an example, which is scored once."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "out.jsonl")
        judge = JudgeSettings("simulated")
        done = anyio.run(score, ScoreSettings(InputSettings(str(EXAMPLES[name])), str(out), judge))
        assert done.summary.complete, done.summary
        return out.read_bytes()


def marks(value: Any) -> Iterator[dict[str, Any]]:
    """Every mark of a rollout in a record, in the order of the record."""
    if isinstance(value, dict):
        if value.get("status") == "scored" and "explanation" in value:
            yield value
        for inner in value.values():
            yield from marks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from marks(inner)


def test_none_without_an_example() -> None:
    """Every format has an example, and every example's reader an example file."""
    shown = {reader(*raws(path)).format.name for path in EXAMPLES.values()}
    assert {form.name for form in formats()} == shown
    assert READERS.keys() == EXAMPLES.keys()


def test_each_layout_has_an_example() -> None:
    """What is shown of one example of each layout is shown of every layout."""

    def kind(name: str) -> tuple[Any, ...]:
        form = reader(*raws(EXAMPLES[name])).format
        lay = form.layout
        return form.shape, lay.reward is None, len(lay.ruler), lay.payload is None, lay.listed

    assert {kind(name) for name in EXAMPLES} == {kind(name) for name in LAYOUTS}


@each_example
def test_recognised_alone(name: str) -> None:
    """An example is of one format, and only `--format` makes it another."""
    first = json.loads(raws(EXAMPLES[name])[0])
    found = [form for form in formats() if form.matches(first)]
    best = max(form.rank for form in found)
    assert len([form for form in found if form.rank == best]) == 1


@each_example
def test_what_is_written(name: str, tmp_path: Path) -> None:
    """The framework finds each score where it looks for rewards; all but ruler's fields is as it was."""
    before, after = scored(name, tmp_path)
    read, layout = READERS[name], reader(*raws(EXAMPLES[name])).format.layout
    own = [".".join(map(str, layout.reward))] if layout.reward else []
    own += [layout.payload] if layout.payload else []
    # objects that were made so that `ruler` or the reward can stand in them
    made = [".".join(map(str, (path or ())[:-1])) for path in (layout.ruler, layout.reward)]
    for old, new in zip(before, after, strict=True):
        was, now, found = read(old), read(new), list(marks(new))
        assert [key for key, _ in was] == [key for key, _ in now]
        assert all(0 <= mark["score"] <= 1 for mark in found)
        rewards = [float(reward) for _, reward in now if reward is not None]
        assert not rewards or rewards == [mark["score"] for mark in found]
        for path in changed(old, new):
            inside = any(f".{place}." in f".{path}." for place in own)
            around = any(place and f".{path}".endswith(f".{place}") for place in made)
            assert _OURS.fullmatch(path) or inside or around, path


@each_example
def test_first_reward(name: str, tmp_path: Path) -> None:
    """The reward that the framework gave is kept on each rollout, and is read again of a scored file."""
    before, after = scored(name, tmp_path)
    for old, new in zip(before, after, strict=True):
        was = [reward for _, reward in READERS[name](old)]
        kept = [mark["independent_reward"] for mark in marks(new)]
        assert [reward is None for reward in was] == [first is None for first in kept]
        same = [
            (r, first) for r, first in zip(was, kept, strict=True) if isinstance(first, int | float | str)
        ]
        assert all(first == reward for reward, first in same)
    given = [json.dumps(record).encode() for record in after]
    rewards = [
        [[number(r.reward) for r in rollouts] for rollouts in groups.values()]
        for groups in (keyed(*before), keyed(*given))
    ]
    assert rewards[0] == rewards[1]
