"""The share of a dump's text that judges are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, Line
from tests.cli.test_check import rows
from tests.conftest import Ruler, write
from tests.values import reader, talk

LONG = "Six times seven is forty-two, as everybody knows."


def coverage_of(*records: Any) -> Coverage:
    """Return the coverage of records, each a group."""
    raws = [
        json.dumps(record, ensure_ascii=False).encode() for record in records
    ]
    coverage = Coverage()
    form = reader(*raws)
    for number, raw in enumerate(raws, 1):
        group = Group(str(number), form.read(Line(number, 0, raw)))
        coverage.add(group, build_layout(group, AskSettings()))
    return coverage


def group_of(*answers: str, **more: Any) -> dict[str, Any]:
    """A group of rollouts."""
    return {
        "trajectories": [{"messages": talk(answer)} for answer in answers],
        **more,
    }


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
        "info": {"why": "No, nobody knows what it is."},
    }
    coverage = coverage_of(
        group_of(LONG, "b", **notes), group_of(LONG, "c", **notes)
    )
    size = len(LONG.strip("."))
    assert coverage.not_shown() == {
        "output.choices[].message": size,
        "info.why": 28,
    }
    assert coverage.shown == len(LONG)


def test_short_result() -> None:
    """A short text that a tool returned does not count for more than the texts that are shown."""
    hidden = {"results": [{"tool": {"output": "It was sunny all over Oslo."}}]}
    coverage = coverage_of(group_of(LONG, "b", **hidden))
    assert coverage.share == pytest.approx(0.65, abs=0.1)
    assert coverage.warnings()


def test_check_and_score(tmp_path: Path, ruler: Ruler) -> None:
    """`check` has a row and a warning, with paths as they are and all in JSON; `score` warns once."""
    hidden = {f"field_{n}": f"{LONG[::-1]} {n}" for n in range(5)}
    path = write(
        tmp_path / "in.jsonl",
        [group_of(LONG, "b", **hidden), group_of(LONG + "!", "b")],
    )
    page = ruler("check", path, "-m", "offline").stdout
    assert rows(page)["shown to the judge"] == "28%"
    reported = "field_0 50, field_1 50, "
    assert rows(page)["not shown"].startswith(reported)
    facts = json.loads(ruler("check", path, "-m", "offline", "--json").stdout)
    assert facts["shown_to_the_judge"] == pytest.approx(0.286, abs=0.01)
    assert facts["not_shown"] == {f"field_{n}": len(LONG) + 1 for n in range(5)}
    reported = "judges are shown 28% of the text in the first 2 groups; not shown: field_0 50 bytes"
    assert [one for one in facts["warnings"] if one.startswith(reported)]
    run = ruler("score", path, "out.jsonl", "-m", "offline")
    assert run.returncode == 0
    assert run.stderr.count(f"ruler: warning: {reported}") == 1, run.stderr
    whole = write(tmp_path / "whole.jsonl", [group_of(LONG, "b")])
    assert (
        "judges are shown"
        not in ruler("score", whole, "out.jsonl", "-m", "offline").stderr
    )


TOLD = (
    "It rained in Oslo all day, and the harbour was grey and empty. " * 7
    + "Nobody came."
)
"""Sentences that no judge is shown."""
PATCH = "\n".join(
    f"+{number}| {line}" for number, line in enumerate(LONG.split(", "))
)
RIGHT: dict[str, dict[str, Any]] = {
    "a signature": {
        "messages": [
            *talk(LONG),
            {"role": "user", "content": "Go on.", "signature": "Zx9/" * 99},
        ]
    },
    "an encrypted text in words": {
        "encrypted": "reasoning-details://" + "gAAAAABk" * 99
    },
    "a grader's sentences": {
        "scores": {
            "judge": {
                "explanation": TOLD,
                "metadata": {"grading": [TOLD + "!"]},
            }
        }
    },
    "the result of an assertion": {
        "gradingResult": {"componentResults": [{"reason": TOLD}]}
    },
    "a traceback": {
        "exceptions": [{"message": TOLD, "traceback": TOLD + "!"}],
        "error": TOLD + "?",
    },
    "an attachment": {
        "attachments": {"1f": TOLD},
        "image": "data:image/png;base64," + "iVBORw0KGgo" * 99,
    },
    "a reference": {
        "reference_answer": TOLD,
        "expectedOutput": TOLD + "!",
        "ground_truth": [TOLD + "?"],
    },
    "the harness's settings": {
        "metadata": {"plan": TOLD},
        "runConfig": {"template": TOLD + "!"},
    },
    "ids and paths": {
        "uuids": [f"4f1c-{n:030}" for n in range(30)],
        "cwd": "/home/agent/work" * 30,
    },
    "a diff of what is shown": {"display": {"fileDiff": PATCH * 9}},
    "an object printed": {
        "repr": f"Response(text='{LONG}', texts=['{LONG[:20]}', '{LONG[20:]}'])"
    },
    "JSON in JSON": {
        "raw": json.dumps(json.dumps({"say": LONG, "n": [1]}, indent=2)) * 9
    },
    "a dialogue of the turns": {
        "log_text": f"User: a\nAssistant: {LONG}\n" * 9
    },
    "rules and notes of the harness": {
        "base_instructions": {"text": TOLD},
        "skills": [{"description": TOLD + "!"}],
        "payload": {"role": "developer", "content": [{"text": TOLD + "?"}]},
        "first": {"text": f"<session_context>\n{TOLD}, he said."},
    },
    "a demonstration": {"shots": [{"is_demo": True, "content": TOLD}]},
    "acts in a message": {
        "messages": [
            *talk(LONG),
            {"role": "assistant", "content": "Done.", "actions": [TOLD]},
        ]
    },
}
PARTIAL: dict[str, dict[str, Any]] = {
    "calls of a few words": {
        "called": [{"tool_name": name, "arguments": {}} for name in ("ls", "w")]
    },
    "short results beside a long text": {
        "messages": talk(TOLD),
        "events": [
            {"type": "tool_result", "content": f"{number} failed, 9 passed"}
            for number in (1, 2)
        ],
    },
    "thoughts in a field of their own": {"assistant_scratchpad": TOLD},
    "the model's own prompt": {"llm_info": {"input": TOLD}},
    "turns under another key": {
        "steps": [{"action": TOLD, "observation": TOLD + "!"}]
    },
    "turns in metadata": {
        "metadata": {"redteamHistory": [{"prompt": TOLD, "output": TOLD + "!"}]}
    },
    "a field of the user's": {
        "messages": [
            *talk(LONG),
            {"role": "user", "content": "Go on.", "screens": [TOLD]},
            {"role": "assistant", "content": "Done."},
        ]
    },
    "what a subagent said": {
        "details": {"results": [{"messages": [{"content": [{"text": TOLD}]}]}]}
    },
}


@pytest.mark.parametrize(
    ("records", "alarm"), [(RIGHT, False), (PARTIAL, True)]
)
def test_what_counts(
    records: dict[str, dict[str, Any]],
    alarm: bool,
    tmp_path: Path,
    ruler: Ruler,
) -> None:
    """Unseen sentences of task and agent are warned about, wherever they stand; those of others are not."""
    for number, (name, more) in enumerate(records.items()):
        path = write(
            tmp_path / f"{number}.jsonl",
            [{"group_id": 1, "messages": talk(LONG, n)} | more for n in "ab"],
        )
        facts = json.loads(
            ruler("check", path, "-m", "offline", "--json").stdout
        )
        reported = [
            one
            for one in facts["warnings"]
            if one.startswith("judges are shown")
        ]
        assert bool(reported) is alarm, name
        assert bool(facts["not_shown"]) is alarm, name


def test_numbers_in_json_text(tmp_path: Path, ruler: Ruler) -> None:
    """Numbers in JSON text are shown, however the prompt writes what stands between them."""
    result = json.dumps(
        {
            "order": "K-2203",
            "refund": 39.9,
            "sizes": [10, 20, 30],
            "paid": True,
            "to": "card",
        }
    )
    tool = {"role": "tool", "tool_call_id": "c", "content": result}
    groups = [
        {
            "group_id": 1,
            "messages": [*talk(LONG, answer), tool, *talk("b", answer)[1:]],
        }
        for answer in "ab"
    ]
    path = write(tmp_path / "in.jsonl", groups)
    facts = json.loads(ruler("check", path, "-m", "offline", "--json").stdout)
    assert facts["shown_to_the_judge"] == 1
