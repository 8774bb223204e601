"""`ruler check INPUT`: read and group as `score` would, and estimate its calls, tokens and cost."""

from __future__ import annotations

from contextlib import closing

import typer

from ruler_cli.cli.command import run_command
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
from ruler_cli.cli.safe_text import print_json
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import Options


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
    from ruler_cli.cli.check_facts import check_facts
    from ruler_cli.cli.check_page import print_page

    with closing(Console("log", settings.input.source)) as console:
        on_problem = None if options.as_json else console.problem
        facts, words = check_facts(settings, options, on_problem)
    if options.as_json:
        print_json(facts)
    else:
        print_page({**facts, **words})
    return 2 if words["refused"] else 0 if facts["ready"] else 1
