"""A group → the replies of all its judges: passes, panel, further passes, escalation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ruler_cli.judges.resolve import with_picture_support
from ruler_cli.judging.exchange import Answer, Overflow, ask_questions, exchange
from ruler_cli.judging.panel import PanelJudge
from ruler_cli.pool.engine import together
from ruler_cli.pool.limits import Allowance, Budget
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import (
    ExchangeState,
    PromptLayout,
    RequestPart,
    build_layout,
    halved,
    pass_count,
    pass_of_judge,
    requests_of_pass,
    too_long,
    why_unaskable,
)
from ruler_cli.prompting.questions import requests_about
from ruler_cli.scoring.rewards import number, passed
from ruler_cli.settings.models import FIRST_PASSES, ScoreSettings
from ruler_cli.types import (
    NO_USAGE,
    UNANSWERED,
    CallError,
    FailedCall,
    Group,
    GroupError,
    GroupResult,
    PassScores,
    Reply,
    Request,
    Rollout,
    Rubric,
    Usage,
    in_order,
    words_of,
)

_FOR_GOOD = words_of("refused too_long input interrupted budget")
"""Kinds of a first error that the other passes of the judge would repeat."""
_LAYOUTS = 2
"""Further layouts of a group for a judge that reads less than was known: the text of a shorter layout takes
another number of tokens for its length, so one may not be enough."""
_ESCALATED = 2
"""Passes of the stronger judge: an order and its reverse."""

T = TypeVar("T")
OnReply = Callable[[Group, Reply | CallError], None]
"""Gets a group, and a reply about it or the error in its place."""


@dataclass(eq=False)
class JudgeRunner:
    """The judges of a run, for the `GroupRun` of each group.

    `judges` are in the order of `settings.judges`; `coverage` looks at the first groups.
    """

    settings: ScoreSettings
    judges: Sequence[PanelJudge]
    on_reply: OnReply | None = None
    coverage: Coverage | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        callers = [judge.caller for judge in self.judges if judge.caller]
        self.budget = callers[0].gate.budget if callers else Budget()
        self.asks = []
        for judge, of_judge in zip(self.judges, settings.judges, strict=True):
            ask = with_picture_support(settings.ask_of(of_judge), of_judge)
            context = ask.context_tokens or judge.context
            ask = replace(ask, context_tokens=context)
            if settings.adaptive:
                ask = replace(ask, passes=FIRST_PASSES)
            self.asks.append(ask)


class GroupRun:
    """One group before its judges: their scores and errors so far."""

    def __init__(
        self,
        runner: JudgeRunner,
        group: Group,
    ) -> None:
        self.runner = runner
        self.group = group
        self.judges = [
            _JudgePasses(self, at, judge)
            for at, judge in enumerate(runner.judges)
        ]
        self.panel = self.judges
        if runner.settings.escalate:
            self.panel = self.judges[:-1]
        self.pass_scores: list[PassScores] = []
        self.failed_calls: list[FailedCall] = []
        self.missing: list[tuple[int, Request]] = []
        self.measured = self.asked = self.asked_now = False
        self.seconds = 0.0
        self.served = set[str]()
        self.allowance = Allowance()
        self._escalated_to: int | None = None

    async def judge(self) -> GroupResult:
        """Make every pass of every judge, further passes if they help, and those of the stronger judge.

        Under a cost cap it begins once its calls fit, and not at all if they never do: then only cached replies count.
        Further passes are not held money for.
        """
        budget = self.runner.budget
        if budget.cap is not None:
            prices = [price for judge in self.panel for price in judge.most()]
            self.allowance = await budget.begin(prices)
        try:
            await together([judge.begin for judge in self.panel])
        finally:
            if budget.cap is not None:
                budget.end(self.allowance)
        if self.runner.settings.adaptive:
            await self._further()
        if self.runner.settings.escalate is not None:
            await self._escalate()
        result = self.result()
        # they refer to this run: a circle would hold the group's text for long
        self.judges = self.panel = []
        return result

    async def _further(self) -> None:
        """Make two further passes at a time by the judges that have scored the group, as long as they help."""
        # imported if needed: it takes longer than the first request may wait
        from ruler_cli.judging.adaptive import UNIT, needs_more

        most = self.runner.settings.ask.passes
        for passes in range(FIRST_PASSES, most, UNIT):
            if not needs_more(self.result()):
                break
            further = min(UNIT, most - passes)
            scored = sorted({scores.judge for scores in self.pass_scores})
            work = [partial(self.judges[at].more, further) for at in scored]
            await together(work)

    async def _escalate(self) -> None:
        """Ask the stronger judge about a group that the others leave undecided, unless their replies are missing."""
        from ruler_cli.scoring.tables import undecided

        gap = self.runner.settings.escalate_gap
        if self.missing or not undecided(self.result(), gap):
            return
        stronger = self.judges[-1]
        self._escalated_to = stronger.number
        await stronger.begin(_ESCALATED)

    def result(self) -> GroupResult:
        """Collect the replies so far, in an order that does not depend on which came first."""
        pass_scores = sorted(self.pass_scores, key=in_order)
        failed_calls = sorted(self.failed_calls, key=in_order)
        settings = self.runner.settings
        rollouts = self.group.rollouts
        numbers = {scores.judge for scores in pass_scores}
        # without scores, every judge that was asked
        scored = [
            judge
            for judge in self.judges
            if judge.layout and (judge.number in numbers or not numbers)
        ]
        layouts = [judge.layout for judge in scored if judge.layout]
        layout = max(layouts, key=lambda candidate: candidate.shortening)
        # a verifier passed it: by the path that the user named, else by the reward if asked
        outcomes: list[bool | None] = [None] * len(rollouts)
        if settings.input.outcome is not None:
            outcomes = [passed(rollout.outcome) for rollout in rollouts]
        elif settings.combine.order_by_outcome:
            outcomes = [passed(rollout.reward) for rollout in rollouts]
        rewards = [number(rollout.reward) for rollout in rollouts]
        reasons = []
        for at, rollout in enumerate(rollouts):
            reasons.append(rollout.error or layout.picture_errors.get(at, ""))
        return GroupResult(
            owner=layout.owner,
            reasons=tuple(reasons),
            sizes=layout.sizes,
            pass_scores=tuple(pass_scores),
            failed_calls=tuple(failed_calls),
            suspects=layout.suspects,
            shortened=layout.shortening,
            pictures_left_out=layout.left_out,
            judges=len(self.panel),
            windows=max([judge.windows for judge in scored]),
            escalated_to=self._escalated_to,
            rewards=_by_member(rollouts, rewards),
            outcomes=_by_member(rollouts, outcomes),
            seconds=self.seconds,
            cached=self.asked and not self.asked_now,
            used=tuple([judge.used for judge in self.judges]),
            paid=tuple([judge.paid for judge in self.judges]),
            ended=time.time(),
            served=tuple(sorted(self.served)),
            rubric=layout.rubric if isinstance(layout.rubric, Rubric) else None,
            missing=tuple(self.missing),
        )


@dataclass(eq=False)
class _JudgePasses:
    """The passes of one judge over one group: the layout that it is shown, and the cost of its replies."""

    run: GroupRun
    number: int
    judge: PanelJudge
    layout: PromptLayout | None = None
    windows: int = 1
    passes: int = 0
    used: Usage = NO_USAGE
    paid: Usage = NO_USAGE

    def __post_init__(self) -> None:
        self.ask = self.run.runner.asks[self.number]

    async def begin(self, least: int = 1) -> None:
        """Ask all passes: the first request goes ahead, and fills the provider's prompt cache.

        If the judge turns out to read less than was known, the group is laid out anew.
        """
        state = None
        error = None
        for further in range(_LAYOUTS + 1):
            parts = self._parts(range(1))
            if not parts:
                layout = self._laid_out()
                error = error or why_unaskable(self.run.group, layout, self.ask)
                failed = FailedCall(self.number, 0, 0, error)
                self.run.failed_calls.append(failed)
                return
            answer = await self._answer(parts[0], state)
            if not isinstance(answer, Overflow) or further == _LAYOUTS:
                break
            state = answer.state
            error = answer.error
            if not error.cut:
                words = too_long(answer.actual, answer.limit)
                error = GroupError("too_long", words)
            self.ask = replace(self.ask, context_tokens=answer.target)
            self.layout = None
        self._count_passes(parts, least)
        await self._take(parts[0], answer)
        if isinstance(answer, GroupError) and answer.kind in _FOR_GOOD:
            return
        await self._ask_all([*parts[1:], *self._parts(range(1, self.passes))])

    def _count_passes(
        self,
        parts: Sequence[RequestPart],
        least: int = 1,
    ) -> None:
        """Note the windows of a pass, and how many passes there are, by the parts of the first one."""
        alone = self.ask.ask == "each"
        self.windows = 1 if alone else len(parts)
        passes = pass_count(self._laid_out(), self.ask, self.windows)
        self.passes = passes if alone else max(least, passes)

    def most(self) -> list[Callable[[], float]]:
        """Return a function that gives the most USD that each call of its passes may cost if it is answered at once."""
        parts = self._parts(range(1))
        if parts:
            self._count_passes(parts)
            parts += self._parts(range(1, self.passes))
        layout = self._laid_out()
        requests = (
            request
            for part in parts
            for request in requests_about(layout, self.ask, part)
        )
        again = self.run.runner.settings.retry_failed
        return self.judge.most(requests, again=again)

    async def more(self, passes: int) -> None:
        """Ask further passes, unless it is asked about each rollout: a second answer would be the first."""
        if self.ask.ask == "each":
            return
        begin = self.passes
        self.passes += passes
        await self._ask_all(self._parts(range(begin, begin + passes)))

    def _laid_out(self) -> PromptLayout:
        """The group as this judge can read it: judges that read equally much share one layout."""
        if self.layout is None:
            run = self.run
            ask = self.ask
            for judge in run.judges:
                if judge.ask == ask:
                    self.layout = self.layout or judge.layout
            self.layout = self.layout or build_layout(run.group, ask)
            coverage = run.runner.coverage
            if coverage and not (run.measured or coverage.enough):
                coverage.add(run.group, self.layout)
            run.measured = True
        return self.layout

    def _parts(self, passes: Iterable[int]) -> list[RequestPart]:
        """The requests of its passes; those of a judge that scores alone begin with pass index 0."""
        run = self.run
        layout = self._laid_out()
        alone = self not in run.panel
        parts = list[RequestPart]()
        for own_index in passes:
            index = (
                own_index if alone else pass_of_judge(own_index, self.number)
            )
            parts += requests_of_pass(layout, self.ask, index)
        return parts

    async def _ask_all(self, parts: Iterable[RequestPart]) -> None:
        async def ask(part: RequestPart) -> None:
            await self._take(part, await self._answer(part))

        await together([partial(ask, part) for part in parts])

    async def _take(
        self,
        part: RequestPart,
        answer: Answer,
    ) -> None:
        """Note an answer; if a window is too long for the judge, ask it in halves."""
        if isinstance(answer, PassScores):
            if self.number:
                answer = replace(answer, judge=self.number)
            self.run.pass_scores.append(answer)
            return
        if isinstance(answer, Overflow):
            if halves := halved(part, self.windows):
                await self._ask_all(halves)
                return
            answer = answer.error
        failed = FailedCall(
            self.number,
            part.pass_index,
            part.window,
            answer,
        )
        self.run.failed_calls.append(failed)

    async def _answer(
        self, part: RequestPart, state: ExchangeState | None = None
    ) -> Answer:
        """Ask about a part until there are scores, or an error.

        An error that cached replies led to stays one, unless failed calls are to be asked anew.
        """
        run = self.run
        runner = run.runner
        scaled = partial(exchange, scale=self.judge.scale)
        asked = ask_questions if self.ask.by_probability else scaled
        again = False
        while True:
            steps = asked(self._laid_out(), self.ask, part, state)
            cached = True
            try:
                request = next(steps)
                while True:
                    reply = await self.judge.call(
                        request, again=again, allowance=run.allowance
                    )
                    # without a reply that may be kept, the cached ones count
                    if reply is not UNANSWERED or not request.cached_only:
                        if reply is UNANSWERED:
                            run.missing.append((self.number, request))
                        cached = cached and reply.cached
                        self._count(reply)
                        if runner.on_reply is not None:
                            runner.on_reply(run.group, reply)
                    request = steps.send(reply)
            except StopIteration as end:
                answer: Answer = end.value
            failed = cached and isinstance(answer, GroupError)
            if again or not (failed and runner.settings.retry_failed):
                return answer
            again = True

    def _count(self, reply: Reply | CallError) -> None:
        run = self.run
        run.asked = True
        run.asked_now |= not reply.cached
        usage = reply.usage if isinstance(reply, Reply) else reply.cut
        if usage and usage.calls:
            self.used += usage
            if not reply.cached:
                self.paid += usage
        if isinstance(reply, Reply):
            run.seconds += reply.seconds
            if reply.model:
                run.served.add(reply.model)


def _by_member(
    rollouts: Sequence[Rollout], values: Sequence[T | None]
) -> tuple[T | None, ...]:
    """Values of rollouts; the parts of one rollout have one value, that of the last part with any."""
    last = {}
    for rollout, value in zip(rollouts, values, strict=True):
        if value is not None:
            last[rollout.member] = value
    result = []
    for rollout, value in zip(rollouts, values, strict=True):
        parted = rollout.member is not None
        result.append(last.get(rollout.member) if parted else value)
    return tuple(result)
