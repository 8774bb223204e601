"""Options that contradict one another or mislead: UsageError before anything is read, or a warning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ruler_cli.config import ScoreSettings
from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location

_LAST = "the last run, over the whole file with the --ledger of every shard"


def refuse_contradictions(settings: ScoreSettings) -> None:
    """UsageError where options of one run contradict one another."""
    ask, how, pool = settings.ask, settings.combine, settings.pool
    given = {"--blend": how.blend, "--rpm": pool.rpm, "--tpm": pool.tpm, "--max-cost": pool.max_cost}
    for name, value in (given | {"--timeout": settings.judge.timeout}).items():
        if value is not None and math.isnan(value):  # it passes every bound, and no score and no wait is one
            raise UsageError(f"{name} nan: is no number; give one, or leave the option out")
    if how.standardize and (not settings.panel or settings.fallback):
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if how.debias and ask.order == "input":
        raise UsageError("--debias: in input order a place says what the rollout is; leave out --order input")
    if ask.passes < 2 and settings.adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if ask.passes < 2 and settings.escalate and (settings.fallback or not settings.panel):
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")
    if how.min_passes > ask.passes:
        raise UsageError(
            f"--min-passes {how.min_passes}: is more than --passes {ask.passes}, so no group could be scored"
        )
    if settings.escalate or settings.adaptive:
        _refuse_of_blocks(settings)
    if settings.input.shard is not None:
        for name, set_ in (("--debias", how.debias), ("--standardize", how.standardize)):
            if set_:
                raise UsageError(
                    f"{name}: needs the replies to all groups, and a shard has some; leave it out here, and "
                    f"give it to {_LAST}: it costs no call"
                )


def _refuse_of_blocks(settings: ScoreSettings) -> None:
    """UsageError where passes that are allotted among groups cannot be what is asked for."""
    from ruler_cli.judging.adaptive import FIRST

    least, shard = settings.combine.min_passes, settings.input.shard
    if least > FIRST and settings.adaptive:
        raise UsageError(
            f"--min-passes {least}: with --adaptive most groups get {FIRST} passes; give {FIRST} or less"
        )
    if least > FIRST:
        raise UsageError(
            f"--min-passes {least}: the judge of --escalate gives {FIRST} passes, so its scores would never "
            f"count; give {FIRST} or less"
        )
    if shard is not None and settings.adaptive:
        raise UsageError(
            f"--adaptive: passes are allotted among all groups, and a shard has some; give --passes {FIRST} "
            f"here, and --adaptive to {_LAST}"
        )
    if shard is not None:
        raise UsageError(
            "--escalate: groups are chosen among all of them, and a shard has some; leave it out here, and "
            f"give it to {_LAST}"
        )


def refuse_swapped(source: str, output: str) -> None:
    """UsageError where INPUT is not there and OUTPUT is, unless INPUT looks like another file's name."""
    if not Location(source).local or not Path(output).is_file() or Location(source).many:
        return
    from ruler_cli.suggestions import suggest_file

    if not Path(source).exists() and suggest_file(source) in (None, output):
        raise UsageError(
            f"{source}: no such file, but OUTPUT {output} is one; INPUT comes first: are they swapped?"
        )


def refuse_summary(path: Path, settings: ScoreSettings) -> None:
    """UsageError where `--summary` cannot be written, before the run and not after it."""
    taken = [
        settings.input.source,
        settings.output,
        settings.output.rstrip("/") + ".failed.jsonl",
        settings.failed,
    ]
    if Location.of(path).remote:
        raise UsageError("--summary: is an address; give a file of this machine")
    files = [other for other in taken if other and not Location(str(other)).remote]
    if str(path) != "-" and any(path.resolve() == Path(other).resolve() for other in files):
        raise UsageError(f"--summary {path}: is another file of this run; give it a name of its own")
    if str(path) == "-" and settings.output == "-":
        raise UsageError("--summary -: stdout holds the records already; give it a file")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--summary {path}: is a directory, or its directory does not exist")


def warnings(settings: ScoreSettings) -> Iterator[str]:
    """Sentences on options that mislead: about the figures, and about a ledger that is not there."""
    from ruler_cli.ledger.database import default_path

    if settings.ask.order == "input" and _several(settings):
        yield (
            "--order input: every pass shows the same order, so what a judge gives a place for itself counts "
            "as reliability and weight; leave it out to have that cancel"
        )
    place = settings.ledger
    if not settings.cached_only or settings.ledgers or place is None or place == default_path():
        return
    if not place.exists():
        yield f"--cached-only: there is no ledger at {place} yet, so nothing is answered; check --ledger"


def note_of_shard(settings: ScoreSettings) -> str | None:
    """A sentence on figures of a shard's OUTPUT that rest on less than they seem to."""
    if settings.input.shard is None or not _several(settings):
        return None
    return (
        f"{settings.input.shard}: reliability and weight rest on this shard's groups here, scores do not; "
        "the last run, over the whole file, writes those of the whole"
    )


def _several(settings: ScoreSettings) -> bool:
    """Whether a group gets the scores of several passes or judges."""
    return settings.ask.passes > 1 or bool(settings.panel and not settings.fallback)
