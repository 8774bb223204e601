"""`ruler select SCORED OUTPUT`: keep groups and rollouts by their scores, or make data for training of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import RECORD_OPTIONS, RECORD_SETTINGS, Scored, takes
from ruler_cli.cli.progress import Console, group_counter
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.units import count, in_words, lines
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.options import COMMAND_LINE, Options

if TYPE_CHECKING:
    from ruler_cli.results.choice import Keep
    from ruler_cli.runs.input import Input

_LEFT_OUT = """
{unscored:group} without a score left out
{unreadable:line} not readable
"""


@takes(
    "where",
    "keep",
    "by",
    "as_",
    "gap",
    "labels",
    "force",
    *RECORD_OPTIONS,
    settings=RECORD_SETTINGS,
)
def command(
    ctx: typer.Context,
    source: Scored,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="JSON lines; a list as .json, a table as .parquet; `-` is stdout.",
        ),
    ],
) -> int:
    """Keep groups and rollouts of a scored file by their scores.

    Kept bytes are unchanged. Conditions come before --keep. A group that lacks a figure is in no range of it, and
    `disagreement` without a range means that the judge orders some pair of rollouts against their labels.
    Rollouts without a score are never kept by --keep.

    \b
    Example:
      ruler select scored.jsonl train.jsonl --where live --where reliability=0.7..
      ruler select scored.jsonl sharp.jsonl --keep 4 --by variance
      ruler select scored.jsonl - --where disagreement=0.5.. | ruler report -
      ruler select scored.jsonl pairs.jsonl --as pairs --gap 0.2

    Exit codes: 0 written, even if nothing is left; 1 written, but some lines could not be read; 2 bad usage,
    unreadable input, no group with the figure of a condition, or nothing left of SCORED in its place.
    """
    with running(ctx, source, output) as options:
        return _run(options, source, output)


def _run(options: Options, source: str, output: str) -> int:
    from ruler_cli.results.choice import Choice
    from ruler_cli.results.conditions import parse_condition
    from ruler_cli.results.pairs import PairMaker
    from ruler_cli.results.select import select
    from ruler_cli.runs.input import open_input, refuse_other_groups

    if options.as_ is None and options.rank("gap") == COMMAND_LINE:
        remedy = "add --as pairs, or leave it out"
        raise UsageError("is for pairs", remedy, place="--gap")
    conditions = list(map(parse_condition, options.where))
    choice = Choice(conditions, _keep(options))
    if choice == Choice([]) and options.as_ is None:
        raise UsageError(
            "say what to keep, e.g. --where live, or --keep 4 --by variance"
        )
    console = Console("log", source)

    def opened(*how: Any) -> Input:
        scored = open_input(*how)
        for sentence in (scored.brief(), *scored.notes):
            console.note(sentence)
        refuse_other_groups(scored, output, force=options.force)
        return scored

    settings = replace(scored_input(options, source), reference=None)
    pairs = None
    if options.as_ == "pairs":
        table = Location(output).unpacked.endswith(".parquet")
        pairs = PairMaker(options.gap, table=table)
    with group_counter() as bar, unwind_on_signal():
        selector = select(
            settings,
            output,
            opened,
            choice,
            pairs,
            force=options.force,
            on_problem=console.problem,
            on_group=bar.update,
        )
    console.close()
    counts = selector.counts
    groups = count(counts["groups"], "group")
    rollouts = count(counts["rollouts"], "rollout")
    parts = [
        f"{counts['kept groups']:,} of {groups}, {counts['kept rollouts']:,} of {rollouts} kept"
    ]
    if pairs is not None:
        figures = {
            "pairs written": f"{pairs.pairs:,}, from {groups}",
            "groups without a pair": in_words(pairs.no_pair),
            "rollouts that cannot be written": in_words(pairs.left_out),
        }
        parts = [f"{name}: {text}" for name, text in figures.items() if text]
    console.note("; ".join([*parts, *lines(_LEFT_OUT, counts)]))
    return 1 if counts["unreadable"] else 0


def _keep(options: Options) -> Keep | None:
    """Check --keep and --by together; UsageError with the way out."""
    from ruler_cli.results.choice import Keep

    most = options.keep
    if most is None:
        if options.by:
            raise UsageError("needs --keep M", place=f"--by {options.by}")
        return None
    if most == 1 and options.by == "variance":
        raise UsageError("one score has no variance", place="--keep 1")
    return Keep(most, options.by or "score")
