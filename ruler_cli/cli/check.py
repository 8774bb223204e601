"""`ruler check INPUT`: read and group as `score` would, and estimate its calls, tokens and cost.

The figures are made once, as `--json` prints them; the page is a verdict, then the figures in sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import SCORE_OPTIONS, SCORE_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import print_json, shell_word
from ruler_cli.cli.units import number_of, rounded, rows
from ruler_cli.errors import NothingToCompare, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.proposal import reference_fields
from ruler_cli.formats.reader import Reader
from ruler_cli.judges.providers import (
    EMBEDDED,
    MissingCredentialsError,
    ModelInfo,
)
from ruler_cli.judges.resolve import model_of, with_picture_support
from ruler_cli.judging.panel import cache_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.messages.content import text_of
from ruler_cli.runs.batch.requests import batch_price, batch_target
from ruler_cli.runs.estimate import (
    COUNTS,
    TOO_LONG,
    TOTALS,
    Estimate,
    InputCounts,
    JudgeEstimate,
    JudgeRole,
    Range,
    sample,
)
from ruler_cli.runs.file import judge_errors
from ruler_cli.runs.input import Input, key_in_words, open_input, shown_key
from ruler_cli.scoring.statistics import quantile
from ruler_cli.settings.fields import paths
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import Options
from ruler_cli.types import (
    ENDINGS,
    Problem,
    Rubric,
    Standards,
    printable,
    shorten,
)

_SECTIONS = {
    "Input": """
input: {found}
format: {format}
prompt: {paths[prompt]}
messages: {paths[messages]}
group key: {paths[group key]}
reward: {paths[reward]}
outcome: {paths[outcome]}
cannot be scored: {cannot_be_scored}
""",
    "Groups": """
groups: {groups}
group sizes: {group_sizes}
rollouts: {rollouts}
ended: {ended}
identical rollouts: {identical_rollouts}
tied groups: {tied_groups}
rewards: {rewards}
outcomes: {outcomes}
equal reward groups: {equal_reward_groups}
""",
    "What the judge sees": """
shown to the judge: groups {shown_to_the_judge[groups]}, share {shown_to_the_judge[share]:.0%}
not shown: {not_shown}
pictures: {pictures}
pictures left out: {pictures_left_out}
rubric: {rubric}
references: {references}
longest prompt: {longest_prompt}
windows: {windows}
suspect rollouts: {suspect_rollouts}
too long: groups {too_long[groups]}, first {too_long[first]}
""",
    "Cost": """
