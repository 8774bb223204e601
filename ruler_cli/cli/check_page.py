"""Figures of `ruler check`: as one JSON object for a program, and as a page for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ruler_cli.batch.request_files import LIMITS, Limits, batch_price, batch_target, has_listed_batch_price
from ruler_cli.cli.units import count, rounded, shorten
from ruler_cli.config import InputSettings, JudgeSettings, ScoreSettings
from ruler_cli.errors import UnreadableError
from ruler_cli.estimate import CALLS, NEVER, Estimate, JudgeEstimate
from ruler_cli.formats.interface import PROMPT_HASH, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import raw_value
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.reading.input import Input
from ruler_cli.reading.location import Location
from ruler_cli.reading.parse import dump, parse
from ruler_cli.reading.sample import InputCounts
from ruler_cli.scoring.sums import quantile

HOURS = 24
"""Hours in which OpenAI and Anthropic finish a batch; requests that are left by then expire."""
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_OWN_PATH = "where the format has it"
_NO_PRICE = "unknown (give --price IN,OUT, in USD per million prompt and completion tokens)"
_THINKING = {
    True: ", thinking included",
    False: "",
    None: "; the highest allows for thinking, which is not known of this model",
}
_ROLES = {
    "panel": ", {}",
    "fallback": ", if it refuses {}",
    "escalation": "; for groups that stay unresolved {}",
}
"""Clauses on the judges after the first."""
_COMMONEST = 5
"""Number of group sizes that are listed, the commonest first."""
_LONGEST = 60
"""Characters of a value or a key."""

Facts = dict[str, Any]
"""Figures by name, as `--json` prints them."""


def check_facts(settings: ScoreSettings, source: Input, notes: InputCounts, estimate: Estimate) -> Facts:
    """Return all figures but the list of what cannot be scored."""
    survey, coverage = source.survey, estimate.coverage
    warnings = source.warnings()
    first, sizes = estimate.judges[0], estimate.sizes
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]
    return {
        "version": 1,
        "input": Location(settings.input.source).public,
        "format": source.reader and _format(notes, source.reader),
        "grouping": survey.grouping if survey else "consecutive" if source.reader else None,
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
        "tokens_per_rollout": {name: quantile(estimate.lengths, share) for name, share in _QUANTILES.items()},
        "shown_to_the_judge": {
            "groups": coverage.groups,
            "bytes": coverage.bytes,
            "share": coverage.share,
            "not_shown": dict(coverage.not_shown()),
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
            "calls": asdict(sum((bill.window_calls * CALLS for bill in estimate.judges), NEVER)),
        },
        "estimate": asdict(estimate.totals),
        "suspect_rollouts": estimate.suspect,
        "too_long": {"groups": estimate.widest.too_long, "first": list(estimate.widest.too_long_keys)},
        "laid_out": estimate.laid_out,
        "exact": estimate.exact,
        "warnings": [*source.notes, *warnings, *coverage.warnings()],
    }


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


def _paths(notes: InputCounts, reader: Reader, settings: InputSettings) -> dict[str, Facts]:
    """Return the paths of messages, key, reward and outcome, each with the value in the first record."""
    layout, rewards, outcomes = reader.format.layout, notes.rewards, notes.outcomes
    rollout = next((r for record in notes.first for r in record.rollouts if r.error is None), None)
    messages = rollout.messages if rollout else []
    task = next((m for m in messages if m.get("role") not in ("system", "developer")), None)
    answer = messages[-1].get("content") if messages else None
    no_key = "the line" if reader.format.shape == "group" else "hash of the prompt"
    key = no_key if reader.key == PROMPT_HASH else reader.key
    reward = ".".join(map(str, layout.source or layout.reward or ())) or (_OWN_PATH if rewards.seen else "")
    outcome = settings.outcome or (_OWN_PATH if outcomes.seen else "")

    def path(path: str, option: str | None, examples: list[Any], absent: int = 0) -> Facts:
        example = dump(raw_value(examples[0])).decode("utf-8", "replace") if examples else None
        return {
            "path": path,
            "given": bool(option),
            "example": example and shorten(example, _LONGEST),
            "absent": absent,
        }

    last = [messages[-1] if answer is None else answer] if messages else []
    paths = {"messages": path(settings.messages or _OWN_PATH, settings.messages, last)}
    if settings.prompt:
        paths["prompt"] = path(settings.prompt, settings.prompt, [task.get("content")] if task else [])
    reward_examples = [rollout.reward] if rollout else []
    outcome_examples = [rollout.outcome] if rollout and outcome else []
    return paths | {
        "group key": path(key, settings.group_by, [record.key for record in notes.first[:1]]),
        "reward": path(settings.reward or reward, settings.reward, reward_examples, rewards.absent),
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
        "windows": {"groups": bill.windowed, "calls": asdict(bill.window_calls * CALLS)},
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
                "price": None if price is None else "listed" if has_listed_batch_price(judge) else "half",
                "batches": asdict(bill.batches(limits)) if target else None,
                "requests_per_batch": limits.requests,
                "bytes_per_batch": limits.bytes,
            }
        )
    known = [cost for cost in costs if cost is not None]
    total = asdict(sum(known, NEVER)) if len(known) == len(costs) else None
    return {"hours": HOURS, "cost_usd": total, "judges": judge_facts}


def page_rows(facts: Facts, problems: int, estimate: Estimate) -> Iterator[tuple[str, str]]:
    """Yield the rows of the page: a name and a value each; `problems` is what cannot be scored."""
    about = "" if facts["exact"] else "about "
    yield from _input_rows(facts, about, len(estimate.sizes))
    yield from _prompt_rows(facts, about, estimate.coverage)
    yield from _reward_rows(facts["rewards"], facts["outcomes"], facts["equal_reward_groups"], about)
    yield from _judge_rows(facts, about)
    yield from _estimate_rows(facts["estimate"], about, {bill.model.reasoning for bill in estimate.judges})
    if len(facts["judges"]) > 1:
        yield from ((f"judge {i}", _judge_value(each)) for i, each in enumerate(facts["judges"], 1))
    yield from _batch_rows(facts["batch"]) if "batch" in facts else ()
    yield "suspect rollouts", f"{about}{facts['suspect_rollouts']} (text that addresses a judge)"
    yield "too long", _too_long(facts, about)
    laid_out = f"{facts['laid_out']:,}"
    if facts["exact"]:
        yield "laid out", "the group" if laid_out == "1" else f"all {laid_out} groups"
    else:
        spread = "spread over all; tokens, cost and figures with `about` are estimated from them"
        yield "laid out", f"{laid_out} of {facts['groups']:,} groups, {spread}"
    yield "cannot be scored", count(problems, "line or trajectory")


def _input_rows(facts: Facts, about: str, distinct: int) -> Iterator[tuple[str, str]]:
    """Yield rows on the records; `distinct` is the number of different group sizes."""
    if form := facts["format"]:
        has = "has" if form["agreed"] == 1 else "have"
        agreed = f"{form['agreed']} of the first {count(form['first'], 'record')} {has}"
        yield "format", f"{form['name']}: {agreed} {form['tells']}"
    for name, path in facts["paths"].items():
        where = path["path"] if " " in path["path"] else f"`{path['path']}`"
        given = " as given" if path["given"] else ""
        first = "" if path["example"] is None else f", first: {path['example']}"
        absent = f", absent in {path['absent']:,}" if path["absent"] else ""
        yield name, f"{where}{given}{first}{absent}" if path["path"] else "none"
    sizes, more = facts["group_sizes"], distinct - _COMMONEST
    common = [f"{count(each['groups'], 'group')} of {each['size']}" for each in sizes["commonest"]]
    common += [count(more, "other size")] if more > 0 else []
    between = f"min {sizes['min']}, median {sizes['median']}, max {sizes['max']} ({', '.join(common)})"
    yield "group sizes", f"{about}{between if distinct else 'no groups'}"
    taskless, mixed = facts["rollouts_without_task"], facts["groups_of_several_tasks"]
    none = f"none shown for {count(taskless, 'rollout')}" if taskless else ""
    several = f"several in {count(mixed, 'group')}" if mixed else ""
    tasks = ", ".join(filter(None, (none, several)))
    yield "tasks", tasks or "shown to the judge for every rollout, one in a group"
    yield "rollouts", f"{facts['rollouts']:,} in {count(facts['records'], facts['unit'])}"


def _prompt_rows(facts: Facts, about: str, coverage: Coverage) -> Iterator[tuple[str, str]]:
    lengths = ", ".join(f"{name} {tokens:,}" for name, tokens in facts["tokens_per_rollout"].items())
    missing = coverage.not_shown_text()
    shown = "no text to show" if coverage.share is None else f"{coverage.share:.0%} of the text"
    yield "tokens a rollout", f"{about}{lengths}"
    yield "shown to the judge", f"{shown}; not shown: {missing}" if missing else shown
    yield "shared prefix", f"{about}{facts['shared_prefix']:.0%} of the prompts, shown once for a group"
    yield "identical rollouts", f"{about}{facts['identical_rollouts']}"
    yield "tied groups", f"{about}{facts['tied_groups']} (one rollout, or all identical)"


def _reward_rows(rewards: Facts, outcomes: Facts, equal: int, about: str) -> Iterator[tuple[str, str]]:
    parts = []
    if rewards["mean"] is not None:
        parts.append(f"min {rewards['min']:.4g}, mean {rewards['mean']:.4g}, max {rewards['max']:.4g}")
    if rewards["spread"] is not None:
        parts.append(f"mean spread in a group {about}{rewards['spread']:.4g}")
    parts += [f"{rewards['absent']:,} without"] if rewards["absent"] else []
    parts += [f"{rewards['no_number']:,} no number"] if rewards["no_number"] else []
    yield "rewards", "; ".join(parts) or "none"
    yield "equal rewards", f"{about}{count(equal, 'group')} (their own rewards teach nothing)"
    mean, no_number = outcomes["mean"], outcomes["no_number"]
    if outcomes["numbers"]:
        average = f"{mean:.1%} true" if outcomes["of_truth"] else f"mean {mean:.4g}"
        without = outcomes["absent"] + no_number
        rest = f"; {without:,} without" if without else ""
        yield "outcomes", f"{average} of {outcomes['numbers']:,}{rest}"
    else:
        yield "outcomes", f"{no_number:,} no number" if no_number else "none"


def _judge_rows(facts: Facts, about: str) -> Iterator[tuple[str, str]]:
    """Yield rows on the judges and how they are asked."""
    first, *others = facts["judges"]
    clauses = [_ROLES[each["asked"]].format(each["model"]) for each in others]
    yield "judge", "".join([first["model"], *clauses])
    if facts["adaptive"]:
        yield "passes", f"up to {facts['passes']} on average, 2 at least"
    elif facts["passes"] > 1:
        yield "passes", f"{facts['passes']}"
    if facts["windows"]["groups"]:
        groups, calls = count(facts["windows"]["groups"], "group"), _calls(facts["windows"]["calls"])
        yield "windows", f"{about}{groups} in parts, twice at least: {calls} of the calls"


def _estimate_rows(left: Facts, about: str, reasons: set[bool | None]) -> Iterator[tuple[str, str]]:
    """Yield rows on the requests that are not in the ledger: calls, tokens, cost."""
    calls, cost, cap = left["calls"], left["cost_usd"], left["max_cost_usd"]
    cached = f"{left['kept']} of {count(left['kept'] + round(calls['expected']), 'call')}"
    if left["kept"]:
        failed = f"; {left['kept_failed']} failed, --retry-failed asks again" if left["kept_failed"] else ""
        cached = f"{about}{cached}, not paid again{failed}"
    thinking = _THINKING[None if None in reasons else True in reasons]
    enough = "or more lets every call go, at the highest cost" if calls["high"] else "no call is left"
    yield "calls", _calls(calls)
    yield "kept", cached
    yield "prompt tokens", _tokens(left["prompt_tokens"])
    yield "completion tokens", _tokens(left["completion_tokens"]) + thinking
    yield "cost", _NO_PRICE if cost is None else _dollars(cost)
    yield "--max-cost", "unknown, as the cost is" if cap is None else f"{rounded(cap, up=True)} {enough}"


def _judge_value(one: Facts) -> str:
    prompt, answers = one["prompt_tokens"]["expected"], one["completion_tokens"]["expected"]
    tokens = f"about {prompt:.0f} prompt and {answers:.0f} completion tokens"
    cost = "cost unknown" if one["cost_usd"] is None else _dollars(one["cost_usd"])
    cached = f", {one['kept']} kept" if one["kept"] else ""
    too_long, context = "", one["context_tokens"]
    if one["too_long"] and context:
        too_long = f", too long for its {context:,} tokens: {count(one['too_long'], 'group')}"
    return f"{one['model']}: {_calls(one['calls'])} calls, {tokens}, {cost}{cached}{too_long}"


def _batch_rows(batch: Facts) -> Iterator[tuple[str, str]]:
    """Yield rows on the batches of each judge."""
    judges = batch["judges"]
    for number, one in enumerate(judges, 1):
        at = f" {number}" if len(judges) > 1 else ""
        yield f"batch cost{at}", _batch_cost(one)
        if batches := one["batches"]:
            most = f"{one['requests_per_batch']:,} requests or {one['bytes_per_batch'] / 1e6:.0f} MB each"
            yield f"batches{at}", f"{_calls(batches)}, of at most {most}"
    if any(one["provider"] for one in judges):
        hours = f"up to {batch['hours']} hours; again as much for requests that follow from answers"
        yield "batch time", hours


def _batch_cost(one: Facts) -> str:
    if one["provider"] is None:
        return f"{one['model']} has no batch API that ruler speaks; `ruler render` writes the requests"
    if one["cost_usd"] is None:
        return "unknown, as the cost is"
    how = "as its provider lists it" if one["price"] == "listed" else "half the price of calls"
    return f"{_dollars(one['cost_usd'])}, {how}"


def _too_long(facts: Facts, about: str) -> str:
    contexts = [each["context_tokens"] for each in facts["judges"] if each["asked"] == "panel"]
    number, keys = facts["too_long"]["groups"], facts["too_long"]["first"]
    if not number:
        return "0 (the judge's context is not known)" if None in contexts else "0"
    named = ", ".join(shorten(key, _LONGEST) for key in keys) + (", …" if number > len(keys) else "")
    return f"{about}{count(number, 'group')} for {max(contexts):,} tokens ({named})"


def _calls(calls: Mapping[str, float]) -> str:
    return f"{calls['expected']:.0f} (up to {calls['high']:.0f})"


def _tokens(tokens: Mapping[str, float]) -> str:
    return f"about {tokens['expected']:.0f} (from {tokens['low']:.0f} to {tokens['high']:.0f})"


def _dollars(cost: Mapping[str, float]) -> str:
    low, high = rounded(cost["low"], up=False), rounded(cost["high"], up=True)
    return f"${rounded(cost['expected'])} (from ${low} to ${high})"
