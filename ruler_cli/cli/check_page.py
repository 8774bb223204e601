"""What `ruler check` finds: one object of figures for a program, and a page of the same for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ruler_cli.batch.request_files import LIMITS, Limits, batch_price, batch_target, has_listed_batch_price
from ruler_cli.cli.units import count, rounded
from ruler_cli.config import InputSettings, JudgeSettings, ScoreSettings
from ruler_cli.errors import UnreadableError
from ruler_cli.estimate import CALLS, NEVER, Estimate, JudgeEstimate
from ruler_cli.formats.interface import PROMPT_HASH, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import given
from ruler_cli.reading.input import Input
from ruler_cli.reading.location import Location
from ruler_cli.reading.parse import dump, parse
from ruler_cli.reading.sample import InputCounts
from ruler_cli.scoring.sums import quantile

HOURS = 24
"""Within so many hours OpenAI and Anthropic are done with a batch; what is not done by then expires."""
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_OWN = "where the format has it"
_PRICE = "unknown (give --price IN,OUT, in USD per million prompt and completion tokens)"
_THINKING = {
    True: ", thinking included",
    False: "",
    None: "; the most allows for thinking, which is not known of this model",
}
_WHEN = {
    "panel": ", {}",
    "fallback": ", where it refuses {}",
    "escalation": "; for groups that stay unresolved {}",
}
"""When a judge beside the first is asked."""
_COMMONEST = 5
"""Group sizes that are listed, the commonest first."""

Facts = dict[str, Any]
"""What is found, as `--json` prints it."""


def facts_of(settings: ScoreSettings, found: Input, notes: InputCounts, result: Estimate) -> Facts:
    """All figures; `cannot_be_scored` and its list are written by who has them."""
    survey, coverage = found.survey, result.coverage
    doubts = survey.warnings() if survey else found.openings.sentences()
    first, sizes = result.judges[0], result.sizes
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]
    return {
        "version": 1,
        "input": Location(settings.input.source).public,
        "format": found.reader and _format(notes, found.reader),
        "grouping": survey.grouping if survey else "consecutive" if found.reader else None,
        "paths": _paths(notes, found.reader, settings.input) if found.reader else {},
        "bytes": notes.bytes,
        "records": notes.records,
        "unit": found.unit,
        "groups": sizes.total(),
        "rollouts": notes.rollouts,
        "group_sizes": {
            "min": min(sizes, default=None),
            "median": quantile(sizes, 0.5),
            "max": max(sizes, default=None),
            "commonest": [{"size": size, "groups": number} for size, number in common],
        },
        "tokens_per_rollout": {name: quantile(result.lengths, share) for name, share in _SHARES.items()},
        "shown_to_the_judge": {
            "groups": coverage.groups,
            "bytes": coverage.bytes,
            "share": coverage.share,
            "not_shown": dict(coverage.not_shown()),
        },
        "rollouts_without_task": found.openings.taskless,
        "groups_of_several_tasks": found.openings.mixed,
        "shared_prefix": result.shared / result.bytes if result.bytes else 0.0,
        "identical_rollouts": result.identical_rollouts,
        "tied_groups": result.tied_groups,
        "equal_reward_groups": result.equal,
        "rewards": notes.rewards.facts
        | {"spread": result.spread / result.spreads if result.spreads else None},
        "outcomes": notes.outcomes.facts | {"of_truth": notes.outcomes.of_truth},
        "judge": {"model": first.name, "context_tokens": first.model.context},
        "judges": [_judge(bill) for bill in result.judges],
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "windows": {
            "groups": max(bill.windowed for bill in result.judges),
            "calls": asdict(sum((bill.window_calls * CALLS for bill in result.judges), NEVER)),
        },
        "estimate": asdict(result.totals),
        "suspect_rollouts": result.suspect,
        "too_long": {"groups": result.widest.too_long, "first": list(result.widest.too_long_keys)},
        "laid_out": result.laid_out,
        "exact": result.exact,
        "warnings": [*found.notes, *doubts, *coverage.warnings()],
    }


def _format(notes: InputCounts, reader: Reader) -> Facts:
    """The format, and how many of the first records have its keys."""
    form, agreed = reader.format, 0
    lines = {record.line.number: record.line for record in notes.first}
    for line in lines.values():
        try:
            agreed += bool(fits(form, parse(line.raw)))
        except UnreadableError:
            continue
    about = {"name": form.name, "family": form.family, "shape": form.shape, "tells": form.tells}
    return about | {"agreed": agreed, "first": len(lines)}


def _paths(notes: InputCounts, reader: Reader, told: InputSettings) -> dict[str, Facts]:
    """Where messages, key, reward and outcome stand, who says so, and what the first record has there."""
    layout, rewards, outcomes = reader.format.layout, notes.rewards, notes.outcomes
    one = next((r for record in notes.first for r in record.rollouts if r.error is None), None)
    messages = one.messages if one else []
    task = next((m for m in messages if m.get("role") not in ("system", "developer")), None)
    said = messages[-1].get("content") if messages else None
    hashed = "the line" if reader.format.shape == "group" else "hash of the prompt"
    key = hashed if reader.key == PROMPT_HASH else reader.key
    # without a place for rewards there is no room for a score either
    own = ".".join(map(str, layout.source or layout.reward or ())) or (_OWN if rewards.seen else "")
    outcome = told.outcome or (_OWN if outcomes.seen else "")

    def path(where: str, by: str | None, examples: list[Any], absent: int = 0) -> Facts:
        shown = shortened(dump(given(examples[0])).decode("utf-8", "replace")) if examples else None
        return {"path": where, "given": bool(by), "example": shown, "absent": absent}

    last = [messages[-1] if said is None else said] if messages else []
    found = {"messages": path(told.messages or _OWN, told.messages, last)}
    if told.prompt:
        found["prompt"] = path(told.prompt, told.prompt, [task.get("content")] if task else [])
    return found | {
        "group key": path(key, told.group_by, [record.key for record in notes.first[:1]]),
        "reward": path(told.reward or own, told.reward, [one.reward] if one else [], rewards.absent),
        "outcome": path(outcome, told.outcome, [one.outcome] if one and outcome else [], outcomes.absent),
    }


def shortened(text: str, most: int = 60) -> str:
    """Text that fits on a line."""
    return text if len(text) <= most else text[: most - 1] + "…"


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


def batches(judges: list[JudgeSettings], bills: list[JudgeEstimate]) -> Facts:
    """What the same takes in a provider's batches: USD, batches, hours; the cost of all may be unknown."""
    costs, found = [], []
    for judge, bill in zip(judges, bills, strict=True):
        target = batch_target(judge)
        limits = LIMITS[target] if target else Limits()
        price = batch_price(judge) if target else None
        costs.append(None if price is None else bill.totals(price).cost_usd)
        found.append(
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
    whole = asdict(sum(known, NEVER)) if len(known) == len(costs) else None
    return {"hours": HOURS, "cost_usd": whole, "judges": found}


def rows(facts: Facts, lost: int, result: Estimate) -> Iterator[tuple[str, str]]:
    """The page as names and values."""
    about = "" if facts["exact"] else "about "
    lengths = ", ".join(f"{name} {tokens:,}" for name, tokens in facts["tokens_per_rollout"].items())
    judges = facts["judges"]
    if form := facts["format"]:
        has = "has" if form["agreed"] == 1 else "have"
        agreed = f"{form['agreed']} of the first {count(form['first'], 'record')} {has}"
        yield "format", f"{form['name']}: {agreed} {form['tells']}"
    for name, path in facts["paths"].items():
        yield name, _place(path)
    yield "group sizes", f"{about}{_sizes(facts['group_sizes'], len(result.sizes))}"
    yield "tasks", _tasks(facts["rollouts_without_task"], facts["groups_of_several_tasks"])
    yield "rollouts", f"{facts['rollouts']:,} in {count(facts['records'], facts['unit'])}"
    yield "tokens a rollout", f"{about}{lengths}"
    yield "shown to the judge", _coverage(result)
    yield "shared prefix", f"{about}{facts['shared_prefix']:.0%} of the prompts, shown once for a group"
    yield "identical rollouts", f"{about}{facts['identical_rollouts']}"
    yield "tied groups", f"{about}{facts['tied_groups']} (one rollout, or all identical)"
    yield "rewards", _rewards(facts["rewards"], about)
    equal = count(facts["equal_reward_groups"], "group")
    yield "equal rewards", f"{about}{equal} (their own rewards teach nothing)"
    yield "outcomes", _outcomes(facts["outcomes"])
    others = [_WHEN[each["asked"]].format(each["model"]) for each in judges[1:]]
    yield "judge", "".join([judges[0]["model"], *others])
    if facts["adaptive"]:
        yield "passes", f"up to {facts['passes']} on average, 2 at least"
    elif facts["passes"] > 1:
        yield "passes", f"{facts['passes']}"
    if facts["windows"]["groups"]:
        groups, calls = count(facts["windows"]["groups"], "group"), _calls(facts["windows"]["calls"])
        yield "windows", f"{about}{groups} in parts, twice at least: {calls} of the calls"
    yield from _money(facts["estimate"], about, {bill.model.reasoning for bill in result.judges})
    if len(judges) > 1:
        yield from ((f"judge {i}", _of_judge(each)) for i, each in enumerate(judges, 1))
    yield from _in_batches(facts["batch"]) if "batch" in facts else ()
    yield "suspect rollouts", f"{about}{facts['suspect_rollouts']} (text that addresses a judge)"
    yield "too long", _too_long(facts, about)
    yield "laid out", _laid_out(facts)
    yield "cannot be scored", count(lost, "line or trajectory")


def _place(path: Facts) -> str:
    if not path["path"]:
        return "none"
    name = path["path"] if " " in path["path"] else f"`{path['path']}`"
    name += " as given" if path["given"] else ""
    value = "" if path["example"] is None else f", first: {path['example']}"
    absent = f", absent in {path['absent']:,}" if path["absent"] else ""
    return f"{name}{value}{absent}"


def _sizes(sizes: Facts, different: int) -> str:
    if not different:
        return "no groups"
    common = ", ".join(f"{count(each['groups'], 'group')} of {each['size']}" for each in sizes["commonest"])
    more = different - _COMMONEST
    rest = f", {count(more, 'other size')}" if more > 0 else ""
    return f"min {sizes['min']}, median {sizes['median']}, max {sizes['max']} ({common}{rest})"


def _tasks(taskless: int, mixed: int) -> str:
    none = f"none shown for {count(taskless, 'rollout')}" if taskless else ""
    several = f"several in {count(mixed, 'group')}" if mixed else ""
    return ", ".join(filter(None, (none, several))) or "shown to the judge for every rollout, one in a group"


def _coverage(result: Estimate) -> str:
    coverage = result.coverage
    if coverage.share is None:
        return "no text to show"
    missing = coverage.not_shown_text()
    return f"{coverage.share:.0%} of the text{f'; not shown: {missing}' if missing else ''}"


def _rewards(rewards: Facts, about: str) -> str:
    parts = []
    if rewards["mean"] is not None:
        parts.append(f"min {rewards['min']:.4g}, mean {rewards['mean']:.4g}, max {rewards['max']:.4g}")
    if rewards["spread"] is not None:
        parts.append(f"mean spread in a group {about}{rewards['spread']:.4g}")
    if rewards["absent"]:
        parts.append(f"{rewards['absent']:,} without")
    if rewards["no_number"]:
        parts.append(f"{rewards['no_number']:,} no number")
    return "; ".join(parts) or "none"


def _outcomes(outcomes: Facts) -> str:
    if not outcomes["numbers"]:
        return f"{outcomes['no_number']:,} no number" if outcomes["no_number"] else "none"
    mean, no = outcomes["mean"], outcomes["absent"] + outcomes["no_number"]
    what = f"{mean:.1%} true" if outcomes["of_truth"] else f"mean {mean:.4g}"
    return f"{what} of {outcomes['numbers']:,}{f'; {no:,} without' if no else ''}"


def _money(left: Facts, about: str, reasons: set[bool | None]) -> Iterator[tuple[str, str]]:
    """What is left to ask and what it takes."""
    calls, cost, cap = left["calls"], left["cost_usd"], left["max_cost_usd"]
    kept = f"{left['kept']} of {count(left['kept'] + round(calls['expected']), 'call')}"
    if left["kept"]:
        failed = f"; {left['kept_failed']} failed, --retry-failed asks again" if left["kept_failed"] else ""
        kept = f"{about}{kept}, not paid again{failed}"
    thinking = _THINKING[None if None in reasons else True in reasons]
    enough = "or more lets every call go, at the highest cost" if calls["high"] else "no call is left"
    yield "calls", _calls(calls)
    yield "kept", kept
    yield "prompt tokens", _tokens(left["prompt_tokens"])
    yield "completion tokens", _tokens(left["completion_tokens"]) + thinking
    yield "cost", _PRICE if cost is None else _dollars(cost)
    yield "--max-cost", "unknown, as the cost is" if cap is None else f"{rounded(cap, up=True)} {enough}"


def _of_judge(one: Facts) -> str:
    prompt, answers = one["prompt_tokens"]["expected"], one["completion_tokens"]["expected"]
    tokens = f"about {prompt:.0f} prompt and {answers:.0f} completion tokens"
    cost = "cost unknown" if one["cost_usd"] is None else _dollars(one["cost_usd"])
    kept = f", {one['kept']} kept" if one["kept"] else ""
    lost, context = "", one["context_tokens"]
    if one["too_long"] and context:
        lost = f", too long for its {context:,} tokens: {count(one['too_long'], 'group')}"
    return f"{one['model']}: {_calls(one['calls'])} calls, {tokens}, {cost}{kept}{lost}"


def _in_batches(batch: Facts) -> Iterator[tuple[str, str]]:
    """What a provider's batch API takes, each of several judges in rows of its own."""
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
    found, keys = facts["too_long"]["groups"], facts["too_long"]["first"]
    if not found:
        return "0 (the judge's context is not known)" if None in contexts else "0"
    named = ", ".join(map(shortened, keys)) + (", …" if found > len(keys) else "")
    return f"{about}{count(found, 'group')} for {max(contexts):,} tokens ({named})"


def _laid_out(facts: Facts) -> str:
    if facts["exact"]:
        return "the group" if facts["laid_out"] == 1 else f"all {facts['laid_out']:,} groups"
    return (
        f"{facts['laid_out']:,} of {facts['groups']:,} groups, spread over all; tokens, cost and what is "
        "told with `about` are estimated from them"
    )


def _calls(calls: Mapping[str, float]) -> str:
    return f"{calls['expected']:.0f} (up to {calls['high']:.0f})"


def _tokens(tokens: Mapping[str, float]) -> str:
    return f"about {tokens['expected']:.0f} (from {tokens['low']:.0f} to {tokens['high']:.0f})"


def _dollars(cost: Mapping[str, float]) -> str:
    low, high = rounded(cost["low"], up=False), rounded(cost["high"], up=True)
    return f"${rounded(cost['expected'])} (from ${low} to ${high})"
