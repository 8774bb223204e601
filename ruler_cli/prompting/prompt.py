"""Group → layout → the requests of each pass, as the two messages to the judge.

A layout is the group as the judge sees it: shared context once, identical rollouts once, each as text. It
leaves out as little as the judge's context allows. A group that is too long for one request is shown whole,
in windows, as long as these hold enough to compare; only if single rollouts are too long for that, text of
those is left out.

The digest of a rollout is that of its whole text, also if less of it is shown: a group has the same digests
for every judge. Order and labels come from keyed hashes of the group's content (BLAKE2b), never from the input
order: the same group asks the identical question however its dump is sorted. A judge prefers some positions,
so an order and its reverse give each rollout positions of one sum, and further pairs of passes start a
quarter of the group later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import NamedTuple

import orjson

from ruler_cli.messages.json_text import sorted_json
from ruler_cli.messages.pictures import medium_of
from ruler_cli.messages.read import read_message
from ruler_cli.prompting import templates
from ruler_cli.prompting.branches import Branches, find_branches
from ruler_cli.prompting.injection import suspects
from ruler_cli.prompting.pictures import (
    placed,
    size_of,
    tokens_of_pictures,
    unsendable,
    with_last,
)
from ruler_cli.prompting.render import MARK, WHOLE, Seen, Shortening, render
from ruler_cli.prompting.rollouts import (
    RenderedRollout,
    joined,
    rendered,
    shared_prefix,
    shared_tools,
)
from ruler_cli.prompting.windows import LEAST, WIDE, Packing, fewest
from ruler_cli.settings.models import AskSettings
from ruler_cli.settings.rubric import scale_mistake
from ruler_cli.tokens import BYTES_PER_TOKEN, PROMPT_ENTRY, PROMPT_FRAME
from ruler_cli.types import (
    ENDINGS,
    Criterion,
    Group,
    GroupError,
    Picture,
    Record,
    Request,
    Rollout,
    Rubric,
    Standards,
    readable_text,
    value,
)

CYCLE = 8
"""Passes that one drawn order serves: four shifts of it, each with its reverse."""


def balanced(
    base: Sequence[int],
    pass_index: int,
) -> list[int]:
    """The order of a pass within its cycle: `base`, its reverse, `base` a quarter later, its reverse, …."""
    pair, back = divmod(pass_index % CYCLE, 2)
    # rounded up: two and three move too
    shift = -(-len(base) * pair // (CYCLE // 2))
    order = [*base[shift:], *base[:shift]]
    if back:
        order.reverse()
    return order


def keyed(*parts: bytes) -> bytes:
    """Return 16 bytes that differ for any other parts, however those are split."""
    # updates take a third of the time of one text
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()


_ENTRY_BYTES = int(PROMPT_ENTRY * BYTES_PER_TOKEN)
"""Bytes that a rollout takes beside its text."""
_WORTH = 0.1
"""The share of a request's tokens that blocks of shared messages must save."""
_ENDED = tuple([f"\nended: {how}" for how in ENDINGS])
"""Last lines of rollouts that did not end by themselves."""


