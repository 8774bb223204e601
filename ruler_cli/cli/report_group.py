"""One group → a page for a person: its figures, and each rollout with its score and as the judge read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ruler_cli.cli.sentences import Fact, given
from ruler_cli.cli.terminal import (
    BAD,
    MUTED,
    TITLE,
    Terminal,
)
from ruler_cli.results.group_text import GroupText, as_read
from ruler_cli.results.highlights import RunGroup
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.types import words_of

_FIGURES = words_of(
    "status kind reason judge size passes live tied mean sd reliability "
    "disagreement pairs cost_usd latency_s"
)
"""Figures of a group that its page has."""


def show(
    shown: RunGroup,
    source: str,
    terminal: Terminal,
) -> None:
    """Write the group of a file, its rollouts the best first."""
    text: GroupText = shown.kept
    group = shown.first
    terminal.show(_rule(f"group {terminal.foreign(group.key)}"))
    place = f"{source}, number {shown.number} in the file"
    facts = [("in", place), ("figures", _figures(group))]
    terminal.show(terminal.facts(facts, figures=BAD if group.failed else ""))
    shared = {
        "rubric": text.rubric.split("\n"),
        "tools": text.tools.split("\n"),
        "shared by all rollouts": text.context,
    }
    for title, lines in shared.items():
        if any(lines):
            terminal.show("", _rule(title))
            _show_lines(lines, terminal)
    shown_as: dict[int, int] = {}
    for i in group.best_first:
        terminal.show("", _rule(f"rollout {i + 1}"))
        terminal.show(terminal.facts(_facts(group.rollouts[i]), note=BAD))
        # the first rollout above with the same text
        same_as = shown_as.setdefault(text.identical[i], i)
        lines = text.rollouts[i]
        if same_as != i:
            lines = [f"(same text as rollout {same_as + 1})"]
        _show_lines(lines, terminal)


def _show_lines(
    lines: Sequence[str],
    terminal: Terminal,
) -> None:
    for line in as_read(lines):
        read = terminal.text(line, lines=True)
        read.overflow = "fold"
        # only ruler's own words begin at the margin
        terminal.show(Padding(read, (0, 0, 0, 2)))


def _rule(title: str) -> Rule:
    """Make a rule with a title at its left end."""
    return Rule(
        Text(title, TITLE),
        align="left",
        style=MUTED,
    )


def _figures(group: GroupRecord) -> str:
    """Write the figures of a group in a line, by their names in JSON; without unknown ones."""
    values = group.as_json()
    words = []
    for name in _FIGURES:
        value = values[name]
        if isinstance(value, float):
            # 0 is a figure too, as that of equal scores
            words.append(f"{name} {value:.3g}")
        elif value:
            words.append(name if value is True else f"{name} {value}")
    return ", ".join([*words, *group.flags])


def _facts(rollout: RolloutRecord) -> Iterator[Fact]:
    """Yield what is known of a rollout, each with a name."""
    yield "score", given(rollout.score, "{:z.2f}")
    yield "reward", given(rollout.label, "{:.4g}")
    notes = [rollout.ended]
    if rollout.suspect:
        notes.append("suspect")
    if rollout.status != "scored":
        notes += [rollout.status, rollout.kind, rollout.reason]
    yield "note", ", ".join(filter(None, notes))
    for name, value in rollout.criterion_values.items():
        yield name, f"{value:z.2f}"
    for judge in rollout.judges:
        score = given(judge["score"], "{:z.2f}")
        yield judge["judge"], f"{score}: {judge['explanation']}"
    # that of a panel is that of one of its judges, unless a veto decided
    if rollout.explanation not in [j["explanation"] for j in rollout.judges]:
        yield "judge", rollout.explanation
