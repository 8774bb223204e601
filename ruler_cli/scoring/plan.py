"""Which requests a pass over a group takes: all rollouts at once, or windows of them."""

from __future__ import annotations

from dataclasses import dataclass

from ruler_cli.records import Failure, Group
from ruler_cli.scoring.orders import keyed, order_of, salt
from ruler_cli.scoring.sheet import ENTRY_BYTES, Sheet
from ruler_cli.scoring.windows import LEAST, WIDE, Windows, count_for, partition
from ruler_cli.settings import AskSettings


@dataclass(frozen=True, slots=True)
class Part:
    """What one request shows: distinct bodies by slot, as the `window`th part of pass `turn`, from 0."""

    turn: int
    window: int
    bodies: tuple[int, ...]


def windows(sheet: Sheet, ask: AskSettings, least: int | None = None) -> int:
    """How many requests a pass takes: 1 where all is shown at once, 0 where nothing fits the context.

    Windows of fewer than `least` rollouts are not made; by default those of two and three are as a last
    resort.
    """
    if _at_once(sheet, ask):
        return 1
    for floor in (WIDE, LEAST) if least is None else (least,):
        made = _plan(sheet, ask, floor)
        if made is not None:
            return len(made[0])
    return 0


def turns(sheet: Sheet, ask: AskSettings) -> int:
    """How many passes a group gets: two at least in windows, one where nothing is compared."""
    if sheet.alone and ask.single != "score":
        return 1
    return max(ask.passes, 2) if windows(sheet, ask) > 1 else ask.passes


def parts(sheet: Sheet, ask: AskSettings, turn: int) -> tuple[Part, ...]:
    """The requests of one pass; none where the group does not fit the judge's context."""
    made: Windows = []
    if _at_once(sheet, ask):
        made = [_order(sheet, ask, turn)]
    for least in () if made else (WIDE, LEAST):
        plan = _plan(sheet, ask, least)
        if plan is not None:
            even = turn - turn % 2
            count = len(plan[0])
            pair = plan if turn < 2 else _pair(sheet, ask, even, count, least) or plan
            made = pair[turn % 2]
            break
    if ask.order == "input":
        made = [sorted(window) for window in made]
    return tuple(Part(turn, number, tuple(window)) for number, window in enumerate(made))


def turn_of(number: int, judge: int) -> int:
    """The turn that a judge of a panel takes as its pass `number`: every second judge the reverse first.

    What all judges give a place would else count as agreement wherever passes are odd in number.
    """
    return number ^ (judge & 1)


def halved(part: Part, count: int) -> tuple[Part, ...]:
    """Two windows in place of one of `count` that was too long; none where too little would be in them.

    Each takes every second rollout, so that places stay what they were; no window has their numbers.
    """
    if count < 2 or len(part.bodies) < 2 * LEAST:
        return ()
    number = count + 2 * part.window
    return tuple(Part(part.turn, number + half, part.bodies[half::2]) for half in (0, 1))


def obstacle(group: Group, sheet: Sheet, ask: AskSettings) -> Failure | None:
    """Why a group cannot be asked about: nothing to judge, or nothing that fits the judge's context."""
    if not sheet.bodies:
        return Failure("input", _nothing_to_judge(group))
    if ask.context_tokens is not None and not windows(sheet, ask):
        return Failure("too_long", too_long(least_tokens(sheet), ask.context_tokens))
    return None


def too_long(tokens: int, limit: int) -> str:
    """The sentence for a group of which no two rollouts fit into one request."""
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )


def least_tokens(sheet: Sheet) -> int:
    """Estimated tokens of the smallest request that would help: the longest rollout and a short one."""
    sizes = sorted(range(len(sheet.bodies)), key=sheet.sizes.__getitem__)
    return sheet.tokens_of(sizes) if len(sizes) < 2 * LEAST else sheet.tokens_of((sizes[0], sizes[-1]))


def _at_once(sheet: Sheet, ask: AskSettings) -> bool:
    """Whether one request shows everything."""
    limit = ask.context_tokens
    return 0 < len(sheet.bodies) <= ask.group_size and (limit is None or sheet.tokens <= limit)


def _plan(sheet: Sheet, ask: AskSettings, least: int) -> tuple[Windows, Windows] | None:
    """The windows of turns 0 and 1, as few as fit and hang together; None where none do.

    Not for a group that is shown at once, whose plan is its order.
    """
    number, limit = len(sheet.bodies), ask.context_tokens
    if number == 0:
        return None
    sizes = [size + ENTRY_BYTES for size in sheet.sizes]
    room = None if limit is None else sheet.room(limit)
    count = 0
    while count := count_for(sizes, room, ask.group_size, least, count + 1):
        made = _pair(sheet, ask, 0, count, least)
        if made is not None:
            return made
    return None


def _pair(
    sheet: Sheet, ask: AskSettings, turn: int, count: int, least: int
) -> tuple[Windows, Windows] | None:
    """Two passes, from an even turn on, that tie each other's windows together."""
    first = _dealt(sheet, ask, turn, count, least, None)
    second = None if first is None else _dealt(sheet, ask, turn + 1, count, least, first)
    return None if first is None or second is None else (first, second)


def _dealt(
    sheet: Sheet, ask: AskSettings, turn: int, count: int, least: int, before: Windows | None
) -> Windows | None:
    key = salt(sheet.digest, seed=ask.seed, turn=turn, attempt=0)
    return partition(
        _order(sheet, ask, turn),
        count,
        lambda attempt, body: keyed(key, b"window %d" % attempt, sheet.digests[body]),
        sizes=[size + ENTRY_BYTES for size in sheet.sizes],
        limit=None if ask.context_tokens is None else sheet.room(ask.context_tokens),
        least=least,
        most=ask.group_size,
        before=before,
    )


def _order(sheet: Sheet, ask: AskSettings, turn: int) -> list[int]:
    return order_of(sheet.digest, sheet.digests, seed=ask.seed, turn=turn)


def _nothing_to_judge(group: Group) -> str:
    faults = [r.fault for r in group.rollouts if r.fault]
    return (
        f"no trajectory can be judged; the first: {faults[0]}" if faults else "the group has no trajectories"
    )
