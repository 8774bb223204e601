"""One group → a page for a person: its figures, its rollouts in a table, and each as the judge read it.

A line that a judge read is `role: "JSON string"`, `call NAME: JSON`, `tool NAME: JSON` (see
`prompting.render`), or a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.bar import Bar
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ruler_cli.cli.report_overview import two_columns
from ruler_cli.cli.report_sentences import given, pair_counts
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import count, iso, seconds, short, usd
from ruler_cli.results.report.group_text import GroupText, common_lines
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout

_WIDE = 60
"""Columns of a terminal from which on a score has a bar."""
_HEAD = re.compile(
    r'((?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*")(?: (?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*"))*): '
)
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
    order = group.best_first
    rank = {number: i for i, number in enumerate(order)}
    terminal.show(group_rule(f"group {terminal.key(group.key)}"))
    if other is None:
        terminal.show(_head(group, ("in", origins[0]), terminal))
    else:
        terminal.show(_head(group, ("A", origins[0]), terminal), "")
        terminal.show(_head(other, ("B", origins[1]), terminal))
    if group.rollouts:
        terminal.show("", _table(group, other, order, terminal))
        _show_explanations(group, other, order, terminal)
    _show_shared(text, terminal)
    best = order[0] if order and group.rollouts[order[0]].score is not None else None
    for number in order:
        same = text.identical[number]
        same_as = same if rank[same] < rank[number] else None
        _show_rollout(group.rollouts[number], text, number, best, same_as, terminal)


def group_rule(title: str, style: str = "bold") -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(Text(title, style), align="left", style="dim")


def _head(group: ScoredGroup, origin: tuple[str, str], terminal: Terminal) -> Table:
    key, pairs, usage = terminal.key(group.key), group.pairs, group.usage
    judge = (
        group.judge,
        "" if group.passes is None else count(group.passes, "pass"),
        given(group.reliability, "reliability {:.2f}"),
        given(group.weight, "weight {:.3g}"),
    )
    tokens = f"{usage.prompt} prompt + {usage.completion} completion tokens"
    cost = (
        "" if group.cost is None else usd(group.cost),
        count(usage.calls, "call") if usage.calls else "",
        tokens if usage.prompt or usage.completion else "",
        "" if group.latency is None else seconds(group.latency),
    )
    in_order = (
        f"{pairs.won or 'none'} of {count(pairs.pairs, 'pair')} with different rewards"
    )
    disputes = pair_counts(in_order, pairs.lost, pairs.tied)
    judged_at = iso(group.judged_at)
    rows = (
        ("key", key if len(key) > terminal.width // 2 else ""),
        origin,
        ("status", _status(group)),
        ("judge", ", ".join(filter(None, judge))),
        ("agreement", disputes if pairs.pairs else ""),
        ("of note", ", ".join(group.flags)),
        ("cost", ", ".join(filter(None, cost))),
        ("judged", f"{judged_at[:16].replace('T', ' ')} UTC" if judged_at else ""),
    )
    return two_columns(rows, terminal, status="red" if group.failed else "")


def _status(group: ScoredGroup) -> str:
    if group.failed:
        return (
            f"failed ({group.kind}): {group.reason}"
            if group.reason
            else f"failed ({group.kind})"
        )
    if group.status == "unmarked":
        return "not judged"
    mean, sd = given(group.mean, "{:.2f}"), given(group.sd, "{:.2f}")
    scored = f"scored, mean {mean or '-'}, sd {sd or '-'}"
    return (
        f"{scored}; tied: nothing for a trainer to learn from" if group.tied else scored
    )


def _table(
    group: ScoredGroup,
    other: ScoredGroup | None,
    order: Sequence[int],
    terminal: Terminal,
) -> Table:
    """Make the table of rollouts, without columns that are empty for all of them."""
    bar = terminal.width >= _WIDE and bool(group.scores)
    rollouts = [group.rollouts[i] for i in order]
    others = [other.rollouts[i] for i in order] if other else []
    scores = [r.score for r in rollouts]
    columns = {
        "rank": [
            "" if score is None else str(scores.index(score) + 1) for score in scores
        ],
        "rollout": [str(i + 1) for i in order],
        "A" if other else "score": [given(score, "{:.2f}") for score in scores],
        "B": [given(r.judge_score, "{:.2f}") for r in others],
        "A - B": [_difference(*pair) for pair in zip(rollouts, others, strict=False)],
        "judged": [
            given(r.judge_score if r.judge_score != r.score else None, "{:.2f}")
            for r in rollouts
        ],
        "sd of A" if other else "sd": [given(r.spread, "{:.2f}") for r in rollouts],
        "sd of B": [given(r.spread, "{:.2f}") for r in others],
        "reward": [given(r.label, "{:.4g}") for r in rollouts],
        "position": [given(r.mean_position, "{:.2f}") for r in rollouts],
        "bytes": [short(r.size) for r in rollouts],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    notes = []
    for rollout in rollouts:
        status = {
            "failed": f"failed ({rollout.kind})",
            "unmarked": "no annotation",
        }.get(rollout.status, "")
        notes.append(", ".join(filter(None, ("suspect" * rollout.suspect, status))))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    if bar:
        table.add_column("", no_wrap=True)
    if any(notes):
        table.add_column("of note", overflow="fold")
    for i, score in enumerate(scores):
        cells: list[Text | Bar] = [Text(column[i]) for column in columns.values()]
        if bar:
            cells.append(Bar(1, 0, max(0, score or 0), width=10, color="cyan"))
        table.add_row(*cells, *([terminal.text(notes[i], "red")] if any(notes) else []))
    return table


def _difference(a: ScoredRollout, b: ScoredRollout) -> str:
    if a.judge_score is None or b.judge_score is None:
        return ""
    return f"{a.judge_score - b.judge_score:+.2f}"


def _show_explanations(
    group: ScoredGroup,
    other: ScoredGroup | None,
    order: Sequence[int],
    terminal: Terminal,
) -> None:
    """Show the explanations together, as screens of messages may lie between them below."""
    judges = {"": group} if other is None else {", A": group, ", B": other}
    explanations = [
        (f"rollout {number + 1}{judge}", _explanation(one.rollouts[number]))
        for number in order
        for judge, one in judges.items()
    ]
    if not any(lines for _, lines in explanations):
        return
    table = two_columns((), terminal)
    for name, lines in explanations:
        for i, line in enumerate(lines):
            # foreign lines stay in a column of their own
            table.add_row("" if i else name, terminal.text(line, lines=True))
    terminal.show("", group_rule("explanations"), table)


def _show_shared(text: GroupText, terminal: Terminal) -> None:
    """Show what all rollouts share: the rubric, the tools and the context."""
    if text.rubric:
        terminal.show(
            "", group_rule("rubric"), _indented(terminal.text(text.rubric, lines=True))
        )
    for name, lines in (
        ("tools", text.tools.split("\n") if text.tools else []),
        ("shared by all rollouts", text.context),
    ):
        if lines:
            terminal.show("", group_rule(name))
            _show_lines(lines, terminal)


def _show_rollout(
    rollout: ScoredRollout,
    text: GroupText,
    number: int,
    best: int | None,
    same_as: int | None,
    terminal: Terminal,
) -> None:
    """Show one rollout: its explanation, then its lines, with a rule at the first unlike the best one's.

    `same_as` is one with the same lines that was shown before.
    """
    score = given(rollout.score, "score {:.2f}") + given(rollout.spread, " ± {:.2f}")
    title = (
        f"rollout {number + 1}: {score if rollout.score is not None else 'not scored'}"
    )
    terminal.show(
        "",
        group_rule(terminal.foreign(title + given(rollout.label, ", reward {:.4g}"))),
    )
    lines = text.rollouts[number]
    if not lines:
        terminal.show(Text("(nothing of it can be shown)", "dim"))
        return
    if same_as is not None:
        terminal.show(Text(f"(word for word rollout {same_as + 1})", "bold yellow"))
        return
    if best is None or best == number:
        _show_lines(lines, terminal)
        return
    common = common_lines(text.rollouts[best], lines)
    _show_lines(lines[:common], terminal)
    title = f"differs from rollout {best + 1}, the best, from here on"
    if common == len(lines):
        title = f"here it ends; rollout {best + 1}, the best, goes on"
    terminal.show(group_rule(title, "bold yellow"))
    _show_lines(lines[common:], terminal)


def _explanation(rollout: ScoredRollout) -> list[str]:
    """Return the explanation, the scores of a panel, and the reason of a failure, a line each."""
    lines = [rollout.explanation] if rollout.explanation else []
    if rollout.judges:
        lines.append(
            "judges: "
            + ", ".join(f"{name} {score:.2f}" for name, score in rollout.judges.items())
        )
    if rollout.reason:
        lines.append(f"{rollout.kind}: {rollout.reason}")
    return lines


def _show_lines(lines: Sequence[str], terminal: Terminal) -> None:
    """Show lines as text to read, each below its head, if it has one."""
    for line in lines:
        head, content = _HEAD.match(line), line
        if head:
            title = terminal.text(
                head[1], f"bold {_ROLES.get(head[1].split(' ')[0], '')}"
            )
            terminal.show(
                title if title.cell_len <= terminal.width else _indented(title)
            )
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
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, str):
        return value
    return (
        "\n".join(_fields(value))
        if isinstance(value, dict) and value
        else _compact(value)
    )


def _fields(value: dict[str, Any]) -> Iterator[str]:
    for name, item in value.items():
        # a name may hold a line break, which would look like another field
        title = (
            name
            if name.isprintable() and name
            else json.dumps(name, ensure_ascii=False)
        )
        if isinstance(item, str) and "\n" in item:
            yield f"{title}:"
            yield from (f"  {line}" for line in item.split("\n"))
        else:
            yield f"{title}: {item if isinstance(item, str) else _compact(item)}"


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"
