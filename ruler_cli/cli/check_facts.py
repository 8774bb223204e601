"""Figures of `ruler check`, and the reasons why a run is not ready, as `--json` prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from ruler_cli.cli.messages import command_words
from ruler_cli.cli.units import count, rounded, shorten
from ruler_cli.errors import NothingToCompare, UnreadableError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.interface import PROMPT_HASH, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import raw_value
from ruler_cli.judges.pricing import ModelInfo
from ruler_cli.judges.providers import EMBEDDED, MissingCredentialsError
from ruler_cli.judges.resolve import model_of
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.runs.batch.request_files import LIMITS, batch_price, batch_target
from ruler_cli.runs.estimate import (
    CALLS,
    NEVER,
    Estimate,
    FindReply,
    JudgeEstimate,
    JudgeRole,
    estimate,
    no_reply,
)
from ruler_cli.runs.file import judge_errors
from ruler_cli.runs.input import Input, open_input
from ruler_cli.runs.sample import InputCounts, sample
from ruler_cli.scoring.sums import quantile
from ruler_cli.settings.models import InputSettings, JudgeSettings, ScoreSettings
from ruler_cli.settings.options import Options
from ruler_cli.types import Problem

_HOURS = 24
"""Hours in which OpenAI and Anthropic finish a batch; requests that are left by then expire."""
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
OWN_PATH = "where the format has it"
"""A path that nobody gave."""
_COMMONEST = 5
"""Number of group sizes that are listed, the commonest first."""
LONGEST = 60
"""Characters of a value or a key."""

Facts = dict[str, Any]
"""Figures by name, as `--json` prints them."""


def check_facts(
    settings: ScoreSettings,
    options: Options,
    on_problem: Callable[[Problem], object] | None,
) -> tuple[Facts, Facts]:
    """Read INPUT and estimate the run; return all figures, and words that stand on the page alone.

    `on_problem` gets each line or rollout that cannot be scored.
    """
    refused, missing = list[UsageError](), list[UsageError]()
    for error in judge_errors(settings):
        lacks = isinstance(error, MissingCredentialsError)
        (missing if lacks else refused).append(error)
    bad = list[Facts]()

    def add_problem(problem: Problem) -> None:
        reason = command_words(problem.reason)
        bad.append({"line": problem.line, "where": problem.where, "reason": reason})
        if on_problem is not None:
            on_problem(problem)

    notes = InputCounts(add_problem)
    with ExitStack() as stack:
        source = open_input(
            settings.input,
            stack,
            add_problem,
            on_record=notes.add,
            on_again=notes.again,
        )
        judges = _judge_estimates(settings, _ledger(settings, stack))
        result = estimate(sample(source, notes.bytes), judges)
        reasons = [*_reasons(settings, source, result, len(bad)), *_sentences(refused)]
        facts = {
            "version": 1,
            "ready": not reasons,
            "not_ready": reasons,
            "missing_keys": _sentences(missing),
            **_figures(settings, source, notes, result),
        }
    if options.batch:
        facts["batch"] = _batch_facts(settings.judges, judges)
    thinking = {judge.model.reasoning for judge in judges}
    words = {
        "found": source.found(),
        "hidden": result.coverage.not_shown_text(),
        "thinking": None if None in thinking else True in thinking,
        "refused": bool(refused),
    }
    return facts | {"cannot_be_scored": len(bad), "bad": bad}, words


def _figures(
    settings: ScoreSettings, source: Input, notes: InputCounts, estimate: Estimate
) -> Facts:
    """Return the figures on INPUT, its prompts and their cost."""
    reader, coverage = source.reader, estimate.coverage
    first, widest, sizes = estimate.judges[0], estimate.widest, estimate.sizes
    grouping = source.survey.grouping if source.survey else "consecutive"
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]
    # if nothing is compared, the verdict says so
    alone = settings.ask.single == "score" or not estimate.comparable
    warnings = (*source.notes, *source.warnings(alone=alone), *coverage.warnings())
    spread = estimate.spread / estimate.spreads if estimate.spreads else None
    return {
        "input": Location(settings.input.source).public,
        "format": reader and _format(notes, reader),
        "grouping": reader and grouping,
        "paths": _paths(notes, reader, settings.input) if reader else {},
        "bytes": notes.bytes,
        "records": notes.records,
        "unit": source.container.unit,
        "groups": sizes.total(),
        "rollouts": notes.rollouts,
        "group_sizes": {
            "min": min(sizes, default=None),
            "median": quantile(sizes, 0.5),
            "max": max(sizes, default=None),
            "commonest": [{"size": size, "groups": number} for size, number in common],
        },
        "tokens_per_rollout": {
            name: quantile(estimate.lengths, share)
            for name, share in _QUANTILES.items()
        },
        "shown_to_the_judge": {
            "groups": coverage.groups,
            "bytes": coverage.bytes,
            "share": coverage.share,
            "not_shown": dict(coverage.not_shown()),
            "beside": dict(coverage.not_shown(beside=True)),
        },
        "rollouts_without_task": source.openings.taskless,
        "groups_of_several_tasks": source.openings.mixed,
        "shared_prefix": estimate.shared / estimate.bytes if estimate.bytes else 0.0,
        "identical_rollouts": estimate.identical_rollouts,
        "tied_groups": estimate.tied_groups,
        "equal_reward_groups": estimate.equal_reward_groups,
        "rewards": notes.rewards.facts | {"spread": spread},
        "outcomes": notes.outcomes.facts | {"of_truth": notes.outcomes.of_truth},
        "judge": {"model": first.name, "context_tokens": first.model.context},
        "judges": list(map(_judge, estimate.judges)),
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "windows": {
            "groups": max(bill.windowed for bill in estimate.judges),
            "calls": estimate.window_calls,
        },
        "estimate": estimate.totals,
        "suspect_rollouts": estimate.suspect_rollouts,
        "too_long": {"groups": widest.too_long, "first": list(widest.too_long_keys)},
        "laid_out": estimate.laid_out,
        "exact": estimate.exact,
        "warnings": list(map(command_words, warnings)),
    }


def _ledger(settings: ScoreSettings, stack: ExitStack) -> Ledger | None:
    """Open the ledger, which is not created, unless no judge of the run uses it."""
    used = any(judge.model not in EMBEDDED for judge in settings.judges)
    if settings.ledger is None or not used:
        return None
    return stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))


def _judge_estimates(
    settings: ScoreSettings, ledger: Ledger | None
) -> list[JudgeEstimate]:
    """Return an empty estimate for each judge, with its replies in the ledger."""

    def empty(number: int, judge: JudgeSettings) -> JudgeEstimate:
        role: JudgeRole = "fallback" if settings.fallback and number else "panel"
        if judge is settings.escalate:
            role = "escalation"
        model = ModelInfo()
        with suppress(UsageError):  # of a misspelt name, which the verdict has
            model = model_of(judge)
        find: FindReply = no_reply
        if ledger is not None:
            cache = ReplyCache(ledger, judge.model, judge.params)
            find = lambda request: cache.find(cache.key(request))  # noqa: E731
        return JudgeEstimate(
            judge.label,
            model,
            judge.params,
            find,
            role,
            number if role == "panel" else 0,
            replace(settings.ask, context_tokens=model.context),
            settings.adaptive,
        )

    return [empty(number, judge) for number, judge in enumerate(settings.judges)]


def _reasons(
    settings: ScoreSettings, source: Input, estimate: Estimate, problems: int
) -> Iterator[str]:
    """Yield why `score` would refuse the run, would not score all of it, or could compare nothing."""
    groups, too_long = estimate.sizes.total(), estimate.widest.too_long
    if not groups:
        yield "there is no group that can be scored"
    if problems:
        yield f"{count(problems, 'line or trajectory')} cannot be scored"
    if too_long:
        is_ = "is" if too_long == 1 else "are"
        yield f"{count(too_long, 'group')} {is_} too long for the judge; --group-size N shows fewer at once"
    compared = estimate.comparable or settings.ask.single != "flag"
    if groups and source.reader and not compared:
        yield command_words(NothingToCompare(source.reader.shown_key))
    cap, totals = settings.pool.max_cost, estimate.totals
    if cap is None or totals.cost_usd is None or settings.cached_only:
        return
    if totals.cost_usd.expected > cap:
        enough = rounded(totals.max_cost_usd or 0.0, up=True)
        yield f"--max-cost {cap:g} is less than the expected cost; {enough} lets every call go"


def _sentences(errors: Iterable[UsageError]) -> list[str]:
    return list(dict.fromkeys(map(command_words, errors)))


def _format(notes: InputCounts, reader: Reader) -> Facts:
    """Return the format's name, and how many of the first lines fit it."""
    form, agreed = reader.format, 0
    lines = {record.line.number: record.line for record in notes.first}
    for line in lines.values():
        with suppress(UnreadableError):
            agreed += bool(fits(form, parse(line.raw)))
    return {
        "name": form.name,
        "family": form.family,
        "shape": form.shape,
        "tells": form.signature,
        "agreed": agreed,
        "first": len(lines),
    }


