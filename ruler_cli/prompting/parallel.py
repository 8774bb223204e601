"""Calls that an agent made at once → their numbers, and the call that each result belongs to.

Calls are made at once if the agent saw no result, and nobody else spoke, between them. Results come back in any order,
and name their calls by ids, which frameworks leave out, repeat, and use again in later turns. A result belongs to the
newest call with its id. An id that is missing, or that two calls made at once have, tells nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

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


def pair_results(
    events: Sequence[Event],
    messages: Sequence[Message],
    lines: Sequence[str],
) -> Pairing | None:
    """Pair the results of calls with the calls that were made at once; None if there are none.

    `lines` are those of each message.
    """
    is_call = [name is not None for _, _, name in events]
    if (True, True) not in pairwise(is_call):
        return None
    # by the number of a batch that was made at once and an id, "" for all of it: the calls, and names of tools
    calls = defaultdict[tuple[int, str], list[int]](list)
    names = defaultdict[tuple[int, str], set[str]](set)
    newest: dict[str, int] = {}
    returned = []
    answered: set[int] = set()
    unsure: set[int] = set()
    last, batch, count, closed = -1, 0, 0, True
    for at, call_id, name in events:
        if name is None:
            key = (newest.get(call_id, batch), call_id)
            returned.append((at, key))
            if len(calls[key]) == 1:
                answered.update(calls[key])
            else:  # it may be of any call
                unsure.add(batch)
        else:
            between = messages[last + 1 : at + 1]
            if closed or not all(message.by_agent for message in between):
                batch += 1
            if call_id:
                newest[call_id] = batch
            for key in {(batch, ""), (batch, call_id)}:
                calls[key].append(count)
                names[key].add(name)
            count += 1
        closed = name is None
        last = at
    numbers = [("", False)] * count
    number = 0
    for made in range(1, batch + 1):
        together = calls[made, ""]
        if len(together) == 1 or answered.isdisjoint(together):
            continue
        for call in together:
            number += 1
            missing = made not in unsure and call not in answered
            numbers[call] = (f" {number}", missing)
    results = {}
    for at, key in returned:
        made, call_id = key
        called = names[key]
        if called and len(calls[made, ""]) > 1:
            text, _ = numbers[calls[key][0]]
            results[at, call_id] = (
                text if len(calls[key]) == 1 else "",
                min(called) if len(called) == 1 else None,
            )
    if not results:
        return None
    return Pairing(_order(events, lines, results), numbers, results)


def _order(
    events: Sequence[Event],
    lines: Sequence[str],
    results: Results,
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
