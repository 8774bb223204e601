"""Run a command: read its options, report its errors, and name the command that comes next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from ruler_cli.cli.messages import option_name, print_note, report_errors
from ruler_cli.errors import RulerError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import named_sources, read_options, variables_of
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import COMMAND_LINE, FIELDS, FILE, PER_RUN, Options
from ruler_cli.settings.suggestions import nearest

_NOT_SCORED = ("target", "wait", "wait_timeout", "settle", "retry_failed", "ledger")
"""Options of `render` and `batch submit` that `score` does not take, or that the next one does not need."""


@contextmanager
def running(
    ctx: typer.Context,
    *arguments: Any,
    resumes: bool = False,
    refused: Callable[[Mapping[str, Any], RulerError], object] = lambda *_: None,
) -> Iterator[Options]:
    """Yield the options of a command, whose errors are printed as one sentence.

    For a command that `resumes`, another sentence names the command to go on with. `refused` is told of
    options that are refused.
    """
    command = ctx.command_path.partition(" ")[2]
    options: Options | None = None

    def resume() -> str:
        if options is None or not resumes:
            return ""
        names = [word for word in arguments if isinstance(word, str)]
        kept = options.ledger != ("none",)
        how = "to resume" if kept else "no reply is kept; to start again"
        return f"{how}: {command_line(options, command, *names)}"

    with report_errors(resume):
        warn_of_variables()
        try:
            options = options_of(ctx, command)
        except RulerError as error:
            refused(ctx.params, error)
            raise
        with named_sources(options.origins):
            yield options


def options_of(ctx: typer.Context, command: str) -> Options:
    """Return the options of a command: those that were typed, and what variables and the file set."""
    typed = {}
    for name in [name for name in ctx.params if name in FIELDS]:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            typed[name] = ctx.params[name]
    return read_options(
        command, FIELDS & ctx.params.keys(), typed, ctx.params["config"]
    )


def warn_of_variables() -> None:
    """Warn of each variable that is nearly one of an option, or that of an option for one run."""
    given = [name for name in os.environ if name.startswith("RULER_")]
    known = variables_of(FIELDS) if given else {}
    for name in given:
        if name in known or name == "RULER_CONFIG":
            continue
        field = name.removeprefix("RULER_").lower()
        near = nearest(name, known, 0.8)
        if field in PER_RUN or f"{field}_" in PER_RUN:
            print_note(
                f"warning: {name} has no effect; give {option_name(field)} for each run"
            )
        elif near is not None:
            print_note(f"warning: {name} has no effect; did you mean {near}?")


def command_line(
    options: Options,
    command: str,
    *arguments: str,
    leave: Collection[str] = (),
    **more: Any,
) -> str:
    """Return a command line with the options of this one, and `more`, for a user to copy.

    Options are those of the command line, and the ledger that a variable names: it may be set for this
    command alone. `leave` are fields of options that the command does not take.
    """
    words = ["ruler", *command.split(), *(Location(one).public for one in arguments)]
    values = {
        name: origin.given
        for name, origin in options.origins.items()
        if origin.rank == COMMAND_LINE or (name == "ledger" and origin.rank > FILE)
    }
    if options.config is not None:
        values["config"] = options.config
    values = {name: value for name, value in values.items() if name not in leave} | more
    for name, value in values.items():
        words += _words(name, value)
    return shlex.join(words)


def ledger_command(options: Options, command: str, *arguments: str) -> str:
    """Return a command line that takes the ledger and the file of settings of this one."""
    leave = {*options.origins} - {"ledger"}
    if options.ledger_name == "none":
        leave.add("ledger")
    return command_line(options, command, *arguments, leave=leave)


def score_command(options: Options, source: str) -> str:
    """Return the `ruler score` that writes the output once the ledger has the replies."""
    leave = [
        name
        for name in _NOT_SCORED
        if name != "ledger" or options.ledger_name == "none"
    ]
    return command_line(
        options, "score", source, "OUTPUT", leave=leave, cached_only=True
    )


def _words(field: str, value: Any) -> list[str]:
    """Return an option and its value as words of a command line."""
    name = option_name(field)
    if value is True:
        return [name]
    if value is False:
        return [name.replace("--", "--no-", 1)]
    several = value if isinstance(value, list | tuple) else [value]
    return [word for one in several for word in (name, str(one))]


def print_file_note(options: Options, settings: ScoreSettings) -> None:
    """Print what a run takes from the file, which may be somebody else's.

    If the run is quiet, only where that sends rollouts or a key.
    """
    file = options.file
    if file is None:
        return
    taken = [name for name in options.origins if options.rank(name) == FILE]
    sent = []
    for judge in settings.judges:
        table = file.judges.get(judge.name)
        if table is not None:
            taken.append(f"judge {judge.name}")
        ways = [
            f"{words} {Location(value).public}"
            for name, words in (("api_base", "at"), ("api_key_env", "with the key in"))
            if (value := getattr(judge, name))
            and (value == table.get(name) if table else options.rank(name) == FILE)
        ]
        if ways:
            sent.append(f"{judge.label} is asked {' '.join(ways)}")
    if taken and (sent or options.progress != "none"):
        print_note("; ".join([f"settings of {file.name}: {', '.join(taken)}", *sent]))
