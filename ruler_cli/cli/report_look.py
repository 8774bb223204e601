"""A scored file → what `ruler report` shows of it here: the run as a whole, or the groups of a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ruler_cli.cli import report_group, report_page
from ruler_cli.cli.messages import parse_key, print_stderr, printable_key
from ruler_cli.cli.progress import group_counter
from ruler_cli.cli.terminal import Terminal, paged
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.results.report.figures import Gathering
from ruler_cli.results.report.group import GroupText, group_json, page_key
from ruler_cli.results.report.highlights import Shortlist
from ruler_cli.results.scored_file import ScoredFile
from ruler_cli.suggestions import nearest
from ruler_cli.types import Group

_Found = tuple[Callable[[], dict[str, Any]], Callable[[], None]]
"""Makes the object for a program, and shows the same to a person."""
_LIKE, _LOOKED_AT, _LONGEST = 3, 10_000, 200
"""Keys that are suggested, that are compared, and how much of each."""
_ALIKE = 20
"""Groups of one key that are shown; of more, the first."""


def run(scored: ScoredFile, head: dict[str, Any]) -> _Found:
    """All of a file; UsageError if no group has a mark."""
    gathering, shortlist = Gathering(), Shortlist()
    with group_counter() as tick:
        for _, marked in scored.groups():
            gathering.add(marked)
            shortlist.add(marked)
            tick()
    if scored.doubt:
        print_stderr(f"ruler: warning: {scored.doubt}")
    head |= {"figures": gathering.figures()}
    lists = {"worst": shortlist.worst(), "disputed": shortlist.disputed()}

    def page() -> dict[str, Any]:
        return head | {name: [one.as_json() for one in found] for name, found in lists.items()}

    def show() -> None:
        terminal = Terminal()
        report_page.show(head, **lists, terminal=terminal)
        terminal.flush()

    return page, show


def one(scored: ScoredFile, head: dict[str, Any], key: str) -> _Found:
    """The groups with a key, given as it is or as the page shows it; UsageError if there are none."""
    exact: list[tuple[int, Group]] = []
    alike: list[tuple[int, Group]] = []
    keys, meant, more = list[str](), parse_key(key), 0
    survey = scored.input.survey  # which tells if no two groups have one key
    lines = survey is not None and survey.grouping == "line" and survey.reader.format.shape == "trajectory"
    alone = survey is not None and survey.repeated is None and not lines
    for ordinal, group in enumerate(scored.input.groups, 1):
        if group.key == key:
            more += len(exact) >= _ALIKE
            exact += [(ordinal, group)] if len(exact) < _ALIKE else []
            if alone:
                break
        elif not exact:
            alike += [(ordinal, group)] if _means(meant, group.key) and len(alike) < _ALIKE else []
            keys += [group.key] if len(keys) < _LOOKED_AT else []
    if not exact and not alike:
        raise _unknown(scored.name, key, keys)
    marked = [(ordinal, group, scored.mark(group)) for ordinal, group in exact or alike]
    found = [(ordinal, mark, GroupText.of(group, mark)) for ordinal, group, mark in marked]

    def page() -> dict[str, Any]:
        ordinal, mark, text = found[0]
        others = {"ordinal": ordinal, "same_key": len(found) + more - 1}
        return head | others | {"group": group_json(mark, text)}

    def show() -> None:
        terminal = Terminal()
        with paged(terminal):
            for ordinal, mark, text in found:
                report_group.show(mark, text, f"{head['source']}, number {ordinal} in the file", terminal)
        terminal.flush()
        if more:
            print_stderr(f"ruler: {count(more, 'more group')} of this key: the file names them alike")

    return page, show


def _means(text: str, key: str) -> bool:
    """True if a key is named by this text: itself, or, if it is very long, as a page shortens it."""
    return text == key or (len(key) > _LONGEST and text == page_key(key))


def _unknown(name: str, key: str, keys: Sequence[str]) -> UsageError:
    near = nearest(key, (other[:_LONGEST] for other in keys))
    like = [other for other in keys if key and key.lower() in other.lower()][:_LIKE]
    like = like or [other for other in keys if other[:_LONGEST] == near][:1]
    way = (
        f"the nearest {'are' if len(like) > 1 else 'is'} {', '.join(map(_named, like))}"
        if like
        else f"its first keys are {', '.join(map(_named, keys[:_LIKE]))}"
        if keys
        else f"`ruler check {name}` says how groups are found"
    )
    return UsageError(f"{name}: there is no group {_named(key)}; {way}")


def _named(key: str) -> str:
    """A key in a sentence, as `--group` takes it."""
    text = printable_key(key)
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}…`"
