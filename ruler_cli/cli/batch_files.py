"""`ruler batch export|import`: requests that the ledger lacks to a file, for others to answer, and replies back."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.command import ledger_command, running, score_command
from ruler_cli.cli.ledger import print_table, required_ledger_path
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import RUN_OPTIONS, RUN_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import print_json
from ruler_cli.cli.signals import run_cancellable
from ruler_cli.cli.units import count, print_figures, rows
from ruler_cli.files.error_map import writing
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    create_file,
    refuse_clashes,
    refuse_input,
    refuse_name,
)
from ruler_cli.settings.fields import texts
from ruler_cli.settings.load import score_settings

if TYPE_CHECKING:
    from ruler_cli.types import Request

NOT_ASKED = """
answered by the ledger: {0.answered:group}
failed before, --retry-failed asks again: {0.lost:group}
cannot be asked about: {0.unaskable:group}
cannot be read: {0.unreadable:line or trajectory}
"""

_IMPORT = """
ledger: {ledger}
read: {rows:row} of {files:file}
new: {new:answer}
known: {known:row}, whose requests had an answer
failed: {failed_for_good:request} for good: {failed}
again: {again:request} to be asked again: {again_by_reason}
foreign: {foreign:row} of other requests, left out
unreadable: {unreadable:row}, left out
"""


@takes(
    *RUN_OPTIONS,
    "shard",
    "ledger",
    "retry_failed",
    "force",
    settings=RUN_SETTINGS,
)
def export(
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
    command again until REQUESTS is empty. A panel has a file for each judge: requests.1.jsonl and so on.

    Example: ruler batch export rollouts.jsonl requests.jsonl -m openai/o3

    Exit codes: 0 written, or nothing is missing; 1 some lines cannot be read, or some groups cannot be
    asked about; 2 bad usage or unreadable input; 130 and 143 interrupted, and nothing is written.
    """
    with running(ctx, source, requests) as options:
        from ruler_cli.judges.resolve import cached_only
        from ruler_cli.runs.batch.requests import (
            find_missing,
            names_for,
            request_line,
        )

        settings = score_settings(options, source, requests)
        source, output = settings.input.source, settings.output
        refuse_name(requests, ".json")
        refuse_clashes(source, output)
        refuse_input(source, output)
        judges = settings.judges
        for judge in judges:
            cached_only(judge)
        lines = [request_line(judge) for judge in judges]
        names = names_for(output, len(judges))
        with closing(Console("log", source)) as console, ExitStack() as stack:
            files = []
            for name in names:
                place = Location(name)
                file = create_file(place, "request file", force=options.force)
                stack.callback(file.discard)
                files.append(file)

            def write(judge: int, key: bytes, request: Request) -> None:
                with writing(names[judge]):
                    files[judge].stream.write(lines[judge](key, request))

            rendered = run_cancellable(
                lambda: find_missing(settings, write, console)
            )
            with writing(output):
                for file in files:
                    file.commit()
            stack.pop_all()
        print_figures(NOT_ASKED, rendered)
        score = score_command(options, source)
        if any(rendered.requests):
            for name, number in zip(names, rendered.requests, strict=True):
                file_name = "stdout" if name == "-" else name
                print_note(f"{file_name}: {count(number, 'request')}")
            take_in = ledger_command(options, "batch import", "REPLIES")
            print_note(f"next, once they are answered: {take_in} && {score}")
        else:
            print_note(f"no request is missing; next: {score}")
        return 1 if rendered.unreadable or rendered.unaskable else 0


@takes("ledger", "model", "as_json")
def import_(
    ctx: typer.Context,
    replies: Annotated[
        list[str],
        typer.Argument(
            metavar="REPLIES...",
            help="Files of replies, JSON lines, plain, .gz or .zst, or Parquet; a directory, a pattern; "
            "`-` is stdin.",
        ),
    ],
) -> int:
    """Import replies that a batch API or another engine wrote.

    They may come in any order and repeatedly; the first answer stays. REPLIES are result files of
    `vllm run-batch` or of OpenAI's and Anthropic's batch APIs, or rows of your own: a chat completion, or its
    text as `text`, `generated_text` or `output`, beside the `custom_id` of its request.

    Example: ruler batch import replies.jsonl

    Exit codes: 0 all of it is in the ledger; 1 some requests failed or must be asked again, or some
    rows could not be read; 2 bad usage, or no such file.
    """
    with running(ctx, replies) as options:
        from ruler_cli.ledger.reply_cache import Ledger
        from ruler_cli.runs.batch.replies import (
            import_rows,
            reply_files,
            rows_of,
        )

        file, files = required_ledger_path(options), reply_files(replies)
        name = next(iter(texts(options.origin("model").value or ())), None)
        if options.file and name and name in options.file.judges:
            name = str(options.file.judges[name]["model"])
        with Ledger(file) as opened:
            result = import_rows(opened, rows_of(files), name)
        failed = result.failed
        again = result.again
        facts = {
            "ledger": str(file),
            "rows": result.rows,
            "new": result.new,
            "known": result.repeated,
            "failed_for_good": failed.total(),
            "failed": dict(failed.most_common()),
            "again": again.total(),
            "again_by_reason": dict(again.most_common()),
            "foreign": result.foreign,
            "unreadable": result.unreadable,
            "odd": [row._asdict() for row in result.rejected],
        }
        if not result.rows:
            print_note("there are no replies in the input")
        print_note(*(f"{row.where} {row.reason}" for row in result.rejected))
        for label, sentence in result.messages.items():
            print_note(f"the first request that is {label}: {sentence}")
        if options.as_json:
            print_json(facts)
        else:
            print_table(rows(_IMPORT, {**facts, "files": len(files)}))
        odd = result.foreign or result.unreadable
        return int(bool(failed or again or odd))
