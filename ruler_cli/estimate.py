"""Groups → what judging them would take, without a call.

Each figure has a low, an expected and a high value. They rest on the constants below, which are
measured where they say so and assumptions where not; what a run is really charged stands in its summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ruler_cli.judges.prices import Model, Price
from ruler_cli.pool.estimates import Estimates, stated_bound
from ruler_cli.quantiles import rounded
from ruler_cli.records import Fault, Group, Reply, Request, Usage
from ruler_cli.scoring.request import BYTES_PER_TOKEN, Sheet, compose, lay_out
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
SHOWN = 5
"""Keys of groups that are too long, to look at."""
_NO_THINKING = Range(0, 0, 0)
_PERHAPS_THINKING = Range(0, 0, THINKING.high)
"""Of a model that the price list does not name: it may reason, which the high value allows for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls, tokens and USD of one pass over what the ledger lacks.

    `cost_usd` and `cap_usd` are None where the price is not known. `cap_usd` is what `--max-cost` must
    be at least, to let every call go at the high figures. `kept` counts first requests that the ledger
    answers, `kept_failed` those among them that it knows to have failed for good. `too_long` groups do
    not fit the judge's context and are not asked; `too_long_keys` are the first of them.

    `groups` have something to judge, and `laid_out` of them were rendered. Where these are fewer, calls
    and entries are counted, and the other figures are extrapolated: `kept`, `suspect`, `shared`, the
    tokens, and how many seem identical or too long are. `shared` is the share of the prompts' bytes
    that stands in a context or in tools which all rollouts of a group have. `lengths` counts rollouts of
    each number of tokens, what they share included.
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
    groups: int = 0
    laid_out: int = 0
    shared: float = 0.0
    too_long_keys: tuple[str, ...] = ()
    lengths: Counter[int] = field(default_factory=Counter)


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
    seen = Seen(ask, model, kept)
    total = Total.of(model, params)
    for group in groups:
        sheet = seen.look(group)
        if sheet is not None:
            total.add(sheet.tokens, len(sheet.bodies))
            total.longest = max(total.longest, (sheet.tokens, sheet), key=lambda pair: pair[0])
    return total.estimate(ask, model.price, seen, seen.groups)


@dataclass(slots=True)
class Seen:
    """What groups that were laid out have shown."""

    ask: AskSettings
    model: Model
    shelf: Kept | None = None
    groups: int = 0
    rollouts: int = 0
    kept: int = 0
    kept_failed: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    too_long: int = 0
    suspect: int = 0
    bytes: int = 0
    shared: int = 0
    keys: tuple[str, ...] = ()
    lengths: Counter[int] = field(default_factory=Counter)

    def look(self, group: Group, sheet: Sheet | None = None) -> Sheet | None:
        """Take a group in; its sheet, None where it need not be asked."""
        sheet = sheet or lay_out(group, self.ask)
        if not sheet.bodies:
            return None
        self.groups += 1
        rollouts = {
            i if rollout.member is None else rollout.member: body
            for i, (rollout, body) in enumerate(zip(group.rollouts, sheet.owner, strict=True))
            if body is not None
        }
        self.rollouts += len(rollouts)
        self.identical_rollouts += len(rollouts) - len(sheet.bodies)
        self.tied_groups += sheet.alone
        common = len(sheet.context.encode()) + len(sheet.tools.encode())
        self.shared += common
        sizes = [len(body.encode()) for body in sheet.bodies]
        self.bytes += common + sum(sizes)
        for body in rollouts.values():
            self.lengths[rounded(int((common + sizes[body]) / BYTES_PER_TOKEN))] += 1
        if sheet.suspects:
            self.suspect += sum(1 for owner in sheet.owner if owner in sheet.suspects)
        if self.model.context is not None and sheet.tokens > self.model.context:
            self.too_long += 1
            self.keys = (*self.keys, group.key)[:SHOWN]
            return None
        if self.shelf is None:
            return sheet
        answer = self.shelf.find(self.shelf.key(compose(sheet, self.ask).request))
        self.kept += answer is not None
        self.kept_failed += isinstance(answer, Fault)
        return sheet if answer is None else None


