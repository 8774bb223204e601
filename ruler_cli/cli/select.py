"""`ruler select SCORED OUTPUT`: keep groups and rollouts by their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ruler_cli.cli.messages import report_errors
from ruler_cli.cli.options import Labels, Scored, ScoreOptions, with_options
from ruler_cli.cli.progress import Console, group_counter
from ruler_cli.cli.settings import scored_input
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location

if TYPE_CHECKING:
    from ruler_cli.reading.input import Input
    from ruler_cli.results.select import Keep, SelectionCounts


def _complete(incomplete: str) -> list[str]:
    """Complete the name of a condition, for the shell."""
    from ruler_cli.results.conditions import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


@with_options("where keep by answer labels group_by messages prompt grouping format_")
def command(
    source: Scored,
    output: Annotated[
        str,
        typer.Argument(metavar="OUTPUT", help="A file as SCORED is, or SCORED itself; `-` is stdout."),
    ],
    options: ScoreOptions,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=LOW..HIGH]",
            envvar="RULER_WHERE",
            autocompletion=_complete,
            help="Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or "
            "disagreement with labels lies in a range; rollouts whose score does. Both ends belong to it, "
            "and either may be left out. Repeatable: all must hold.",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="M", min=1, envvar="RULER_KEEP", help="Of each group at most M rollouts, by --by."
        ),
    ] = None,
    by: Annotated[
        Literal["variance", "score", "majority"] | None,
        typer.Option(
            envvar="RULER_BY",
            help="Those whose scores have the greatest variance, the best, or the best of the majority.",
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", envvar="RULER_ANSWER", help="Dotted path of a rollout's answer, for the majority."
        ),
    ] = None,
    labels: Labels = None,
) -> None:
    """Keep groups and rollouts of a scored file by their scores.

    Kept bytes are unchanged. Groups come first: a group without a figure is in none of its ranges, and
    `disagreement` without a range means that the judge orders some pair of rollouts against their labels.
    Rollouts without a score are never kept by --keep. null and empty text are no answers.

    \b
    Example:
      ruler select scored.jsonl train.jsonl --where live --where reliability=0.7..
      ruler select scored.jsonl sharp.jsonl --keep 4 --by variance
      ruler select scored.jsonl best.jsonl --keep 1 --by majority --answer metadata.answer
      ruler select scored.jsonl - --where disagreement=0.5.. | ruler report -

    Exit codes: 0 written, also when nothing is left; 1 written, but some lines could not be read; 2 bad
    usage, unreadable input, no group with the figure of a condition, or nothing left of SCORED in its place.
    """
    with report_errors(), unwind_on_signal():
        from ruler_cli.results.conditions import parse_condition
        from ruler_cli.results.select import select

        conditions = list(map(parse_condition, where or ()))
        rule = _keep(keep, by, answer)
        if not conditions and rule is None:
            raise UsageError(
                "say what to keep: --where live for groups to learn from, --keep 4 --by variance for some "
                "rollouts of each; `ruler select --help` lists all"
            )
        settings = scored_input(options, source, labels)
        console = Console("log", Location(source).shown)

        def describe(opened: Input) -> None:
            for sentence in (opened.found(), *opened.notes):
                console.note(sentence)

        with group_counter() as tick:
            counts = select(
                settings,
                output,
                conditions,
                rule,
                on_open=describe,
                on_problem=console.problem,
                on_group=tick,
            )
        console.close()
        console.note(_summary(counts))
        if not counts.kept_groups and counts.have["score"] and any(one.about_rollouts for one in conditions):
            console.note(f"scores lie from {counts.least:.3g} to {counts.most:.3g}")
        raise typer.Exit(1 if counts.unreadable else 0)


def _keep(
    most: int | None, by: Literal["variance", "score", "majority"] | None, answer: str | None
) -> Keep | None:
    """Check --keep, --by and --answer together; UsageError with the way out."""
    from ruler_cli.results.select import Keep

    if most is None and by is not None:
        raise UsageError(f"--by {by}: say how many rollouts of each group, with --keep M")
    if most is not None and by is None:
        raise UsageError(f"--keep {most}: say which, with --by score, --by variance or --by majority")
    if by == "majority" and answer is None:
        raise UsageError("--by majority: say where a rollout's answer stands, with --answer PATH")
    if answer is not None and by != "majority":
        raise UsageError(f"--answer {answer}: is for --keep M --by majority")
    if most == 1 and by == "variance":
        raise UsageError("--keep 1 --by variance: one score has no variance; keep 2 or more")
    return None if most is None or by is None else Keep(most, by, answer)


def _summary(counts: SelectionCounts) -> str:
    groups = f"{counts.kept_groups} of {count(counts.groups, 'group')}"
    rollouts = f"{counts.kept_rollouts} of {count(counts.rollouts, 'rollout')}"
    left = ((counts.unscored, "without a score left out"), (counts.unanswered, "without an answer left out"))
    out = [f"{groups}, {rollouts} kept", *(f"{count(n, 'group')} {what}" for n, what in left if n)]
    if counts.unreadable:
        out.append(f"{count(counts.unreadable, 'line')} not readable")
    return "; ".join(out)
