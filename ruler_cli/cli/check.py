"""`ruler check INPUT`: read and group as `score` would, and estimate its calls, tokens, cost and time.

The figures are made once, as `--json` prints them; the page is a verdict, then the same figures in sections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import SCORE_OPTIONS, SCORE_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import print_json, shell_word
from ruler_cli.cli.units import count, in_words, rounded
from ruler_cli.errors import NothingToCompare, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.files.values import words
from ruler_cli.formats.proposal import reference_fields
from ruler_cli.judges.providers import (
    EMBEDDED,
    MissingCredentialsError,
    ModelInfo,
)
from ruler_cli.judges.resolve import model_of, with_picture_support
from ruler_cli.judging.panel import cache_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.messages.content import text_of
from ruler_cli.pool.limits import START
from ruler_cli.runs.estimate import (
    COUNTS,
    TOO_LONG,
    TOTALS,
    Estimate,
    InputCounts,
    JudgeEstimate,
    Range,
    sample,
)
from ruler_cli.runs.file import judge_errors
from ruler_cli.runs.input import Input, open_input, shown_key
from ruler_cli.scoring.statistics import quantile
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.settings.options import Options
from ruler_cli.types import (
    ENDINGS,
    Problem,
    duration,
    printable,
    rubric_text,
    shorten,
)

_PAGE = {
    "Input": "found format prompt messages group_key reward outcome cannot_be_scored",
    "Groups": "groups group_sizes rollouts ended identical_rollouts tied_groups rewards outcomes equal_reward_groups",
    "What the judge sees": "shown_to_the_judge not_shown pictures pictures_left_out rubric own_rubrics references "
    "longest_prompt windows suspect_rollouts too_long laid_out",
    "Cost": "passes calls cached prompt_tokens completion_tokens cost_usd",
}
"""The figures on the page, by their names in `--json`."""
_LABELS = {
    "messages": "first response",
    "laid_out": "prompts built",
    "cost_usd": "cost",
}
"""Names of figures that differ from those in `--json`."""
_LONGEST = 60
"""Characters of a value."""
_FEW = 3
"""Reasons, or fields, that are named."""
_SPEED = 80
"""Tokens that a judge writes in a second: a guess."""
Facts = dict[str, Any]
"""Figures by name, as `--json` prints them."""


@takes(*SCORE_OPTIONS, "as_json", settings=SCORE_SETTINGS)
def command(ctx: typer.Context, source: Source) -> int:
    """Read INPUT as `score` would, and estimate calls, tokens, cost and time. Nothing is sent.

    It takes every option of `score`, so one command line serves both; those that change no estimate do nothing.
    The first line says if `score` is ready to run. Requests that the ledger answers are not counted.
    A figure is the expected value, followed by the lowest and the highest. Above 64 MB figures are estimated
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
            line, where, reason = problem.line, problem.where, problem.reason
            bad.append({"line": line, "where": where, "reason": reason})
            if not options.as_json:
                console.problem(problem)

        counts = InputCounts(add_problem)
        source = open_input(
            settings.input, stack, add_problem, on_record=counts.add
        )
        judges = [*_judges(settings, stack)]
        estimate = Estimate(judges)
        for group, groups, ratio in sample(source, counts.counts["bytes"]):
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
        "version": 4,
        "ready": not reasons,
        "not_ready": reasons,
        "missing_keys": missing,
        "cannot_be_scored": len(bad),
        "bad": bad,
        **_input_figures(settings, source, counts),
        **_group_figures(settings, source, estimate),
        "passes": settings.ask.passes,
        **{name: estimate.total(name) for name in TOTALS},
        "seconds": _seconds(settings, judges),
        "judges": [_judge_figures(judge) for judge in estimate.judges],
    }
    if options.as_json:
        print_json(facts)
    else:
        _print_page(facts)
    return code


