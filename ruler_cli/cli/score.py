"""`ruler score INPUT OUTPUT`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ruler_cli.cli import clusters, options, sharing
from ruler_cli.cli.messages import say, told
from ruler_cli.cli.progress import Console
from ruler_cli.cli.summary import closing, refuse_summary, write_summary
from ruler_cli.cli.units import count
from ruler_cli.errors import OutputError, ReaderGone, UsageError
from ruler_cli.files.listing import is_many
from ruler_cli.files.remote import is_remote, public
from ruler_cli.settings import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
)

if TYPE_CHECKING:
    from ruler_cli.observer import Summary
    from ruler_cli.score import Done

_DEFAULT = JudgeSettings()
_ASK = AskSettings()


def command(
    source: options.Source,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help="The same, scored; JSON lines where it ends in .jsonl; `-` is stdout."
        ),
    ],
    model: options.Models = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    rubric: options.Rubric = None,
    param: options.Param = None,
    passes: options.Passes = 1,
    min_passes: options.MinPasses = 1,
    adaptive: options.Adaptive = False,
    fallback: options.Fallback = False,
    escalate: options.Escalate = None,
    debias: options.Debias = False,
    standardize: options.Standardize = False,
    blend: options.Blend = None,
    order_by_outcome: options.ByOutcome = False,
    single: options.Single = "flag",
    group_size: options.GroupSize = _ASK.group_size,
    order: options.Order = "random",
    seed: options.Seed = 0,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            "-c",
            min=1,
            envvar="RULER_CONCURRENCY",
            help="Calls in flight.  [default: as many as the judge takes]",
        ),
    ] = None,
    rpm: Annotated[
        float | None, typer.Option(metavar="N", min=0.01, envvar="RULER_RPM", help="Requests per minute.")
    ] = None,
    tpm: Annotated[
        float | None, typer.Option(metavar="N", min=1, envvar="RULER_TPM", help="Tokens per minute.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="S", min=0.001, envvar="RULER_TIMEOUT", help="Deadline per call, seconds."),
    ] = _DEFAULT.timeout,
    retries: Annotated[
        int,
        typer.Option(
            min=0, envvar="RULER_RETRIES", help="Retries per call; waits at a limit are no retries."
        ),
    ] = PoolSettings().retries,
    max_cost: Annotated[
        float | None,
        typer.Option(metavar="USD", min=0, envvar="RULER_MAX_COST", help="Stop before spending more."),
    ] = None,
    price: options.Prices = None,
    group_by: options.GroupBy = None,
    reward: options.Reward = None,
    messages: options.Messages = None,
    prompt: options.Prompt = None,
    outcome: options.Outcome = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    on_failure: Annotated[
        Literal["null", "drop", "keep"],
        typer.Option(
            envvar="RULER_ON_FAILURE",
            help="A group that cannot be scored: reward null, record left out, or reward kept.",
        ),
    ] = "null",
    failed: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="RULER_FAILED",
            help="Where lines that cannot be read and dropped records go.  [default: OUTPUT.failed.jsonl]",
        ),
    ] = None,
    max_failures: Annotated[
        str | None,
        typer.Option(
            metavar="N|P%",
            envvar="RULER_MAX_FAILURES",
            help="Stop when more groups and lines than that fail.",
        ),
    ] = None,
    shard: sharing.Shard = None,
    ledger: sharing.Ledgers = None,
    retry_failed: options.RetryFailed = False,
    cached_only: Annotated[
        bool,
        typer.Option(
            "--cached-only",
            envvar="RULER_CACHED_ONLY",
            help="Ask no judge: score what the ledger answers, and mark the rest as failed.",
        ),
    ] = False,
    via: options.Via = "auto",
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="RULER_SUMMARY", help="Write the run's summary as JSON."),
    ] = None,
    progress: Annotated[
        Literal["auto", "bar", "log", "none"],
        typer.Option(envvar="RULER_PROGRESS", help="What stderr shows while it runs."),
    ] = "auto",
    engine: clusters.Engine = "here",
    ray_address: clusters.Address = None,
    ray_workers: clusters.Workers = None,
    debug: Annotated[bool, typer.Option("--debug", envvar="RULER_DEBUG", help="Show each reply.")] = False,
) -> None:
    """Score each group of rollouts with a judge and write the records annotated.

    Example: ruler score rollouts.jsonl scored.jsonl -m openai/o3

    Exit codes: 0 every group scored; 1 some not scored; 2 bad usage or unreadable input; 3 the judge
    refused the run; 4 --max-cost is reached; 130 and 143 interrupted. The same command goes on.
    """
    shown = {source: public(source), output: public(output)}
    with told(resume=shlex.join(["ruler", *(shown.get(text, text) for text in sys.argv[1:])])):
        _refuse_swapped(source, output)
        usual = JudgeSettings(
            api_base=api_base,
            api_key_env=api_key_env,
            via=via,
            params=options.params(param),
            timeout=timeout,
        )
        judges, stronger = options.judges(usual, model, escalate, price, fallback=fallback)
        first_ledger, more_ledgers = sharing.ledgers(ledger)
        settings = ScoreSettings(
            InputSettings(
                source,
                format_,
                grouping,
                group_by,
                reward,
                messages,
                outcome,
                shard=sharing.shard(shard),
                prompt=prompt,
            ),
            output,
            judges[0],
            AskSettings(options.rubric(rubric), order, seed, None, passes, group_size, single),
            PoolSettings(concurrency, rpm, tpm, retries, max_cost),
            on_failure,
            failed,
            options.max_failures(max_failures),
            first_ledger,
            retry_failed,
            debug=debug,
            combine=CombineSettings(min_passes, debias, standardize, blend, order_by_outcome, single),
            panel=tuple(judges[1:]),
            fallback=fallback,
            adaptive=adaptive,
            escalate=stronger,
            cached_only=cached_only,
            ledgers=more_ledgers,
        )
        _refuse_contradictions(settings)
        clusters.refuse(settings, engine, ray_address, sys.argv[1:])
        sharing.refuse_what_needs_all(settings)
        refuse_summary(summary, settings)
        if misleading := _misleading(settings):
            say(f"ruler: warning: {misleading}")
        if progress != "none" and (partly := sharing.note(settings)):
            say(f"ruler: {partly}")
        if absent := sharing.note_of_ledger(settings):
            say(f"ruler: warning: {absent}")
        _warn_of_batches(settings)
        done = (
            _run(settings, progress)
            if engine == "here"
            else _run_on_ray(settings, progress, ray_address, ray_workers or clusters.WORKERS)
        )
        if progress != "none" and not isinstance(done.stopped, ReaderGone):
            for line in closing(done.summary):
                say(f"ruler: {line}")
            _say_what_is_out(settings, done.summary)
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
    settings: ScoreSettings,
    progress: Literal["auto", "bar", "log", "none"],
    way: Callable[..., Awaitable[Done]] | None = None,
) -> Done:
    import anyio

    from ruler_cli.cli.signals import interruptible
    from ruler_cli.files.source import shown
    from ruler_cli.score import score

    console = Console(progress, shown(settings.input.source))
    try:
        return anyio.run(interruptible, partial(way or score, settings, console))
    finally:
        console.close()


def _run_on_ray(
    settings: ScoreSettings,
    progress: Literal["auto", "bar", "log", "none"],
    address: str | None,
    workers: int,
) -> Done:
    from ruler_cli.judges.choose import Chosen
    from ruler_cli.score import chosen_for

    chosen = chosen_for(settings)
    if settings.cached_only or all(isinstance(found, Chosen) and found.embedded for found in chosen):
        return _run(settings, progress)  # there is no call that a worker could make
    from ruler_cli.cluster.run import score_on_ray, started
    from ruler_cli.writing import open_output

    with open_output(settings.input.source, settings.output):
        pass  # told now if it cannot be written
    with started(address, workers) as ray:
        return _run(settings, progress, partial(score_on_ray, ray=ray, workers=workers))


def _warn_of_batches(settings: ScoreSettings) -> None:
    """Say that what is out in batches would be paid for twice."""
    if settings.ledger is None or settings.cached_only:
        return
    from ruler_cli.batches.journal import out

    if number := out(settings.ledger):
        what = f"{count(number, 'request')} of this ledger {'is' if number == 1 else 'are'} out in batches"
        say(f"ruler: warning: {what}: those of this input are asked, and paid for, once more")


def _say_what_is_out(settings: ScoreSettings, done: Summary) -> None:
    """Where answers may be that a run missed."""
    if settings.ledger is None or not done.unanswered:
        return
    from ruler_cli.batches.journal import out
    from ruler_cli.cli.messages import on_ledger

    if number := out(settings.ledger):
        collect = f"ruler batch collect{on_ledger(sys.argv)}"
        say(
            f"ruler: {count(number, 'request')} of this ledger {'is' if number == 1 else 'are'} out in "
            f"batches; `{collect}` takes in what is answered by now"
        )


def _refuse_contradictions(settings: ScoreSettings) -> None:
    """UsageError where options contradict one another, before anything is read."""
    ask, how = settings.ask, settings.combine
    _refuse_nan(settings)
    if how.standardize and (not settings.panel or settings.fallback):
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if how.debias and ask.order == "input":
        raise UsageError("--debias: in input order a place says what the rollout is; leave out --order input")
    stronger = settings.escalate.model if settings.escalate else None
    judges = 1 if settings.fallback else 1 + len(settings.panel)
    options.refuse_passes(ask.passes, adaptive=settings.adaptive, escalate=stronger, judges=judges)
    if how.min_passes > ask.passes:
        raise UsageError(
            f"--min-passes {how.min_passes}: is more than --passes {ask.passes}, so no group could be scored"
        )
    if how.min_passes > 1 and (stronger is not None or settings.adaptive):
        _refuse_least(how.min_passes, adaptive=settings.adaptive)


def _refuse_least(least: int, *, adaptive: bool) -> None:
    from ruler_cli.scoring.gain import FIRST

    if least <= FIRST:
        return
    if adaptive:
        raise UsageError(
            f"--min-passes {least}: with --adaptive most groups get {FIRST} passes; give {FIRST} or less"
        )
    raise UsageError(
        f"--min-passes {least}: the judge of --escalate gives {FIRST} passes, so its scores would never "
        f"count; give {FIRST} or less"
    )


def _misleading(settings: ScoreSettings) -> str | None:
    """What the given options make of the figures, where that misleads."""
    if settings.ask.order == "input" and (
        settings.ask.passes > 1 or (settings.panel and not settings.fallback)
    ):
        return (
            "--order input: every pass shows the same order, so what a judge gives a place for itself counts "
            "as reliability and weight; leave it out to have that cancel"
        )
    return None


def _refuse_nan(settings: ScoreSettings) -> None:
    """`nan` is read as a number and passes every bound, and then no score and no wait is one."""
    pool = settings.pool
    given = (
        ("--blend", settings.combine.blend),
        ("--rpm", pool.rpm),
        ("--tpm", pool.tpm),
        ("--max-cost", pool.max_cost),
        ("--timeout", settings.judge.timeout),
    )
    for name, value in given:
        if value is not None and math.isnan(value):
            raise UsageError(f"{name} nan: is no number; give one, or leave the option out")


def _refuse_swapped(source: str, output: str) -> None:
    """UsageError where INPUT is not there and OUTPUT is, unless INPUT looks like another file's name."""
    if source == "-" or is_remote(source) or not Path(output).is_file() or is_many(source):
        return
    from ruler_cli.nearest import file

    if not Path(source).exists() and file(source) in (None, output):
        raise UsageError(
            f"{source}: no such file, but OUTPUT {output} is one; INPUT comes first: are they swapped?"
        )


def _say_what_is_there(settings: ScoreSettings) -> None:
    """Where the records are that a run has written before it stopped."""
    output = settings.output
    if is_remote(output):
        say(f"ruler: {public(output)} is as it was: it is written when the run is at its end")
        return
    partial = Path(output) / "*.partial" if Path(output).is_dir() else Path(output + ".partial")
    if output != "-" and (partial.exists() or any(Path(output).rglob("*.partial"))):
        say(f"ruler: what is whole so far is in {partial}")
