"""Group → sheet → the requests of each pass, as the two messages put to the judge.

As little is left out as the judge's context allows: a group that is too long to be shown at once is shown
whole, in windows, as long as these hold enough to compare; only where single rollouts are too long for
that is something left out, and of those alone. Order and labels come from keyed hashes of the group's
content (BLAKE2b), never from the input order: the same group asks the identical question however its
dump is sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from ruler_cli.config import AskSettings
from ruler_cli.prompting import templates
from ruler_cli.prompting.layout import ENTRY_BYTES, LayoutBuilder, PromptLayout, drawn, keyed, order_of, salt
from ruler_cli.prompting.render import Shortening
from ruler_cli.prompting.windows import LEAST, WIDE, Windows, count_for, fewest, partition
from ruler_cli.types import Group, GroupError, Request

LADDER = (
    *(Shortening(tool=n) for n in (256_000, 128_000, 64_000, 32_000, 16_000, 8000, 4000, 1500, 500)),
    *(Shortening(tool=500, reasoning=n) for n in (2000, 500, 100)),
    Shortening(tool=120, reasoning=0),
)
"""Steps by which a rollout is shortened: tool outputs first, then reasoning. The first are for what alone
is longer than a context."""


def build_layout(group: Group, ask: AskSettings) -> PromptLayout:
    """Render a group, shortened as little as the judge's context allows.

    Where even the whole ladder is not enough, `windows` is below 1 for the sheet.
    """
    draft = LayoutBuilder.of(group, ask)
    if ask.context_tokens is None or not draft.sheet.distinct:
        return draft.finished(0)
    highest = 0
    for bar in (_even_bar, _low_bar):
        for step, keep in enumerate(LADDER, 1):
            if _at_once(draft.sheet, ask) or _plan(draft.sheet, ask, (WIDE,)):
                return draft.finished(highest)
            most = bar(draft.sheet, ask)
            long = [body for body, size in enumerate(draft.sheet.sizes) if size + ENTRY_BYTES > most]
            before = draft.sheet
            draft.shorten(keep, long, context=len(before.context.encode()) > most)
            if (draft.sheet.distinct, draft.sheet.context) != (before.distinct, before.context):
                highest = max(highest, step)
    return draft.finished(highest)


def _even_bar(sheet: PromptLayout, ask: AskSettings) -> int:
    """Bytes that a rollout may take if all that are longer took as many, and windows were filled."""
    count, capacity = _windows_of(sheet, ask)
    sizes = sorted([*(size + ENTRY_BYTES for size in sheet.sizes), *[len(sheet.context.encode())] * count])
    left = count * capacity
    for number, size in enumerate(sizes):
        if size * (len(sizes) - number) > left:
            return max(left, 0) // (len(sizes) - number)
        left -= size
    return sizes[-1]


def _low_bar(sheet: PromptLayout, ask: AskSettings) -> int:
    """Bytes that a rollout may take so that any of that length fit into a window."""
    count, capacity = _windows_of(sheet, ask)
    return max(capacity, 0) // (-(-len(sheet.distinct) // count) + bool(sheet.context))


def _windows_of(sheet: PromptLayout, ask: AskSettings) -> tuple[int, int]:
    """The most windows that hold enough to compare, and the bytes of each for context and rollouts."""
    number = len(sheet.distinct)
    count = max(fewest(number, ask.group_size), number // WIDE, 1)
    return count, sheet.bytes_within(ask.context_tokens or 0) + len(sheet.context.encode())


@dataclass(frozen=True, slots=True)
class RequestPart:
    """The distinct rollouts that one request shows, in order: part `window` of pass `pass_index`, from 0."""

    pass_index: int
    window: int
    distinct: tuple[int, ...]


def windows(sheet: PromptLayout, ask: AskSettings) -> int:
    """How many requests a pass takes: 1 where all is shown at once, 0 where nothing fits the context."""
    return len(parts(sheet, ask, 0))


def turns(sheet: PromptLayout, ask: AskSettings) -> int:
    """How many passes a group gets: two at least in windows, one where nothing is compared."""
    if sheet.alone and ask.single != "score":
        return 1
    return max(ask.passes, 2) if windows(sheet, ask) > 1 else ask.passes


def parts(sheet: PromptLayout, ask: AskSettings, turn: int) -> tuple[RequestPart, ...]:
    """The requests of one pass; none where the group does not fit the judge's context."""
    made: Windows = []
    if _at_once(sheet, ask):
        made = [order_of(sheet.digest, sheet.digests, seed=ask.seed, turn=turn)]
    elif plan := _plan(sheet, ask):
        pair, least = plan
        if turn > 1:
            pair = _pair(sheet, ask, turn - turn % 2, len(pair[0]), least) or pair
        made = pair[turn % 2]
    if ask.order == "input":
        made = [sorted(window) for window in made]
    return tuple(RequestPart(turn, number, tuple(window)) for number, window in enumerate(made))


