"""Group → the question put to the judge: shared context once, identical rollouts once, opaque labels.

Order and labels come from keyed hashes of the group's content (BLAKE2b), never from the input
order: the same group asks the identical question however its dump is sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson

from ruler_cli.formats.chat import first_turn
from ruler_cli.records import Group, Request, Rollout
from ruler_cli.scoring import suspicion, words
from ruler_cli.scoring.render import WHOLE, Shortening, readable_text, render, render_tools
from ruler_cli.settings import AskSettings

_LETTERS = "bcdfghjkmnpqrstvwxz"
_LADDER = (
    WHOLE,
    *(Shortening(tool=n) for n in (4000, 1500, 500)),
    *(Shortening(tool=500, reasoning=n) for n in (2000, 500, 100)),
    Shortening(tool=120, reasoning=0),
)
BYTES_PER_TOKEN = 3.8
"""UTF-8 bytes of a rendered prompt per token, to estimate before the judge's own count is known."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A group as the judge sees it: distinct rollouts, and which input rollout is which.

    `owner[i]` is the distinct body of input rollout i, None where it could not be read.
    """

    context: str
    tools: str
    bodies: tuple[str, ...]
    owner: tuple[int | None, ...]
    rubric: str
    digests: tuple[bytes, ...]
    digest: bytes
    suspects: frozenset[int]
    shortening: int = 0

    @property
    def alone(self) -> bool:
        """Whether there is nothing to compare: one rollout, or all identical."""
        return len(self.bodies) == 1

    @property
    def tokens(self) -> int:
        """Estimated tokens of the prompt."""
        text = sum(len(b.encode()) for b in (self.context, self.tools, self.rubric, *self.bodies))
        return int(text / BYTES_PER_TOKEN) + 400 + 20 * len(self.bodies)


@dataclass(frozen=True, slots=True)
class Paper:
    """One request with its key: the distinct body behind each label."""

    request: Request
    labels: dict[str, int]


def lay_out(group: Group, ask: AskSettings) -> Sheet:
    """Render a group, shortened as little as the judge's context allows."""
    sheet = _sheet(group, ask, 0)
    while (
        ask.context_tokens is not None
        and sheet.tokens > ask.context_tokens
        and sheet.shortening + 1 < len(_LADDER)
    ):
        sheet = _sheet(group, ask, sheet.shortening + 1)
    return sheet


def compose(
    sheet: Sheet,
    ask: AskSettings,
    attempt: int = 0,
    note: str = "",
    given: dict[str, tuple[float, str]] | None = None,
    room: int | None = None,
) -> Paper:
    """Write the two messages of one attempt.

    `note` corrects an earlier reply; `given` holds entries of it that stand, so that only the
    other labels are asked for.
    """
    salt = sheet.digest + b"%d/%d" % (ask.seed, attempt)
    order = list(range(len(sheet.bodies)))
    if ask.order == "random":
        order.sort(key=lambda i: _hash(salt, b"order", sheet.digests[i]))
    labels = _labels(sheet, salt, order)
    parts = [f"<context>\n{sheet.context}\n</context>"] if sheet.context else []
    if sheet.tools:
        parts.append(f"<available_tools>\n{sheet.tools}\n</available_tools>")
    parts += [f'<trajectory id="{label}">\n{sheet.bodies[i]}\n</trajectory>' for label, i in labels.items()]
    wanted = [label for label in labels if label not in (given or {})]
    if note:
        parts.append(note)
    parts.append("trajectory_ids to score: " + orjson.dumps(wanted).decode())
    system = words.system(sheet.rubric, alone=sheet.alone)
    return Paper(Request(system, "\n".join(parts), tuple(wanted), room), labels)


def _sheet(group: Group, ask: AskSettings, level: int) -> Sheet:
    given = group.rollouts
    rollouts, place = _joined(given)
    keep = _LADDER[level]
    readable = [i for i, r in enumerate(rollouts) if r.fault is None]
    opening = _opening([rollouts[i].messages for i in readable])
    same = render(rollouts[readable[0]].messages[:opening], keep) if opening else []
    drawn = {i: same + render(rollouts[i].messages[opening:], keep) for i in readable}
    tools, own_tools = _tools(group, [rollouts[i] for i in readable])
    shared = _shared_prefix(rollouts, drawn)
    context = "\n".join(drawn[readable[0]][:shared]) if readable else ""
    bodies: dict[str, int] = {}
    which: dict[int, int] = {}
    for i in readable:
        body = _body(rollouts[i], drawn[i], shared, keep, tools=own_tools)
        which[i] = bodies.setdefault(body, len(bodies))
    owner = [None if r.fault is not None else which.get(place[i]) for i, r in enumerate(given)]
    rubric = readable_text(group.rubric or ask.rubric or words.RUBRIC)
    digests = tuple(_hash(body) for body in bodies)
    digest = _hash(b"group", rubric, tools, context, *sorted(digests))
    suspects = suspicion.suspects(list(bodies))
    return Sheet(context, tools, tuple(bodies), tuple(owner), rubric, digests, digest, suspects, level)


def _joined(rollouts: list[Rollout]) -> tuple[list[Rollout], list[int]]:
    """The rollouts with the parts of one joined, and which of them each rollout became.

    Frameworks write one rollout over several records, e.g. each time its context was compacted.
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
        elif out[at].fault is not None:
            out[at] = rollout
        elif rollout.fault is None:
            more = (*out[at].histories, rollout.messages, *rollout.histories)
            out[at] = replace(out[at], histories=more)
    return out, place


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

    Where nothing differs, what stands before the first assistant turn is the context.
    """
    if not drawn:
        return 0
    limit = min(map(len, drawn.values())) - 1
    for i, column in enumerate(zip(*drawn.values(), strict=False)):
        if column.count(column[0]) < len(column):
            return min(i, limit)
    if len({len(lines) for lines in drawn.values()}) > 1:
        return limit
    return min(first_turn(rollouts[max(drawn)].messages), limit)


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


def _labels(sheet: Sheet, salt: bytes, order: Sequence[int]) -> dict[str, int]:
    """Four consonants or more for each body, that no text of the group holds."""
    labels: dict[str, int] = {}
    text = "\n".join((sheet.rubric, sheet.context, sheet.tools, *sheet.bodies))
    for i in order:
        for draw in itertools.count():
            number = int.from_bytes(_hash(salt, b"label %d" % draw, sheet.digests[i]))
            size = 4 + draw // 50  # a text that holds every short label is answered with longer ones
            label = ""
            for _ in range(size):
                number, letter = divmod(number, len(_LETTERS))
                label += _LETTERS[letter]
            if label not in labels and label not in text:
                labels[label] = i
                break
    return labels


def _hash(*parts: bytes | str) -> bytes:
    whole = []
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole += [len(data).to_bytes(8), data]
    return blake2b(b"".join(whole), digest_size=16).digest()


__all__ = ["BYTES_PER_TOKEN", "Paper", "Sheet", "compose", "lay_out"]
