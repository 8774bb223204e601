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

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

from ruler_cli.messages.form import Conversation
from ruler_cli.messages.json_text import sorted_json
from ruler_cli.messages.pictures import (
    REFERENCES,
    medium_of,
    picture_part,
    picture_tokens,
    unsendable,
)
from ruler_cli.messages.read import conversations_of, read_content
from ruler_cli.prompting import templates
from ruler_cli.prompting.branches import Branches, find_branches, may_save
from ruler_cli.prompting.injection import suspects
from ruler_cli.prompting.render import (
    MARK,
    WHOLE,
    Seen,
    Shortening,
    render,
    render_tools,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.settings.rubric import scale_mistake
from ruler_cli.tokens import BYTES_PER_TOKEN, PROMPT_ENTRY, PROMPT_FRAME
from ruler_cli.types import (
    ENDINGS,
    Criterion,
    Group,
    GroupError,
    Picture,
    Placed,
    Record,
    Request,
    Rollout,
    Rubric,
    Standards,
    readable_text,
)

if TYPE_CHECKING:  # few groups are shown in windows
    from ruler_cli.prompting.windows import Packing, Windows

CYCLE = 8
"""Passes that one drawn order serves: four shifts of it, each with its reverse."""


def balanced(base: Sequence[int], pass_index: int) -> list[int]:
    """The order of a pass within its cycle: `base`, its reverse, `base` a quarter later, its reverse, …."""
    pair, back = divmod(pass_index % CYCLE, 2)
    # rounded up: two and three move too
    shift = -(-len(base) * pair // (CYCLE // 2))
    order = [*base[shift:], *base[:shift]]
    return order[::-1] if back else order


def keyed(*parts: bytes) -> bytes:
    """16 bytes that no other parts have, however they are cut."""
    digest = blake2b(
        digest_size=16
    )  # updates take a third of the time of one text
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()


ENTRY_BYTES = int(PROMPT_ENTRY * BYTES_PER_TOKEN)
"""Bytes that a rollout takes beside its text."""
_WORTH = 0.1
"""The share of a request's tokens that blocks of shared messages must save."""
_ENDED = tuple([f"\nended: {how}" for how in ENDINGS])
"""Last lines of rollouts that did not end by themselves."""


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A group as the judge sees it: the distinct rollouts as text, and which input rollout each one is.

    `owner[i]` is the distinct rollout that input rollout i became, None if it could not be read. `sizes` are bytes of
    each distinct rollout as shown; `digests` and `digest` are those of the whole texts. `suspects` are distinct
    rollouts whose text addresses a judge. `shortening` is the highest step of the ladder that any of the text was
    shortened by. `rubric` is a text, or criteria. `reference` is the answer that only the judge sees, JSON or empty.
    `places` are those in the group, from 1, of the first input rollout that became each distinct one; several records
    of one rollout count once.

    Texts hold the marks of the `pictures` that are shown, by their digests; `pictures` has all others, too, of which
    `left_out` are not shown. A size counts the tokens of a picture as bytes of text, and digests are of texts with
    all marks. `faults` say of input rollouts why their pictures cannot be sent. `twins` are the places of two distinct
    rollouts that differ only in pictures that are not shown. `numbered`: calls that were made at once have numbers.
    `earlier` makes the layout of an earlier version, if it was another.
    """

    context: str
    tools: str
    distinct: tuple[str, ...]
    owner: tuple[int | None, ...]
    rubric: Standards
    digests: tuple[bytes, ...]
    digest: bytes
    sizes: tuple[int, ...]
    suspects: frozenset[int] = frozenset()
    shortening: int = 0
    places: tuple[int, ...] = ()
    reference: str = ""
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    left_out: int = 0
    faults: Mapping[int, str] = field(default_factory=dict)
    twins: tuple[int, ...] = ()
    model: str = ""
    numbered: bool = False
    earlier: Callable[[], PromptLayout] | None = field(
        default=None, compare=False, repr=False
    )

    def order(self, seed: int, pass_index: int) -> list[int]:
        """The order in which a pass shows all rollouts; it does not depend on their order in the input."""
        key = self.key(seed, pass_index - pass_index % CYCLE)
        return balanced(self.drawn(range(len(self.distinct)), key), pass_index)

    def drawn(self, rollouts: Iterable[int], key: bytes) -> list[int]:
        """Rollouts in an order that only `key` and their digests decide."""
        return sorted(
            rollouts, key=lambda i: keyed(key, b"order", self.digests[i])
        )

    def key(self, seed: int, pass_index: int, attempt: int = 0) -> bytes:
        """The key of all draws for one attempt of a pass."""
        later = b"/%d" % pass_index if pass_index else b""
        return self.digest + b"%d/%d" % (seed, attempt) + later

    @property
    def alone(self) -> bool:
        """Return whether there is nothing to compare: one rollout, or all identical."""
        return len(self.distinct) == 1

    def ended(self, rollouts: Iterable[int]) -> bool:
        """Return whether the text of one of these rollouts says how it ended."""
        return any(self.distinct[at].endswith(_ENDED) for at in rollouts)

    def at_once(self, ask: AskSettings) -> bool:
        """Return whether one request shows everything, or each rollout alone if it is asked about each."""
        rollouts: Sequence[int] = range(len(self.distinct))
        if ask.ask == "each":
            rollouts = [max(rollouts, key=self.sizes.__getitem__)]
        elif len(self.distinct) > ask.group_size:
            return False
        most = ask.context_tokens
        # to look for shared messages takes longer than to count
        return (
            most is None
            or self._unshared_tokens(rollouts) <= most
            or self.tokens_of(rollouts) <= most
        )

    @property
    def tokens(self) -> int:
        """Estimated tokens of a prompt that shows the whole group."""
        return self.tokens_of(range(len(self.distinct)))

    def tokens_of(self, rollouts: Sequence[int]) -> int:
        """Estimated tokens of a prompt that shows some of the distinct rollouts, shared messages once."""
        saved = self.branches(rollouts).saved
        return self._unshared_tokens(rollouts) - int(saved / BYTES_PER_TOKEN)

    def branches(self, rollouts: Sequence[int]) -> Branches:
        """The messages that several of some distinct rollouts share, if it saves enough to show them once."""
        texts = [self.distinct[at] for at in rollouts]
        size = sum([self.sizes[at] for at in rollouts])
        if not may_save(texts, _WORTH * size):
            return Branches(tuple(texts))
        least = _WORTH * BYTES_PER_TOKEN * self._unshared_tokens(rollouts)
        return find_branches(texts, least)

    def _unshared_tokens(self, rollouts: Sequence[int]) -> int:
        text = self._frame + sum(self.sizes[at] for at in rollouts)
        return (
            int(text / BYTES_PER_TOKEN)
            + PROMPT_FRAME
            + PROMPT_ENTRY * len(rollouts)
        )

    def bytes_within(self, tokens: int) -> int:
        """Bytes that rollouts, each with its ENTRY_BYTES, may take in a prompt of so many tokens."""
        return int((tokens - PROMPT_FRAME) * BYTES_PER_TOKEN) - self._frame

    @property
    def context_size(self) -> int:
        """Bytes of the context."""
        return size_of(self.context, self.pictures, self.model)

    @property
    def _frame(self) -> int:
        reference = size_of(self.reference, self.pictures, self.model)
        tools = len(self.tools.encode())
        return (
            self.context_size + tools + reference + _rubric_bytes(self.rubric)
        )


def shown_in(text: str, pictures: Mapping[str, Picture]) -> list[Picture]:
    """Return the pictures whose marks stand in a text, in order."""
    return (
        [pictures[mark[2]] for mark in MARK.finditer(text)] if pictures else []
    )


def size_of(text: str, pictures: Mapping[str, Picture], model: str) -> int:
    """Return the bytes of a text, with its pictures as text of as many tokens."""
    tokens = 0
    for picture in shown_in(text, pictures):
        tokens += picture_tokens(picture, model)
    return len(text.encode()) + int(tokens * BYTES_PER_TOKEN)


def _without_first(text: str, most: int | None) -> str:
    """Leave out the pictures of a text but for the last `most`, and say so in their places."""
    left = 0 if most is None else _marks(text) - most
    return MARK.sub(r"(\1 is not shown)", text, left) if left > 0 else text


@dataclass(slots=True)
class RenderedGroup:
    """A group that was rendered whole, and may be rendered again with less of some rollouts.

    `example[d]` is an input rollout that looks like distinct rollout d. `shared` counts the first messages
    that are the context; `own_tools`: rollouts show tools of their own. `most_pictures` of each are shown.
    """

    layout: PromptLayout
    rollouts: list[Rollout]
    example: list[int]
    shared: int
    own_tools: bool
    most_pictures: int | None = None

    def shorten(
        self,
        keep: Shortening,
        rollouts: Sequence[int],
        *,
        context: bool,
    ) -> None:
        """Show less of these distinct rollouts, and of the context if asked; never more than before."""
        texts = list(self.layout.distinct)
        sizes = list(self.layout.sizes)
        for at in rollouts:
            rollout = self.rollouts[self.example[at]]
            parts = conversations_of(rollout)
            lines = [render(part, keep) for part in parts]
            text = _text_of(rollout, lines, self.shared, tools=self.own_tools)
            text = _without_first(text, self.most_pictures)
            size = size_of(text, self.layout.pictures, self.layout.model)
            if size < sizes[at]:
                texts[at], sizes[at] = text, size
        prefix = self.layout.context
        if context and self.example:
            main, *_ = conversations_of(self.rollouts[self.example[0]])
            less = "\n".join(render(main, keep)[: self.shared])
            less = _shared_pictures(less, self.most_pictures)
            prefix = min(prefix, less, key=lambda text: len(text.encode()))
        self.layout = replace(
            self.layout,
            context=prefix,
            distinct=tuple(texts),
            sizes=tuple(sizes),
        )

    def finished(self, shortening: int) -> PromptLayout:
        """Return the layout with the rollouts whose text addresses a judge, which are looked for only now."""
        marked = suspects(self.layout.distinct)
        if not marked and not shortening:
            return self.layout
        return replace(self.layout, shortening=shortening, suspects=marked)


def render_group(
    group: Group, ask: AskSettings, *, sent: bool = True, pair: bool = True
) -> RenderedGroup:
    """Render all of a group. If it is to be `sent`, rollouts with pictures that cannot be are left out.

    Without `pair`, as an earlier version did.
    """
    rollouts, place = _joined(group.rollouts)
    shown = not _mistake(group)
    readable = [i for i, r in enumerate(rollouts) if r.error is None and shown]
    pictures: dict[str, Picture] = {}
    lines, seen = _lines_of(rollouts, readable, Seen(pictures, pair=pair))
    pairings = [
        pairing for notes in seen.values() for pairing in notes.pairings
    ]
    tools, own_tools = _tools(group, [rollouts[i] for i in readable])
    shared = _shared_prefix(rollouts, {i: lines[i][0] for i in readable})
    context = "\n".join(lines[readable[0]][0][:shared]) if readable else ""
    distinct: dict[tuple[str, ...], int] = {}
    example: dict[int, int] = {}
    which = {}
    faults = {}
    for i in readable:
        text = _text_of(rollouts[i], lines[i], shared, tools=own_tools)
        if (
            pictures
            and sent
            and (fault := _fault(context, text, pictures, ask))
        ):
            faults[i] = fault
            continue
        which[i] = distinct.setdefault((text, *seen[i].hidden), len(distinct))
        example.setdefault(which[i], i)
    texts = [text for text, *_ in distinct]
    raws = [text.encode() for text in texts]
    digests = tuple(map(keyed, raws))
    if len({*texts}) < len(
        texts
    ):  # what is not shown tells rollouts of one text apart
        digests = tuple([keyed(*map(_raw, texts_of)) for texts_of in distinct])
    rubric = shown_rubric(group, ask.rubric)
    # other criteria over the same rollouts leave order and ids as they are, and so the beginning of the prompt
    text = rubric if isinstance(rubric, str) else ""
    reference = _reference([rollouts[i] for i in readable], pictures)
    common = [text.encode(), tools.encode(), context.encode()]
    if reference:
        common.append(reference.encode())

    owner: list[int | None] = []
    for rollout, at in zip(group.rollouts, place, strict=True):
        owner.append(which.get(at) if rollout.error is None else None)

    @cache
    def earlier() -> PromptLayout:
        return render_group(group, ask, sent=sent, pair=False).layout

    layout = PromptLayout(
        context,
        tools,
        tuple(texts),
        owner=tuple(owner),
        rubric=rubric,
        digests=digests,
        digest=keyed(b"group", *common, *sorted(digests)),
        sizes=tuple(map(len, raws)),
        places=tuple([i + 1 for i in example.values()]),
        reference=reference,
        faults={i: faults[at] for i, at in enumerate(place) if at in faults},
        numbered=any(
            number for pairing in pairings for number, _ in pairing.calls
        ),
        earlier=earlier if pairings else None,
    )
    return RenderedGroup(
        _with_pictures(layout, pictures, ask) if pictures else layout,
        rollouts,
        list(example.values()),
        shared,
        own_tools,
        ask.shown_pictures,
    )


def _lines_of(
    rollouts: Sequence[Rollout], readable: Sequence[int], notes: Seen
) -> tuple[dict[int, list[list[str]]], dict[int, Seen]]:
    """Render each part of readable rollouts, what they begin with once; return its lines, and what these do not say.

    Pictures of all are in `notes`.
    """
    conversations = [conversations_of(rollouts[i])[0] for i in readable]
    opening = _opening(conversations)
    same = render(conversations[0][:opening]) if opening else []
    lines = {}
    seen = {}
    for i in readable:
        seen[i] = Seen(notes.pictures, pair=notes.pair)
        main, *further = conversations_of(rollouts[i])
        lines[i] = [same + render(main[opening:], WHOLE, seen[i])]
        lines[i] += [render(part, WHOLE, seen[i]) for part in further]
    return lines, seen


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _with_pictures(
    layout: PromptLayout, pictures: Mapping[str, Picture], ask: AskSettings
) -> PromptLayout:
    """Return a layout of whole texts with the pictures that are shown of them."""
    most = ask.shown_pictures
    model = ask.judge_model
    context = _shared_pictures(layout.context, most)
    texts = tuple([_without_first(text, most) for text in layout.distinct])
    whole = _marks(layout.context, *layout.distinct)
    return replace(
        layout,
        context=context,
        distinct=texts,
        sizes=tuple([size_of(text, pictures, model) for text in texts]),
        pictures=pictures,
        left_out=whole - _marks(context, *texts),
        twins=_twins(texts, layout),
        model=model,
    )


def _shared_pictures(context: str, most: int | None) -> str:
    """Return the context with all of its pictures, or with none."""
    return _without_first(context, 0) if most == 0 else context


def _marks(*texts: str) -> int:
    """Count the pictures that texts show."""
    return sum(len(MARK.findall(text)) for text in texts)


def _fault(
    context: str, text: str, pictures: Mapping[str, Picture], ask: AskSettings
) -> str:
    """Return why a picture that a judge is to be shown cannot be sent, with its number; empty if all can."""
    most = ask.shown_pictures
    for shown in (_shared_pictures(context, most), _without_first(text, most)):
        for mark in MARK.finditer(shown):
            picture = pictures[mark[2]]
            if why := unsendable(picture):
                put = (
                    "put its bytes into the data, or "
                    if picture.kind == "picture"
                    else ""
                )
                return f"{mark[1]} {why}; {put}use --pictures leave to judge without it"
    return ""


def _twins(texts: Sequence[str], whole: PromptLayout) -> tuple[int, ...]:
    """Return the places of two rollouts whose texts are the same without pictures; () if there are none."""
    first: dict[str, int] = {}
    for at, text in enumerate(texts):
        before = first.setdefault(text, at)
        if whole.distinct[before] != whole.distinct[at]:
            return whole.places[before], whole.places[at]
    return ()


def distinct_rollouts(group: Group, ask: AskSettings) -> int:
    """Count the rollouts of a group that a judge can tell apart: with less than two nothing is compared."""
    return len(render_group(group, ask).layout.distinct)


def shown_rubric(group: Group, usual: Standards | None) -> Standards:
    """Return the rubric that a judge is shown: the group's own, else the usual one, else the built-in one.

    A group whose own cannot be used is shown to no judge.
    """
    if group.rubric_error:
        return ""
    rubric = group.rubric or usual or templates.DEFAULT_RUBRIC
    return readable_text(rubric) if isinstance(rubric, str) else rubric


def rubric_mistake(holder: Group | Record) -> str:
    """Return why the rubric of a group or a record cannot be used, as the end of a sentence; empty if it can."""
    return holder.rubric_error or scale_mistake(holder.rubric)


def _mistake(group: Group) -> str:
    """Return why no judge is asked about a group; empty if one is."""
    scale = scale_mistake(group.rubric)
    return group.mistake or (scale and f"its rubric {scale}")


@lru_cache(64)
def _rubric_bytes(rubric: Standards) -> int:
    """The bytes of a rubric in a request: of criteria those of the longest that one request may be about."""
    if isinstance(rubric, str):
        return len(rubric.encode())
    sizes = sorted(
        map(len, map(templates.stated, rubric.criteria)), reverse=True
    )
    return sum(sizes[:_CRITERIA]) + ENTRY_BYTES * len(sizes[:_CRITERIA]) // 4


def _reference(
    rollouts: Sequence[Rollout], pictures: dict[str, Picture]
) -> str:
    """Return the reference answer of a group as a JSON value, or as parts with pictures; empty if there is none."""
    stated = rollouts[0].reference if rollouts else None
    if stated is None:
        return ""
    parts = stated if isinstance(stated, list) else [stated]
    if isinstance(stated, str) and stated.startswith("data:image/"):
        parts = [picture_part(stated)]
    if any(isinstance(part, dict) and medium_of(part) for part in parts):
        (line,) = render([read_content("answer", parts)], WHOLE, Seen(pictures))
        return line.removeprefix("answer: ")
    # one order of keys, whichever rollout comes first
    return sorted_json(stated)


def _joined(rollouts: list[Rollout]) -> tuple[list[Rollout], list[int]]:
    """Join the parts of one rollout; return the rollouts, and the one that each input rollout became.

    Frameworks write one rollout over several records, e.g. each time its context was compacted. A part that
    another part begins with is an earlier snapshot of it, and is not shown again.
    """
    if all(r.member is None for r in rollouts):
        return rollouts, list(range(len(rollouts)))
    out: list[Rollout] = []
    seen: dict[str, int] = {}
    place = []
    for rollout in rollouts:
        at = len(out)
        if rollout.member is not None:
            at = seen.setdefault(rollout.member, at)
        place.append(at)
        if at == len(out):
            out.append(rollout)
        elif out[at].error is not None:
            out[at] = rollout
        elif rollout.error is None:
            parts = [out[at].messages, *out[at].histories]
            for part in (rollout.messages, *rollout.histories):
                _add_part(parts, part)
            out[at] = replace(
                out[at],
                messages=parts[0],
                histories=tuple(parts[1:]),
                ended=rollout.ended,
            )
    return out, place


def _add_part(parts: list[list[Any]], part: list[Any]) -> None:
    """Put a conversation in the place of the one that it continues, or behind all others."""
    if any(earlier[: len(part)] == part for earlier in parts):
        return
    begun = [
        i for i, earlier in enumerate(parts) if part[: len(earlier)] == earlier
    ]
    if begun:
        parts[begun[-1]] = part
    else:
        parts.append(part)


def _opening(conversations: Sequence[Conversation]) -> int:
    """Count the first messages that are plain text and the same in all: they are rendered once."""
    for i, column in enumerate(zip(*conversations, strict=False)):
        message = column[0]
        plain = message.is_plain and not any(
            map(message.text.__contains__, REFERENCES)
        )
        if not plain or column.count(message) < len(column):
            return i
    return min(map(len, conversations), default=0)


def _shared_prefix(rollouts: list[Rollout], lines: dict[int, list[str]]) -> int:
    """Count the first messages that all rollouts share; each keeps at least one of its own.

    If nothing differs, the context is the prompt: the messages before the first assistant turn.
    """
    if not lines:
        return 0
    limit = min(map(len, lines.values())) - 1
    for i, column in enumerate(zip(*lines.values(), strict=False)):
        if column.count(column[0]) < len(column):
            return min(i, limit)
    if len(set(map(len, lines.values()))) > 1:
        return limit
    last = rollouts[max(lines)]
    size = last.prompt_length
    if size is None:
        main, *_ = conversations_of(last)
        by_agent = (at for at, turn in enumerate(main) if turn.by_agent)
        size = next(by_agent, limit)
    return min(size, limit)


def _tools(group: Group, rollouts: list[Rollout]) -> tuple[str, bool]:
    """Return the tools that all rollouts share; True if rollouts show tools of their own instead."""
    shown = {
        render_tools(rollout.tools) for rollout in rollouts if rollout.tools
    }
    if len(shown) == 1 and all(rollout.tools for rollout in rollouts):
        return shown.pop(), False
    common = render_tools(group.tools) if group.tools else ""
    return common, bool(shown - {common})


def _text_of(
    rollout: Rollout,
    parts: Sequence[list[str]],
    shared: int,
    *,
    tools: bool,
) -> str:
    lines = []
    if tools and rollout.tools:
        lines.append("(tools of this rollout)\n" + render_tools(rollout.tools))
    rendered = parts[0]
    lines += rendered[shared:]
    for number, part in enumerate(parts[1:], 2):
        if shared and part[:shared] == rendered[:shared]:
            lines.append(
                f"(part {number} of the same rollout, again from the shared context)"
            )
            lines += part[shared:]
        else:
            lines += [f"(part {number} of the same rollout)", *part]
    if rollout.ended:  # a bare word: the text of a message is in quotes
        lines.append(f"ended: {rollout.ended}")
    return "\n".join(lines)


LADDER = (
    *(
        Shortening(tool=n)
        for n in (
            256_000,
            128_000,
            64_000,
            32_000,
            16_000,
            8000,
            4000,
            1500,
            500,
        )
    ),
    *(Shortening(tool=500, reasoning=n) for n in (2000, 500, 100)),
    Shortening(tool=120, reasoning=0),
)
"""Steps by which a rollout is shortened: tool outputs first, then reasoning. The first steps are for
messages that alone are longer than a context."""


def build_layout(group: Group, ask: AskSettings) -> PromptLayout:
    """Render a group, shortened as little as the judge's context allows.

    If even that is not enough, no request shows the layout: `requests_of_pass` is empty.
    """
    rendered = render_group(group, ask)
    layout = rendered.layout
    if not layout.distinct or ask.context_tokens is None or layout.at_once(ask):
        return rendered.finished(0)
    return _shortened(rendered, ask)


@dataclass(frozen=True, slots=True)
class RequestPart:
    """The distinct rollouts that one request shows, in order: part `window` of pass `pass_index`, from 0."""

    pass_index: int
    window: int
    distinct: tuple[int, ...]


def pass_count(layout: PromptLayout, ask: AskSettings, windows: int) -> int:
    """Passes that a group gets: at least two in windows, one if nothing is compared."""
    if ask.ask == "each":
        return 1
    if layout.alone and ask.single != "score":
        return 1
    if windows > 1:
        return max(ask.passes, 2)
    return ask.passes


def requests_of_pass(
    layout: PromptLayout,
    ask: AskSettings,
    pass_index: int,
) -> list[RequestPart]:
    """The requests of one pass: one if it shows the whole group, none if the judge cannot be shown it."""
    if why_unseen(layout, ask):
        return []
    windows = []
    at_once = layout.distinct and layout.at_once(ask)
    if ask.ask == "each":
        windows = [[at] for at in range(len(layout.distinct)) if at_once]
    elif at_once:
        windows = [layout.order(ask.seed, pass_index)]
    elif layout.distinct:
        windows = _windows_of_pass(layout, ask, pass_index)
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
    from ruler_cli.prompting.windows import LEAST

    if count < 2 or len(part.distinct) < 2 * LEAST:
        return ()
    number = count + 2 * part.window
    return tuple(
        RequestPart(part.pass_index, number + half, part.distinct[half::2])
        for half in (0, 1)
    )


def why_unaskable(
    group: Group, layout: PromptLayout, ask: AskSettings
) -> GroupError:
    """The error of a group without a request: its rubric, nothing to judge, or nothing that fits."""
    from ruler_cli.prompting.windows import LEAST

    if mistake := _mistake(group):
        return GroupError("input", mistake)
    if not layout.distinct:
        errors = [rollout.error for rollout in group.rollouts if rollout.error]
        errors += layout.faults.values()
        if not errors:
            return GroupError("input", "the group has no trajectories")
        reason = f"no trajectory can be judged; the first: {errors[0]}"
        return GroupError("input", reason)
    if unseen := why_unseen(layout, ask):
        return GroupError("input", unseen)
    # the smallest request that would help: the longest rollout and a short one
    sizes = sorted(range(len(layout.distinct)), key=layout.sizes.__getitem__)
    least = sizes if len(sizes) < 2 * LEAST else (sizes[0], sizes[-1])
    return GroupError(
        "too_long",
        too_long(layout.tokens_of(least), ask.context_tokens or 0),
    )


def why_unseen(layout: PromptLayout, ask: AskSettings) -> str:
    """Return why a group cannot be judged for its pictures; empty if it can."""
    for mark in MARK.finditer(layout.reference):
        why = unsendable(layout.pictures[mark[2]])
        if ask.shown_pictures == 0:
            why = "is not shown"
        if why:
            return f"{mark[1]} of its reference answer {why}"
    if layout.twins:
        first, second = layout.twins
        return f"nothing to compare: rollouts {first} and {second} differ only in media that are not shown"
    shown = layout.pictures and _marks(layout.context, *layout.distinct)
    if not shown or ask.pictures == "send" or ask.reads_pictures:
        return ""
    texts = (layout.context, *layout.distinct)
    at = next(at for at, text in enumerate(texts) if _marks(text))
    place = (
        f"rollout {layout.places[at - 1]}" if at else "what its rollouts share"
    )
    if ask.reads_pictures is None:
        return (
            f"it has pictures, the first in {place}, and {ask.judge_model} reads none; use a judge "
            "that does with -m NAME, or --pictures leave to judge by the text alone"
        )
    return (
        f"it has pictures, the first in {place}, and {ask.judge_model} is not known to read them; "
        "use --pictures send if it does, or --pictures leave to judge by the text alone"
    )


def with_fewer_pictures(
    layout: PromptLayout, ask: AskSettings, most: int
) -> AskSettings | None:
    """Return settings for requests with at most so many pictures: fewer rollouts, then fewer pictures of each.

    None if a request could show no picture of some rollout: it is not judged unseen.
    """
    from ruler_cli.prompting.windows import LEAST, fewest

    room = most - _marks(layout.context, layout.reference)
    counts = sorted(map(_marks, layout.distinct), reverse=True)
    number = 1 if ask.ask == "each" else len(counts)
    widest = number
    for size in range(min(number, ask.group_size), LEAST - 1, -1):
        widest = -(-number // fewest(number, size))
        if sum(counts[:widest]) <= room:
            return replace(ask, group_size=size)
    shown = room // widest
    return (
        replace(ask, group_size=LEAST, most_pictures=shown)
        if shown > 0
        else None
    )


def too_long(tokens: int, limit: int) -> str:
    """The sentence for a group of which no two rollouts fit into one request."""
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )


def _shortened(rendered: RenderedGroup, ask: AskSettings) -> PromptLayout:
    """Shorten a group until it fits the judge's context, in windows of WIDE rollouts, or to the last step."""
    highest = 0
    for even in (True, False):
        for step, keep in enumerate(LADDER, 1):
            before = rendered.layout
            if before.at_once(ask) or (
                ask.ask != "each" and _plan(before, ask, wide=True)
            ):
                return rendered.finished(highest)
            most = _bar(before, ask, even=even)
            sizes = enumerate(before.sizes)
            long = [at for at, size in sizes if size + ENTRY_BYTES > most]
            rendered.shorten(keep, long, context=before.context_size > most)
            after = rendered.layout
            if (after.distinct, after.context) != (
                before.distinct,
                before.context,
            ):
                highest = max(highest, step)
    return rendered.finished(highest)


def _bar(layout: PromptLayout, ask: AskSettings, *, even: bool) -> int:
    """Bytes that a rollout may take if all longer ones take as many and windows are full.

    If not `even`, those that any rollout may take, so that any of that length fit into a window.
    """
    from ruler_cli.prompting.windows import WIDE, fewest

    number = len(layout.distinct)
    context = layout.context_size
    # the most windows that hold enough to compare, and the bytes of each for context and rollouts
    count = max(fewest(number, ask.group_size), number // WIDE, 1)
    if ask.ask == "each":
        count = number
    capacity = layout.bytes_within(ask.context_tokens or 0) + context
    if not even:
        return max(capacity, 0) // (-(-number // count) + bool(layout.context))
    sizes = sorted(
        [*(size + ENTRY_BYTES for size in layout.sizes), *[context] * count]
    )
    left = count * capacity
    for at, size in enumerate(sizes):
        if size * (len(sizes) - at) > left:
            return max(left, 0) // (len(sizes) - at)
        left -= size
    return sizes[-1]


def _windows_of_pass(
    layout: PromptLayout,
    ask: AskSettings,
    pass_index: int,
) -> Windows:
    """The windows of one pass; none if the group fits no context."""
    plan = _plan(layout, ask)
    if plan is None:
        return []
    windows, packing = plan
    if pass_index > 1:
        even = pass_index - pass_index % 2
        windows = _pair(layout, ask, even, len(windows[0]), packing) or windows
    return windows[pass_index % 2]


def _plan(
    layout: PromptLayout,
    ask: AskSettings,
    *,
    wide: bool = False,
) -> tuple[tuple[Windows, Windows], Packing] | None:
    """Return the windows of passes 0 and 1 and how they are packed; None if none fit.

    They are as few as fit and are connected. Those of two and three rollouts are a last resort.
    """
    from ruler_cli.prompting.windows import LEAST, WIDE, Packing

    sizes = [size + ENTRY_BYTES for size in layout.sizes]
    limit = math.inf
    if ask.context_tokens is not None:
        limit = max(1, layout.bytes_within(ask.context_tokens))
    for least in (WIDE,) if wide else (WIDE, LEAST):
        packing = Packing(sizes, limit, least, ask.group_size)
        for count in packing.counts():
            if windows := _pair(layout, ask, 0, count, packing):
                return windows, packing
    return None


def _pair(
    layout: PromptLayout,
    ask: AskSettings,
    even: int,
    count: int,
    packing: Packing,
) -> tuple[Windows, Windows] | None:
    """Return the windows of two passes, from an even one on, that connect each other's windows."""
    keys = [layout.key(ask.seed, even + at) for at in (0, 1)]
    orders = [layout.order(ask.seed, even + at) for at in (0, 1)]

    def draw(at: int, attempt: int, item: int) -> bytes:
        return keyed(keys[at], b"window %d" % attempt, layout.digests[item])

    return packing.pair(orders, count, draw)


_CRITERIA = 64
_VALUES = 512
"""Criteria of one request, and numbers of its answer; with more criteria the group is asked about in parts."""


def criteria_parts(rubric: Rubric, rollouts: int) -> list[range]:
    """The criteria of each request about so many rollouts, by their numbers: as few parts of one size as do."""
    number = len(rubric.criteria)
    most = max(1, min(_CRITERIA, _VALUES // max(1, rollouts)))
    count = -(-number // most)
    bounds = [number * part // count for part in range(count + 1)]
    return [range(*pair) for pair in itertools.pairwise(bounds)]


def criteria_ranges(
    layout: PromptLayout, part: RequestPart
) -> Sequence[range | None]:
    """The criteria of each request about a part, by their numbers; None: it is about a text."""
    if isinstance(layout.rubric, Rubric):
        return criteria_parts(layout.rubric, len(part.distinct))
    return [None]


def part_or_first(
    layout: PromptLayout, ask: AskSettings, part: RequestPart | None
) -> RequestPart:
    """Return the part, or the first of all; that of a layout that fits no context shows all of it."""
    if part is not None:
        return part
    whole = RequestPart(0, 0, tuple(range(len(layout.distinct))))
    return next(iter(requests_of_pass(layout, ask, 0)), whole)


LETTERS = "bcdfghjkmnpqrstvwxz"
"""Letters of a label."""


@dataclass(slots=True)
class ExchangeState:
    """The corrections of one request so far; each kind is made a few times at most.

    `note` is the sentence that the next request ends with. `fitted`: `max_output_tokens` is all that the
    judge's context leaves beside the prompt. `cuts` are the prompt and answer tokens of each reply that was
    cut off. `criteria` is the number of the part of the criteria that it is about.
    """

    attempt: int = 0
    note: str = ""
    max_output_tokens: int | None = None
    fitted: bool = False
    cuts: tuple[tuple[int, int], ...] = ()
    refused: bool = False
    corrected: int = 0
    criteria: int = 0


_FIRST = ExchangeState()
"""The state before any reply."""


def write_prompt(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart | None = None,
    state: ExchangeState | None = None,
    given: Mapping[str, tuple[Sequence[float], str]] | None = None,
    criteria: range | None = None,
) -> Request:
    """Write the two messages of one request for written scores of a part, by default the first of all.

    `given` holds entries of an earlier reply that stand, so that only the other labels are asked for. `criteria` are
    the numbers of those that the request is about, by default those of the first request about them.
    """
    part = part_or_first(layout, ask, part)
    rubric = layout.rubric
    if isinstance(rubric, Rubric) and criteria is None:
        criteria = criteria_parts(rubric, len(part.distinct))[0]
    state = state or _FIRST
    given = given or {}
    key = layout.key(ask.seed, part.pass_index, state.attempt)
    order: Sequence[int] = part.distinct
    if state.attempt and ask.order == "random":
        order = layout.drawn(order, key)
    shown = labels_of(layout, key, order)
    lines = common_blocks(layout)
    # as many requests begin so as there are passes and windows
    again = pass_count(layout, ask, 1) > 1 or len(order) < len(layout.distinct)
    shared = len(placed("\n".join(lines), layout.pictures)[0]) if again else 0
    lines += rollout_blocks(layout, shown)
    wanted = tuple([label for label in shown if label not in given])
    asked = {}
    if isinstance(rubric, Rubric):
        criteria = criteria or range(0)
        if len(criteria) < len(rubric.criteria):  # all before them comes again
            shared = len(placed("\n".join(lines), layout.pictures)[0])
        asked = _criteria_labels(rubric, criteria, layout, shown)
        lines.append(templates.criteria_block(asked))
    note = templates.missing(given) if given else state.note
    if note:
        lines.append(note)
    lines.append("trajectory_ids to score: " + orjson.dumps(wanted).decode())
    standards = None if isinstance(rubric, Rubric) else rubric
    system = partial(
        templates.system,
        standards,
        alone=layout.alone,
        ended=layout.ended(order),
        pictures=bool(layout.pictures),
    )
    user, pictures = placed("\n".join(lines), layout.pictures)
    return Request(
        system(),
        user,
        wanted,
        state.max_output_tokens,
        part.pass_index,
        state.fitted,
        criteria=asked,
        shared=shared,
        shown=shown,
        pictures=pictures,
        picture_tokens=picture_tokens_of(pictures, ask),
        keyed_system=system(keyed=True),
        earlier=None
        if given
        else earlier_prompt(
            layout,
            ask,
            part,
            lambda before, same: write_prompt(
                before, ask, same, state, criteria=criteria
            ),
        ),
    )


def earlier_prompt(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    write: Callable[[PromptLayout, RequestPart], Request],
) -> Callable[[], str] | None:
    """Return what writes the user message of a part as an earlier version did; None if it is not known or the same.

    `write` writes the request about a part of a layout.
    """
    build = layout.earlier
    if build is None or layout.shortening:
        return None

    def user() -> str:
        before = build()
        parts = requests_of_pass(before, ask, part.pass_index)[part.window :]
        return write(before, parts[0]).user if parts else ""

    return user


def placed(text: str, pictures: Mapping[str, Picture]) -> tuple[str, Placed]:
    """Return a text with the numbers of its pictures alone, and the pictures with their places in it."""
    if not pictures:
        return text, ()
    pieces = []
    placed = []
    at = size = 0
    for mark in MARK.finditer(text):
        piece = f"{text[at : mark.start()]}({mark[1]})"
        pieces.append(piece)
        size += len(piece)
        placed.append((size, pictures[mark[2]]))
        at = mark.end()
    return "".join((*pieces, text[at:])), tuple(placed)


def picture_tokens_of(pictures: Placed, ask: AskSettings) -> int:
    """Return the tokens of pictures, as the judge's model counts them."""
    return sum(
        picture_tokens(picture, ask.judge_model) for _, picture in pictures
    )


def common_blocks(
    layout: PromptLayout, *, reference_first: bool = False
) -> list[str]:
    """The blocks of all that the rollouts share."""
    blocks = (
        [f"<context>\n{layout.context}\n</context>"] if layout.context else []
    )
    if layout.tools:
        blocks.append(f"<available_tools>\n{layout.tools}\n</available_tools>")
    if layout.reference:
        place = 0 if reference_first else len(blocks)
        blocks.insert(place, templates.reference_block(layout.reference))
    if layout.numbered:
        blocks.append(templates.NUMBERS)
    return blocks


def rollout_blocks(
    layout: PromptLayout, labels: Mapping[str, int]
) -> list[str]:
    """The blocks of rollouts by their labels, in this order, after those of the messages that several share."""
    branches = layout.branches(list(labels.values()))
    return branches.shown(list(labels)) + [
        f'<trajectory id="{label}">\n{text}\n</trajectory>'
        for label, text in zip(labels, branches.rest, strict=True)
    ]


def labels_of(
    layout: PromptLayout, key: bytes, order: Sequence[int]
) -> dict[str, int]:
    """An id for each rollout that no text of the request holds."""
    text = _text_shown(layout, order)
    labels: dict[str, int] = {}
    for i in order:
        labels[_label((key, b"label", layout.digests[i]), text, labels)] = i
    return labels


def _criteria_labels(
    rubric: Rubric,
    numbers: Iterable[int],
    layout: PromptLayout,
    shown: Mapping[str, int],
) -> dict[str, Criterion]:
    """An id for each of these criteria that no text of the request holds.

    It depends on the rubric alone if it can: a provider compiles the form of an answer once for all groups.
    """
    text = _text_shown(layout, shown.values())
    # weights and names are not shown: with others the request is the same
    key = keyed(readable_text(rubric.statements).encode())
    labels: dict[str, Criterion] = {}
    for number in numbers:
        name = b"%d" % number
        labels[_label((key, b"criterion", name), text, {**shown, **labels})] = (
            rubric.criteria[number]
        )
    return labels


def _text_shown(layout: PromptLayout, rollouts: Iterable[int]) -> str:
    """All texts of a request about these rollouts."""
    texts = [layout.distinct[i] for i in rollouts]
    rubric = layout.rubric
    shown = (
        rubric if isinstance(rubric, str) else readable_text(rubric.statements)
    )
    common = (shown, layout.context, layout.tools)
    return "\n".join((*common, layout.reference, *texts))


def _label(
    draws: tuple[bytes, bytes, bytes], text: str, taken: Container[str]
) -> str:
    """Four consonants or more that are not in the text and not taken; `draws` are key, kind and item."""
    key, kind, item = draws
    for draw in itertools.count():
        number = int.from_bytes(keyed(key, b"%b %d" % (kind, draw), item))
        # a text that holds every short label is answered with longer ones
        size = 4 + draw // 8
        label = ""
        for _ in range(size):
            number, letter = divmod(number, len(LETTERS))
            label += LETTERS[letter]
        if label not in taken and label not in text:
            return label
    raise AssertionError("unreachable")
