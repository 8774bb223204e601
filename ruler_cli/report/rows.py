"""A group → its row of the table, its explanations, and its text, as the JSON that the page reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ruler_cli.formats.chat import first_turn
from ruler_cli.index import digest
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Group
from ruler_cli.report.blocks import as_json, packed
from ruler_cli.report.cut import shortened, shorter
from ruler_cli.report.slots import stretches
from ruler_cli.report.texts import GroupText, group_text

MOST_TEXT = 16 << 20
"""Bytes of JSON of one group's text; more of it cannot be looked at in a browser."""
MOST_BLOCK = 2 << 20
"""Bytes that the text of one group takes in the file."""
_LEAST_TEXT = 1 << 12
_KEY, _TASK, _WORDS, _SAID = 300, 160, 500, 4_000
"""Characters of a key, of a task, of a reason or a judge's name, and of an explanation in the table."""

COLUMNS = (
    *("key", "task", "status", "kind", "reason", "judge", "passes"),
    *("scores", "labels", "bytes", "places", "slots", "spreads"),
    *("mean", "sd", "reliability", "weight", "tied", "live", "disagreement"),
    *("cost", "tokens", "latency", "at", "ordinal", "flags"),
)
"""What a row says, in this order."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One group as it stands in the page.

    `row` are its values of COLUMNS, JSON, a line each; `said` its explanations as JSON; `text` its
    block, None where even the least of it is too large; `cut`: the block does not hold all of the text.
    """

    row: bytes
    said: bytes
    text: bytes | None
    cut: bool


def leaf(ordinal: int, group: Group, marked: MarkedGroup, *, text: bool = True) -> Leaf:
    """The group, which is the `ordinal`th of its file, from 1; `text`: whether its text is wanted."""
    row = b"\n".join(map(as_json, _row(ordinal, group, marked)))
    said = as_json([shorter(r.explanation, _SAID) or None for r in marked.rollouts])
    block, cut = text_block(group_text(group, marked), marked) if text else (None, False)
    return Leaf(row, said, block, cut)


def text_block(text: GroupText, marked: MarkedGroup) -> tuple[bytes | None, bool]:
    """The text as a block, and whether something had to be left out of it."""
    body = as_json(text_json(text, marked))
    block = packed([body]) if len(body) <= MOST_TEXT else None
    if block is not None and len(block) <= MOST_BLOCK:
        return block, False
    room = MOST_TEXT if block is None else len(body) * MOST_BLOCK // len(block)
    while (room := room * 7 // 8) >= _LEAST_TEXT:
        share = max(200, room // 8 // max(1, len(marked.rollouts)))
        body = as_json(text_json(shortened(text, room), marked, share))
        block = packed([body]) if len(body) <= MOST_TEXT else None
        if block is not None and len(block) <= MOST_BLOCK:
            return block, True
        room //= 2
    return None, True


def text_json(text: GroupText, marked: MarkedGroup, most: int | None = None) -> dict[str, Any]:
    """The text and what was said of it; explanations and reasons of at most `most` characters."""
    strings: dict[str, int] = {}

    def words(said: str) -> str:
        return said if most is None else shorter(said, most)

    def lines(number: int) -> list[int]:
        return [strings.setdefault(line, len(strings)) for line in text.rollouts[number]]

    rollouts = [
        {
            "lines": lines(number),
            "said": words(rollout.explanation),
            "why": words(rollout.reason),
            "score": rollout.score,
            "judged": rollout.judged,
            "label": rollout.label,
            "spread": rollout.spread,
            "slots": rollout.slots,
            "passes": rollout.pass_scores,
            "judges": rollout.judges,
            "suspect": rollout.suspect,
        }
        for number, rollout in enumerate(marked.rollouts)
    ]
    return {
        "key": page_key(marked.key),
        "context": text.context,
        "tools": text.tools,
        "rubric": text.rubric,
        "strings": list(strings),
        "rollouts": rollouts,
        "identical": text.identical,
        "cut": most is not None,
    }


def _row(ordinal: int, group: Group, marked: MarkedGroup) -> list[Any]:
    rollouts = marked.rollouts
    return [
        page_key(marked.key),
        task(group),
        marked.status,
        marked.kind,
        few_words(marked.reason),
        few_words(marked.judge),
        marked.passes,
        [r.score for r in rollouts],
        [r.label for r in rollouts],
        [r.size for r in rollouts],
        [_decimals(r.place) for r in rollouts],
        stretches(marked),
        [r.spread for r in rollouts],
        _decimals(marked.mean),
        _decimals(marked.sd),
        marked.reliability,
        marked.weight,
        marked.tied,
        marked.live,
        marked.disagreement,
        marked.cost,
        marked.usage.prompt + marked.usage.completion,
        marked.latency,
        marked.judged_at,
        ordinal,
        marked.flags,
    ]


def task(group: Group) -> str:
    """The beginning of what the agent was asked last, before its first turn; nothing where nobody asked."""
    for rollout in group.rollouts:
        before = rollout.messages[: first_turn(rollout.messages)] if rollout.fault is None else []
        for message in reversed(before):
            if message.get("role") == "user":
                return " ".join(_said(message.get("content"))[: 8 * _TASK].split())[:_TASK]
    return ""


def _said(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return " ".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def page_key(key: str) -> str:
    """A key as the page and its links hold it: a very long one by its beginning and a digest.

    The figures keep the first 4,000 characters of a key, and must come to the same.
    """
    return key if len(key) <= _KEY else f"{key[:_KEY]}… {digest(key[:4_000]).hex()[:12]}"


def few_words(text: str) -> str:
    """A reason or a name, not longer than a table can hold."""
    return shorter(text, _WORDS)


def _decimals(value: float | None) -> float | None:
    """Without the noise of the last digits, which does not compress."""
    return None if value is None else round(value, 9)
