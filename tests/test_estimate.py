"""Estimates of calls, tokens and USD for groups with known layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.judges.providers import ModelInfo, Price
from ruler_cli.pool.limits import Estimates
from ruler_cli.prompting.prompt import (
    build_layout,
    pass_count,
    requests_of_pass,
)
from ruler_cli.runs.estimate import (
    CALLS,
    LEAST_PROMPT,
    THINKING,
    TOO_LONG,
    Estimate,
    JudgeEstimate,
    Range,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.tokens import ESTIMATED_ANSWERS
from ruler_cli.types import Group
from tests.values import first_request, group, talk

ENTRY = Range(*[size.rollout for size in ESTIMATED_ANSWERS])

ASK = AskSettings()
PRICE = Price(2e-6, 8e-6, 5e-7)
PLAIN = ModelInfo(PRICE, reasoning=False)
PAIR = group(talk("four"), talk("five"), key="pair")
ALIKE = group(talk("same"), talk("same"), talk("same"), key="alike")
EMPTY = group(key="empty")


def estimate(
    groups: Iterable[Group],
    judges: Sequence[JudgeEstimate],
    ask: AskSettings = ASK,
) -> Estimate:
    """Estimate several judges, each with its own context."""
    for judge in judges:
        judge.ask = replace(ask, context_tokens=judge.model.context)
    result = Estimate(judges)
    for each in groups:
        result.add(each)
    return result


def of_one(
    groups: Iterable[Group],
    model: ModelInfo = PLAIN,
    ask: AskSettings = ASK,
    **more: Any,
) -> JudgeEstimate:
    """Estimate one judge."""
    return estimate(groups, [JudgeEstimate("j", model, **more)], ask).judges[0]


def distinct_group(number: int, words: int = 30, key: str = "g") -> Group:
    """Make a group of rollouts that differ; no two groups are alike."""
    return group(
        *(talk(f"{key} {i} " + "word " * words) for i in range(number)), key=key
    )


drawn_groups = st.builds(
    lambda sizes, words, alike, key: group(
        *(
            talk(f"{key} {0 if alike else i} " + "word " * words)
            for i in range(sizes)
        ),
        key=str(key),
    ),
    st.integers(1, 11),
    st.integers(1, 400),
    st.booleans(),
    st.integers(0, 99),
)
ask_settings = st.builds(
    AskSettings,
    passes=st.integers(1, 5),
    group_size=st.integers(2, 6),
    single=st.sampled_from(["flag", "score"]),
    order=st.sampled_from(["random", "input"]),
)
models = st.builds(
    ModelInfo,
    st.builds(Price, st.floats(0, 1e-3), st.floats(0, 1e-3), st.just(0.0)),
    st.none() | st.integers(500, 3000),
    st.none() | st.integers(1, 20_000),
    reasoning=st.sampled_from([True, False, None]),
)


def requests(
    groups: Sequence[Group], ask: AskSettings, passes: int = 99
) -> int:
    """Count the requests of the planning functions, of the first `passes` at most."""
    layouts = [build_layout(each, ask) for each in groups]
    count = 0
    for layout in layouts:
        windows = len(requests_of_pass(layout, ask, 0))
        pass_indices = (
            range(pass_count(layout, ask, windows))[:passes]
            if windows
            else range(0)
        )
        count += sum(
            len(requests_of_pass(layout, ask, index)) for index in pass_indices
        )
    return count


@given(
    groups=st.lists(drawn_groups, max_size=4),
    ask=ask_settings,
    model=models,
    adaptive=st.booleans(),
)
def test_planned_calls(
    groups: list[Group], ask: AskSettings, model: ModelInfo, adaptive: bool
) -> None:
    """The estimate has the planned calls: at least the certain passes, and all of them as expected calls."""
    result = estimate(
        groups, [JudgeEstimate("a", model, adaptive=adaptive)], ask
    )
    own, totals = replace(ask, context_tokens=model.context), result.judges[0]
    planned = requests(groups, own)
    assert adaptive or totals.calls.expected == planned
    assert totals.calls.low == requests(groups, own, 2 if adaptive else 99)
    assert totals.calls.high == 2 * planned
    shown = [build_layout(each, own) for each in groups]
    assert result.mistakes["group", TOO_LONG] == sum(
        len(requests_of_pass(layout, own, 0)) == 0 for layout in shown
    )
    assert totals.windowed == sum(
        len(requests_of_pass(layout, own, 0)) > 1 for layout in shown
    )
    cost = totals.cost_usd
    assert cost is not None
    for each in (
        totals.calls,
        totals.prompt_tokens,
        totals.completion_tokens,
        cost,
    ):
        assert 0 <= each.low <= each.expected <= each.high


def test_one_group() -> None:
    """A group is one request, two at most, with the prompt that would be sent; no figure is zero."""
    result = of_one([PAIR, EMPTY])
    request = first_request(build_layout(PAIR, ASK), ASK)
    tokens = Estimates().size(request).prompt
    assert result.calls == CALLS == Range(1, 1, 2)
    most = Estimates().highest(request)
    assert result.prompt_tokens == Range(
        LEAST_PROMPT * tokens, tokens, 2 * most.prompt
    )
    assert result.completion_tokens == Range(
        2 * ENTRY.low, 2 * ENTRY.expected, 2 * most.completion
    )
    assert result.cost_usd is not None
    assert result.cost_usd.expected == pytest.approx(
        tokens * 2e-6 + 2 * ENTRY.expected * 8e-6
    )
    nothing = of_one([EMPTY])
    assert nothing.calls == nothing.cost_usd == Range(0, 0, 0)
    both = estimate([PAIR, EMPTY, ALIKE], [JudgeEstimate("j", PLAIN)])
    counts = both.counts
    assert (counts["identical_rollouts"], counts["tied_groups"]) == (2, 1)
    assert counts["laid_out"] == 2


def test_answers() -> None:
    """Thinking is billed once a request, and no answer is longer than the parameters or the model allow."""
    most = Estimates().highest(first_request(build_layout(PAIR, ASK), ASK))
    entries = Range(2 * ENTRY.low, 2 * ENTRY.expected, most.completion)
    for reasoning, more in (
        (True, THINKING),
        (False, Range(0, 0, 0)),
        (None, Range(0, 0, THINKING.high)),
    ):
        answer = of_one(
            [PAIR], ModelInfo(reasoning=reasoning)
        ).completion_tokens
        assert answer == (entries + more) * CALLS
    for params, longest, bound in (
        ({}, None, None),
        ({}, 1000, 1000),
        ({"max_tokens": 900}, 1000, 900),
        ({"max_completion_tokens": 800, "max_tokens": 900}, 1000, 800),
        ({"max_tokens": 5000}, 1000, 1000),
        ({"max_tokens": "many"}, 1000, 1000),
        ({"max_tokens": 0}, None, None),
    ):
        answer = of_one(
            [PAIR],
            ModelInfo(max_output=longest, reasoning=True),
            params=params,
        ).completion_tokens
        high = THINKING.high + most.completion
        assert answer.high == 2 * (bound or high)


def test_cap() -> None:
    """A cap of the highest cost admits the first call of every judge, for which the pool holds the most."""
    price = Price(1e-9, 1e-3, 1e-9)
    model = ModelInfo(price, reasoning=False)
    pair = distinct_group(2)
    most = Estimates().highest(first_request(build_layout(pair, ASK), ASK))
    for judges in (1, 2):
        result = estimate(
            [pair], [JudgeEstimate(str(n), model) for n in range(judges)]
        )
        assert result.total("cost_usd").high >= judges * price.of(most)
