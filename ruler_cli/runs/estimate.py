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
from typing import Any, Literal

from ruler_cli.files.index import place
from ruler_cli.files.values import words
from ruler_cli.formats.reader import SAMPLE
from ruler_cli.judges.providers import ModelInfo, stated_limit
from ruler_cli.ledger.reply_cache import ReplyCache
from ruler_cli.pool.limits import Estimates
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.pictures import shown_in
from ruler_cli.prompting.prompt import (
    PromptLayout,
    build_layout,
    pass_count,
    pass_of_judge,
    requests_of_pass,
    rubric_mistake,
    why_unseen,
)
from ruler_cli.prompting.questions import requests_about
from ruler_cli.runs.input import Input
from ruler_cli.scoring.rewards import number
from ruler_cli.settings.models import FIRST_PASSES, AskSettings
from ruler_cli.tokens import ESTIMATED_ANSWERS
from ruler_cli.types import (
    Group,
    Problem,
    Record,
    Request,
    Rollout,
    Usage,
    value,
)

JudgeRole = Literal["panel", "escalation"]
"""Use of a judge: for every group, or for groups left undecided."""


@value
class Range:
    """A figure with its bounds; low <= expected <= high."""

    low: float
    expected: float
    high: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.expected, self.high))

    def __add__(self, more: Range) -> Range:
        return Range(
            *map(
                operator.add,
                self,
                more,
            )
        )

    def __mul__(self, factor: Range) -> Range:
        return Range(
            *map(
                operator.mul,
                self,
                factor,
            )
        )


CALLS = Range(
    1,
    1,
    2,
)
"""Calls for a request.

One, and in the high value a corrective request after an unusable answer. Identical groups share a request
but are counted each, since finding them takes memory that grows with the file. A third call, after a refusal,
a cut off answer or a smaller context, is not counted.
"""
LEAST_PROMPT = 0.85
"""Ratio of the fewest tokens of a prompt to those expected.

Measured: on the rollouts of tau-bench 500,918 tokens are expected, OpenAI's o200k_base counts 495,962. The least is
an assumption about other tokenizers; the most are those for which the pool reserves money.
"""
THINKING = Range(
    300,
    1500,
    8000,
)
"""Reasoning tokens for each request to a reasoning model, billed as completion tokens.

An assumption: they depend on the model, the requested effort and the group. A model that reasons only on
request may stay below the low value.
"""
ESCALATED = Range(
    0,
    0.3,
    1,
)
"""Share of the groups that are left undecided, so that a stronger judge is asked, whatever the ledger says.

Expected is between the means over the four files of docs/evidence.md, with one order (24 %) and with two (33 %);
the files differ from 0 to 75 %. It depends on judge and task; none and all are possible.
"""
ALWAYS = Range(
    1,
    1,
    1,
)
NEVER = Range(
    0,
    0,
    0,
)
_FURTHER = Range(
    0,
    0.4,
    1,
)
"""Share of the groups that a further pass of adaptive judging is made for; simulated: 0.2 to 0.4."""
_SHARES: dict[JudgeRole, Range] = {"panel": ALWAYS, "escalation": ESCALATED}
"""Share of the groups that a judge is asked about."""
_THINKING = {
    True: THINKING,
    False: NEVER,
    None: Range(
        0,
        0,
        THINKING.high,
    ),
}
"""Reasoning tokens by what is known of a model: one that is not in the price list may reason."""
SMALL = 64 << 20
"""Largest input, in bytes, of which every group is used."""
_SAMPLED = 256
_SAMPLED_BYTES = 64 << 20
"""Groups of the sample of a large input, at the most, and their bytes."""


TOTALS = words("calls cached prompt_tokens completion_tokens cost_usd")
"""Figures of a judge that add up to those of all judges, as in JSON."""
TOO_LONG = "too long for the judge, however few rollouts it sees at once"
"""Why a group cannot be scored of which no two rollouts fit."""
COUNTS = words(
    "identical_rollouts tied_groups equal_reward_groups suspect_rollouts pictures pictures_left_out laid_out"
)
"""Counts of groups and rollouts, by their names in JSON."""


