"""Print sentences on stderr: messages, errors with the way out, and usage errors of typer.

Control characters never reach a terminal raw.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer

from ruler_cli.errors import InterruptedRun, ReaderGone, RulerError
from ruler_cli.reading.location import Location

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could move a terminal's cursor, change its colour or turn its text around."""
UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters without a width of their own on a terminal, e.g. joiners and variation selectors."""
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))")
_OWN_OPTIONS = frozenset({"--target", "--timeout", "--settle"})
_OWN_FLAGS = frozenset({"--wait"})
"""Options with and without a value that `batch submit` and `render` do not share with `score`."""
OPTIONS_OF_OTHERS = {
    "--api-key": "--api-key-env VAR; a key never stands on a command line",
    "--base-url": "--api-base",
    "--batch-size": "--concurrency",
    "--best": "--keep",
    "--budget": "--max-cost",
    "--dryrun": "--dry-run",
    "--endpoint": "--api-base",
    "--filter": "--where",
    "--head": "--limit",
    "--html": "--output FILE.html",
    "--json": "--summary FILE",
    "--key": "--group",
    "--max-groups": "--limit",
    "--max-samples": "--limit",
    "--max-tokens": "-p max_tokens=VALUE",
    "--min-score": "--where score=LOW..",
    "--models": "--judge-model",
    "--n": "--limit",
    "--no-ledger": "--no-cache",
    "--no-progress": "--quiet",
    "--num-groups": "--limit",
    "--reasoning-effort": "-p reasoning_effort=VALUE",
    "--samples": "--passes",
    "--silent": "--quiet",
    "--temperature": "-p temperature=VALUE",
    "--threads": "--concurrency",
    "--token": "--api-key-env VAR; a key never stands on a command line",
    "--top": "--keep",
    "--top-p": "-p top_p=VALUE",
    "--verbose": "--debug",
    "--votes": "--passes",
    "--workers": "--concurrency",
    "-n": "--limit",
    "-v": "--version",
}
"""Options that other tools have, and what to write instead."""
COMMANDS_OF_OTHERS = {
    "compare": "agree", "cost": "check", "estimate": "check", "evaluate": "score", "filter": "select",
    "grade": "score", "help": "--help", "inspect": "report", "judge": "score", "run": "score",
    "show": "report", "stats": "ledger stats", "status": "batch status", "submit": "batch submit",
    "validate": "check",
}  # fmt: skip
"""Commands that other tools have, and the words for the same here."""
_FILE_NAME = re.compile(r"-$|.*[./*]")
_ADDRESS = re.compile(r"\w+://[^\s')]*[^\s'):]")
_NO_COMMAND = re.compile(r"No such command ['\"](.*?)['\"]")
_MANY, _MISSING = "Got unexpected extra argument", "Missing argument"
_SEVERAL_INPUTS = "; several files are one INPUT as a directory, or as a pattern in quotes: 'part-*.jsonl'"


def print_stderr(text: str) -> None:
    """Print a line on stderr."""
    with suppress(OSError):  # a terminal or pipe that is gone must not end the run
        typer.echo(one_line(text), err=True)


def stderr_columns() -> int | None:
    """Return the columns of the terminal that stderr is; None if it is none."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    with suppress(OSError, ValueError):
        if columns := os.get_terminal_size(sys.stderr.fileno()).columns:
            return columns
    return shutil.get_terminal_size().columns


def print_note(*sentences: object) -> None:
    """Print sentences, or errors, of ruler on stderr, a line each."""
    for sentence in sentences:
        print_stderr(f"ruler: {sentence}")


@contextmanager
def report_errors(resume: str | None = None) -> Iterator[None]:
    """Print an error of a command as one sentence and exit with its code.

    `resume` is the command that continues the run.
    """
    try:
        yield
    except RulerError as error:
        if isinstance(error, ReaderGone):
            sys.stdout = None
        else:
            print_note(error)
            if resume and error.exit_code != 2:
                print_note(f"to go on: {resume}")
        if isinstance(error, InterruptedRun):
            # end at once: a thread may wait for ever for a pipe without another end
            with suppress(OSError, AttributeError):
                sys.stderr.flush()
            os._exit(error.exit_code)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # the reader of stdout is gone; closing stdout at exit would print a traceback
        sys.stdout = None
        raise typer.Exit(0) from None
    except MemoryError:
        print_note("a record, or what it is packed in, is too large for the memory there is")
        raise typer.Exit(1) from None
    except OSError as error:  # e.g. a name that is too long, or a full disk
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # text that cannot be written would fail once more at exit, with a traceback
            sys.stdout = None
        file = f"{error.filename}: " if error.filename else ""
        hint = "; make room, or name another directory for what waits on disk with TMPDIR"
        print_note(f"{file}{error.strerror or error}{hint if error.errno == errno.ENOSPC else ''}")
        raise typer.Exit(2 if error.filename else 1) from None


def report_usage_error(error: Exception) -> int | None:
    """Print a usage error of typer as one sentence; return the exit code, None for any other error.

    typer does not export the classes of its usage errors, so their attributes tell them.
    """
    if isinstance(error, typer.Abort):
        print_note("aborted")
        return 1
    if not callable(getattr(error, "format_message", None)):
        return None
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # the help, on stderr
    else:
        print_note(f"{_ADDRESS.sub(lambda match: Location(match[0]).public, _usage_sentence(error))}")
    return int(getattr(error, "exit_code", 2))