def _judges(
    settings: ScoreSettings, stack: ExitStack
) -> Iterator[JudgeEstimate]:
    """Yield an empty estimate for each judge, with its replies in the ledger."""
    ledger = None
    used = any(judge.model not in EMBEDDED for judge in settings.judges)
    if settings.ledger is not None and used:
        opened = Ledger(settings.ledger, settings.ledgers, make=False)
        ledger = stack.enter_context(opened)
    for number, judge in enumerate(settings.judges):
        model = ModelInfo()
        with suppress(UsageError):  # of a misspelt name, which the verdict has
            model = model_of(judge)
        ask = with_picture_support(settings.ask_of(judge), judge, model)
        stronger = judge is settings.escalate
        yield JudgeEstimate(
            judge.label,
            model,
            judge.params,
            cache_of(ledger, judge) if ledger else None,
            "escalation" if stronger else "panel",
            panel_index=0 if stronger else number,
            ask=replace(ask, context_tokens=model.context),
            adaptive=settings.adaptive,
        )


def _seconds(settings: ScoreSettings, judges: Sequence[JudgeEstimate]) -> float:
    """Estimate the time of the slowest judge, with a second for each call beside what it writes, and at its limits."""
    times = [0.0]
    for judge, estimate in zip(settings.judges, judges, strict=True):
        if judge.model in EMBEDDED:
            continue
        limits = settings.pool.of(judge)
        at_once = limits.concurrency or START
        calls = estimate.calls.expected
        written = estimate.completion_tokens.expected
        tokens = estimate.prompt_tokens.expected + written
        times += [
            (calls + written / _SPEED) / min(at_once, max(1, calls)),
            calls / (limits.rpm or math.inf) * 60,
            tokens / (limits.tpm or math.inf) * 60,
        ]
    return max(times)


def _reasons(
    settings: ScoreSettings, source: Input, estimate: Estimate, problems: int
) -> Iterator[str]:
    """Yield why `score` would not score all of INPUT, or could compare nothing."""
    groups = estimate.sizes.total()
    if not groups:
        yield "there is no group that can be scored"
    if problems:
        yield f"{count(problems, 'line or trajectory')} cannot be scored"
    for (what, mistake), number in estimate.mistakes.most_common(_FEW):
        yield f"{count(number, what)} cannot be scored: {mistake}"
    compared = estimate.comparable or settings.absolute
    if groups and source.reader and not compared:
        yield str(NothingToCompare(shown_key(source.reader)))
    cap = settings.pool.max_cost
    cost = estimate.total("cost_usd")
    if cap is None or cost is None or settings.cached_only:
        return
    if cost.expected > cap:
        enough = rounded(cost.high, up=True)
        yield f"--max-cost {cap:g} is less than the expected cost; {enough} lets every call go"


def _input_figures(
    settings: ScoreSettings, source: Input, counts: InputCounts
) -> Facts:
    """Return how INPUT is read, and the counts of its records."""
    form = source.reader and source.reader.format
    return {
        "input": Location(settings.input.source).public,
        "found": source.brief(),
        "format": form and {"family": form.family, "tells": form.shown},
        **_first_values(counts, prompt=bool(settings.input.prompt)),
        "records": counts.counts["records"],
        "rollouts": counts.counts["rollouts"],
        "ended": {how: counts.ended[how] for how in ENDINGS},
        "rewards": asdict(counts.rewards),
        "outcomes": asdict(counts.outcomes),
        "rubric": shorten(
            rubric_text(settings.ask.rubric or "built-in"), _LONGEST
        ),
        "own_rubrics": counts.own_rubrics,
        "references": settings.input.reference or _references(counts),
    }


def _first_values(counts: InputCounts, *, prompt: bool) -> dict[str, str]:
    """Return the task, if `prompt` is to be shown, the last message, key, reward and outcome of the first record."""
    if counts.example is None:
        return {}
    record, rollout = counts.example
    task, last = rollout.messages[0], rollout.messages[-1]
    values = {
        "prompt": task.get("content") if prompt else None,
        "messages": last.get("content") or last,
        "group_key": record.key,
        "reward": rollout.reward,
        "outcome": rollout.outcome,
    }
    shown = {}
    for name, value in values.items():
        if value is not None:
            text = dump(value).decode("utf-8", "replace")
            shown[name] = shorten(text, _LONGEST)
    return shown


