"""`ruler prompt INPUT`: the exact request for a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.messages import safe, say, told
from ruler_cli.cli.options import ScoreOptions, Source, with_options
from ruler_cli.cli.progress import Console
from ruler_cli.cli.units import count
from ruler_cli.config import AskSettings, InputSettings
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from ruler_cli.prompting.layout import PromptLayout
    from ruler_cli.prompting.prompt import RequestPart
    from ruler_cli.types import Group

_COMPARED = 1000
"""Groups' keys that are looked through for one that was not found."""


@with_options(
    "group pass_ window model api_base rubric order seed passes group_size single "
    "group_by messages prompt grouping format_"
)
def command(
    source: Source,
    options: ScoreOptions,
    group: Annotated[
        str | None,
        typer.Option(metavar="KEY", envvar="RULER_GROUP", help="Which group.  [default: the first]"),
    ] = None,
    pass_: Annotated[
        int,
        typer.Option("--pass", metavar="P", min=1, envvar="RULER_PASS", help="Which pass over the group."),
    ] = 1,
    window: Annotated[
        int,
        typer.Option(metavar="W", min=1, envvar="RULER_WINDOW", help="Which window of that pass."),
    ] = 1,
) -> None:
    """Print the exact request that `score` would send for a group. Nothing is sent.

    Of a panel it is what the first judge is sent. Where a group takes more than one request, stderr says
    which one this is and how many there are.

    Example: ruler prompt rollouts.jsonl --group task-17

    Exit codes: 0 printed; 2 bad usage or unreadable input.
    """
    with told():
        from ruler_cli.judges.request_body import messages as written
        from ruler_cli.judges.resolve import answers_of, model_of
        from ruler_cli.prompting.prompt import build_layout, write_prompt

        settings = options.settings(source)
        where, judges = settings.input, [settings.judge, *settings.panel]
        contexts = [model_of(judge).context for judge in judges]
        first, *others = (replace(settings.ask, context_tokens=context) for context in contexts)
        one = _group(where, group)
        sheet = build_layout(one, first)
        if not sheet.distinct:
            raise UsageError(f"{_name(where)}: group {one.key!r} has no trajectory that can be judged")
        part = _part(one, sheet, first, pass_, window)
        _say_how_many(one, sheet, first, others, part)
        system, user = written(write_prompt(sheet, first, part), answers_of(judges[0]))
        typer.echo(safe(f"system:\n{system['content']}\n\nuser:\n{user['content']}"))


def _name(where: InputSettings) -> str:
    from ruler_cli.reading.location import Location

    return Location(where.source).shown


def _group(where: InputSettings, key: str | None) -> Group:
    """The group with the key, or the first."""
    from contextlib import ExitStack

    from ruler_cli.reading.input import open_input

    name = _name(where)
    seen: list[str] = []
    with ExitStack() as stack:
        for one in open_input(where, stack, Console("log", name).problem).groups:
            if key is None or one.key == key:
                return one
            if len(seen) < _COMPARED:
                seen.append(one.key)
    from ruler_cli.suggestions import nearest

    meant = None if key is None else nearest(key, seen)
    which = "there is no group" if key is None else f"there is no group {key!r}"
    if meant is not None:
        raise UsageError(f"{name}: {which}; did you mean {meant!r}?")
    raise UsageError(f"{name}: {which}; `ruler check {name}` says how groups are found")


def _part(group: Group, sheet: PromptLayout, ask: AskSettings, turn: int, window: int) -> RequestPart | None:
    """What the request shows, passes and windows counted from 1; None where no request can be made."""
    named = f"group {group.key!r}"
    if sheet.alone and ask.single == "flag" and turn > 1:
        raise UsageError(
            f"--pass {turn}: {named} has nothing to compare and one pass; --single score makes them more"
        )
    from ruler_cli.prompting.prompt import requests_of_pass

    found = requests_of_pass(sheet, ask, turn - 1)
    if window > max(1, len(found)):
        raise UsageError(f"--window {window}: {named} is shown in {count(len(found), 'window')}")
    return found[window - 1] if found else None


def _say_how_many(
    group: Group,
    sheet: PromptLayout,
    ask: AskSettings,
    others: Sequence[AskSettings],
    part: RequestPart | None,
) -> None:
    """Which of how many requests this is, where it is not the only one; a warning where it is none."""
    from ruler_cli.prompting.prompt import build_layout, pass_count, requests_of_pass, why_unaskable

    if part is None:
        reason = why_unaskable(group, sheet, ask).reason
        say(f"ruler: warning: this is not sent, group {group.key!r} is too long: {reason}")
        return
    ask = replace(ask, passes=max(ask.passes, part.pass_index + 1))
    each = len(requests_of_pass(sheet, ask, 0))
    passes = pass_count(sheet, ask, each)
    whole = passes * each
    for other in (replace(other, passes=ask.passes) for other in others):
        theirs = build_layout(group, other)
        windows = len(requests_of_pass(theirs, other, 0))
        whole += pass_count(theirs, other, windows) * windows
    if whole > 1:
        place = f"pass {part.pass_index + 1} of {passes}, window {part.window + 1} of {each}"
        judges = f", of {count(len(others) + 1, 'judge')} the first" if others else ""
        say(f"ruler: group {group.key!r}: {place}{judges}; the group takes {count(whole, 'request')}")
