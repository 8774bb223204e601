"""One group → its text as its judge read it, in lines, and the JSON of `ruler report --group KEY --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ruler_cli.config import AskSettings
from ruler_cli.prompting.layout import LayoutBuilder
from ruler_cli.prompting.render import readable_text
from ruler_cli.reading.index import digest
from ruler_cli.results.report.figures import iso, usage_json
from ruler_cli.results.scored_groups import MarkedGroup, MarkedRollout
from ruler_cli.types import Group

_ASK = AskSettings()
_KEY = 300
"""Characters of a key in a page."""


@dataclass(frozen=True, slots=True)
class GroupText:
    """A group's text, in the lines that a judge reads (see `scoring.render`), whole.

    `context` is what all rollouts share, `tools` one tool a line, `rubric` the group's own, else empty.
    `rollouts` are in the order of the group's marks, without the context; one that cannot be read has no
    lines. `identical[i]` is the first rollout with the text of rollout i: i itself if it is the first.
    """

    context: tuple[str, ...]
    tools: str
    rubric: str
    rollouts: tuple[tuple[str, ...], ...]
    identical: tuple[int, ...]

    @classmethod
    def of(cls, group: Group, marked: MarkedGroup) -> GroupText:
        """The text that the judge saw, if nothing was shortened for its context; `marked` is of `Marks`."""
        sheet = LayoutBuilder.of(group, _ASK).layout
        bodies = [tuple(body.split("\n")) if body else () for body in sheet.distinct]
        rollouts: list[tuple[str, ...]] = []
        identical: list[int] = []
        first: dict[int, int] = {}
        for number, rollout in enumerate(marked.rollouts):
            body = next((own for at in rollout.at if (own := sheet.owner[at]) is not None), None)
            rollouts.append(() if body is None else bodies[body])
            identical.append(number if body is None else first.setdefault(body, number))
        return cls(
            context=tuple(sheet.context.split("\n")) if sheet.context else (),
            tools=sheet.tools,
            rubric=readable_text(group.rubric or ""),
            rollouts=tuple(rollouts),
            identical=tuple(identical),
        )


def parting(one: Sequence[str], other: Sequence[str]) -> int:
    """How many first lines two rollouts have in common; the length of both if nothing parts them."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def page_key(key: str) -> str:
    """A key as the page and its links hold it: a very long one by its beginning and a digest.

    The figures keep the first 4,000 characters of a key, and must come to the same.
    """
    return key if len(key) <= _KEY else f"{key[:_KEY]}… {digest(key[:4_000]).hex()[:12]}"


def shorter(text: str, room: int) -> str:
    """Text without its middle if it is longer than `room`, with a mark of how much is gone."""
    if len(text) <= room:
        return text
    half = room // 2
    gone = len(text) - 2 * half
    return f"{text[:half]}[… {gone:,} characters left out of this report …]{text[len(text) - half :]}"


def shorter_line(line: str, room: int) -> str:
    """A line that is still `head: JSON`, if it is one; JSON that is cut becomes a string."""
    head, colon, rest = line.partition(": ")
    if len(line) <= room or not colon or len(head) > room:
        return shorter(line, room)
    try:
        value = orjson.loads(rest)
    except ValueError:
        value = rest
    return f"{head}: {orjson.dumps(shorter(value if isinstance(value, str) else rest, room)).decode()}"


def group_json(g: MarkedGroup, text: GroupText) -> dict[str, Any]:
    """One group, its rollouts in input order, with the lines that the judge read of them.

    `same_as` is the place of the first rollout with the same lines.
    """
    told = zip(g.rollouts, text.rollouts, text.identical, strict=True)
    rollouts = [rollout_json(r) | {"lines": list(lines), "same_as": same_as} for r, lines, same_as in told]
    return summary(g) | {"rollouts": rollouts, "context": list(text.context), "tools": text.tools}


def summary(g: MarkedGroup) -> dict[str, Any]:
    """One group without its rollouts' own figures and texts."""
    return {
        "key": g.key,
        "status": g.status,
        "kind": g.kind,
        "reason": g.reason,
        "judge": g.judge,
        "passes": g.passes,
        "scores": [r.score for r in g.rollouts],
        "labels": [r.label for r in g.rollouts],
        "mean": g.mean,
        "sd": g.sd,
        "tied": g.tied,
        "live": g.live,
        "reliability": g.reliability,
        "weight": g.weight,
        "disagreement": g.disagreement,
        "pairs": g.disputes[1],
        "usage": usage_json(g.usage),
        "cost_usd": g.cost,
        "latency_s": g.latency,
        "judged_at": iso(g.judged_at),
        "flags": list(g.flags),
    }


def rollout_json(r: MarkedRollout) -> dict[str, Any]:
    """The mark of one rollout."""
    return {
        "status": r.status,
        "score": r.score,
        "judged": r.judged,
        "label": r.label,
        "explanation": r.explanation,
        "spread": r.spread,
        "slots": list(r.slots),
        "pass_scores": list(r.pass_scores),
        "judges": dict(r.judges),
        "suspect": r.suspect,
        "bytes": r.size,
        "kind": r.kind,
        "reason": r.reason,
    }
