"""The rollouts of a group → the lines that a judge reads of each, and how many of them all share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ruler_cli.messages.form import Conversation
from ruler_cli.messages.read import read_messages
from ruler_cli.prompting.render import (
    WHOLE,
    Seen,
    Shortening,
    render,
    render_tools,
)
from ruler_cli.types import Group, Picture, Rollout, value


@value
class RenderedRollout:
    """A rollout that can be judged: its conversations, the lines of each, and what these do not say."""

    rollout: Rollout
    conversations: Sequence[Conversation]
    lines: Sequence[Sequence[str]]
    notes: Seen

    def text(
        self,
        shared: int,
        *,
        tools: bool,
    ) -> str:
        """Return its lines behind the shared ones, with its tools if rollouts show tools of their own."""
        rollout = self.rollout
        main, *further = self.lines
        lines = list(main[shared:])
        if tools and rollout.tools:
            listed = render_tools(rollout.tools)
            lines.insert(0, f"(tools of this rollout)\n{listed}")
        for number, part in enumerate(further, 2):
            head = f"part {number} of the same rollout"
            if shared and part[:shared] == main[:shared]:
                lines.append(f"({head}, again from the shared context)")
                lines += part[shared:]
            else:
                lines += [f"({head})", *part]
        if rollout.ended:  # a bare word: the text of a message is in quotes
            lines.append(f"ended: {rollout.ended}")
        return "\n".join(lines)

    def shortened(self, keep: Shortening) -> RenderedRollout:
        """Render it with less of its text."""
        lines = [render(part, keep) for part in self.conversations]
        return replace(self, lines=lines)


def rendered(
    rollouts: Sequence[Rollout], pictures: dict[str, Picture]
) -> list[RenderedRollout]:
    """Render whole rollouts; `pictures` gets theirs."""
    results = []
    for rollout in rollouts:
        parts = (rollout.messages, *rollout.histories)
        conversations = [*map(read_messages, parts)]
        notes = Seen(pictures)
        lines = [render(part, WHOLE, notes) for part in conversations]
        results.append(
            RenderedRollout(
                rollout,
                conversations,
                lines,
                notes,
            )
        )
    return results


def shared_prefix(rollouts: Sequence[RenderedRollout]) -> int:
    """Count the first messages that all rollouts share; each keeps at least one of its own.

    If nothing differs, the context is the prompt: the messages before the first assistant turn.
    """
    if not rollouts:
        return 0
    lines = [rollout.lines[0] for rollout in rollouts]
    sizes = list(map(len, lines))
    limit = min(sizes) - 1
    for at, column in enumerate(zip(*lines, strict=False)):
        if column.count(column[0]) < len(column):
            return min(at, limit)
    if max(sizes) > min(sizes):
        return limit
    last = rollouts[-1]
    length = last.rollout.prompt_length
    if length is not None:
        return min(length, limit)
    main, *_ = last.conversations
    for at in range(limit):
        if main[at].by_agent:
            return at
    return limit


def shared_tools(
    group: Group,
    rollouts: Sequence[Rollout],
) -> tuple[str, bool]:
    """Return the tools that all rollouts share; True if rollouts show tools of their own instead."""
    listed = [rollout.tools for rollout in rollouts]
    shown = {render_tools(tools) for tools in listed if tools}
    if len(shown) == 1 and all(listed):
        return shown.pop(), False
    common = render_tools(group.tools) if group.tools else ""
    return common, bool(shown - {common})


def joined(rollouts: Sequence[Rollout]) -> Iterable[tuple[Rollout, list[int]]]:
    """Join the parts of one rollout; return each rollout with the numbers of its parts.

    Frameworks write one rollout over several records, e.g. each time its context was compacted. A part that
    another part begins with is an earlier snapshot of it, and is not shown again.
    """
    results: dict[int | str, tuple[Rollout, list[int]]] = {}
    for at, rollout in enumerate(rollouts):
        name = at if rollout.member is None else rollout.member
        whole, records = results.get(name, (rollout, []))
        if whole.error is not None:
            whole = rollout
        elif records and rollout.error is None:
            whole = _continued(whole, rollout)
        results[name] = whole, [*records, at]
    return results.values()


def _continued(
    rollout: Rollout,
    later: Rollout,
) -> Rollout:
    """Return a rollout with the conversations of a later part of it."""
    parts = [rollout.messages, *rollout.histories]
    for part in (later.messages, *later.histories):
        at = len(parts)
        for number, earlier in enumerate(parts):
            if earlier[: len(part)] == part:
                break
            if part[: len(earlier)] == earlier:
                at = number
        else:
            # it continues one, or stands behind all others
            parts[at : at + 1] = [part]
    main, *further = parts
    return replace(
        rollout, messages=main, histories=tuple(further), ended=later.ended
    )