@value
class PromptLayout:
    """A group as the judge sees it: the distinct rollouts as text, and which input rollout each one is.

    `owner[i]` is the distinct rollout that input rollout i became, None if it could not be read. `sizes` are bytes of
    each distinct rollout as shown, `context_size` those of the context, `frame` those of all else. `digests` and
    `digest` are those of the whole texts. `suspects` are distinct rollouts whose text addresses a judge. `shortening`
    is the highest step of the ladder that any of the text was shortened by. `rubric` is a text, or criteria.
    `reference` is the answer that only the judge sees, JSON or empty. `places` are those in the group, from 1, of the
    first input rollout that became each distinct one; several records of one rollout count once.

    Texts hold the marks of the `pictures` that are shown, by their digests; `pictures` has all others, too, of which
    `left_out` are not shown. A size counts the tokens of a picture as bytes of text, and digests are of texts with all
    marks. `picture_errors` maps input rollouts to the reason why their pictures cannot be sent. `twins` are the places
    of two distinct rollouts that differ only in pictures that are not shown. `numbered`: calls that were made at once
    have numbers.
    """

    context: str
    tools: str
    distinct: tuple[str, ...]
    owner: tuple[int | None, ...]
    rubric: Standards
    digests: Sequence[bytes]
    digest: bytes
    sizes: tuple[int, ...] = ()
    context_size: int = 0
    frame: int = 0
    suspects: frozenset[int] = frozenset()
    shortening: int = 0
    places: Sequence[int] = ()
    reference: str = ""
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    left_out: int = 0
    picture_errors: Mapping[int, str] = field(default_factory=dict)
    twins: tuple[int, ...] = ()
    numbered: bool = False

    def order(
        self,
        seed: int,
        pass_index: int,
    ) -> list[int]:
        """The order in which a pass shows all rollouts; it does not depend on their order in the input."""
        key = self.key(seed, pass_index - pass_index % CYCLE)
        return balanced(self.drawn(self.all, key), pass_index)

    def drawn(
        self,
        rollouts: Iterable[int],
        key: bytes,
    ) -> list[int]:
        """Rollouts in an order that only `key` and their digests decide."""
        return sorted(
            rollouts,
            key=lambda at: keyed(key, b"order", self.digests[at]),
        )

    def key(
        self,
        seed: int,
        pass_index: int,
        attempt: int = 0,
    ) -> bytes:
        """The key of all draws for one attempt of a pass."""
        key = self.digest + b"%d/%d" % (seed, attempt)
        if pass_index:
            key += b"/%d" % pass_index
        return key

    @property
    def all(self) -> range:
        """The numbers of the distinct rollouts."""
        return range(len(self.distinct))

    @property
    def alone(self) -> bool:
        """Return whether there is nothing to compare: one rollout, or all identical."""
        return len(self.distinct) == 1

    def ended(self, rollouts: Iterable[int]) -> bool:
        """Return whether the text of one of these rollouts says how it ended."""
        return any(self.distinct[at].endswith(_ENDED) for at in rollouts)

    def fits_one_request(self, ask: AskSettings) -> bool:
        """Return whether one request shows everything, or each rollout alone if it is asked about each."""
        rollouts: Sequence[int] = self.all
        if ask.ask == "each":
            rollouts = [max(rollouts, key=self.sizes.__getitem__)]
        elif len(rollouts) > ask.group_size:
            return False
        most = ask.context_tokens
        return most is None or self.tokens_of(rollouts) <= most

    @property
    def tokens(self) -> int:
        """Estimated tokens of a prompt that shows the whole group."""
        return self.tokens_of(self.all)

    def tokens_of(self, rollouts: Sequence[int]) -> int:
        """Estimated tokens of a prompt that shows some of the distinct rollouts, shared messages once."""
        saved = self.branches(rollouts).saved
        return self._unshared_tokens(rollouts) - int(saved / BYTES_PER_TOKEN)

    def branches(self, rollouts: Sequence[int]) -> Branches:
        """The messages that several of some distinct rollouts share, if it saves enough to show them once."""
        texts = [self.distinct[at] for at in rollouts]
        tokens = self._unshared_tokens(rollouts)
        return find_branches(texts, _WORTH * BYTES_PER_TOKEN * tokens)

    def _unshared_tokens(self, rollouts: Sequence[int]) -> int:
        size = self.context_size + self.frame
        for at in rollouts:
            size += self.sizes[at]
        frame = PROMPT_FRAME + PROMPT_ENTRY * len(rollouts)
        return int(size / BYTES_PER_TOKEN) + frame

    def bytes_within(self, tokens: int) -> int:
        """Bytes that the context and rollouts, each with its _ENTRY_BYTES, may take in a prompt of so many tokens."""
        return int((tokens - PROMPT_FRAME) * BYTES_PER_TOKEN) - self.frame


