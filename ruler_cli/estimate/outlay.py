"""What requests take: calls, tokens and USD, each with a low, an expected and a high value.

They rest on the constants below, which are measured where they say so and assumptions where not; what
a run is really charged stands in its summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ruler_cli.judges.body import stated_limit
from ruler_cli.judges.prices import Model, Price
from ruler_cli.pool.estimates import Estimates
from ruler_cli.records import Request, Usage

Role = Literal["panel", "fallback", "escalation"]
"""When a judge is asked: always, where the one before refuses, or where passes leave a group unresolved."""


@dataclass(frozen=True, slots=True)
class Range:
    """One figure three times; low <= expected <= high."""

    low: float
    expected: float
    high: float

    def __add__(self, other: Range) -> Range:
        """The figures of both."""
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)


CALLS = Range(1, 1, 2)
"""Calls for a request.

One, unless its answer cannot be used and is asked for once more: counted for every request in the high
value. Groups that are alike to the letter are asked once and counted each, since telling them apart
from the rest takes memory that grows with the file. A judge that refuses, is cut off or names a
smaller context may be asked a third time; that is not counted.
"""
PROMPT = Range(0.85, 1.0, 1.35)
"""Tokens of a prompt to those that its bytes tell, at BYTES_PER_TOKEN.

Expected is measured: on the rollouts of tau-bench that rate gives 500,918 tokens where OpenAI's
o200k_base counts 495,962. Low and high are an assumption on how far other tokenizers lie from it.
"""
ENTRY = Range(25, 60, 150)
"""Completion tokens for one rollout: its id, its score and one or two sentences. An assumption."""
THINKING = Range(300, 1500, 8000)
"""Completion tokens that a model which reasons bills on top, for each request.

An assumption: it depends on the model, the effort asked for and the group. A model that reasons only
when it is asked to stays below the low value where it is not.
"""
ESCALATED = Range(0, 0.2, 1)
"""Share of the groups that passes leave unresolved and untied, so that a stronger judge is asked.

