"""Groups → all that their judges say: passes, panel, fallback, further passes, escalation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ruler_cli.config import JudgeSettings, ScoreSettings
from ruler_cli.formats.rewards import number, passed
from ruler_cli.judging.exchange import Overflow, exchange
from ruler_cli.pool.engine import ByteLimit, together
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.layout import PromptLayout
from ruler_cli.prompting.prompt import (
    ExchangeState,
    RequestPart,
    build_layout,
    halved,
    parts,
    pass_of_judge,
    too_long,
    turns,
    why_unaskable,
    windows,
)
from ruler_cli.types import (
    CallError,
    FailedCall,
    Group,
    GroupError,
    GroupResult,
    PassScores,
    Reply,
    Request,
    Rollout,
    Usage,
)

if TYPE_CHECKING:  # few runs need it, and it takes longer than the first request may wait
    from ruler_cli.judging.blocks import BlockMember

_FOR_GOOD = ("refused", "too_long", "input", "interrupted", "budget")
"""Kinds of a first failure after which the other passes of the judge would fail too."""
_ANEW = 2
"""Times that a group is laid out anew for a judge that reads less than was known; its text then takes
another number of tokens for its length, so once may not be enough."""
_HELD = 32 << 20
"""Bytes of prompts that a group's requests hold while they wait for their turn: passes over a large group
come to many times its text."""
_UNDECIDED = GroupError("transport", "the ledger lacks answers of groups that share passes with this one")
_ESCALATED = 2
"""Passes of the stronger judge: an order and its reverse."""

T = TypeVar("T")
Told = Callable[[str, str], None]
"""Gets a group's key, and a reply's text or the reason why there is none."""
_Said = PassScores | GroupError | Overflow


class Call(Protocol):
    """What asks: the pool's caller."""

    async def __call__(self, request: Request, *, again: bool = False) -> Reply | CallError:
        """One answer; `again` asks anew what was answered in an earlier run."""


