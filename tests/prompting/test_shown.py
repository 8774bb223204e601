"""The rule on fields of a message: read, shown as JSON, or counted as not shown, and part of what is identical."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.prompting.prompt import build_layout
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Rollout
from tests.conftest import ROOT, Ruler, write
from tests.values import group, read, render

TASK = {"role": "user", "content": "Cancel order 17."}


def by(role: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **more}


def cancel(order: int) -> dict[str, Any]:
    """A call in OpenAI's form."""
    arguments = json.dumps({"order": order})
    return {"id": "1", "function": {"name": "cancel", "arguments": arguments}}


def said(**more: Any) -> dict[str, Any]:
    """A part with text."""
    return {"type": "text", "text": "I do it.", **more}


def result(**more: Any) -> dict[str, Any]:
    """A part with a result."""
    return {"type": "tool_result", "tool_use_id": "1", "content": "ok", **more}


def test_shown(subtests: pytest.Subtests) -> None:
    """Anything that an agent or a tool says is shown, in whatever field, so rollouts that differ in it are two."""
    shown = (ROOT / "tests/data/shown.json").read_text()
    messages = (
        json.loads(text).items() for text in (shown, shown.replace("17", "71"))
    )
    for (law, message), (_, changed) in zip(*messages, strict=True):
        with subtests.test(law):
            both = message, changed
            texts = ["\n".join(render([turn])) for turn in both]
            assert "17" in texts[0]
            assert texts[0] == texts[1].replace("71", "17")
            turns = [[TASK, by("assistant", "Well."), turn] for turn in both]
            assert len(build_layout(group(*turns), AskSettings()).distinct) == 2


ERRORS = (
    by("user", [result(is_error=True)]),
    by("user", [{"toolResult": {"toolUseId": "1", "status": "error", "content": [{"text": "ok"}]}}]),
    by("tool", "ok", tool_call_id="1", status="error"),
)  # fmt: skip


def test_errors_of_tools() -> None:
    """A result that its dialect marks as an error says so, and one that it does not is shown as before."""
    for message in ERRORS:
        assert render([message]) == ['tool: "ok"\ntool is_error: true']
    for fine in (
        by("user", [result(is_error=False)]),
        by("tool", "ok", tool_call_id="1", status="success", is_error=False),
    ):
        assert render([fine]) == ['tool: "ok"']


ABOUT: tuple[dict[str, Any], ...] = (
    {"request_id": "r"}, {"uuid": "u"}, {"created": 1}, {"timestamp": "t"}, {"usage": {"in": 1}}, {"latency": 0.5},
    {"prompt_tokens": 3}, {"token_ids": [1, 2]}, {"logprobs": [0.1]}, {"step": 4}, {"turn_idx": 4}, {"done": True},
    {"success": True}, {"reward": 1}, {"response_ids": [1, 2]}, {"values": [*range(40)]}, {"ttft_ms": 5},
    {"additional_kwargs": {"total_tokens": 9}}, {"thought_signature": "s"}, {"trainable": True}, {"seed": 3},
    {"ground_truth": "4"}, {"is_error": False}, {"state": "s"},
)  # fmt: skip


def test_metadata() -> None:
    """Ids, times, usage, counts, probabilities and grades are not shown, and no rollout differs in them."""
    plain = render([by("assistant", "x"), by("assistant", [said()])])
    for more in ABOUT:
        lines = render(
            [by("assistant", "x", **more), by("assistant", [said(**more)])]
        )
        assert lines == plain, more
        call = {**cancel(17), **more}
        assert render([by("assistant", None, tool_calls=[call])]) == [
            'call cancel: {"order":17}'
        ], more


def test_not_shown_is_not_identical(tmp_path: Path, ruler: Ruler) -> None:
    """Rollouts that differ only in what is counted as not shown are judged apart, whatever their order is."""
    own = [
        [by("user", "q", screens=[text]), by("assistant", "a")]
        for text in ("one", "two")
    ]
    answers = [[TASK, by("assistant", "a", answer=n)] for n in ("4", "5")]
    parts = [[TASK, by("assistant", [said(answer=n)])] for n in ("4", "5")]
    for rollouts in (own, answers, parts):
        there, back = (
            build_layout(group(*turns), AskSettings())
            for turns in (rollouts, [*reversed(rollouts)])
        )
        assert len(there.distinct) == 2
        assert [*there.digests] == [*reversed(back.digests)]
        assert (
            len(
                build_layout(
                    group(rollouts[0], rollouts[0]), AskSettings()
                ).distinct
            )
            == 1
        )
    long = "A field of the user's that no judge is shown."
    turns = [
        [by("user", "q", screens=[f"{long} {n}"]), by("assistant", "a")]
        for n in "ab"
    ]
    path = write(
        tmp_path / "in.jsonl",
        [{"group_id": 1, "messages": one} for one in turns],
    )
    facts = json.loads(ruler("check", path, "-m", "offline", "--json").stdout)
    assert facts["identical_rollouts"] == 0
    assert [*facts["not_shown"]] == ["messages[].screens[]"]


def test_speakers() -> None:
    """A result in a user's turn is a tool's, an answer to a question the user's, and an unknown speaker is refused."""
    turn = by(
        "user",
        [{"toolResult": {"toolUseId": "1", "content": [{"text": "none"}]}}],
    )
    assert render([turn]) == ['tool: "none"']
    for kind in (
        "custom_tool_call_output",
        "local_shell_call_output",
        "apply_patch_call_output",
    ):
        item = {"type": kind, "call_id": "1", "output": "bar"}
        record = {"messages": [TASK, item, by("assistant", "Done.")]}
        assert render(read(record)[0].rollouts[0].messages)[1] == 'tool: "bar"'
    allowed = {
        "type": "mcp_approval_response",
        "approve": True,
        "reason": "fine",
    }
    assert render([allowed])[0].startswith("user: ")


DIFFERENT: tuple[tuple[Any, Any], ...] = (
    (True, 1), (False, 0), ([True, 1], [1, True]), ({"a": [1]}, {"a": [True]}), ("1", 1), (None, False), ([], {}),
)  # fmt: skip


def test_reference_by_type() -> None:
    """Members of a group agree on a reference only by type and value, and a number however it is written."""
    for one, other in DIFFERENT:
        for pair in ((one, other), (other, one)):
            rollouts = [Rollout([TASK], reference=value) for value in pair]
            assert group(*rollouts).mistake, pair
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for one, other in (
        (1, 1.0),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1}),
        (deep, [*deep]),
    ):
        rollouts = [Rollout([TASK], reference=value) for value in (one, other)]
        assert not group(*rollouts).mistake
