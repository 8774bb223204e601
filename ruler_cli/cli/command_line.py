"""A command line that could not be taken, as far as it can be followed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
import typer.main

from ruler_cli.files.remote import public


@dataclass(frozen=True, slots=True)
class Line:
    """A command line as far as it can be followed: the command it leads to, and the words behind."""

    root: Any
    command: Any
    names: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def called(self) -> str:
        """The command as it is typed."""
        return " ".join(("ruler", *self.names))

    @property
    def see(self) -> str:
        """The end of a sentence for somebody who looks for what there is."""
        return f"; `{self.called} --help` lists what there is"


def followed(error: Any, app: typer.Typer, words: list[str]) -> Line:
    """The line as far as typer came, which says so in most errors."""
    ctx = getattr(error, "ctx", None)
    root = ctx.find_root().command if ctx is not None else typer.main.get_command(app)
    names: list[str] = []
    command, at = root, 0
    while at < len(words) and hasattr(command, "commands") and not (ctx and ctx.command is command):
        if (inner := command.commands.get(words[at])) is not None:
            command, names = inner, [*names, words[at]]
        elif not words[at].startswith("-"):
            break
        at += 1
    return Line(root, command, tuple(names), tuple(words[at:] if names else words))


def is_option(word: str) -> bool:
    """Whether a word is an option; `-` alone is a file."""
    return word.startswith("-") and word != "-"


def options_of(command: Any) -> dict[str, Any]:
    """Every name of every option of a command."""
    return {
        name: param
        for param in command.params
        if param.param_type_name == "option"
        for name in (*param.opts, *param.secondary_opts)
    }


def long_options(command: Any) -> list[str]:
    """The names with two dashes, that of the help among them."""
    return [name for name in (*options_of(command), "--help") if name.startswith("--")]


def commands_below(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command and sub-command, as it is typed."""
    for name, inner in getattr(command, "commands", {}).items():
        yield " ".join(("ruler", *names, name)), inner
        yield from commands_below(inner, (*names, name))


def arguments_of(command: Any) -> list[Any]:
    """What a command takes by its place."""
    return [param for param in command.params if param.param_type_name == "argument"]


def usage(line: Line) -> str:
    """The command with what it must be given."""
    return " ".join((line.called, *(str(one.metavar) for one in arguments_of(line.command) if one.required)))


def given(param: Any, line: Line) -> tuple[str | None, str]:
    """The value of an option, and where it was given: on the command line or in its variable."""
    found, at = None, param.opts[0]
    words = iter(line.rest)
    for word in words:
        name, equals, value = word.partition("=")
        if word in param.opts:
            found, at = next(words, None), word
        elif equals and name in param.opts:
            found, at = value, name
        elif word[:2] in param.opts and not word.startswith("--"):
            found, at = word[2:], word[:2]
    if found is None and param.envvar and (kept := os.environ.get(param.envvar)) is not None:
        return kept, f"{param.envvar}={kept}"
    return found, f"{at} {found or ''}".rstrip()


def shown_word(text: Any) -> str:
    """A word as a shell takes it, without what an address holds of keys."""
    return shlex.quote(public(str(text)))
