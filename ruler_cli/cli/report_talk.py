r"""A judge's lines → text to read: JSON strings with their line breaks, everything unseen visible.

A line is `role: "JSON string"`, `call NAME: JSON`, `tool NAME: JSON` (see `scoring.render`), or a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from ruler_cli.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

_HEAD = re.compile(r'((?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*")(?: (?:[A-Za-z0-9_.\-]+|"(?:[^"\\]|\\.)*"))*): ')
_INDENT = 2
_AT_ONCE = 2000
"""Lines of a text that are laid out at once: it is shown as it comes."""
_ROLES = {"user": "blue", "assistant": "green", "call": "magenta", "tool": "cyan", "system": "yellow"}


def show(lines: Sequence[str], terminal: Terminal, start: int = 0) -> None:
    """Write some lines, from number `start` on."""
    for line in lines[start:]:
        terminal.show(*_parts(line, terminal))


def _parts(line: str, terminal: Terminal) -> Iterator[RenderableType]:
    head, body = split(line)
    if head:
        told = terminal.text(head, f"bold {_ROLES.get(head.split(' ')[0], '')}")
        yield told if told.cell_len <= terminal.width else indented(told)
    lines = body.split("\n")
    for at in range(0, len(lines), _AT_ONCE):
        yield indented(terminal.text("\n".join(lines[at : at + _AT_ONCE]), lines=True))


def indented(text: Text) -> Padding:
    """Foreign text, which may say anything, never begins at the margin, where ruler's own words stand."""
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, _INDENT))


def split(line: str) -> tuple[str, str]:
    """A line's head, empty where it has none, and what it says, as text to read."""
    found = _HEAD.match(line)
    if found is None:
        return "", _readable(line) if line[:1] == "{" else line
    return found[1], _readable(line[found.end() :])


def _readable(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, str):
        return value
    return "\n".join(_fields(value)) if isinstance(value, dict) and value else _compact(value)


def _fields(value: dict[str, Any]) -> Iterator[str]:
    for name, item in value.items():
        # a name may hold a line break, which would look like another field
        told = name if name.isprintable() and name else json.dumps(name, ensure_ascii=False)
        if isinstance(item, str) and "\n" in item:
            yield f"{told}:"
            yield from (f"  {line}" for line in item.split("\n"))
        else:
            yield f"{told}: {item if isinstance(item, str) else _compact(item)}"


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"
