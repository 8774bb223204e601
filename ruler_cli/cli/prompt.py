"""`ruler prompt INPUT`: print the exact request for a group."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.group_keys import KeySearch, see_check
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    REQUEST_OPTIONS,
    REQUEST_SETTINGS,
    Source,
    takes,
)
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import safe
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import printable

if TYPE_CHECKING:
    from ruler_cli.types import Group, Request


@takes(
    *("group", "reward", "outcome"), *REQUEST_OPTIONS, settings=REQUEST_SETTINGS
)
def command(
    ctx: typer.Context,
    source: Source,
) -> int:
    """Print the exact request that `score` would send for a group. Nothing is sent.

    It is the first request: to the first judge of a panel, in the first pass and window. `ruler batch export`
    writes all of them.

    Example: ruler prompt rollouts.jsonl --group task-17

    Exit codes: 0 printed; 2 bad usage or unreadable input.
    """
    with running(ctx, source) as options:
        from ruler_cli.judges.chat_completions import (
            messages as request_messages,
        )
        from ruler_cli.judges.resolve import (
            answer_format_of,
            model_of,
            typed_body,
            with_picture_support,
        )
        from ruler_cli.prompting.prompt import (
            RequestPart,
            build_layout,
            pass_count,
            requests_of_pass,
            why_unaskable,
        )
        from ruler_cli.prompting.questions import requests_about

        settings = score_settings(options, source)
        judge = settings.judge
        ask = with_picture_support(settings.ask_of(judge), judge)
        ask = replace(ask, context_tokens=model_of(judge).context)
        chosen = _group(settings.input, options.group)
        layout = build_layout(chosen, ask)
        name = f"group {chosen.key!r}"
        error = why_unaskable(chosen, layout, ask)
        if not layout.distinct:
            problem = f"{name}: {error.reason}"
            raise UsageError(problem, place=Location(source).shown)
        parts = requests_of_pass(layout, ask, 0)
        if not parts:
            long = " is too long" if error.kind == "too_long" else ""
            print_note(
                f"warning: this is not sent, {name}{long}: {error.reason}"
            )
            shown = layout.all[:1] if ask.ask == "each" else layout.all
            parts = [RequestPart(0, 0, tuple(shown))]
        request, *others = requests_about(layout, ask, parts[0])
        passes = pass_count(layout, ask, len(parts))
        number = passes * len(parts) * (1 + len(others))
        if number > 1:
            print_note(f"{name}: the first of {count(number, 'request')}")
        if request.questions:
            typer.echo(safe(typed_body(judge, request).decode()))
            return 0
        system, _ = request_messages(request, answer_format_of(judge))
        user = _with_pictures(request)
        typer.echo(safe(f"system:\n{system['content']}\n\nuser:\n{user}"))
        return 0


def _with_pictures(request: Request) -> str:
    """Return the user message, with a line for each picture in its place."""
    text = request.user
    for place, picture in reversed(request.pictures):
        what = f"{picture.media}, {picture.width} × {picture.height}, {len(picture.data):,} bytes"
        line = f"\n<picture: {printable(picture.address, 200) or what}>"
        text = text[:place] + line + text[place:]
    return text


def _group(settings: InputSettings, key: str | None) -> Group:
    """Return the group with the key, or the first; UsageError if there is none."""
    from ruler_cli.runs.input import open_input

    name = Location(settings.source).shown
    search = KeySearch(name, key)
    with ExitStack() as stack:
        console = stack.enter_context(closing(Console("log", settings.source)))
        for group in open_input(settings, stack, console.problem).groups:
            if key is None or search.matches(group.key):
                return group
    search.refuse_unknown()
    raise UsageError(f"{name}: there is no group", see_check(name))
