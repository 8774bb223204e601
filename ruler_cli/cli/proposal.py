"""The proposal for a file of an unknown shape, in words: the paths that were seen, and the command that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from ruler_cli.cli.messages import option_words
from ruler_cli.cli.safe_text import print_json, shell_word
from ruler_cli.errors import UnknownShapeError
from ruler_cli.files.values import words
from ruler_cli.formats.format import holds
from ruler_cli.formats.proposal import propose
from ruler_cli.settings.models import RecordPaths
from ruler_cli.settings.options import Options

_PARTS = words("records messages prompt group_by reward outcome")
"""The paths of a proposal, by their option."""
_SPEECH = "speaker|player_id|player|character|agent_name text|message|utterance|content"
_JOINED = (
    """jq -cs '{messages: map({role: (if .SPEAKER == "AGENT" then "assistant" else "user" end), """
    """name: .SPEAKER, content: .TEXT})}'"""
)
_LEFT = {*_PARTS, "as_json"}
"""Options of the command that is proposed instead of those of this one."""


def refuse(
    error: UnknownShapeError,
    command: Callable[..., str],
    options: Options,
    *,
    check: bool,
) -> UnknownShapeError:
    """Return the error of an unknown shape with the reason, or the command that proposes; `check` prints it.

    `command` writes the command line of `check`.
    """
    row = propose(error.values)
    facts: dict[str, Any] | None = None
    if row is None:
        problem = f"{error.problem}, but no field is clearly an answer"
        error = error.with_parts(problem=problem)
        if holds(error.values[0], _SPEECH):
            remedy = f"{error.remedy}; lines that are the speeches of one rollout become it by {_JOINED}"
            error = error.with_parts(remedy=remedy)
    elif check:
        facts = _facts(row, command)
        error = error.with_parts(remedy="see the proposal")
    else:
        proposing = command(leave=options.origins)
        remedy = f"`{proposing}` proposes how to read it"
        error = error.with_parts(remedy=remedy)
    if check and options.as_json:
        print_json(
            {
                "version": 3,
                "ready": False,
                "not_ready": [error.brief],
                "proposal": facts,
            }
        )
    elif facts:
        typer.echo(
            "No format fits, but this looks like rollouts, if an agent wrote what stands at --messages."
        )
        records, by_id, _ = facts["paths"].get("records", "").partition("{}")
        if by_id:
            members = shell_word(f".{records}[]")
            typer.echo(f"As lines: jq -c {members} {shell_word(error.place)}")
        typer.echo(f"\nTry it: {facts['command']}")
    return error


def _facts(row: RecordPaths, command: Callable[..., str]) -> dict[str, Any]:
    """Return the parts of a proposal: its paths, flags, and command with the other options that were given."""
    paths: dict[str, Any] = {}
    flags = list[str]()
    for name in _PARTS:
        path = getattr(row, name)
        if path not in ("", "reward", ()):
            paths[name] = path
            flags += option_words(name, path)
    return {
        "paths": paths,
        "flags": " ".join(map(shell_word, flags)),
        "command": command(leave=_LEFT, **paths),
    }
