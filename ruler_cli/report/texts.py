"""A group → what its judge read, as lines: the context once, and each rollout from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Group
from ruler_cli.scoring.render import readable_text
from ruler_cli.scoring.sheet import Draft
from ruler_cli.settings import AskSettings

_ASK = AskSettings()


@dataclass(frozen=True, slots=True)
class GroupText:
    """A group's text, in the lines that a judge reads (see `scoring.render`), whole.

    `context` is what all rollouts share, `tools` one tool a line, `rubric` the group's own, else empty.
    `rollouts` are in the order of the group's marks, without the context; one that cannot be read has no
    lines. `identical[i]` is the first rollout with the text of rollout i: i itself where it is the first.
    """

    context: tuple[str, ...]
    tools: str
    rubric: str
    rollouts: tuple[tuple[str, ...], ...]
    identical: tuple[int, ...]


def group_text(group: Group, marked: MarkedGroup) -> GroupText:
    """What the judge saw of a group, as far as nothing was shortened for its context.

    `marked` is what `Marks` made of the same group.
    """
    sheet = Draft.of(group, _ASK).sheet
    bodies = [tuple(body.split("\n")) if body else () for body in sheet.bodies]
    rollouts: list[tuple[str, ...]] = []
    identical: list[int] = []
    first: dict[int, int] = {}
    for number, rollout in enumerate(marked.rollouts):
        body = next((own for at in rollout.at if (own := sheet.owner[at]) is not None), None)
        rollouts.append(() if body is None else bodies[body])
        identical.append(number if body is None else first.setdefault(body, number))
    return GroupText(
        context=tuple(sheet.context.split("\n")) if sheet.context else (),
        tools=sheet.tools,
        rubric=readable_text(group.rubric or ""),
        rollouts=tuple(rollouts),
        identical=tuple(identical),
    )


def parting(one: Sequence[str], other: Sequence[str]) -> int:
    """How many first lines two rollouts have in common; the length of both where nothing parts them."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
