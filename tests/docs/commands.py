"""The reference of the commands in docs/cli.md, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from ruler_cli.cli import app
from tests.docs.pages import Report, between, read

PAGE = "docs/cli.md"
_MARK = "help"
_FIRST = "score"
"""The command whose options the others repeat."""


def commands() -> list[tuple[str, Any]]:
    """Return every command that a user can type and its name, that of a group before its own."""
    return list(_commands("", typer.main.get_command(app)))


def _commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if command.hidden:
            continue
        yield f"{prefix}{name}", command
        if hasattr(command, "list_commands"):
            yield from _commands(f"{prefix}{name} ", command)


def reference() -> str:
    """Return the commands as Markdown: a section with a table for each, and one for a group of commands."""
    listed = commands()
    options_of_score = _options(dict(listed)[_FIRST])
    sections: list[str] = []
    for name, command in listed:
        shared = {} if name == _FIRST else options_of_score
        usage, rows, repeated = _described(name, command, shared)
        summary = str(command.help).strip().partition("\n")[0]
        if repeated:
            also = f"And as for `{_FIRST}`: {', '.join(repeated)}"
        else:
            also = ""
        if " " in name:  # a command of a group is a row of the group's table
            words = [f"`{option}`: {text}" for option, text in rows.items()]
            cell = "<br>".join([summary, *words, *filter(None, [also])])
            sections[-1] += _row(usage, cell) + "\n"
            continue
        lines = [f"## ruler {name}", "", f"`{usage}`: {summary}"]
        if rows or hasattr(command, "list_commands"):
            lines += ["", "| | |", "| --- | --- |"]
        lines += [_row(option, text) for option, text in rows.items()]
        if also:
            lines += ["", also]
        sections.append("\n" + "\n".join(lines) + "\n")
    return "".join(sections) + "\n"


def _described(
    name: str, command: Any, shared: dict[str, str]
) -> tuple[str, dict[str, str], list[str]]:
    """Return how a command is called, the help of its arguments and options, and the options that are `shared`."""
    usage = [f"ruler {name}"]
    rows = {}
    for param in command.params:
        if param.param_type_name == "argument":
            usage.append(str(param.metavar))
            rows[str(param.metavar)] = str(param.help)
    repeated = []
    for option, text in _options(command).items():
        if shared.get(option) == text:
            repeated.append(f"`{option.split()[0].rstrip(',')}`")
        else:
            rows[option] = text
    return " ".join(usage), rows, repeated


def _options(command: Any) -> dict[str, str]:
    """Return the help of each option of a command by its names, as a user types them."""
    options = {}
    for param in command.params:
        if param.param_type_name == "argument" or param.hidden:
            continue
        names = ", ".join(sorted(param.opts, key=len))
        value = "" if param.is_flag else f" {param.metavar}"
        options[f"{names}{value}"] = " ".join(str(param.help).split())
    return options


def _row(words: str, text: str) -> str:
    cells = [cell.replace("|", "\\|") for cell in (f"`{words}`", text)]
    return f"| {' | '.join(cells)} |"


def with_reference(text: str) -> str:
    """Return docs/cli.md with the reference of every command between its comments."""
    return between(text, _MARK, reference())


def check_reference(report: Report) -> None:
    """Check that docs/cli.md holds the options of every command as they are."""
    text = read(PAGE)
    report.same(f"{PAGE}: the options", text, with_reference(text))
    report.done.append(f"{len(commands())} commands")
