"""A group as the judge sees it: shared context once, identical rollouts once, each as text.

A rollout is known by its whole text, also where less of it is shown: the same group has the same
digests for every judge, however its dump is sorted. They decide the order of a pass: a judge prefers
some places, so an order and its reverse give each rollout places that sum to the same, and further
pairs start a quarter of the group later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ruler_cli.config import AskSettings
from ruler_cli.formats.chat import first_agent_turn
from ruler_cli.prompting import injection, templates
from ruler_cli.prompting.render import WHOLE, Shortening, readable_text, render, render_tools
from ruler_cli.types import Group, Rollout

CYCLE = 8
"""Turns that one drawn order serves: four shifts of it, each with its reverse."""


def balanced(base: Sequence[int], turn: int) -> list[int]:
    """The order of a turn within its cycle: `base`, its reverse, `base` a quarter later, its reverse, …."""
    pair, back = divmod(turn % CYCLE, 2)
    shift = -(-len(base) * pair // (CYCLE // 2)) % max(len(base), 1)  # rounded up: two and three move too
    order = [*base[shift:], *base[:shift]]
    return order[::-1] if back else order


def order_of(digest: bytes, digests: Sequence[bytes], *, seed: int, turn: int) -> list[int]:
    """The order in which a turn shows all bodies, given by their digests; `digest` is the group's."""
    key = salt(digest, seed=seed, turn=turn - turn % CYCLE, attempt=0)
    return balanced(drawn(range(len(digests)), digests, key), turn)


def drawn(bodies: Iterable[int], digests: Sequence[bytes], key: bytes) -> list[int]:
    """Bodies in an order that only `key` and their digests decide."""
    return sorted(bodies, key=lambda i: keyed(key, b"order", digests[i]))


def salt(digest: bytes, *, seed: int, turn: int, attempt: int) -> bytes:
    """What all draws for one attempt of a turn are keyed with."""
    return digest + (b"%d/%d/%d" % (seed, attempt, turn) if turn else b"%d/%d" % (seed, attempt))


def keyed(*parts: bytes | str) -> bytes:
    """A hash that no other parts have, however they are cut."""
    whole = []
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole += [len(data).to_bytes(8), data]
    return blake2b(b"".join(whole), digest_size=16).digest()


