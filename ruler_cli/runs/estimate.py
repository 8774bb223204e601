"""Groups → an estimate of requests, tokens and USD, and statistics of the prompts; nothing is sent.

The layout of each group is built as for `score`. Each planned request is looked up in the ledger, and added
to the estimate of its judge if it has no reply. A layout of a gigabyte takes minutes, so large inputs are
sampled, and each sampled group counts for others with as many rollouts and about as many bytes. Figures have
a low, an expected and a high value. They rest on the constants below, which say if they are measured or
assumed; a run's summary has the actual cost.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Literal

from ruler_cli.files.index import place
from ruler_cli.formats.input import Input
from ruler_cli.formats.reader import SAMPLE
from ruler_cli.judges.providers import ModelInfo, Price, stated_limit
from ruler_cli.pool.limits import Estimates, Size
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.marks import shown_in
from ruler_cli.prompting.prompt import (
    PromptLayout,
    RequestPart,
    build_layout,
    pass_count,
    pass_of_judge,
    requests_of_pass,
    rubric_mistake,
    why_unseen,
)
from ruler_cli.prompting.questions import requests_about
from ruler_cli.scoring.rewards import number
from ruler_cli.settings.models import FIRST_PASSES, AskSettings
from ruler_cli.tokens import BYTES_PER_TOKEN, ESTIMATED_ANSWERS
from ruler_cli.types import (
    NO_USAGE,
    CallError,
    Group,
    Problem,
    Record,
    Reply,
    Request,
    Usage,
)

JudgeRole = Literal["panel", "fallback", "escalation"]
"""Use of a judge: for every group, after a refusal of the judge before, or for groups left unresolved."""
FindReply = Callable[[Request], Reply | CallError | None]
"""Look up the reply in the ledger; a CallError is a call that failed for good, None is no reply."""


@dataclass(frozen=True, slots=True)
class Range:
    """A figure with its bounds; low <= expected <= high."""

    low: float
    expected: float
    high: float

    def __add__(self, more: Range) -> Range:
        return map_ranges(operator.add, self, more)

    def __mul__(self, factor: Range) -> Range:
        return map_ranges(operator.mul, self, factor)


_VALUES = attrgetter("low", "expected", "high")


def map_ranges(function: Callable[..., float], *ranges: Range) -> Range:
    """Apply a function to the low, the expected and the high values."""
    return Range(*map(function, *map(_VALUES, ranges)))


CALLS = Range(1, 1, 2)
"""Calls for a request.

One, and in the high value a corrective request after an unusable answer. Identical groups share a request
but are counted each, since finding them takes memory that grows with the file. A third call, after a refusal,
a cut off answer or a smaller context, is not counted.
"""
PROMPT = Range(0.85, 1.0, 1.35)
"""Ratio of the tokens of a prompt to its bytes at BYTES_PER_TOKEN.

Expected is measured: on the rollouts of tau-bench the rate gives 500,918 tokens, OpenAI's o200k_base counts
495,962. Low and high are assumptions about other tokenizers.
"""
THINKING = Range(300, 1500, 8000)
"""Reasoning tokens for each request to a reasoning model, billed as completion tokens.

An assumption: they depend on the model, the requested effort and the group. A model that reasons only on
request may stay below the low value.
"""
ESCALATED = Range(0, 0.3, 1)
"""Share of the groups that are left undecided, so that a stronger judge is asked, whatever the ledger says.

Expected is between the means over the four files of docs/decisions.md, with one order (24 %) and with two (33 %);
the files differ from 0 to 75 %. It depends on judge and task; none and all are possible.
"""
ALWAYS = Range(1, 1, 1)
NEVER = Range(0, 0, 0)
_FURTHER = Range(0, 0.4, 1)
"""Share of the groups that a further pass of adaptive judging is made for; simulated: 0.2 to 0.4."""
_SHARES: dict[JudgeRole, Range] = {
    "panel": ALWAYS,
    "fallback": Range(0, 0, 1),
    "escalation": ESCALATED,
}
"""Share of the groups that a judge is asked about."""
_THINKING = {True: THINKING, False: NEVER, None: Range(0, 0, THINKING.high)}
"""Reasoning tokens by what is known of a model: one that is not in the price list may reason."""
_KEYS = 5
"""Keys of groups that are too long, as examples."""
_BITS = 8
"""Binary digits of a rollout's tokens that are counted: a quantile is exact to one part in 128."""
SMALL = 64 << 20
"""Largest input, in bytes, of which every group is used."""
_LEAST_SAMPLED = 32
_MOST_SAMPLED = 128
"""Groups of the sample of a large input, beside one of each kind."""
_SAMPLE_BYTES = 6 << 20
"""Bytes of a sample between these bounds."""


