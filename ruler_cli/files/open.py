"""INPUT → the container that it is, known by its first bytes, never by its name."""

from __future__ import annotations

from contextlib import ExitStack

from ruler_cli.errors import ForeignError
from ruler_cli.files.container import MAX_BYTES, Container, kinds
from ruler_cli.files.events import assemble_rollouts
from ruler_cli.files.location import Location
from ruler_cli.files.source import Source


def open_container(
    name: str,
    stack: ExitStack,
    file: str | None = None,
    *,
    most: int = MAX_BYTES,
    keep: bool = False,
) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    A record of more than `most` bytes is not held. `file` is the name for records of a rollout's own file:
    relative to INPUT; by default the last part of `name`. `keep`: a pipe is kept on disk, to be read twice.
    """
    source = Source(Location(name), stack, most, file=file, keep=keep)
    for kind in kinds():
        container = kind.open(source)
        if container is None:
            continue
        if container.once or not container.may_hold_events:
            return container
        return assemble_rollouts(container, source.file, stack)
    raise ForeignError("is no container that ruler reads", place=source.name)
