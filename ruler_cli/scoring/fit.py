"""Group → sheet, with as little left out as the judge's context allows.

What is too long to be shown at once is shown whole, in windows, as long as these hold enough to
compare. Only where single rollouts are too long for that is something left out, and of those alone.
"""

from __future__ import annotations

from ruler_cli.records import Group
from ruler_cli.scoring.plan import windows
from ruler_cli.scoring.render import Shortening
from ruler_cli.scoring.sheet import ENTRY_BYTES, Draft, Sheet
from ruler_cli.scoring.windows import WIDE, fewest
from ruler_cli.settings import AskSettings

LADDER = (
    *(Shortening(tool=n) for n in (256_000, 128_000, 64_000, 32_000, 16_000, 8000, 4000, 1500, 500)),
    *(Shortening(tool=500, reasoning=n) for n in (2000, 500, 100)),
    Shortening(tool=120, reasoning=0),
)
"""Steps by which a rollout is shortened: tool outputs first, then reasoning. The first are for what alone
is longer than a context."""


def lay_out(group: Group, ask: AskSettings) -> Sheet:
    """Render a group, shortened as little as the judge's context allows.

    Where even the whole ladder is not enough, `plan.windows` is below 1 for the sheet.
    """
    draft = Draft.of(group, ask)
    if ask.context_tokens is None or not draft.sheet.bodies:
        return draft.finished(0)
    highest = 0
    for bar in (_even_bar, _low_bar):
        for step, keep in enumerate(LADDER, 1):
            if windows(draft.sheet, ask, WIDE):
                return draft.finished(highest)
            most = bar(draft.sheet, ask)
            long = [body for body, size in enumerate(draft.sheet.sizes) if size + ENTRY_BYTES > most]
            before = draft.sheet
            draft.shorten(keep, long, context=len(before.context.encode()) > most)
            if (draft.sheet.bodies, draft.sheet.context) != (before.bodies, before.context):
                highest = max(highest, step)
    return draft.finished(highest)


def _even_bar(sheet: Sheet, ask: AskSettings) -> int:
    """Bytes that a rollout may take if all that are longer took as many, and windows were filled."""
    count, capacity = _windows_of(sheet, ask)
    sizes = sorted([*(size + ENTRY_BYTES for size in sheet.sizes), *[len(sheet.context.encode())] * count])
    left = count * capacity
    for number, size in enumerate(sizes):
        if size * (len(sizes) - number) > left:
            return max(left, 0) // (len(sizes) - number)
        left -= size
    return sizes[-1]


def _low_bar(sheet: Sheet, ask: AskSettings) -> int:
    """Bytes that a rollout may take so that any of that length fit into a window."""
    count, capacity = _windows_of(sheet, ask)
    return max(capacity, 0) // (-(-len(sheet.bodies) // count) + bool(sheet.context))


def _windows_of(sheet: Sheet, ask: AskSettings) -> tuple[int, int]:
    """The most windows that hold enough to compare, and the bytes of each for context and rollouts."""
    number = len(sheet.bodies)
    count = max(fewest(number, ask.group_size), number // WIDE, 1)
    return count, sheet.room(ask.context_tokens or 0) + len(sheet.context.encode())
