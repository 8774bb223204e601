"""The offline judge: its signals, its invariances, and its lead over chance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.judges.offline import Offline, rate
from ruler_cli.scoring.parse_reply import parse
from ruler_cli.types import CallError, Judge, Request, Usage
from tests.judges.agreement import agreement
from tests.values import few, render

_TAU = (
    Path(__file__).resolve().parents[2].parent
    / "shared"
    / "data"
    / "tau_bench_gpt4o_airline.jsonl"
)
_LINES = st.sampled_from(
    [
        'user: "please"',
        'assistant: "done"',
        'assistant: "I cannot do that"',
        'assistant thinking: "hm"',
        'call get_item: {"id":1}',
        'call update_item: {"id":1,"to":2}',
        'call update_item: {"to":2,"id":1}',
        'call cancel_item: {"id":1}',
        "call transfer_to_human: {}",
        'tool get_item: {"id":1}',
        'tool update_item: "Error: no such item"',
        'tool: {"success":true}',
        "(part 2 of the same rollout)",
        "",
    ]
)
_ROLLOUTS = st.lists(
    st.lists(_LINES, max_size=12).map("\n".join), min_size=1, max_size=6
)
_GOOD = 'user: "u"\ncall get_x: {}\ntool get_x: {"x":1}\nassistant: "here"'


def _request(rollouts: dict[str, str]) -> Request:
    parts = [
        f'<trajectory id="{label}">\n{rollout}\n</trajectory>'
        for label, rollout in rollouts.items()
    ]
    return Request("system", "\n".join(parts), tuple(rollouts))


def _ask(request: Request) -> dict[str, tuple[float, str]]:
    judge: Judge = Offline()

    async def once() -> Any:
        async with judge:
            return await judge.ask(request)

    reply = asyncio.run(once())
    assert not isinstance(reply, CallError)
    assert reply.usage == Usage(calls=1)
    parsed = parse(reply.text, request.labels)
    return {
        label: (scores[0], text)
        for label, (scores, text) in parsed.entries.items()
    }


@settings(deadline=None)
@given(_ROLLOUTS, st.randoms(use_true_random=False))
def test_invariance(rollouts: list[str], draw: Any) -> None:
    """A rollout's score and explanation depend on the set of rollouts, not on labels, order or copies."""
    shuffled = [*rollouts, *draw.choices(rollouts, k=3)]
    draw.shuffle(shuffled)
    assert rate(shuffled) == rate(rollouts)
    labels = [a + b for a in "bcd" for b in "fgh"]
    plain = _ask(_request(dict(zip(labels, rollouts, strict=False))))
    mixed = _ask(_request(dict(zip(reversed(labels), shuffled, strict=False))))
    assert list(plain.values()) == [
        rate(rollouts)[rollout] for rollout in rollouts
    ]
    assert list(mixed.values()) == [
        rate(rollouts)[rollout] for rollout in shuffled
    ]


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(
                    ["user", "assistant", "tool", "system", "model: x"]
                ),
                "content": st.text(),
            },
            optional={
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.text(), "arguments": st.text()}
                    )
                )
            },
        ),
        max_size=6,
    )
)
def test_any_text(messages: list[dict[str, Any]]) -> None:
    """Any rollout has a score in [0, 1] that the reply parser accepts unchanged."""
    rollout = "\n".join(render(messages))
    entries = _ask(_request({"bcdf": rollout, "ghjk": ""}))
    assert all(0 <= score <= 1 for score, _ in entries.values())


DEFECTS = [
    ('tool get_x: "Error: no such x"', "1 tool error,"),
    ('call get_x: {}\ntool get_x: {"x":1}', "1 repeated call"),
    ('call transfer_to_human_agents: {}\ntool: "ok"', "handing off"),
    ('assistant: "I will transfer you to a colleague."', "handing off"),
    ("call get_y: {}", "mid-work"),
]


def test_defects() -> None:
    """Each defect lowers the score of a rollout that has it, and the explanation names it."""
    for line, signal in DEFECTS:
        rated = rate([_GOOD, f"{_GOOD}\n{line}"])
        score, explanation = rated[f"{_GOOD}\n{line}"]
        assert score < rated[_GOOD][0]
        assert signal in explanation + ","
        assert explanation.startswith("No LLM judged this: ")
        assert explanation.endswith("; rule of thumb.")


def test_no_quotes() -> None:
    """No text of a rollout reaches an explanation, so no rollout can speak through it."""
    rollout = "\n".join(
        f'{head}: "Error canary, I cannot"'
        for head in (
            "user",
            "assistant",
            "call canary",
            "tool canary",
            "canary",
        )
    )
    assert all(
        "canary" not in explanation
        for _, explanation in rate([rollout, _GOOD]).values()
    )


@pytest.mark.parametrize(
    "unit",
    few(
        3,
        [
            "a",
            "{",
            'tool: "Error\n',
            " ",
            '\\"',
            "\n",
            'call f: {"a":1}\n',
            "assistant: hand you ",
            "x: ",
        ],
    ),
)
def test_megabyte(unit: str) -> None:
    """A megabyte of anything is read to its end and scored."""
    rollout = 'assistant: "' + unit * (1_000_000 // len(unit))
    rated = rate([rollout, f"call f: {rollout}\ntool f: {rollout}"])
    assert all(0 <= score <= 1 for score, _ in rated.values())


@pytest.mark.skipif(
    not _TAU.exists(),
    reason="the tau-bench rollouts are not beside this checkout",
)
def test_real_rollouts() -> None:
    """A rollout that passed its check ranks above one that failed in clearly more than half the pairs."""
    result = agreement(_TAU)
    assert (result["groups"], result["mixed_groups"]) == (50, 26)
    (judge,) = result["scorers"]
    accuracy = judge["pairwise_accuracy"]
    assert accuracy["value"] > 0.55
    assert accuracy["low"] < accuracy["value"] < accuracy["high"]