def _paths(
    notes: InputCounts, reader: Reader, settings: InputSettings
) -> dict[str, Facts]:
    """Return the paths of messages, key, reward and outcome, each with the value in the first record."""
    layout, rewards, outcomes = reader.format.layout, notes.rewards, notes.outcomes
    pairs = [(record.key, r) for record in notes.first for r in record.rollouts]
    key, rollout = next(((k, r) for k, r in pairs if r.error is None), (None, None))
    messages = rollout.messages if rollout else []
    last = messages[-1] if messages else {}
    content = last.get("content")
    roles = ("system", "developer")
    task = next(
        (m.get("content") for m in messages if m.get("role") not in roles), None
    )
    no_key = "the line" if reader.format.shape == "group" else "hash of the prompt"
    reward = ".".join(map(str, layout.source or layout.reward or ()))
    # name, given path, path of the format, first value, rollouts without a value
    rows = (
        (
            "messages",
            settings.messages,
            OWN_PATH,
            last if content is None else content,
            0,
        ),
        ("prompt", settings.prompt, "", task, 0),
        (
            "group key",
            settings.group_by,
            no_key if reader.key == PROMPT_HASH else reader.key,
            key,
            0,
        ),
        (
            "reward",
            settings.reward,
            reward or OWN_PATH * rewards.seen,
            getattr(rollout, "reward", None),
            rewards.absent,
        ),
        (
            "outcome",
            settings.outcome,
            OWN_PATH * outcomes.seen,
            getattr(rollout, "outcome", None),
            outcomes.absent,
        ),
    )
    return {
        name: {
            "path": given or own,
            "given": bool(given),
            "example": _example(value)
            if rollout and (given or own or name == "reward")
            else None,
            "absent": absent,
        }
        for name, given, own, value, absent in rows
        if name != "prompt" or given
    }


