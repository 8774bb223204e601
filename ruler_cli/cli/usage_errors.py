"""Print usage errors of typer as one sentence, with what to write instead."""

from __future__ import annotations

import os
import re
from typing import Any

import typer

from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.errors import RulerError
from ruler_cli.files.location import Location

_NEAR = 0.8
"""Likeness, from 0 to 1, of a misspelt option and one that exists: --passs, and not --force and --price."""
_SHORT = 5
"""Characters of an option that begins too many others."""
_ADDRESS = re.compile(r"\w+://[^\s')]*[^\s'):]")


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
    if not isinstance(error, RulerError) and not callable(
        getattr(error, "format_message", None)
    ):
        return None
    print_note(usage_sentence(error))
    return int(getattr(error, "exit_code", 2))


def usage_sentence(error: Any) -> str:
    """Return a usage error of typer, or an error before the command begins, as one sentence."""
    if isinstance(error, RulerError):
        return command_words(error)
    return _ADDRESS.sub(lambda match: Location(match[0]).public, _sentence(error))


def _sentence(error: Any) -> str:
    message, ctx = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if ctx is None:  # an option without its value, or with one too many
        return f"{message}; its command lists what it takes with --help"
    see = f"; `{ctx.command_path} --help` lists what there is"
    if hasattr(error, "possibilities"):
        near = _nearest_option(error.option_name, ctx.command)
        unknown = f"no such option: {error.option_name}"
        return f"{unknown} (did you mean {near}?)" if near else f"{unknown}{see}"
    param = getattr(error, "param", None)
    if param is not None and param.param_type_name == "option":
        return f"{_source(param, ctx)}: {error.message.rstrip('.')}"
    if message.endswith("?"):
        return str(message)
    if hasattr(ctx.command, "commands"):
        return f"{message}{see}"
    arguments = [
        str(one.metavar)
        for one in ctx.command.params
        if one.param_type_name == "argument"
    ]
    return f"{message}; write `{' '.join((ctx.command_path, *arguments))}`"


def _nearest_option(name: str, command: Any) -> str | None:
    from ruler_cli.settings.suggestions import nearest

    own = [
        option
        for param in command.params
        for option in (*param.opts, *param.secondary_opts)
    ]
    longer = [one for one in own if len(name) > _SHORT and one.startswith(name)]
    return nearest(name, own, _NEAR) or (longer[0] if len(longer) == 1 else None)


def _source(param: Any, ctx: Any) -> str:
    """Return the name of an option, or of the variable that gave its value."""
    source = ctx.get_parameter_source(param.name)
    if getattr(source, "name", "") != "ENVIRONMENT":
        return str(max(param.opts, key=len))
    variables = param.envvar if isinstance(param.envvar, list) else [param.envvar]
    return str(next(one for one in variables if os.environ.get(one)))
