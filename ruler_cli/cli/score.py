"""`ruler score INPUT OUTPUT`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.command import (
    command_line,
    ledger_command,
    print_file_note,
    running,
)
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import SCORE_OPTIONS, SCORE_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.run_record import RunRecord
from ruler_cli.cli.signals import run_interruptible, unwind_on_signal
from ruler_cli.cli.units import count
from ruler_cli.errors import NoUsableReply, ReaderGone, RefusedError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import FILE, Options

if TYPE_CHECKING:
    from ruler_cli.runs.file import RunResult

_PATIENCE = 20.0
"""Seconds in which a Ray cluster must answer at its address."""
_ASKED_AGAIN = ("reply", "transport", "refused")
"""Kinds of failure that another run may mend."""
_SHAPE = frozenset(("format", "messages", "prompt"))
"""Options by which records of OUTPUT are read, too."""


@takes(*SCORE_OPTIONS, settings=SCORE_SETTINGS)
def command(
    ctx: typer.Context,
    source: Source,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="JSON lines; a list as .json, a table as .parquet; .gz and .zst compress; `-` is stdout.",
        ),
    ],
) -> int:
    """Score each group with a judge, and write the records annotated.

    \b
    Example:
      ruler score rollouts.jsonl scored.jsonl --limit 5    five groups, to try
      ruler score rollouts.jsonl scored.jsonl --passes 4 --max-cost 20

    Exit codes: 0 every group scored; 1 some not scored; 2 bad usage or unreadable input; 3 the judge
    refused the run; 4 --max-cost is reached; 130 and 143 interrupted. Run it again to resume.
    """
    record = RunRecord(
        ctx.params["summary"], source, output, force=ctx.params["force"]
    )
    with running(ctx, source, output, resumes=True, record=record) as options:
        return _run(options, source, output, record)


def _run(options: Options, source: str, output: str, record: RunRecord) -> int:
    with unwind_on_signal():
        record.open(options.summary)
        settings = score_settings(options, source, output)
        _refuse_engine(settings, options)
        print_file_note(options, settings)
        if settings.ask.order == "input" and (
            settings.ask.passes > 1 or settings.panel
        ):
            print_note(
                "warning: with --set order=input every pass has the same order, so position bias counts as "
                "reliability and weight"
            )
        number = 0 if settings.cached_only else _open_requests(settings)
        if number:
            are = f"{count(number, 'request')} of this ledger"
            print_note(
                f"warning: {are} are in open batches; score sends those of INPUT again, and you pay twice"
            )
        judge = _judge_here if options.engine == "here" else _judge_on_ray
        record.result = judge(settings, options, record)
        code = _report(settings, options, record.result)
        record.end(code)
        return code


def _report(
    settings: ScoreSettings, options: Options, result: RunResult
) -> int:
    """Print the result of a run, and raise the error that stopped it; return the exit code."""
    summary, stopped = result.summary, result.stopped
    shown = options.progress != "none" and not isinstance(stopped, ReaderGone)
    first = list[str]()
    notes = list[str]()
    parts = list[str]()
    if shown:
        from ruler_cli.cli.sentences import summary_lines

        debug = options.debug or settings.ledger is None
        head, *notes = summary_lines(summary, debug=debug)
        first = [head]
        if result.whole and not Location(settings.output).stream:
            parts.append(f"written to {Location(settings.output).shown}")
        following = _next_command(settings, options, result)
        if following and stopped is None:
            parts.append(f"next: {following}")
    if shown or stopped is not None:
        notes += _endings(settings, result)
    lines = [first, notes, parts]
    # its sentence and the command that resumes are the other lines
    if stopped is not None:
        lines = [first + notes + parts]
    print_note(*filter(None, map("; ".join, lines)))
    if isinstance(stopped, NoUsableReply):
        leave = ("summary", "progress", "on_failure")
        more = {"debug": True, "limit": stopped.first}
        source = settings.input.source
        shows = command_line(options, "score", source, "-", leave=leave, **more)
        stopped = stopped.with_parts(remedy=f"to see a reply: {shows}")
    if stopped is not None:
        raise stopped
    # a shard may have no group
    empty = not summary.groups and settings.input.shard is None
    return 0 if summary.complete and not empty else 1


def _refuse_engine(settings: ScoreSettings, options: Options) -> None:
    """Raise UsageError for a run that Ray cannot do, and for options of Ray without it.

    RefusedError if no Ray answers at the address.
    """
    if options.engine != "ray":
        # a line of the file is for the runs that use Ray
        if options.rank("ray_address") > FILE:
            raise UsageError(
                "needs --engine ray",
                "add it, or leave it out",
                place="--ray-address",
            )
        return
    source = settings.input.source
    special = source == "-" or source.startswith(("/dev/", "/proc/"))
    problem = remedy = ""
    if settings.input.shard:
        problem = "shares all of INPUT among its workers"
        remedy = "leave out --shard"
    elif special or Path(source).is_fifo():
        problem = "its workers cannot read stdin"
        remedy = "give INPUT as a file"
    elif settings.ledger is None:
        problem = "its workers keep replies in the ledger"
        remedy = "leave out --ledger none"
    elif find_spec("ray") is None:
        problem = "Ray is not installed"
        remedy = "pip install ray"
    if problem:
        raise UsageError(problem, remedy, place="--engine ray")
    address = options.ray_address or os.environ.get("RAY_ADDRESS") or ""
    if ":" in address:  # `auto` and the like are Ray's
        _ask_ray(address)


def _ask_ray(address: str) -> None:
    """Raise RefusedError if no Ray cluster answers at an address.

    Ray itself tries for minutes, in C++ code that cannot be stopped, so another process asks.
    """
    asking = f"{sys.executable} -m ray.scripts.scripts health-check --address"
    try:
        subprocess.run(  # noqa: S603 - Ray's own
            [*asking.split(), address],
            capture_output=True,
            check=True,
            timeout=_PATIENCE,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        remedy = "`ray status` shows the address; without one a cluster is started here"
        place = f"Ray at {address}"
        raise RefusedError(
            "no Ray answers there", remedy, place=place
        ) from None


def _open_requests(settings: ScoreSettings) -> int:
    """Return the number of requests that open batches of the ledger hold."""
    from ruler_cli.runs.batch.journal import count_open_requests

    return (
        0 if settings.ledger is None else count_open_requests(settings.ledger)
    )


def _judge_here(
    settings: ScoreSettings,
    options: Options,
    record: RunRecord,
    run: Callable[..., Awaitable[RunResult]] | None = None,
) -> RunResult:
    """Run `score`, or `run`, which has the same parameters, and show its progress."""
    from ruler_cli.runs.file import score

    progress = options.progress
    if progress == "auto" and settings.output == "-":
        # records may be printed on the same terminal
        shared = sys.stdout is not None and sys.stdout.isatty()
        progress = "log" if shared else progress
    with closing(Console(progress, settings.input.source)) as console:
        record.begin(settings, options, console)
        main = partial(run or score, settings, console)
        return run_interruptible(main, record.interrupted)


def _judge_on_ray(
    settings: ScoreSettings, options: Options, record: RunRecord
) -> RunResult:
    from ruler_cli.runs.cluster import ray_session, score_on_ray
    from ruler_cli.runs.file import resolve_judges

    judges = resolve_judges(settings)
    embedded = all(judge.embedded for judge in judges)
    if settings.cached_only or embedded:  # there is no call for a worker
        return _judge_here(settings, options, record)
    with ray_session(options.ray_address) as ray:
        run = partial(score_on_ray, ray=ray)
        return _judge_here(settings, options, record, run)


def _endings(settings: ScoreSettings, result: RunResult) -> Iterator[str]:
    """Yield sentences on the files of a run."""
    from ruler_cli.runs.places import failed_path

    output = Location(settings.output)
    failed = failed_path(settings)
    summary = result.summary
    lost = summary.unreadable
    if settings.on_failure == "drop":
        lost += sum(summary.failed.values())
    if failed and lost and failed.exists():
        yield f"unreadable or dropped lines and trajectories are in {failed}"
    if result.whole or output.stream:
        return
    if output.remote or (output.real.exists() and not summary.scored):
        yield f"{output.shown} is unchanged"
    if Path(settings.output + ".partial").exists():
        yield f"finished groups are in {settings.output}.partial"


def _next_command(
    settings: ScoreSettings, options: Options, result: RunResult
) -> str:
    """Return the command that comes after a run; or nothing."""
    summary = result.summary
    if summary.unanswered and _open_requests(settings):
        return ledger_command(options, "batch collect")
    output, source = Location(settings.output), settings.input.source
    # after a run in place the dropped groups are in another file
    dropped = settings.on_failure == "drop" and output.same(source)
    failed = any(map(summary.failed.get, _ASKED_AGAIN)) and not dropped
    if failed and settings.ledger is not None and not summary.unanswered:
        files = (source, settings.output)
        return command_line(options, "score", *files, retry_failed=True)
    file = output.local and Path(settings.output).is_file()
    if not summary.scored or settings.input.shard is not None or not file:
        return ""
    leave = options.origins.keys() - _SHAPE
    return command_line(options, "report", settings.output, leave=leave)
