"""All workers of a run as one panel: what is in flight, what it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ruler_cli.cluster.hub import Hub
from ruler_cli.judges.prices import Price
from ruler_cli.observer import Status
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.caller import Tally
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.panel import Panel, Tries
from ruler_cli.records import Usage


class Whole(Panel):
    """A panel whose callers are elsewhere."""

    def __init__(
        self,
        hub: Hub,
        prices: Sequence[Price | None],
        halt: Halt,
        *,
        limited: bool,
        busy: Callable[[], bool],
    ) -> None:
        """`limited`: the hub's budget counts; `busy` tells whether groups are with workers."""
        self.callers, self.prices, self.halt = (), tuple(prices), halt
        self.budget = hub.gates[0].budget
        self._hub, self._limited, self._busy = hub, limited, busy

    @property
    def in_flight(self) -> int:
        """Calls that are out, as far as is known; one as long as a worker has not given back its groups."""
        return max(sum(desk.snapshot.in_flight for desk in self._hub.desks), int(self._busy()))

    def nudge(self) -> None:
        """Have every line look again."""
        for gate in self._hub.gates:
            gate.nudge()

    def status(self) -> Status:
        """What is going on right now; rates and waits are the hub's where it holds limits."""
        self._count()
        seats = range(len(self.prices))
        each = [self._seat(seat) for seat in seats]
        longest = max(each, key=lambda status: status.waiting)
        return Status(
            sum(s.in_flight for s in each),
            sum(s.limit for s in each),
            sum(s.queued for s in each),
            sum(s.requests_per_minute for s in each),
            sum(s.tokens_per_minute for s in each),
            longest.waiting,
            longest.why,
            self.budget.spent,
        )

    def spent(self) -> tuple[Usage, float | None]:
        """Tokens of all replies so far, and USD where every price is known."""
        self._count()
        used = [sum((t.usage for t in self._tallies(seat)), Usage()) for seat in range(len(self.prices))]
        return sum(used, Usage()), None if None in self.prices else self.cost(used)

    def tries(self) -> Tries:
        """What all calls so far took."""
        seats = [self._tallies(seat) for seat in range(len(self.prices))]
        tallies = [tally for each in seats for tally in each]
        retried: dict[str, int] = {}
        for tally in tallies:
            for kind, number in tally.retried.items():
                retried[kind] = retried.get(kind, 0) + number
        return Tries(
            sum(tally.asked for tally in tallies),
            sum(
                min(sum(tally.most for tally in each), gate.level.limit)  # they had their most at other times
                for each, gate in zip(seats, self._hub.gates, strict=True)
            ),
            dict(sorted(retried.items())),
            sum(tally.unanswered for tally in tallies),
        )

    def _tallies(self, seat: int) -> list[Tally]:
        return [desk.snapshot.tallies[seat] for desk in self._hub.desks if desk.snapshot.tallies]

    def _seat(self, seat: int) -> Status:
        each = [desk.snapshot.status[seat] for desk in self._hub.desks if desk.snapshot.status] or [Status()]
        longest = max(each, key=lambda status: status.waiting)
        held = self._hub.gates[seat].status() if self._limited else None
        if held is not None and held.waiting > longest.waiting:
            longest = held
        limit = sum(s.limit for s in each)
        return Status(
            sum(s.in_flight for s in each),
            limit if held is None else min(limit, held.limit),
            sum(s.queued for s in each) + (held.queued if held else 0),
            held.requests_per_minute if held else sum(s.requests_per_minute for s in each),
            held.tokens_per_minute if held else sum(s.tokens_per_minute for s in each),
            longest.waiting,
            longest.why,
        )

    def _count(self) -> None:
        """Without limits no call is told to the hub, and money is what workers say."""
        if not self._limited:
            self.budget = Budget()
            self.budget.spent = sum(desk.snapshot.spent for desk in self._hub.desks)
            self.budget.unsure = sum(desk.snapshot.unsure for desk in self._hub.desks)
