"""The reference of the commands in docs/cli.md, generated from their help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from ruler_cli.cli import app
from tests.command import run_here
from tests.docs.pages import ROOT, Report, between, read

PAGE = "docs/cli.md"
_MARK = "help"


def commands() -> list[str]:
    """Return every command as a user types it, `ruler` alone first."""
    return [
        "ruler",
        *(f"ruler {name}" for name in _names(typer.main.get_command(app))),
    ]


def _names(group: Any) -> Iterator[str]:
    for name in group.commands:
        command = group.get_command(None, name)
        if getattr(command, "hidden", False):
            continue
        yield name
        if hasattr(command, "commands"):
            yield from (f"{name} {inner}" for inner in _names(command))


def reference() -> str:
    """Return the help of every command as Markdown, a section for each."""
    names = commands()
    screen = {
        "COLUMNS": "100",
        "TERMINAL_WIDTH": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    texts = [
        run_here([*name.split()[1:], "--help"], "", ROOT, screen).stdout
        for name in names
    ]
    sections = (
        f"\n## {name}\n\n```text\n{text.strip()}\n```\n"
        for name, text in zip(names, texts, strict=True)
    )
    return "".join(sections) + "\n"


def with_reference(text: str) -> str:
    """Return docs/cli.md with the help of every command between its comments."""
    return between(text, _MARK, reference())


def check_reference(report: Report) -> None:
    """Check that docs/cli.md holds the help of every command as it is."""
    text = read(PAGE)
    report.same(f"{PAGE}: the help of the commands", text, with_reference(text))
    report.done.append(f"{len(commands())} help texts")
