"""Calls that an agent made at once → their numbers, and the call that each result belongs to.

Calls are made at once if the agent saw no result, and nobody else spoke, between them. Results come back in any order,
and name their calls by ids, which frameworks leave out, repeat, and use again in later turns. A result belongs to the
newest call with its id. An id that is missing, or that two calls made at once have, tells nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruler_cli.formats.chat import AGENT_ROLES

Event = tuple[int, str, str | None]
"""The index of a message, the id of a call in it, and the name of its tool; None: the result of that call."""
_MISSING = ("", "None")


@dataclass(frozen=True, slots=True)
class Pairing:
    """The numbers of calls and results, and the messages in an order with results in that of their calls.

    `calls` has the number of each numbered call by its place among all, `unanswered` those without a result. `results`
    maps the message and the id of a result to its number, 0: none, and to the name of the tool, None: not sure.
    Numbers count through a conversation.
    """

    order: Sequence[int]
    calls: Mapping[int, int]
    unanswered: frozenset[int]
    results: Mapping[tuple[int, str], tuple[int, str | None]]


def pair_results(
    events: Sequence[Event], messages: Sequence[Any], lines: Sequence[str]
) -> Pairing:
    """Pair the results of calls with the calls that were made at once. `lines` are those of each message."""
    names: list[str] = []
    batches: list[list[int]] = [[]]
    batch_of: list[list[int]] = []
    owners: dict[str, list[int]] = {}
    returned: list[tuple[int, str, list[int], bool]] = []
    answered: set[int] = set()
    unsure: list[list[int]] = []
    last, closed = -1, True
    for at, call_id, name in events:
        batch = batches[-1]
        if name is None:
            closed = True
            missing = call_id in _MISSING
            mine = batch if missing else owners.get(call_id, [])
            sure = len(mine) == 1 and not missing
            returned.append((at, call_id, mine, sure))
            if sure:
                answered.add(mine[0])
            elif not (unsure and unsure[-1] is batch):
                unsure.append(batch)
        else:
            between = messages[last + 1 : at + 1]
            if closed or any(m.get("role") not in AGENT_ROLES for m in between):
                batch = []
                batches.append(batch)
            closed = False
            batch.append(len(names))
            mine = owners.setdefault(call_id, [])
            if mine and mine[0] < batch[0]:
                mine = owners[call_id] = []
            mine.append(len(names))
            names.append(name)
            batch_of.append(batch)
        last = at
    several = [batch for batch in batches if len(batch) > 1]
    paired = [call for batch in several if answered & {*batch} for call in batch]
    numbers = {call: number for number, call in enumerate(paired, 1)}
    results: dict[tuple[int, str], tuple[int, str | None]] = {}
    agreed: dict[tuple[int, int], str | None] = {}
    for at, call_id, mine, sure in returned:
        if not mine or len(batch_of[mine[0]]) == 1:
            continue
        asked = mine[0], len(mine)
        if asked not in agreed:
            named = {names[call] for call in mine}
            agreed[asked] = named.pop() if len(named) == 1 else None
        number = numbers.get(mine[0], 0) if sure else 0
        results[at, call_id] = number, agreed[asked]
    left = numbers.keys() - answered - {*itertools.chain(*unsure)}
    return Pairing(
        _order(events, lines, results),
        numbers,
        frozenset(left),
        results,
    )


def _order(
    events: Sequence[Event],
    lines: Sequence[str],
    results: Mapping[tuple[int, str], tuple[int, str | None]],
) -> list[int]:
    """Return the indices of messages, each run of results in the order of their calls."""
    keys: dict[int, list[int]] = {}
    for at, call_id, _ in events:
        keys.setdefault(at, []).append(results.get((at, call_id), (0, None))[0])

    def movable(at: int) -> bool:
        begins = (line.startswith(("tool ", "(")) for line in lines[at].split("\n"))
        return all(keys.get(at, [0])) and all(begins)

    order: list[int] = []
    for moved, run in itertools.groupby(range(len(lines)), movable):
        places = [*run]
        order += sorted(places, key=lambda at: min(keys[at])) if moved else places
    return order
