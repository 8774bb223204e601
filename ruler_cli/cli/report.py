"""`ruler report SCORED`: the figures of a run, the groups worth a look, and one group in full."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from ruler_cli.cli.command import run_command, text_lookup
from ruler_cli.cli.group_keys import SAME_KEY, KeySearch
from ruler_cli.cli.messages import UNSAFE, UNSEEN, command_words, print_note
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
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.terminal import Terminal, paged
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.pairing import DigestedGroup
    from ruler_cli.results.report.made_by import TextLookup
    from ruler_cli.results.scored_file import ScoredFile
    from ruler_cli.results.scored_groups import ScoredGroup
    from ruler_cli.types import Group

_Json = dict[str, Any]
_Found: TypeAlias = "tuple[int, Group, tuple[ScoredGroup, ...]]"
"""A group with its number in the first file, and its annotations in each file."""
_Views = tuple[Callable[[], dict[str, Any]], Callable[[Terminal], None]]
"""Makes the object for a program, and shows the same to a person."""


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
    return run_command(ctx, _report, source, second)


def _report(options: Options, source: str, second: str | None) -> int:
    with unwind_on_signal():
        _refuse(options, source, second)
        settings = [
            scored_input(options, one) for one in (source, second) if one is not None
        ]
        problems = Problems(quiet=options.as_json)
        if options.page is None and not options.open_page:
            _show(settings, problems, options)
        else:
            from ruler_cli.cli.report_page import write_page

            write_page(settings, problems, options)
        return 1 if problems.number else 0


def _refuse(options: Options, source: str, second: str | None) -> None:
    """Raise UsageError for options that do not go together, and for two files that are one."""
    page = options.page is not None or options.open_page
    wrong = {
        "--json and a page: leave one of them out": options.as_json and page,
        "-o - and --open: give -o FILE.html": options.open_page and options.page == "-",
        "--group and -o: add --open to open the page at the group": options.group
        is not None
        and page
        and not options.open_page,
        "--max-groups is for a page; add -o FILE.html": options.max_groups is not None
        and not page,
        "stdout is closed": sys.stdout is None and not page,
        "only one of SCORED and SCORED2 can be stdin": source == second == "-",
    }
    for problem, holds in wrong.items():
        if holds:
            raise UsageError(problem)
    if second is not None and Location(source).same(second):
        raise UsageError(
            f"{Location(second).shown}: is SCORED itself; give a file that another judge scored"
        )


def _show(
    settings: Sequence[InputSettings], problems: Problems, options: Options
) -> None:
    """Show one file or two, or their groups of a key, on stdout."""
    from ruler_cli.results.scored_file import ScoredFile

    lookup = text_lookup(options)
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
        if options.group is not None:
            page, show = _groups(files, heads, options.group, problems)
        elif len(files) == 2:
            page, show = _two(files, heads, problems, lookup)
        else:
            page, show = _run(files[0], heads[0], lookup)
        problems.close()
    if options.as_json:
        found = {"problems": problems.number, "first_problems": problems.first}
        print_json({"version": 1} | page() | found)
        return
    show(Terminal())
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
    head = head | {"figures": builder.figures()}
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
    problems: Problems,
    lookup: TextLookup,
) -> _Views:
    """Compare both files."""
    from ruler_cli.cli import report_compare
    from ruler_cli.results.compare import compare_files

    unlike = UnlikeGroups()
    with group_counter() as tick:
        comparison = compare_files(
            files, on_left_out=unlike.add, on_group=lambda _: tick(), texts=lookup
        )
    unlike.hand_to(problems)
    for file in files:
        if file.warning:
            print_note(f"warning: {file.name}: {command_words(file.warning)}")

    def page() -> _Json:
        each = [
            {**head, **own}
            for head, own in zip(heads, comparison.figures["files"], strict=True)
        ]
        differ = [
            {"ordinal": one.number} | one.as_json() for one in comparison.differing
        ]
        return {**comparison.figures, "files": each, "differ": differ}

    return page, lambda terminal: report_compare.show(heads, comparison, terminal)


def _groups(
    files: Sequence[ScoredFile], heads: Sequence[_Json], key: str, problems: Problems
) -> _Views:
    """Read the groups with a key; UsageError if there are none, or none that is the same in two files."""
    from ruler_cli.cli import report_group
    from ruler_cli.results.compare import ComparedGroup
    from ruler_cli.results.pairing import GroupPair
    from ruler_cli.results.report.group_text import GroupText, summary, text_json

    two = len(files) == 2
    groups, number = _pairs_of(files, key, problems) if two else _found(files[0], key)
    shown_groups = [
        (ordinal, pair, GroupText.of(group, pair[0])) for ordinal, group, pair in groups
    ]

    def page() -> _Json:
        ordinal, pair, text = shown_groups[0]
        if two:
            head: _Json = {"files": heads}
            figures = ComparedGroup.of(GroupPair(pair[0], pair[1], ordinal)).as_json()
        else:
            head, figures = heads[0], summary(pair[0])
        others = {"ordinal": ordinal, "same_key": number - 1}
        return {**head, **others, "group": figures | text_json(text, *pair)}

    def show(terminal: Terminal) -> None:
        with paged(terminal):
            for ordinal, pair, text in shown_groups:
                origins = [head["source"] for head in heads]
                origins[0] += f", number {ordinal} in the file"
                report_group.show(text, origins, terminal, *pair)
        sys.stdout.flush()
        if more := number - len(shown_groups):
            print_note(f"{count(more, 'more group')} of this key")

    return page, show


def _found(scored: ScoredFile, key: str) -> tuple[list[_Found], int]:
    """Return the first groups with a key, as it is or else as it is shown, and the number of all."""
    numbers = Counter[bool]()
    groups: dict[bool, list[_Found]] = {True: [], False: []}
    search = KeySearch(scored.name, key)
    for ordinal, group in enumerate(scored.input.groups, 1):
        if search.matches(group.key):
            exact = group.key == key
            numbers[exact] += 1
            if numbers[exact] <= SAME_KEY:
                groups[exact].append((ordinal, group, (scored.read_group(group),)))
    search.refuse_unknown()
    exact = numbers[True] > 0
    return groups[exact], numbers[exact]


def _pairs_of(
    files: Sequence[ScoredFile], key: str, problems: Problems
) -> tuple[list[_Found], int]:
    """Return the first groups of a key that are the same in both files, and the number of all."""
    from ruler_cli.results.compare import ComparedGroup
    from ruler_cli.results.pairing import LeftOutGroup, pair_groups, with_digests

    first: dict[int, tuple[int, Group]] = {}
    searches = [KeySearch(file.name, key) for file in files]

    def read(side: int) -> Iterator[DigestedGroup]:
        for ordinal, group in enumerate(files[side].input.groups, 1):
            if searches[side].matches(group.key):
                if not side:
                    first[len(first) + 1] = ordinal, group
                yield with_digests(group, files[side].read_group(group))

    groups, number, left_out = list[_Found](), 0, list[LeftOutGroup]()
    for pair in pair_groups(read(0), read(1), {}, left_out.append):
        number += 1
        if number <= SAME_KEY:
            compared = ComparedGroup.of(pair)
            groups.append((*first[pair.number], (compared.one, compared.other)))
    for search in searches:
        search.refuse_unknown()
    if not groups:
        raise UsageError(f"{files[0].name} and {files[1].name}: {left_out[0].sentence}")
    for left in left_out:
        problems.add_sentence(left.sentence)
    return groups, number


def print_json(page: _Json) -> None:
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
