"""One group → a page for a person: its figures, its rollouts in a table, and each as the judge read it.

A line that a judge read is `role: "JSON string"`, `call NAME: JSON`, `tool NAME: JSON` (see
`prompting.render`), or a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from textwrap import indent
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column
from rich.text import Text

from ruler_cli.cli.report_sentences import FAST, given, minute
from ruler_cli.cli.tables import BAD, MUTED, NOTE, TITLE, facts, table
from ruler_cli.cli.units import short
from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.group_text import GroupText

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruler_cli.cli.terminal import Terminal

_NOBODY = ScoredRollout((), "unmarked")
"""A rollout that no second judge scored."""
_NAME = r'(?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*")'
_HEAD = re.compile(f"({_NAME}(?: {_NAME})*): ")
_INDENT = 2
_AT_ONCE = 2000
"""Lines of a text laid out at once, so that a long one shows as it comes."""
_ROLES = {
    "user": "blue",
    "assistant": "green",
    "call": "magenta",
    "tool": "cyan",
    "system": "yellow",
}


def show(
    text: GroupText,
    origins: Sequence[str],
    terminal: Terminal,
    group: ScoredGroup,
    other: ScoredGroup | None = None,
) -> None:
    """Write the group, its rollouts the best first; `other` is the same group of another judge.

    `origins` name each file, the first with the group's number in it.
    """
    files = {"": group} if other is None else {"A": group, "B": other}
    order = group.best_first
    key = terminal.key(group.key)
    terminal.show(_rule(f"group {key}"))
    if len(key) > terminal.width // 2:  # the rule may hold only its beginning
        terminal.show(_indented(Text(key)))
    for (name, one), origin in zip(files.items(), origins, strict=True):
        rows = [(name or "in", origin), ("figures", _figures(one))]
        terminal.show(facts(rows, terminal, figures=BAD if one.failed else ""))
    if order:
        terminal.show("", _table(group, other, order, terminal))
    # together, as screens of messages may lie between them below
    explanations = [
        # foreign lines stay in a column of their own
        (
            "" if n else f"rollout {i + 1} {name}".strip(),
            terminal.text(line, lines=True),
        )
        for i in order
        for name, one in files.items()
        for n, line in enumerate(_explanation(one.rollouts[i]))
    ]
    if explanations:
        heads = Column(style=MUTED, no_wrap=True), Column(overflow="fold")
        terminal.show("", _rule("explanations"), table(heads, explanations, terminal))
    if text.rubric:
        rubric = _indented(terminal.text(text.rubric, lines=True))
        terminal.show("", _rule("rubric"), rubric)
    tools = text.tools.split("\n") if text.tools else ()
    for title, shared in (("tools", tools), ("shared by all rollouts", text.context)):
        if shared:
            terminal.show("", _rule(title))
            _show_lines(shared, terminal)
    _show_rollouts(group, text, order, terminal)


def _rule(title: str, style: str = TITLE) -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(Text(title, style), align="left", style=MUTED)


def _figures(group: ScoredGroup) -> str:
    """Write the figures of a group in a line, by their names in JSON; without unknown ones and lists."""
    values = group.as_json()
    values |= values.pop("usage") | {"key": None, "flags": None}
    if (group.latency_s or 0) < FAST:
        del values["latency_s"]
    if values["judged_at"]:
        values["judged_at"] = f"{minute(values['judged_at'])} UTC"
    words = []
    for name, value in values.items():
        known = f"{value:.3g}" if isinstance(value, float) else value
        if known and not isinstance(value, list):
            words.append(name if value is True else f"{name} {known}")
    return ", ".join([*words, *group.flags])


def _table(
    group: ScoredGroup,
    other: ScoredGroup | None,
    order: Sequence[int],
    terminal: Terminal,
) -> RenderableType:
    """Make the table of rollouts, without columns that are empty for all of them."""
    scores = [group.rollouts[i].score for i in order]
    others = other.rollouts if other else [_NOBODY] * len(order)
    rows: list[dict[str, RenderableType]] = []
    for i, score in zip(order, scores, strict=True):
        a, b = group.rollouts[i], others[i]
        both = score is not None and b.score is not None
        rows.append(
            {
                "rank": "" if score is None else str(scores.index(score) + 1),
                "rollout": str(i + 1),
                "A" if other else "score": _decimals(score),
                "B": _decimals(b.score),
                "A - B": f"{(score or 0) - (b.score or 0):+.2f}" if both else "",
                "judged": _decimals(None if a.judge_score == score else a.judge_score),
                "sd": _decimals(a.spread),
                "sd of B": _decimals(b.spread),
                "reward": given(a.label, "{:.4g}"),
                "position": _decimals(a.mean_position),
                "bytes": short(a.size),
                "of note": terminal.text(_note(a), BAD),
            }
        )
    heads = [Column(name, justify="right", no_wrap=True) for name in rows[0]]
    heads[-1] = Column("of note", overflow="fold")
    return table(heads, [list(row.values()) for row in rows], terminal)


def _decimals(number: float | None) -> str:
    return given(number, "{:.2f}")


def _note(rollout: ScoredRollout) -> str:
    states = {"failed": f"failed ({rollout.kind})", "unmarked": "not annotated"}
    notes = ("suspect" if rollout.suspect else "", states.get(rollout.status, ""))
    return ", ".join(filter(None, notes))


def _explanation(rollout: ScoredRollout) -> list[str]:
    """Return the explanation, the scores of a panel, and the reason of a failure, a line each."""
    judges = [f"{name} {score:.2f}" for name, score in rollout.judges.items()]
    lines = (
        rollout.explanation,
        f"judges: {', '.join(judges)}" if judges else "",
        f"{rollout.kind}: {rollout.reason}" if rollout.reason else "",
    )
    return [line for line in lines if line]


def _show_rollouts(
    group: ScoredGroup, text: GroupText, order: Sequence[int], terminal: Terminal
) -> None:
    """Show the lines of each rollout, with a rule at the first unlike the best one's."""
    best: int | None = None
    shown = dict[int, int]()
    for i in order:
        rollout, lines = group.rollouts[i], text.rollouts[i]
        score = "not scored"
        if rollout.score is not None:
            score = f"score {rollout.score:.2f}{given(rollout.spread, ' ± {:.2f}')}"
            best = i if best is None else best
        title = f"rollout {i + 1}: {score}{given(rollout.label, ', reward {:.4g}')}"
        terminal.show("", _rule(terminal.foreign(title)))
        same_as = shown.setdefault(text.identical[i], i)
        if not lines:
            terminal.show(Text("(no text to show)", MUTED))
        elif same_as != i:
            terminal.show(Text(f"(same text as rollout {same_as + 1})", TITLE))
        elif best is None or best == i:
            _show_lines(lines, terminal)
        else:
            same = map(eq, text.rollouts[best], lines)
            common = sum(takewhile(bool, same))
            _show_lines(lines[:common], terminal)
            here = (
                "ends here; {} continues"
                if common == len(lines)
                else "differs from {} from here"
            )
            terminal.show(_rule(here.format(f"rollout {best + 1} (the best)"), NOTE))
            _show_lines(lines[common:], terminal)


