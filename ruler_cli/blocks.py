"""Groups decide together who is asked further: in blocks of neighbours, so that memory stays flat.

A block is a stretch of the input, so what is asked depends on the input and the replies only, never on
who answered first: a run that is repeated asks the same. While one block waits for its slowest reply
the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ruler_cli.ballots import Outcome
from ruler_cli.records import UNANSWERED, Group
from ruler_cli.scoring.batch import Batch
from ruler_cli.scoring.gain import Standing, allot, unresolved
from ruler_cli.statistics.reliability import Prior

MOST, SIZE = 64, 16 << 20
"""Groups of a block, and bytes of input: a quarter of what a run may hold."""

Decide = Callable[[Sequence[Standing | None]], list[int]]


class Block:
    """One block: each member says how it stands, the last one to do so decides for all."""

    def __init__(self, decide: Decide) -> None:
        """`decide` tells how many further passes each member gets."""
        self._decide = decide
        self._standings: list[Standing | None] = []
        self._reported: set[int] = set()
        self._closed = False
        self._round = _Round()
        self._prior: Prior | None = None
        self.unanswered = False

    def __len__(self) -> int:
        """How many members it has."""
        return len(self._standings)

    def join(self) -> int:
        """A new member's number."""
        self._standings.append(None)
        return len(self._standings) - 1

    def close(self) -> None:
        """Nobody joins any more."""
        self._closed = True
        self._end_round()

    async def report(self, member: int, standing: Standing | None, *, unanswered: bool = False) -> int:
        """Say how a group stands (None: it has failed), wait for all others: its further passes.

        With a member that is `unanswered` nobody gets any: what the others get depends on its answers.
        """
        self.unanswered = self.unanswered or unanswered
        while True:
            self._standings[member] = standing
            self._reported.add(member)
            mine = self._round
            self._end_round()
            await mine.over.wait()
            if mine.extra[member] or not any(mine.extra):
                return mine.extra[member]

    def unresolved(self, standing: Standing) -> bool:
        """Whether, at the end, a group is neither resolved nor tied, by the noise of the whole block."""
        if self.unanswered:
            return False
        if self._prior is None:
            noise = Batch()
            for each in self._standings:
                if each is not None:
                    noise.add(each.judged)
            self._prior = noise.prior
        return unresolved(standing, self._prior)

    def _end_round(self) -> None:
        if self._closed and len(self._reported) == len(self._standings):
            done, self._round = self._round, _Round()
            self._reported.clear()
            nothing = [0] * len(self._standings)
            done.extra = nothing if self.unanswered else self._decide(self._standings)
            done.over.set()


class _Round:
    """One decision on its way."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.extra: list[int] = []


class Member:
    """One group's place in its block."""

    def __init__(self, block: Block) -> None:
        """It joins the block."""
        self._block, self._number = block, block.join()
        self._comparable = False

    @property
    def undecided(self) -> bool:
        """Whether answers are missing, of this group or of others, by which the block decides."""
        return self._comparable and self._block.unanswered

    async def more(self, judged: Outcome, tokens: float) -> int:
        """How many further passes; 0 ends it."""
        unanswered = any(miss.failure.reason == UNANSWERED.reason for miss in judged.misses)
        standing = Standing.of(judged, tokens)
        self._comparable = standing is not None  # else it gets nothing in any case
        return await self._block.report(self._number, standing, unanswered=unanswered)

    async def escalate(self, judged: Outcome, tokens: float) -> bool:
        """Whether the stronger judge is to score the group: once all of the block have their passes."""
        standing = Standing.of(judged, tokens)
        return standing is not None and self._block.unresolved(standing)


class Blocks:
    """Groups as they are pulled → their places in blocks."""

    def __init__(self, average: int | None) -> None:
        """`average` passes are spent over a block; None: no group gets further ones."""
        self._average = average
        self._open: Block | None = None
        self._bytes = 0

    def place(self, group: Group) -> Member:
        """A place for the next group of the input."""
        size = group.size
        if self._open is not None and (len(self._open) >= MOST or self._bytes + size > SIZE):
            self.close()
        if self._open is None:
            self._open = Block(self._decide)
        self._bytes += size
        return Member(self._open)

    def close(self) -> None:
        """The input is at its end, or the block is full."""
        if self._open is not None:
            self._open.close()
        self._open, self._bytes = None, 0

    def _decide(self, standings: Sequence[Standing | None]) -> list[int]:
        if self._average is None:
            return [0] * len(standings)
        return allot(standings, self._average)
