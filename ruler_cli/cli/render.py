"""`ruler render INPUT REQUESTS`: write the requests that the ledger lacks to files, for others to answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.command import ledger_command, run_command, score_command
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    Adaptive,
    ApiBase,
    Config,
    Escalate,
    Fallback,
    Format,
    GroupBy,
    Grouping,
    GroupSize,
    JudgeModel,
    Ledgers,
    Limit,
    MaxRecord,
    Messages,
    NoCache,
    Order,
    Outcome,
    Param,
    Passes,
    Prompt,
    RetryFailed,
    Reward,
    Rubric,
    Seed,
    ShardOf,
    Single,
    Source,
    Target,
)
from ruler_cli.cli.progress import Console
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.units import count, counts, size
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.runs.batch.missing_requests import MissingRequests
    from ruler_cli.types import Request


def command(
    ctx: typer.Context,
    source: Source,
    requests: Annotated[
        str,
        typer.Argument(
            metavar="REQUESTS",
            help="A file of requests, or the name of several: requests-0001.jsonl, …; `-` is stdout.",
        ),
    ],
    target: Target = "auto",
    model: JudgeModel = None,
    api_base: ApiBase = None,
    passes: Passes = 1,
    rubric: Rubric = None,
    param: Param = None,
    fallback: Fallback = False,
    escalate: Escalate = None,
    adaptive: Adaptive = False,
    order: Order = "random",
    seed: Seed = 0,
    group_size: GroupSize = 32,
    single: Single = "flag",
    limit: Limit = None,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    reward: Reward = None,
    outcome: Outcome = None,
    max_record: MaxRecord = 512,
    shard: ShardOf = None,
    ledger: Ledgers = None,
    no_cache: NoCache = False,
    retry_failed: RetryFailed = False,
    config: Config = None,
) -> int:
    """Write the requests that `score` would send to a file. Nothing is sent.

    Requests that the ledger answers are left out. The batch APIs of OpenAI and Anthropic, `vllm run-batch` or
    another engine can answer them. Requests may follow from answers: put these into the ledger and run the
    same command again, until it writes none; REQUESTS is empty then. Files are split where a provider takes
    no larger ones. A panel has a set of files for each judge, named after it.

    Example: ruler render rollouts.jsonl requests.jsonl -m openai/o3

    Exit codes: 0 written, or nothing is lacking; 1 some lines cannot be read or some groups not be asked
    about; 2 bad usage or unreadable input; 130 and 143 interrupted, and nothing is written.
    """
    return run_command(ctx, _run, source, requests)


def _run(options: Options, source: str, requests: str) -> int:
    from ruler_cli.files.file_names import refuse_output_name
    from ruler_cli.files.output import refuse_clashes
    from ruler_cli.judges.resolve import cached_only
    from ruler_cli.runs.batch.missing_requests import render_missing
    from ruler_cli.runs.batch.request_files import (
        LIMITS,
        RequestFiles,
        names_for,
        request_line,
        target_of,
    )

    settings = score_settings(options, source, requests)
    refuse_output_name(source, requests, "requests are JSON lines", other=(".json",))
    judges = settings.judges
    for judge in judges:
        cached_only(judge)
    refuse_clashes(settings.input.source, settings.output)
    targets = [target_of(judge, options.target) for judge in judges]
    lines = [
        request_line(each, judge) for each, judge in zip(targets, judges, strict=True)
    ]
    names = names_for(settings.output, [judge.label for judge in judges])
    too_large = [0] * len(judges)
    with ExitStack() as stack:
        files = [
            stack.enter_context(RequestFiles(name, LIMITS[each]))
            for name, each in zip(names, targets, strict=True)
        ]

        def write(judge: int, key: bytes, request: Request) -> None:
            too_large[judge] += not files[judge].write(lines[judge](key, request))

        with closing(Console("log", settings.input.source)) as console:
            rendered = run_interruptible(
                lambda stop: render_missing(settings, write, console, stop)
            )
        for file in files:
            file.end()
        written = [part for file in files for part in file.commit()]
    for name, number in zip(targets, too_large, strict=True):
        if number:
            most = (LIMITS[name].bytes or 0) / 1e6
            print_note(
                f"{count(number, 'request')} not written: larger than the {most:.0f} MB that {name} "
                "takes; show fewer rollouts at once, with --group-size"
            )
    _print_rendered(rendered, written, settings, options)
    return 1 if rendered.unreadable or rendered.unaskable or any(too_large) else 0


def not_rendered(missing: MissingRequests) -> list[tuple[int, str, str]]:
    """Return the numbers of groups and lines without requests, each with its noun and the reason."""
    failed = sum(missing.failed.values()) - missing.unaskable
    return [
        (missing.answered, "group", "answered by the ledger"),
        (failed, "group", "failed in an earlier run; --retry-failed asks again"),
        (missing.unaskable, "group", "that cannot be asked about"),
        (missing.unreadable, "line or trajectory", "not readable"),
    ]


def _print_rendered(
    rendered: MissingRequests,
    written: Sequence[tuple[str, int, int]],
    settings: ScoreSettings,
    options: Options,
) -> None:
    """Report what was rendered and the files: name, requests and bytes of each."""
    from ruler_cli.prompting.layout import BYTES_PER_TOKEN

    score = score_command(options, settings.input.source)
    lacking = rendered.groups - rendered.answered - sum(rendered.failed.values())
    print_note(*counts(not_rendered(rendered)))
    if not lacking:
        print_note(
            f"{count(rendered.groups, 'group')}: nothing is lacking, there are no requests; "
            f"`{score}` writes the output"
        )
        return
    tokens = sum(rendered.characters) / BYTES_PER_TOKEN
    print_note(
        f"{lacking} of {count(rendered.groups, 'group')} to be asked about, "
        f"{count(sum(rendered.requests), 'request')}, about {tokens:,.0f} prompt tokens"
    )
    for name, requests, length in written:
        file = "stdout" if name == "-" else name
        print_note(f"{file}: {count(requests, 'request')}, {size(length)}")
    take_in = ledger_command(options, "ledger import", "REPLIES")
    print_note(f"once they are answered: `{take_in}`, then `{score}`")
