"""`ruler render INPUT REQUESTS`: write the requests that the ledger lacks to a file, for others to answer."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.command import ledger_command, running, score_command
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import RUN_OPTIONS, RUN_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.signals import run_cancellable
from ruler_cli.cli.units import count, print_figures
from ruler_cli.files.error_map import writing
from ruler_cli.files.location import Location
from ruler_cli.files.output import create_file
from ruler_cli.settings.load import score_settings

if TYPE_CHECKING:
    from ruler_cli.types import Request

NOT_RENDERED = """
answered by the ledger: {0.answered:group}
failed before, --retry-failed asks again: {0.lost:group}
cannot be asked about: {0.unaskable:group}
cannot be read: {0.unreadable:line or trajectory}
"""


@takes(
    "target",
    *RUN_OPTIONS,
    "shard",
    "ledger",
    "retry_failed",
    "force",
    settings=RUN_SETTINGS,
)
def command(
    ctx: typer.Context,
    source: Source,
    requests: Annotated[
        str,
        typer.Argument(
            metavar="REQUESTS",
            help="A file of requests, one a line; `-` is stdout.",
        ),
    ],
) -> int:
    """Write the requests that `score` would send to a file. Nothing is sent.

    Requests that the ledger answers are left out. The batch APIs of OpenAI and Anthropic, `vllm run-batch` or
    another engine can answer them. Answers can lead to further requests: import them and run the same
    command again until REQUESTS is empty. A panel has a file for each judge, named after it.

    Example: ruler render rollouts.jsonl requests.jsonl -m openai/o3

    Exit codes: 0 written, or nothing is missing; 1 some lines cannot be read, or some groups cannot be
    asked about; 2 bad usage or unreadable input; 130 and 143 interrupted, and nothing is written.
    """
    with running(ctx, source, requests) as options:
        from ruler_cli.files.output import refuse_clashes, refuse_input, refuse_name
        from ruler_cli.judges.resolve import cached_only
        from ruler_cli.runs.batch.requests import (
            names_for,
            render_missing,
            request_line,
            target_of,
        )

        settings = score_settings(options, source, requests)
        source, output = settings.input.source, settings.output
        refuse_name(requests, ".json")
        refuse_clashes(source, output)
        refuse_input(source, output)
        judges = settings.judges
        for judge in judges:
            cached_only(judge)
        lines = [
            request_line(target_of(judge, options.target), judge) for judge in judges
        ]
        names = names_for(output, [judge.label for judge in judges])
        with closing(Console("log", source)) as console, ExitStack() as stack:
            files = []
            create = partial(create_file, kind="request file", force=options.force)
            for name in names:
                files.append(create(Location(name)))
                stack.callback(files[-1].discard)

            def write(judge: int, key: bytes, request: Request) -> None:
                with writing(names[judge]):
                    files[judge].stream.write(lines[judge](key, request))

            rendered = run_cancellable(lambda: render_missing(settings, write, console))
            with writing(output):
                for file in files:
                    file.commit()
            stack.pop_all()
        print_figures(NOT_RENDERED, rendered)
        score = score_command(options, source)
        if any(rendered.requests):
            for name, number in zip(names, rendered.requests, strict=True):
                file_name = "stdout" if name == "-" else name
                print_note(f"{file_name}: {count(number, 'request')}")
            take_in = ledger_command(options, "ledger import", "REPLIES")
            print_note(f"next, once they are answered: {take_in} && {score}")
        else:
            print_note(f"no request is missing; next: {score}")
        return 1 if rendered.unreadable or rendered.unaskable else 0