@dataclass(frozen=True, slots=True)
class BoundJudge:
    """What asks a judge, and how many tokens it reads (None: not known)."""

    call: Call
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A group on its way, with its place among those that decide together."""

    group: Group
    place: BlockMember | None = None


def judges_of(settings: ScoreSettings) -> list[JudgeSettings]:
    """Every judge of a run: the panel in order, the stronger one last."""
    return [judge for judge in (settings.judge, *settings.panel, settings.escalate) if judge]


class JudgeRunner:
    """The judges of a run: groups in, outcomes out."""

    def __init__(
        self,
        settings: ScoreSettings,
        judges: Sequence[BoundJudge],
        told: Told | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        """`judges` are in the order of `judges_of`; `told` hears each reply, `coverage` the first groups."""
        self.settings, self.judges, self.told = settings, tuple(judges), told
        self.ask, self._coverage, self._blocks = settings.ask, coverage, None
        if settings.adaptive or settings.escalate:  # imported where needed, see above
            from ruler_cli.judging.adaptive import FIRST
            from ruler_cli.judging.blocks import Blocks

            passes = self.ask.passes
            self._blocks = Blocks(passes if settings.adaptive else None)
            if settings.adaptive:
                self.ask = replace(self.ask, passes=min(FIRST, passes))

    def place(self, group: Group) -> Item:
        """The next group of the input, with its place among its neighbours."""
        return Item(group, None if self._blocks is None else self._blocks.place(group))

    def end(self) -> None:
        """No more groups come: the last ones decide without others."""
        if self._blocks is not None:
            self._blocks.close()

    async def judge(self, item: Item) -> GroupResult:
        """Ask every pass of every judge about a group, and what its neighbours decide then."""
        run = _GroupRun(self, item.group)
        await run.first()
        if item.place is not None:
            await run.go_on(item.place)
        return run.outcome()

    def look(self, group: Group, sheet: PromptLayout) -> None:
        """Note how much of one of the first groups its first judge is shown."""
        if self._coverage is not None and not self._coverage.enough:
            self._coverage.add(group, sheet)


class _GroupRun:
    """One group before its judges: what they have said so far and what it took."""

    def __init__(self, runner: JudgeRunner, group: Group) -> None:
        self.runner, self.group = runner, group
        self.judges = [_JudgeCalls(self, at, judge) for at, judge in enumerate(runner.judges)]
        self.panel = self.judges[:-1] if runner.settings.escalate else self.judges
        self.fallback = runner.settings.fallback
        self.ballots: list[PassScores] = []
        self.misses: list[FailedCall] = []
        self.held, self.looked = ByteLimit(_HELD), False
        self._final: int | None = None

    async def first(self) -> None:
        """The first passes of every judge; with fallback, of the first that does not refuse."""
        if not self.fallback:
            await together([judge.begin for judge in self.panel])
            return
        for judge in self.panel:
            await judge.begin()
            refused = any(m.judge == judge.at and m.error.kind == "refused" for m in self.misses)
            if not refused or judge.scored_all:
                return
            self.ballots = [ballot for ballot in self.ballots if ballot.judge != judge.at]

    async def go_on(self, further: BlockMember) -> None:
        """Further passes of the judges that have scored it, and the stronger judge."""
        while more := await further.more(self.outcome(), self._tokens):
            scored = sorted({ballot.judge for ballot in self.ballots})
            await together([partial(self.judges[at].more, more) for at in scored])
        if self.runner.settings.escalate and await further.escalate(self.outcome(), self._tokens):
            self._final = self.judges[-1].at
            await self.judges[-1].begin(_ESCALATED)
        if further.undecided and self.ballots:
            at = min(ballot.judge for ballot in self.ballots)
            self.misses.append(FailedCall(at, self.judges[at].passes, 0, _UNDECIDED))

    def outcome(self) -> GroupResult:
        """All that was said so far, in an order that does not depend on who answered first."""
        ballots = sorted(self.ballots, key=lambda b: (b.judge, b.pass_index, b.window))
        misses = sorted(self.misses, key=lambda m: (m.judge, m.pass_index, m.window))
        if self.fallback and ballots:  # who refused before was replaced
            misses = [miss for miss in misses if miss.judge >= ballots[0].judge]
        asked = [judge for judge in self.judges if judge.sheet is not None]
        heard = [self.judges[at] for at in sorted({ballot.judge for ballot in ballots})] or asked
        sheet = max((judge.sheet for judge in heard if judge.sheet), key=lambda sheet: sheet.shortening)
        rollouts = self.group.rollouts
        return GroupResult(
            owner=sheet.owner,
            faults=tuple(rollout.error or "" for rollout in rollouts),
            sizes=sheet.sizes,
            pass_scores=tuple(ballots),
            failed_calls=tuple(misses),
            suspects=sheet.suspects,
            shortened=sheet.shortening,
            judges=1 if self.fallback else len(self.panel),
            windows=max(judge.windows for judge in heard),
            escalated_to=self._final,
            rewards=_by_member(rollouts, [number(rollout.reward) for rollout in rollouts]),
            outcomes=_by_member(rollouts, [self._passed(rollout) for rollout in rollouts]),
            seconds=sum(judge.seconds for judge in self.judges),
            cached=any(judge.asked for judge in asked) and not any(judge.fresh for judge in asked),
            used=tuple(judge.used for judge in self.judges),
            paid=tuple(judge.paid for judge in self.judges),
            ended=time.time(),
        )

    def _passed(self, rollout: Rollout) -> bool | None:
        """Whether a verifier passed it: at the path that the user named, else by the reward if it is to."""
        settings = self.runner.settings
        if settings.input.outcome is not None:
            return passed(rollout.outcome)
        return passed(rollout.reward) if settings.combine.by_outcome else None

    @property
    def _tokens(self) -> float:
        """Estimated tokens of one pass of every judge that has been asked."""
        return float(sum(judge.sheet.tokens for judge in self.judges if judge.sheet is not None))


class _JudgeCalls:
    """One judge before one group: what it is shown, how often it was asked, and what that took."""

    def __init__(self, run: _GroupRun, at: int, judge: BoundJudge) -> None:
        self._run, self.at, self._call = run, at, judge.call
        ask = run.runner.ask
        context = ask.context_tokens or judge.context
        self.ask = ask if context == ask.context_tokens else replace(ask, context_tokens=context)
        self.sheet: PromptLayout | None = None
        self.windows, self.passes = 1, 0
        self.used, self.paid, self.seconds = Usage(), Usage(), 0.0
        self.asked = self.fresh = False

    @property
    def scored_all(self) -> bool:
        """Whether it gave each distinct rollout a score: one that refuses a window leaves some out."""
        scored = {body for ballot in self._run.ballots if ballot.judge == self.at for body in ballot.distinct}
        return bool(scored) and len(scored) == len(self._shown().distinct)

    async def begin(self, least: int = 1) -> None:
        """Its passes: one request goes ahead, and fills the provider's cache for all others."""
        opened = await self._opened()
        if opened is None:
            return
        (first, *others), said = opened
        sheet = self._shown()
        self.windows = windows(sheet, self.ask)
        self.passes = max(least, turns(sheet, self.ask))
        await self._take(first, said)
        if isinstance(said, GroupError) and said.kind in _FOR_GOOD:
            return
        await self._ask_all([*others, *self._parts(range(1, self.passes))])

    async def more(self, passes: int) -> None:
        """Further passes."""
        begin = self.passes
        self.passes += passes
        await self._ask_all(self._parts(range(begin, begin + passes)))

    async def _opened(self) -> tuple[Sequence[RequestPart], _Said] | None:
        """The requests of the first pass and what came of the first of them; None where none can be asked.

        A judge that turns out to read less than was known is asked about a group laid out anew.
        """
        said: _Said | None = None
        anew = 0
        while True:
            failure = why_unaskable(self._run.group, self._shown(), self.ask)
            if failure is not None:
                if isinstance(said, Overflow):
                    failure = GroupError("too_long", too_long(said.actual, said.limit))
                self._run.misses.append(FailedCall(self.at, 0, 0, failure))
                return None
            found = self._parts(range(1))
            said = await self._hold(found[0], said.state if isinstance(said, Overflow) else None)
            if not isinstance(said, Overflow) or anew == _ANEW:
                return found, said
            anew += 1
            self.ask = replace(self.ask, context_tokens=said.target)
            self.sheet = None

    def _shown(self) -> PromptLayout:
        """The group as this judge can read it: judges that read equally much share one."""
        if self.sheet is None:
            run, ask = self._run, self.ask
            same = (judge.sheet for judge in run.judges if judge.sheet is not None and judge.ask == ask)
            self.sheet = next(same, None) or build_layout(run.group, ask)
            if not run.looked:
                run.looked = True
                run.runner.look(run.group, self.sheet)
        return self.sheet

    def _parts(self, passes: Iterable[int]) -> list[RequestPart]:
        """The requests of its passes; those of a judge that stands alone begin with turn 0."""
        beside_others = not self._run.fallback and self in self._run.panel
        order = [pass_of_judge(number, self.at) if beside_others else number for number in passes]
        return [part for turn in order for part in parts(self._shown(), self.ask, turn)]

    async def _ask_all(self, asked: Iterable[RequestPart]) -> None:
        await together([partial(self._part, part) for part in asked])

    async def _part(self, part: RequestPart) -> None:
        size = sum(map(self._shown().sizes.__getitem__, part.distinct))
        await self._run.held.enter(size)
        try:
            said = await self._hold(part)
        finally:
            self._run.held.leave(size)
        await self._take(part, said)

    async def _take(self, part: RequestPart, said: _Said) -> None:
        """Take what was said; a window of which the judge says that it is too long is asked in halves."""
        halves = halved(part, self.windows) if isinstance(said, Overflow) else ()
        if halves:
            await self._ask_all(halves)
        elif isinstance(said, PassScores):
            self._run.ballots.append(replace(said, judge=self.at) if self.at else said)
        else:
            failure = said.failure if isinstance(said, Overflow) else said
            self._run.misses.append(FailedCall(self.at, part.pass_index, part.window, failure))

    async def _hold(self, part: RequestPart, state: ExchangeState | None = None) -> _Said:
        """Ask about a part until there is a ballot or a reason why not.

        A failure that earlier answers led to is one still, unless failed calls are to be asked anew.
        """
        said, kept = await self._driven(part, state, again=False)
        if self._run.runner.settings.retry_failed and kept and isinstance(said, GroupError):
            said, _ = await self._driven(part, state, again=True)
        return said

    async def _driven(
        self, part: RequestPart, state: ExchangeState | None, *, again: bool
    ) -> tuple[_Said, bool]:
        """What a conversation ends in, and whether all of it had been answered before."""
        conversation, kept = exchange(self._shown(), self.ask, part, state), True
        try:
            request = next(conversation)
            while True:
                answer = await self._call(request, again=again)
                kept = kept and answer.cached
                self._note(answer)
                request = conversation.send(answer)
        except StopIteration as end:
            return end.value, kept

    def _note(self, answer: Reply | CallError) -> None:
        """Count what an answer took."""
        self.asked, self.fresh = True, self.fresh or not answer.cached
        if isinstance(answer, Reply):
            self.seconds += answer.seconds
            self.used += answer.usage
            self.paid += Usage() if answer.cached else answer.usage
        told = self._run.runner.told
        if told is not None:
            told(self._run.group.key, answer.text if isinstance(answer, Reply) else answer.reason)


def _by_member(rollouts: Sequence[Rollout], values: Sequence[T | None]) -> tuple[T | None, ...]:
    """Values of rollouts, where parts of one rollout have one: that of the last part that has any."""
    pairs = list(zip(rollouts, values, strict=True))
    last = {r.member: value for r, value in pairs if r.member is not None and value is not None}
    return tuple(value if r.member is None else last.get(r.member) for r, value in pairs)