Expected is simulated, with the judge model that `simulated` has and groups of 8: the F test tells their
scores from noise but the reliability is below 0.8 in 14 to 31 % of the groups after two passes, in 16 to
19 % after four and in about 10 % after eight, by how their truth is spread. It depends on the judge; none
and all are possible.
"""
ALWAYS, NEVER = Range(1, 1, 1), Range(0, 0, 0)
_ALLOWED = Range(0, 1, 1)
_LEAST_ADAPTIVE = 2
"""Passes that `--adaptive` spends on every group, before it spends where they help."""
_PERHAPS_THINKING = Range(0, 0, THINKING.high)
"""Of a model that the price list does not name: it may reason, which the high value allows for."""


def times(role: Role, turn: int, *, adaptive: bool, certain: float = 0) -> Range:
    """How often a request of one pass, counted from 0, is made.

    Adaptive passes are allotted over all groups, as many on average as were asked for: the first two to
    every group, and the others are expected to be spent, though not each on its own group. `certain` is
    how likely a group is already known to be refused by the judge before.
    """
    spent = ALWAYS if not adaptive or turn < _LEAST_ADAPTIVE else _ALLOWED
    if role == "panel":
        return spent
    share = ESCALATED if role == "escalation" else Range(certain, certain, 1)
    return Range(spent.low * share.low, spent.expected * share.expected, spent.high)


@dataclass(frozen=True, slots=True)
class Outlay:
    """What one judge is asked and what that takes, without what the ledger has.

    `cost_usd` and `cap_usd` are None where the price is not known. `cap_usd` is what `--max-cost` must
    be at least, to let every call go at the high figures. `kept` counts first requests that the ledger
    answers, `kept_failed` those among them that it knows to have failed for good. `too_long` groups do
    not fit the judge's context and are not asked. `windowed` groups are shown in windows, which
    `window_calls` of the calls ask about.
    """

    judge: str
    role: Role
    model: Model
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range | None
    cap_usd: float | None
    kept: int = 0
    kept_failed: int = 0
    too_long: int = 0
    windowed: int = 0
    window_calls: Range = NEVER


@dataclass(slots=True)
class _Sum:
    """A figure that grows, once for each of its three values."""

    low: float = 0
    expected: float = 0
    high: float = 0

    def add(self, low: float, expected: float, high: float) -> None:
        self.low += low
        self.expected += expected
        self.high += high

    def scaled(self, by: Range, part: float) -> Range:
        """The figure as it is told; `part` of what is low and expected, and all of what is high."""
        return Range(by.low * self.low * part, by.expected * self.expected * part, by.high * self.high)


@dataclass(slots=True)
class Total:
    """The sums on the way over requests that have to be made, and the longest of them.

    `part` of them is made, as far as is known: it scales what is low and expected. `asked` is how many
    there are, with those that are perhaps made.
    """

    stated: int | None
    bound: int | None
    thinking: Range
    part: float = 1.0
    asked: float = 0
    calls: _Sum = field(default_factory=_Sum)
    window_calls: _Sum = field(default_factory=_Sum)
    prompt: _Sum = field(default_factory=_Sum)
    answers: _Sum = field(default_factory=_Sum)
    most: tuple[float, Callable[[], Request] | None] = (0, None)

    @classmethod
    def of(cls, model: Model, params: Mapping[str, Any] | None) -> Total:
        """Nothing yet, with the bound that model and parameters set to an answer."""
        stated = stated_limit(params or {})
        return cls(stated, answer_bound(stated, model), _thinking(model))

    def add(
        self,
        tokens: float,
        entries: float,
        often: Range = ALWAYS,
        *,
        high: float | None = None,
        likely: float = 1.0,
        windowed: bool = False,
    ) -> None:
        """One request: tokens of its prompt, at most `high`, and rollouts that differ.

        `often` is how many times it is made, `likely` how likely its group is to be asked about.
        """
        more, low, expected = self.thinking, likely * often.low, likely * often.expected
        self.asked += likely * often.high
        self.calls.add(low, expected, often.high)
        if windowed:
            self.window_calls.add(low, expected, often.high)
        self.prompt.add(tokens * low, tokens * expected, (tokens if high is None else high) * often.high)
        self.answers.add(
            low * self._bounded(ENTRY.low * entries + more.low),
            expected * self._bounded(ENTRY.expected * entries + more.expected),
            often.high * self._bounded(ENTRY.high * entries + more.high),
        )

    def longest(self, tokens: float, write: Callable[[], Request] | None) -> None:
        """Note a request that has been seen; it is written only if none is longer."""
        if tokens > self.most[0]:
            self.most = tokens, write

    def outlay(self, judge: str, role: Role, model: Model, often: Range = CALLS, **more: Any) -> Outlay:
        """The sums as they are told, each request asked so `often`, with `more` of its fields."""
        price, calls = model.price, self.calls.scaled(often, self.part)
        prompts = Range(PROMPT.low * often.low, PROMPT.expected * often.expected, PROMPT.high * often.high)
        prompt = _whole(self.prompt.scaled(prompts, self.part))
        answers = _whole(self.answers.scaled(often, self.part))
        cost = cap = None
        if price is not None:
            cost = Range(
                _cost(price, prompt.low, answers.low),
                _cost(price, prompt.expected, answers.expected),
                _cost(price, prompt.high, answers.high),
            )
            cap = max(cost.high, self._reserved(price))
        asked = self.window_calls.scaled(often, self.part)
        return Outlay(judge, role, model, calls, prompt, answers, cost, cap, window_calls=asked, **more)

    def _reserved(self, price: Price) -> float:
        """USD that the pool reserves for the longest request as long as it knows no usage.

        A cap below it would let not even one call go, however cheap that turned out to be.
        """
        write = self.most[1]
        return price.of(Estimates(self.stated).highest(write())) if write else 0.0

    def _bounded(self, tokens: float) -> float:
        return tokens if self.bound is None else min(tokens, self.bound)


def answer_bound(stated: int | None, model: Model) -> int | None:
    """The most completion tokens of one request: by the user's own parameter, and by the model."""
    return min((n for n in (stated, model.max_output) if n), default=None)


def summed(ranges: Iterable[Range]) -> Range:
    """One figure of all judges together."""
    return sum(ranges, NEVER)


def cost_of(outlays: Sequence[Outlay]) -> tuple[Range | None, float | None]:
    """USD of all judges together and the cap that lets every call go; None where a price is not known.

    Each judge adds what the pool reserves for its first call at least: it may be asked when the others
    have spent what they spend at most.
    """
    costs = [each.cost_usd for each in outlays]
    caps = [each.cap_usd for each in outlays]
    cost, cap = costs[0], caps[0]
    for more_cost, more_cap in zip(costs[1:], caps[1:], strict=True):
        cost = None if cost is None or more_cost is None else cost + more_cost
        cap = None if cap is None or more_cap is None else cap + more_cap
    return cost, cap


def _thinking(model: Model) -> Range:
    if model.reasoning is None:
        return _PERHAPS_THINKING
    return THINKING if model.reasoning else NEVER


def _whole(tokens: Range) -> Range:
    return Range(round(tokens.low), round(tokens.expected), round(tokens.high))


def _cost(price: Price, prompt: float, completion: float) -> float:
    return price.of(Usage(round(prompt), round(completion)))
