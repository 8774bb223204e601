"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from typing import Annotated

import typer

from ruler_cli.cli.messages import report_errors
from ruler_cli.cli.options import AsJson, Labels, Scored, ScoreOptions, with_options
from ruler_cli.cli.settings import scored_input
from ruler_cli.errors import UsageError


@with_options("labels group_by messages prompt grouping format_ as_json")
def command(
    source: Scored,
    options: ScoreOptions,
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCORED2]", help="The same input scored by another judge.", show_default=False
        ),
    ] = None,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well scores agree with labels, or compare two judges on the same rollouts.

    Intervals are bootstrapped over groups. Judges that chance may have put in order are not ranked.

    Example: ruler agree scored.jsonl --labels metadata.passed

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or stand in one
    file only; 2 bad usage, unreadable input, or nothing to compare.
    """
    with report_errors():
        if source == second == "-":
            raise UsageError("SCORED and SCORED2: only one of them can be stdin; give a file for the other")
        where = [scored_input(options, one, labels) for one in (source, second) if one is not None]
        from ruler_cli.cli.agree_page import agree

        fine = agree(where, as_json=as_json)
        raise typer.Exit(0 if fine else 1)
