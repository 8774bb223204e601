"""One group → the lines that its judge read, and the JSON of `ruler report --group KEY --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruler_cli.files.scratch import digest
from ruler_cli.formats.annotate import usage_fields
from ruler_cli.formats.chat import first_agent_turn, text_of
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.results.report.bins import iso
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, readable_text

_KEY, _TASK = 300, 160
"""Characters of a key and of a task in a page."""


@dataclass(frozen=True, slots=True)
class GroupText:
    """The whole text of a group, in the lines that a judge reads (see `prompting.render`).

    `context` is common to all rollouts, `tools` one tool a line, `rubric` the group's own, else empty.
    `rollouts` are those of the scored group, without the context; one that cannot be read has no lines.
    `identical[i]` is the first rollout with the text of rollout i: i itself if it is the first. `task` is the
    beginning of the task.
    """

    context: tuple[str, ...]
    tools: str
    rubric: str
    rollouts: tuple[tuple[str, ...], ...]
    identical: tuple[int, ...]
    task: str = ""

    @classmethod
    def of(cls, group: Group, scored_group: ScoredGroup) -> GroupText:
        """Render the text that the judge saw, if nothing was shortened for its context."""
        layout = build_layout(group, AskSettings())
        distinct = [tuple(text.split("\n")) if text else () for text in layout.distinct]
        rollouts: list[tuple[str, ...]] = []
        identical: list[int] = []
        first: dict[int, int] = {}
        for number, rollout in enumerate(scored_group.rollouts):
            owners = (layout.owner[index] for index in rollout.indices)
            owner = next((one for one in owners if one is not None), None)
            rollouts.append(() if owner is None else distinct[owner])
            identical.append(
                number if owner is None else first.setdefault(owner, number)
            )
        return cls(
            task=_task(group),
            context=tuple(layout.context.split("\n")) if layout.context else (),
            tools=layout.tools,
            rubric=readable_text(group.rubric or ""),
            rollouts=tuple(rollouts),
            identical=tuple(identical),
        )


def _task(group: Group) -> str:
    """Return the beginning of the user's last message before the agent's first; empty without one."""
    for rollout in group.rollouts:
        before = (
            rollout.messages[: first_agent_turn(rollout.messages)]
            if rollout.error is None
            else []
        )
        for message in reversed(before):
            if message.get("role") == "user":
                return " ".join(text_of(message)[: 8 * _TASK].split())[:_TASK]
    return ""


def common_lines(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the first lines that two rollouts have in common."""
    pairs = zip(one, other, strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other))
    )


def page_key(key: str) -> str:
    """Shorten a very long key to its beginning and a digest, for the page and its links."""
    return key if len(key) <= _KEY else f"{key[:_KEY]}… {digest(key).hex()[:12]}"


def shorter(text: str, most: int) -> str:
    """Cut the middle out of a text of more than `most` characters, and say how many are gone."""
    if len(text) <= most:
        return text
    half = most // 2
    gone = len(text) - 2 * half
    return f"{text[:half]}[… {gone:,} characters left out of this report …]{text[len(text) - half :]}"


def text_json(
    text: GroupText, group: ScoredGroup, other: ScoredGroup | None = None
) -> dict[str, Any]:
    """Return the texts of a group as JSON, its rollouts in input order, with the lines that the judge read.

    `other` is the same group of another judge. `same_as` is the index of the first rollout with the same
    lines.
    """
    rollouts = [rollout_json(rollout) for rollout in group.rollouts]
    if other is not None:
        pairs = zip(rollouts, map(rollout_json, other.rollouts), strict=True)
        rollouts = [{"a": a, "b": b} for a, b in pairs]
    rows = zip(rollouts, text.rollouts, text.identical, strict=True)
    return {
        "rollouts": [
            one | {"lines": list(lines), "same_as": same_as}
            for one, lines, same_as in rows
        ],
        "context": list(text.context),
        "tools": text.tools,
        "rubric": text.rubric,
    }


def summary(g: ScoredGroup) -> dict[str, Any]:
    """Return one group as JSON, without the annotations and texts of its rollouts."""
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
        "usage": usage_fields(g.usage),
        "cost_usd": g.cost,
        "latency_s": g.latency,
        "judged_at": iso(g.judged_at),
        "flags": list(g.flags),
    }


def rollout_json(r: ScoredRollout) -> dict[str, Any]:
    """Return the annotation of one rollout as JSON."""
    return {
        "status": r.status,
        "score": r.score,
        "judged": r.judge_score,
        "label": r.label,
        "explanation": r.explanation,
        "spread": r.spread,
        "slots": list(r.positions),
        "pass_scores": list(r.pass_scores),
        "judges": dict(r.judges),
        "suspect": r.suspect,
        "bytes": r.size,
        "kind": r.kind,
        "reason": r.reason,
    }
