"""Money: what is spent, what calls in flight have reserved, and the cap on their sum.

How many tokens a request will take, learnt from the usage of those before it.

A tokenizer costs as much as the call, so tokens come from the length, corrected by the ratio that
the judge's own usage shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruler_cli.types import Request, Usage


class Budget:
    """USD of one run.  Nothing goes that could lift spent + reserved above the cap.

    A call that was sent and brought no usage may have been billed: its estimate stays in `unsure`
    and counts towards the cap, but is not reported as spent.
    """

    def __init__(self, cap: float | None = None) -> None:
        """`cap` in USD; None only counts."""
        self.cap = cap
        self.spent = 0.0
        self.unsure = 0.0
        self.reserved = 0.0
        self.open = 0
        """Calls that hold a reservation."""
        self.closed = False
        self.watchers: list[Callable[[], None]] = []
        """Told when money came free or the cap was reached: judges of one run share it."""

    def fits(self, amount: float) -> bool:
        """Whether a call of this price may go."""
        return self.cap is None or self.spent + self.unsure + self.reserved + amount <= self.cap

    def reserve(self, amount: float) -> None:
        """Hold the price of a call that goes now."""
        self.reserved += amount
        self.open += 1

    def settle(self, amount: float, actual: float | None) -> None:
        """The call is over: what it cost, or None where that is not known."""
        self.open -= 1
        # without a call in flight nothing is reserved, whatever the rounding of sums says
        self.reserved = max(0.0, self.reserved - amount) if self.open else 0.0
        if actual is None:
            self.unsure += amount
        else:
            self.spent += actual
        self._tell()

    def close(self) -> None:
        """The cap is reached: nothing goes any more, also no cheaper call."""
        self.closed = True
        self._tell()

    def _tell(self) -> None:
        if len(self.watchers) > 1:  # one judge looks by itself
            for told in self.watchers:
                told()


CHARACTERS_PER_TOKEN = 3.8
ANSWER, PER_LABEL = 100.0, 60.0
"""Completion tokens before any is known: for an answer, and for each rollout in it."""
_PRIOR = 2.0
"""How much more than that is assumed before the first reply: too much costs a second, too little a limit."""
_DOUBT = 4.0
"""How much worse than all before a call may be, divided by how many those were."""
_KEEP = 0.98
"""Weight of all before against the newest reply."""


@dataclass(slots=True)
class _Ratio:
    """Actual / guessed, as a forgetting mean and as the highest seen."""

    actual: float = 0.0
    guessed: float = 0.0
    highest: float = 0.0

    def learn(self, actual: float, guessed: float) -> None:
        self.actual = _KEEP * self.actual + actual
        self.guessed = _KEEP * self.guessed + guessed
        self.highest = max(actual / guessed, self.mean + _KEEP * (self.highest - self.mean))

    @property
    def mean(self) -> float:
        return self.actual / self.guessed


class Estimates:
    """Prompt and completion tokens of a request: as expected, and as a bound for money."""

    def __init__(self, most: int | None = None) -> None:
        """`most` completion tokens are allowed by the user's own parameters."""
        self._most = most
        self._prompt = _Ratio()
        self._completion = _Ratio()
        self.seen = 0
        """Replies that have told their usage."""

    def expected(self, request: Request) -> Usage:
        """Tokens to reserve against a limit per minute."""
        if not self.seen:
            return self._scaled(request, 1.0, _PRIOR)
        return self._scaled(request, self._prompt.mean, self._completion.mean)

    def highest(self, request: Request) -> Usage:
        """Tokens to reserve money for: as bad as the worst of late, and worse while few are known."""
        if not self.seen:
            return self._scaled(request, _PRIOR, 2 * _PRIOR)
        worse = 1 + _DOUBT / self.seen
        return self._scaled(request, worse * self._prompt.highest, worse * self._completion.highest)

    def learn(self, request: Request, usage: Usage) -> None:
        """Take in what a reply says it took; nothing where it says nothing."""
        if usage.prompt:
            self.seen += 1
            guess = _guess(request)
            self._prompt.learn(usage.prompt, guess.prompt)
            self._completion.learn(usage.completion, guess.completion)

    def _scaled(self, request: Request, prompt: float, completion: float) -> Usage:
        guess = _guess(request)
        answer = int(guess.completion * completion) + 1
        bound = min(filter(None, (request.max_output_tokens, self._most)), default=None)
        return Usage(int(guess.prompt * prompt) + 1, min(answer, bound) if bound else answer)


def _guess(request: Request) -> Usage:
    return Usage(int(request.size / CHARACTERS_PER_TOKEN) + 1, int(ANSWER + PER_LABEL * len(request.labels)))