def _usage_sentence(error: Any) -> str:
    message, ctx = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if ctx is None:  # an option without its value, or with one too many
        return f"{message}; its command lists what it takes with --help"
    see = f"; `{ctx.command_path} --help` lists what there is"
    if hasattr(error, "possibilities"):
        return _unknown_option(error.option_name, error.possibilities, ctx) or f"{message}{see}"
    if (unknown := _NO_COMMAND.match(message)) is not None:
        command = COMMANDS_OF_OTHERS.get(unknown[1], "")
        if not command and _FILE_NAME.match(unknown[1]):
            command = "score INPUT OUTPUT"
        if command.split(" ")[0] in ("--help", *ctx.command.commands):
            return f"{unknown[0]}; did you mean `{ctx.command_path} {command}`?"
    if message.startswith((_MISSING, _MANY)):
        arguments = [str(one.metavar) for one in ctx.command.params if one.param_type_name == "argument"]
        several = _SEVERAL_INPUTS if message.startswith(_MANY) and "INPUT" in arguments else ""
        return f"{message}; write `{' '.join((ctx.command_path, *arguments))}`{several}"
    return message if message.endswith("?") else f"{message}{see}"


def _unknown_option(name: str, near: Sequence[str] | None, ctx: Any) -> str | None:
    """Return a sentence with the option to write instead, or the commands that have it; None for neither."""
    instead, problem = OPTIONS_OF_OTHERS.get(name), f"{name}: is no option of `{ctx.command_path}`"
    if instead and re.split("[ ;]", instead)[0] in _options(ctx.command):
        return f"{problem}; write {instead}"
    root = ctx.find_root()
    others = [
        f"`{root.command_path} {n}`" for n, one in root.command.commands.items() if name in _options(one)
    ]
    if others:
        return f"{problem}; it belongs to {', '.join(others)}"
    return f"{problem}; did you mean {near[0]}?" if near and not instead else None


def _options(command: Any) -> set[str]:
    return {name for param in command.params for name in param.opts}


def same_command(*addresses: str) -> str:
    """Return the command line that runs, without the passwords in its `addresses`."""
    return shlex.join(
        ["ruler", *(Location(word).public if word in addresses else word for word in sys.argv[1:])]
    )


def ledger_option(words: Sequence[str]) -> str:
    """Return ` --ledger PATH` as a command line has it, for the next command; empty without one."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--ledger":
            return f" --ledger {shlex.quote(value if equals else next(rest, ''))}"
    return ""


def collect_command() -> str:
    """Return the command that takes in the answers of batches, for the ledger of this command."""
    return f"ruler batch collect{ledger_option(sys.argv)}"


def score_command(words: Sequence[str], source: str, requests: str | None = None) -> str:
    """Return the `ruler score …` that follows a `ruler batch submit` or `ruler render`; OUTPUT is a word.

    `words` are those behind the command, `requests` is the argument in OUTPUT's position, if there is one.
    """
    out, rest, arguments = list[str](), iter(words), [source, requests]
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in _OWN_OPTIONS and not equals:
            next(rest, None)
        elif arguments and word == arguments[0]:
            out.append(shlex.quote(Location(word).public) if len(arguments) > 1 else "OUTPUT")
            arguments = arguments[1:]
            out += ["OUTPUT"] if arguments == [None] else []
        elif name not in _OWN_OPTIONS | _OWN_FLAGS:
            out.append(shlex.quote(word))
    return f"ruler score {' '.join(out)} --cached-only"


def safe(text: str) -> str:
    """Return text with characters of UNSAFE as escapes."""
    return UNSAFE.sub(lambda c: escape(c[0]), text)


def one_line(text: str) -> str:
    """Return text with characters of UNSAFE, line breaks and tabs as escapes."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> str:
    """Return text with characters of UNSAFE and UNSEEN as escapes; line breaks and tabs stay."""
    return UNSEEN.sub(lambda c: escape(c[0]), safe(text))


def escape(character: str) -> str:
    """Return a character as `\\xHH`, `\\uHHHH` or `\\UHHHHHHHH`, as a shell reads it."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def printable_key(key: str, has: Callable[[str], bool] = lambda _: True) -> str:
    """Return a group's key as it is printed, and as `--group` takes it back; no two keys look alike.

    A key with a character that is unseen, or that the terminal does not have by `has`, becomes `$'…'`,
    which bash, zsh and ksh turn back into the key.
    """

    def plain(text: str) -> bool:
        return text.isprintable() and visible(text) == text and has(text)

    if key and plain(key) and key == key.strip() and not key.startswith("$'"):
        return key
    return "$'" + "".join(c if plain(c) and c not in "\\'" else escape(c) for c in key) + "'"


def parse_key(text: str) -> str:
    """Return the key of a text of `printable_key`; text that is not `$'…'` is the key itself."""
    if len(text) < 3 or not (text.startswith("$'") and text.endswith("'")):
        return text
    return _ESCAPED.sub(lambda c: chr(int(c[1] or c[2] or c[3], 16)), text[2:-1])


def safe_value(value: Any) -> Any:
    """Return a JSON value with `safe` applied to its texts and keys."""
    if isinstance(value, dict):
        return {safe_value(key): safe_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [safe_value(item) for item in value]
    return safe(value) if isinstance(value, str) else value
