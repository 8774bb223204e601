"""`ruler report SCORED`: what became of a run, which groups are worth a look, and one group as it was."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer

from ruler_cli.cli.messages import UNSAFE, UNSEEN, print_stderr, report_errors
from ruler_cli.cli.options import AsJson, Labels, Scored, ScoreOptions, with_options
from ruler_cli.cli.progress import Problems, group_counter
from ruler_cli.cli.settings import scored_input
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.units import count
from ruler_cli.config import InputSettings
from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location


@with_options("output group as_json max_groups labels group_by messages prompt grouping format_")
def command(
    source: Scored,
    options: ScoreOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            envvar="RULER_OUTPUT",
            help="Write a page for a browser instead: one file, which opens offline.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="KEY", envvar="RULER_GROUP", help="Show one group as its judge read it."),
    ] = None,
    as_json: AsJson = False,
    max_groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            envvar="RULER_MAX_GROUPS",
            help="Groups in FILE.html, the most telling first.  [default: 10000]",
        ),
    ] = None,
    labels: Labels = None,
) -> None:
    """Look at a scored file: on a terminal, or as a page.

    The run's figures with the worst and the most disputed groups, or one group in full, shown with $PAGER.
    Colours are for a terminal only; NO_COLOR leaves them away.

    \b
    Example:
      ruler report scored.jsonl
      ruler report scored.jsonl --group task-17
      ruler report scored.jsonl -o report.html
      ruler report scored.jsonl --json | jq .figures.groups

    Exit codes: 0 looked at; 1 some lines could not be read; 2 bad usage, unreadable input, or no marks
    of ruler in it.
    """
    with report_errors(), unwind_on_signal():
        _refuse(output, group, max_groups, options.format_, as_json=as_json)
        where = scored_input(options, source, labels)
        problems = Problems(quiet=as_json)
        if output is None:
            _look(where, problems, group, as_json=as_json)
        else:
            _write(where, problems, output, max_groups)
        raise typer.Exit(1 if problems.number else 0)


def _refuse(output: str | None, group: str | None, most: int | None, form: str, *, as_json: bool) -> None:
    if form in ("html", "json"):
        way = "a page is written by -o FILE.html" if form == "html" else "JSON is printed by --json"
        raise UsageError(f"--format {form}: is about what SCORED is; {way}")
    if most is not None and output is None:
        raise UsageError("--max-groups is of the page that -o writes; give -o FILE.html as well")
    if output is None:
        if sys.stdout is None:
            raise UsageError("stdout is closed, so there is nowhere to show anything; open it, or give -o")
        return
    if group is not None:
        raise UsageError(
            "--group shows a group here, -o writes a page of all groups, which opens at one where its "
            "address ends in #group=KEY; leave one of them out"
        )
    if as_json:
        raise UsageError("--json and -o: -o writes a page; for JSON write `--json > FILE.json` instead")


def _look(where: InputSettings, problems: Problems, key: str | None, *, as_json: bool) -> None:
    """Show the run, or the groups of a key, here."""
    from contextlib import ExitStack

    from ruler_cli.cli import report_look as look
    from ruler_cli.results.scored_file import ScoredFile

    source = Location(where.source)
    with ExitStack() as stack:
        stack.push(problems.print_on_error)
        scored = ScoredFile(where, stack, partial(problems.add, source.shown))
        for note in scored.input.notes:
            print_stderr(f"ruler: {note}")
        # a command to type again must show no password either
        head = {"version": 1, "source": source.public, "found": scored.input.found()}
        if key is None:
            page, show = look.run(scored, head)
        else:
            page, show = look.one(scored, head, key)
        problems.close()
    if as_json:
        _print(page() | {"problems": problems.number, "first_problems": problems.first})
    else:
        show()


def _write(where: InputSettings, problems: Problems, output: str, most: int | None) -> None:
    """The page for a browser, and a sentence on stderr."""
    from ruler_cli.cli.report_words import facts
    from ruler_cli.results.report.html import MOST_GROUPS, write_html

    with group_counter() as tick:
        found = write_html(
            where,
            output,
            on_problem=partial(problems.add, Location(where.source).shown),
            facts=facts,
            most=MOST_GROUPS if most is None else most,
            on_group=tick,
        )
    problems.close()
    if found.doubt:
        print_stderr(f"ruler: warning: {found.doubt}")
    part = f"{found.rows} of " if found.rows < found.groups else ""
    size, to = f"{found.size / 1e6:.1f} MB", "stdout" if output == "-" else output
    print_stderr(f"ruler: {part}{count(found.groups, 'group')}, {size} written to {to}")
    if found.left_out:
        print_stderr(f"ruler: {found.left_out}")


def _print(page: dict[str, Any]) -> None:
    """One object whose texts a program reads as they stand, and which a terminal can show."""
    import orjson

    from ruler_cli.results.report.pages import readable

    text = orjson.dumps(readable(page), option=orjson.OPT_INDENT_2).decode()
    # only a string of JSON can hold such a character, and there this is its escape
    for pattern in (UNSAFE, UNSEEN):
        text = pattern.sub(lambda c: json.dumps(c[0])[1:-1], text)
    out = typer.get_binary_stream("stdout")
    out.write(text.encode() + b"\n")
    out.flush()
