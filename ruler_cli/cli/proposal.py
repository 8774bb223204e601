"""The proposal for a file of an unknown shape: the paths that were seen, and the command that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from ruler_cli.cli.safe_text import print_json
from ruler_cli.errors import UnknownShapeError
from ruler_cli.files.values import words
from ruler_cli.formats.proposal import propose
from ruler_cli.settings.options import Options

_PARTS = words("records messages prompt group_by reward outcome")
"""The paths of a proposal, by their option."""


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
    proposal: dict[str, Any] | None = None
    if row is None:
        problem = f"{error.problem}, but no field is clearly an answer"
        error = error.with_parts(problem=problem)
    elif check:
        paths = {}
        for name in _PARTS:
            path = getattr(row, name)
            if path not in ("", "reward", ()):
                paths[name] = path
        finished = command(leave={*_PARTS, "as_json"}, **paths)
        proposal = {"paths": paths, "command": finished}
        error = error.with_parts(remedy="see the proposal")
    else:
        proposing = command(leave=options.origins)
        remedy = f"`{proposing}` proposes how to read it"
        error = error.with_parts(remedy=remedy)
    if check and options.as_json:
        reasons = [error.brief]
        facts = {"version": 4, "ready": False, "not_ready": reasons}
        print_json({**facts, "proposal": proposal})
    elif proposal:
        typer.echo(
            "No format fits, but this looks like rollouts, if an agent wrote what stands at --messages.\n\n"
            f"Try it: {proposal['command']}"
        )
    return error
