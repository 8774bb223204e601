"""What a worker and the hub of a run tell one another, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from ruler_cli.errors import RulerError
from ruler_cli.observer import Status
from ruler_cli.pool.caller import Tally
from ruler_cli.records import Fault, Reply, Request, Usage


@dataclass(frozen=True, slots=True)
class Ask:
    """May a call to the judge of a seat go? Of the request only what an estimate needs."""

    number: int
    seat: int
    characters: int
    labels: int
    room: int | None


@dataclass(frozen=True, slots=True)
class Settle:
    """A call that was let go is over; `went` is False where it never left."""

    number: int
    usage: Usage | None = None
    posts: int = 1
    billed: bool = True
    went: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that is to be asked; `look`: whether the ledger is looked into, by who has it.

    `repeated`: its group was with a worker that ended, so what this run has kept is that worker's answer.
    """

    number: int
    seat: int
    key: bytes
    again: bool
    look: bool
    repeated: bool


@dataclass(frozen=True, slots=True)
class Release:
    """A claimed request is answered, or is not to be."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """An answer for the ledger, from a worker that cannot reach it; it waits for the word that it is kept."""

    number: int
    seat: int
    key: bytes
    answer: Reply | Fault


@dataclass(frozen=True, slots=True)
class Cool:
    """The judge of a seat wants to be left alone for so many seconds."""

    seat: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lift:
    """It was one call that was to leave it alone: all may go again."""

    seat: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The run is to stop, for this reason."""

    reason: RulerError


@dataclass(frozen=True, slots=True)
class Heard:
    """A judge's reply about a group, as --debug shows it."""

    group: str
    text: str


@dataclass(frozen=True, slots=True)
class Room:
    """More groups may come."""


@dataclass(frozen=True, slots=True)
class Answer:
    """To an Ask, a Claim or a Keep, by its number.

    None lets it go; a Fault or a Reply is what it gets instead, an error is why it could not be. `look`:
    what was claimed may have been answered since.
    """

    number: int
    given: Reply | Fault | RulerError | None = None
    look: bool = True


Told = Ask | Settle | Claim | Release | Keep | Cool | Lift | Stop | Heard | Room
"""From a worker."""
News = Answer | Cool | Lift | Stop
"""To a worker."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a worker has done so far and is doing, by seat; USD as its budget has them."""

    number: int = 0
    status: tuple[Status, ...] = ()
    tallies: tuple[Tally, ...] = ()
    spent: float = 0.0
    unsure: float = 0.0

    @property
    def in_flight(self) -> int:
        """Calls that are out."""
        return sum(status.in_flight for status in self.status)


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker sends: the `number`th, since two may pass one another on their way."""

    number: int
    told: tuple[Told, ...]
    snapshot: Snapshot = field(default_factory=Snapshot)


@dataclass(frozen=True, slots=True)
class Outline(Request):
    """A request without its text, as long as it was."""

    characters: int = 0

    @property
    def size(self) -> int:
        """Characters of the prompt."""
        return self.characters
