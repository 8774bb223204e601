"""Groups → what judging them would take, without a call: requests, tokens, USD, and what the prompts show.

Each group is laid out as `score` would, and every request that the plan has for it is looked up in the
ledger and added to its judge's bill. Laying out a gigabyte takes minutes, so of a large input some groups
are laid out, and each is counted for others with as many rollouts and about as many bytes. Figures have a
low, an expected and a high value. They rest on the constants below, which are measured where they say so
and assumptions where not; a run's summary has what it was really charged.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

from ruler_cli.batch.request_files import Limits
from ruler_cli.config import AskSettings
from ruler_cli.formats.rewards import number
from ruler_cli.judges.pricing import Price, PricedModel
from ruler_cli.judges.request_body import stated_limit
from ruler_cli.pool.budget import Estimates
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.layout import BYTES_PER_TOKEN, PromptLayout
from ruler_cli.prompting.prompt import (
    RequestPart,
    build_layout,
    pass_count,
    pass_of_judge,
    requests_of_pass,
    write_prompt,
)
from ruler_cli.reading.sample import Share
from ruler_cli.scoring.sums import rounded
from ruler_cli.types import CallError, Group, Reply, Request, Usage

Role = Literal["panel", "fallback", "escalation"]
"""When a judge is asked: always, where the one before refuses, or where passes leave a group unresolved."""
Find = Callable[[Request], Reply | CallError | None]
"""Looks up what was answered before; a CallError is a call that failed for good."""


@dataclass(frozen=True, slots=True)
class Range:
    """One figure three times; low <= expected <= high."""

    low: float
    expected: float
    high: float

    def __add__(self, other: Range) -> Range:
        """The figures of both."""
        return each(operator.add, self, other)

    def __mul__(self, other: Range) -> Range:
        """Each value times the same one of the other."""
        return each(operator.mul, self, other)


def each(of: Callable[..., float], *ranges: Range) -> Range:
    """A figure that follows from others, value by value."""
    return Range(
        of(*(one.low for one in ranges)),
        of(*(one.expected for one in ranges)),
        of(*(one.high for one in ranges)),
    )


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
_ASKED: dict[Role, Range] = {"panel": ALWAYS, "fallback": Range(0, 0, 1), "escalation": ESCALATED}
"""How often a judge is asked about a group; one that is asked where another refuses is expected not to be."""
_LEAST_ADAPTIVE = 2
"""Passes that `--adaptive` spends on every group, before it spends where they help."""
_PERHAPS_THINKING = Range(0, 0, THINKING.high)
"""Of a model that the price list does not name: it may reason, which the high value allows for."""
_WRITTEN = 1.08
"""Bytes of a prompt in a request file to its own, since quotes and line breaks are escaped: as measured on
the rollouts of tau-bench, where 1,874,287 become 2,020,220.
"""
_FRAME = 608
"""Bytes of a line of a request file without its prompt, most of them the schema of the answer: measured."""
_KEYS = 5
"""Keys of groups that are too long, to look at."""
_ONE = Share()


@dataclass(frozen=True, slots=True)
class Figures:
    """What is left to ask and what it takes, of one judge or of all.

    `kept` counts requests that the ledger answers, `kept_failed` those of them that failed for good.
    `cost_usd` and `max_cost_usd` are None where a price is not known; `max_cost_usd` is the least
    `--max-cost` that lets every call go at the high figures.
    """

    calls: Range
    kept: int
    kept_failed: int
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range | None
    max_cost_usd: float | None

    def __add__(self, other: Figures) -> Figures:
        """The figures of both: each judge adds to the cap what the pool reserves for its first call, too."""
        sums: list[Any] = []
        for one in fields(self):
            mine, more = getattr(self, one.name), getattr(other, one.name)
            sums.append(None if mine is None or more is None else mine + more)
        return Figures(*sums)


@dataclass(slots=True)
class Bill:
    """One judge of a run, the requests that it is left to be asked, and what of all was asked before.

    `find` looks up what it answered before. `place` is its number on the panel, which says with which
    order it begins. `calls`, `window_calls`, `prompt` and `answers` are sums over requests that are asked
    once. `too_long` groups do not fit the judge's context, `keys` are the first of them; `windowed` groups
    are shown in windows.
    """

    judge: str
    model: PricedModel
    params: Mapping[str, Any] = field(default_factory=dict)
    find: Find | None = None
    role: Role = "panel"
    place: int = 0
    ask: AskSettings = field(default_factory=AskSettings)
    adaptive: bool = False
    calls: Range = Range(0.0, 0.0, 0)
    window_calls: Range = Range(0.0, 0.0, 0)
    prompt: Range = NEVER
    answers: Range = NEVER
    kept: int = 0
    kept_failed: int = 0
    too_long: int = 0
    windowed: int = 0
    keys: tuple[str, ...] = ()
    _longest: tuple[int, Request | None] = (-1, None)

    def take(self, key: str, sheet: PromptLayout, share: Share = _ONE) -> None:
        """Add the requests of a group and of those it stands for."""
        first = requests_of_pass(sheet, self.ask, pass_of_judge(0, self.place))
        if not first:
            self.too_long += share.groups
            self.keys = (*self.keys, key)[:_KEYS]
            return
        windowed = len(first) > 1
        self.windowed += share.groups * windowed
        for turn in range(pass_count(sheet, self.ask, len(first))):
            often = self._often(turn, alone=sheet.alone)
            passes = requests_of_pass(sheet, self.ask, pass_of_judge(turn, self.place)) if often.high else []
            for part in passes:
                self._request(sheet, part, often, share, windowed=windowed)

    def add(self, tokens: Range, entries: int, often: Range, *, windowed: bool = False) -> None:
        """Add a request that is made so `often`: tokens of its prompt, and rollouts that differ."""
        self.calls += often
        if windowed:
            self.window_calls += often
        self.prompt += tokens * often
        reasons = self.model.reasoning
        thinking = _PERHAPS_THINKING if reasons is None else THINKING if reasons else NEVER
        answer = Range(entries, entries, entries) * ENTRY + thinking
        if bounds := [n for n in (stated_limit(self.params), self.model.max_output) if n]:
            answer = each(partial(min, *bounds), answer)
        self.answers += answer * often

    def figures(self, price: Price | None, calls: Range = CALLS) -> Figures:
        """The sums at a price, each request asked `calls` times.

        The pool reserves the price of the longest request as long as it knows no usage: a cap below that
        would let not even one call go, however cheap it turned out to be.
        """
        prompt, answers = each(round, self.prompt * (PROMPT * calls)), each(round, self.answers * calls)
        cost = cap = None
        if price is not None:
            cost = each(lambda *tokens: price.of(Usage(*tokens)), prompt, answers)
            _, longest = self._longest
            highest = Estimates(stated_limit(self.params)).highest
            cap = cost.high if longest is None else max(cost.high, price.of(highest(longest)))
        return Figures(self.calls * calls, self.kept, self.kept_failed, prompt, answers, cost, cap)

    def batches(self, limits: Limits) -> Range:
        """How many batches hold the requests, by the number and the bytes that one may have."""

        def needed(calls: float, tokens: float) -> int:
            size = tokens * BYTES_PER_TOKEN * _WRITTEN + calls * _FRAME
            by_number = calls / limits.requests if limits.requests else 0.0
            return math.ceil(max(by_number, size / limits.bytes if limits.bytes else 0.0))

        return each(needed, self.calls * CALLS, self.prompt * CALLS)

    def _request(
        self, sheet: PromptLayout, part: RequestPart, often: Range, share: Share, *, windowed: bool
    ) -> None:
        """Add one request, or count it as kept if it was answered before.

        Of groups that are not looked up because this one stands for them the same is expected; the high
        values have them as not answered.
        """
        size, groups = sheet.tokens_of(part.distinct), share.groups
        request = write_prompt(sheet, self.ask, part) if self.find or size > self._longest[0] else None
        answer = self.find(request) if self.find and request else None
        if answer is None:
            often *= Range(groups, groups, groups)
            if size > self._longest[0]:
                self._longest = size, request
        else:
            often = Range(0, 0, often.high * (groups - 1))
            self.kept += groups
            self.kept_failed += groups if isinstance(answer, CallError) else 0
        limit = self.ask.context_tokens or math.inf
        mean, most = (min(size * times, max(size, limit)) for times in (share.mean, share.most))
        self.add(Range(mean, mean, most), len(part.distinct), often, windowed=windowed)

    def _often(self, turn: int, *, alone: bool) -> Range:
        """How often a request of one pass, counted from 0, is made.

        Adaptive passes are allotted over all groups, as many on average as were asked for: the first two to
        every group, and the others are expected to be spent, though not each on its own group.
        """
        if alone and self.role == "escalation":
            return NEVER  # it is tied
        return _ASKED[self.role] * (ALWAYS if not self.adaptive or turn < _LEAST_ADAPTIVE else _ALLOWED)


@dataclass(slots=True)
class Estimate:
    """The bills of all judges, and what the groups that were laid out have shown, whoever judges them.

    `laid_out` groups stand for all that are counted. `sizes` counts groups of each number of rollouts, the
    parts of one joined. Of `equal` groups the own rewards are all the same and teach nothing; `spreads` are
    of groups that have two, highest less lowest, and `spread` is their sum. `shared` of the prompts' `bytes`
    stand in a context or in tools which all rollouts of a group have. `lengths` counts rollouts of each
    number of tokens, what they share included. `coverage` is of the groups that were laid out.
    """

    bills: tuple[Bill, ...]
    laid_out: int = 0
    exact: bool = True
    sizes: Counter[int] = field(default_factory=Counter)
    equal: int = 0
    spread: float = 0.0
    spreads: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    suspect: int = 0
    bytes: int = 0
    shared: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def figures(self) -> Figures:
        """All judges together."""
        first, *others = (bill.figures(bill.model.price) for bill in self.bills)
        return sum(others, first)

    @property
    def widest(self) -> Bill:
        """The judge that reads most of those that score every group: what is too long for it fails."""
        return min((bill for bill in self.bills if bill.role == "panel"), key=lambda bill: bill.too_long)

    def take(self, group: Group, share: Share) -> None:
        """Take in a group and those that it stands for; it is laid out once for all that see the same."""
        first = self.bills[0].ask
        sheet = build_layout(group, first)
        self._count(group, share.groups)
        if not sheet.distinct:
            return
        self.laid_out += 1
        self.exact = self.exact and share.groups == 1
        self.coverage.look(group, sheet)
        self._look(group, sheet, share.groups)
        for bill in self.bills:
            limit = bill.ask.context_tokens
            whole = not sheet.shortening and (limit is None or sheet.tokens <= limit)
            own = sheet if whole or bill.ask == first else build_layout(group, bill.ask)
            bill.take(group.key, own, share)

    def _count(self, group: Group, groups: int) -> None:
        """Count the rollouts that can be judged, and compare their rewards."""
        rewards: dict[int | str, float | None] = {}
        for i, rollout in enumerate(group.rollouts):
            if rollout.error is None:
                name, reward = i if rollout.member is None else rollout.member, number(rollout.reward)
                rewards[name] = max((r for r in (reward, rewards.get(name)) if r is not None), default=None)
        if not rewards:
            return
        self.sizes[len(rewards)] += groups
        known = [reward for reward in rewards.values() if reward is not None]
        if len(known) > 1:
            self.spread += groups * (max(known) - min(known))
            self.spreads += groups
            self.equal += groups * (len(known) == len(rewards) and max(known) == min(known))

    def _look(self, group: Group, sheet: PromptLayout, groups: int) -> None:
        """Add what the prompts show."""
        rollouts = {
            i if rollout.member is None else rollout.member: body
            for i, (rollout, body) in enumerate(zip(group.rollouts, sheet.owner, strict=True))
            if body is not None
        }
        self.identical_rollouts += groups * (len(rollouts) - len(sheet.distinct))
        self.tied_groups += groups * sheet.alone
        self.suspect += groups * sum(owner in sheet.suspects for owner in sheet.owner)
        common = len(sheet.context.encode()) + len(sheet.tools.encode())
        sizes = [len(body.encode()) for body in sheet.distinct]
        self.shared += groups * common
        self.bytes += groups * (common + sum(sizes))
        for body in rollouts.values():
            self.lengths[rounded(int((common + sizes[body]) / BYTES_PER_TOKEN))] += groups


def estimate(groups: Iterable[tuple[Group, Share]], bills: Sequence[Bill]) -> Estimate:
    """Add up what groups take, in memory that does not grow with them; the first judge is on the panel."""
    found = Estimate(tuple(bills))
    for group, share in groups:
        found.take(group, share)
    return found