def answer_bound(stated: int | None, model: Model) -> int | None:
    """The most completion tokens of one request: by the user's own parameter, and by the model."""
    return min((n for n in (stated, model.max_output) if n), default=None)


def _thinking(model: Model) -> Range:
    if model.reasoning is None:
        return _PERHAPS_THINKING
    return THINKING if model.reasoning else _NO_THINKING


@dataclass(slots=True)
class Total:
    """The sums on the way over groups that have to be asked, and the longest of them.

    `part` of them is asked, as far as is known: it scales what is low and expected. `asked` is how many
    groups count for those.
    """

    stated: int | None
    bound: int | None
    thinking: Range
    calls: int = 0
    asked: float = 0
    prompt: float = 0
    prompt_high: float = 0
    low: float = 0
    expected: float = 0
    high: float = 0
    part: float = 1.0
    longest: tuple[int, Sheet | None] = (0, None)

    @classmethod
    def of(cls, model: Model, params: Mapping[str, Any] | None) -> Total:
        """Nothing yet, with the bound that model and parameters set to an answer."""
        stated = stated_bound(params or {})
        return cls(stated, answer_bound(stated, model), _thinking(model))

    def add(self, tokens: float, entries: int, high: float | None = None, likely: float = 1.0) -> None:
        """One group: tokens of its prompt, at most `high`, and rollouts that differ.

        `likely` is how likely it is to be asked.
        """
        more = self.thinking
        self.calls += 1
        self.asked += likely
        self.prompt += tokens * likely
        self.prompt_high += tokens if high is None else high
        self.low += likely * self._bounded(ENTRY.low * entries + more.low)
        self.expected += likely * self._bounded(ENTRY.expected * entries + more.expected)
        self.high += self._bounded(ENTRY.high * entries + more.high)

    def _bounded(self, tokens: float) -> float:
        return tokens if self.bound is None else min(tokens, self.bound)

    def estimate(self, ask: AskSettings, price: Price | None, seen: Seen, groups: int) -> Estimate:
        """The sums as they are told; the high ones for every request that a group may take."""
        part = self.part
        asked = self.asked * part
        prompt = Range(
            round(PROMPT.low * self.prompt * part),
            round(PROMPT.expected * self.prompt * part),
            round(PROMPT.high * CALLS.high * self.prompt_high),
        )
        answers = Range(round(self.low * part), round(self.expected * part), round(self.high * CALLS.high))
        cost = cap = None
        if price is not None:
            cost = Range(
                _cost(price, prompt.low, answers.low),
                _cost(price, prompt.expected, answers.expected),
                _cost(price, prompt.high, answers.high),
            )
            cap = max(cost.high, self._reserved(ask, price))
        return Estimate(
            Range(CALLS.low * asked, CALLS.expected * asked, CALLS.high * self.calls),
            prompt,
            answers,
            cost,
            cap,
            seen.kept,
            seen.kept_failed,
            seen.identical_rollouts,
            seen.tied_groups,
            seen.too_long,
            seen.suspect,
            groups,
            seen.groups,
            seen.shared / seen.bytes if seen.bytes else 0.0,
            seen.keys,
            seen.lengths,
        )

    def _reserved(self, ask: AskSettings, price: Price) -> float:
        """USD that the pool reserves for the longest request as long as it knows no usage.

        A cap below it would let not even one call go, however cheap that turned out to be.
        """
        sheet = self.longest[1]
        if sheet is None:
            return 0.0
        return price.of(Estimates(self.stated).highest(compose(sheet, ask).request))


def _cost(price: Price, prompt: float, completion: float) -> float:
    return price.of(Usage(round(prompt), round(completion)))