def pass_of_judge(number: int, judge: int) -> int:
    """The turn that a judge of a panel takes as its pass `number`: every second judge the reverse first.

    What all judges give a place would else count as agreement wherever passes are odd in number.
    """
    return number ^ (judge & 1)


def halved(part: RequestPart, count: int) -> tuple[RequestPart, ...]:
    """Two windows in place of one of `count` that was too long; none where too little would be in them.

    Each takes every second rollout, so that places stay what they were; no window has their numbers.
    """
    if count < 2 or len(part.distinct) < 2 * LEAST:
        return ()
    number = count + 2 * part.window
    return tuple(RequestPart(part.pass_index, number + half, part.distinct[half::2]) for half in (0, 1))


def why_unaskable(group: Group, sheet: PromptLayout, ask: AskSettings) -> GroupError | None:
    """Why a group cannot be asked about: nothing to judge, or nothing that fits the judge's context."""
    if not sheet.distinct:
        faults = [r.error for r in group.rollouts if r.error]
        first = f"no trajectory can be judged; the first: {faults[0]}" if faults else ""
        return GroupError("input", first or "the group has no trajectories")
    if ask.context_tokens is None or windows(sheet, ask):
        return None
    # the smallest request that would help: the longest rollout and a short one
    sizes = sorted(range(len(sheet.distinct)), key=sheet.sizes.__getitem__)
    least = sizes if len(sizes) < 2 * LEAST else (sizes[0], sizes[-1])
    return GroupError("too_long", too_long(sheet.tokens_of(least), ask.context_tokens))


def too_long(tokens: int, limit: int) -> str:
    """The sentence for a group of which no two rollouts fit into one request."""
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )


def _at_once(sheet: PromptLayout, ask: AskSettings) -> bool:
    """Whether one request shows everything."""
    limit = ask.context_tokens
    return 0 < len(sheet.distinct) <= ask.group_size and (limit is None or sheet.tokens <= limit)


def _plan(
    sheet: PromptLayout, ask: AskSettings, floors: Sequence[int] = (WIDE, LEAST)
) -> tuple[tuple[Windows, Windows], int] | None:
    """The windows of turns 0 and 1 and how many rollouts each has at least; None where none fit.

    They are as few as fit and hang together. Those of two and three rollouts are a last resort.
    """
    sizes = [size + ENTRY_BYTES for size in sheet.sizes]
    room = None if ask.context_tokens is None else sheet.bytes_within(ask.context_tokens)
    for least in floors:
        count = 0
        while count := count_for(sizes, room, ask.group_size, least, count + 1):
            made = _pair(sheet, ask, 0, count, least)
            if made is not None:
                return made, least
    return None


