"""What judging would take: calls, tokens and money, without a call."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.estimate.whole import CALLS, ENTRY, PROMPT, THINKING, Estimate, Range, answer_bound
from ruler_cli.judges.prices import Model, Price
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.records import Fault, Group, Reply
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings
from tests.estimate.one import estimate_one
from tests.values import group, talk

ASK = AskSettings()
PLAIN = Model(Price(2e-6, 8e-6, 5e-7), reasoning=False)
PAIR = group(talk("four"), talk("five"), key="pair")
ALIKE = group(talk("four"), talk("four"), talk("four"), key="alike")
EMPTY = group(key="empty")


def numbers(found: Estimate) -> list[Range]:
    """The figures that have three values and a sum."""
    assert found.cost_usd is not None
    return [found.calls, found.prompt_tokens, found.completion_tokens, found.cost_usd]


def many(number: int, words: int = 200) -> Iterator[Group]:
    """Groups of three, each of another content."""
    for i in range(number):
        yield group(*(talk(f"{i} {k} " + "word " * words) for k in range(3)), key=str(i))


models = st.builds(
    Model,
    st.builds(Price, st.floats(0, 1e-3), st.floats(0, 1e-3), st.just(0.0)),
    st.none() | st.integers(1, 2000),
    st.none() | st.integers(1, 20_000),
    reasoning=st.sampled_from([True, False, None]),
)


@given(model=models, params=st.fixed_dictionaries({}, optional={"max_tokens": st.integers(1, 9000)}))
def test_order(model: Model, params: dict[str, Any]) -> None:
    """Low is never above expected, nor expected above high, nor the high cost above the cap named."""
    found = estimate_one([PAIR, ALIKE, EMPTY, *many(2)], ASK, model, params)
    for each in numbers(found):
        assert 0 <= each.low <= each.expected <= each.high
    assert found.cost_usd is not None
    assert found.cap_usd is not None
    assert found.cap_usd >= found.cost_usd.high


def test_one_group() -> None:
    """A group is one request, two at most, whose prompt is what would be sent."""
    found = estimate_one([PAIR], ASK, PLAIN)
    tokens = lay_out(PAIR, ASK).tokens
    assert found.calls == CALLS == Range(1, 1, 2)
    assert found.prompt_tokens == Range(round(PROMPT.low * tokens), tokens, round(2 * PROMPT.high * tokens))
    assert found.completion_tokens == Range(2 * ENTRY.low, 2 * ENTRY.expected, 2 * 2 * ENTRY.high)
    assert found.cost_usd is not None
    assert found.cost_usd.expected == pytest.approx(tokens * 2e-6 + 2 * ENTRY.expected * 8e-6)


def test_sum() -> None:
    """Groups add up, and what costs no call or no entry is not counted."""
    one, alike = estimate_one([PAIR], ASK, PLAIN), estimate_one([ALIKE], ASK, PLAIN)
    both = estimate_one([PAIR, EMPTY, ALIKE], ASK, PLAIN)
    for first, second, whole in zip(numbers(one), numbers(alike), numbers(both), strict=True):
        assert whole.expected == pytest.approx(first.expected + second.expected)
        assert whole.low == pytest.approx(first.low + second.low, abs=1)
        assert whole.high == pytest.approx(first.high + second.high, abs=1)
    assert alike.completion_tokens.expected == ENTRY.expected
    assert (both.identical_rollouts, both.tied_groups) == (2, 1)


@pytest.mark.parametrize(
    ("reasoning", "more"),
    [(True, THINKING), (False, Range(0, 0, 0)), (None, Range(0, 0, THINKING.high))],
)
def test_thinking(reasoning: bool | None, more: Range) -> None:
    """Thinking is billed once a request, and a model of which it is not known is allowed it at most."""
    plain, found = estimate_one([PAIR], ASK, PLAIN), estimate_one([PAIR], ASK, Model(reasoning=reasoning))
    assert found.completion_tokens.low - plain.completion_tokens.low == more.low
    assert found.completion_tokens.expected - plain.completion_tokens.expected == more.expected
    assert found.completion_tokens.high - plain.completion_tokens.high == 2 * more.high


@pytest.mark.parametrize(
    ("params", "most", "bound"),
    [
        ({}, None, None),
        ({}, 1000, 1000),
        ({"max_tokens": 900}, 1000, 900),
        ({"max_completion_tokens": 800, "max_tokens": 900}, 1000, 800),
        ({"max_tokens": 5000}, 1000, 1000),
        ({"max_tokens": 900}, None, 900),
        ({"max_tokens": "many"}, 1000, 1000),
        ({"max_tokens": 0}, None, None),
    ],
)
def test_bound(params: dict[str, Any], most: int | None, bound: int | None) -> None:
    """No request bills more completion tokens than the user's parameter or the model allows."""
    found = estimate_one([PAIR], ASK, Model(max_output=most, reasoning=True), params)
    high = THINKING.high + 2 * ENTRY.high
    assert found.completion_tokens.high == 2 * min(high, bound or high)


