"""One group's conversations with its judges, driven to their ends, and what they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ruler_cli.ballots import Ballot
from ruler_cli.records import Failure, Fault, Reply, Request, Usage
from ruler_cli.scoring.dialogue import Overflow, State, converse
from ruler_cli.scoring.plan import Part
from ruler_cli.scoring.sheet import Sheet
from ruler_cli.settings import AskSettings


class Call(Protocol):
    """What asks: the pool's caller."""

    async def __call__(self, request: Request, *, again: bool = False) -> Reply | Fault:
        """One answer; `again` asks anew what was answered in an earlier run."""


Told = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Seat:
    """One judge as a group meets it: its name, what asks it, how many tokens it reads (None: not known)."""

    name: str
    call: Call
    context: int | None = None


class Talks:
    """What is said about one group; sums over all of it, by judge where it is money."""

    def __init__(self, key: str, seats: Sequence[Seat], on_reply: Told | None, retry_failed: bool) -> None:
        """`on_reply` is told the group's key and each reply's text or fault."""
        self._key, self._seats, self._on_reply, self._retry = key, seats, on_reply, retry_failed
        self.used = [Usage()] * len(seats)
        self.paid = [Usage()] * len(seats)
        self.seconds = 0.0
        self._asked = self._fresh = False

    @property
    def kept(self) -> bool:
        """Whether there were replies, and none of them had to be asked for now."""
        return self._asked and not self._fresh

    async def hold(
        self, judge: int, sheet: Sheet, ask: AskSettings, part: Part, state: State | None = None
    ) -> Ballot | Failure | Overflow:
        """Ask about a part until there is a ballot or a reason why not; a kept failure again if told so."""
        said, kept = await self._driven(judge, sheet, ask, part, state, again=False)
        if self._retry and kept and isinstance(said, Failure):
            said, _ = await self._driven(judge, sheet, ask, part, state, again=True)
        return replace(said, judge=judge) if judge and isinstance(said, Ballot) else said

    async def _driven(
        self, judge: int, sheet: Sheet, ask: AskSettings, part: Part, state: State | None, *, again: bool
    ) -> tuple[Ballot | Failure | Overflow, bool]:
        """What a conversation ends in, and whether all of it had been answered before."""
        conversation, call, kept = converse(sheet, ask, part, state), self._seats[judge].call, True
        answer: Reply | Fault | None = None
        try:
            while True:
                request = next(conversation) if answer is None else conversation.send(answer)
                answer = await call(request, again=again)
                kept = kept and answer.kept
                self._hear(judge, answer)
        except StopIteration as end:
            return end.value, kept

    def _hear(self, judge: int, answer: Reply | Fault) -> None:
        self._asked = True
        self._fresh = self._fresh or not answer.kept
        if isinstance(answer, Reply):
            self.seconds += answer.seconds
            self.used[judge] += answer.usage
            self.paid[judge] += Usage() if answer.kept else answer.usage
        if self._on_reply is not None:
            self._on_reply(self._key, answer.text if isinstance(answer, Reply) else answer.reason)
