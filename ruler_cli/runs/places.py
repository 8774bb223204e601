"""Rules of a run's files: OUTPUT and the failed file must have places where they destroy nothing."""

from __future__ import annotations

from pathlib import Path

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import creating
from ruler_cli.files.location import Location
from ruler_cli.files.output import is_device
from ruler_cli.settings.models import ScoreSettings


def may_replace(settings: ScoreSettings) -> bool:
    """Return whether a run may replace any OUTPUT: the user says so, or it is INPUT, of which nothing is lost."""
    return settings.force or Location(settings.input.source).same(
        settings.output
    )


def refuse_settings(settings: ScoreSettings) -> None:
    """Raise UsageError if dropped records have no place, or OUTPUT of some groups would replace all."""
    source = Location(settings.input.source)
    output = Location(settings.output)
    shard = settings.input.shard
    limit = settings.input.limit
    failed = failed_path(settings)
    if failed is None and settings.on_failure == "drop":
        remedy = "give a file for dropped records with --set failed=FILE"
        raise UsageError(remedy, place="--on-failure drop")
    if failed is not None and failed.is_symlink() and not is_device(failed):
        raise UsageError(
            "is a link, and a run adds lines to it",
            "remove it, or use --set failed=FILE",
            place=str(failed),
        )
    part = shard is not None or limit is not None
    if part and not output.stream and output.same(source.name):
        raise UsageError(
            f"OUTPUT {output.public} is INPUT, of which only a part would be left",
            "give another OUTPUT",
            place="--limit" if shard is None else "--shard",
        )


def failed_path(settings: ScoreSettings) -> Path | None:
    """Return the failed file of a run; None if there is none. UsageError if it cannot be."""
    path = settings.failed
    if path is None:
        output = Location(settings.output)
        name = settings.output.rstrip("/")
        return Path(f"{name}.failed.jsonl") if output.local else None
    try:
        with creating(str(path), path):
            path.parent.stat()
    except UsageError as error:
        raise error.with_parts(place=f"--set failed={path}") from None
    return path