@dataclass(frozen=True)
class Totals:
    """Totals of one judge or of all judges, without requests that the ledger answers; fields as in JSON.

    `kept` counts requests that the ledger answers, `kept_failed` those of them that failed for good.
    `cost_usd` and `max_cost_usd` are None if a price is unknown; `max_cost_usd` is the least `max_cost`
    that admits every call at the high figures.
    """

    calls: Range
    kept: int
    kept_failed: int
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range | None
    max_cost_usd: float | None

    def __add__(self, more: Totals) -> Totals:
        """Add field by field; in `max_cost_usd` each judge has the reservation for its first call."""
        sums: dict[str, Any] = {}
        for name, first in vars(self).items():
            second = getattr(more, name)
            unknown = first is None or second is None
            sums[name] = None if unknown else first + second
        return Totals(**sums)


@dataclass(slots=True)
class JudgeEstimate:
    """Estimate of the requests to one judge of a run.

    `name` is the model's name as given. `find_reply` looks up replies in the ledger. `panel_index` decides
    the order of the judge's first pass. `calls`, `window_calls` and `usages` are sums with one call for each request;
    `usages` are by value (low, expected, high) and by thousand tokens of the prompt, since prices change with its
    length. `too_long` groups exceed the judge's context, `too_long_keys` are keys of
    the first; `windowed` groups need several requests a pass. `unseen` counts groups that fail for their pictures, by
    the reason.
    """

    name: str
    model: ModelInfo
    params: Mapping[str, Any] = field(default_factory=dict)
    find_reply: FindReply | None = None
    role: JudgeRole = "panel"
    panel_index: int = 0
    ask: AskSettings = field(default_factory=AskSettings)
    adaptive: bool = False
    calls: Range = Range(0.0, 0.0, 0)
    window_calls: Range = Range(0.0, 0.0, 0)
    usages: dict[tuple[int, int], Usage] = field(default_factory=dict)
    cached: int = 0
    cached_failed: int = 0
    too_long: int = 0
    windowed: int = 0
    too_long_keys: tuple[str, ...] = ()
    unseen: Counter[str] = field(default_factory=Counter)
    _dearest: list[Size] = field(default_factory=list)

    def add_group(
        self,
        key: str,
        layout: PromptLayout,
        weight: SampleWeight,
        share: Range = ALWAYS,
    ) -> None:
        """Add the requests of a group and of those that it stands for, of which a share are asked about."""
        groups = weight.groups
        limit = self.ask.context_tokens or math.inf
        index = pass_of_judge(0, self.panel_index)
        unseen = why_unseen(layout, self.ask)
        if unseen:
            self.unseen[unseen] += groups
            return
        first = requests_of_pass(layout, self.ask, index)
        if not first:
            self.too_long += groups
            self.too_long_keys = (*self.too_long_keys, key)[:_KEYS]
            return
        windowed = len(first) > 1 and self.ask.ask != "each"
        self.windowed += groups * windowed
        if layout.alone and self.role == "escalation":
            return  # a tied group is not escalated
        estimates = Estimates(stated_limit(self.params))
        missing = list[Size]()
        for part, request, times in self._planned(layout, len(first), share):
            size = layout.tokens_of(part.distinct)
            if request.by_probability:
                # by each criterion, its question is asked about each rollout
                size = estimates.size(request).prompt
            reply = self.find_reply(request) if self.find_reply else None
            # the groups that this one stands for are not looked up: the same is expected of them, and the
            # high values count them as not answered
            if reply is None:
                calls = times * Range(groups, groups, groups)
                missing.append(estimates.size(request))
            else:
                calls = Range(0, 0, times.high * (groups - 1))
                self.cached += groups
                self.cached_failed += groups * isinstance(reply, CallError)
            if windowed and len(part.distinct) < len(layout.distinct):
                self.window_calls += calls
            most = max(size, limit)
            mean = min(size * weight.mean, most)
            longest = min(size * weight.longest_ratio, most)
            self.add(Range(mean, mean, longest), request, calls)
        sizes = (self._dearest, missing)
        self._dearest = max(
            sizes, key=lambda calls: sum(size.prompt for size in calls)
        )

    def _planned(
        self, layout: PromptLayout, windows: int, share: Range
    ) -> Iterator[tuple[RequestPart, Request, Range]]:
        """Yield the requests about a group, with the number of times that each is made."""
        passes = pass_count(layout, self.ask, windows)
        if self.role == "escalation" and self.ask.ask != "each":
            passes = max(passes, FIRST_PASSES)
        for pass_index in range(passes):
            certain = not self.adaptive or pass_index < FIRST_PASSES
            times = share * (ALWAYS if certain else _FURTHER)
            index = pass_of_judge(pass_index, self.panel_index)
            for part in requests_of_pass(layout, self.ask, index):
                for request in requests_about(layout, self.ask, part):
                    yield part, request, times

    def add(self, tokens: Range, request: Request, times: Range) -> None:
        """Add a request that is made `times` times, given its prompt tokens."""
        self.calls += times
        longest = min(
            stated_limit(self.params) or math.inf,
            self.model.max_output or math.inf,
        )
        answer = Range(*map(request.answer_tokens, ESTIMATED_ANSWERS))
        if request.labels:
            answer += _THINKING[self.model.reasoning]
        else:  # the first word of an answer
            answer = ALWAYS
        answer = map_ranges(lambda tokens: min(tokens, longest), answer)
        written = Range(0, request.common / max(1, request.size), 1)
        values: Iterator[Any] = zip(
            *map(_VALUES, (tokens * PROMPT, answer, written, times)),
            strict=True,
        )
        for at, (prompt, completion, share, weight) in enumerate(values):
            key = at, int((prompt - 1) // 1000)
            usage = Usage(
                prompt * weight,
                completion * weight,
                0,
                weight,
                prompt * share * weight,
            )
            self.usages[key] = self.usages.get(key, NO_USAGE) + usage

    def _sum(self, amount: Callable[[Usage], float]) -> Range:
        values = [0.0, 0.0, 0.0]
        for (at, _), usage in self.usages.items():
            values[at] += amount(usage)
        return Range(*values)

    def totals(self, price: Price | None, calls: Range = CALLS) -> Totals:
        """Return the totals at a price, with each request made `calls` times.

        The pool holds the price of the first group until it knows a usage: a lower `max_cost` might not let it begin.
        """
        if not self.calls.high:
            # no call is left, so an unknown price does not count
            price = Price(0.0, 0.0, 0.0)
        prompt = map_ranges(round, self._sum(attrgetter("prompt")) * calls)
        answers = map_ranges(round, self._sum(attrgetter("completion")) * calls)
        cost = cap = None
        if price is not None:
            cost = self._sum(price.of) * calls
            cap = cost.high
            first = map(Estimates().highest, self._dearest)
            cap = max(cap, sum(map(price.of, first)))
        return Totals(
            self.calls * calls,
            self.cached,
            self.cached_failed,
            prompt,
            answers,
            cost,
            cap,
        )


@dataclass(slots=True)
class Estimate:
    """Estimates of all judges, and statistics of the prompts.

    `laid_out` groups stand for all groups; `exact` if these are all. `sizes` counts groups by their number of
    rollouts. Groups with equal original rewards teach nothing. `spread` is the sum, over the `spreads`
    groups with two rewards or more, of the highest less the lowest. `shared` of the `bytes` of prompts are
    context and tools that all rollouts of a group have. `lengths` counts rollouts by their tokens, shared
    ones included. Suspect rollouts address a judge. `coverage` is of the groups laid out. `pictures` counts those of
    groups, `pictures_left_out` those of them that are not shown, and `faults` the reasons why rollouts have pictures
    that cannot be sent.
    """

    judges: Sequence[JudgeEstimate]
    laid_out: int = 0
    exact: bool = True
    sizes: Counter[int] = field(default_factory=Counter)
    equal_reward_groups: int = 0
    spread: float = 0.0
    spreads: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    suspect_rollouts: int = 0
    bytes: int = 0
    shared: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    pictures: int = 0
    pictures_left_out: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    mistakes: Counter[str] = field(default_factory=Counter)

    @property
    def totals(self) -> Totals:
        """Return the totals of all judges together."""
        first, *others = (
            judge.totals(judge.model.price) for judge in self.judges
        )
        return sum(others, first)

    @property
    def widest(self) -> JudgeEstimate:
        """Return the judge on the panel with the largest context: groups too long for it fail."""
        panel = (judge for judge in self.judges if judge.role == "panel")
        return min(panel, key=lambda judge: judge.too_long)

    @property
    def comparable(self) -> int:
        """Return the number of groups with two distinct rollouts or more."""
        return self.sizes.total() - self.tied_groups

    def _add_faults(
        self, group: Group, layout: PromptLayout, groups: int
    ) -> None:
        """Count what keeps a group from being judged, but for the mistakes of single records."""
        for fault in layout.faults.values():
            self.faults[fault] += groups
        if group.mistake and not any(
            record.rubric_error for record in group.records
        ):
            self.mistakes[group.mistake] += groups

    def add(self, group: Group, weight: SampleWeight) -> None:
        """Add a group and those that it stands for; judges share its layout if it needs no shortening."""
        first = self.judges[0].ask
        groups = weight.groups
        layout = build_layout(group, first)
        # the owner and the reward of each rollout: several records may be parts of one
        owners: dict[int | str, int] = {}
        rewards: dict[int | str, float | None] = {}
        pairs = zip(group.rollouts, layout.owner, strict=True)
        for at, (rollout, owner) in enumerate(pairs):
            name = at if rollout.member is None else rollout.member
            if owner is not None:
                owners[name] = owner
            if rollout.error is None:
                # as in judging, the last part that has a reward decides
                reward = number(rollout.reward)
                rewards[name] = rewards.get(name) if reward is None else reward
        if rewards:
            self.sizes[len(rewards)] += groups
        numbers = [reward for reward in rewards.values() if reward is not None]
        if len(numbers) > 1:
            spread = max(numbers) - min(numbers)
            self.spread += groups * spread
            self.spreads += groups
            if not spread and len(numbers) == len(rewards):
                self.equal_reward_groups += groups
        self._add_faults(group, layout, groups)
        if not layout.distinct:
            return
        if layout.pictures:
            texts = (layout.context, *layout.distinct)
            shown = sum(len(shown_in(text, layout.pictures)) for text in texts)
            self.pictures += groups * (shown + layout.left_out)
            self.pictures_left_out += groups * layout.left_out
        self.laid_out += 1
        self.exact = self.exact and groups == 1
        self.coverage.add(group, layout)
        suspects = sum(owner in layout.suspects for owner in layout.owner)
        self.identical_rollouts += groups * (len(owners) - len(layout.distinct))
        # one that is asked about alone has a score of its own
        single = len(owners) == 1 and any(
            j.ask.ask == "each" for j in self.judges
        )
        self.tied_groups += groups * (layout.alone and not single)
        self.suspect_rollouts += groups * suspects
        common = layout.context_size + len(layout.tools.encode())
        sizes = layout.sizes
        self.shared += groups * common
        self.bytes += groups * (common + sum(sizes))
        for owner in owners.values():
            tokens = int((common + sizes[owner]) / BYTES_PER_TOKEN)
            self.lengths[leading_bits(tokens, _BITS)] += groups
        self._add_requests(group, layout, weight)

    def _add_requests(
        self, group: Group, layout: PromptLayout, weight: SampleWeight
    ) -> None:
        """Add the requests of each judge; `layout` is that of the first."""
        first = self.judges[0].ask
        for judge in self.judges:
            limit = judge.ask.context_tokens
            shown = layout
            fits = not layout.shortening and (
                limit is None or layout.tokens <= limit
            )
            counted = (
                not layout.pictures or judge.ask.judge_model == layout.model
            )
            if (not fits and judge.ask != first) or not counted:
                shown = build_layout(group, judge.ask)
            judge.add_group(group.key, shown, weight, _SHARES[judge.role])


@dataclass(slots=True)
class ValueCounts:
    """Statistics of one value of all rollouts: counts of `absent`, `no_number` and `numbers`.

    `total`, `lowest` and `highest` are of the numbers. `of_truth`: all numbers are 0 or 1.
    """

    absent: int = 0
    no_number: int = 0
    numbers: int = 0
    total: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    of_truth: bool = True

    def add(self, value: Any) -> None:
        """Add the value of one rollout."""
        reward = number(value)
        if reward is None:
            self.absent += value is None
            self.no_number += value is not None
            return
        self.numbers += 1
        self.total += reward
        self.lowest = min(self.lowest, reward)
        self.highest = max(self.highest, reward)
        self.of_truth &= reward in (0.0, 1.0)

    @property
    def seen(self) -> bool:
        """Return whether any rollout has the value."""
        return self.numbers + self.no_number > 0

    @property
    def facts(self) -> dict[str, Any]:
        """Return the counts, and minimum, mean and maximum of the numbers; None without numbers."""
        empty = not self.numbers
        return {
            "numbers": self.numbers,
            "absent": self.absent,
            "no_number": self.no_number,
            "min": None if empty else self.lowest,
            "mean": None if empty else self.total / self.numbers,
            "max": None if empty else self.highest,
        }


@dataclass
class InputCounts:
    """Counts of records, bytes and rollouts, statistics of rewards and outcomes, and the first records.

    `ended` counts rollouts by how they ended. `on_problem` gets each record or rollout that cannot be judged.
    """

    on_problem: Callable[[Problem], object]
    bytes: int = 0
    records: int = 0
    rollouts: int = 0
    rewards: ValueCounts = field(default_factory=ValueCounts)
    outcomes: ValueCounts = field(default_factory=ValueCounts)
    ended: Counter[str] = field(default_factory=Counter)
    first: list[Record] = field(default_factory=list)
    own_rubrics: int = 0

    def again(self) -> None:
        """Start over, because the grouping changed; problems are reported already."""
        vars(self).update(vars(InputCounts(lambda _: None)))

    def add(self, record: Record, rollouts: int) -> None:
        """Add one record; `rollouts` is the number of rollouts that begin in it."""
        line = record.line
        self.records += 1
        self.bytes += len(line.raw) // record.parts
        if len(self.first) < SAMPLE:
            self.first.append(record)
        problem = partial(Problem, line.number, raw=b"", place=line.place)
        if not record.rollouts:
            self.on_problem(problem("is a group without trajectories"))
        self.own_rubrics += record.rubric is not None
        if mistake := rubric_mistake(record):
            begin = (
                "with a mistake in" if mistake[:9] == "criterion" else "that"
            )
            self.on_problem(problem(f"has a rubric {begin} {mistake}"))
        for rollout in record.rollouts:
            if rollout.error is not None:
                self.on_problem(problem(rollout.problem))
                continue
            if rollouts > 0:  # later parts of a rollout are counted already
                self.rollouts += 1
                self.rewards.add(rollout.reward)
                self.outcomes.add(rollout.outcome)
                self.ended[rollout.ended] += 1
            rollouts -= 1


@dataclass(slots=True)
class SampleWeight:
    """Groups that a sampled group of `size` bytes stands for, with itself; their bytes, and the longest."""

    size: int = 1
    groups: int = 1
    bytes: int = 1
    longest: int = 1

    @property
    def mean(self) -> float:
        """Ratio of their mean size to that of the sampled group."""
        return self.bytes / self.groups / self.size

    @property
    def longest_ratio(self) -> float:
        """Ratio of the longest size to that of the sampled group."""
        return self.longest / self.size


def sample(source: Input, size: int) -> Iterator[tuple[Group, SampleWeight]]:
    """Yield groups of an input of `size` bytes with their weights: all groups of a small input or a stream.

    Of a large input these are the first group of each kind, and some of those that follow, in an order that
    is independent of the input's. A kind is sampled in proportion to its bytes.
    """
    survey = source.survey
    if survey is None or size <= SMALL:
        yield from ((group, SampleWeight()) for group in source.groups)
        return
    size = max(1, size * survey.mine // survey.groups)
    samples = _SAMPLE_BYTES * survey.groups // size
    samples = min(_MOST_SAMPLED, max(_LEAST_SAMPLED, samples))
    weights: dict[int, SampleWeight] = {}
    last: dict[tuple[int, int], SampleWeight] = {}
    for record, rollouts, length in source.index.groups():
        kind = leading_bits(rollouts, 6), leading_bits(length, 3)
        weight = last.get(kind)
        if weight is None or weight.bytes + length > size / samples:
            last[kind] = weights[record] = SampleWeight(
                length, 1, length, length
            )
            continue
        weight.groups += 1
        weight.bytes += length
        weight.longest = max(weight.longest, length)
    for group in source.picked(weights):
        yield group, weights[place(group.records[0])]


def leading_bits(number: int, digits: int) -> int:
    """Round a number down to its first binary digits."""
    dropped = max(0, number.bit_length() - digits)
    return number >> dropped << dropped
