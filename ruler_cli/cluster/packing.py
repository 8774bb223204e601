"""Values between the processes of a run, as bytes.

Python takes eight times as long to pickle a frozen dataclass with slots as to make one anew, so those that
come by the thousand are packed as their constructor and its arguments.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any

from ruler_cli.ballots import Ballot, Miss, Outcome
from ruler_cli.cluster import messages
from ruler_cli.observer import Status
from ruler_cli.pool.caller import Tally
from ruler_cli.records import Failure, Fault, Group, Line, Record, Reply, Rollout, Usage

_TYPES = (
    *(Ballot, Miss, Outcome, Failure, Fault, Group, Line, Record, Reply, Rollout, Usage),
    *(Status, Tally, messages.Ask, messages.Settle, messages.Claim, messages.Release, messages.Keep),
    *(messages.Room, messages.Answer, messages.Snapshot, messages.Parcel, messages.Cool, messages.Lift),
)


def packed(value: Any) -> bytes:
    """A value as bytes, for this version of ruler alone."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _TABLE
    pickler.dump(value)
    return out.getvalue()


def unpacked(body: bytes) -> Any:
    """The value again; only of what another process of this run has packed."""
    return pickle.loads(body)  # noqa: S301 - see above


def _reduced(made: type, arguments: Callable[[Any], tuple[Any, ...]], value: Any) -> tuple[Any, ...]:
    return made, arguments(value)


def _reducer(made: type) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in fields(made)]
    if len(names) > 1:
        return partial(_reduced, made, attrgetter(*names))
    return partial(_reduced, made, lambda value: tuple(getattr(value, name) for name in names))


_TABLE: dict[type, Callable[[Any], Any]] = dict(copyreg.dispatch_table)
_TABLE.update({made: _reducer(made) for made in _TYPES})
