"""`ruler batch`: a provider's batch API asks the judge, at half the price; or another engine, by files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ruler_cli.cli.command import (
    ledger_command,
    print_file_note,
    running,
    score_command,
)
from ruler_cli.cli.help import SectionedCommand
from ruler_cli.cli.ledger import required_ledger_path
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import RUN_OPTIONS, RUN_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import one_line, print_facts, print_json
from ruler_cli.cli.signals import run_cancellable
from ruler_cli.cli.units import count, lines, rounded
from ruler_cli.errors import UsageError
from ruler_cli.settings.fields import texts
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.options import COMMAND_LINE, Options
from ruler_cli.types import Request, iso, words_of

if TYPE_CHECKING:
    from ruler_cli.runs.batch.batches import Batches, BatchStatus
    from ruler_cli.runs.batch.journal import BatchRecord
    from ruler_cli.runs.batch.providers import RemoteBatch

T = TypeVar("T")
_NOT_ASKED = """
answered by the ledger: {0.answered:group}
failed before, --retry-failed asks again: {0.lost:group}
cannot be asked about: {0.unaskable:group}
cannot be read: {0.unreadable:line or trajectory}
"""
_SUBMITTED = """
already in open batches: {0.out:request}
submitted: {0.requests:request}
"""
_BATCH = """
{0.requests:request}
{0.answered:request} answered
{1.succeeded:request} answered
{0.failed:request} failed
{1.failed:request} failed
{0.left_out:request} to be submitted again
"""
"""Figures of a batch on record, and of the batch at its provider."""
_RECORDED = words_of(
    "tag provider model state requests bytes answered failed left_out reason"
)
"""Facts of a batch on record that `--json` has by the same names."""
_HELP = """Have a provider's batch API ask the judge, at half the price.

It takes up to 24 hours. The ledger keeps the submitted batches and takes in the answers; `ruler score
--cached-only` then writes the output. After a crash at any point the next command recovers. Engines without
a batch API answer a file: `export` writes the requests, `import` takes in the replies.

\b
Example:
  ruler batch submit rollouts.jsonl -m openai/o3 --wait
