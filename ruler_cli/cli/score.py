"""`ruler score INPUT OUTPUT`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.contradictions import refuse_engine, refuse_summary, refuse_swapped
from ruler_cli.cli.messages import collect_command, print_note
from ruler_cli.cli.options import SCORE_OPTIONS, Options, Source, with_options
from ruler_cli.cli.progress import Console
from ruler_cli.cli.settings import score_settings
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.summary import summary_lines, write_summary
from ruler_cli.cli.units import count
from ruler_cli.config import ScoreSettings
from ruler_cli.errors import OutputError, ReaderGone, UsageError
from ruler_cli.reading.location import Location

if TYPE_CHECKING:
    from ruler_cli.run import RunResult

_WORKERS = 2
"""Workers of Ray by default."""


@with_options(SCORE_OPTIONS, resumes=True)
def command(
    source: Source,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help="The same, scored; JSON lines where it ends in .jsonl; `-` is stdout."
        ),
    ],
    options: Options,
) -> int:
    """Score each group of rollouts with a judge and write the records annotated.

    Example: ruler score rollouts.jsonl scored.jsonl -m openai/o3

    Exit codes: 0 every group scored; 1 some not scored; 2 bad usage or unreadable input; 3 the judge
    refused the run; 4 --max-cost is reached; 130 and 143 interrupted. The same command goes on.
    """
    refuse_swapped(source, output)
    settings = score_settings(options, source, output)
    refuse_engine(settings, options.engine, options.ray_address)
    if options.summary is not None:
        refuse_summary(options.summary, settings)
    _print_warnings(settings, quiet=options.progress == "none")
    result = (_run if options.engine == "here" else _run_on_ray)(settings, options)
    if options.progress != "none" and not isinstance(result.stopped, ReaderGone):
        print_note(*summary_lines(result.summary))
        if result.summary.unanswered and (clause := _requests_in_batches(settings)):
            print_note(f"{clause}; `{collect_command()}` takes in what is answered by now")
    if options.summary is not None:
        try:
            write_summary(options.summary, result.summary)
        except OutputError as error:
            if result.stopped is None:
                raise
            print_note(error)  # the exit code is that of what stopped the run
    if result.stopped is not None:
        if not result.whole:
            _print_partial_output(settings)
        raise result.stopped
    return 0 if result.summary.complete else 1


def _print_warnings(settings: ScoreSettings, *, quiet: bool) -> None:
    """Warn of options that mislead, and say which figures rest on a shard only."""
    from ruler_cli.ledger.database import default_path

    repeated = settings.ask.passes > 1 or (settings.panel and not settings.fallback)
    if settings.ask.order == "input" and repeated:
        print_note(
            "warning: --order input: every pass shows the same order, so what a judge gives a "
            "position for itself counts as reliability and weight; leave it out to have that cancel"
        )
    ledger = settings.ledger if settings.cached_only and not settings.ledgers else None
    if ledger is not None and ledger != default_path() and not ledger.exists():
        print_note(
            f"warning: --cached-only: there is no ledger at {ledger} yet, so nothing is answered; "
            "check --ledger"
        )
    if settings.input.shard is not None and repeated and not quiet:
        print_note(
            f"{settings.input.shard}: reliability and weight rest on this shard's groups here, scores "
            "do not; the last run, over the whole file, writes those of the whole"
        )
    if not settings.cached_only and (clause := _requests_in_batches(settings)):
        print_note(f"warning: {clause}: those of this input are asked, and paid for, once more")


def _run(
    settings: ScoreSettings, options: Options, run: Callable[..., Awaitable[RunResult]] | None = None
) -> RunResult:
    """Run `score`, or `run`, which has the same parameters, and show its progress."""
    from ruler_cli.run import score

    with closing(Console(options.progress, settings.input.source)) as console:
        return run_interruptible(partial(run or score, settings, console))


def _run_on_ray(settings: ScoreSettings, options: Options) -> RunResult:
    from ruler_cli.judges.resolve import ResolvedJudge
    from ruler_cli.run import resolve_judges

    judges = resolve_judges(settings)
    if settings.cached_only or all(isinstance(judge, ResolvedJudge) and judge.embedded for judge in judges):
        return _run(settings, options)  # there is no call that a worker could make
    if settings.ledger is None:
        raise UsageError("--engine ray: workers keep replies in the ledger; leave out --ledger none")
    from ruler_cli.cluster import ray_session, score_on_ray
    from ruler_cli.writing.output import open_output

    with open_output(settings.input.source, settings.output):
        pass  # fails now if it cannot be written
    workers = options.ray_workers or _WORKERS
    with ray_session(options.ray_address, workers) as ray:
        return _run(settings, options, partial(score_on_ray, ray=ray, workers=workers))


def _requests_in_batches(settings: ScoreSettings) -> str | None:
    """Return a clause on requests of the ledger in open batches, None if there are none."""
    from ruler_cli.batch.journal import count_open_requests

    number = 0 if settings.ledger is None else count_open_requests(settings.ledger)
    are = "is" if number == 1 else "are"
    return f"{count(number, 'request')} of this ledger {are} out in batches" if number else None


def _print_partial_output(settings: ScoreSettings) -> None:
    """Name the files of a run that was stopped before its end."""
    output = settings.output
    if Location(output).remote:
        public = Location(output).public
        print_note(f"{public} is as it was: it is written when the run is at its end")
        return
    partial_file = Path(output) / "*.partial" if Path(output).is_dir() else Path(output + ".partial")
    if output != "-" and (partial_file.exists() or any(Path(output).rglob("*.partial"))):
        print_note(f"what is whole so far is in {partial_file}")
