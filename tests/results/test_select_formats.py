"""Every format: scored, selected, read again by ruler and by its framework."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.parse import dump, parse
from ruler_cli.results.choice import Keep
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.types import Group
from tests.formats.changes import raws
from tests.formats.frameworks import READERS
from tests.formats.test_every_format import (
    annotations_in,
    each_example,
    each_layout,
)
from tests.formats.test_every_format import scored as scored_in
from tests.results.select_values import annotated_groups, read_groups, selected
from tests.values import reader

WHOLE_ONLY = (
    "api_logs_samples",
    "atropos",
    "live_code_bench",
    "lm_eval",
    "ms_swift",
    "preference",
    "preference_openai",
    "preference_sides",
    "prompt_responses",
    "promptfoo_table",
    "pydantic_evals",
    "rewardbench2",
    "roll",
    "ultrafeedback",
)
"""Files whose records stay or go as a whole: their answers stand in several lists, or are compared."""


def scored_example(name: str, folder: Path) -> Path:
    """Score an example with the simulated judge."""
    scored_in(name, folder)
    return folder.joinpath("out.jsonl").rename(folder / "scored.jsonl")


def identity(
    group: Group, rollout: RolloutRecord
) -> tuple[bytes, float | None, float | None, str]:
    """Identify a rollout by its messages, its score, its first reward and its explanation."""
    words = dump(group.rollouts[rollout.indices[0]].messages)
    return words, rollout.score, rollout.label, rollout.explanation


def best(group: GroupRecord) -> RolloutRecord:
    """The first rollout with the highest score."""
    return max(group.rollouts, key=lambda r: r.score or 0.0)


@each_layout
def test_all(name: str, tmp_path: Path) -> None:
    """A selection of every rollout copies the file byte for byte."""
    scored = scored_example(name, tmp_path)
    tally = selected(
        scored,
        tmp_path / "out.jsonl",
        "scored",
        "score=..2",
        keep=Keep(99, "score"),
    )
    assert (tmp_path / "out.jsonl").read_bytes() == scored.read_bytes()
    assert (tally["kept groups"], tally["kept rollouts"]) == (
        tally["groups"],
        tally["rollouts"],
    )
    assert tally["rollouts"] == sum(
        len(group.rollouts) for group in annotated_groups(scored)
    )


@each_example
def test_best_of_each(name: str, tmp_path: Path) -> None:
    """The best rollout of each group stays, with its messages, annotation and first reward."""
    scored = scored_example(name, tmp_path)
    output = tmp_path / "out.jsonl"
    if name in WHOLE_ONLY:
        with pytest.raises(UsageError, match="holds its answers in lists"):
            selected(scored, output, keep=Keep(1, "score"))
        assert not output.exists()
        return
    selected(scored, output, keep=Keep(1, "score"))
    before, after = read_groups(scored), read_groups(output)
    kept = [
        identity(group, r) for group, m in after for r in m.rollouts
    ]  # groups may be in another order
    assert Counter(kept) == Counter(
        identity(group, best(m)) for group, m in before
    )
    assert {len(m.rollouts) for _, m in after} == {1}
    again = tmp_path / "again.jsonl"
    selected(output, again, keep=Keep(1, "score"))
    assert again.read_bytes() == output.read_bytes()


@each_example
def test_framework_reads_selection(name: str, tmp_path: Path) -> None:
    """The framework reads the rewards of the selected rollouts, each with its annotation."""
    scored = scored_example(name, tmp_path)
    by = ("live",) if name in WHOLE_ONLY else ()
    keep = None if name in WHOLE_ONLY else Keep(2, "variance")
    selected(scored, tmp_path / "out.jsonl", *by, keep=keep)
    result = [parse(raw) for raw in raws(tmp_path / "out.jsonl")]
    assert result
    assert len({reader(record).format.name for record in result}) == 1
    for record in result:
        rewards = [
            float(reward)
            for _, reward in READERS[name](record)
            if reward is not None
        ]
        scores = [annotation["score"] for annotation in annotations_in(record)]
        if rewards and reader(record).format.reward:
            assert rewards == scores
        assert len(scores) >= len(READERS[name](record))
    old = Counter(
        dump(m) for raw in raws(scored) for m in annotations_in(parse(raw))
    )
    assert (
        not Counter(
            dump(m) for record in result for m in annotations_in(record)
        )
        - old
    )
