"""The proposal for a file of an unknown shape, in words: what it found, flags, a table of `ruler.toml`, a command."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
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
from ruler_cli.files.location import Location
from ruler_cli.formats.events import open_records
from ruler_cli.formats.proposal import NothingToJudge, propose
from ruler_cli.formats.reader import SAMPLE, detect
from ruler_cli.formats.table import FAMILIES
from ruler_cli.messages.read import conversations_of
from ruler_cli.prompting.render import render
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.settings.options import COMMAND_LINE, Options

_LINES, _WIDE = 12, 100
"""Lines of a record that are printed, and characters of each."""
_LARGE = 1 << 22
"""Bytes of a record that is not read for this, because that takes long."""
_PARTS = {
    "records": "records",
    "messages": "answers",
    "prompt": "task",
    "tools": "tools",
    "reward": "reward",
    "outcome": "outcome",
    "group_by": "group key",
}
"""The paths of a proposal, by their option, in words."""
_CONTENTS = {
    "tokens": "ids of tokens{}, which only their tokenizer can read: nothing to judge",
    "gold": "tasks with their gold answers{}: nothing to judge",
    "tasks": "tasks{} without an answer: nothing to judge",
    "other": "no field is clearly an answer{}",
}
"""In words, the contents of a file that seems to hold no answers."""


def refuse(
    error: UnknownShapeError,
    settings: InputSettings,
    options: Options,
    *,
    check: bool,
) -> UnknownShapeError:
    """Return the error of an unknown shape with the reason, or the command that proposes; `check` prints it."""
    row = propose(error.values)
    facts: dict[str, Any] | None = None
    if isinstance(row, NothingToJudge):
        paths = ", ".join(f"`{one_line(path)}`" for path in row.paths)
        contents = _CONTENTS[row.kind].format(paths and f" ({paths})")
        error = error.with_parts(problem=f"{error.problem}, but {contents}")
        if row.kind != "other":
            error = error.with_parts(remedy="")
    elif (record := _record(row, settings)) is not None:
        facts = _facts(row, settings.source, options)
        command = f"ruler check {shell_word(Location(settings.source).public)}"
        proposes = f"`{command}` proposes how to read it"
        error = error.with_parts(
            remedy="see the proposal" if check else proposes
        )
        if check and not options.as_json:
            _print_page(facts, record)
    if check and options.as_json:
        reasons = [error.brief]
        verdict = {"version": 2, "ready": False, "not_ready": reasons}
        print_json({**verdict, "proposal": facts})
    return error


def _record(row: RecordPaths, settings: InputSettings) -> list[str] | None:
    """Return the first record as a judge would see it; None if the row does not read it."""
    if Location(settings.source).stream:
        return []
    with ExitStack() as stack:
        container = open_records(settings.source, stack, records=row.records)
        try:
            first = container.sample(SAMPLE)
            if first and len(first[0].raw) > _LARGE:
                return []
            reader = detect(
                container.name, first, replace(settings, format=row)
            )
            records = [
                record for line in first[:1] for record in reader.read(line)
            ]
        except (UsageError, UnreadableError):
            return None
    lines = list[str]()
    for record in records:
        for rollout in record.rollouts:
            if rollout.error:
                return None
            main, *_ = conversations_of(rollout)
            lines += ["", *islice(render(main), _LINES)]
    return [shorten(one_line(line), _WIDE) for line in lines[1:_LINES]]


def _facts(row: RecordPaths, source: str, options: Options) -> dict[str, Any]:
    """Return the parts of a proposal: its paths, flags, table, and command with the other options that were given."""
    paths: dict[str, Any] = {}
    words = list[str]()
    table = list[str]()
    for name in _PARTS:
        path = getattr(row, name)
        if path in ("", "reward", ()):
            continue
        paths[name] = path
        table.append(f"{name} = {_toml(path)}")
        words += map(_word, option_words(name, path))
    flags = " ".join(words)
    stem = PurePath(source).name.partition(".")[0]
    name = "".join(
        c if c.isascii() and c.isalnum() else "-" for c in stem
    ).strip("-")
    if name in ("auto", *FAMILIES):
        name = f"my-{name}"
    for field, origin in options.origins.items():
        if origin.rank == COMMAND_LINE and field not in (*_PARTS, "as_json"):
            words += map(shell_word, option_words(field, origin.value))
    command = ["ruler check", _word(Location(source).public), *words]
    return {
        "paths": paths,
        "flags": flags,
        "table": "\n".join([f"[formats.{name or 'mine'}]", *table]),
        "command": " ".join(command),
    }


def _print_page(facts: dict[str, Any], record: list[str]) -> None:
    lines = ["No format fits, but this looks like rollouts:"]
    for name, path in facts["paths"].items():
        shown = path if isinstance(path, str) else ", ".join(path)
        lines.append(f"  {_PARTS[name]:10} {one_line(shown)}")
    if record:
        lines.append("\nThe first record as a judge would see it:")
        lines += [f"  {line}" for line in record]
    lines += [
        f"\nIf that is right, use these options:\n  {facts['flags']}",
        "\nor write this into ruler.toml, and name it with --format:",
        f"\n{facts['table']}",
        f"\nTry it: {facts['command']}",
    ]
    typer.echo("\n".join(lines))


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