def _references(counts: InputCounts) -> str:
    """Name the fields that may hold a reference answer, with the option that shows it; empty without one."""
    records = []
    judged = []
    for record in counts.first:
        records.append(parse(record.line.raw, exact=False))
        turns = [rollout.messages for rollout in record.rollouts]
        judged.append({*map(text_of, chain.from_iterable(turns))})
    likely = reference_fields(records, judged)
    if not likely:
        return ""
    option = f"--reference {shell_word(printable(likely[0]))}"
    named = ", ".join(f"`{printable(path)}`" for path in likely[:_FEW])
    return f"not shown; {named} may hold one: {option} shows it to the judge"


def _group_figures(
    settings: ScoreSettings, source: Input, estimate: Estimate
) -> Facts:
    """Return the figures of the groups and their prompts."""
    sizes = estimate.sizes
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
        **{name: estimate.counts[name] for name in COUNTS},
        "shown_to_the_judge": coverage.share,
        "not_shown": coverage.not_shown(),
        "windows": max(judge.windowed for judge in estimate.judges),
        "longest_prompt": max(j.longest_prompt for j in estimate.judges),
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


def _judge_figures(judge: JudgeEstimate) -> Facts:
    """Return the figures of one judge."""
    totals = {name: getattr(judge, name) for name in TOTALS}
    return {"model": judge.name, "asked": judge.role, **totals}


def _print_page(facts: Facts) -> None:
    """Print the verdict and the sections on stdout."""
    from rich.text import Text

    from ruler_cli.cli.terminal import TITLE, Terminal

    problems = facts["missing_keys"] + facts["not_ready"]
    size = [_size(facts)] if facts["groups"] else []
    terminal = Terminal()
    first, *more = map(terminal.text, problems + size)
    word = Text("ready: ", "bold green")
    if problems:
        word = Text("not ready: ", "bold red")
    terminal.show(word + first, *more)
    share = facts["shown_to_the_judge"]
    written = {"cost_usd": _dollars(facts["cost_usd"])}
    if form := facts["format"]:
        written["format"] = f"{form['family']}, recognised by {form['tells']}"
    if share is not None:
        written["shown_to_the_judge"] = f"{share:.0%}"
    for title, names in _PAGE.items():
        rows = []
        for name in words(names):
            value = written.get(name) or _in_words(facts.get(name))
            label = _LABELS.get(name, name).replace("_", " ")
            # few dumps have outcomes
            if (name, value) != ("outcomes", f"absent {facts['rollouts']:,}"):
                rows.append((label, value))
        if title == "Cost" and facts["judges"][1:]:
            for judge in facts["judges"]:
                calls = f"{_in_words(judge['calls'])} calls"
                cost = _dollars(judge["cost_usd"])
                rows.append((judge["model"], f"{calls}, {cost}"))
        # without a group there is only the first section
        if facts["groups"] or title == "Input":
            terminal.section(terminal.facts(rows), title=title)
    if facts["warnings"]:
        warnings = map(terminal.text, facts["warnings"])
        terminal.show("", Text("Warnings", TITLE), *warnings)


def _size(facts: Facts) -> str:
    """Return the size of the run in a line."""
    calls = count(round(facts["calls"].expected), "call")
    if facts["cached"]:
        calls += f" (and {facts['cached']:,} in the ledger)"
    cost = facts["cost_usd"]
    price = "cost unknown"
    if cost:
        price = f"about ${rounded(cost.expected)}" if cost.high else "no cost"
    if facts["seconds"]:
        price += f", about {duration(facts['seconds'])}"
    judges = ", ".join(judge["model"] for judge in facts["judges"])
    return f"{count(facts['groups'], 'group')}, {calls}, {price} with {judges}"


def _dollars(cost: Range | None) -> str:
    if cost is None:
        return "unknown; use --price IN,OUT, in USD per million prompt and completion tokens"
    return _range(cost, lambda usd: f"${rounded(usd)}")


def _range(figure: Range, write: Callable[[float], str]) -> str:
    low, expected, high = map(write, figure)
    return expected if low == high else f"{expected} (from {low} to {high})"


def _in_words(value: Any) -> str:
    if isinstance(value, Range):
        return _range(value, "{:,.0f}".format)
    return in_words(value)
