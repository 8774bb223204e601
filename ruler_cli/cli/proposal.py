"""The proposal for a file of an unknown shape, in words: what it found, flags, a table of `ruler.toml`, a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import typer

from ruler_cli.cli.messages import option_words
from ruler_cli.cli.safe_text import (
    UNSAFE,
    UNSEEN,
    one_line,
    print_json,
    printable_key,
    shell_word,
)
from ruler_cli.cli.units import shorten
from ruler_cli.errors import UnknownShapeError, UnreadableError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.location import Location
from ruler_cli.formats.reader import SAMPLE, detect
from ruler_cli.formats.table import FAMILIES
from ruler_cli.messages.read import read_messages
from ruler_cli.prompting.render import render
from ruler_cli.runs.proposal import NothingToJudge, other_answers, propose
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.settings.option_names import option_name
from ruler_cli.settings.options import COMMAND_LINE, Options

_LINES, _WIDE = 12, 100
"""Lines of a record that are printed, and characters of each."""
_LARGE = 1 << 22
"""Bytes of a record that is not read for this, because that takes long."""
_FOUND = {
    "records": "records",
    "messages": "answers",
    "prompt": "task",
    "tools": "tools",
    "reward": "reward",
    "outcome": "outcome",
    "group_by": "group key",
}
"""The paths of a proposal, by their option, in words."""
_HOLDS = {
    "tokens": "ids of tokens{}, which only their tokenizer can read: nothing to judge",
    "gold": "tasks with their gold answers{}: nothing to judge",
    "tasks": "tasks{} without an answer: nothing to judge",
    "metrics": "numbers{}: nothing to judge",
    "settings": "settings or other short values{}: nothing to judge",
    "texts": "no field is clearly an answer{}",
}
"""In words, the contents of a file that seems to hold no answers."""


def refuse(
    error: UnknownShapeError, settings: InputSettings, options: Options, *, check: bool
) -> UnknownShapeError:
    """Return the error of an unknown shape with the reason, or the command that proposes; `check` prints it."""
    found = propose(error.values)
    facts: dict[str, Any] | None = None
    if isinstance(found, NothingToJudge):
        paths = ", ".join(f"`{one_line(path)}`" for path in found.paths)
        holds = _HOLDS[found.kind].format(paths and f" ({paths})")
        error = error.with_parts(problem=f"{error.problem}, but {holds}")
        if found.kind != "texts":
            error = error.with_parts(remedy="")
    elif (seen := _record(found, settings)) is not None:
        facts = _facts(found, settings.source, options)
        command = f"ruler check {shell_word(Location(settings.source).public)}"
        proposes = f"`{command}` proposes how to read it"
        remedy = "see the proposal" if check else proposes
        error = error.with_parts(remedy=remedy)
    if check and options.as_json:
        print_json(
            {
                "version": 2,
                "ready": False,
                "not_ready": [error.brief],
                "proposal": facts,
            }
        )
    elif check and facts and isinstance(found, RecordPaths) and seen is not None:
        others = other_answers(error.values, found)
        typer.echo("\n".join(_page(facts, seen, others)))
    return error


def _record(row: RecordPaths, settings: InputSettings) -> list[str] | None:
    """Return the first record as a judge would see it; None if the row does not read it."""
    if Location(settings.source).stream:
        return []
    with ExitStack() as stack:
        container = open_container(settings.source, stack, records=row.records)
        try:
            first = container.sample(SAMPLE)
            if first and len(first[0].raw) > _LARGE:
                return []
            reader = detect(container.name, first, replace(settings, format=row))
            read = [record for line in first[:1] for record in reader.read(line)]
        except (UsageError, UnreadableError):
            return None
    rollouts = [rollout for record in read for rollout in record.rollouts]
    if any(rollout.error for rollout in rollouts):
        return None
    lines = list[str]()
    for rollout in rollouts:
        lines += ("", *render(read_messages(rollout.messages)))
    return [shorten(one_line(line), _WIDE) for line in lines[1:_LINES]]


def _facts(row: RecordPaths, source: str, options: Options) -> dict[str, Any]:
    """Return the parts of a proposal: its paths, flags, table, and command with the other options that were given."""
    paths = {
        name: path
        for name in _FOUND
        if (path := getattr(row, name)) not in ("", "reward", ())
    }
    flags = [
        word
        for name, given in paths.items()
        for path in ([given] if isinstance(given, str) else given)
        for word in (option_name(name), _word(path))
    ]
    stem = PurePath(source).name.partition(".")[0]
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
    if name in ("auto", *FAMILIES):
        name = f"my-{name}"
    more = [
        shell_word(word)
        for field, origin in options.origins.items()
        if origin.rank == COMMAND_LINE and field not in (*_FOUND, "as_json")
        for word in option_words(field, origin.given)
    ]
    table = [f"{field} = {_toml(given)}" for field, given in paths.items()]
    return {
        "paths": paths,
        "flags": " ".join(flags),
        "table": "\n".join([f"[formats.{name or 'mine'}]", *table]),
        "command": " ".join(
            ["ruler check", _word(Location(source).public), *flags, *more]
        ),
    }


def _page(facts: dict[str, Any], seen: list[str], others: list[str]) -> Iterator[str]:
    yield "No format fits, but this looks like rollouts:"
    for name, path in facts["paths"].items():
        shown = path if isinstance(path, str) else ", ".join(path)
        yield f"  {_FOUND[name]:10} {one_line(shown)}"
    if others:
        named = ", ".join(f"`{one_line(path)}`" for path in others)
        yield f"  other texts that could be answers: {named}"
    if seen:
        yield "\nThe first record as a judge would see it:"
        yield from (f"  {line}" for line in seen)
    yield f"\nIf that is right, give these options:\n  {facts['flags']}"
    yield f"\nor write this into ruler.toml, and name it with --format:\n\n{facts['table']}"
    yield f"\nTry it: {facts['command']}"


def _word(text: str) -> str:
    """Quote a word for a shell; a character that a terminal cannot show becomes an escape."""
    key = printable_key(text)
    return shlex.quote(text) if key == text else key


def _toml(value: Any) -> str:
    """Write a text, or a list of texts, as TOML."""
    text = json.dumps(value, ensure_ascii=False)
    for pattern in (UNSAFE, UNSEEN):
        text = pattern.sub(lambda c: f"\\U{ord(c[0]):08x}", text)
    return text
