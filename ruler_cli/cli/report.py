"""`ruler report SCORED`: the figures of a run, the groups worth a look, and one group in full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import run_command, text_lookup
from ruler_cli.cli.group_keys import SAME_KEY, KeySearch
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    AsJson,
    Config,
    Format,
    GroupBy,
    Grouping,
    GroupKey,
    Labels,
    MaxGroups,
    MaxRecord,
    Messages,
    OneLedger,
    OpenPage,
    Page,
    Prompt,
    Scored,
    Second,
)
from ruler_cli.cli.progress import Problems, UnlikeGroups, group_counter
from ruler_cli.cli.scored_files import head_of, open_files, print_facts, print_warnings
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.terminal import Terminal, paged
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.compare import LeftOutGroup
    from ruler_cli.results.report.page import ReportPage
    from ruler_cli.results.scored_file import ScoredFile


def command(
    ctx: typer.Context,
    source: Scored,
    second: Second = None,
    page: Page = None,
    open_page: OpenPage = False,
    group: GroupKey = None,
    as_json: AsJson = False,
    max_groups: MaxGroups = None,
    ledger: OneLedger = None,
    labels: Labels = None,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    max_record: MaxRecord = 512,
    config: Config = None,
) -> int:
    """Show a scored file on the terminal, as JSON, or as a page.

    The figures of the run with the worst and the most disputed groups, or one group in full in $PAGER. Two
    files of the same input: both judges side by side, and the groups they disagree on most. NO_COLOR turns
    colours off.

    \b
    Example:
      ruler report scored.jsonl
      ruler report scored.jsonl --group task-17
      ruler report scored.jsonl -o report.html
      ruler report scored.jsonl other.jsonl -o compare.html
      ruler report scored.jsonl --json | jq .figures.groups

    Exit codes: 0 done; 1 some lines could not be read, or some groups are in one file only; 2 bad usage,
    unreadable input, no annotations of ruler, or nothing in common.
    """
    return run_command(ctx, _report, source, second)


def _report(options: Options, source: str, second: str | None) -> int:
    with unwind_on_signal():
        sources = [one for one in (source, second) if one is not None]
        _refuse(options, sources)
        problems = Problems(quiet=options.as_json)
        page = options.page is not None or options.open_page
        if options.group is not None and not page:
            _show_groups(sources, options, problems)
        else:
            _show(sources, options, problems, page=page)
        return 1 if problems.number else 0


def _refuse(options: Options, sources: list[str]) -> None:
    """Raise UsageError for options that do not go together, and for two files that are one."""
    page = options.page is not None or options.open_page
    group = options.group is not None
    wrong = {
        "--json and a page: leave one of them out": options.as_json and page,
        "-o - and --open: give -o FILE.html": options.open_page and options.page == "-",
        "--group and -o: add --open to open the page at the group": group
        and page
        and not options.open_page,
        "--max-groups is for a page; add -o FILE.html": options.max_groups is not None
        and not page,
        "stdout is closed": sys.stdout is None and not page,
    }
    for problem, holds in wrong.items():
        if holds:
            raise UsageError(problem)
    if len(sources) == 2 and sources != ["-", "-"]:
        first, second = map(Location, sources)
        if first.same(second.name):
            problem = f"{second.shown}: is SCORED itself"
            raise UsageError(problem, "give a file that another judge scored")


def _view_of(files: Sequence[ScoredFile]) -> Any:
    """Return the module that shows one file, or two; both have `read`, `show` and `page_data`."""
    from ruler_cli.cli import report_compare, report_overview

    return report_compare if len(files) == 2 else report_overview


def _show(
    sources: list[str], options: Options, problems: Problems, *, page: bool
) -> None:
    """Show one file or two on stdout, or write the page for a browser."""
    unlike, search = UnlikeGroups(), _search(sources, options)

    def leave_out(group: LeftOutGroup) -> None:
        unlike.add(group)
        search.leave_out(group.key, group.sentence)

    with ExitStack() as stack:
        written: ReportPage | None = None
        if page:
            from ruler_cli.cli import report_page

            written = report_page.start(stack, sources, options)
        files = open_files(sources, options, stack, problems)
        view = _view_of(files)
        reading = view.read(files, leave_out)
        with group_counter() as tick:
            for group in reading.groups(written.keep if written else lambda *_: None):
                tick()
                if written:
                    written.add(group, asked=search.matches(group.one.key))
        search.refuse_unknown()
        figures = reading.figures(text_lookup(options))
        unlike.hand_to(problems)
        print_warnings(files)
        problems.close()
        if written:
            report_page.finish(written, view, figures, reading)
    heads = [head_of(file) for file in files]
    if written:
        if options.open_page:
            report_page.open_page(written.target, search.fragment)
    elif options.as_json:
        print_facts(reading.as_json(heads, figures), problems)
    else:
        view.show(heads, figures, reading, Terminal())
        sys.stdout.flush()


def _search(sources: Sequence[str], options: Options) -> KeySearch:
    names = " and ".join(Location(one).shown for one in sources)
    return KeySearch(names, options.group)


def _show_groups(sources: list[str], options: Options, problems: Problems) -> None:
    """Show the first groups of a key; UsageError if there are none, or none that is the same in both files."""
    from ruler_cli.cli import report_group
    from ruler_cli.results.group_text import GroupText, text_json

    search = _search(sources, options)
    left_out: list[LeftOutGroup] = []
    with ExitStack() as stack:
        files = open_files(sources, options, stack, problems)
        reading = _view_of(files).read(files, left_out.append)
        groups = reading.groups(GroupText.of, search.matches)
        shown = list(islice(groups, SAME_KEY))
        more = sum(1 for _ in groups)
        search.refuse_unknown()
        if not shown:
            names = " and ".join(file.name for file in files)
            raise UsageError(f"{names}: {left_out[0].sentence}")
        for one in left_out:
            problems.add_sentence(one.sentence)
        problems.close()
    heads = [head_of(file) for file in files]
    if options.as_json:
        first = shown[0]
        page = {"files": heads} if first.other else heads[0]
        page |= {"ordinal": first.number, "same_key": len(shown) + more - 1}
        text = text_json(first.kept, first.one, first.other)
        print_facts(page | {"group": first.as_json() | text}, problems)
        return
    terminal = Terminal()
    with paged(terminal):
        for one in shown:
            origins = [head["source"] for head in heads]
            origins[0] += f", number {one.number} in the file"
            report_group.show(one.kept, origins, terminal, one.one, one.other)
    sys.stdout.flush()
    if more:
        print_note(f"{count(more, 'more group')} with this key")
