"""Money: what is spent, what calls in flight have reserved, and the cap on their sum."""

from __future__ import annotations

from collections.abc import Callable


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