@dataclass(slots=True)
class JudgeEstimate:
    """Estimate of the requests to one judge of a run, without those that the ledger answers, which are `cached`.

    `name` is the model's name as given. `cache` has its replies in the ledger, if there is one. `panel_index` decides
    the order of the judge's first pass. `windowed` groups need several requests a pass; the `longest_prompt` is in
    tokens. With the high value of the cost as its cap a run is not stopped by it: no request is held more money for.
    """

    name: str
    model: ModelInfo
    params: Mapping[str, Any] = field(default_factory=dict)
    cache: ReplyCache | None = None
    role: JudgeRole = "panel"
    panel_index: int = 0
    ask: AskSettings = field(default_factory=AskSettings)
    adaptive: bool = False
    calls: Range = NEVER
    cached: int = 0
    prompt_tokens: Range = NEVER
    completion_tokens: Range = NEVER
    cost: Range = NEVER
    longest_prompt: int = 0
    windowed: int = 0

    @property
    def cost_usd(self) -> Range | None:
        """The cost; None if a call is left and its price is not known."""
        priced = self.model.price or not self.calls.high
        return self.cost if priced else None

    def add_group(
        self,
        layout: PromptLayout,
        groups: int,
        ratio: float,
    ) -> str:
        """Add the requests of a group that stands for several, whose mean size has a ratio to its own.

        Return why the judge cannot be asked about it; empty if it can.
        """
        unseen = why_unseen(layout, self.ask)
        if unseen:
            return unseen
        first = pass_of_judge(0, self.panel_index)
        windows = len(
            requests_of_pass(
                layout,
                self.ask,
                first,
            )
        )
        if not windows:
            return TOO_LONG
        if windows > 1 and self.ask.ask != "each":
            self.windowed += groups
        if layout.alone and self.role == "escalation":
            return ""  # a tied group is not escalated
        for request, times in self._planned(layout, windows):
            # the groups that this one stands for are not looked up: the same is expected of them, and the
            # high values count them as not answered
            missing = Range(
                groups,
                groups,
                groups,
            )
            if self.cache and self.cache.find(self.cache.key(request)):
                self.cached += groups
                missing = Range(
                    0,
                    0,
                    groups - 1,
                )
            self.add(
                request,
                times * missing * CALLS,
                ratio,
            )
        return ""

    def _planned(
        self, layout: PromptLayout, windows: int
    ) -> Iterator[tuple[Request, Range]]:
        """Yield the requests about a group, with the number of times that each is made."""
        passes = pass_count(
            layout,
            self.ask,
            windows,
        )
        if self.role == "escalation" and self.ask.ask != "each":
            passes = max(passes, FIRST_PASSES)
        for pass_index in range(passes):
            times = _SHARES[self.role]
            if self.adaptive and pass_index >= FIRST_PASSES:
                times *= _FURTHER
            index = pass_of_judge(pass_index, self.panel_index)
            for part in requests_of_pass(
                layout,
                self.ask,
                index,
            ):
                for request in requests_about(
                    layout,
                    self.ask,
                    part,
                ):
                    yield request, times

    def add(
        self,
        request: Request,
        times: Range,
        ratio: float = 1.0,
    ) -> None:
        """Add a request that is made `times` times; the mean prompt has a `ratio` to its own."""
        stated = stated_limit(self.params)
        estimates = Estimates(stated)
        tokens = estimates.size(request).prompt
        most = estimates.highest(request)
        self.longest_prompt = max(self.longest_prompt, tokens)
        prompt = Range(
            LEAST_PROMPT * tokens,
            tokens,
            most.prompt,
        )
        prompt *= Range(
            ratio,
            ratio,
            ratio,
        )
        answer = ALWAYS  # the first word of an answer
        if request.labels:
            brief, usual, _ = map(request.answer_tokens, ESTIMATED_ANSWERS)
            answer = Range(
                brief,
                usual,
                most.completion,
            )
            answer += _THINKING[self.model.reasoning]
        longest = min(stated or math.inf, self.model.max_output or math.inf)
        answer = Range(*[min(size, longest) for size in answer])
        self.calls += times
        self.prompt_tokens += prompt * times
        self.completion_tokens += answer * times
        if self.model.price is None:
            return
        costs = []
        for asked, answered in zip(
            map(int, prompt),
            answer,
            strict=True,
        ):
            # as the pool does, all of a prompt is put into the provider's cache
            usage = Usage(
                asked,
                int(answered),
                calls=1,
                written=asked,
            )
            costs.append(self.model.price.of(usage))
        self.cost += Range(*costs) * times


