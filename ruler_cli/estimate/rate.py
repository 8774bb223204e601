"""Bytes of a group in its dump → tokens of the prompts that would show it, without laying it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ruler_cli.estimate.notes import Noted
from ruler_cli.scoring.request import BYTES_PER_TOKEN
from ruler_cli.scoring.windows import WIDE, fewest
from ruler_cli.settings import AskSettings


@dataclass(frozen=True, slots=True)
class Looked:
    """A group that was laid out: its tokens and entries, and what of it turned out to be the same.

    `spread` groups were drawn evenly from all.
    """

    group: Noted
    tokens: int
    entries: int
    identical: int
    tied: int
    spread: bool


@dataclass(slots=True)
class Rate:
    """Tokens that a group comes to, as a multiple of those that its bytes in the dump tell.

    `shared` is the part of them that every window repeats.
    """

    fixed: float
    mean: float = 1.0
    most: float = 1.0
    shared: float = 0.0

    def tokens(self, group: Noted, rate: float, windows: int = 1) -> float:
        """Tokens of a prompt that shows a group, or a window of it."""
        text = rate * group.size / BYTES_PER_TOKEN
        if windows > 1:
            text *= self.shared + (1 - self.shared) / windows
        return self._fixed(group.distinct / windows) + text

    def windows(self, group: Noted, ask: AskSettings) -> int:
        """In how many windows a group is shown that fits in some."""
        count, limit = fewest(group.distinct, ask.group_size), ask.context_tokens
        if limit is None:
            return count
        while count < group.distinct // WIDE and self.tokens(group, self.mean, count) > limit:
            count += 1  # where windows are not small enough, rollouts are shortened
        return count

    def learn(self, looked: Iterable[Looked]) -> None:
        """Take the rates from groups that were laid out whole; the mean from those that are spread."""
        actual = noted = 0.0
        rates = []
        for each in looked:
            one = max(1.0, each.tokens - self._fixed(each.entries))
            other = max(1.0, each.group.size / BYTES_PER_TOKEN)
            if not each.spread:
                rates.append(one / other)
                continue
            actual, noted = actual + one, noted + other
            rates.append(one / other)
        if noted:
            self.mean = actual / noted
        self.most = max([self.mean, *rates])

    def _fixed(self, entries: float) -> float:
        return self.fixed + 20 * entries


def passes(windows: int, ask: AskSettings, *, alone: bool) -> int:
    """How many passes a group gets that is shown in so many windows: what `plan.turns` says of its sheet."""
    if alone and ask.single != "score":
        return 1
    return max(ask.passes, 2) if windows > 1 else ask.passes
