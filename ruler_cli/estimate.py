"""Groups → what judging them would take, without a call.

Each figure has a low, an expected and a high value. They rest on the constants below, which are
measured where they say so and assumptions where not; what a run is really charged stands in its summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ruler_cli.judges.prices import Model, Price
from ruler_cli.pool.estimates import Estimates, stated_bound
from ruler_cli.records import Fault, Group, Reply, Request, Usage
from ruler_cli.scoring.request import Sheet, compose, lay_out
from ruler_cli.settings import AskSettings


@dataclass(frozen=True, slots=True)
class Range:
    """One figure three times; low <= expected <= high."""

    low: float
    expected: float
    high: float


CALLS = Range(1, 1, 2)
"""Requests for a group.

One, unless its answer cannot be used and is asked for once more: counted for every group in the high
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
_NO_THINKING = Range(0, 0, 0)
_PERHAPS_THINKING = Range(0, 0, THINKING.high)
"""Of a model that the price list does not name: it may reason, which the high value allows for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls, tokens and USD of one pass over what the ledger lacks.

    `cost_usd` and `cap_usd` are None where the price is not known. `cap_usd` is what `--max-cost` must
    be at least, to let every call go at the high figures. `kept` counts first requests that the ledger
    answers, `kept_failed` those among them that it knows to have failed for good. `too_long` groups do
    not fit the judge's context and are not asked.
    """

    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range | None
    cap_usd: float | None
    kept: int
    kept_failed: int
    identical_rollouts: int
    tied_groups: int
    too_long: int
    suspect: int


class Kept(Protocol):
    """What was answered before, by the content of the request."""

    def key(self, request: Request) -> bytes:
        """What tells this request from every other."""

    def find(self, key: bytes) -> Reply | Fault | None:
        """The answer; a Fault is a call that failed for good."""


def estimate(
    groups: Iterable[Group],
    ask: AskSettings,
    model: Model,
    params: Mapping[str, Any] | None = None,
    kept: Kept | None = None,
) -> Estimate:
    """Lay out every group as `score` would and add up, in memory that does not grow with their number.

    `params` are those of the judge call; UsageError where they are no JSON values and `kept` is given.
    """
    stated = stated_bound(params or {})
    total = _Total(answer_bound(stated, model), _thinking(model))
    for group in groups:
        sheet = lay_out(group, ask)
        if not sheet.bodies:
            continue
        readable = sum(1 for owner in sheet.owner if owner is not None)
        total.identical_rollouts += readable - len(sheet.bodies)
        total.tied_groups += sheet.alone
        if sheet.suspects:
            total.suspect += sum(1 for owner in sheet.owner if owner in sheet.suspects)
        tokens = sheet.tokens
        if model.context is not None and tokens > model.context:
            total.too_long += 1
            continue
        answer = None if kept is None else kept.find(kept.key(compose(sheet, ask).request))
        if answer is not None:
            total.kept += 1
            total.kept_failed += isinstance(answer, Fault)
            continue
        total.add(sheet, tokens)
    return total.estimate(ask, model.price, stated)


def answer_bound(stated: int | None, model: Model) -> int | None:
    """The most completion tokens of one request: by the user's own parameter, and by the model."""
    return min((n for n in (stated, model.max_output) if n), default=None)


def _thinking(model: Model) -> Range:
    if model.reasoning is None:
        return _PERHAPS_THINKING
    return THINKING if model.reasoning else _NO_THINKING


@dataclass(slots=True)
class _Total:
    """The sums on the way, and the longest group seen."""

    bound: int | None
    thinking: Range
    calls: int = 0
    prompt: int = 0
    low: float = 0
    expected: float = 0
    high: float = 0
    kept: int = 0
    kept_failed: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    too_long: int = 0
    suspect: int = 0
    longest: tuple[int, Sheet] | None = None

    def add(self, sheet: Sheet, tokens: int) -> None:
        """One group that has to be asked."""
        self.calls += 1
        self.prompt += tokens
        entries, more = len(sheet.bodies), self.thinking
        self.low += self._bounded(ENTRY.low * entries + more.low)
        self.expected += self._bounded(ENTRY.expected * entries + more.expected)
        self.high += self._bounded(ENTRY.high * entries + more.high)
        if self.longest is None or tokens > self.longest[0]:
            self.longest = tokens, sheet

    def _bounded(self, tokens: float) -> float:
        return tokens if self.bound is None else min(tokens, self.bound)

    def estimate(self, ask: AskSettings, price: Price | None, stated: int | None) -> Estimate:
        """The sums as they are told; the high ones for every request that a group may take."""
        prompt = Range(
            round(PROMPT.low * self.prompt),
            round(PROMPT.expected * self.prompt),
            round(PROMPT.high * CALLS.high * self.prompt),
        )
        answers = Range(round(self.low), round(self.expected), round(self.high * CALLS.high))
        cost = cap = None
        if price is not None:
            cost = Range(
                _cost(price, prompt.low, answers.low),
                _cost(price, prompt.expected, answers.expected),
                _cost(price, prompt.high, answers.high),
            )
            cap = max(cost.high, self._reserved(ask, price, stated))
        return Estimate(
            Range(CALLS.low * self.calls, CALLS.expected * self.calls, CALLS.high * self.calls),
            prompt,
            answers,
            cost,
            cap,
            self.kept,
            self.kept_failed,
            self.identical_rollouts,
            self.tied_groups,
            self.too_long,
            self.suspect,
        )

    def _reserved(self, ask: AskSettings, price: Price, stated: int | None) -> float:
        """USD that the pool reserves for the longest request as long as it knows no usage.

        A cap below it would let not even one call go, however cheap that turned out to be.
        """
        if self.longest is None:
            return 0.0
        return price.of(Estimates(stated).highest(compose(self.longest[1], ask).request))


def _cost(price: Price, prompt: float, completion: float) -> float:
    return price.of(Usage(round(prompt), round(completion)))