def _pair(
    sheet: PromptLayout, ask: AskSettings, even: int, count: int, least: int
) -> tuple[Windows, Windows] | None:
    """Two passes, from an even turn on, that tie each other's windows together."""
    made: list[Windows] = []
    for turn in (even, even + 1):
        windows = partition(
            order_of(sheet.digest, sheet.digests, seed=ask.seed, turn=turn),
            count,
            partial(_draw, sheet, salt(sheet.digest, seed=ask.seed, turn=turn, attempt=0)),
            [size + ENTRY_BYTES for size in sheet.sizes],
            limit=None if ask.context_tokens is None else sheet.bytes_within(ask.context_tokens),
            least=least,
            most=ask.group_size,
            before=made[0] if made else None,
        )
        if windows is None:
            return None
        made.append(windows)
    return made[0], made[1]


def _draw(sheet: PromptLayout, key: bytes, attempt: int, body: int) -> bytes:
    return keyed(key, b"window %d" % attempt, sheet.digests[body])


_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request with its key: the distinct body behind each label, in the order shown."""

    request: Request
    labels: dict[str, int]


@dataclass(slots=True)
class ExchangeState:
    """What has happened to a request so far: second chances are given a few times each at most.

    `fitted`: the room is all that the judge's context leaves beside the prompt. `cuts` are the tokens of
    prompt and answer of each that was cut off.
    """

    attempt: int = 0
    note: str = ""
    max_output_tokens: int | None = None
    fitted: bool = False
    cuts: tuple[tuple[int, int], ...] = ()
    refused: bool = False
    corrected: int = 0


def write_prompt(
    sheet: PromptLayout,
    ask: AskSettings,
    part: RequestPart | None = None,
    state: ExchangeState | None = None,
    given: Mapping[str, tuple[float, str]] | None = None,
) -> Prompt:
    """Write the two messages of one attempt to ask about a part, by default the first of all.

    `given` holds entries of an earlier reply that stand, so that only the other labels are asked for.
    """
    whole = RequestPart(0, 0, tuple(range(len(sheet.distinct))))  # of a sheet that fits no context
    part, state, given = (
        part or next(iter(parts(sheet, ask, 0)), whole),
        state or ExchangeState(),
        given or {},
    )
    key = salt(sheet.digest, seed=ask.seed, turn=part.pass_index, attempt=state.attempt)
    order: Sequence[int] = part.distinct
    if state.attempt and ask.order == "random":
        order = drawn(order, sheet.digests, key)
    labels = _labels(sheet, key, order)
    lines = [f"<context>\n{sheet.context}\n</context>"] if sheet.context else []
    if sheet.tools:
        lines.append(f"<available_tools>\n{sheet.tools}\n</available_tools>")
    lines += [f'<trajectory id="{label}">\n{sheet.distinct[i]}\n</trajectory>' for label, i in labels.items()]
    wanted = [label for label in labels if label not in given]
    note = templates.missing(given) if given else state.note
    if note:
        lines.append(note)
    lines.append("trajectory_ids to score: " + orjson.dumps(wanted).decode())
    system = templates.system(sheet.rubric, alone=sheet.alone)
    request = Request(
        system, "\n".join(lines), tuple(wanted), state.max_output_tokens, part.pass_index, state.fitted
    )
    return Prompt(request, labels)


def _labels(sheet: PromptLayout, key: bytes, order: Sequence[int]) -> dict[str, int]:
    """Four consonants or more for each body, that no text of the request holds."""
    labels: dict[str, int] = {}
    text = "\n".join((sheet.rubric, sheet.context, sheet.tools, *(sheet.distinct[i] for i in order)))
    for i in order:
        for draw in itertools.count():
            number = int.from_bytes(keyed(key, b"label %d" % draw, sheet.digests[i]))
            size = 4 + draw // 50  # a text that holds every short label is answered with longer ones
            label = ""
            for _ in range(size):
                number, letter = divmod(number, len(_LETTERS))
                label += _LETTERS[letter]
            if label not in labels and label not in text:
                labels[label] = i
                break
    return labels
