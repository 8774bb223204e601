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
    from ruler_cli.files.source import Events, Source


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
    """Open INPUT, `-` for stdin, until `stack` ends; UsageError says what is wrong and the remedy.

    A record of more than `most` bytes is not held. `file` is the name for records of a rollout's own file:
    relative to INPUT; by default the last part of `name`. `keep`: a pipe is kept on disk, to be read twice.
    `records` is the path of the records in each value of INPUT (see `walk`). `events` gathers events, see `Source`.
    """
    from ruler_cli.files.location import Location
    from ruler_cli.files.source import Source

    location = Location(name)
    source = Source(
        location, stack, most, keep=keep, records=records, events=events
    )
    container = _container(source)
    if records and not container.takes_path:
        from ruler_cli.files.containers.inner import InnerRecords

        container = InnerRecords(container, records)
    if events is None or container.once or not container.may_hold_events:
        return container
    if file is None:
        file = "" if location.stream else location.public.rpartition("/")[2]
    records_of_events: Container = events.gather(
        container,
        file,
        stack,
    )
    return records_of_events


def _container(source: Source) -> Container:
    """Open INPUT as the kind that its first bytes show; the modules of others are not imported."""
    if source.listing is not None:
        from ruler_cli.files.containers.directory import Directory
        from ruler_cli.files.containers.harbor import HarborJob

        job = HarborJob.open(source, source.listing)
        return job or Directory(
            source,
            source.listing,
            open_container,
        )
    if source.head.startswith(b"PAR1"):
        from ruler_cli.files.containers.parquet import Parquet

        return Parquet.open(source)
    if source.head.startswith(b"PK\x03\x04"):
        from ruler_cli.files.containers.inspect_log import InspectLog

        return InspectLog(source)
    if not source.begins_with_line:
        from ruler_cli.files.containers.document import Document

        document = Document.open(source)
        if document is not None:
            return document
    from ruler_cli.files.containers.csv_table import CsvTable
    from ruler_cli.files.containers.lines import JsonLines

    return CsvTable.open(source) or JsonLines.open(source)
