"""Estimates start on the safe side, follow the judge's own usage, and keep within their bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.limits import Estimates
from ruler_cli.tokens import CHARACTERS_PER_TOKEN, USUAL_ANSWER
from ruler_cli.types import Request, Usage

ASKED = Request("s" * 1000, "u" * 2800, ("a", "b", "c", "d"))
TWICE = Request("s" * 2000, "u" * 5600, ASKED.labels)


def test_before_any_reply() -> None:
    """Before a reply, prompts are estimated by their length, and answers are overestimated."""
    estimates = Estimates()
    expected = estimates.expected(ASKED)
    assert estimates.seen == 0
    assert expected.prompt == pytest.approx(ASKED.size / CHARACTERS_PER_TOKEN, rel=0.01)
    assert expected.completion > USUAL_ANSWER.of(4, 0)
    highest = estimates.highest(ASKED)
    assert highest.prompt > expected.prompt
    assert highest.completion > expected.completion


@given(st.integers(100, 10_000), st.integers(1, 5000))
def test_one_reply(prompt: int, completion: int) -> None:
    """One reply corrects both, and a longer prompt takes tokens in proportion."""
    estimates = Estimates()
    estimates.learn(ASKED, Usage(prompt, completion, 0, 1))
    assert estimates.seen == 1
    expected = estimates.expected(ASKED)
    assert expected.prompt == pytest.approx(prompt, abs=2)
    assert expected.completion == pytest.approx(completion, abs=2)
    assert estimates.expected(TWICE).prompt == pytest.approx(
        2 * prompt, rel=0.01, abs=2
    )


def test_money() -> None:
    """Money is held for a prompt as billed of late, and for half more than the longest answer, or its bound."""
    estimates = Estimates()
    bounded = replace(ASKED, max_output_tokens=5000)
    assert estimates.highest(bounded).completion == 5000
    for answer in (400, 300, 200):
        estimates.learn(ASKED, Usage(1100, answer, 0, 1))
        highest = estimates.highest(ASKED)
        assert highest.prompt == pytest.approx(1100, abs=2)
        assert highest.completion == pytest.approx(1.5 * 400, rel=0.02)
    assert estimates.highest(TWICE).prompt == pytest.approx(2200, rel=0.01)
    assert estimates.highest(bounded).completion == 5000
    # an estimate in place of a report counts too: it is what is spent
    unreported = Estimates()
    unreported.learn(ASKED, Usage(1100, 400, 0, 1, estimated=True))
    assert unreported.seen == 0
    assert unreported.highest(ASKED).prompt == pytest.approx(1100, abs=2)
    # a script of three bytes per character takes as many tokens as its bytes do
    chinese = Request("", "汉" * 3800, ())
    assert Estimates().highest(chinese).prompt >= 3000
    # what is put into a cache is reserved where it was seen
    assert estimates.highest(ASKED).written == 0
    estimates.learn(ASKED, Usage(1100, 300, 0, 1, written=550))
    assert estimates.highest(ASKED).written == pytest.approx(550, abs=2)


def test_labels() -> None:
    """More rollouts take a longer answer."""
    estimates = Estimates()
    estimates.learn(ASKED, Usage(1000, 400, 0, 1))
    more = Request(ASKED.system, ASKED.user, tuple("abcdefgh"))
    assert (
        estimates.expected(more).completion > 1.3 * estimates.expected(ASKED).completion
    )


def test_no_usage() -> None:
    """A reply without usage changes nothing."""
    estimates = Estimates()
    estimates.learn(ASKED, Usage(0, 0, 0, 1))
    assert estimates.seen == 0


def test_mean_and_worst() -> None:
    """The expected tokens are the mean; money is reserved for the worst of late."""
    estimates, dice = Estimates(), random.Random(1)
    answers = [int(dice.lognormvariate(5.0, 0.5)) for _ in range(500)]
    for answer in answers:
        estimates.learn(ASKED, Usage(1000, answer, 0, 1))
    assert estimates.expected(ASKED).completion == pytest.approx(
        sum(answers[-100:]) / 100, rel=0.15
    )
    assert estimates.highest(ASKED).completion >= 0.9 * max(answers[-10:])
    assert (
        estimates.highest(ASKED).completion > 1.5 * estimates.expected(ASKED).completion
    )


def test_forgets() -> None:
    """If the requests of a file change, so do the estimates."""
    estimates = Estimates()
    for _ in range(300):
        estimates.learn(ASKED, Usage(1000, 1000, 0, 1))
    for _ in range(300):
        estimates.learn(ASKED, Usage(1000, 100, 0, 1))
    assert estimates.expected(ASKED).completion == pytest.approx(100, rel=0.1)
    assert estimates.highest(ASKED).completion == pytest.approx(150, rel=0.2)


@pytest.mark.parametrize(
    ("most", "max_output_tokens", "bound"),
    [(50, None, 50), (None, 60, 60), (50, 60, 50), (70, 60, 60)],
)
def test_bounds(most: int | None, max_output_tokens: int | None, bound: int) -> None:
    """No estimate of an answer exceeds the bound of the user or the request."""
    estimates = Estimates(most)
    asked = Request("s", "u", ("a",) * 20, max_output_tokens)
    assert estimates.highest(asked).completion == bound
    assert estimates.expected(asked).completion == bound
    estimates.learn(asked, Usage(100, 40, 0, 1))
    assert (
        estimates.expected(asked).completion == 41
    )  # and below it as the judge reports


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=20))
def test_never_nothing(replies: list[tuple[int, int]]) -> None:
    """Every request takes something, and its worst case is no less than the mean."""
    estimates = Estimates()
    for prompt, completion in replies:
        estimates.learn(ASKED, Usage(prompt, completion, 0, 1))
    empty = Request("", "", ())
    for asked in (ASKED, empty):
        expected, highest = estimates.expected(asked), estimates.highest(asked)
        assert min(expected.prompt, expected.completion) >= 1
        assert highest.prompt >= expected.prompt - 1  # both are rounded
        assert highest.completion >= expected.completion - 1
