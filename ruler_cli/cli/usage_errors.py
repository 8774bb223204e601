"""Print usage errors of typer as one sentence, with what to write instead."""

from __future__ import annotations

from typing import Any

import typer

from ruler_cli.cli.messages import print_note
from ruler_cli.settings.suggestions import nearest, question

_NEAR = 0.8
"""Likeness, from 0 to 1, of a misspelt option and the one that is meant."""


def report_usage_error(error: Exception) -> int | None:
    """Print a usage error of typer as one sentence; return the exit code, None for any other error.

    typer does not export the classes of its usage errors, so their attributes tell them.
    """
    if isinstance(error, typer.Abort):
        print_note("aborted")
        return 1
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # the help, on stderr
        return 2
    if not callable(getattr(error, "format_message", None)):
        return None
    print_note(_sentence(error))
    return 2


def _sentence(error: Any) -> str:
    message: str = error.format_message().rstrip(".")
    ctx: Any = getattr(error, "ctx", None)
    command = (
        "" if ctx is None else f"; `{ctx.command_path} --help` lists what it takes"
    )
    if hasattr(error, "possibilities"):
        near = _nearest_option(error.option_name, ctx.command)
        return f"no such option: {error.option_name}{question(near) or command}"
    return f"{message}{command if not message.endswith('?') else ''}"


def _nearest_option(name: str, command: Any) -> str | None:
    own = [
        option
        for param in command.params
        for option in (*param.opts, *param.secondary_opts)
    ]
    longer = [option for option in own if option.startswith(name)]
    return longer[0] if len(longer) == 1 else nearest(name, own, _NEAR)
