"""A group → the replies of all its judges: passes, panel, fallback, further passes, escalation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ruler_cli.formats.rewards import number, passed
from ruler_cli.judging.exchange import Answer, Overflow, exchange
from ruler_cli.judging.panel import PanelJudge
from ruler_cli.pool.engine import ByteLimit, together
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
from ruler_cli.settings.models import ScoreSettings
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
)

if (
    TYPE_CHECKING
):  # few runs need it, and it takes longer than the first request may wait
    from ruler_cli.judging.adaptive import BlockMember

_FOR_GOOD = ("refused", "too_long", "input", "interrupted", "budget")
"""Kinds of a first error after which the other passes of the judge would fail too."""
_LAYOUTS = 2
"""Further layouts of a group for a judge that reads less than was known: the text of a shorter layout takes
another number of tokens for its length, so one may not be enough."""
_HELD = 32 << 20
"""Bytes of prompts that the requests of a group hold while they wait: the passes over a large group come to
many times its text."""
_UNDECIDED = GroupError(
    "transport", "the ledger lacks answers of groups that share passes with this one"
)
_ESCALATED = 2
"""Passes of the stronger judge: an order and its reverse."""

T = TypeVar("T")
OnReply = Callable[[str, str], None]
"""Gets a group's key, and the text of a reply or the reason why there is none."""


