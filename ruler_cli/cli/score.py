"""`ruler score INPUT OUTPUT`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli import ray_options
from ruler_cli.cli.contradictions import note_of_shard, refuse_summary, refuse_swapped, warnings
from ruler_cli.cli.messages import on_ledger, say, told
from ruler_cli.cli.options import ScoreOptions, Source, with_options
from ruler_cli.cli.progress import Console, Progress
from ruler_cli.cli.summary import closing, write_summary
from ruler_cli.cli.units import count
from ruler_cli.config import ScoreSettings
from ruler_cli.errors import OutputError, ReaderGone, UsageError
from ruler_cli.reading.location import Location

if TYPE_CHECKING:
    from ruler_cli.run import RunResult


@with_options()
def command(
    source: Source,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help="The same, scored; JSON lines where it ends in .jsonl; `-` is stdout."
        ),
    ],
    options: ScoreOptions,
) -> None:
    """Score each group of rollouts with a judge and write the records annotated.

    Example: ruler score rollouts.jsonl scored.jsonl -m openai/o3

    Exit codes: 0 every group scored; 1 some not scored; 2 bad usage or unreadable input; 3 the judge
    refused the run; 4 --max-cost is reached; 130 and 143 interrupted. The same command goes on.
    """
    shown = {source: Location(source).public, output: Location(output).public}
    with told(resume=shlex.join(["ruler", *(shown.get(text, text) for text in sys.argv[1:])])):
        refuse_swapped(source, output)
        settings, summary = options.settings(source, output), options.summary
        quiet = options.progress == "none"
        ray_options.refuse(settings, options.engine, options.ray_address, sys.argv[1:])
        if summary is not None:
            refuse_summary(summary, settings)
        for sentence in warnings(settings):
            say(f"ruler: warning: {sentence}")
        if not quiet and (note := note_of_shard(settings)):
            say(f"ruler: {note}")
        if not settings.cached_only and (out := _out(settings)):
            say(f"ruler: warning: {out}: those of this input are asked, and paid for, once more")
        done = (
            _run(settings, options.progress)
            if options.engine == "here"
            else _run_on_ray(
                settings, options.progress, options.ray_address, options.ray_workers or ray_options.WORKERS
            )
        )
        if not quiet and not isinstance(done.stopped, ReaderGone):
            for line in closing(done.summary):
                say(f"ruler: {line}")
            if done.summary.unanswered and (out := _out(settings)):
                collect = f"ruler batch collect{on_ledger(sys.argv)}"
                say(f"ruler: {out}; `{collect}` takes in what is answered by now")
        if summary is not None:
            try:
                write_summary(summary, done.summary)
            except OutputError as error:
                if done.stopped is None:
                    raise
                say(f"ruler: {error}")  # the exit code is that of what stopped the run
        if done.stopped is not None:
            if not done.whole:
                _say_what_is_there(settings)
            raise done.stopped
        raise typer.Exit(0 if done.summary.complete else 1)


def _run(
    settings: ScoreSettings, progress: Progress, way: Callable[..., Awaitable[RunResult]] | None = None
) -> RunResult:
    import anyio

    from ruler_cli.cli.signals import interruptible
    from ruler_cli.reading.location import Location
    from ruler_cli.run import score

    console = Console(progress, Location(settings.input.source).shown)
    try:
        return anyio.run(interruptible, partial(way or score, settings, console))
    finally:
        console.close()


def _run_on_ray(
    settings: ScoreSettings,
    progress: Progress,
    address: str | None,
    workers: int,
) -> RunResult:
    from ruler_cli.judges.resolve import ResolvedJudge
    from ruler_cli.run import resolve_judges

    chosen = resolve_judges(settings)
    if settings.cached_only or all(isinstance(found, ResolvedJudge) and found.embedded for found in chosen):
        return _run(settings, progress)  # there is no call that a worker could make
    if settings.ledger is None:
        raise UsageError("--engine ray: workers keep replies in the ledger; leave out --ledger none")
    from ruler_cli.cluster import ray_session, score_on_ray
    from ruler_cli.writing.output import open_output

    with open_output(settings.input.source, settings.output):
        pass  # told now if it cannot be written
    with ray_session(address, workers) as ray:
        return _run(settings, progress, partial(score_on_ray, ray=ray, workers=workers))


def _out(settings: ScoreSettings) -> str | None:
    """A clause on the requests of the ledger that are out in batches, None where there are none."""
    if settings.ledger is None:
        return None
    from ruler_cli.batch.journal import count_open_requests

    number = count_open_requests(settings.ledger)
    are = "is" if number == 1 else "are"
    return f"{count(number, 'request')} of this ledger {are} out in batches" if number else None


def _say_what_is_there(settings: ScoreSettings) -> None:
    """Where the records are that a run has written before it stopped."""
    output = settings.output
    if Location(output).remote:
        say(f"ruler: {Location(output).public} is as it was: it is written when the run is at its end")
        return
    partial = Path(output) / "*.partial" if Path(output).is_dir() else Path(output + ".partial")
    if output != "-" and (partial.exists() or any(Path(output).rglob("*.partial"))):
        say(f"ruler: what is whole so far is in {partial}")
