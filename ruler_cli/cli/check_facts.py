"""Figures of `ruler check`, and the reasons why a run is not ready, as `--json` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ruler_cli.cli.messages import command_words
from ruler_cli.cli.units import count, rounded, shorten
from ruler_cli.errors import NothingToCompare, UnreadableError, UsageError
from ruler_cli.files.input import Input
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.files.sample import InputCounts
from ruler_cli.formats.interface import PROMPT_HASH, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import raw_value
from ruler_cli.runs.batch.request_files import (
    LIMITS,
    Limits,
    batch_price,
    batch_target,
    has_listed_batch_price,
)
from ruler_cli.runs.estimate import CALLS, NEVER, Estimate, JudgeEstimate
from ruler_cli.scoring.sums import quantile
from ruler_cli.settings.models import InputSettings, JudgeSettings, ScoreSettings

HOURS = 24
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
    source: Input,
    notes: InputCounts,
    estimate: Estimate,
    problems: int,
    refused: Iterable[UsageError],
    missing: Iterable[UsageError],
) -> Facts:
    """Return all figures but the list of the `problems`, which are what cannot be scored.

    `refused` tells why `score` would refuse a judge, `missing` which keys are not set.
    """
    survey, coverage = source.survey, estimate.coverage
    # if nothing is compared, the verdict says so
    warnings = source.warnings(
        alone=settings.ask.single == "score" or not estimate.comparable
    )
    first, sizes = estimate.judges[0], estimate.sizes
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]
    reasons = [*_reasons(settings, source, estimate, problems), *_sentences(refused)]
    return {
        "version": 1,
        "ready": not reasons,
        "not_ready": reasons,
        "missing_keys": _sentences(missing),
        "input": Location(settings.input.source).public,
        "format": source.reader and _format(notes, source.reader),
        "grouping": survey.grouping
        if survey
        else "consecutive"
        if source.reader
        else None,
        "paths": _paths(notes, source.reader, settings.input) if source.reader else {},
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
        "equal_reward_groups": estimate.equal,
        "rewards": notes.rewards.facts
        | {"spread": estimate.spread / estimate.spreads if estimate.spreads else None},
        "outcomes": notes.outcomes.facts | {"of_truth": notes.outcomes.of_truth},
        "judge": {"model": first.name, "context_tokens": first.model.context},
        "judges": [_judge(bill) for bill in estimate.judges],
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "windows": {
            "groups": max(bill.windowed for bill in estimate.judges),
            "calls": asdict(
                sum((bill.window_calls * CALLS for bill in estimate.judges), NEVER)
            ),
        },
        "estimate": asdict(estimate.totals),
        "suspect_rollouts": estimate.suspect,
        "too_long": {
            "groups": estimate.widest.too_long,
            "first": list(estimate.widest.too_long_keys),
        },
        "laid_out": estimate.laid_out,
        "exact": estimate.exact,
        "warnings": [
            *map(command_words, (*source.notes, *warnings, *coverage.warnings()))
        ],
    }


def _reasons(
    settings: ScoreSettings, source: Input, estimate: Estimate, problems: int
) -> Iterator[str]:
    """Yield why `score` would refuse the run, would not score all of it, or could compare nothing."""
    groups, too_long, totals = (
        estimate.sizes.total(),
        estimate.widest.too_long,
        estimate.totals,
    )
    if not groups:
        yield "there is no group that can be scored"
    if problems:
        yield f"{count(problems, 'line or trajectory')} cannot be scored"
    if too_long:
        is_ = "is" if too_long == 1 else "are"
        yield f"{count(too_long, 'group')} {is_} too long for the judge; --group-size N shows fewer at once"
    if (
        groups
        and source.reader
        and not estimate.comparable
        and settings.ask.single == "flag"
    ):
        yield command_words(NothingToCompare(source.reader.shown_key))
    cap, cost = settings.pool.max_cost, totals.cost_usd
    if (
        cap is not None
        and cost is not None
        and cost.expected > cap
        and not settings.cached_only
    ):
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
    rollout = next(
        (r for record in notes.first for r in record.rollouts if r.error is None), None
    )
    messages = rollout.messages if rollout else []
    task = next(
        (m for m in messages if m.get("role") not in ("system", "developer")), None
    )
    answer = messages[-1].get("content") if messages else None
    no_key = "the line" if reader.format.shape == "group" else "hash of the prompt"
    key = no_key if reader.key == PROMPT_HASH else reader.key
    reward = ".".join(map(str, layout.source or layout.reward or ())) or (
        OWN_PATH if rewards.seen else ""
    )
    outcome = settings.outcome or (OWN_PATH if outcomes.seen else "")

    def path(
        path: str, option: str | None, examples: list[Any], absent: int = 0
    ) -> Facts:
        example = (
            dump(raw_value(examples[0])).decode("utf-8", "replace")
            if examples
            else None
        )
        return {
            "path": path,
            "given": bool(option),
            "example": example and shorten(example, LONGEST),
            "absent": absent,
        }

    last = [messages[-1] if answer is None else answer] if messages else []
    paths = {"messages": path(settings.messages or OWN_PATH, settings.messages, last)}
    if settings.prompt:
        paths["prompt"] = path(
            settings.prompt, settings.prompt, [task.get("content")] if task else []
        )
    reward_examples = [rollout.reward] if rollout else []
    outcome_examples = [rollout.outcome] if rollout and outcome else []
    return paths | {
        "group key": path(
            key, settings.group_by, [record.key for record in notes.first[:1]]
        ),
        "reward": path(
            settings.reward or reward, settings.reward, reward_examples, rewards.absent
        ),
        "outcome": path(outcome, settings.outcome, outcome_examples, outcomes.absent),
    }


def _judge(bill: JudgeEstimate) -> Facts:
    figures = asdict(bill.totals(bill.model.price))
    del figures["max_cost_usd"]
    return {
        "model": bill.name,
        "asked": bill.role,
        "context_tokens": bill.model.context,
        **figures,
        "too_long": bill.too_long,
        "windows": {
            "groups": bill.windowed,
            "calls": asdict(bill.window_calls * CALLS),
        },
    }


def batch_facts(judges: list[JudgeSettings], bills: list[JudgeEstimate]) -> Facts:
    """Return USD, batches and hours of the run in providers' batches; the cost may be unknown (None)."""
    costs, judge_facts = [], []
    for judge, bill in zip(judges, bills, strict=True):
        target = batch_target(judge)
        limits = LIMITS[target] if target else Limits()
        price = batch_price(judge) if target else None
        costs.append(None if price is None else bill.totals(price).cost_usd)
        judge_facts.append(
            {
                "model": bill.name,
                "provider": target,
                "cost_usd": costs[-1] and asdict(costs[-1]),
                "price": None
                if price is None
                else "listed"
                if has_listed_batch_price(judge)
                else "half",
                "batches": asdict(bill.batches(limits)) if target else None,
                "requests_per_batch": limits.requests,
                "bytes_per_batch": limits.bytes,
            }
        )
    known = [cost for cost in costs if cost is not None]
    total = asdict(sum(known, NEVER)) if len(known) == len(costs) else None
    return {"hours": HOURS, "cost_usd": total, "judges": judge_facts}
