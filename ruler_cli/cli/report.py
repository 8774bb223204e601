"""`ruler report SCORED`: the figures of a run, the groups worth a look, and one group in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import with_options
from ruler_cli.cli.messages import UNSAFE, UNSEEN, parse_key, print_note, printable_key
from ruler_cli.cli.options import SCORED_OPTIONS, Options, Scored
from ruler_cli.cli.progress import Problems, group_counter
from ruler_cli.cli.settings import scored_input
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.terminal import Terminal, paged
from ruler_cli.cli.units import count
from ruler_cli.config import InputSettings
from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location
from ruler_cli.suggestions import nearest

if TYPE_CHECKING:
    from ruler_cli.results.scored_file import ScoredFile
    from ruler_cli.types import Group

_Views = tuple[Callable[[], dict[str, Any]], Callable[[Terminal], None]]
"""Makes the object for a program, and shows the same to a person."""
_SUGGESTED, COMPARED, _LONGEST = 3, 10_000, 200
"""Keys in a suggestion, keys compared for it, and characters of a key that count."""
_SAME_KEY = 20
"""Groups of one key that are shown; of more, the first."""


@with_options(
    f"output group as_json max_groups {SCORED_OPTIONS}", group="Show one group as its judge read it."
)
def command(source: Scored, options: Options) -> int:
    """Look at a scored file: on a terminal, or as a page.

    The run's figures with the worst and the most disputed groups, or one group in full, shown with $PAGER.
    Colours are for a terminal only; NO_COLOR leaves them away.

    \b
    Example:
      ruler report scored.jsonl
      ruler report scored.jsonl --group task-17
      ruler report scored.jsonl -o report.html
      ruler report scored.jsonl --json | jq .figures.groups

    Exit codes: 0 looked at; 1 some lines could not be read; 2 bad usage, unreadable input, or no
    annotations of ruler in it.
    """
    with unwind_on_signal():
        _refuse(options)
        settings = scored_input(options, source)
        problems = Problems(quiet=options.as_json)
        if options.output is None:
            _show(settings, problems, options.group, as_json=options.as_json)
        else:
            _write(settings, problems, options.output, options.max_groups)
        return 1 if problems.number else 0


def _refuse(options: Options) -> None:
    """Raise UsageError for options that do not go together."""
    if options.format_ in ("html", "json"):
        html = options.format_ == "html"
        instead = "a page is written by -o FILE.html" if html else "JSON is printed by --json"
        raise UsageError(f"--format {options.format_}: is about the format of SCORED; {instead}")
    if options.output is None:
        if options.max_groups is not None:
            raise UsageError("--max-groups is for the page that -o writes; give -o FILE.html as well")
        if sys.stdout is None:
            raise UsageError("stdout is closed, so there is nowhere to show anything; open it, or give -o")
        return
    if options.group is not None:
        raise UsageError(
            "--group shows a group here, -o writes a page of all groups, which opens at one if its "
            "address ends in #group=KEY; leave one of them out"
        )
    if options.as_json:
        raise UsageError("--json and -o: -o writes a page; for JSON write `--json > FILE.json` instead")


def _show(settings: InputSettings, problems: Problems, key: str | None, *, as_json: bool) -> None:
    """Show the run, or the groups of a key, on stdout."""
    from ruler_cli.results.scored_file import ScoredFile

    source = Location(settings.source)
    with ExitStack() as stack:
        stack.push(problems.print_on_error)
        scored = ScoredFile(settings, stack, partial(problems.add, source.shown))
        print_note(*scored.input.notes)
        # a command to type again must show no password either
        head = {"version": 1, "source": source.public, "found": scored.input.found()}
        page, show = _run(scored, head) if key is None else _groups(scored, head, key)
        problems.close()
    if as_json:
        _print(page() | {"problems": problems.number, "first_problems": problems.first})
        return
    terminal = Terminal()
    show(terminal)
    sys.stdout.flush()


def _run(scored: ScoredFile, head: dict[str, Any]) -> _Views:
    """Read the whole file; UsageError if no group has an annotation."""
    from ruler_cli.cli import report_overview
    from ruler_cli.results.report.figures import FiguresBuilder
    from ruler_cli.results.report.highlights import Shortlist

    builder, shortlist = FiguresBuilder(), Shortlist()
    with group_counter() as tick:
        for _, scored_group in scored.groups():
            builder.add(scored_group)
            shortlist.add(scored_group)
            tick()
    if scored.warning:
        print_note(f"warning: {scored.warning}")
    head |= {"figures": builder.figures()}
    lists = {"worst": shortlist.worst(), "disputed": shortlist.disputed()}

    def page() -> dict[str, Any]:
        return head | {name: [one.as_json() for one in highlights] for name, highlights in lists.items()}

    return page, lambda terminal: report_overview.show(head, **lists, terminal=terminal)


def _groups(scored: ScoredFile, head: dict[str, Any], key: str) -> _Views:
    """Read the groups with a key, as it is or as the page shows it; UsageError if there are none."""
    from ruler_cli.cli import report_group
    from ruler_cli.results.report.group_text import GroupText, group_json, page_key

    exact: list[tuple[int, Group]] = []
    alike: list[tuple[int, Group]] = []
    keys, name, more = list[str](), parse_key(key), 0
    survey = scored.input.survey  # it tells if no two groups have one key
    lines = survey is not None and survey.grouping == "line" and survey.reader.format.shape == "trajectory"
    unique = survey is not None and survey.repeated is None and not lines
    for ordinal, group in enumerate(scored.input.groups, 1):
        if group.key == key:
            more += len(exact) >= _SAME_KEY
            exact += [(ordinal, group)] if len(exact) < _SAME_KEY else []
            if unique:
                break
        elif not exact:
            # the page shortens a very long key
            same = name == group.key or (len(group.key) > _LONGEST and name == page_key(group.key))
            alike += [(ordinal, group)] if same and len(alike) < _SAME_KEY else []
            keys += [group.key] if len(keys) < COMPARED else []
    if not exact and not alike:
        raise unknown_group(scored.name, key, keys)
    both = [(ordinal, group, scored.read_group(group)) for ordinal, group in exact or alike]
    shown_groups = [(ordinal, one, GroupText.of(group, one)) for ordinal, group, one in both]

    def page() -> dict[str, Any]:
        ordinal, scored_group, text = shown_groups[0]
        others = {"ordinal": ordinal, "same_key": len(shown_groups) + more - 1}
        return head | others | {"group": group_json(scored_group, text)}

    def show(terminal: Terminal) -> None:
        with paged(terminal):
            for ordinal, scored_group, text in shown_groups:
                origin = f"{head['source']}, number {ordinal} in the file"
                report_group.show(scored_group, text, origin, terminal)
        sys.stdout.flush()
        if more:
            print_note(f"{count(more, 'more group')} of this key: the file names them alike")

    return page, show


def unknown_group(name: str, key: str | None, keys: Sequence[str]) -> UsageError:
    """Make the error for a key that is not in the file, with a suggestion; None: there is no group at all."""
    near = nearest(key or "", (other[:_LONGEST] for other in keys))
    like = [other for other in keys if key and key.lower() in other.lower()][:_SUGGESTED]
    like = like or [other for other in keys if other[:_LONGEST] == near][:1]
    if like:
        suggestion = f"the nearest {'are' if len(like) > 1 else 'is'} {', '.join(map(_quoted, like))}"
    elif keys:
        suggestion = f"its first keys are {', '.join(map(_quoted, keys[:_SUGGESTED]))}"
    else:
        suggestion = f"`ruler check {name}` says how groups are found"
    wanted = "" if key is None else f" {_quoted(key)}"
    return UsageError(f"{name}: there is no group{wanted}; {suggestion}")


def _quoted(key: str) -> str:
    """Write a key in a sentence, as `--group` takes it."""
    text = printable_key(key)
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}…`"


def _write(settings: InputSettings, problems: Problems, output: str, most: int | None) -> None:
    """Write the page for a browser, and a sentence on stderr."""
    from ruler_cli.cli.report_sentences import facts
    from ruler_cli.results.report.html import MOST_GROUPS, write_html

    with group_counter() as tick:
        written = write_html(
            settings,
            output,
            on_problem=partial(problems.add, Location(settings.source).shown),
            facts=facts,
            most=MOST_GROUPS if most is None else most,
            on_group=tick,
        )
    problems.close()
    if written.warning:
        print_note(f"warning: {written.warning}")
    part = f"{written.rows} of " if written.rows < written.groups else ""
    size, to = f"{written.size / 1e6:.1f} MB", "stdout" if output == "-" else output
    print_note(f"{part}{count(written.groups, 'group')}, {size} written to {to}")
    if written.left_out:
        print_note(f"{written.left_out}")


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
