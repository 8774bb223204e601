"""`ruler render INPUT REQUESTS`: what the ledger lacks, as files that others answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ruler_cli.cli.messages import on_ledger, say, scoring, told
from ruler_cli.cli.options import ScoreOptions, Source, with_options
from ruler_cli.cli.progress import Console
from ruler_cli.cli.units import count, size
from ruler_cli.config import ScoreSettings

if TYPE_CHECKING:
    from ruler_cli.batch.missing_requests import MissingRequests
    from ruler_cli.batch.request_files import Target
    from ruler_cli.types import Request


@with_options(
    "target model api_base rubric param passes adaptive fallback escalate single group_size order seed "
    "group_by reward messages prompt outcome grouping format_ shard ledger retry_failed"
)
def command(
    source: Source,
    requests: Annotated[
        str,
        typer.Argument(
            metavar="REQUESTS",
            help="A file of requests, or the name of several: requests-0001.jsonl, …; `-` is stdout.",
        ),
    ],
    options: ScoreOptions,
    target: Annotated[
        Literal["auto", "openai", "anthropic", "vllm"],
        typer.Option(
            envvar="RULER_TARGET", help="Whose form the requests have; auto goes by the judge's name."
        ),
    ] = "auto",
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            envvar="RULER_SHARD",
            help="Write only the requests for the groups of shard I of N; the first is 1.",
        ),
    ] = None,
) -> None:
    """Write the requests that `score` would send and the ledger does not answer. Nothing is sent.

    OpenAI's or Anthropic's batch API, `vllm run-batch` or any other engine can answer them. Requests may
    follow from answers: put these into the ledger and run the same command again, until it writes none;
    REQUESTS is empty then. Files are split where a provider takes no larger ones. A panel has a set of
    files for each judge, named after it.

    Example: ruler render rollouts.jsonl requests.jsonl -m openai/o3

    Exit codes: 0 written, or nothing is lacking; 1 some lines cannot be read or some groups not be asked
    about; 2 bad usage or unreadable input; 130 and 143 interrupted, and nothing is written.
    """
    with told():
        settings = replace(options, shard=shard).settings(source, requests)
        raise typer.Exit(0 if _render(settings, target) else 1)


def _render(settings: ScoreSettings, target: Literal["auto"] | Target) -> bool:
    """Whether all that is lacking is written."""
    import anyio

    from ruler_cli.batch.missing_requests import render_missing
    from ruler_cli.batch.request_files import LIMITS, RequestFiles, names_for, request_line, target_of
    from ruler_cli.cli.signals import interruptible
    from ruler_cli.judges.resolve import cached_only
    from ruler_cli.judging.panel import judges_of
    from ruler_cli.reading.location import Location
    from ruler_cli.writing.output import refuse_clashes

    judges = judges_of(settings)
    for judge in judges:
        cached_only(judge)
    refuse_clashes(settings.input.source, settings.output)
    targets = [target_of(judge, target) for judge in judges]
    lines = [request_line(each, judge) for each, judge in zip(targets, judges, strict=True)]
    names = names_for(settings.output, [judge.model for judge in judges])
    console = Console("log", Location(settings.input.source).shown)
    large = [0] * len(judges)
    with ExitStack() as stack:
        files = [
            stack.enter_context(RequestFiles(name, LIMITS[each]))
            for name, each in zip(names, targets, strict=True)
        ]

        def take(seat: int, key: bytes, request: Request) -> None:
            large[seat] += not files[seat].write(lines[seat](key, request))

        try:
            done = anyio.run(interruptible, lambda halt: render_missing(settings, take, console, halt))
        finally:
            console.close()
        for each in files:
            each.end()
        made = [one for each in files for one in each.commit()]
    for name, number in zip(targets, large, strict=True):
        if number:
            most = (LIMITS[name].bytes or 0) / 1e6
            say(
                f"ruler: {count(number, 'request')} not written: larger than the {most:.0f} MB that {name} "
                "takes; show fewer rollouts at once, with --group-size"
            )
    _say_what(done, made, settings)
    return not (done.unreadable or done.unaskable or any(large))


def _say_what(done: MissingRequests, made: Sequence[tuple[str, int, int]], settings: ScoreSettings) -> None:
    from ruler_cli.prompting.layout import BYTES_PER_TOKEN

    again = scoring(sys.argv[2:], settings.input.source, settings.output)
    before = sum(done.failed.values()) - done.unaskable
    lacking = done.groups - done.answered - sum(done.failed.values())
    parts = (
        (done.answered, "group", "answered by the ledger"),
        (before, "group", "failed in an earlier run; --retry-failed asks again"),
        (done.unaskable, "group", "that cannot be asked about"),
        (done.unreadable, "line or trajectory", "not readable"),
    )
    for number, what, said in parts:
        if number:
            say(f"ruler: {count(number, what)} {said}")
    if not lacking:
        say(
            f"ruler: {count(done.groups, 'group')}: nothing is lacking, there are no requests; "
            f"`{again}` writes the output"
        )
        return
    tokens = sum(done.characters) / BYTES_PER_TOKEN
    say(
        f"ruler: {lacking} of {count(done.groups, 'group')} to be asked about, "
        f"{count(sum(done.requests), 'request')}, about {tokens:,.0f} prompt tokens"
    )
    for name, requests, number in made:
        say(f"ruler: {'stdout' if name == '-' else name}: {count(requests, 'request')}, {size(number)}")
    taking = f"ruler ledger import REPLIES{on_ledger(sys.argv)}"
    say(f"ruler: once they are answered: `{taking}`, then `{again}`")
