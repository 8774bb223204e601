"""`ruler compare A B`: two scored files of the same input side by side."""

from __future__ import annotations

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import (
    PAGE_OPTIONS,
    RECORD_SETTINGS,
    OtherScored,
    Scored,
    takes,
)
from ruler_cli.cli.report import (
    refuse_page_options,
    show_figures,
    shown,
    write_page,
)


@takes(*PAGE_OPTIONS, settings=RECORD_SETTINGS)
def command(
    ctx: typer.Context,
    source: Scored,
    second: OtherScored,
) -> int:
    """Compare two scored files of the same input, group by group.

    \b
    Example:
      ruler compare scored.jsonl other.jsonl
      ruler compare scored.jsonl other.jsonl -o compare.html

    Exit codes: 0 done; 1 some lines could not be read, or some groups are in one file only; 2 bad usage,
    unreadable input, no annotations of ruler, or nothing in common.
    """
    with running(ctx, source, second) as options:
        refuse_page_options(options)
        show = show_figures if options.page is None else write_page
        return shown(show, options, [source, second])
