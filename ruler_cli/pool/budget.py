"""Money of a run, and estimates of the tokens that a request will take.

A tokenizer costs as much as the call. So tokens come from the length of the request, corrected by the
ratio that the judge's own usage shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruler_cli.types import CHARACTERS_PER_TOKEN, Request, Usage


class Budget:
    """USD of one run. No call goes that could lift spent + unsure + reserved above the cap.

    A call that was sent and brought no usage may have been billed: its estimate is added to `unsure`,
    which counts towards the cap and is not reported as spent.
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
        self.least: float | None = None
        """USD of the call at which the cap was reached, if no call was paid before."""
        self.watchers: list[Callable[[], None]] = []
        """Gates that share the budget: each is called when money comes free or the cap is reached."""

    def fits(self, amount: float) -> bool:
        """Tell if a call of this price may go."""
        return (
            self.cap is None
            or self.spent + self.unsure + self.reserved + amount <= self.cap
        )

    def reserve(self, amount: float) -> None:
        """Hold the price of a call that goes now."""
        self.reserved += amount
        self.open += 1

    def settle(self, amount: float, actual: float | None) -> None:
        """Replace a call's reserved `amount` by its actual cost, None if that is not known."""
        self.open -= 1
        # without a call in flight nothing is reserved, whatever the rounding of sums says
        self.reserved = max(0.0, self.reserved - amount) if self.open else 0.0
        if actual is None:
            self.unsure += amount
        else:
            self.spent += actual
        self._notify()

    def close(self, amount: float) -> None:
        """Let no call go any more, also no cheaper one: the cap is reached at a call of this price."""
        self.closed = True
        if not self.spent + self.unsure:
            self.least = amount
        self._notify()

    def _notify(self) -> None:
        if len(self.watchers) > 1:  # a single gate looks by itself
            for watcher in self.watchers:
                watcher()


ANSWER, PER_LABEL = 100.0, 60.0
"""Completion tokens before any is known: for an answer, and for each rollout in it."""
_PRIOR = 2.0
"""Factor on the guess before the first reply: too high costs a second, too low breaks a limit."""
_DOUBT = 4.0
"""Factor by which a call may exceed all before it, divided by the number of those."""
_DECAY = 0.98
"""Weight of all earlier replies against the newest."""


@dataclass(slots=True)
class _Ratio:
    """Actual / guessed, as a forgetting mean and as the highest seen."""

    actual: float = 0.0
    guessed: float = 0.0
    highest: float = 0.0

    def learn(self, actual: float, guessed: float) -> None:
        self.actual = _DECAY * self.actual + actual
        self.guessed = _DECAY * self.guessed + guessed
        mean = self.mean
        self.highest = max(actual / guessed, mean + _DECAY * (self.highest - mean))

    @property
    def mean(self) -> float:
        return self.actual / self.guessed


class Estimates:
    """Prompt and completion tokens of a request: the expected number, and an upper bound for money."""

    def __init__(self, most: int | None = None) -> None:
        """`most` completion tokens are allowed by the user's own parameters."""
        self._most = most
        self._prompt = _Ratio()
        self._completion = _Ratio()
        self.seen = 0
        """Replies that reported their usage."""

    def expected(self, request: Request) -> Usage:
        """Return the tokens to reserve against a limit per minute."""
        if not self.seen:
            return self._scaled(request, 1.0, _PRIOR)
        return self._scaled(request, self._prompt.mean, self._completion.mean)

    def highest(self, request: Request) -> Usage:
        """Return the tokens to reserve money for: the worst ratio of late, and more while few are known."""
        if not self.seen:
            return self._scaled(request, _PRIOR, 2 * _PRIOR)
        worse = 1 + _DOUBT / self.seen
        return self._scaled(
            request, worse * self._prompt.highest, worse * self._completion.highest
        )

    def learn(self, request: Request, usage: Usage) -> None:
        """Take in the usage that a reply reports; ignore one without prompt tokens."""
        if usage.prompt:
            self.seen += 1
            prompt, completion = _guess(request)
            self._prompt.learn(usage.prompt, prompt)
            self._completion.learn(usage.completion, completion)

    def _scaled(
        self, request: Request, prompt_ratio: float, completion_ratio: float
    ) -> Usage:
        prompt, completion = _guess(request)
        answer = int(completion * completion_ratio) + 1
        for bound in (request.max_output_tokens, self._most):
            if bound and bound < answer:
                answer = bound
        return Usage(int(prompt * prompt_ratio) + 1, answer)


def _guess(request: Request) -> tuple[int, int]:
    """Guess prompt and completion tokens from the length of the prompt and the number of labels."""
    return int(request.size / CHARACTERS_PER_TOKEN) + 1, int(
        ANSWER + PER_LABEL * len(request.labels)
    )
