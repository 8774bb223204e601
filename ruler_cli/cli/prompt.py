"""`ruler prompt INPUT`: the exact request for a group."""

from __future__ import annotations

from typing import Annotated

import typer

from ruler_cli.cli import options
from ruler_cli.cli.console import Console, safe, told
from ruler_cli.settings import AskSettings, InputSettings, JudgeSettings

_DEFAULT = JudgeSettings()


def command(
    source: options.Source,
    group: Annotated[
        str | None,
        typer.Option(metavar="KEY", envvar="RULER_GROUP", help="Which group.  [default: the first]"),
    ] = None,
    model: options.Model = _DEFAULT.model,
    api_base: options.ApiBase = None,
    rubric: options.Rubric = None,
    order: options.Order = "random",
    seed: options.Seed = 0,
    group_by: options.GroupBy = None,
    messages: options.Messages = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
) -> None:
    """Print the exact request that `score` would send for a group. Nothing is sent.

    Example: ruler prompt rollouts.jsonl --group task-17

    Exit codes: 0 printed; 2 bad usage or unreadable input.
    """
    with told():
        from contextlib import ExitStack

        from ruler_cli.errors import UsageError
        from ruler_cli.files.source import shown
        from ruler_cli.judges.choose import model_of
        from ruler_cli.reading import open_input
        from ruler_cli.scoring.request import compose, lay_out

        context = model_of(JudgeSettings(model, api_base)).context
        ask = AskSettings(options.rubric(rubric), order, seed, context)
        name = shown(source)
        console = Console("log", name)
        where = InputSettings(source, format_, grouping, group_by, messages=messages)
        with ExitStack() as stack:
            found = open_input(where, stack, console.problem)
            for one in found.groups:
                if group is None or one.key == group:
                    break
            else:
                which = "there is no group" if group is None else f"there is no group {group!r}"
                raise UsageError(f"{name}: {which}; `ruler check {name}` says how groups are found")
            sheet = lay_out(one, ask)
            if not sheet.bodies:
                raise UsageError(f"{name}: group {one.key!r} has no trajectory that can be judged")
            request = compose(sheet, ask).request
        typer.echo(safe(f"system:\n{request.system}\n\nuser:\n{request.user}"))