judges: {judges_in_words}
passes: {passes}
calls: {calls}
cached: {estimate[kept]}
prompt tokens: {prompt_tokens}
completion tokens: {completion_tokens}
cost: {cost}
--max-cost: {enough} or more lets every call go
batch hours: {batch_hours}
sample: {sampled} of {groups:group}, from which figures of prompts and cost are estimated
""",
}
"""The figures on the page."""
_OWN_PATH = "where the format has it"
"""A path that nobody gave."""
_LONGEST = 60
"""Characters of a value."""
_FEW = 3
"""Reasons, or fields, that are named."""
_BATCH_HOURS = 24
"""Hours in which OpenAI and Anthropic finish a batch; requests that are left by then expire."""
_NO_PRICE = "unknown; use --price IN,OUT, in USD per million prompt and completion tokens"
Facts = dict[str, Any]
"""Figures by name, as `--json` prints them."""


@takes("batch", "as_json", *SCORE_OPTIONS, settings=SCORE_SETTINGS)
def command(
    ctx: typer.Context,
    source: Source,
) -> int:
    """Read INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    It takes every option of `score`, so one command line serves both; those that change no estimate do nothing.
    The first line says if `score` is ready to run. Requests that the ledger answers are not counted.
    A figure is the expected one, followed by the lowest and the highest. Above 64 MB figures are estimated
    from a sample of the groups.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 ready; 1 some lines or groups cannot be scored, or there is nothing to compare; 2 bad
    usage, unreadable input, or a judge that `score` refuses. A missing key is named, but does not
    change the exit code.
    """
    with running(ctx, source) as options:
        return check(score_settings(options, source), options)


def check(settings: ScoreSettings, options: Options) -> int:
    """Read INPUT, and print the estimate of the run; return the exit code."""
    bad = list[Facts]()
    with (
        closing(Console("log", settings.input.source)) as console,
        ExitStack() as stack,
    ):

        def add_problem(problem: Problem) -> None:
            bad.append(
                {
                    "line": problem.line,
                    "where": problem.where,
                    "reason": str(problem.reason),
                }
            )
            if not options.as_json:
                console.problem(problem)

        notes = InputCounts(add_problem)
        source = open_input(
            settings.input,
            stack,
            add_problem,
            on_record=notes.add,
        )
        ledger = None
        used = any(judge.model not in EMBEDDED for judge in settings.judges)
        if settings.ledger is not None and used:
            opened = Ledger(settings.ledger, settings.ledgers, make=False)
            ledger = stack.enter_context(opened)
        judges = []
        for number, judge in enumerate(settings.judges):
            bill = _judge_estimate(settings, number, ledger)
            if options.batch:
                bill.model = replace(bill.model, price=batch_price(judge))
                if batch_target(judge) is None:
                    note = "has no batch API; use `ruler batch export`"
                    source.notes.append(f"{judge.label} {note}")
            judges.append(bill)
        estimate = Estimate(judges)
        for group, groups, ratio in sample(source, notes.counts["bytes"]):
            estimate.add(group, groups, ratio)
    reasons = [*_reasons(settings, source, estimate, len(bad))]
    code = 1 if reasons else 0
    missing = list[str]()
    for error in judge_errors(settings):
        if isinstance(error, MissingCredentialsError):
            missing.append(str(error))
        else:
            reasons.append(str(error))
            code = 2
    facts = {
        "version": 3,
        "ready": not reasons,
        "not_ready": reasons,
        "missing_keys": missing,
        **_input_figures(settings, source, notes),
        "cannot_be_scored": len(bad),
        "bad": bad,
        **_group_figures(settings, source, estimate),
        **_costs(settings, estimate),
        "batch_hours": _BATCH_HOURS if options.batch else None,
    }
    if options.as_json:
        print_json(facts)
    else:
        _print_page(facts, estimate)
    return code


def _judge_estimate(
    settings: ScoreSettings, number: int, ledger: Ledger | None
) -> JudgeEstimate:
    """Return an empty estimate for a judge, with its replies in the ledger."""
    judge = settings.judges[number]
    model = ModelInfo()
    with suppress(UsageError):  # of a misspelt name, which the verdict has
        model = model_of(judge)
    ask = with_picture_support(settings.ask_of(judge), judge, model)
    role: JudgeRole = "panel"
    if judge is settings.escalate:
        role = "escalation"
    return JudgeEstimate(
        judge.label,
        model,
        judge.params,
        cache_of(ledger, judge) if ledger else None,
        role,
        panel_index=number if role == "panel" else 0,
        ask=replace(ask, context_tokens=model.context),
        adaptive=settings.adaptive,
    )


def _reasons(
    settings: ScoreSettings, source: Input, estimate: Estimate, problems: int
) -> Iterator[str]:
    """Yield why `score` would not score all of INPUT, or could compare nothing."""
    groups = estimate.sizes.total()
    if not groups:
        yield "there is no group that can be scored"
    if problems:
        yield f"{number_of(problems, 'line or trajectory')} cannot be scored"
    for (what, mistake), number in estimate.mistakes.most_common(_FEW):
        yield f"{number_of(number, what)} cannot be scored: {mistake}"
    compared = estimate.comparable or settings.absolute
    if groups and source.reader and not compared:
        yield str(NothingToCompare(shown_key(source.reader)))
    cap = settings.pool.max_cost
    cost = estimate.total("cost_usd")
    if cap is None or cost is None or settings.cached_only:
        return
    if cost.expected > cap:
        enough = rounded(estimate.total("max_cost_usd"), up=True)
        yield f"--max-cost {cap:g} is less than the expected cost; {enough} lets every call go"


def _input_figures(
    settings: ScoreSettings, source: Input, notes: InputCounts
) -> Facts:
    """Return how INPUT is read, and the counts of its records."""
    reader = source.reader
    form = None
    if reader:
        form = {
            "name": reader.format.name,
            "family": reader.format.family,
            "shape": reader.format.shape,
            "tells": reader.format.shown,
        }
    rubric = _rubric(settings.ask.rubric)
    if notes.own_rubrics:
        records = number_of(notes.own_rubrics, "record")
        rubric += f"; {records} with one of their own"
    return {
        "input": Location(settings.input.source).public,
        "found": source.found(),
        "format": form,
        "paths": _paths(settings, reader, notes),
        **{
            name: notes.counts[name]
            for name in ("bytes", "records", "rollouts")
        },
        "ended": {how: notes.ended[how] for how in ENDINGS},
        "rewards": asdict(notes.rewards),
        "outcomes": asdict(notes.outcomes),
        "rubric": rubric,
        "references": _references(settings, notes),
    }


def _group_figures(
    settings: ScoreSettings, source: Input, estimate: Estimate
) -> Facts:
    """Return the figures of the groups and their prompts."""
    sizes = estimate.sizes
    survey = source.survey
    coverage = estimate.coverage
    # if nothing is compared, the verdict says so
    alone = settings.absolute or not estimate.comparable
    return {
        "groups": sizes.total(),
        "group_sizes": {
            "min": min(sizes, default=None),
            "median": quantile(sizes.elements(), 0.5),
            "max": max(sizes, default=None),
        },
        "rollouts_without_task": survey.taskless if survey else 0,
        "groups_of_several_tasks": survey.mixed if survey else 0,
        **{name: estimate.counts[name] for name in COUNTS},
        "shown_to_the_judge": {
            "groups": coverage.groups,
            "share": coverage.share,
            "not_shown": coverage.not_shown(),
        },
        "windows": max(bill.windowed for bill in estimate.judges),
        "longest_prompt": max(bill.longest_prompt for bill in estimate.judges),
        "too_long": {
            "groups": estimate.mistakes["group", TOO_LONG],
            "first": estimate.first_too_long,
        },
        "exact": estimate.exact,
        "warnings": [
            *source.notes,
            *source.warnings(alone=alone),
            *coverage.warnings(),
        ],
    }


def _costs(settings: ScoreSettings, estimate: Estimate) -> Facts:
    """Return the calls, tokens and USD of each judge, and of all."""
    judges = []
    for bill in estimate.judges:
        judge = {
            "model": bill.name,
            "asked": bill.role,
            "context_tokens": bill.model.context,
            "too_long": bill.too_long,
        }
        judges.append(judge | {name: getattr(bill, name) for name in TOTALS})
    return {
        "judges": judges,
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "estimate": {name: estimate.total(name) for name in TOTALS},
    }


def _paths(
    settings: ScoreSettings, reader: Reader | None, notes: InputCounts
) -> dict[str, Facts]:
    """Return the paths of messages, key, reward and outcome, each with the value in the first record."""
    if notes.example is None or reader is None:
        return {}
    record, rollout = notes.example
    form = reader.format
    options = settings.input
    task = rollout.messages[0].get("content") if options.prompt else None
    last = rollout.messages[-1]
    reward = "" if form.elsewhere else form.reward
    parts: dict[str, tuple[Any, str, Any]] = {
        "prompt": (options.prompt, "", task),
        "messages": (options.messages, "", last.get("content") or last),
        "group key": (options.group_by, key_in_words(reader), record.key),
        "reward": (options.reward, reward, rollout.reward),
        "outcome": (options.outcome, "", rollout.outcome),
    }
    facts = {}
    for name, (named, usual, value) in parts.items():
        if named or value is not None:
            path = " + ".join(paths(named)) or usual or _OWN_PATH
            example = dump(value).decode("utf-8", "replace")
            facts[name] = {"path": path, "first": shorten(example, _LONGEST)}
    return facts


def _rubric(usual: Standards | None) -> str:
    """Return what the usual rubric is."""
    if usual is None:
        return "built-in"
    if isinstance(usual, Rubric):
        return f"{len(usual.criteria)} criteria"
    return "a text"


def _references(settings: ScoreSettings, notes: InputCounts) -> str:
    """Return the path of the reference answers, or those of fields that may hold them, with the option."""
    options = settings.input
    if options.reference:
        return options.reference
    records = []
    judged = []
    for record in notes.first:
        records.append(parse(record.line.raw, exact=False))
        turns = [rollout.messages for rollout in record.rollouts]
        judged.append({*map(text_of, chain.from_iterable(turns))})
    likely = reference_fields(records, judged)
    if not likely:
        return ""
    option = f"--reference {shell_word(printable(likely[0]))}"
    named = ", ".join(f"`{printable(path)}`" for path in likely[:_FEW])
    return f"not shown; {named} may hold one: {option} shows it to the judge"


def _print_page(facts: Facts, estimate: Estimate) -> None:
    """Print the verdict and the sections on stdout."""
    from rich.text import Text

    from ruler_cli.cli.terminal import TITLE, Terminal

    verdict = list(facts["not_ready"])
    if facts["groups"]:
        verdict.append(_size(facts))
    verdict += facts["missing_keys"]
    terminal = Terminal()
    first, *more = map(terminal.text, verdict)
    word = Text("not ready: ", "bold red")
    if facts["ready"]:
        word = Text("ready: ", "bold green")
    terminal.show(word + first, *more)
    figures = facts | _page_figures(facts, estimate)
    for title, template in _SECTIONS.items():
        # without a group there is only the first section
        if facts["groups"] or title == "Input":
            section = terminal.facts(rows(template, figures))
            terminal.show("", Text(title, TITLE), section)
    if facts["warnings"]:
        warnings = map(terminal.text, facts["warnings"])
        terminal.show("", Text("Warnings", TITLE), *warnings)


def _size(facts: Facts) -> str:
    """Return the size of the run in a line."""
    estimate = facts["estimate"]
    calls = number_of(round(estimate["calls"].expected), "call")
    if estimate["kept"]:
        calls += f" (and {estimate['kept']:,} cached)"
    cost = estimate["cost_usd"]
    price = "cost unknown"
    if cost:
        price = f"about ${rounded(cost.expected)}" if cost.high else "no cost"
    judges = ", ".join(judge["model"] for judge in facts["judges"])
    groups = number_of(facts["groups"], "group")
    return f"{groups}, {calls}, {price} with {judges}"


def _page_figures(facts: Facts, estimate: Estimate) -> Facts:
    """Return the figures that the page has in other words than `--json`."""
    totals = facts["estimate"]
    figures = {}
    for name in ("calls", "prompt_tokens", "completion_tokens"):
        figures[name] = _range(totals[name], "{:,.0f}".format)
    cap = totals["max_cost_usd"]
    judges = []
    for judge in facts["judges"]:
        calls = _range(judge["calls"], "{:,.0f}".format)
        cost = _dollars(judge["cost_usd"])
        judges.append(
            f"{judge['model']} ({judge['asked']}): {calls} calls, {cost}"
        )
    if not judges[1:]:
        judges = [facts["judges"][0]["model"]]
    return figures | {
        "cost": _dollars(totals["cost_usd"]),
        "enough": rounded(cap, up=True) if cap else "",
        "judges_in_words": "; ".join(judges),
        "not_shown": estimate.coverage.not_shown_text(),
        "sampled": 0 if facts["exact"] else facts["laid_out"],
    }


def _dollars(cost: Range | None) -> str:
    if cost is None:
        return _NO_PRICE
    return _range(cost, lambda usd: f"${rounded(usd)}")


def _range(figure: Range, write: Callable[[float], str]) -> str:
    low, expected, high = map(write, figure)
    return expected if low == high else f"{expected} (from {low} to {high})"
