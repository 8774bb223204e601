"""One group → a page for a person: its figures, its rollouts in a table, and each as the judge read it.

A line that a judge read is `role: "JSON string"`, `call NAME: JSON`, `tool NAME: JSON` (see
`prompting.render`), or a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column
from rich.text import Text

from ruler_cli.cli.sentences import given
from ruler_cli.cli.terminal import BAD, MUTED, TITLE, Terminal
from ruler_cli.cli.units import shorten
from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.group_text import GroupText, as_read
from ruler_cli.results.highlights import RunGroup

if TYPE_CHECKING:
    from rich.console import RenderableType


_NAME = r'(?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*")'
_HEAD = re.compile(f"({_NAME}(?: {_NAME})*): ")


def show(
    shown: RunGroup | ComparedGroup, origins: Sequence[str], terminal: Terminal
) -> None:
    """Write the group, its rollouts the best first.

    `origins` name each file, the first with the group's number in it.
    """
    text: GroupText = shown.kept
    group, other = shown.one, shown.other
    files = {"in": group} if other is None else {"A": group, "B": other}
    order = group.best_first
    terminal.show(_rule(f"group {terminal.key(group.key)}"))
    for (name, one), origin in zip(files.items(), origins, strict=True):
        rows = [(name, origin), ("figures", _figures(one))]
        terminal.show(terminal.facts(rows, figures=BAD if one.failed else ""))
    if order:
        terminal.show("", _table(group, other, order, terminal))
    # together, as screens of messages may lie between them below
    explanations: list[tuple[str, str]] = []
    for i in order:
        for name, one in files.items():
            title = f"rollout {i + 1} {name}" if other else f"rollout {i + 1}"
            for line in _explanation(one.rollouts[i]):
                explanations.append((title, line))
                title = ""
    if explanations:
        terminal.show("", _rule("explanations"), terminal.facts(explanations))
    sections = {
        "rubric": text.rubric.split("\n"),
        "tools": text.tools.split("\n"),
        "shared by all rollouts": text.context,
    }
    for title, lines in sections.items():
        if any(lines):
            terminal.show("", _rule(title))
            _show_lines(lines, terminal)
    _show_rollouts(text, order, terminal)


def _rule(title: str) -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(Text(title, TITLE), align="left", style=MUTED)


def _figures(group: ScoredGroup) -> str:
    """Write the figures of a group in a line, by their names in JSON; without unknown ones and lists."""
    values = group.as_json()
    # the flags come last, and the times of a run are in its report
    left_out = ("key", "flags", "judged_at", "latency_s")
    values |= values.pop("usage") | dict.fromkeys(left_out)
    words = []
    for name, value in values.items():
        if isinstance(value, float):
            # 0 is a figure too, as that of equal scores
            words.append(f"{name} {value:.3g}")
        elif value and not isinstance(value, list):
            words.append(name if value is True else f"{name} {value}")
    return ", ".join([*words, *group.flags])


def _table(
    group: ScoredGroup,
    other: ScoredGroup | None,
    order: Sequence[int],
    terminal: Terminal,
) -> RenderableType:
    """Make the table of rollouts, without columns that are empty for all of them."""
    scores = [group.rollouts[i].score for i in order]
    names = ("A", "B") if other else ("score", "")
    heads = [
        Column(name, justify="right", no_wrap=True)
        for name in ("rank", "rollout", *names, "reward")
    ]
    rows: list[list[RenderableType]] = []
    for i, score in zip(order, scores, strict=True):
        rollout = group.rollouts[i]
        notes = {
            "suspect": rollout.suspect,
            rollout.ended: rollout.ended,
            f"failed ({rollout.kind})": rollout.status == "failed",
            "not annotated": rollout.status == "unmarked",
        }
        noted = ", ".join(note for note, holds in notes.items() if holds)
        rows.append(
            [
                "" if score is None else str(scores.index(score) + 1),
                str(i + 1),
                given(score, "{:.2f}"),
                given(other.rollouts[i].score, "{:.2f}") if other else "",
                given(rollout.label, "{:.4g}"),
                terminal.text(noted, BAD),
            ]
        )
    return terminal.table([*heads, Column("of note", overflow="fold")], rows)


def _explanation(rollout: ScoredRollout) -> list[str]:
    """Return the lines of the explanation, or of each judge of a panel, and the reason of a failure."""
    lines = rollout.explanation.split("\n")
    if rollout.explanations:
        if rollout.explanation in rollout.explanations.values():
            lines = []
        for name, score in rollout.judges.items():
            said = rollout.explanations.get(name, "no explanation")
            lines += f"{name} {score:.2f}: {said}".split("\n")
    elif rollout.judges:
        judges = [f"{name} {score:.2f}" for name, score in rollout.judges.items()]
        lines.append(f"judges: {', '.join(judges)}")
    if rollout.criteria:
        values = [f"{one.name} {one.value:.2f}" for one in rollout.criteria]
        lines.append(f"criteria: {', '.join(values)}")
    if rollout.reason:
        lines.append(f"{rollout.kind}: {rollout.reason}")
    return [line for line in lines if line]


def _show_rollouts(text: GroupText, order: Sequence[int], terminal: Terminal) -> None:
    """Show the lines of each rollout, or which one above has the same."""
    shown = dict[int, int]()
    for i in order:
        terminal.show("", _rule(f"rollout {i + 1}"))
        same_as = shown.setdefault(text.identical[i], i)
        if same_as != i:
            terminal.show(Text(f"(same text as rollout {same_as + 1})", TITLE))
        else:
            _show_lines(text.rollouts[i], terminal)


def _show_lines(lines: Sequence[str], terminal: Terminal) -> None:
    """Show lines as text to read, each below its head, if it has one."""
    for line in as_read(lines):
        head = _HEAD.match(line)
        content = line
        if head:
            name = shorten(head[1], terminal.width // 2)
            terminal.show(terminal.text(name, TITLE))
            content = line[head.end() :]
        if head or line[:1] == "{":
            content = _readable(content)
        text = terminal.text(content, lines=True)
        text.overflow = "fold"
        # only ruler's own words begin at the margin
        terminal.show(Padding(text, (0, 0, 0, 2)))


def _readable(text: str) -> str:
    """Write JSON for a person: a text as it is, an object as a line for each field."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or not value:
            return _plain(value)
        # a name in JSON and an indent: no line break looks like another field
        fields = [
            f"{json.dumps(name, ensure_ascii=False)}: {_plain(item)}".replace(
                "\n", "\n  "
            )
            for name, item in value.items()
        ]
        return "\n".join(fields)
    except (ValueError, RecursionError):
        return text


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