def _show_lines(lines: Sequence[str], terminal: Terminal) -> None:
    """Show lines as text to read, each below its head, if it has one."""
    for line in lines:
        head, content = _HEAD.match(line), line
        if head:
            role = head[1].split(" ")[0]
            title = terminal.text(head[1], f"bold {_ROLES.get(role, '')}")
            fits = title.cell_len <= terminal.width
            terminal.show(title if fits else _indented(title))
            content = line[head.end() :]
        if head or line[:1] == "{":
            content = _readable(content)
        texts = content.split("\n")
        for start in range(0, len(texts), _AT_ONCE):
            part = "\n".join(texts[start : start + _AT_ONCE])
            terminal.show(_indented(terminal.text(part, lines=True)))


def _indented(text: Text) -> Padding:
    """Indent foreign text: only ruler's own words begin at the margin."""
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, _INDENT))


def _readable(text: str) -> str:
    """Write JSON for a person: a text as it is, an object as a line for each field."""
    try:
        value = json.loads(text)
        if isinstance(value, dict) and value:
            return "\n".join(_field(name, _plain(item)) for name, item in value.items())
        return _plain(value)
    except (ValueError, RecursionError):
        return text


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _field(name: str, text: str) -> str:
    # a name may hold a line break, which would look like another field
    title = name if name.isprintable() and name else _plain([name])
    return f"{title}:\n{indent(text, '  ')}" if "\n" in text else f"{title}: {text}"