@dataclass(slots=True)
class Estimate:
    """Estimates of all judges, and statistics of the prompts.

    `sizes` counts groups by their number of rollouts. `counts` are by their names in JSON; tied groups and rollouts
    that are alike count as in judging, groups with equal original rewards teach nothing, suspect rollouts address
    a judge. `coverage` is of the groups laid out, which stand for all groups; `exact` if these are all. `mistakes`
    counts groups and rollouts that cannot be judged, by what they are and the reason, but for those of single records.
    """

    judges: Sequence[JudgeEstimate]
    exact: bool = True
    sizes: Counter[int] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    mistakes: Counter[tuple[str, str]] = field(default_factory=Counter)
    first_too_long: str = ""

    def total(self, name: str) -> Any:
        """Return the sum of one of TOTALS over all judges; None if it is not known of one."""
        first, *others = (getattr(judge, name) for judge in self.judges)
        if first is None or None in others:
            return None
        return sum(others, first)

    @property
    def comparable(self) -> int:
        """The number of groups with two distinct rollouts or more."""
        return self.sizes.total() - self.counts["tied_groups"]

    def add(
        self,
        group: Group,
        groups: int = 1,
        ratio: float = 1.0,
    ) -> None:
        """Add a group that stands for several."""
        first = self.judges[0]
        layout = build_layout(group, first.ask)
        self._count(
            group,
            layout,
            groups,
        )
        if not layout.distinct:
            return
        self.exact = self.exact and groups == 1
        self.coverage.add(group, layout)
        problems = []
        for judge in self.judges:
            shown = layout
            if judge.ask != first.ask:
                shown = build_layout(group, judge.ask)
            problem = judge.add_group(
                shown,
                groups,
                ratio,
            )
            if judge.role == "panel":
                problems.append(problem)
        if all(problems):
            self.mistakes["group", problems[0]] += groups
        if all(problems) and TOO_LONG in problems:
            self.first_too_long = self.first_too_long or group.key

    def _count(
        self,
        group: Group,
        layout: PromptLayout,
        groups: int,
    ) -> None:
        """Count a group's rollouts: those that are readable, shown and alike, and what is odd about them."""
        # several records may be parts of one rollout; the last that has a reward decides, as in judging
        rewards: dict[int | str, float | None] = {}
        shown = set[int | str]()
        suspects = 0
        for at, rollout in enumerate(group.rollouts):
            name = at if rollout.member is None else rollout.member
            if layout.owner[at] is not None:
                shown.add(name)
            suspects += layout.owner[at] in layout.suspects
            if rollout.error is None:
                reward = number(rollout.reward)
                rewards[name] = rewards.get(name) if reward is None else reward
        if rewards:
            self.sizes[len(rewards)] += groups
        for error in layout.picture_errors.values():
            self.mistakes["rollout", error] += groups
        # that of a record is named with the record
        if group.mistake and not any(map(rubric_mistake, group.records)):
            self.mistakes["group", group.mistake] += groups
        if not layout.distinct:
            return
        self.counts["laid_out"] += 1
        values = {*rewards.values()}
        equal = len(rewards) > 1 and len(values) == 1 and None not in values
        # one that is asked about alone has a score of its own
        scored = len(shown) == 1 and "each" in [j.ask.ask for j in self.judges]
        text = "\n".join((layout.context, *layout.distinct))
        counts = {
            "identical_rollouts": len(shown) - len(layout.distinct),
            "tied_groups": layout.alone and not scored,
            "equal_reward_groups": equal,
            "suspect_rollouts": suspects,
            "pictures": len(shown_in(text, layout.pictures)),
            "pictures_left_out": layout.left_out,
        }
        for name, count in counts.items():
            self.counts[name] += groups * count


