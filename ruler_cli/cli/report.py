"""`ruler report SCORED`: the figures of a run, the groups worth a look, and one group in full; or a page of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.group_keys import SAME_KEY, KeySearch
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    PAGE_OPTIONS,
    RECORD_SETTINGS,
    Scored,
    takes,
)
from ruler_cli.cli.scored_files import (
    FileProblems,
    ScoredFiles,
    print_written,
)
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.settings.options import Options

Show = Callable[[Options, list[str], ExitStack], FileProblems]
"""Shows scored files, and returns what is wrong with them."""


@takes("group", "people", *PAGE_OPTIONS, settings=RECORD_SETTINGS)
def command(
    ctx: typer.Context,
    source: Scored,
) -> int:
    """Show a scored file on the terminal, as JSON, or as a page.

    The figures of the run, with its worst groups; with --group one group in full. NO_COLOR turns colours off.

    \b
    Example:
      ruler report scored.jsonl
      ruler report scored.jsonl --group task-17
      ruler report scored.jsonl --people labels.jsonl
      ruler report scored.jsonl -o report.html
      ruler report scored.jsonl --json | jq .figures.groups

    Exit codes: 0 done; 1 some lines could not be read, or labels are of no rollout; 2 bad usage, unreadable
    input, nothing to compare with --people, or no annotations of ruler.
    """
    with running(ctx, source) as options:
        return _report(options, [source])


def _report(options: Options, sources: list[str]) -> int:
    refuse_page_options(options)
    show = show_figures if options.group is None else _show_groups
    if options.page is not None:
        show = write_page
    return shown(show, options, sources)


def refuse_page_options(options: Options) -> None:
    """Raise UsageError for what a page does not take, or takes alone."""
    if options.page is None:
        if options.max_groups is not None:
            raise UsageError("--max-groups is for a page; add -o FILE.html")
    elif options.as_json or options.group is not None:
        apart = "--json" if options.as_json else "--group"
        raise UsageError(f"-o writes a page; leave {apart} out")


def shown(
    show: Show,
    options: Options,
    sources: list[str],
) -> int:
    """Show scored files in one of the ways, and return the exit code."""
    with unwind_on_signal(), ExitStack() as stack:
        problems = show(options, sources, stack)
        return 1 if problems.number else 0


def show_figures(
    options: Options,
    sources: list[str],
    stack: ExitStack,
) -> FileProblems:
    """Show one file or two on stdout."""
    from ruler_cli.cli.report_view import view_of
    from ruler_cli.files.scratch import Scratch

    scored = ScoredFiles(sources, options, stack)
    listed = stack.enter_context(Scratch())
    alone = len(sources) == 1
    for group in scored.groups():
        if options.as_json and alone:
            listed.put({"ordinal": group.number, **group.as_json()})
    figures = scored.figures()
    scored.report_problems()
    if options.as_json:
        page = scored.reading.as_json(scored.heads, figures)
        scored.problems.print_json(page, listed.all() if alone else None)
    else:
        from ruler_cli.cli.terminal import Terminal

        names = [head["source"] for head in scored.heads]
        view_of(scored.reading, names, figures).show(Terminal())
    return scored.problems


def write_page(
    options: Options,
    sources: list[str],
    stack: ExitStack,
) -> FileProblems:
    """Write the page for a browser."""
    from ruler_cli.cli.report_view import view_of
    from ruler_cli.results.report.page import MOST_GROUPS, ReportPage

    target = str(options.page)
    most = MOST_GROUPS if options.max_groups is None else options.max_groups
    page = ReportPage(
        stack,
        target,
        sources,
        most,
        force=options.force,
    )
    scored = ScoredFiles(sources, options, stack)
    page.read_fields(scored.files[0].annotations)
    for group in scored.groups(page.keep):
        page.add(group)
    view = view_of(scored.reading, page.names, scored.figures())
    scored.report_problems()
    left_out, size = page.write(view.data(), view.rule)
    part = f"{left_out.rows} of " if left_out.rows < left_out.groups else ""
    print_written(f"{part}{count(left_out.groups, 'group')}", size, target)
    if left_out.sentences:
        print_note(left_out.sentences)
    return scored.problems


def _show_groups(
    options: Options,
    sources: list[str],
    stack: ExitStack,
) -> FileProblems:
    """Show the first groups of a key; UsageError if there are none."""
    from ruler_cli.cli import report_group
    from ruler_cli.results.group_text import GroupText, text_json

    scored = ScoredFiles(sources, options, stack)
    search = KeySearch(scored.names, options.group)
    groups = scored.reading.groups(GroupText.of, search.matches)
    shown = [*islice(groups, SAME_KEY)]
    more = sum(1 for _ in groups)
    search.refuse_unknown()
    scored.report_problems()
    (head,) = scored.heads
    if options.as_json:
        first = shown[0]
        page = {
            **head,
            "ordinal": first.number,
            "same_key": len(shown) + more - 1,
            "group": first.as_json() | text_json(first.kept, first.first),
        }
        scored.problems.print_json(page)
        return scored.problems
    from ruler_cli.cli.terminal import Terminal

    terminal = Terminal()
    for group in shown:
        report_group.show(
            group,
            head["source"],
            terminal,
        )
    if more:
        print_note(f"{count(more, 'more group')} with this key")
    return scored.problems