class RenderedGroup(NamedTuple):
    """A group that was rendered whole, and may be rendered again with less of some rollouts.

    `rollouts[d]` is the first that looks like distinct rollout d. `shared` counts the first messages that are the
    context; `own_tools`: rollouts show tools of their own.
    """

    layout: PromptLayout
    rollouts: Sequence[RenderedRollout]
    shared: int
    own_tools: bool


def render_group(
    group: Group,
    ask: AskSettings,
    *,
    sent: bool = True,
) -> RenderedGroup:
    """Render all of a group. If it is to be `sent`, rollouts with pictures that cannot be are left out."""
    readable = []
    if not _mistake(group):
        for place, (rollout, records) in enumerate(joined(group.rollouts), 1):
            if rollout.error is None:
                readable.append((rollout, place, records))
    judged = [rollout for rollout, *_ in readable]
    pictures: dict[str, Picture] = {}
    rollouts = rendered(judged, pictures)
    most = ask.shown_pictures if pictures else None
    tools, own_tools = shared_tools(group, judged)
    shared = shared_prefix(rollouts)
    whole_context = ""
    if shared:
        whole_context = "\n".join(rollouts[0].lines[0][:shared])
    context = _shown_context(whole_context, most)

    # equal rollouts are one, unless what is not shown tells them apart
    distinct: dict[tuple[str, ...], int] = {}
    texts: list[str] = []
    places = []
    examples = []
    owner: list[int | None] = [None] * len(group.rollouts)
    picture_errors: dict[int, str] = {}
    looks: dict[str, tuple[str, int]] = {}
    twins: tuple[int, ...] = ()
    left_out = _left_out(whole_context, context)
    for (_, place, records), lines in zip(readable, rollouts, strict=True):
        text = lines.text(shared, tools=own_tools)
        shown = with_last(text, most)
        error = _picture_error((context, shown), pictures) if sent else ""
        if error:
            picture_errors |= dict.fromkeys(records, error)
            continue
        whole, twin = looks.setdefault(shown, (text, place))
        if whole != text:
            twins = twins or (twin, place)
        texts_of = (text, *lines.notes.hidden)
        number = distinct.setdefault(texts_of, len(distinct))
        if number == len(texts):
            texts.append(shown)
            places.append(place)
            examples.append(lines)
            left_out += _left_out(text, shown)
        for at in records:
            if group.rollouts[at].error is None:
                owner[at] = number

    rubric = shown_rubric(group, ask.rubric)
    reference = _reference(judged, pictures)
    digests = _digests(distinct)
    # other criteria over the same rollouts leave order and ids as they are, and so the beginning of the prompt
    common = [rubric if isinstance(rubric, str) else "", tools, whole_context]
    if reference:
        common.append(reference)
    layout = PromptLayout(
        context,
        tools,
        tuple(texts),
        owner=tuple(owner),
        rubric=rubric,
        digests=digests,
        digest=keyed(b"group", *map(_raw, common), *sorted(digests)),
        places=places,
        reference=reference,
        pictures=pictures,
        left_out=left_out,
        picture_errors=picture_errors,
        twins=twins,
        numbered=any(lines.notes.numbered for lines in rollouts),
    )
    layout = _measured(layout, ask)
    return RenderedGroup(
        layout,
        examples,
        shared,
        own_tools,
    )


def _measured(
    layout: PromptLayout,
    ask: AskSettings,
) -> PromptLayout:
    """Return a layout with the sizes of its texts."""
    size = partial(
        size_of,
        pictures=layout.pictures,
        model=ask.judge_model,
    )
    rest = size(layout.tools) + size(layout.reference)
    return replace(
        layout,
        sizes=tuple(map(size, layout.distinct)),
        context_size=size(layout.context),
        frame=rest + _rubric_bytes(layout.rubric),
    )


def _digests(distinct: Collection[tuple[str, ...]]) -> list[bytes]:
    """Return the digest of each text; what is not shown, behind it, tells rollouts of one text apart."""
    alike = len({text for text, *_ in distinct}) < len(distinct)
    digests = []
    for text, *hidden in distinct:
        parts = [text, *hidden] if alike else [text]
        digests.append(keyed(*map(_raw, parts)))
    return digests


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _shown_context(
    context: str,
    most: int | None,
) -> str:
    """Return the context with all of its pictures, or with none."""
    return with_last(context, 0) if most == 0 else context


