"""One group → a page for a person: its figures, its rollouts in a table, and each as the judge read it.

A line that a judge read is `role: "JSON string"`, `call NAME: JSON`, `tool NAME: JSON` (see
`prompting.render`), or a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import takewhile
from textwrap import indent
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column
from rich.text import Text

from ruler_cli.cli.sentences import given
from ruler_cli.cli.terminal import BAD, MUTED, NOTE, TITLE, Terminal
from ruler_cli.cli.units import short, shorten
from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.group_text import GroupText, as_read
from ruler_cli.results.highlights import RunGroup

if TYPE_CHECKING:
    from rich.console import RenderableType


_NOBODY = ScoredRollout((), "unmarked")
"""A rollout that no second judge scored."""
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


def _rule(title: str, style: str = TITLE) -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(Text(title, style), align="left", style=MUTED)


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
    rows: list[dict[str, RenderableType]] = []
    for i, score in zip(order, scores, strict=True):
        a = group.rollouts[i]
        b = other.rollouts[i] if other else _NOBODY
        apart = None if score is None or b.score is None else score - b.score
        notes = {
            "suspect": a.suspect,
            a.ended: a.ended,
            f"failed ({a.kind})": a.status == "failed",
            "not annotated": a.status == "unmarked",
        }
        noted = ", ".join(note for note, holds in notes.items() if holds)
        rows.append(
            {
                "rank": "" if score is None else str(scores.index(score) + 1),
                "rollout": str(i + 1),
                "A" if other else "score": given(score, "{:.2f}"),
                "B": given(b.score, "{:.2f}"),
                "A - B": given(apart, "{:+.2f}"),
                "judged": given(a.judge_score, "{:.2f}") * (a.judge_score != score),
                "sd": given(a.spread, "{:.2f}"),
                "sd of B": given(b.spread, "{:.2f}"),
                "reward": given(a.label, "{:.4g}"),
                "position": given(a.mean_position, "{:.2f}"),
                "bytes": short(a.size),
                "of note": terminal.text(noted, BAD),
            }
        )
    heads = [Column(name, justify="right", no_wrap=True) for name in rows[0]]
    heads[-1] = Column("of note", overflow="fold")
    cells = [list(row.values()) for row in rows]
    return terminal.table(heads, cells)


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
    """Show the lines of each rollout, with a rule at the first unlike the best one's."""
    shown = dict[int, int]()
    for i in order:
        lines = text.rollouts[i]
        terminal.show("", _rule(f"rollout {i + 1}"))
        same_as = shown.setdefault(text.identical[i], i)
        if same_as != i:
            terminal.show(Text(f"(same text as rollout {same_as + 1})", TITLE))
            continue
        common = 0
        if i != order[0]:
            pairs = zip(text.rollouts[order[0]], lines, strict=False)
            common = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
            _show_lines(lines[:common], terminal)
            here = f"differs from rollout {order[0] + 1} from here"
            terminal.show(_rule(here, NOTE))
        _show_lines(lines[common:], terminal)


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
        terminal.show(_indented(terminal.text(content, lines=True)))


def _indented(text: Text) -> Padding:
    """Indent foreign text: only ruler's own words begin at the margin."""
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, 2))


def _readable(text: str) -> str:
    """Write JSON for a person: a text as it is, an object as a line for each field."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or not value:
            return _plain(value)
        fields = [_field(name, _plain(item)) for name, item in value.items()]
        return "\n".join(fields)
    except (ValueError, RecursionError):
        return text


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _field(name: str, text: str) -> str:
    # a name may hold a line break, which would look like another field
    title = name if name.isprintable() and name else _plain([name])
    if "\n" in text:
        return f"{title}:\n{indent(text, '  ')}"
    return f"{title}: {text}"
