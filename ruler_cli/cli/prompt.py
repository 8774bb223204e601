"""`ruler prompt INPUT`: print the exact request for a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ruler_cli.cli.messages import print_note, report_errors, safe
from ruler_cli.cli.options import Options, Source, with_options
from ruler_cli.cli.progress import Console
from ruler_cli.cli.report import COMPARED, unknown_group
from ruler_cli.cli.settings import score_settings
from ruler_cli.cli.units import count
from ruler_cli.config import AskSettings, InputSettings
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from ruler_cli.prompting.layout import PromptLayout
    from ruler_cli.prompting.prompt import RequestPart
    from ruler_cli.types import Group


@with_options(
    "group pass_ window model api_base rubric order seed passes group_size single "
    "group_by messages prompt grouping format_"
)
def command(source: Source, options: Options) -> None:
    """Print the exact request that `score` would send for a group. Nothing is sent.

    For a panel this is the request to the first judge. If a group takes more than one request, stderr says
    which one this is and how many there are.

    Example: ruler prompt rollouts.jsonl --group task-17

    Exit codes: 0 printed; 2 bad usage or unreadable input.
    """
    with report_errors():
        from ruler_cli.judges.chat_completions import messages as request_messages
        from ruler_cli.judges.resolve import answer_format_of, model_of
        from ruler_cli.prompting.prompt import build_layout, write_prompt

        settings = score_settings(options, source)
        judges = [settings.judge, *settings.panel]
        contexts = [model_of(judge).context for judge in judges]
        ask, *others = (replace(settings.ask, context_tokens=context) for context in contexts)
        found = _group(settings.input, options.group)
        layout = build_layout(found, ask)
        if not layout.distinct:
            name = _name(settings.input)
            raise UsageError(f"{name}: group {found.key!r} has no trajectory that can be judged")
        part = _part(found, layout, ask, options.pass_, options.window)
        _print_position(found, layout, ask, others, part)
        system, user = request_messages(write_prompt(layout, ask, part), answer_format_of(judges[0]))
        typer.echo(safe(f"system:\n{system['content']}\n\nuser:\n{user['content']}"))


def _name(settings: InputSettings) -> str:
    from ruler_cli.reading.location import Location

    return Location(settings.source).shown


def _group(settings: InputSettings, key: str | None) -> Group:
    """Return the group with the key, or the first; UsageError if there is none."""
    from contextlib import ExitStack

    from ruler_cli.reading.input import open_input

    name = _name(settings)
    keys: list[str] = []
    with ExitStack() as stack:
        for group in open_input(settings, stack, Console("log", name).problem).groups:
            if key is None or group.key == key:
                return group
            keys += [group.key] if len(keys) < COMPARED else []
    raise unknown_group(name, key, keys)


def _part(
    group: Group, layout: PromptLayout, ask: AskSettings, pass_number: int, window: int
) -> RequestPart | None:
    """Return the part of a request, passes and windows counted from 1; None if nothing fits the context."""
    name = f"group {group.key!r}"
    if layout.alone and ask.single == "flag" and pass_number > 1:
        raise UsageError(
            f"--pass {pass_number}: {name} has nothing to compare and one pass; --single score makes them "
            "more"
        )
    from ruler_cli.prompting.prompt import requests_of_pass

    windows = requests_of_pass(layout, ask, pass_number - 1)
    if window > max(1, len(windows)):
        raise UsageError(f"--window {window}: {name} is shown in {count(len(windows), 'window')}")
    return windows[window - 1] if windows else None


def _print_position(
    group: Group,
    layout: PromptLayout,
    ask: AskSettings,
    others: Sequence[AskSettings],
    part: RequestPart | None,
) -> None:
    """Print on stderr which of the group's requests this is, or a warning that it is never sent.

    `others` is how the other judges are asked.
    """
    from ruler_cli.prompting.prompt import build_layout, pass_count, requests_of_pass, why_unaskable

    if part is None:
        reason = why_unaskable(group, layout, ask).reason
        print_note(f"warning: this is not sent, group {group.key!r} is too long: {reason}")
        return
    ask = replace(ask, passes=max(ask.passes, part.pass_index + 1))
    windows = len(requests_of_pass(layout, ask, 0))
    passes = pass_count(layout, ask, windows)
    requests = passes * windows
    for other in (replace(other, passes=ask.passes) for other in others):
        other_layout = build_layout(group, other)
        other_windows = len(requests_of_pass(other_layout, other, 0))
        requests += pass_count(other_layout, other, other_windows) * other_windows
    if requests > 1:
        position = f"pass {part.pass_index + 1} of {passes}, window {part.window + 1} of {windows}"
        judges = f", of {count(len(others) + 1, 'judge')} the first" if others else ""
        print_note(f"group {group.key!r}: {position}{judges}; the group takes {count(requests, 'request')}")
