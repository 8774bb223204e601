"""Text of a dump, a judge or a file → text that is safe to print: control characters become escapes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import typer

from ruler_cli.cli.units import columns, in_words
from ruler_cli.errors import UsageError
from ruler_cli.types import readable

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that could move a terminal's cursor, change its colour or turn its text around."""
UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters without a width of their own on a terminal, e.g. joiners and variation selectors."""


def safe(text: str) -> str:
    """Return text with characters of UNSAFE as escapes."""
    return UNSAFE.sub(lambda c: escape(c[0]), text)


def one_line(text: str) -> str:
    """Return text with characters of UNSAFE, line breaks and tabs as escapes."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def shell_word(text: str) -> str:
    """Return a word as bash and zsh read it in one line: with `$'…'` if it holds a line break or the like."""
    # zsh would look for a program behind `=`
    if text.isprintable() and text[:1] != "=":
        return shlex.quote(text)
    return f"$'{''.join(map(_in_shell, text))}'"


def _in_shell(character: str) -> str:
    plain = character.isascii() or character.isprintable()
    if character in "'!" or not plain:
        data = character.encode(errors="surrogateescape")
        return "".join(f"\\{byte:03o}" for byte in data)
    if character.isascii():
        return character.encode("unicode_escape").decode()
    return character


def visible(text: str) -> str:
    """Return text with characters of UNSAFE and UNSEEN as escapes; line breaks and tabs stay."""
    return UNSEEN.sub(lambda c: escape(c[0]), safe(text))


def escape(character: str) -> str:
    """Return a character as `\\xHH`, `\\uHHHH` or `\\UHHHHHHHH`, as a shell reads it."""
    code = ord(character)
    if code < 128:
        return f"\\x{code:02x}"
    if code < 65536:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def print_json(value: Any, groups: Iterable[Any] | None = None) -> None:
    """Print a JSON value on stdout, with escapes of JSON for all that a terminal cannot show.

    `groups` are a further member of the object, a line each, printed as they come. UsageError if stdout is closed.
    """
    if sys.stdout is None:
        raise UsageError("stdout is closed")
    text = _json_text(value, orjson.OPT_INDENT_2)
    if groups is None:
        typer.echo(text.encode())
        return
    typer.echo(
        (text.removesuffix("\n}") + ',\n  "groups": [').encode(), nl=False
    )
    for i, group in enumerate(groups):
        comma = "," if i else ""
        typer.echo(f"{comma}\n    {_json_text(group)}".encode(), nl=False)
    typer.echo(b"\n  ]\n}")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print figures as a table of names and words on stdout."""
    rows = []
    for name, value in facts.items():
        if words := in_words(value):
            rows.append((name, words))
    typer.echo("\n".join(map(one_line, columns(rows))))


def _json_text(value: Any, option: int = 0) -> str:
    text = orjson.dumps(readable(value), option=option).decode()
    # only a string can hold such a character
    for pattern in (UNSAFE, UNSEEN):
        text = pattern.sub(lambda c: json.dumps(c[0])[1:-1], text)
    return text
