"""The proposal for a file of an unknown shape, in words: the paths that were seen, and the command that reads it."""

from __future__ import annotations

from typing import Any

import typer

from ruler_cli.cli.messages import option_words
from ruler_cli.cli.safe_text import one_line, print_json, shell_word
from ruler_cli.errors import UnknownShapeError
from ruler_cli.files.location import Location
from ruler_cli.formats.proposal import NothingToJudge, propose
from ruler_cli.settings.models import RecordPaths
from ruler_cli.settings.options import COMMAND_LINE, Options

_PARTS = {
    "records": "records",
    "messages": "answers",
    "prompt": "task",
    "reward": "reward",
    "outcome": "outcome",
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
    source: str,
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
    elif check:
        facts = _facts(row, source, options)
        error = error.with_parts(remedy="see the proposal")
        if not options.as_json:
            _print_page(facts)
    else:
        command = f"ruler check {shell_word(Location(source).public)}"
        error = error.with_parts(remedy=f"`{command}` proposes how to read it")
    if check and options.as_json:
        print_json(
            {
                "version": 3,
                "ready": False,
                "not_ready": [error.brief],
                "proposal": facts,
            }
        )
    return error


def _facts(row: RecordPaths, source: str, options: Options) -> dict[str, Any]:
    """Return the parts of a proposal: its paths, flags, and command with the other options that were given."""
    paths: dict[str, Any] = {}
    words = list[str]()
    for name in _PARTS:
        path = getattr(row, name)
        if path not in ("", "reward", ()):
            paths[name] = path
            words += map(shell_word, option_words(name, path))
    flags = " ".join(words)
    for field, origin in options.origins.items():
        if origin.rank == COMMAND_LINE and field not in (*_PARTS, "as_json"):
            words += map(shell_word, option_words(field, origin.value))
    name = shell_word(Location(source).public)
    return {
        "paths": paths,
        "flags": flags,
        "command": " ".join(["ruler check", name, *words]),
    }


def _print_page(facts: dict[str, Any]) -> None:
    lines = ["No format fits, but this looks like rollouts:"]
    for name, path in facts["paths"].items():
        shown = path if isinstance(path, str) else ", ".join(path)
        lines.append(f"  {_PARTS[name]:10} {one_line(shown)}")
    lines.append(f"\nTry it: {facts['command']}")
    typer.echo("\n".join(lines))