BYTES_PER_TOKEN = 3.8
"""UTF-8 bytes of a rendered prompt per token, to estimate before the judge's own count is known."""
_FRAME_TOKENS, _ENTRY_TOKENS = 400, 20
ENTRY_BYTES = int(_ENTRY_TOKENS * BYTES_PER_TOKEN)
"""What a rollout takes beside its text."""


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A group as the judge sees it: distinct rollouts, and which input rollout is which.

    `owner[i]` is the distinct body of input rollout i, None where it could not be read. `sizes` are
    bytes of each body as shown; `digests` and `digest` are those of the whole texts. `shortening` is the
    highest step of the ladder that any of it was shortened by.
    """

    context: str
    tools: str
    distinct: tuple[str, ...]
    owner: tuple[int | None, ...]
    rubric: str
    digests: tuple[bytes, ...]
    digest: bytes
    sizes: tuple[int, ...]
    suspects: frozenset[int] = frozenset()
    shortening: int = 0

    @property
    def alone(self) -> bool:
        """Whether there is nothing to compare: one rollout, or all identical."""
        return len(self.distinct) == 1

    @property
    def tokens(self) -> int:
        """Estimated tokens of a prompt that shows all of it."""
        return self.tokens_of(range(len(self.distinct)))

    def tokens_of(self, bodies: Sequence[int]) -> int:
        """Estimated tokens of a prompt that shows some of the bodies."""
        text = self._frame + sum(self.sizes[body] for body in bodies)
        return int(text / BYTES_PER_TOKEN) + _FRAME_TOKENS + _ENTRY_TOKENS * len(bodies)

    def bytes_within(self, tokens: int) -> int:
        """Bytes that bodies, each with its ENTRY_BYTES, may take in a prompt of that many tokens."""
        return int((tokens - _FRAME_TOKENS) * BYTES_PER_TOKEN) - self._frame

    @property
    def _frame(self) -> int:
        return sum(len(text.encode()) for text in (self.context, self.tools, self.rubric))


@dataclass(slots=True)
class LayoutBuilder:
    """A group that was rendered whole, and can be rendered again with less of some rollouts.

    `of_body[b]` is a rollout that looks like body b; `shared` how many first messages are the context;
    `raws` are the bodies in UTF-8, since an encoder costs as much as a hash.
    """

    sheet: PromptLayout
    rollouts: list[Rollout]
    of_body: list[int]
    shared: int
    own_tools: bool
    raws: list[bytes]

    @classmethod
    def of(cls, group: Group, ask: AskSettings) -> LayoutBuilder:
        """Render everything."""
        given = group.rollouts
        rollouts, place = _joined(given)
        readable = [i for i, r in enumerate(rollouts) if r.error is None]
        opening = _opening([rollouts[i].messages for i in readable])
        same = render(rollouts[readable[0]].messages[:opening]) if opening else []
        drawn = {i: same + render(rollouts[i].messages[opening:]) for i in readable}
        tools, own_tools = _tools(group, [rollouts[i] for i in readable])
        shared = _shared_prefix(rollouts, drawn)
        context = "\n".join(drawn[readable[0]][:shared]) if readable else ""
        bodies: dict[str, int] = {}
        of_body: list[int] = []
        which: dict[int, int] = {}
        for i in readable:
            body = _body(rollouts[i], drawn[i], shared, WHOLE, tools=own_tools)
            which[i] = bodies.setdefault(body, len(bodies))
            if len(of_body) < len(bodies):
                of_body.append(i)
        owner = [None if r.error is not None else which.get(place[i]) for i, r in enumerate(given)]
        rubric = readable_text(group.rubric or ask.rubric or templates.RUBRIC)
        raws = [body.encode() for body in bodies]
        digests = tuple(map(keyed, raws))
        digest = keyed(b"group", rubric, tools, context, *sorted(digests))
        sizes = tuple(map(len, raws))
        sheet = PromptLayout(context, tools, tuple(bodies), tuple(owner), rubric, digests, digest, sizes)
        return cls(sheet, rollouts, of_body, shared, own_tools, raws)

    def shorten(self, keep: Shortening, bodies: Sequence[int], *, context: bool) -> None:
        """Show less of these bodies, and of the context; of each as it is where that is no less."""
        texts, sizes = list(self.sheet.distinct), list(self.sheet.sizes)
        for body in bodies:
            rollout = self.rollouts[self.of_body[body]]
            text = _body(rollout, render(rollout.messages, keep), self.shared, keep, tools=self.own_tools)
            raw = text.encode()
            if len(raw) < sizes[body]:
                texts[body], sizes[body], self.raws[body] = text, len(raw), raw
        shown = self.sheet.context
        if context and self.of_body:
            less = render(self.rollouts[self.of_body[0]].messages[: self.shared], keep)
            shown = min(shown, "\n".join(less), key=lambda text: len(text.encode()))
        self.sheet = replace(self.sheet, context=shown, distinct=tuple(texts), sizes=tuple(sizes))

    def finished(self, shortening: int) -> PromptLayout:
        """What is shown, with the bodies that address a judge."""
        suspects = injection.suspects(self.sheet.distinct, self.raws)
        if not suspects and not shortening:
            return self.sheet
        return replace(self.sheet, shortening=shortening, suspects=suspects)


def _joined(rollouts: list[Rollout]) -> tuple[list[Rollout], list[int]]:
    """The rollouts with the parts of one joined, and which of them each rollout became.

    Frameworks write one rollout over several records, e.g. each time its context was compacted. A part that
    another begins with is an earlier snapshot of it, and is not shown again.
    """
    if all(r.member is None for r in rollouts):
        return rollouts, list(range(len(rollouts)))
    out: list[Rollout] = []
    seen: dict[str, int] = {}
    place = []
    for rollout in rollouts:
        at = len(out) if rollout.member is None else seen.setdefault(rollout.member, len(out))
        place.append(at)
        if at == len(out):
            out.append(rollout)
        elif out[at].error is not None:
            out[at] = rollout
        elif rollout.error is None:
            parts = [out[at].messages, *out[at].histories]
            for part in (rollout.messages, *rollout.histories):
                _add_part(parts, part)
            out[at] = replace(out[at], messages=parts[0], histories=tuple(parts[1:]))
    return out, place


def _add_part(parts: list[list[Any]], part: list[Any]) -> None:
    """Put a conversation in the place of the one that it goes on from, or behind all others."""
    if any(other[: len(part)] == part for other in parts):
        return
    begun = [i for i, other in enumerate(parts) if part[: len(other)] == other]
    if begun:
        parts[begun[-1]] = part
    else:
        parts.append(part)


def _opening(conversations: list[list[Any]]) -> int:
    """How many first messages are plain text and the same in all: they need to be rendered once."""
    for i, column in enumerate(zip(*conversations, strict=False)):
        first = column[0]
        plain = len(first) == 2 and all(isinstance(first.get(name), str) for name in ("role", "content"))
        if not plain or column.count(first) < len(column):
            return i
    return min(map(len, conversations), default=0)


def _shared_prefix(rollouts: list[Rollout], drawn: dict[int, list[str]]) -> int:
    """How many first messages all rollouts share; each keeps at least one of its own.

    Where nothing differs, the prompt is the context: what stands before the first assistant turn.
    """
    if not drawn:
        return 0
    limit = min(map(len, drawn.values())) - 1
    for i, column in enumerate(zip(*drawn.values(), strict=False)):
        if column.count(column[0]) < len(column):
            return min(i, limit)
    if len({len(lines) for lines in drawn.values()}) > 1:
        return limit
    last = rollouts[max(drawn)]
    return min(first_agent_turn(last.messages) if last.prompt_length is None else last.prompt_length, limit)


def _tools(group: Group, rollouts: list[Rollout]) -> tuple[str, bool]:
    """The tools that all share, and whether rollouts show tools of their own instead."""
    own = {render_tools(r.tools) for r in rollouts if r.tools}
    if group.tools and (not own or own == {render_tools(group.tools)}):
        return render_tools(group.tools), False
    if len(own) == 1 and all(r.tools for r in rollouts):
        return own.pop(), False
    return (render_tools(group.tools) if group.tools else ""), bool(own)


def _body(rollout: Rollout, drawn: list[str], shared: int, keep: Shortening, *, tools: bool) -> str:
    lines = []
    if tools and rollout.tools:
        lines.append("(tools of this rollout)\n" + render_tools(rollout.tools))
    lines += drawn[shared:]
    for number, history in enumerate(rollout.histories, 2):
        part = render(history, keep)
        if shared and part[:shared] == drawn[:shared]:
            lines.append(f"(part {number} of the same rollout, again from the shared context)")
            part = part[shared:]
        else:
            lines.append(f"(part {number} of the same rollout)")
        lines += part
    return "\n".join(lines)
