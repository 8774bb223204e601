"""One group → the lines that its judge read, as text and as JSON."""

from __future__ import annotations

from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)

from ruler_cli.messages.content import first_agent_turn, text_of
from ruler_cli.prompting.prompt import render_group
from ruler_cli.prompting.render import MARK
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import (
    Group,
    Picture,
    readable_text,
    rubric_text,
    value,
)

_TASK = 240
"""Characters of a task in a page."""


@value
class GroupText:
    """The whole text of a group, in the lines that a judge reads (see `prompting.render`).

    `context` is common to all rollouts, `tools` one tool a line, `rubric` the group's own, else empty.
    `rollouts` are those of the scored group, without the context; one that cannot be read has no lines.
    `identical[i]` is the first rollout with the text of rollout i: i itself if it is the first. `task` is the
    beginning of the task. `pictures` are those of the marks in the lines, by their digests.
    """

    context: Sequence[str]
    tools: str
    rubric: str
    rollouts: Sequence[Sequence[str]]
    identical: Sequence[int]
    task: str
    pictures: Mapping[str, Picture]

    @classmethod
    def of(
        cls,
        group: Group,
        scored_group: GroupRecord,
    ) -> GroupText:
        """Render the text that the judge saw, if nothing was shortened for its context."""
        layout = render_group(
            group,
            AskSettings(),
            sent=False,
        ).layout
        rollouts: list[Sequence[str]] = []
        identical = []
        first: dict[int, int] = {}
        for number, rollout in enumerate(scored_group.rollouts):
            owners = (layout.owner[index] for index in rollout.indices)
            owner = next((index for index in owners if index is not None), None)
            if owner is None:
                rollouts.append([])
                identical.append(number)
            else:
                rollouts.append(_lines(layout.distinct[owner]))
                identical.append(first.setdefault(owner, number))
        return cls(
            context=_lines(layout.context),
            tools=layout.tools,
            rubric=readable_text(rubric_text(group.rubric or "")),
            rollouts=rollouts,
            identical=identical,
            task=_task(group),
            pictures=layout.pictures,
        )


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def as_read(lines: Iterable[str]) -> list[str]:
    """Return lines with the marks of pictures as a judge reads them."""
    return [MARK.sub(r"(\1)", line) for line in lines]


def _task(group: Group) -> str:
    """Return the beginning of the user's last message before the agent's first; empty without one."""
    for rollout in group.rollouts:
        first = 0 if rollout.error else first_agent_turn(rollout.messages)
        for message in reversed(rollout.messages[:first]):
            if message.get("role") == "user":
                return " ".join(text_of(message)[: 8 * _TASK].split())[:_TASK]
    return ""


def text_json(text: GroupText, group: GroupRecord) -> Json:
    """Return the texts of a group as JSON, its rollouts in input order, with the lines that the judge read.

    `same_as` is the index of the first rollout with the same lines.
    """
    rollouts = []
    for number, rollout in enumerate(group.rollouts):
        lines = {
            "lines": as_read(text.rollouts[number]),
            "same_as": text.identical[number],
        }
        rollouts.append(rollout.as_json() | lines)
    return {
        "rollouts": rollouts,
        "context": as_read(text.context),
        "tools": text.tools,
        "rubric": text.rubric,
    }