def _left_out(
    whole: str,
    shown: str,
) -> int:
    """Count the pictures that are not shown of a text."""
    if whole == shown:
        return 0
    return len(MARK.findall(whole)) - len(MARK.findall(shown))


def _picture_error(
    texts: Iterable[str],
    pictures: Mapping[str, Picture],
) -> str:
    """Return the reason why a picture for a judge cannot be sent, with its number; empty if all can."""
    if not pictures:
        return ""
    for mark in MARK.finditer("\n".join(texts)):
        picture = pictures[mark[2]]
        why = unsendable(picture)
        if why:
            advice = "use --pictures leave to judge without it"
            if picture.kind == "picture":
                advice = f"put its bytes into the data, or {advice}"
            return f"{mark[1]} {why}; {advice}"
    return ""


def distinct_rollouts(
    group: Group,
    ask: AskSettings,
) -> int:
    """Count the rollouts of a group that a judge can tell apart: with less than two nothing is compared."""
    return len(render_group(group, ask).layout.distinct)


def shown_rubric(
    group: Group,
    usual: Standards | None,
) -> Standards:
    """Return the rubric that a judge is shown: the group's own, else the usual one, else the built-in one.

    A group whose own cannot be used is shown to no judge.
    """
    if group.rubric_error:
        return ""
    rubric = group.rubric or usual or templates.DEFAULT_RUBRIC
    return readable_text(rubric) if isinstance(rubric, str) else rubric


def rubric_mistake(holder: Group | Record) -> str:
    """Return the reason why the rubric of a group or a record cannot be used, as a predicate; empty if it can."""
    return holder.rubric_error or scale_mistake(holder.rubric)


def _mistake(group: Group) -> str:
    """Return the reason why no judge is asked about a group; empty if one is."""
    scale = scale_mistake(group.rubric)
    return group.mistake or (scale and f"its rubric {scale}")


@lru_cache(64)
def _rubric_bytes(rubric: Standards) -> int:
    """The bytes of a rubric in a request."""
    if isinstance(rubric, str):
        return len(rubric.encode())
    stated = "".join(map(templates.stated, rubric.criteria))
    return len(stated) + _ENTRY_BYTES * len(rubric.criteria) // 4


def _reference(
    rollouts: Sequence[Rollout],
    pictures: dict[str, Picture],
) -> str:
    """Return the reference answer of a group as a JSON value, or as parts with pictures; empty if there is none."""
    stated = rollouts[0].reference if rollouts else None
    if stated is None:
        return ""
    parts = stated if isinstance(stated, list) else [stated]
    if isinstance(stated, str) and stated.startswith("data:image/"):
        parts = [{"type": "image_url", "image_url": stated}]
    if any(isinstance(part, dict) and medium_of(part) for part in parts):
        answer = read_message({"role": "answer", "content": parts})
        (line,) = render([answer], WHOLE, Seen(pictures))
        return line.removeprefix("answer: ")
    # one order of keys, whichever rollout comes first
    return sorted_json(stated)


_TOOL_SIZES = (256, 128, 64, 32, 16, 8, 4, 1.5, 0.5)
LADDER = (
    *[Shortening(int(size * 1000)) for size in _TOOL_SIZES],
    *[Shortening(500, size) for size in (2000, 500, 100)],
    Shortening(120, 0),
)
"""Steps by which a rollout is shortened: tool outputs first, then reasoning. The first steps are for
messages that alone are longer than a context."""


