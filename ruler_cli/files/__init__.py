"""Bytes ↔ records: one interface for containers, grouping, exact edits of records, files that appear whole.

A container is a module of `containers`, which reads and writes. Other rooms use `open_container`, `Output`,
`FailedFile`, `Location`, `Scratch` and `Index`, and the functions of `grouping`, `parse`, `splice` and
`error_map`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ruler_cli.settings.models import MAX_RECORD

if TYPE_CHECKING:
    from ruler_cli.files.containers import Container
    from ruler_cli.files.source import Events


def open_container(
    name: str,
    stack: ExitStack,
    file: str | None = None,
    *,
    most: int = MAX_RECORD << 20,
    keep: bool = False,
    records: str | None = None,
    events: Events | None = None,
) -> Container:
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the way out.

    A record of more than `most` bytes is not held. `file` is the name for records of a rollout's own file:
    relative to INPUT; by default the last part of `name`. `keep`: a pipe is kept on disk, to be read twice.
    `records` is the path of the records in each value of INPUT (see `walk`). `events` gathers events, see `Source`.
    """
    from ruler_cli.files.containers import kinds
    from ruler_cli.files.location import Location
    from ruler_cli.files.source import Source

    location = Location(name)
    source = Source(
        location, stack, most, keep=keep, records=records, events=events
    )
    # no other kind does, and their modules are not needed
    if source.begins_with_line:
        from ruler_cli.files.containers.lines import JsonLines

        container: Container = JsonLines.open(source)
    else:
        opened = (kind.open(source) for kind in kinds())
        container = next(filter(None, opened))
    if records and not container.takes_path:
        from ruler_cli.files.containers.inner import InnerRecords

        container = InnerRecords(container, records)
    if events is None or container.once or not container.may_hold_events:
        return container
    if file is None:
        file = "" if location.stream else location.public.rpartition("/")[2]
    records_of_events: Container = events.gather(container, file, stack)
    return records_of_events
