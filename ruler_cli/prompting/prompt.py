"""Group → layout → the requests of each pass, as the two messages to the judge.

The layout leaves out as little as the judge's context allows. A group that is too long for one request is
shown whole, in windows, as long as these hold enough to compare; only if single rollouts are too long for
that, text of those is left out. Order and labels come from keyed hashes of the group's content (BLAKE2b),
never from the input order: the same group asks the identical question however its dump is sorted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from ruler_cli.prompting import templates
from ruler_cli.prompting.layout import (
    ENTRY_BYTES,
    PromptLayout,
    keyed,
    render_group,
)
from ruler_cli.prompting.render import Shortening
from ruler_cli.prompting.windows import LEAST, WIDE, Packing, Windows, fewest
from ruler_cli.settings.models import AskSettings
from ruler_cli.settings.rubric import scale_mistake
from ruler_cli.types import Group, GroupError, Request

LADDER = (
    *(
        Shortening(tool=n)
        for n in (256_000, 128_000, 64_000, 32_000, 16_000, 8000, 4000, 1500, 500)
    ),
    *(Shortening(tool=500, reasoning=n) for n in (2000, 500, 100)),
    Shortening(tool=120, reasoning=0),
)
"""Steps by which a rollout is shortened: tool outputs first, then reasoning. The first steps are for
messages that alone are longer than a context."""


def build_layout(group: Group, ask: AskSettings) -> PromptLayout:
    """Render a group, shortened as little as the judge's context allows.

    If even the whole ladder is not enough, no request shows the layout: `requests_of_pass` is empty.
    """
    rendered, highest = render_group(group, ask), 0
    if ask.context_tokens is None or not rendered.layout.distinct:
        return rendered.finished(0)
    for bar in (_even_bar, _low_bar):
        for step, keep in enumerate(LADDER, 1):
            before = rendered.layout
            if _at_once(before, ask) or _plan(before, ask, (WIDE,)):
                return rendered.finished(highest)
            most = bar(before, ask)
            long = [
                at for at, size in enumerate(before.sizes) if size + ENTRY_BYTES > most
            ]
            rendered.shorten(keep, long, context=len(before.context.encode()) > most)
            after = rendered.layout
            if (after.distinct, after.context) != (before.distinct, before.context):
                highest = max(highest, step)
    return rendered.finished(highest)


def _even_bar(layout: PromptLayout, ask: AskSettings) -> int:
    """Bytes that a rollout may take if all longer ones take as many and windows are full."""
    count, capacity = _windows_of(layout, ask)
    sizes = sorted(
        [
            *(size + ENTRY_BYTES for size in layout.sizes),
            *[len(layout.context.encode())] * count,
        ]
    )
    left = count * capacity
    for number, size in enumerate(sizes):
        if size * (len(sizes) - number) > left:
            return max(left, 0) // (len(sizes) - number)
        left -= size
    return sizes[-1]


def _low_bar(layout: PromptLayout, ask: AskSettings) -> int:
    """Bytes that a rollout may take so that any of that length fit into a window."""
    count, capacity = _windows_of(layout, ask)
    return max(capacity, 0) // (
        -(-len(layout.distinct) // count) + bool(layout.context)
    )


def _windows_of(layout: PromptLayout, ask: AskSettings) -> tuple[int, int]:
    """The most windows that hold enough to compare, and the bytes of each for context and rollouts."""
    number = len(layout.distinct)
    count = max(fewest(number, ask.group_size), number // WIDE, 1)
    return count, layout.bytes_within(ask.context_tokens or 0) + len(
        layout.context.encode()
    )


@dataclass(frozen=True, slots=True)
class RequestPart:
    """The distinct rollouts that one request shows, in order: part `window` of pass `pass_index`, from 0."""

    pass_index: int
    window: int
    distinct: tuple[int, ...]


def pass_count(layout: PromptLayout, ask: AskSettings, windows: int) -> int:
    """Passes that a group gets: at least two in windows, one if nothing is compared."""
    if layout.alone and ask.single != "score":
        return 1
    return max(ask.passes, 2) if windows > 1 else ask.passes


def requests_of_pass(
    layout: PromptLayout, ask: AskSettings, pass_index: int
) -> list[RequestPart]:
    """The requests of one pass: one if it shows the whole group, none if the group fits no context."""
    windows: Windows = []
    if _at_once(layout, ask):
        windows = [layout.order(ask.seed, pass_index)]
    elif plan := _plan(layout, ask):
        pair, packing = plan
        if pass_index > 1:
            even = pass_index - pass_index % 2
            pair = _pair(layout, ask, even, len(pair[0]), packing) or pair
        windows = pair[pass_index % 2]
    if ask.order == "input":
        windows = [sorted(window) for window in windows]
    return [
        RequestPart(pass_index, number, tuple(window))
        for number, window in enumerate(windows)
    ]


def pass_of_judge(number: int, judge: int) -> int:
    """The pass index of pass `number` of a judge of a panel: every second judge begins with the reverse.

    Otherwise a preference of all judges for one position would count as agreement if passes are odd in
    number.
    """
    return number ^ (judge & 1)


def halved(part: RequestPart, count: int) -> tuple[RequestPart, ...]:
    """Two windows in place of one of `count` that was too long; none if too little would be in them.

    Each takes every second rollout, so that positions stay as they were; no other window has their numbers.
    """
    if count < 2 or len(part.distinct) < 2 * LEAST:
        return ()
    number = count + 2 * part.window
    return tuple(
        RequestPart(part.pass_index, number + half, part.distinct[half::2])
        for half in (0, 1)
    )


def why_unaskable(group: Group, layout: PromptLayout, ask: AskSettings) -> GroupError:
    """The error of a group without a request: its rubric, nothing to judge, or nothing that fits."""
    if mistake := scale_mistake(group.rubric):
        return GroupError("input", f"its rubric {mistake}")
    if not layout.distinct:
        errors = [rollout.error for rollout in group.rollouts if rollout.error]
        first = f"no trajectory can be judged; the first: {errors[0]}" if errors else ""
        return GroupError("input", first or "the group has no trajectories")
    # the smallest request that would help: the longest rollout and a short one
    sizes = sorted(range(len(layout.distinct)), key=layout.sizes.__getitem__)
    least = sizes if len(sizes) < 2 * LEAST else (sizes[0], sizes[-1])
    return GroupError(
        "too_long", too_long(layout.tokens_of(least), ask.context_tokens or 0)
    )


def too_long(tokens: int, limit: int) -> str:
    """The sentence for a group of which no two rollouts fit into one request."""
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )


def _at_once(layout: PromptLayout, ask: AskSettings) -> bool:
    """Tell if one request shows everything."""
    limit = ask.context_tokens
    return 0 < len(layout.distinct) <= ask.group_size and (
        limit is None or layout.tokens <= limit
    )


def _plan(
    layout: PromptLayout, ask: AskSettings, floors: Sequence[int] = (WIDE, LEAST)
) -> tuple[tuple[Windows, Windows], Packing] | None:
    """The windows of passes 0 and 1 and how they are packed; None if none fit.

    They are as few as fit and are connected. Those of two and three rollouts are a last resort.
    """
    sizes = [size + ENTRY_BYTES for size in layout.sizes]
    limit = math.inf
    if ask.context_tokens is not None:
        limit = layout.bytes_within(ask.context_tokens)
    for least in floors:
        packing = Packing(sizes, limit, least, ask.group_size)
        count = 0
        while count := packing.count(count + 1):
            made = _pair(layout, ask, 0, count, packing)
            if made is not None:
                return made, packing
    return None


def _pair(
    layout: PromptLayout, ask: AskSettings, even: int, count: int, packing: Packing
) -> tuple[Windows, Windows] | None:
    """The windows of two passes, from an even one on, that connect each other's windows."""

    def made(pass_index: int, before: Windows | None = None) -> Windows | None:
        key = layout.key(ask.seed, pass_index)

        def draw(attempt: int, item: int) -> bytes:
            return keyed(key, b"window %d" % attempt, layout.digests[item])

        order = layout.order(ask.seed, pass_index)
        return packing.partition(order, count, draw, before)

    first = made(even)
    second = first and made(even + 1, first)
    return (first, second) if first and second else None


