"""Run a command: read its options, report its errors, and name the command that comes next."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import typer

from ruler_cli.cli.messages import option_words, print_note, report_errors
from ruler_cli.cli.safe_text import shell_word
from ruler_cli.errors import UnknownShapeError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.fields import SECTIONS, SettingError, refuse_unknown
from ruler_cli.settings.load import (
    field_named,
    named_sources,
    read_options,
    variables_of,
)
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import COMMAND_LINE, FILE, Options
from ruler_cli.settings.suggestions import instead_of

_NOT_SCORED = {
    "wait",
    "settle",
    "retry_failed",
    "force",
}
"""Options of `batch export` and `batch submit` that `score` does not take, or that the next one does not need."""


@contextmanager
def running(
    ctx: typer.Context,
    *arguments: Any,
    resumes: bool = False,
    record: AbstractContextManager[object] | None = None,
) -> Iterator[Options]:
    """Yield the options of a command, whose errors are printed as one sentence.

    For a command that `resumes`, another sentence names the command to go on with. `record` sees how it ends.
    """
    options = Options()

    def resume() -> str:
        if not resumes:
            return ""
        lost = options.ledger_name == "none"
        how = "no reply is kept; to start over" if lost else "to resume"
        names = [word for word in arguments if isinstance(word, str)]
        again = command_line(options, command_name(ctx), *names)
        return f"{how}: {again}"

    with report_errors(resume), record or nullcontext():
        warn_of_variables()
        options = options_of(ctx)
        try:
            with named_sources(options.origins):
                yield options
        except UnknownShapeError as error:
            from ruler_cli.cli.proposal import refuse

            asked = command_name(ctx) == "check"
            command = partial(
                command_line,
                options,
                "check",
                arguments[0],
            )
            raise refuse(
                error,
                command,
                options,
                check=asked,
            ) from None


def command_name(ctx: typer.Context) -> str:
    """Return the words of a command behind `ruler`."""
    return ctx.command_path.partition(" ")[2]


def options_of(ctx: typer.Context) -> Options:
    """Return the options of a command: those that were typed, and what variables and the file set."""
    callback: Any = ctx.command.callback
    options, settings = callback.takes
    names = (*options, *settings)
    typed: dict[str, Any] = {}
    for name in options:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            typed[name] = ctx.params[name]
    if ctx.params.get("quiet"):
        typed["progress"] = "none"
    for text in ctx.params.get("settings") or ():
        name, equals, value = text.partition("=")
        field = field_named(name)
        refuse_unknown((field,), names)
        if not equals:
            raise UsageError(
                "is not NAME=VALUE", f"write {name}=VALUE", place="--set"
            )
        if field in typed:
            raise SettingError(field, "is set twice", "leave one out")
        typed[field] = value
    return read_options(names, typed, ctx.params["config"])


def warn_of_variables() -> None:
    """Warn of each variable that sets no option; UsageError if an option has another name here."""
    known = (*variables_of(SECTIONS), "RULER_CONFIG")
    for variable in os.environ:
        if not variable.startswith("RULER_") or variable in known:
            continue
        # RULER_VERSION and the like are somebody's own, --max-spend is a mistake about an option
        remedy = instead_of(variable.removeprefix("RULER_")) or ""
        if remedy.startswith("use -"):
            raise UsageError("is not a setting", remedy, place=variable)
        print_note(
            f"warning: {variable} is not a setting; `ruler config --all` lists them"
        )


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
    words = ["ruler", *command.split()]
    for argument in arguments:
        name = Location(argument).public
        # a file's name is no option
        words.append(name if name == "-" else re.sub("^-", "./-", name))
    values = {
        name: origin.value
        for name, origin in options.origins.items()
        if name not in leave
        and (
            origin.rank == COMMAND_LINE
            or (name == "ledger" and origin.rank > FILE)
        )
    }
    if options.config is not None:
        values["config"] = options.config
    for name, value in (values | more).items():
        words += option_words(name, value)
    return " ".join(map(shell_word, words))


def _leave_no_ledger(options: Options) -> set[str]:
    """Return `ledger` if no replies are kept: the command that comes next takes them from the default one."""
    return {"ledger"} if options.ledger_name == "none" else set()


def ledger_command(options: Options, command: str, *arguments: str) -> str:
    """Return a command line that takes the ledger and the file of settings of this one."""
    leave = {*options.origins} - {"ledger"} | _leave_no_ledger(options)
    return command_line(
        options,
        command,
        *arguments,
        leave=leave,
    )


def score_command(options: Options, source: str) -> str:
    """Return the `ruler score` that writes the output once the ledger has the replies."""
    leave = _NOT_SCORED | _leave_no_ledger(options)
    return command_line(
        options, "score", source, "OUTPUT", leave=leave, cached_only=True
    )


def print_file_note(options: Options, settings: ScoreSettings) -> None:
    """Print what a run takes from the file, which may be somebody else's, and where that sends rollouts or a key.

    If the run is quiet, only the latter.
    """
    file = options.file
    if file is None:
        return
    taken = [name for name in options.origins if options.rank(name) == FILE]
    keys = {*taken}
    for judge in settings.judges:
        if judge.name in file.judges:
            keys |= file.judges[judge.name].keys()
            taken.append(f"judge {judge.name}")
    sentences = [f"settings of {file.name}: {', '.join(taken)}"]
    if not keys.isdisjoint(("api_base", "api_key_env")):
        for judge in settings.judges:
            where = Location(judge.api_base or "its provider").public
            key = judge.api_key_env and f" with the key in {judge.api_key_env}"
            sentences.append(f"{judge.label} is asked at {where}{key or ''}")
    elif options.progress == "none" or not taken:
        return
    print_note("; ".join(sentences))