class JudgeRunner:
    """The judges of a run: starts one `GroupRun` for each group."""

    def __init__(
        self,
        settings: ScoreSettings,
        judges: Sequence[PanelJudge],
        on_reply: OnReply | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        """`judges` are in the order of `settings.judges`; `coverage` looks at the first groups."""
        self.settings, self.judges, self.on_reply = settings, tuple(judges), on_reply
        ask, self._coverage, self._blocks = settings.ask, coverage, None
        if settings.adaptive or settings.escalate:  # imported if needed, see above
            from ruler_cli.judging.adaptive import FIRST, Blocks

            self._blocks = Blocks(ask.passes if settings.adaptive else None)
            if settings.adaptive:
                ask = replace(ask, passes=min(FIRST, ask.passes))
        contexts = [ask.context_tokens or judge.context for judge in judges]
        self.asks = [
            ask if each == ask.context_tokens else replace(ask, context_tokens=each)
            for each in contexts
        ]

    def start(self, group: Group) -> GroupRun:
        """Take the next group of the input, with its place among the groups that share passes with it."""
        return GroupRun(
            self, group, None if self._blocks is None else self._blocks.place(group)
        )

    def end(self) -> None:
        """Take no more groups: the last ones share passes without others."""
        if self._blocks is not None:
            self._blocks.close()

    def measure(self, group: Group, layout: PromptLayout) -> None:
        """Measure how much of one of the first groups its first judge is shown."""
        if self._coverage is not None and not self._coverage.enough:
            self._coverage.add(group, layout)


class GroupRun:
    """One group before its judges: their scores and errors so far."""

    def __init__(
        self, runner: JudgeRunner, group: Group, member: BlockMember | None = None
    ) -> None:
        """`member` is the group's place in its block, if it may get further passes."""
        self.runner, self.group, self._member = runner, group, member
        self.judges = [
            _JudgePasses(self, at, judge) for at, judge in enumerate(runner.judges)
        ]
        self.panel = self.judges[:-1] if runner.settings.escalate else self.judges
        self.pass_scores: list[PassScores] = []
        self.failed_calls: list[FailedCall] = []
        self.missing: list[tuple[int, Request]] = []
        """Requests that only a cached reply could answer and none did, with the number of their judge."""
        self.measured = False
        self._held: ByteLimit | None = None
        self._escalated_to: int | None = None

    async def judge(self) -> GroupResult:
        """Ask every pass of every judge, then the further passes that the group's block decides on."""
        if self.runner.settings.fallback:
            await self._first_that_answers()
        else:
            await together([judge.begin for judge in self.panel])
        if self._member is not None:
            await self._further(self._member)
        result = self.result()
        self.judges = (
            self.panel
        ) = []  # they refer to this run: a circle would hold the group's text for long
        return result

    async def _first_that_answers(self) -> None:
        """Ask the judges one after another, until one does not refuse the group."""
        for judge in self.panel:
            await judge.begin()
            refused = any(
                call.judge == judge.number and call.error.kind == "refused"
                for call in self.failed_calls
            )
            if not refused or judge.scored_all:
                return
            self.pass_scores = [
                scores for scores in self.pass_scores if scores.judge != judge.number
            ]

    async def _further(self, member: BlockMember) -> None:
        """Ask further passes of the judges that have scored the group, and the stronger judge."""
        while more := await member.more(self.result(), self._tokens):
            scored = sorted({scores.judge for scores in self.pass_scores})
            await together([partial(self.judges[at].more, more) for at in scored])
        if self.runner.settings.escalate and await member.escalate(
            self.result(), self._tokens
        ):
            self._escalated_to = self.judges[-1].number
            await self.judges[-1].begin(_ESCALATED)
        if member.undecided and self.pass_scores:
            at = min(scores.judge for scores in self.pass_scores)
            self.failed_calls.append(
                FailedCall(at, self.judges[at].passes, 0, _UNDECIDED)
            )

    def result(self) -> GroupResult:
        """Collect the replies so far, in an order that does not depend on which came first."""
        pass_scores = sorted(
            self.pass_scores, key=lambda s: (s.judge, s.pass_index, s.window)
        )
        failed_calls = sorted(
            self.failed_calls, key=lambda c: (c.judge, c.pass_index, c.window)
        )
        fallback = self.runner.settings.fallback
        if fallback and pass_scores:  # the judges that refused before were replaced
            failed_calls = [
                call for call in failed_calls if call.judge >= pass_scores[0].judge
            ]
        asked = [judge for judge in self.judges if judge.layout is not None]
        scored = [
            self.judges[at] for at in sorted({scores.judge for scores in pass_scores})
        ] or asked
        layout = max(
            [judge.layout for judge in scored if judge.layout],
            key=lambda each: each.shortening,
        )
        rollouts = self.group.rollouts
        return GroupResult(
            owner=layout.owner,
            faults=tuple([rollout.error or "" for rollout in rollouts]),
            sizes=layout.sizes,
            pass_scores=tuple(pass_scores),
            failed_calls=tuple(failed_calls),
            suspects=layout.suspects,
            shortened=layout.shortening,
            judges=1 if fallback else len(self.panel),
            windows=max([judge.windows for judge in scored]),
            escalated_to=self._escalated_to,
            rewards=_by_member(
                rollouts, [number(rollout.reward) for rollout in rollouts]
            ),
            outcomes=_by_member(
                rollouts, [self._passed(rollout) for rollout in rollouts]
            ),
            seconds=sum([judge.seconds for judge in self.judges]),
            cached=any(judge.asked for judge in asked)
            and not any(judge.asked_now for judge in asked),
            used=tuple([judge.used for judge in self.judges]),
            paid=tuple([judge.paid for judge in self.judges]),
            ended=time.time(),
            served=tuple(
                sorted({name for judge in self.judges for name in judge.served})
            ),
        )

    @property
    def held(self) -> ByteLimit:
        """The bound on prompts that wait; a group of one request needs none."""
        self._held = self._held or ByteLimit(_HELD)
        return self._held

    def _passed(self, rollout: Rollout) -> bool | None:
        """Tell if a verifier passed it: by the path that the user named, else by the reward if asked."""
        settings = self.runner.settings
        if settings.input.outcome is not None:
            return passed(rollout.outcome)
        return passed(rollout.reward) if settings.combine.order_by_outcome else None

    @property
    def _tokens(self) -> float:
        """Estimated tokens of one pass of every judge that has been asked."""
        return float(
            sum(
                judge.layout.tokens for judge in self.judges if judge.layout is not None
            )
        )


class _JudgePasses:
    """The passes of one judge over one group: the layout that it is shown, and the cost of its replies."""

    def __init__(self, run: GroupRun, at: int, judge: PanelJudge) -> None:
        self._run, self.number, self._judge = run, at, judge
        self._ask = run.runner.asks[at]
        self.layout: PromptLayout | None = None
        self.windows, self.passes = 1, 0
        self.used, self.paid, self.seconds = NO_USAGE, NO_USAGE, 0.0
        self.asked = self.asked_now = False
        self.served = set[str]()

    @property
    def scored_all(self) -> bool:
        """Tell if it gave each distinct rollout a score: one that refuses a window leaves some out."""
        mine = [
            scores for scores in self._run.pass_scores if scores.judge == self.number
        ]
        scored = {at for scores in mine for at in scores.distinct}
        return bool(scored) and len(scored) == len(self._laid_out().distinct)

    async def begin(self, least: int = 1) -> None:
        """Ask all passes: the first request goes ahead, and fills the provider's prompt cache."""
        first = await self._first_answer()
        if first is None:
            return
        parts, answer = first
        self.windows = len(parts)
        self.passes = max(least, pass_count(self._laid_out(), self._ask, self.windows))
        await self._take(parts[0], answer)
        if isinstance(answer, GroupError) and answer.kind in _FOR_GOOD:
            return
        if self.windows > 1 or self.passes > 1:
            await self._ask_all([*parts[1:], *self._parts(range(1, self.passes))])

    async def more(self, passes: int) -> None:
        """Ask further passes."""
        begin = self.passes
        self.passes += passes
        await self._ask_all(self._parts(range(begin, begin + passes)))

    async def _first_answer(self) -> tuple[list[RequestPart], Answer] | None:
        """Ask the first request; return all of the first pass, and its answer. None if there is no request.

        If the judge turns out to read less than was known, the group is laid out anew.
        """
        answer: Answer | None = None
        further = 0
        while True:
            parts = self._parts(range(1))
            if not parts:
                error = why_unaskable(self._run.group, self._laid_out(), self._ask)
                if isinstance(answer, Overflow):
                    error = GroupError(
                        "too_long", too_long(answer.actual, answer.limit)
                    )
                self._run.failed_calls.append(FailedCall(self.number, 0, 0, error))
                return None
            answer = await self._answer(
                parts[0], answer.state if isinstance(answer, Overflow) else None
            )
            if not isinstance(answer, Overflow) or further == _LAYOUTS:
                return parts, answer
            further += 1
            self._ask = replace(self._ask, context_tokens=answer.target)
            self.layout = None

    def _laid_out(self) -> PromptLayout:
        """The group as this judge can read it: judges that read equally much share one layout."""
        if self.layout is None:
            run, ask = self._run, self._ask
            same = (
                judge.layout
                for judge in run.judges
                if judge.layout is not None and judge._ask == ask
            )
            self.layout = next(same, None) or build_layout(run.group, ask)
            if not run.measured:
                run.measured = True
                run.runner.measure(run.group, self.layout)
        return self.layout

    def _parts(self, passes: Iterable[int]) -> list[RequestPart]:
        """The requests of its passes; those of a judge that scores alone begin with pass index 0."""
        beside_others = (
            not self._run.runner.settings.fallback and self in self._run.panel
        )
        order = [
            pass_of_judge(number, self.number) if beside_others else number
            for number in passes
        ]
        layout = self._laid_out()
        return [
            part
            for index in order
            for part in requests_of_pass(layout, self._ask, index)
        ]

    async def _ask_all(self, parts: Iterable[RequestPart]) -> None:
        await together([partial(self._ask_part, part) for part in parts])

    async def _ask_part(self, part: RequestPart) -> None:
        size = sum(map(self._laid_out().sizes.__getitem__, part.distinct))
        held = self._run.held
        await held.enter(size)
        try:
            answer = await self._answer(part)
        finally:
            held.leave(size)
        await self._take(part, answer)

    async def _take(self, part: RequestPart, answer: Answer) -> None:
        """Note an answer; if a window is too long for the judge, ask it in halves."""
        halves = halved(part, self.windows) if isinstance(answer, Overflow) else ()
        if halves:
            await self._ask_all(halves)
        elif isinstance(answer, PassScores):
            scores = replace(answer, judge=self.number) if self.number else answer
            self._run.pass_scores.append(scores)
        else:
            error = answer.error if isinstance(answer, Overflow) else answer
            self._run.failed_calls.append(
                FailedCall(self.number, part.pass_index, part.window, error)
            )

    async def _answer(
        self, part: RequestPart, state: ExchangeState | None = None
    ) -> Answer:
        """Ask about a part until there are scores, or a reason why not.

        An error that cached replies led to stays one, unless failed calls are to be asked anew.
        """
        answer, cached = await self._exchange(part, state, again=False)
        if (
            cached
            and isinstance(answer, GroupError)
            and self._run.runner.settings.retry_failed
        ):
            answer, _ = await self._exchange(part, state, again=True)
        return answer

    async def _exchange(
        self, part: RequestPart, state: ExchangeState | None, *, again: bool
    ) -> tuple[Answer, bool]:
        """Drive one exchange; return its end, and True if all of its replies were cached."""
        steps, cached = exchange(self._laid_out(), self._ask, part, state), True
        try:
            request = next(steps)
            while True:
                reply = await self._judge.call(request, again=again)
                if reply is UNANSWERED:
                    self._run.missing.append((self.number, request))
                cached = cached and reply.cached
                self._count(reply)
                request = steps.send(reply)
        except StopIteration as end:
            return end.value, cached

    def _count(self, reply: Reply | CallError) -> None:
        self.asked, self.asked_now = True, self.asked_now or not reply.cached
        if isinstance(reply, Reply):
            self.seconds += reply.seconds
            self.used += reply.usage
            self.paid += NO_USAGE if reply.cached else reply.usage
            if reply.model:
                self.served.add(reply.model)
        on_reply = self._run.runner.on_reply
        if on_reply is not None:
            on_reply(
                self._run.group.key,
                reply.text if isinstance(reply, Reply) else reply.reason,
            )


def _by_member(
    rollouts: Sequence[Rollout], values: Sequence[T | None]
) -> tuple[T | None, ...]:
    """Values of rollouts; the parts of one rollout have one value, that of the last part with any."""
    last = {
        rollout.member: value
        for rollout, value in zip(rollouts, values, strict=True)
        if rollout.member is not None and value is not None
    }
    if not last:
        return tuple(values)
    pairs = zip(rollouts, values, strict=True)
    return tuple(
        [
            value if rollout.member is None else last.get(rollout.member)
            for rollout, value in pairs
        ]
    )
