"""Groups decide together who is asked further: in blocks of neighbours, so that memory stays flat.

A block is a stretch of the input, so what is asked depends on the input and the replies only, never on
who answered first: a run that is repeated asks the same. While one block waits for its slowest reply
the others go on.
"""

from __future__ import annotations

import anyio

from ruler_cli.judging.adaptive import GroupStanding, allot, unresolved
from ruler_cli.scoring.batch_statistics import BatchStatistics
from ruler_cli.scoring.reliability import NoisePrior
from ruler_cli.types import UNANSWERED, Group, GroupResult

MOST, SIZE = 64, 16 << 20
"""Groups of a block, and bytes of input: a quarter of what a run may hold."""


class Blocks:
    """Groups as they are pulled → their places in blocks."""

    def __init__(self, average: int | None) -> None:
        """`average` passes are spent over a block; None: no group gets further ones."""
        self._average = average
        self._open: _Block | None = None

    def place(self, group: Group) -> BlockMember:
        """A place for the next group of the input."""
        block = self._open
        if block is not None and (len(block.members) >= MOST or block.bytes + group.size > SIZE):
            self.close()
        if self._open is None:
            self._open = _Block(self._average)
        self._open.bytes += group.size
        self._open.members.append(BlockMember(self._open))
        return self._open.members[-1]

    def close(self) -> None:
        """The input is at its end, or the block is full: nobody joins any more."""
        block, self._open = self._open, None
        if block is not None:
            block.closed = True
            block.end_round()


class _Block:
    """One block: each member says how it stands, the last one to do so decides for all."""

    def __init__(self, average: int | None) -> None:
        self._average = average
        self.members: list[BlockMember] = []
        self.bytes = self._waiting = 0
        self.closed = self.unanswered = self.goes_on = False
        self._over = anyio.Event()
        self._prior: NoisePrior | None = None

    async def decided(self) -> None:
        """Wait until all others say how they stand; with one that is unanswered nobody gets any passes.

        What the others get depends on its answers.
        """
        over = self._over
        self._waiting += 1
        self.end_round()
        await over.wait()

    def end_round(self) -> None:
        """Tell all members what they get, once nobody is missing."""
        if not self.closed or self._waiting < len(self.members):
            return
        extra = [0] * len(self.members)
        if not self.unanswered and self._average is not None:
            extra = allot([member.standing for member in self.members], self._average)
        for member, more in zip(self.members, extra, strict=True):
            member.extra = more
        self.goes_on, self._waiting = any(extra), 0
        self._over.set()
        self._over = anyio.Event()

    def unresolved(self, standing: GroupStanding) -> bool:
        """Whether, at the end, a group is neither resolved nor tied, by the noise of the whole block."""
        if self._prior is None:
            noise = BatchStatistics()
            for member in self.members:
                if member.standing is not None:
                    noise.add(member.standing.judged)
            self._prior = noise.prior
        return not self.unanswered and unresolved(standing, self._prior)


class BlockMember:
    """One group's place in its block: how it stands (None: it has failed), and what it gets in this round."""

    def __init__(self, block: _Block) -> None:
        """Of this block."""
        self._block = block
        self.standing: GroupStanding | None = None
        self.extra = 0

    @property
    def undecided(self) -> bool:
        """Whether answers are missing, of this group or of others, by which the block decides."""
        return self.standing is not None and self._block.unanswered

    async def more(self, judged: GroupResult, tokens: float) -> int:
        """How many further passes; 0 ends it."""
        self.standing = GroupStanding.of(judged, tokens)
        self._block.unanswered |= any(miss.error.reason == UNANSWERED.reason for miss in judged.failed_calls)
        while True:
            await self._block.decided()
            if self.extra or not self._block.goes_on:
                return self.extra

    async def escalate(self, judged: GroupResult, tokens: float) -> bool:
        """Whether the stronger judge is to score the group: once all of the block have their passes."""
        standing = GroupStanding.of(judged, tokens)
        return standing is not None and self._block.unresolved(standing)
