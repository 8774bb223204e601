"""`ruler score INPUT OUTPUT`."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.arguments import Source
from ruler_cli.cli.check import check
from ruler_cli.cli.command import with_options
from ruler_cli.cli.messages import (
    collect_command,
    debug_command,
    print_note,
    print_wrapped,
    same_command,
)
from ruler_cli.cli.progress import Console
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.summary import RunRecord, summary_lines
from ruler_cli.cli.units import count
from ruler_cli.errors import (
    NoUsableReply,
    ReaderGone,
    RefusedError,
    Sentence,
    UsageError,
)
from ruler_cli.files.location import Location
from ruler_cli.runs.load_settings import file_note, score_settings
from ruler_cli.settings.models import ScoreSettings, default_path
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.runs.file import RunResult
    from ruler_cli.types import Summary

_PATIENCE = 10.0
"""Seconds in which a Ray cluster must answer at its address."""
_WORKERS = 2
"""Workers of Ray by default."""


@with_options("score", resumes=True, record=RunRecord)
def command(
    source: Source,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="JSON lines; a list as .json, a table as .parquet; .gz and .zst compress; `-` is stdout.",
        ),
    ],
    options: Options,
    record: RunRecord,
) -> int:
    """Score each group with a judge, and write the records annotated.

    \b
    Example:
      ruler score rollouts.jsonl scored.jsonl --dry-run    sends nothing
      ruler score rollouts.jsonl scored.jsonl --limit 5    five groups, to try
      ruler score rollouts.jsonl scored.jsonl --passes 4 --max-cost 20

    Exit codes: 0 every group scored; 1 some not scored; 2 bad usage or unreadable input; 3 the judge
    refused the run; 4 --max-cost is reached; 130 and 143 interrupted. Run it again to resume.
    """
    _refuse_swapped(source, output)
    settings = score_settings(options, source, output)
    if options.dry_run:
        _refuse_run(settings)
        return check(settings, options)
    _refuse_engine(settings, options)
    quiet = options.progress == "none"
    if note := file_note(options, settings, quiet=quiet):
        print_note(note)
    _print_warnings(settings, quiet=quiet)
    result = (_run if options.engine == "here" else _run_on_ray)(
        settings, options, record
    )
    record.result = result
    if options.progress != "none" and not isinstance(result.stopped, ReaderGone):
        print_wrapped(
            *summary_lines(
                result.summary, debug=options.debug or settings.ledger is None
            )
        )
        _print_next(settings, options, result)
    if result.stopped is not None:
        if not result.whole:
            _print_partial_output(settings)
        if isinstance(result.stopped, NoUsableReply):
            raise _with_debug_command(settings, result.stopped)
        raise result.stopped
    empty = (
        not result.summary.groups and settings.input.shard is None
    )  # a shard may have no group
    return 0 if result.summary.complete and not empty else 1


def _with_debug_command(settings: ScoreSettings, error: NoUsableReply) -> RefusedError:
    """Return the error with the command that shows the reply to the first group that failed."""
    in_order = settings.input.shard is None and settings.draw is None
    more = [
        "--debug",
        *(["--limit", str(error.first)] if in_order else ["--max-failures", "0"]),
    ]
    more += ["--on-failure", "null"] * (
        settings.on_failure == "drop"
    )  # dropped records need a file
    words = debug_command(settings.input.source, settings.output, *more)
    error.set(remedy=f"to see a reply: {words}")
    return error


def _refuse_swapped(source: str, output: str) -> None:
    """Raise UsageError if INPUT does not exist and OUTPUT does, with a name that is near, if there is one."""
    if (
        not Location(source).local
        or not Path(output).is_file()
        or Location(source).many
    ):
        return
    from ruler_cli.settings.suggestions import suggest_file

    if Path(source).exists():
        return
    if near := suggest_file(source, output):
        raise UsageError(f"{source}: no such file; did you mean {near}?")
    raise UsageError(
        f"{source}: no such file, but OUTPUT {output} is one; INPUT comes first: are they swapped?"
    )


def _refuse_run(settings: ScoreSettings) -> None:
    """Raise UsageError if `score` would refuse the settings or the files, whatever INPUT holds."""
    from ruler_cli.files.output import failed_path, refuse_output
    from ruler_cli.runs.file import refuse_settings_of_run

    refuse_settings_of_run(settings)
    refuse_output(settings.input.source, settings.output)
    failed_path(settings)


def _refuse_engine(settings: ScoreSettings, options: Options) -> None:
    """Refuse a run that Ray cannot do, and options of Ray without `--engine ray`.

    UsageError, or RefusedError if no Ray answers at the address.
    """
    if options.engine != "ray":
        for option in ("ray_address", "ray_workers"):
            # a line in ruler.toml is for the runs that use Ray
            if option in options.origins and options.origins[option].rank > 1:
                raise UsageError(
                    "is for workers of Ray",
                    Sentence("give {engine:ray} too, or leave it out"),
                    option=option,
                )
        return
    if settings.input.shard is not None:
        raise UsageError(
            "workers of Ray share the whole input already",
            "leave it out, or --engine ray",
            option="shard",
        )
    source = settings.input.source
    if (
        source == "-"
        or source.startswith(("/dev/", "/proc/"))
        or Path(source).is_fifo()
    ):
        remedy = "give the input as a file, or leave out --engine"
        raise UsageError(
            "stdin cannot be read by other processes",
            remedy,
            option="engine",
            value="ray",
        )
    if find_spec("ray") is None:
        raise UsageError(
            "ray is not installed",
            "install it with: pip install ray",
            option="engine",
            value="ray",
        )
    address = options.ray_address or os.environ.get("RAY_ADDRESS") or ""
    if address.startswith("ray://"):
        remedy = "give host:port of the cluster and run there, or hand the command to it: ray job submit"
        raise UsageError(
            "ray:// leads to Ray Client", remedy, **_address_from(options, address)
        )
    _refuse_unreachable(options, address)


def _address_from(options: Options, address: str) -> dict[str, str]:
    """Return the option, or the variable, that gives the address of Ray, for an error."""
    if options.ray_address:
        return {"option": "ray_address", "value": address}
    return {"place": f"RAY_ADDRESS {address}"}


def _refuse_unreachable(options: Options, address: str) -> None:
    """Raise RefusedError if no Ray answers at an address.

    Ray itself tries for minutes, in C++ code that cannot be stopped: so another process asks, with a timeout.
    """
    host, _, port = address.rpartition(":")
    if (
        not host or not port.isdecimal() or not 0 < int(port) < 65536
    ):  # `auto` and the like are Ray's
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        health_check = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "health-check",
            "--address",
            address,
        ]
        subprocess.run(  # noqa: S603 - Ray's own
            health_check, capture_output=True, check=True, timeout=2 * _PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        told = "`ray status` on a machine of the cluster tells the address, or leave it out to start one here"
        raise RefusedError(
            "no Ray answers there", told, **_address_from(options, address)
        ) from None


def _print_warnings(settings: ScoreSettings, *, quiet: bool) -> None:
    """Warn of options that mislead, and say which figures rest on a shard only."""
    from ruler_cli.judges.resolve import address_note

    if not quiet:
        print_note(
            *dict.fromkeys(
                note for judge in settings.judges if (note := address_note(judge))
            )
        )
    if settings.spend == "spread" and settings.draw is None and not quiet:
        print_note(
            "--spend spread: has an effect with --max-cost only; here all groups are asked about"
        )
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
        print_note(
            f"warning: {clause}: those of this input are asked, and paid for, once more"
        )


def _run(
    settings: ScoreSettings,
    options: Options,
    record: RunRecord,
    run: Callable[..., Awaitable[RunResult]] | None = None,
) -> RunResult:
    """Run `score`, or `run`, which has the same parameters, and show its progress."""
    from ruler_cli.runs.file import score

    progress = options.progress
    if (
        progress == "auto"
        and settings.output == "-"
        and sys.stdout is not None
        and sys.stdout.isatty()
    ):
        progress = "log"  # records are printed on the same terminal
    with closing(Console(progress, settings.input.source)) as console:
        record.begin(settings, console)
        return run_interruptible(
            partial(run or score, settings, console), record.interrupted
        )


def _run_on_ray(
    settings: ScoreSettings, options: Options, record: RunRecord
) -> RunResult:
    from ruler_cli.judges.resolve import ResolvedJudge
    from ruler_cli.runs.file import resolve_judges

    judges = resolve_judges(settings)
    if settings.cached_only or all(
        isinstance(judge, ResolvedJudge) and judge.embedded for judge in judges
    ):
        return _run(
            settings, options, record
        )  # there is no call that a worker could make
    if settings.ledger is None:
        raise UsageError(
            "workers keep replies in the ledger",
            "leave out --ledger none",
            option="engine",
            value="ray",
        )
    from ruler_cli.files.output import open_output
    from ruler_cli.runs.cluster import ray_session, score_on_ray

    with open_output(settings.input.source, settings.output):
        pass  # fails now if it cannot be written
    workers = options.ray_workers or _WORKERS
    with ray_session(options.ray_address, workers) as ray:
        return _run(
            settings, options, record, partial(score_on_ray, ray=ray, workers=workers)
        )


def _requests_in_batches(settings: ScoreSettings) -> str | None:
    """Return a clause on requests of the ledger in open batches, None if there are none."""
    from ruler_cli.runs.batch.journal import count_open_requests

    number = 0 if settings.ledger is None else count_open_requests(settings.ledger)
    are = "is" if number == 1 else "are"
    return (
        f"{count(number, 'request')} of this ledger {are} out in batches"
        if number
        else None
    )


def _print_next(settings: ScoreSettings, options: Options, result: RunResult) -> None:
    """Name OUTPUT, and the command that follows; if the run was stopped its error names the command."""
    from ruler_cli.files.output import failed_path

    clauses, failed, summary = list[str](), failed_path(settings), result.summary
    dropped = settings.on_failure == "drop" and summary.failed
    output = Location(settings.output)
    lost = (
        dropped
        and result.whole
        and not output.stream
        and output.same(settings.input.source)
    )
    if failed is not None and (summary.unreadable or dropped) and failed.exists():
        what = (
            "dropped records and what is not readable are"
            if dropped
            else "what is not readable is"
        )
        gone = (
            "; INPUT has them no more, so score that file, with --retry-failed"
            if lost
            else ""
        )
        print_note(f"{what} in {failed}{gone}")
    if not (result.whole or summary.scored or output.stream) and (
        output.remote or output.real.exists()
    ):
        print_note(f"nothing was scored: {output.shown} stays as it was")
        if result.stopped is None:
            _print_partial_output(settings)
    if result.whole and not output.stream:
        clauses.append(f"written to {output.shown}")
    following = (
        None
        if result.stopped
        else _next_command(settings, options, summary, again=not lost)
    )
    if following:
        clauses.append(f"next: {following}")
    if clauses:
        print_note("; ".join(clauses))  # not wrapped: a command is copied


def _next_command(
    settings: ScoreSettings, options: Options, summary: Summary, *, again: bool
) -> str | None:
    """Return the command that helps after a run: one for its failures, else `ruler report`.

    `again` tells if the same command finds in INPUT what failed.
    """
    if summary.unanswered and (clause := _requests_in_batches(settings)):
        print_note(f"{clause}; `{collect_command()}` takes in what is answered by now")
        return collect_command()
    if any(summary.failed.get(kind) for kind in ("reply", "transport", "refused")):
        if settings.ledger is None:
            print_note(
                "no reply is kept: another run asks about all groups, at the full cost"
            )
        elif again:
            same = same_command(settings.input.source, settings.output)
            if summary.failed.get("reply") and not options.debug:
                return f"{same} --debug"
            if not summary.unanswered:
                return same if options.retry_failed else f"{same} --retry-failed"
    target = Path(settings.output)
    local = Location(settings.output).local and target.is_file()
    if not summary.scored or settings.input.shard is not None or not local:
        return None
    return shlex.join(["ruler", "report", settings.output])


def _print_partial_output(settings: ScoreSettings) -> None:
    """Name the files of a run that was stopped before its end."""
    output = settings.output
    if Location(output).remote:
        public = Location(output).public
        print_note(f"{public} is as it was: it is written when the run is at its end")
        return
    partial_file = Path(output + ".partial")
    if output != "-" and partial_file.exists():
        print_note(f"finished groups are in {partial_file}")