@dataclass(slots=True)
class ValueCounts:
    """Counts and range of one value of all rollouts; fields as in JSON. The range is of the `numbers`."""

    numbers: int = 0
    absent: int = 0
    no_number: int = 0
    min: float | None = None
    mean: float | None = None
    max: float | None = None

    def add(self, value: Any) -> None:
        """Add the value of one rollout."""
        reward = number(value)
        if reward is None:
            self.absent += value is None
            self.no_number += value is not None
            return
        if self.min is None or self.max is None or self.mean is None:
            self.min = self.mean = self.max = reward
        self.numbers += 1
        self.min = min(self.min, reward)
        self.max = max(self.max, reward)
        self.mean += (reward - self.mean) / self.numbers


@dataclass
class InputCounts:
    """Counts of records by their names in JSON, statistics of rewards and outcomes, and the first records.

    `ended` counts rollouts by how they ended, `own_rubrics` records with a rubric. `on_problem` gets each record or
    rollout that cannot be judged.
    """

    on_problem: Callable[[Problem], object]
    counts: Counter[str] = field(default_factory=Counter)
    rewards: ValueCounts = field(default_factory=ValueCounts)
    outcomes: ValueCounts = field(default_factory=ValueCounts)
    ended: Counter[str] = field(default_factory=Counter)
    first: list[Record] = field(default_factory=list)
    example: tuple[Record, Rollout] | None = None
    own_rubrics: int = 0

    def add(
        self,
        record: Record,
        rollouts: int,
    ) -> None:
        """Add one record; `rollouts` is the number of rollouts that begin in it."""
        line = record.line
        self.counts["records"] += 1
        self.counts["bytes"] += len(line.raw) // record.parts
        if len(self.first) < SAMPLE:
            self.first.append(record)
        self.own_rubrics += record.rubric is not None
        reasons = []
        if not record.rollouts:
            reasons.append("is a group without trajectories")
        mistake = rubric_mistake(record)
        if mistake:
            reasons.append(f"has a rubric with a mistake: {mistake}")
        for rollout in record.rollouts:
            if rollout.error is not None:
                reasons.append(rollout.problem)
                continue
            self.example = self.example or (record, rollout)
            if rollouts > 0:  # later parts of a rollout are counted already
                self.counts["rollouts"] += 1
                self.rewards.add(rollout.reward)
                self.outcomes.add(rollout.outcome)
                self.ended[rollout.ended] += 1
            rollouts -= 1
        for reason in reasons:
            self.on_problem(
                Problem(
                    line.number,
                    reason,
                    b"",
                    line.place,
                )
            )


def sample(source: Input, size: int) -> Iterator[tuple[Group, int, float]]:
    """Yield groups of an input of `size` bytes: all groups of a small input or a stream, else a sample.

    Each comes with the number of groups that it stands for, itself included, and with the ratio of the mean size
    of all groups to that of the sample, whose order is independent of the input's.
    """
    survey = source.survey
    if survey is None or source.streamed or size <= SMALL:
        for group in source.groups:
            yield group, 1, 1.0
        return
    by_number = survey.mine / _SAMPLED
    by_bytes = size / _SAMPLED_BYTES
    step = math.ceil(max(by_number, by_bytes))
    weights: dict[int, int] = {}
    sampled = whole = 0
    for at, (record, _, length) in enumerate(survey.index.groups()):
        whole += length
        if at % step == 0:
            weights[record] = min(step, survey.mine - at)
            sampled += length * weights[record]
    for group in source.again(weights):
        groups = weights[place(group.records[0])]
        yield group, groups, whole / sampled