def build_layout(
    group: Group,
    ask: AskSettings,
) -> PromptLayout:
    """Render a group, shortened as little as the judge's context allows: in windows of WIDE, or to the last step.

    If even that is not enough, no request shows the layout: `requests_of_pass` is empty.
    """
    group_text = render_group(group, ask)
    layout = group_text.layout
    highest = 0
    for step, keep in enumerate(LADDER, 1):
        if not layout.distinct or layout.fits_one_request(ask):
            break
        if ask.ask != "each" and _packing(layout, ask).windows(0, WIDE):
            break
        shorter = _shorter(
            group_text,
            layout,
            ask,
            keep,
        )
        if shorter != layout:
            layout = shorter
            highest = step
    # text that addresses a judge is looked for only now
    return replace(
        layout,
        shortening=highest,
        suspects=suspects(layout.distinct),
    )


def _shorter(
    group_text: RenderedGroup,
    layout: PromptLayout,
    ask: AskSettings,
    keep: Shortening,
) -> PromptLayout:
    """Return the layout with less of whatever is longer than its share of the judge's context."""
    number = len(layout.distinct)
    # the most windows that hold enough to compare
    count = max(fewest(number, ask.group_size), number // WIDE, 1)
    if ask.ask == "each":
        count = number
    sharing = -(-number // count) + bool(layout.context)
    most = max(0, layout.bytes_within(ask.context_tokens or 0)) // sharing

    texts = list(layout.distinct)
    for at, rollout in enumerate(group_text.rollouts):
        if layout.sizes[at] + _ENTRY_BYTES > most:
            less = rollout.shortened(keep)
            text = less.text(group_text.shared, tools=group_text.own_tools)
            text = with_last(text, ask.shown_pictures)
            texts[at] = min(texts[at], text, key=len)
    context = layout.context
    if layout.context_size > most:
        lines = group_text.rollouts[0].shortened(keep).lines[0]
        text = "\n".join(lines[: group_text.shared])
        text = _shown_context(text, ask.shown_pictures)
        context = min(context, text, key=len)
    shorter = replace(layout, context=context, distinct=tuple(texts))
    return _measured(shorter, ask)


@value
class RequestPart:
    """The distinct rollouts that one request shows, in order: part `window` of pass `pass_index`, from 0."""

    pass_index: int
    window: int
    distinct: tuple[int, ...]


def pass_count(
    layout: PromptLayout,
    ask: AskSettings,
    windows: int,
) -> int:
    """Passes that a group gets: at least two in windows, one if nothing is compared."""
    if ask.ask == "each" or (layout.alone and ask.single != "score"):
        return 1
    return max(ask.passes, 2) if windows > 1 else ask.passes


def requests_of_pass(
    layout: PromptLayout,
    ask: AskSettings,
    pass_index: int,
) -> list[RequestPart]:
    """The requests of one pass: one if it shows the whole group, none if the judge cannot be shown it."""
    if not layout.distinct or why_unseen(layout, ask):
        return []
    fits = layout.fits_one_request(ask)
    if ask.ask == "each":
        windows = [[at] for at in layout.all if fits]
    elif fits:
        windows = [layout.order(ask.seed, pass_index)]
    else:
        # windows of two and three rollouts are a last resort
        packing = _packing(layout, ask)
        windows = packing.windows(pass_index, WIDE)
        windows = windows or packing.windows(pass_index, LEAST)
    if ask.order == "input":
        windows = [*map(sorted, windows)]
    return [
        RequestPart(pass_index, number, tuple(window))
        for number, window in enumerate(windows)
    ]


def pass_of_judge(
    number: int,
    judge: int,
) -> int:
    """The pass index of pass `number` of a judge of a panel: every second judge begins with the reverse.

    Otherwise a preference of all judges for one position would count as agreement if passes are odd in
    number.
    """
    return number ^ (judge & 1)


def halved(
    part: RequestPart,
    count: int,
) -> tuple[RequestPart, ...]:
    """Two windows in place of one of `count` that was too long; none if too little would be in them.

    Each takes every second rollout, so that positions stay as they were; no other window has their numbers.
    """
    if count < 2 or len(part.distinct) < 2 * LEAST:
        return ()
    number = count + 2 * part.window
    return (
        replace(part, window=number, distinct=part.distinct[::2]),
        replace(part, window=number + 1, distinct=part.distinct[1::2]),
    )


def why_unaskable(
    group: Group,
    layout: PromptLayout,
    ask: AskSettings,
) -> GroupError:
    """The error of a group without a request: its rubric, nothing to judge, or nothing that fits."""
    problem = _mistake(group)
    if not (problem or layout.distinct):
        errors = [rollout.error for rollout in group.rollouts if rollout.error]
        errors += layout.picture_errors.values()
        problem = "the group has no trajectories"
        if errors:
            problem = f"no trajectory can be judged; the first: {errors[0]}"
    problem = problem or why_unseen(layout, ask)
    if problem:
        return GroupError("input", problem)
    # the smallest request that would help: the longest rollout and a short one
    rollouts = sorted(layout.all, key=layout.sizes.__getitem__)
    if len(rollouts) >= 2 * LEAST:
        rollouts = [rollouts[0], rollouts[-1]]
    tokens = layout.tokens_of(rollouts)
    return GroupError("too_long", too_long(tokens, ask.context_tokens or 0))


def why_unseen(
    layout: PromptLayout,
    ask: AskSettings,
) -> str:
    """Return the reason why a group cannot be judged because of its pictures; empty if it can."""
    for mark in MARK.finditer(layout.reference):
        why = unsendable(layout.pictures[mark[2]])
        if ask.shown_pictures == 0:
            why = "is not shown"
        if why:
            return f"{mark[1]} of its reference answer {why}"
    if layout.twins:
        first, second = layout.twins
        return f"nothing to compare: rollouts {first} and {second} differ only in media that are not shown"
    if not layout.pictures or ask.pictures == "send" or ask.reads_pictures:
        return ""
    if not any(map(MARK.search, (layout.context, *layout.distinct))):
        return ""
    # an embedded judge never reads any
    remedy = "use another judge with -m NAME"
    if ask.reads_pictures is not None:
        remedy = "use --pictures send if it does"
    return (
        f"it has pictures, and {ask.judge_model} is not known to read them; {remedy}, "
        "or --pictures leave to judge by the text alone"
    )


def too_long(
    tokens: int,
    limit: int,
) -> str:
    """The sentence for a group of which no two rollouts fit into one request."""
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )


def _packing(
    layout: PromptLayout,
    ask: AskSettings,
) -> Packing:
    """Return the rollouts as items of windows."""
    limit = math.inf
    if ask.context_tokens is not None:
        space = layout.bytes_within(ask.context_tokens) - layout.context_size
        limit = max(1, space)

    def draw(
        pass_index: int,
        attempt: int,
        rollout: int,
    ) -> bytes:
        key = layout.key(ask.seed, pass_index)
        return keyed(key, b"window %d" % attempt, layout.digests[rollout])

    return Packing(
        [size + _ENTRY_BYTES for size in layout.sizes],
        limit,
        ask.group_size,
        order=partial(layout.order, ask.seed),
        draw=draw,
    )


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


def write_prompt(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    state: ExchangeState | None = None,
) -> Request:
    """Write the two messages of one request for written scores of a part."""
    state = state or ExchangeState()
    key = layout.key(ask.seed, part.pass_index, state.attempt)
    order: Sequence[int] = part.distinct
    if state.attempt and ask.order == "random":
        order = layout.drawn(order, key)
    labels = labels_of(layout, key, order)

    # the blocks that come again in other passes and windows stand first
    blocks = common_blocks(layout)
    windowed = len(order) < len(layout.distinct)
    again = 0
    if windowed or pass_count(layout, ask, 1) > 1:
        again = len(blocks)
    blocks += rollout_blocks(layout, labels)
    asked: dict[str, Criterion] = {}
    rubric = layout.rubric
    if isinstance(rubric, Rubric):
        asked = _criteria_labels(rubric, layout, labels)
        blocks.append(templates.criteria_block(asked))
    shared, _ = placed("\n".join(blocks[:again]), layout.pictures)

    if state.note:
        blocks.append(state.note)
    listed = orjson.dumps(list(labels)).decode()
    blocks.append(f"trajectory_ids to score: {listed}")
    user, pictures = placed("\n".join(blocks), layout.pictures)

    system = partial(
        templates.system,
        rubric if isinstance(rubric, str) else None,
        alone=layout.alone,
        ended=layout.ended(order),
        pictures=bool(layout.pictures),
    )
    return Request(
        system(),
        user,
        tuple(labels),
        state.max_output_tokens,
        part.pass_index,
        state.fitted,
        criteria=asked,
        shared=len(shared),
        shown=labels,
        pictures=pictures,
        picture_tokens=tokens_of_pictures(pictures, ask),
        keyed_system=system(keyed=True),
    )


def common_blocks(
    layout: PromptLayout,
    *,
    reference_first: bool = False,
) -> list[str]:
    """The blocks of all that the rollouts share."""
    blocks = []
    if layout.context:
        blocks.append(f"<context>\n{layout.context}\n</context>")
    if layout.tools:
        blocks.append(f"<available_tools>\n{layout.tools}\n</available_tools>")
    if layout.reference:
        place = 0 if reference_first else len(blocks)
        blocks.insert(place, templates.reference_block(layout.reference))
    if layout.numbered:
        blocks.append(templates.NUMBERS)
    return blocks


def rollout_blocks(
    layout: PromptLayout,
    labels: Mapping[str, int],
) -> list[str]:
    """The blocks of rollouts by their labels, in this order, after those of the messages that several share."""
    branches = layout.branches(list(labels.values()))
    blocks = branches.shown(list(labels))
    for label, text in zip(labels, branches.rest, strict=True):
        blocks.append(f'<trajectory id="{label}">\n{text}\n</trajectory>')
    return blocks


def labels_of(
    layout: PromptLayout,
    key: bytes,
    order: Sequence[int],
) -> dict[str, int]:
    """An id for each rollout that no text of the request holds."""
    digests = [layout.digests[at] for at in order]
    labels = _labels(
        digests,
        key,
        b"label",
        _texts_shown(layout, order),
    )
    return dict(zip(labels, order, strict=True))


def _criteria_labels(
    rubric: Rubric,
    layout: PromptLayout,
    shown: Mapping[str, int],
) -> dict[str, Criterion]:
    """An id for each of the criteria that no text of the request holds.

    It depends on the rubric alone if it can: a provider compiles the form of an answer once for all groups.
    """
    # weights and names are not shown: with others the request is the same
    key = keyed(readable_text(rubric.statements).encode())
    numbers = [b"%d" % at for at in range(len(rubric.criteria))]
    texts = [*_texts_shown(layout, shown.values()), *shown]
    labels = _labels(
        numbers,
        key,
        b"criterion",
        texts,
    )
    return dict(zip(labels, rubric.criteria, strict=True))


def _texts_shown(
    layout: PromptLayout,
    rollouts: Iterable[int],
) -> list[str]:
    """All texts of a request about these rollouts."""
    rubric = layout.rubric
    if isinstance(rubric, Rubric):
        rubric = readable_text(rubric.statements)
    texts = [rubric, layout.context, layout.tools, layout.reference]
    return texts + [layout.distinct[at] for at in rollouts]


def _labels(
    items: Iterable[bytes],
    key: bytes,
    kind: bytes,
    texts: Iterable[str],
) -> list[str]:
    """Four consonants or more for each item, by its own bytes, that are not in the texts."""
    whole = "\n".join(texts)
    labels: list[str] = []
    for item in items:
        label = ""
        draw = 0
        while not label or label in whole or label in labels:
            drawn = keyed(key, b"%b %d" % (kind, draw), item)
            number = int.from_bytes(drawn)
            # a text that holds every short label is answered with longer ones
            size = 4 + draw // 8
            draw += 1
            label = ""
            while len(label) < size:
                number, letter = divmod(number, len(LETTERS))
                label += LETTERS[letter]
        labels.append(label)
    return labels
