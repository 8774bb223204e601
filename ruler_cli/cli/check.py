"""`ruler check INPUT`: read and group as `score` would, and estimate its calls, tokens and cost."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import orjson
import typer

from ruler_cli.cli.command import run_command
from ruler_cli.cli.messages import command_words, safe_value
from ruler_cli.cli.notes import name_judges
from ruler_cli.cli.options import (
    Adaptive,
    ApiBase,
    ApiKeyEnv,
    AsJson,
    Batch,
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
    Price,
    Prompt,
    Reward,
    Rubric,
    Seed,
    Single,
    Source,
    ViaWay,
)
from ruler_cli.cli.progress import Console
from ruler_cli.errors import UsageError
from ruler_cli.files.parse import dump
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.runs.estimate import FindReply, JudgeEstimate, JudgeRole
    from ruler_cli.types import Problem


def command(
    ctx: typer.Context,
    source: Source,
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
    api_key_env: ApiKeyEnv = None,
    via: ViaWay = "auto",
    price: Price = None,
    ledger: Ledgers = None,
    no_cache: NoCache = False,
    batch: Batch = False,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Read INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    The first line says if `score` is ready to run. Requests that the ledger answers are not counted.
    Figures are low, expected and high. Above 64 MB some groups are laid out, and figures that rest on
    them are marked with `about`.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 ready; 1 some lines or groups cannot be scored, or there is nothing to compare; 2 bad
    usage, unreadable input, or a judge that `score` refuses. A missing key is named, and is none of these.
    """
    return run_command(ctx, _run, source)


def _run(options: Options, source: str) -> int:
    return check(score_settings(options, source), options)


def check(settings: ScoreSettings, options: Options) -> int:
    """Print the estimate of a run; return the exit code."""
    from ruler_cli.cli.check_facts import batch_facts, check_facts
    from ruler_cli.cli.check_page import print_page
    from ruler_cli.files.input import open_input
    from ruler_cli.files.sample import InputCounts, sample
    from ruler_cli.judges.providers import MissingCredentialsError
    from ruler_cli.runs.estimate import estimate
    from ruler_cli.runs.file import judge_errors

    console = Console("log", settings.input.source)
    with ExitStack() as stack:
        errors = [name_judges(error, options) for error in judge_errors(settings)]
        missing = [
            error for error in errors if isinstance(error, MissingCredentialsError)
        ]
        refused = [error for error in errors if error not in missing]
        bills = _bills(settings, stack)
        if options.as_json:
            console = _ProblemList(stack.enter_context(tempfile.TemporaryFile()))
        notes = InputCounts(console.problem)
        with closing(console):
            opened = open_input(
                settings.input,
                stack,
                console.problem,
                on_record=notes.add,
                on_again=notes.again,
            )
            result = estimate(sample(opened, notes.bytes), bills)
        facts = check_facts(
            settings, opened, notes, result, console.problems, refused, missing
        )
        if options.batch:
            facts["batch"] = batch_facts(settings.judges, bills)
        if isinstance(console, _ProblemList):
            console.write(facts)
        else:
            print_page(facts, console.problems, opened.found(), result)
    return 2 if refused else 0 if facts["ready"] else 1


def _bills(settings: ScoreSettings, stack: ExitStack) -> list[JudgeEstimate]:
    """Return an empty bill for each judge, with its replies in the ledger, which is not created."""
    from ruler_cli.judges.pricing import ModelInfo
    from ruler_cli.judges.providers import EMBEDDED
    from ruler_cli.judges.resolve import model_of
    from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
    from ruler_cli.runs.estimate import JudgeEstimate

    judges, ledger = settings.judges, None
    if settings.ledger is not None and any(
        judge.model not in EMBEDDED for judge in judges
    ):
        ledger = stack.enter_context(
            Ledger(settings.ledger, settings.ledgers, make=False)
        )

    def bill(number: int, judge: JudgeSettings) -> JudgeEstimate:
        cache = ReplyCache(ledger, judge.model, judge.params)
        find: FindReply | None = (
            (lambda request: cache.find(cache.key(request))) if ledger else None
        )
        role: JudgeRole = "fallback" if settings.fallback and number else "panel"
        if judge is settings.escalate:
            role = "escalation"
        model, place = ModelInfo(), number if role == "panel" else 0
        with suppress(UsageError):  # of a misspelt name, which the verdict has
            model = model_of(judge)
        ask = replace(settings.ask, context_tokens=model.context)
        return JudgeEstimate(
            judge.label, model, judge.params, find, role, place, ask, settings.adaptive
        )

    return [bill(number, judge) for number, judge in enumerate(judges)]


class _ProblemList(Console):
    """A console that lists what cannot be scored as JSON, in a file: the list may be as long as the input."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__("none", "", named=float("inf"))
        self._file = file

    def problem(self, problem: Problem) -> None:
        """Add a problem to the list."""
        self._file.write(b",\n    " if self.problems else b"\n    ")
        reason = command_words(problem.reason)
        self._file.write(
            dump({"line": problem.line, "where": problem.where, "reason": reason})
        )
        self.problems += 1

    def write(self, facts: dict[str, Any]) -> None:
        """Print the figures as one JSON object, with the number and the list of problems last."""
        text = orjson.dumps(safe_value(facts), option=orjson.OPT_INDENT_2)
        out = typer.get_binary_stream("stdout")
        out.write(
            text[:-2] + b',\n  "cannot_be_scored": %d,\n  "bad": [' % self.problems
        )
        self._file.seek(0)
        while part := self._file.read(1 << 16):
            out.write(part)
        out.write(b"\n  ]\n}\n" if self.problems else b"]\n}\n")
        out.flush()