def test_no_bound() -> None:
    """Without a word from either there is no bound; the lower of two holds."""
    assert answer_bound(None, Model()) is None
    assert answer_bound(5, Model(max_output=7)) == answer_bound(7, Model(max_output=5)) == 5


def test_unknown_price() -> None:
    """An unknown price is unknown, not zero; a price of zero is zero."""
    unknown, free = estimate_one([PAIR], ASK, Model()), estimate_one([PAIR], ASK, Model(Price(0, 0, 0)))
    assert (unknown.cost_usd, unknown.cap_usd) == (None, None)
    assert (free.cost_usd, free.cap_usd) == (Range(0, 0, 0), 0)


def test_nothing_to_ask() -> None:
    """Without a group that can be asked, all is zero."""
    found = estimate_one([EMPTY], ASK, PLAIN)
    assert numbers(found) == [Range(0, 0, 0)] * 4
    assert found.cap_usd == 0


def test_too_long() -> None:
    """A group that the judge's context cannot hold is counted as such and costs nothing."""
    found = estimate_one([PAIR], AskSettings(context_tokens=50), Model(PLAIN.price, 50, reasoning=False))
    assert found.too_long == 1
    assert numbers(found) == [Range(0, 0, 0)] * 4


def test_kept(tmp_path: Path) -> None:
    """What the ledger answers is not paid again, and a call that failed for good is not made again."""
    groups = list(many(5))
    body = b'{"choices": [{"message": {"content": "{}"}}]}'
    with Ledger(tmp_path / "l.sqlite") as ledger:
        shelf = ReplyCache(ledger, "m", {"seed": 1})
        requests = [compose(lay_out(each, ASK), ASK).request for each in groups]
        ledger.keep(shelf.key(requests[0]), "m", Reply("{}", body=body), 1.0)
        ledger.keep(shelf.key(requests[1]), "m", Fault("refused", "no", "group"), 1.0)
        found = estimate_one(groups, ASK, PLAIN, {"seed": 1}, shelf)
        assert (found.kept, found.kept_failed) == (2, 1)
        assert numbers(found) == numbers(estimate_one(groups[2:], ASK, PLAIN))
        for other in (ReplyCache(ledger, "n", {"seed": 1}), ReplyCache(ledger, "m", {})):
            assert estimate_one(groups, ASK, PLAIN, {}, other).kept == 0


def test_cap_admits_the_first_call() -> None:
    """The cap named for a single cheap group covers what the pool reserves before it knows usage."""
    from ruler_cli.pool.estimates import Estimates

    price = Price(1e-9, 1e-3, 1e-9)
    found = estimate_one([PAIR], ASK, Model(price, reasoning=False))
    assert found.cap_usd is not None
    assert found.cost_usd is not None
    reserved = price.of(Estimates().highest(compose(lay_out(PAIR, ASK), ASK).request))
    assert found.cap_usd == reserved > found.cost_usd.high


def test_memory() -> None:
    """Memory does not grow with the number of groups."""

    def peak(number: int) -> int:
        tracemalloc.start()
        estimate_one(many(number, words=4000), ASK, PLAIN)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(5)  # what is made once
    assert peak(300) < 1.2 * peak(30)
