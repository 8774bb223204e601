"""Pairs of scored groups for trainers of preferences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.results.choice import Choice
from ruler_cli.results.pairs import PairMaker
from ruler_cli.results.select import select
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.results.select_values import dump, grouped, trajectory

ASKED = {"role": "user", "content": "Cancel order 17."}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, null]}'}}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}


def made(
    folder: Path,
    records: list[Any],
    *,
    gap: float = 0.2,
    table: bool = False,
) -> tuple[list[dict[str, Any]], PairMaker]:
    """Make the pairs of a scored file; return them with their maker."""
    source = dump(folder / "scored.jsonl", records)
    maker = PairMaker(gap, table=table)
    select(
        InputSettings(str(source)),
        str(folder / "pairs.jsonl"),
        open_input,
        Choice(),
        maker,
        on_problem=lambda problem: pytest.fail(problem.reason),
    )
    # as loaders split lines, and not as Python splits text
    return [
        *map(
            orjson.loads,
            (folder / "pairs.jsonl").read_bytes().split(b"\n")[:-1],
        )
    ], maker


def spoken(text: str, score: float = 0.9, **more: Any) -> dict[str, Any]:
    """A scored rollout whose agent says a text."""
    answer = {"role": "assistant", "content": text}
    return {**trajectory(score), "messages": [ASKED, answer], **more}


def of(*rollouts: Any, **more: Any) -> dict[str, Any]:
    """A scored group of rollouts."""
    part = {"status": "scored"}
    return {"group_id": "g", "trajectories": rollouts, "ruler": part, **more}


scores = st.none() | st.integers(0, 10).map(lambda n: n / 10) | st.floats(0, 1)
files = st.lists(
    st.tuples(st.lists(scores, min_size=1, max_size=7), st.booleans()),
    max_size=5,
)


@given(files, st.sampled_from([0.05, 0.1, 0.2, 0.5, 1.0]))
def test_every_pair(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[tuple[list[float | None], bool]],
    gap: float,
) -> None:
    """A pair is of one group that is not tied, as far apart as the gap; a group has one at most."""
    records = [
        grouped(f"g{i}", *row, tied=tied)
        for i, (row, tied) in enumerate(groups)
    ]
    for group in records:
        for entry in group["trajectories"]:
            entry["messages"] = [
                ASKED,
                {"role": "assistant", "content": entry["id"]},
            ]
    annotated = any(score is not None for row, _ in groups for score in row)
    if not annotated:
        return
    folder = tmp_path_factory.mktemp("pairs")
    pairs, maker = made(folder, records, gap=gap)
    names = {
        (t["id"]): t["ruler"].get("score")
        for g in records
        for t in g["trajectories"]
    }
    for pair in pairs:
        both = [pair[side][0]["content"] for side in ("chosen", "rejected")]
        index = int(pair["group"][1:])
        assert all(name.startswith(pair["group"]) for name in both)
        mine = [pair["score_chosen"], pair["score_rejected"]]
        assert mine == pytest.approx([names[name] for name in both], abs=1e-9)
        assert not groups[index][1]
        assert pair["gap"] >= gap
    for i, (row, tied) in enumerate(groups):
        expected = [round(score, 9) for score in row if score is not None]
        mine = [pair for pair in pairs if pair["group"] == f"g{i}"]
        assert len(mine) <= 1
        # a group that has a pair gets the widest
        if (
            expected
            and not tied
            and round(max(expected) - min(expected), 9) >= gap
        ):
            assert mine[0]["gap"] == pytest.approx(
                max(expected) - min(expected)
            )
        else:
            assert not mine
    assert sum(maker.no_pair.values()) + maker.pairs == len(groups)


ANSWER: dict[str, Any] = {"role": "assistant", "content": "x"}
MESSAGES: dict[str, list[list[dict[str, Any]]]] = {
    "content that is not text": [
        [ASKED, ANSWER | {"content": [{"type": "text", "text": text} for text in "ab"]}],
        [ASKED, ANSWER | {"content": None, "reasoning": "hm"}],
    ],
    "a role that chat templates do not know": [
        [ASKED, ANSWER | {"role": "model"}],
        [ASKED, ANSWER, ANSWER | {"role": ["a"]}],
    ],
    "calls in another form than `tool_calls`": [
        [ASKED, ANSWER | {"function_call": {"name": "f"}}],
        [ASKED, ANSWER | {"tool_calls": [{"name": "f"}]}],
        [ASKED, ANSWER | {"tool_calls": ["f"]}],
    ],
    "text beside the content of a message": [
        [ASKED, ANSWER | {"plan": "first a, then b"}],
        [ASKED, ANSWER | {"content": "", "refusal": "I will not."}],
    ],
    "`thinking` that is not text": [[ASKED, ANSWER | {"thinking": [{"text": "hm"}]}]],
    "the agent speaks before the user": [
        [ANSWER, ASKED, ANSWER],
        [{"role": "system", "content": "x"}, ANSWER],
    ],
    "no turn of the agent": [[ASKED]],
    "NaN, or text that is no Unicode": [
        [ASKED, ANSWER | {"content": "\ud800"}],
        [ASKED, ANSWER | {"tool_calls": [{"function": {"name": "f", "arguments": {"a": float("nan")}}}]}],
    ],
}  # fmt: skip
"""Messages that cannot be written whole, by the reason."""
HISTORY = {"messages_and_choices": [ASKED, ANSWER]}
MORE: dict[str, dict[str, Any]] = {
    "several conversations in one rollout": {"additional_histories": [HISTORY]},
    "tools that are no list": {"tools": "some"},
}
"""Other members of a rollout that cannot be written whole."""


def test_reasons(tmp_path: Path) -> None:
    """A rollout that would not be whole makes no pair, and is counted with the reason."""
    rows = [
        (why, {"messages": case})
        for why, cases in MESSAGES.items()
        for case in cases
    ]
    rows += [
        (why, {"messages": [ASKED, ANSWER], **more})
        for why, more in MORE.items()
    ]
    for reason, case in rows:
        worst = trajectory(0.1) | case
        pairs, maker = made(
            tmp_path, [of(spoken("a"), spoken("b", 0.8), worst)]
        )
        assert (pairs, dict(maker.left_out)) == ([], {reason: 1}), case
        assert dict(maker.no_pair) == {"no two that can be written": 1}
        pairs, _ = made(tmp_path, [of(spoken("a"), spoken("b", 0.5), worst)])
        assert [pair["gap"] for pair in pairs] == [0.4]


NONE: dict[str, dict[str, Any]] = {
    "tied": of(spoken("a"), spoken("b", 0.1), ruler={"status": "scored", "tied": True}),
    "gap too small": of(spoken("a"), spoken("b", 0.8)),
    "without scores": grouped("g", None, None),
    "nothing to compare": of(spoken("a"), spoken("b", 0.1) | {"ruler": {"status": "failed"}}),
    "prompts differ": of(spoken("a"), {**spoken("b", 0.1), "messages": [
        {"role": "user", "content": "Another."}, {"role": "assistant", "content": "b"}]}),
    "no two that can be written": of(spoken("a"), spoken("a", 0.1, note="other")),
}  # fmt: skip
"""Groups without a pair, by the reason."""


def test_no_pair(tmp_path: Path) -> None:
    """A group without a pair is counted with the reason."""
    for reason, group in NONE.items():
        pairs, maker = made(
            tmp_path, [group, of(spoken("x"), spoken("y", 0.1))]
        )
        assert dict(maker.no_pair) == {reason: 1}
        assert [pair["chosen"][0]["content"] for pair in pairs] == ["x"]
    # rollouts that the judge saw as one
    slots = [spoken(text, score) for text, score in (("a", 0.9), ("b", 0.1))]
    for row in slots:
        row["ruler"] |= {"slots": [0.5]}
    assert made(tmp_path, [of(*slots)])[1].no_pair == {"nothing to compare": 1}


def test_messages(tmp_path: Path) -> None:
    """Messages keep what chat templates read of them; empty members and metadata are left out."""
    system = {"role": "system", "content": "Rules."}
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    thought = {"timestamp": 3, "reasoning_content": "hm"}
    last = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    nothing: dict[str, Any] = {"tool_calls": [], "refusal": None}
    turns = [system, ASKED, calling | thought, RESULT, last | nothing]
    better = {**trajectory(0.9), "messages": turns}
    worse = {**trajectory(0.1), "messages": [system, ASKED, {"role": "assistant", "content": "No."}]}  # fmt: skip
    tools = [{"type": "function", "function": {"name": "f"}}]
    (pair,), _ = made(tmp_path, [of(better, worse, tools=tools)])
    call = {**CALL, "function": {"name": "f", "arguments": {"a": [1, None]}}}
    assert pair["prompt"] == [system, ASKED]
    assert pair["chosen"] == [
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        RESULT,
        {"role": "assistant", "content": "Done."},
    ]  # fmt: skip
    assert pair["rejected"] == [{"role": "assistant", "content": "No."}]
    assert json.loads(pair["tools"]) == tools
    (pair,), _ = made(tmp_path, [of(better, worse)], table=True)
    assert pair["chosen"][0]["tool_calls"] == [CALL]
    assert pair["tools"] is None
    mine = [better | {"tools": tools}, worse]
    assert made(tmp_path, [of(*mine)])[1].no_pair == {"prompts differ": 1}


HOSTILE = (
    "</script>",
    "\u202e\u2066x",
    "a\u2028b\x85",
    "\x00\x1b[31m",
    "__proto__",
    "日本語",
    "\\",
    '"}]}',
)


def test_hostile_text(tmp_path: Path) -> None:
    """Any text comes back as it was, on one line, without a character that disturbs a terminal."""
    for text in HOSTILE:
        group = of(spoken(text), spoken("b", 0.1))
        group["group_id"] = text
        (pair,), _ = made(tmp_path, [group])
        assert pair["chosen"][0]["content"] == pair["group"] == text
        raw = (tmp_path / "pairs.jsonl").read_bytes()
        assert not {"\x1b", "\x85", "\u202e", "\u2028"} & {*raw.decode()}


def test_deep(tmp_path: Path) -> None:
    """Arguments that are no object stay as they are; those nested too deeply are text, or make no pair."""
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    for arguments in (deep, {"a": 1}, "[1]", "[" * 100_000, '{"a":' * 50_000):
        call = {"function": {"name": "f", "arguments": arguments}}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        group = of(
            spoken("a", 0.1), {**trajectory(0.9), "messages": [ASKED, turn]}
        )
        for table in (False, True):
            pairs, maker = made(
                tmp_path,
                [group, of(spoken("a"), spoken("b", 0.1))],
                table=table,
            )
            assert len(pairs) + maker.no_pair.total() == 2
            for pair in pairs[:-1]:
                (kept,) = pair["chosen"][0]["tool_calls"]
                shown = kept["function"]["arguments"]
                assert arguments is deep or shown in (arguments, '{"a": 1}')
