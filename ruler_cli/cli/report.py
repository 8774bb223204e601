"""`ruler report SCORED`: the figures of a run, the groups worth a look, and one group in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.arguments import Scored, Second
from ruler_cli.cli.command import with_options
from ruler_cli.cli.group_keys import COMPARED, LONGEST, SAME_KEY, unknown_group
from ruler_cli.cli.messages import UNSAFE, UNSEEN, command_words, parse_key, print_note
from ruler_cli.cli.progress import Problems, group_counter
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.terminal import Terminal, paged
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.runs.load_settings import scored_input, text_lookup
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.report.made_by import TextLookup
    from ruler_cli.results.scored_file import ScoredFile
    from ruler_cli.types import Group

_Json = dict[str, Any]
_Views = tuple[Callable[[], dict[str, Any]], Callable[[Terminal], None]]
"""Makes the object for a program, and shows the same to a person."""


@with_options(
    "report",
    group="Show one group as its judge read it.",
    one_ledger="Where the texts of rubrics and parameters are looked up; `none` for nowhere.  [default: "
    "ruler/ledger.sqlite in the user's cache directory]",
)
def command(source: Scored, options: Options, second: Second = None) -> int:
    """Look at a scored file: on a terminal, or as a page.

    The run's figures with the worst and the most disputed groups, or one group in full, shown with $PAGER.
    With two files of the same input: both judges side by side, and the groups on which they differ most.
    Colours are for a terminal only; NO_COLOR leaves them away.

    \b
    Example:
      ruler report scored.jsonl
      ruler report scored.jsonl --group task-17
      ruler report scored.jsonl -o report.html
      ruler report scored.jsonl other.jsonl -o compare.html
      ruler report scored.jsonl --json | jq .figures.groups

    Exit codes: 0 looked at; 1 some lines could not be read, or groups stand in one of two files only;
    2 bad usage, unreadable input, no annotations of ruler in it, or nothing in common.
    """
    with unwind_on_signal():
        _refuse(options)
        if second is not None:
            _refuse_same(source, second)
        settings = [
            scored_input(options, one) for one in (source, second) if one is not None
        ]
        problems = Problems(quiet=options.as_json)
        if options.output is None and not options.open_page:
            _show(settings, problems, options)
        else:
            from ruler_cli.cli.report_page import write_page

            write_page(settings, problems, options)
        return 1 if problems.number else 0


def _refuse(options: Options) -> None:
    """Raise UsageError for options that do not go together."""
    if options.format_ in ("html", "json"):
        html = options.format_ == "html"
        instead = (
            "a page is written by -o FILE.html" if html else "JSON is printed by --json"
        )
        raise UsageError(
            "is about the format of SCORED",
            instead,
            option="format_",
            value=options.format_,
        )
    if options.open_page:
        if options.as_json:
            raise UsageError(
                "--json and --open: --open shows a page; leave one of them out"
            )
        if options.output == "-":
            raise UsageError(
                "-o - and --open: a page on stdout cannot be opened; give -o FILE.html instead"
            )
        return
    if options.output is None:
        if options.max_groups is not None:
            remedy = "give -o FILE.html as well"
            raise UsageError(
                "is for the page that -o writes", remedy, option="max_groups"
            )
        if sys.stdout is None:
            raise UsageError(
                "stdout is closed, so there is nowhere to show anything; open it, or give -o"
            )
        return
    if options.group is not None:
        raise UsageError(
            "--group shows a group here, -o writes a page of all groups, which opens at one if its "
            "address ends in #group=KEY; leave one of them out, or give --open as well"
        )
    if options.as_json:
        raise UsageError(
            "--json and -o: -o writes a page; for JSON write `--json > FILE.json` instead"
        )


def _refuse_same(source: str, second: str) -> None:
    """Raise UsageError if the two files are one, or the second is the name of a page."""
    if second.lower().endswith((".html", ".htm")):
        raise UsageError(
            f"{second}: SCORED2 is a file of another judge; a page is written by -o {second}"
        )
    if source == second == "-":
        raise UsageError(
            "SCORED and SCORED2: only one of them can be stdin; give a file for the other"
        )
    if Location(source).same(second):
        raise UsageError(
            f"{Location(second).shown}: is the same file as SCORED; give one that another judge scored"
        )


def _show(
    settings: Sequence[InputSettings], problems: Problems, options: Options
) -> None:
    """Show one file or two, or their groups of a key, on stdout."""
    from ruler_cli.results.scored_file import ScoredFile

    key, lookup = options.group, text_lookup(options)
    with ExitStack() as stack:
        stack.push(problems.print_on_error)
        files = [
            ScoredFile(one, stack, partial(problems.add, Location(one.source).shown))
            for one in settings
        ]
        # a command to type again must show no password either
        heads = [
            {"source": Location(one.source).public, "found": file.input.found()}
            for one, file in zip(settings, files, strict=True)
        ]
        for file in files:
            print_note(*file.input.notes)
        if len(files) == 2:
            page, show = _two(files, heads, key, problems, lookup)
        else:
            head = {"version": 1, **heads[0]}
            page, show = (
                _run(files[0], head, lookup)
                if key is None
                else _groups(files[0], head, key)
            )
        problems.close()
    if options.as_json:
        _print(page() | {"problems": problems.number, "first_problems": problems.first})
        return
    terminal = Terminal()
    show(terminal)
    sys.stdout.flush()


def _run(scored: ScoredFile, head: dict[str, Any], lookup: TextLookup) -> _Views:
    """Read the whole file; UsageError if no group has an annotation."""
    from ruler_cli.cli import report_overview
    from ruler_cli.results.report.figures import FiguresBuilder
    from ruler_cli.results.report.highlights import Shortlist

    builder, shortlist = FiguresBuilder(lookup), Shortlist()
    with group_counter() as tick:
        for group, scored_group in scored.groups():
            builder.add(scored_group, group.rubric)
            shortlist.add(scored_group)
            tick()
    if scored.warning:
        print_note(f"warning: {command_words(scored.warning)}")
    head |= {"figures": builder.figures()}
    lists = {"worst": shortlist.worst(), "disputed": shortlist.disputed()}

    def page() -> dict[str, Any]:
        return head | {
            name: [one.as_json() for one in highlights]
            for name, highlights in lists.items()
        }

    return page, lambda terminal: report_overview.show(head, shortlist, terminal)


def _two(
    files: Sequence[ScoredFile],
    heads: Sequence[_Json],
    key: str | None,
    problems: Problems,
    lookup: TextLookup,
) -> _Views:
    """Read both files, or their groups with a key."""
    from ruler_cli.cli import report_compare

    if key is not None:
        compared = report_compare.ComparedText(files, key, problems)

        def show(terminal: Terminal) -> None:
            with paged(terminal):
                for group in compared.groups:
                    report_compare.show_group(
                        group, compared.of(group), heads, terminal
                    )
            _print_more(compared.more)

        return lambda: {"version": 1, "files": heads, **compared.as_json()}, show
    figures, differing = report_compare.compare(files, problems, lookup)
    for file in files:
        if file.warning:
            print_note(f"warning: {file.name}: {command_words(file.warning)}")

    def page() -> dict[str, Any]:
        each = [
            {**head, **own} for head, own in zip(heads, figures["files"], strict=True)
        ]
        return {
            "version": 1,
            **figures,
            "files": each,
            "differ": [one.as_json() for one in differing],
        }

    return page, lambda terminal: report_compare.show(
        heads, figures, differing, terminal
    )


def _groups(scored: ScoredFile, head: dict[str, Any], key: str) -> _Views:
    """Read the groups with a key, as it is or as the page shows it; UsageError if there are none."""
    from ruler_cli.cli import report_group
    from ruler_cli.results.report.group_text import GroupText, group_json, page_key

    exact: list[tuple[int, Group]] = []
    alike: list[tuple[int, Group]] = []
    keys, name, more = list[str](), parse_key(key), 0
    survey = scored.input.survey  # it tells if no two groups have one key
    lines = (
        survey is not None
        and survey.grouping == "line"
        and survey.reader.format.shape == "trajectory"
    )
    unique = survey is not None and survey.repeated is None and not lines
    for ordinal, group in enumerate(scored.input.groups, 1):
        if group.key == key:
            more += len(exact) >= SAME_KEY
            exact += [(ordinal, group)] if len(exact) < SAME_KEY else []
            if unique:
                break
        elif not exact:
            # the page shortens a very long key
            same = name == group.key or (
                len(group.key) > LONGEST and name == page_key(group.key)
            )
            alike += [(ordinal, group)] if same and len(alike) < SAME_KEY else []
            keys += [group.key] if len(keys) < COMPARED else []
    if not exact and not alike:
        raise unknown_group(scored.name, key, keys)
    both = [
        (ordinal, group, scored.read_group(group)) for ordinal, group in exact or alike
    ]
    shown_groups = [
        (ordinal, one, GroupText.of(group, one)) for ordinal, group, one in both
    ]

    def page() -> dict[str, Any]:
        ordinal, scored_group, text = shown_groups[0]
        others = {"ordinal": ordinal, "same_key": len(shown_groups) + more - 1}
        return head | others | {"group": group_json(scored_group, text)}

    def show(terminal: Terminal) -> None:
        with paged(terminal):
            for ordinal, scored_group, text in shown_groups:
                origin = f"{head['source']}, number {ordinal} in the file"
                report_group.show(scored_group, text, origin, terminal)
        _print_more(more)

    return page, show


def _print_more(groups: int) -> None:
    """Say how many groups of the key are not shown."""
    sys.stdout.flush()
    if groups:
        print_note(
            f"{count(groups, 'more group')} of this key: the file names them alike"
        )


def _print(page: dict[str, Any]) -> None:
    """Print one JSON object, with escapes for all that a terminal cannot show."""
    import orjson

    from ruler_cli.results.report.embedded import readable

    text = orjson.dumps(readable(page), option=orjson.OPT_INDENT_2).decode()
    # only a string of JSON can hold such a character, and there this is its escape
    for pattern in (UNSAFE, UNSEEN):
        text = pattern.sub(lambda c: json.dumps(c[0])[1:-1], text)
    out = typer.get_binary_stream("stdout")
    out.write(text.encode() + b"\n")
    out.flush()
