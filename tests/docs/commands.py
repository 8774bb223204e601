"""The reference of the commands in docs/cli.md, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import typer.main

from ruler_cli.cli import app
from tests.docs.pages import Report, between, read

PAGE = "docs/cli.md"
_MARK = "help"
_FIRST = ("score", "report")
"""The commands whose options the others repeat."""


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
    sections: list[str] = []
    for name, command in listed:
        usage = [f"ruler {name}"]
        rows = _options(command)
        usage += [option for option in rows if not option.startswith("-")]
        also = ""
        for first in takewhile(name.__ne__, _FIRST):
            shared = _options(dict(listed)[first])
            same = [one for one in rows if rows[one] == shared.get(one)]
            rows = {one: rows[one] for one in rows if one not in same}
            if same:
                short = [f"`{one.split()[0].rstrip(',')}`" for one in same]
                also += f" As for `{first}`: {', '.join(short)}."
        summary = str(command.help).strip().split("\n")[0]
        if " " in name:  # a command of a group is a row of the group's table
            words = [f"`{option}`: {text}" for option, text in rows.items()]
            cell = "<br>".join(filter(None, [summary, *words, also.strip()]))
            sections[-1] += _row(" ".join(usage), cell) + "\n"
            continue
        lines = [
            f"## ruler {name}",
            "",
            f"`{' '.join(usage)}`: {summary}",
        ]
        if rows or hasattr(command, "list_commands"):
            lines += ["", "| | |", "| --- | --- |"]
        lines += [_row(option, text) for option, text in rows.items()]
        if also:
            lines += ["", also.strip()]
        sections.append("\n" + "\n".join(lines) + "\n")
    return "".join(sections) + "\n"


def _options(command: Any) -> dict[str, str]:
    """Return the help of each argument and option of a command by its names, as a user types them."""
    options = {}
    for param in command.params:
        if param.param_type_name == "argument":
            options[str(param.metavar)] = str(param.help)
        elif not param.hidden:
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
    report.done.append("all commands")
