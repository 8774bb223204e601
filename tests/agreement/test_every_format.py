"""What `score` writes is read back, wherever a format has its marks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ruler_cli.agreement.scored import Extract
from ruler_cli.marked.labels import label_of
from ruler_cli.reading import open_input
from ruler_cli.records import Problem
from ruler_cli.settings import InputSettings
from tests.formats.test_every_format import each_layout, marks, scored


@each_layout
def test_read_back(name: str, tmp_path: Path) -> None:
    """Every mark is found, with its score, its first reward as the label, and the cost of its group."""
    _, after = scored(name, tmp_path)
    problems: list[Problem] = []
    with ExitStack() as stack:
        found = open_input(InputSettings(str(tmp_path / "out.jsonl")), stack, problems.append)
        assert found.reader is not None
        extract = Extract(found.reader, given=False)
        groups = [extract.group(group) for group in found.groups]
    written = [mark for record in after for mark in marks(record)]
    assert extract.seen.scored == extract.seen.rollouts
    assert extract.seen.names.keys() == {"simulated"}
    assert {score for group in groups for score in group.scores} == {m["score"] for m in written}
    labels = {label for group in groups for label in group.labels}
    first = {label_of(m["independent_reward"]) for m in written}
    assert labels == first or (extract.seen.outcomes and first - {None} <= labels)
    assert not problems
    assert all(group.cost == 0 for group in groups)
    assert all(size > 0 for group in groups for size in group.sizes)
