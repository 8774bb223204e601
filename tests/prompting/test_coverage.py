"""The share of a dump's text that judges are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.config import AskSettings
from ruler_cli.prompting import coverage as module
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.types import Group, Line
from tests.cli.test_check import rows
from tests.conftest import Ruler, write
from tests.values import reader, talk

LONG = "Six times seven is forty-two, as everybody knows."


def coverage_of(*records: Any) -> Coverage:
    """Return the coverage of records, each a group."""
    raws = [json.dumps(record, ensure_ascii=False).encode() for record in records]
    coverage = Coverage()
    form = reader(*raws)
    for number, raw in enumerate(raws, 1):
        group = Group(str(number), form.read(Line(number, 0, raw)))
        coverage.add(group, build_layout(group, AskSettings()))
    return coverage


def group_of(*answers: str, **more: Any) -> dict[str, Any]:
    """A group of rollouts."""
    return {"trajectories": [{"messages": talk(answer)} for answer in answers], **more}


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f'"{LONG}"\n\tétoile \u2028 {LONG} \\',
        json.dumps({"city": "Oslo", "temperature": 4.0, "say": LONG}, indent=2),
        f"{LONG}\n{LONG[::-1]}",
    ],
)
def test_shown(text: str) -> None:
    """A text in the prompt counts as shown, in any form."""
    answer = {"role": "tool", "content": text, "tool_call_id": "1"}
    record = {"trajectories": [{"messages": [*talk(n), answer]} for n in "ab"]}
    assert coverage_of(record).share == 1.0


def test_not_shown() -> None:
    """Text in no prompt is listed by its path, the most bytes first, each text once."""
    notes = {
        "output": {"choices": [{"message": LONG}, {"message": LONG[::-1]}]},
        "info": {"why": "no, " + LONG},
    }
    coverage = coverage_of(group_of(LONG, "b", **notes), group_of(LONG, "c", **notes))
    assert coverage.not_shown() == [("info.why", len(LONG) + 4), ("output.choices[].message", len(LONG))]
    assert (coverage.shown, coverage.bytes) == (len(LONG), 3 * len(LONG) + 4)
    assert coverage.not_shown_text() == "info.why 53 bytes, output.choices[].message 49 bytes"


def test_no_text() -> None:
    """Short strings, ids, times, binary data, numbers and ruler's own fields are no text."""
    record = group_of(LONG, "b", id="0123456789abcdef01234567", at="2026-01-01T00:00:00.000Z", n=[1] * 99)
    record["ruler"] = {"status": "scored", "key": LONG * 2}
    record["trajectories"][0]["logs"] = ["RULER explanation: " + LONG * 3]
    record["image"] = "data:image/png;base64," + "iVBORw0KGgo" * 30
    assert coverage_of(record).share == 1.0
    assert coverage_of(group_of("a", "b")).share is None


def test_check_and_score(tmp_path: Path, ruler: Ruler) -> None:
    """`check` has a row, in JSON with all paths; `score` warns once if less than half is shown."""
    hidden = {f"field {n}": f"{n} {LONG}" for n in range(5)}
    path = write(tmp_path / "in.jsonl", [group_of(LONG, "b", **hidden), group_of(LONG + "!", "b")])
    page = ruler("check", path, "-m", "offline").stdout
    reported = "28% of the text; not shown: field 0 51 bytes, field 1 51 bytes"
    assert rows(page)["shown"].startswith(reported)
    shown = json.loads(ruler("check", path, "-m", "offline", "--json").stdout)["shown_to_the_judge"]
    assert shown["share"] == pytest.approx(0.286, abs=0.01)
    assert shown["not_shown"] == {f"field {n}": len(LONG) + 2 for n in range(5)}
    run = ruler("score", path, "out.jsonl", "-m", "offline")
    reported = (
        "ruler: warning: judges are shown 28% of the text in the first 2 groups; not shown: field 0 51 bytes"
    )
    assert run.returncode == 0
    assert run.stderr.count(reported) == 1, run.stderr
    whole = write(tmp_path / "whole.jsonl", [group_of(LONG, "b")])
    assert "judges are shown" not in ruler("score", whole, "out.jsonl", "-m", "offline").stderr


def test_bounded_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for texts that no prompt contains is bounded, for any number of texts."""
    monkeypatch.setattr(module, "_MOST_SCANNED", 100_000)
    extra = [f"a note of the harness, number {i}" for i in range(20_000)]
    coverage = coverage_of({"messages": talk("answer " * 100), "notes": extra})
    assert 0 < coverage.bytes < 100_000


def test_steps_as_rollouts() -> None:
    """A rollout that begins with another rollout's end is reported, as steps of one run may be."""
    more = [{"role": "user", "content": "And?"}, *talk("b", "c")]
    grown = {"trajectories": [{"messages": talk(LONG)}, {"messages": [*talk(LONG), *more]}]}
    longer = {"trajectories": [*grown["trajectories"], {"messages": talk("no")}]}
    coverage = coverage_of(group_of("a", "b"), grown, longer, group_of("a", "a b"))
    assert (coverage.continued, coverage.first_continued) == (2, "2")
    assert "go on where another of the group ends (first: 2)" in coverage.warnings()[0]
    assert coverage_of(group_of("a", "b")).warnings() == []