LETTERS = "bcdfghjkmnpqrstvwxz"
"""Letters of a label."""


@dataclass(slots=True)
class ExchangeState:
    """The corrections of one request so far; each kind is made a few times at most.

    `note` is the sentence that the next request ends with. `fitted`: `max_output_tokens` is all that the
    judge's context leaves beside the prompt. `cuts` are the prompt and answer tokens of each reply that was
    cut off.
    """

    attempt: int = 0
    note: str = ""
    max_output_tokens: int | None = None
    fitted: bool = False
    cuts: tuple[tuple[int, int], ...] = ()
    refused: bool = False
    corrected: int = 0


_FIRST = ExchangeState()
"""The state before any reply."""


def write_prompt(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart | None = None,
    state: ExchangeState | None = None,
    given: Mapping[str, tuple[float, str]] | None = None,
) -> Request:
    """Write the two messages of one request for a part, by default the first of all.

    `given` holds entries of an earlier reply that stand, so that only the other labels are asked for.
    """
    if part is None:
        whole = RequestPart(
            0, 0, tuple(range(len(layout.distinct)))
        )  # of a layout that fits no context
        part = next(iter(requests_of_pass(layout, ask, 0)), whole)
    state, given = state or _FIRST, given or {}
    key = layout.key(ask.seed, part.pass_index, state.attempt)
    order: Sequence[int] = part.distinct
    if state.attempt and ask.order == "random":
        order = layout.drawn(order, key)
    shown = _labels(layout, key, order)
    lines = [f"<context>\n{layout.context}\n</context>"] if layout.context else []
    if layout.tools:
        lines.append(f"<available_tools>\n{layout.tools}\n</available_tools>")
    lines += [
        f'<trajectory id="{label}">\n{layout.distinct[i]}\n</trajectory>'
        for label, i in shown.items()
    ]
    wanted = tuple([label for label in shown if label not in given])
    note = templates.missing(given) if given else state.note
    if note:
        lines.append(note)
    lines.append("trajectory_ids to score: " + orjson.dumps(wanted).decode())
    system = templates.system(layout.rubric, alone=layout.alone)
    user = "\n".join(lines)
    return Request(
        system,
        user,
        wanted,
        state.max_output_tokens,
        part.pass_index,
        state.fitted,
        shown,
    )


def _labels(layout: PromptLayout, key: bytes, order: Sequence[int]) -> dict[str, int]:
    """Four consonants or more for each rollout, that no text of the request holds."""
    labels: dict[str, int] = {}
    text = "\n".join(
        (
            layout.rubric,
            layout.context,
            layout.tools,
            *[layout.distinct[i] for i in order],
        )
    )
    for i in order:
        for draw in itertools.count():
            number = int.from_bytes(keyed(key, b"label %d" % draw, layout.digests[i]))
            size = (
                4 + draw // 50
            )  # a text that holds every short label is answered with longer ones
            label = ""
            for _ in range(size):
                number, letter = divmod(number, len(LETTERS))
                label += LETTERS[letter]
            if label not in labels and label not in text:
                labels[label] = i
                break
    return labels
