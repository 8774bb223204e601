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
        self._members: list[Member] = []
        self._waiting = 0
        self._closed = False
        self._over = anyio.Event()
        self._prior: Prior | None = None
        self.unanswered = self.goes_on = False

    def __len__(self) -> int:
        """How many members it has."""
        return len(self._members)

    def join(self) -> Member:
        """A new member."""
        self._members.append(Member(self))
        return self._members[-1]

    def close(self) -> None:
        """Nobody joins any more."""
        self._closed = True
        self._end_round()

    async def decided(self) -> None:
        """Wait until all others say how they stand; with one that is unanswered nobody gets any passes.

        What the others get depends on its answers.
        """
        over = self._over
        self._waiting += 1
        self._end_round()
        await over.wait()

    def unresolved(self, standing: Standing) -> bool:
        """Whether, at the end, a group is neither resolved nor tied, by the noise of the whole block."""
        if self.unanswered:
            return False
        if self._prior is None:
            noise = Batch()
            for member in self._members:
                if member.standing is not None:
                    noise.add(member.standing.judged)
            self._prior = noise.prior
        return unresolved(standing, self._prior)

    def _end_round(self) -> None:
        if not self._closed or self._waiting < len(self._members):
            return
        standings = [member.standing for member in self._members]
        extra = [0] * len(standings) if self.unanswered else self._decide(standings)
        for member, more in zip(self._members, extra, strict=True):
            member.extra = more
        self.goes_on, self._waiting = any(extra), 0
        self._over.set()
        self._over = anyio.Event()


class Member:
    """One group's place in its block: how it stands (None: it has failed), and what it gets in this round."""

    def __init__(self, block: Block) -> None:
        """Of this block."""
        self._block = block
        self.standing: Standing | None = None
        self.extra = 0

    @property
    def undecided(self) -> bool:
        """Whether answers are missing, of this group or of others, by which the block decides."""
        return self.standing is not None and self._block.unanswered

    async def more(self, judged: Outcome, tokens: float) -> int:
        """How many further passes; 0 ends it."""
        self.standing = Standing.of(judged, tokens)
        self._block.unanswered |= any(miss.failure.reason == UNANSWERED.reason for miss in judged.misses)
        while True:
            await self._block.decided()
            if self.extra or not self._block.goes_on:
                return self.extra

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
        return self._open.join()

    def close(self) -> None:
        """The input is at its end, or the block is full."""
        if self._open is not None:
            self._open.close()
        self._open, self._bytes = None, 0

    def _decide(self, standings: Sequence[Standing | None]) -> list[int]:
        if self._average is None:
            return [0] * len(standings)
        return allot(standings, self._average)