def _example(value: Any) -> str:
    return shorten(dump(raw_value(value)).decode("utf-8", "replace"), LONGEST)


def _judge(bill: JudgeEstimate) -> Facts:
    figures = {**vars(bill.totals(bill.model.price))}
    del figures["max_cost_usd"]
    return {
        "model": bill.name,
        "asked": bill.role,
        "context_tokens": bill.model.context,
        **figures,
        "too_long": bill.too_long,
        "windows": {"groups": bill.windowed, "calls": bill.window_calls * CALLS},
    }


def _batch_facts(judges: list[JudgeSettings], bills: list[JudgeEstimate]) -> Facts:
    """Return USD, batches and hours of the run in providers' batches; the cost may be unknown (None)."""
    facts = [_batch_of(judge, bill) for judge, bill in zip(judges, bills, strict=True)]
    costs = [each["cost_usd"] for each in facts]
    total = None if None in costs else sum(costs, NEVER)
    return {"hours": _HOURS, "cost_usd": total, "judges": facts}


def _batch_of(judge: JudgeSettings, bill: JudgeEstimate) -> Facts:
    facts: Facts = {"model": bill.name, "provider": (target := batch_target(judge))}
    names = ("cost_usd", "price", "batches", "requests_per_batch", "bytes_per_batch")
    if target is None:
        return facts | dict.fromkeys(names)
    (price, kind), limits = batch_price(judge), LIMITS[target]
    cost = price and bill.totals(price).cost_usd
    batches = bill.batches(limits)
    values = (cost, price and kind, batches, limits.requests, limits.bytes)
    return facts | dict(zip(names, values, strict=True))