"""
_LONGEST_WAIT = 26 * 3600.0
"""Seconds that `--wait` waits at most: a provider ends a batch after a day."""
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)


@app.command("submit", cls=SectionedCommand)
@takes(
    "wait",
    *RUN_OPTIONS,
    "api_key_env",
    "max_cost",
    "price",
    "ledger",
    "retry_failed",
    settings=(*RUN_SETTINGS, "settle"),
)
def submit(ctx: typer.Context, source: Source) -> int:
    """Submit the requests of `score` that the ledger does not answer.

    Requests in open batches are left out. The options are those of `score`. Each judge has its own batches,
    as many as its provider's limits require. Answers can lead to further requests: run the same command
    again after each collection until nothing is missing.

    Example: ruler batch submit rollouts.jsonl -m openai/o3

    Exit codes: 0 submitted, or nothing is missing; 1 something could not be read, asked or found (with
    --wait as `collect`); 2 bad usage or unreadable input; 3 the provider refused; 4 the cost could exceed
    --max-cost; 130 and 143 interrupted. Run it again to resume.
    """
    with running(ctx, source, resumes=True) as options:
        settings = score_settings(options, source)
        print_file_note(options, settings)
        source = settings.input.source
        again = score_command(options, source)

        async def main(batches: Batches) -> int:
            result = await batches.submit(settings, _print_batch)
            missing = result.missing
            print_note(*lines(_NOT_ASKED, {}, missing))
            print_note(*lines(_SUBMITTED, {}, result))
            code = int(bool(missing.unreadable or missing.unaskable))
            still_open = result.batches or result.out
            if options.wait and still_open:
                return await _collect(batches, options, again) or code
            if still_open:
                print_note(f"next: {ledger_command(options, 'batch collect')}")
            else:
                print_note(f"no request is missing; next: {again}")
            return code

        return _run(main, options, source)


@app.command("status", cls=SectionedCommand)
@takes("all_batches", "ledger", "api_key_env", "as_json", settings=("settle",))
def status(ctx: typer.Context) -> int:
    """List the open batches, and their state at the provider.

    Example: ruler batch status

    Exit codes: 0 listed; 2 bad usage; 3 a provider could not be asked about all of them.
    """
    with running(ctx) as options:
        from ruler_cli.runs.batch.batches import UncertainBatch

        closed = options.all_batches
        batches = _run(lambda batches: batches.status(closed=closed), options)
        if options.as_json:
            ledger = str(required_ledger_path(options))
            facts = [_facts(status) for status in batches]
            print_json({"version": 1, "ledger": ledger, "batches": facts})
        else:
            _print_all(batches)
        states = {status.remote.state for status in batches if status.remote}
        if states - {"running"}:
            print_note(f"next: {ledger_command(options, 'batch collect')}")
        errors = [status.error for status in batches]
        known = all(
            isinstance(error, UncertainBatch | None) for error in errors
        )
        return 0 if known else 3


@app.command("collect", cls=SectionedCommand)
@takes("wait", "ledger", "api_key_env", settings=("settle",))
def collect(ctx: typer.Context) -> int:
    """Take the answers of ended batches into the ledger.

    Requests without an answer (expired, canceled, failed for now) are released: the next `ruler batch submit`
    submits them again. Requests that failed for good are recorded as such.

    Example: ruler batch collect

    Exit codes: 0 no batch is open; 1 some are still open, or some requests are to be submitted again; 2 bad
    usage; 3 the provider refused or failed a batch; 130 and 143 interrupted.
    """
    with running(ctx, resumes=True) as options:
        again = f"{ledger_command(options, 'score', 'INPUT', 'OUTPUT')} --cached-only"
        again += ", with the options of `ruler batch submit`"
        return _run(lambda batches: _collect(batches, options, again), options)


async def _collect(batches: Batches, options: Options, again: str) -> int:
    """Collect, and report the next step; `again` is the command that writes the output."""
    closed: list[BatchRecord] = []

    def on_closed(batch: BatchRecord) -> None:
        closed.append(batch)
        _print_batch(batch)

    wait = _LONGEST_WAIT if options.wait else 0.0
    still_open = await batches.collect(on_closed, wait=wait)
    code = _print_all(still_open)
    if any(batch.left_out for batch in closed):
        print_note("next: run the same `ruler batch submit` for the rest")
        code = max(code, 1)
    elif not still_open:
        print_note(f"next: {again}")
    if any(batch.state == "failed" for batch in closed):
        return 3
    return max(code, int(bool(still_open)))


@app.command("cancel", cls=SectionedCommand)
@takes("all_batches", "forget", "ledger", "api_key_env", settings=("settle",))
def cancel(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG|ID]...", help="Batches as `status` names them."
        ),
    ] = None,
) -> int:
    """Cancel batches; requests that are done by then are paid for.

    `ruler batch collect` takes in their answers.

    Example: ruler batch cancel --all

    Exit codes: 0 canceled; 1 some cannot be canceled yet; 2 bad usage, or no such batch; 3 the provider refused.
    """
    with running(ctx, names) as options:
        if not (names or options.all_batches):
            raise UsageError("name the batches to cancel, or use --all")
        chosen = [] if options.all_batches else names or []
        forget = options.forget
        batches = _run(
            lambda batches: batches.cancel(chosen, forget=forget), options
        )
        if any(status.remote for status in batches):
            print_note(f"next: {ledger_command(options, 'batch collect')}")
        return _print_all(batches)


@app.command("export", cls=SectionedCommand)
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
        from ruler_cli.files.error_map import writing
        from ruler_cli.files.location import Location
        from ruler_cli.files.output import (
            create_file,
            refuse_clashes,
            refuse_input,
            refuse_name,
        )
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
        to_lines = [request_line(judge) for judge in judges]
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
                    files[judge].stream.write(to_lines[judge](key, request))

            rendered = run_cancellable(
                lambda: find_missing(settings, write, console)
            )
            with writing(output):
                for file in files:
                    file.commit()
            stack.pop_all()
        print_note(*lines(_NOT_ASKED, {}, rendered))
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


@app.command("import", cls=SectionedCommand)
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
        if not result.rows:
            print_note("there are no replies in the input")
        print_note(*(f"{row.where} {row.reason}" for row in result.rejected))
        for label, sentence in result.messages.items():
            print_note(f"the first request that is {label}: {sentence}")
        facts = {
            "ledger": str(file),
            "files": len(files),
            "rows": result.rows,
            "new": result.new,
            "known": result.repeated,
            "failed": dict(result.failed.most_common()),
            "again": dict(result.again.most_common()),
            "foreign": result.foreign,
            "unreadable": result.unreadable,
        }
        if options.as_json:
            print_json(
                facts | {"odd": [row._asdict() for row in result.rejected]}
            )
        else:
            print_facts(facts)
        odd = result.foreign or result.unreadable
        return int(bool(result.failed or result.again or odd))


def _run(
    main: Callable[[Batches], Awaitable[T]], options: Options, source: str = ""
) -> T:
    """Run `main` with the batches of a ledger; a signal cancels it, except for a creation in progress.

    Without a `source` a ledger that is missing is not created. Only the command line may name another key
    than the batches were submitted with: a variable or the file names the key of a run, and a batch may be at
    another endpoint.
    """
    from ruler_cli.runs.batch.batches import Batches
    from ruler_cli.runs.batch.journal import Journal
    from ruler_cli.runs.batch.providers import Providers

    other_key = not source and options.rank("api_key_env") == COMMAND_LINE
    key_env = options.api_key_env if other_key else None
    path, make = required_ledger_path(options), bool(source)
    with (
        closing(Console("log", source)) as console,
        Journal(path, make=make) as journal,
    ):

        async def with_batches() -> T:
            async with Providers(key_env) as providers:
                return await main(
                    Batches(journal, providers, console, options.settle)
                )

        return run_cancellable(with_batches)


def _print_all(batches: Sequence[BatchStatus]) -> int:
    """Print a line for each batch, and errors on stderr; return the exit code."""
    code = 0
    if not batches:
        print_note("no batch is open")
    for status in batches:
        _print_batch(status.batch, status.remote)
        if status.error:
            print_note(status.error)
            code = max(code, status.error.exit_code)
    return code


def _print_batch(batch: BatchRecord, remote: RemoteBatch | None = None) -> None:
    """Print a batch on record, and what its provider reports now."""
    parts = [
        remote.label if remote else batch.state,
        batch.model,
        *lines(_BATCH, {}, batch, remote),
        "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}",
        iso(batch.created) or "",
    ]
    name = f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag
    reason = f": {batch.reason}" if batch.state == "failed" else ""
    typer.echo(one_line(f"batch {name}: {', '.join(parts)}{reason}"))


def _facts(status: BatchStatus) -> dict[str, Any]:
    """Return the facts of one batch, as `--json` prints them; null if the provider does not report them."""
    batch, remote, error = status
    return {
        **{name: getattr(batch, name) for name in _RECORDED},
        "id": batch.remote,
        "expected_usd": batch.usd,
        "created": iso(batch.created),
        "changed": iso(batch.changed),
        "remote": remote and remote._asdict(),
        "candidates": getattr(error, "candidates", ()),
        "trouble": error and str(error),
    }
