"""One group → a page for a person: its figures, its rollouts in a table, and each as the judge read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column
from rich.text import Text

from ruler_cli.cli.sentences import given
from ruler_cli.cli.terminal import BAD, MUTED, TITLE, Terminal
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.group_text import GroupText, as_read
from ruler_cli.results.highlights import RunGroup
from ruler_cli.results.record import GroupRecord, RolloutRecord

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(
    shown: RunGroup | ComparedGroup, origins: Sequence[str], terminal: Terminal
) -> None:
    """Write the group, its rollouts the best first.

    `origins` name each file, the first with the group's number in it.
    """
    text: GroupText = shown.kept
    group, second = shown.first, shown.second
    files = {"in": group} if second is None else {"A": group, "B": second}
    order = group.best_first
    terminal.show(_rule(f"group {terminal.key(group.key)}"))
    for (name, scored), origin in zip(files.items(), origins, strict=True):
        rows = [(name, origin), ("figures", _figures(scored))]
        terminal.show(
            terminal.facts(rows, figures=BAD if scored.failed else "")
        )
    if order:
        terminal.show("", _table([*files.values()], order, terminal))
    explanations = []
    for i in order:
        for name, scored in files.items():
            title = f"rollout {i + 1} {name}" if second else f"rollout {i + 1}"
            for line in _explanation(scored.rollouts[i]):
                explanations.append((title, line))
                title = ""
    if explanations:
        terminal.show("", _rule("explanations"), terminal.facts(explanations))
    sections = {
        "rubric": text.rubric.split("\n"),
        "tools": text.tools.split("\n"),
        "shared by all rollouts": text.context,
    }
    for i in order:
        # the first rollout above with the same text
        same_as = next(
            j for j in order if text.identical[j] == text.identical[i]
        )
        lines = text.rollouts[i]
        if same_as != i:
            lines = [f"(same text as rollout {same_as + 1})"]
        sections[f"rollout {i + 1}"] = lines
    for title, lines in sections.items():
        if any(lines):
            terminal.show("", _rule(title))
            for line in as_read(lines):
                read = terminal.text(line, lines=True)
                read.overflow = "fold"
                # only ruler's own words begin at the margin
                terminal.show(Padding(read, (0, 0, 0, 2)))


def _rule(title: str) -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(Text(title, TITLE), align="left", style=MUTED)


def _figures(group: GroupRecord) -> str:
    """Write the figures of a group in a line, by their names in JSON; without unknown ones and lists."""
    values = group.as_json()
    # the flags come last, and the times of a run are in its report
    left_out = (
        "key",
        "flags",
        "judged_at",
        "latency_s",
        "schema",
        "rubric",
        "params",
    )
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
    groups: Sequence[GroupRecord], order: Sequence[int], terminal: Terminal
) -> RenderableType:
    """Make the table of rollouts, with the scores of each file."""
    names = ("A", "B") if len(groups) > 1 else ("score",)
    heads = [
        Column(name, justify="right", no_wrap=True)
        for name in ("rollout", *names, "reward")
    ]
    rows: list[list[RenderableType]] = []
    for i in order:
        rollout = groups[0].rollouts[i]
        notes = {
            "suspect": rollout.suspect,
            rollout.ended: rollout.ended,
            f"failed ({rollout.kind})": rollout.status == "failed",
            "not annotated": rollout.status == "unmarked",
        }
        noted = ", ".join(note for note, holds in notes.items() if holds)
        scores = [given(group.rollouts[i].score, "{:.2f}") for group in groups]
        reward = given(rollout.label, "{:.4g}")
        rows.append([str(i + 1), *scores, reward, terminal.text(noted, BAD)])
    return terminal.table([*heads, Column("of note", overflow="fold")], rows)


def _explanation(rollout: RolloutRecord) -> list[str]:
    """Return the lines of the explanation, or of each judge of a panel, and the reason of a failure."""
    lines = rollout.explanation.split("\n")
    if rollout.explanation in [
        judge["explanation"] for judge in rollout.judges
    ]:
        lines = []
    for judge in rollout.judges:
        words = f"{judge['judge']} {given(judge['score'], '{:.2f}')}"
        lines += f"{words}: {judge['explanation']}".split("\n")
    if rollout.criteria:
        criteria = rollout.criterion_values.items()
        values = [f"{name} {value:.2f}" for name, value in criteria]
        lines.append(f"criteria: {', '.join(values)}")
    if rollout.reason:
        lines.append(f"{rollout.kind}: {rollout.reason}")
    return [line for line in lines if line]
