"""Calls that an agent made at once → their numbers, and the call that each result belongs to.

Calls are made at once if the agent saw no result, and nobody else spoke, between them. Results come back in any order,
and name their calls by ids, which frameworks leave out, repeat, and use again in later turns. A result belongs to the
newest call with its id. An id that is missing, or that two calls made at once have, tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ruler_cli.files.values import first
from ruler_cli.messages.form import Message

Event = tuple[int, str, str | None]
"""The index of a message, the id of a call in it, and the name of its tool; None: the result of that call."""
Results = Mapping[tuple[int, str], tuple[str, str | None]]
"""The message and the id of a result → the number of its call and the name of the tool, None: not sure."""
_NO_RESULT = re.compile(r"^(?!tool |\()", re.MULTILINE)
"""The beginning of a line that is neither of a result nor a mark."""


class Pairing(NamedTuple):
    """The numbers of calls and results, and the messages in an order with results in that of their calls.

    `calls` has the number of each call, and whether it has no result. Numbers, each behind a space, count through a
    conversation; an empty one is none.
    """

    order: Sequence[int]
    calls: Sequence[tuple[str, bool]]
    results: Results


@dataclass(slots=True)
class _Calls:
    """Calls that were made at once, or those of them with one id: their places among all, and the names of tools.

    `same` has those with each id. `unsure`: a result came that may be of any.
    """

    places: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    same: dict[str, _Calls] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    unsure: bool = False

    @property
    def is_one(self) -> bool:
        """Return whether it is one call."""
        return len(self.places) == 1


_NONE = _Calls()


def pair_results(
    events: Sequence[Event], messages: Sequence[Message], lines: Sequence[str]
) -> Pairing | None:
    """Pair the results of calls with the calls that were made at once; None if there are none.

    `lines` are those of each message.
    """
    made = [name is not None for _, _, name in events]
    if (True, True) not in pairwise(made):
        return None
    batch = _Calls()
    batches = []
    newest: dict[str, _Calls] = {}
    returned = []
    last, count, closed = -1, 0, True
    for at, call_id, name in events:
        if name is None:
            owner = newest.get(call_id, batch) if call_id else batch
            calls = owner.same.get(call_id, _NONE) if call_id else owner
            returned.append((at, call_id, owner, calls))
            if calls.is_one:
                owner.answered.update(calls.places)
            else:
                batch.unsure = True
        else:
            between = messages[last + 1 : at + 1]
            if closed or not all(message.by_agent for message in between):
                batch = _Calls()
                batches.append(batch)
            newest[call_id] = batch
            for calls in (batch, batch.same.setdefault(call_id, _Calls())):
                calls.places.append(count)
                calls.names.add(name)
            count += 1
        closed = name is None
        last = at
    numbers = []
    number = 0
    for batch in batches:
        numbered = len(batch.places) > 1 and batch.answered
        for place in batch.places:
            number += bool(numbered)
            answered = not numbered or batch.unsure or place in batch.answered
            numbers.append((f" {number}" if numbered else "", not answered))
    results = {
        (at, call_id): (
            numbers[calls.places[0]][0] if calls.is_one else "",
            first(calls.names) if len(calls.names) == 1 else None,
        )
        for at, call_id, owner, calls in returned
        if calls.places and len(owner.places) > 1
    }
    return (
        Pairing(_order(events, lines, results), numbers, results)
        if results
        else None
    )


def _order(
    events: Sequence[Event], lines: Sequence[str], results: Results
) -> Sequence[int]:
    """Return the indices of messages, each run of results in the order of their calls."""
    numbers: dict[int, int] = {}
    for at, call_id, _ in events:
        text, _ = results.get((at, call_id), ("", None))
        number = int(text or 0)
        numbers[at] = min(number, numbers.get(at, number))
    run = 0
    ranks = []
    for at, text in enumerate(lines):
        number = numbers.get(at, 0)
        if not number or _NO_RESULT.search(text):
            run += 1
            number = 0
        ranks.append((run, number))
    return sorted(range(len(lines)), key=ranks.__getitem__)
