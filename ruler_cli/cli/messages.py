"""Sentences on stderr: control characters never reach a terminal raw, and errors name the way out."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer

from ruler_cli.errors import InterruptedRun, ReaderGone, RulerError
from ruler_cli.reading.location import Location

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could move a terminal's cursor or colour, or turn what stands on it around."""
UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""What takes no place on a terminal, or one that depends on the terminal: a joiner, a variation."""
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))")
_VALUED = frozenset({"--target", "--timeout", "--settle"})
_FLAGS = frozenset({"--wait"})
"""Options of `ruler batch submit` and `ruler render` that `ruler score` has not, or for another thing."""


def safe(text: str) -> str:
    """Text with what could move a terminal's cursor or colour shown as escapes."""
    return UNSAFE.sub(lambda c: escape(c[0]), text)


def one_line(text: str) -> str:
    """The same with line breaks and tabs as escapes."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> str:
    """Text with everything that cannot be seen shown as an escape; line breaks and tabs stay."""
    return UNSEEN.sub(lambda c: escape(c[0]), safe(text))


def escape(character: str) -> str:
    """A character as `\\xHH`, `\\uHHHH` or `\\UHHHHHHHH`, as a shell reads it."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def printable_key(key: str, has: Callable[[str], bool] = lambda _: True) -> str:
    """A group's key as it is printed, and as `--group` takes it back; no two keys are printed alike.

    One with something that cannot be seen, or that `has` says cannot be shown, is printed as `$'…'`,
    which bash, zsh and ksh turn back into it.
    """

    def plain(text: str) -> bool:
        return text.isprintable() and visible(text) == text and has(text)

    if key and plain(key) and key == key.strip() and not key.startswith("$'"):
        return key
    return "$'" + "".join(c if plain(c) and c not in "\\'" else escape(c) for c in key) + "'"


def parse_key(text: str) -> str:
    """The key that `printable_key` printed as this text; text that is no `$'…'` is the key itself."""
    if len(text) < 3 or not (text.startswith("$'") and text.endswith("'")):
        return text
    return _ESCAPED.sub(lambda c: chr(int(c[1] or c[2] or c[3], 16)), text[2:-1])


def safe_value(value: Any) -> Any:
    """A value whose texts can be written as UTF-8 and read on a terminal."""
    if isinstance(value, dict):
        return {safe_value(key): safe_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [safe_value(item) for item in value]
    return safe(value) if isinstance(value, str) else value


def print_stderr(text: str) -> None:
    """One line on stderr."""
    with suppress(OSError):  # a terminal or pipe that is gone must not end the run
        typer.echo(one_line(text), err=True)


@contextmanager
def report_errors(resume: str | None = None) -> Iterator[None]:
    """Turn what stops a command into one sentence and its exit code."""
    try:
        yield
    except RulerError as error:
        if isinstance(error, ReaderGone):
            sys.stdout = None
        else:
            print_stderr(f"ruler: {error}")
            if resume and error.exit_code != 2:
                print_stderr(f"ruler: to go on: {resume}")
        if isinstance(error, InterruptedRun):
            # at once: a thread may wait for a pipe that nobody reads or writes any more
            with suppress(OSError, AttributeError):
                sys.stderr.flush()
            os._exit(error.exit_code)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # nobody reads any more; a traceback at exit would be all that is left to see
        sys.stdout = None
        raise typer.Exit(0) from None
    except MemoryError:
        print_stderr("ruler: a record, or what it is packed in, is too large for the memory there is")
        raise typer.Exit(1) from None
    except OSError as error:  # a name too long, no room for what waits on disk: no module can foresee all
        where = f"{error.filename}: " if error.filename else ""
        room = "; make room, or name another directory for what waits on disk with TMPDIR"
        print_stderr(f"ruler: {where}{error.strerror or error}{room if error.errno == errno.ENOSPC else ''}")
        raise typer.Exit(2 if error.filename else 1) from None


def ledger_option(words: Sequence[str]) -> str:
    """` --ledger PATH` where a command line names one: what follows must find the same."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--ledger":
            return f" --ledger {shlex.quote(value if equals else next(rest, ''))}"
    return ""


def score_command(words: Sequence[str], source: str, requests: str | None = None) -> str:
    """`ruler score …` for a line of `ruler batch submit` or `ruler render`; OUTPUT is left to be named.

    `words` are those behind the command, `requests` is the argument in OUTPUT's place, if there is one.
    """
    found, rest, left = list[str](), iter(words), [source, requests]
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in _VALUED and not equals:
            next(rest, None)
        elif left and word == left[0]:
            found.append(shlex.quote(Location(word).public) if len(left) > 1 else "OUTPUT")
            left = left[1:]
            found += ["OUTPUT"] if left == [None] else []
        elif name not in _VALUED | _FLAGS:
            found.append(shlex.quote(word))
    return f"ruler score {' '.join(found)} --cached-only"
