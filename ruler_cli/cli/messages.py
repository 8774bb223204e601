"""Print sentences on stderr: messages, and errors with the way out.

Control characters never reach a terminal raw.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import typer

from ruler_cli.cli.safe_text import one_line
from ruler_cli.errors import (
    InterruptedRun,
    ReaderGone,
    RulerError,
    UsageError,
    system_problem,
)
from ruler_cli.settings.fields import option_name, public_name
from ruler_cli.settings.keys import HIDDEN, hide_keys, holds_secret
from ruler_cli.settings.suggestions import instead_of, question, suggestion_for

_PREFIX = "ruler: "
_UNKNOWN = re.compile("No such (option|command):? '?([^' ]+)")


def print_stderr(text: str) -> None:
    """Print a line on stderr, without the keys that stand in it."""
    with suppress(
        OSError
    ):  # a terminal or pipe that is gone must not end the run
        typer.echo(one_line(hide_keys(text)), err=True)


def option_words(field: str, value: Any) -> list[str]:
    """Return an option and its value as words of a command line."""
    name = "--config" if field == "config" else option_name(field)
    if name.startswith("--set "):
        return ["--set", f"{public_name(field)}={value}"]
    if isinstance(value, bool):
        return [name if value else name.replace("--", "--no-", 1)]
    words = []
    for text in value if isinstance(value, list | tuple) else [value]:
        word = str(text)
        param, _, content = word.partition("=")
        names = (param, *_NAMES.findall(content))
        # it may hold headers or secrets, however short they are
        if field == "params" and any(map(holds_secret, names)):
            word = f"{param}={HIDDEN}"
        words += [name, word]
    return words


_NAMES = re.compile("""["']([\\w-]+)["']\\s*:""")
"""Names in an object."""


def hide_keys_of(value: Any) -> Any:
    """Return a JSON value whose texts hold no keys of a command line."""
    if isinstance(value, Mapping):
        return {
            hide_keys(name): hide_keys_of(content)
            for name, content in value.items()
        }
    if isinstance(value, list | tuple):
        return [hide_keys_of(item) for item in value]
    return hide_keys(value) if isinstance(value, str) else value


def hide_keys_of_tracebacks() -> None:
    """Have Python print the traceback of a bug without keys; the message of an error may hold one."""
    import traceback

    def show(
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        sys.stderr.write(
            hide_keys("".join(traceback.format_exception(kind, error, trace)))
        )

    sys.excepthook = show


def print_note(*sentences: object) -> None:
    """Print sentences, or errors, of ruler on stderr, a line each."""
    for sentence in sentences:
        print_stderr(f"{_PREFIX}{sentence}")


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error, or with an exit."""
    if isinstance(error, RulerError | typer.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return int(error.code or 0)
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, BrokenPipeError):
        return 0
    return 2 if isinstance(error, OSError) and error.filename else 1


@contextmanager
def report_errors(resume: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Print an error of a command as one sentence and exit with its code.

    `resume` returns the sentence with the command that continues the run, or an empty one.
    """
    try:
        yield
    except RulerError as error:
        if isinstance(error, ReaderGone):
            sys.stdout = None
        else:
            again = resume() if error.resumable else ""
            print_note(*filter(None, (str(error), again)))
        if isinstance(error, InterruptedRun):
            # end at once: a thread may wait for ever for a pipe without another end
            with suppress(OSError, AttributeError):  # stderr may be gone
                sys.stderr.flush()
            os._exit(error.exit_code)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError as error:
        # the reader of stdout is gone; closing stdout at exit would print a traceback
        sys.stdout = None
        raise typer.Exit(exit_code_of(error)) from None
    except MemoryError as error:
        print_note("a record, or what it is packed in, does not fit in memory")
        raise typer.Exit(exit_code_of(error)) from None
    except OSError as error:  # e.g. a name that is too long, or a full disk
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # text that cannot be written would fail once more at exit, with a traceback
            sys.stdout = None
        problem, remedy = system_problem(error)
        place = str(error.filename or "")
        print_note(UsageError(problem, remedy, place=place))
        raise typer.Exit(exit_code_of(error)) from None


def report_usage_error(error: Any) -> int | None:
    """Print a usage error, ours or typer's, as one sentence; return the exit code, None for any other error.

    typer does not export the classes of its usage errors, so their attributes tell them.
    """
    if isinstance(error, RulerError):  # before a command begins
        print_note(error)
        return error.exit_code
    if isinstance(error, typer.Abort):
        print_note("aborted")
        return 1
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # the help, on stderr
        return 2
    if not hasattr(error, "format_message"):
        return None
    message = error.format_message().rstrip(".")
    remedy = ""
    if error.ctx is not None:
        remedy = f"; `{error.ctx.command_path} --help` lists what it takes"
    unknown = _UNKNOWN.match(message)
    if unknown:
        kind, word = unknown.groups()
        message = f"no such {kind}: {word}"
        command = error.ctx.command
        choices = [*getattr(command, "commands", ())]
        for param in command.params:
            choices += [*param.opts, *param.secondary_opts]
        field = word.lstrip("-").removeprefix("no-").replace("-", "_")
        _, settings = getattr(command.callback, "takes", ((), ()))
        if field in settings:
            remedy = f"; it is a setting: use --set {field}=VALUE"
        elif instead := instead_of(word):
            remedy = f"; {instead}"
        elif near := suggestion_for(word, choices):
            remedy = question(near)
    print_note(message + remedy)
    return 2
