"""What `ruler check` finds: one object of figures for a program, and a page of the same for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ruler_cli.cli.units import count, rounded
from ruler_cli.estimate import CALLS, NEVER, Bill, Estimate
from ruler_cli.files.location import Location
from ruler_cli.files.requests import Limits
from ruler_cli.judges.choose import LIMITS, batch_price, batches_of, lists_batches
from ruler_cli.notes import Notes, Overview, Tally, shortened
from ruler_cli.reading import Input
from ruler_cli.settings import JudgeSettings, ScoreSettings
from ruler_cli.statistics.sums import quantile

HOURS = 24
"""Within so many hours OpenAI and Anthropic are done with a batch; what is not done by then expires."""
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_PRICE = "unknown (give --price IN,OUT, in USD per million prompt and completion tokens)"
_THINKING = {
    True: ", thinking included",
    False: "",
    None: "; the most allows for thinking, which is not known of this model",
}
_COMMONEST = 5
"""Group sizes that are listed, the commonest first."""

Facts = dict[str, Any]
"""What is found, as `--json` prints it."""


def facts_of(settings: ScoreSettings, found: Input, notes: Notes, whole: Overview, result: Estimate) -> Facts:
    """All figures; `cannot_be_scored` and its list are written by who has them."""
    survey, reader = found.survey, found.reader
    doubts = survey.warnings() if survey else found.openings.sentences()
    first, sizes = result.bills[0], whole.sizes
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]
    return {
        "version": 1,
        "input": Location(settings.input.source).public,
        "format": notes.format(reader),
        "grouping": survey.grouping if survey else "consecutive" if reader else None,
        "paths": notes.paths(reader, settings.input),
        "bytes": notes.bytes,
        "records": notes.records,
        "unit": notes.unit,
        "groups": whole.groups,
        "rollouts": whole.rollouts,
        "group_sizes": {
            "min": min(sizes, default=None),
            "median": quantile(sizes, 0.5),
            "max": max(sizes, default=None),
            "commonest": [{"size": size, "groups": number} for size, number in common],
        },
        "tokens_per_rollout": {name: quantile(result.lengths, share) for name, share in _SHARES.items()},
        "shown_to_the_judge": {
            "groups": result.coverage.groups,
            "bytes": result.coverage.bytes,
            "share": result.coverage.share,
            "not_shown": dict(result.coverage.most()),
        },
        "rollouts_without_task": found.openings.taskless,
        "groups_of_several_tasks": found.openings.mixed,
        "shared_prefix": result.shared / result.bytes if result.bytes else 0.0,
        "identical_rollouts": result.identical_rollouts,
        "tied_groups": result.tied_groups,
        "equal_reward_groups": whole.equal,
        "rewards": _tally(notes.rewards) | {"spread": whole.spread},
        "outcomes": _tally(notes.outcomes) | {"of_truth": notes.outcomes.of_truth},
        "judge": {"model": first.judge, "context_tokens": first.model.context},
        "judges": [_judge(bill) for bill in result.bills],
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "windows": {"groups": result.windowed, "calls": asdict(result.window_calls)},
        "estimate": asdict(result.figures),
        "suspect_rollouts": result.suspect,
        "too_long": {"groups": result.widest.too_long, "first": list(result.widest.keys)},
        "laid_out": result.laid_out,
        "exact": result.exact,
        "warnings": [*found.notes, *doubts, *result.coverage.doubts()],
    }


def _judge(bill: Bill) -> Facts:
    figures = asdict(bill.figures(bill.model.price))
    del figures["max_cost_usd"]
    return {
        "model": bill.judge,
        "asked": bill.role,
        "context_tokens": bill.model.context,
        **figures,
        "too_long": bill.too_long,
        "windows": {"groups": bill.windowed, "calls": asdict(bill.window_calls * CALLS)},
    }


def batches(judges: list[JudgeSettings], bills: list[Bill]) -> Facts:
    """What the same takes in a provider's batches: USD, batches, hours; the cost of all may be unknown."""
    costs, found = [], []
    for judge, bill in zip(judges, bills, strict=True):
        target = batches_of(judge)
        limits = LIMITS[target] if target else Limits()
        price = batch_price(judge) if target else None
        costs.append(None if price is None else bill.figures(price).cost_usd)
        found.append(
            {
                "model": bill.judge,
                "provider": target,
                "cost_usd": costs[-1] and asdict(costs[-1]),
                "price": None if price is None else "listed" if lists_batches(judge) else "half",
                "batches": asdict(bill.batches(limits)) if target else None,
                "requests_per_batch": limits.requests,
                "bytes_per_batch": limits.bytes,
            }
        )
    known = [cost for cost in costs if cost is not None]
    whole = asdict(sum(known, NEVER)) if len(known) == len(costs) else None
    return {"hours": HOURS, "cost_usd": whole, "judges": found}


def _tally(tally: Tally) -> Facts:
    known = tally.numbers > 0
    return {
        "numbers": tally.numbers,
        "absent": tally.absent,
        "no_number": tally.other,
        "min": tally.lowest if known else None,
        "mean": tally.mean,
        "max": tally.highest if known else None,
    }


def rows(facts: Facts, sizes: int, lost: int, result: Estimate) -> list[tuple[str, str]]:
    """The page as names and values."""
    about = "" if facts["exact"] else "about "
    lengths = ", ".join(f"{name} {tokens:,}" for name, tokens in facts["tokens_per_rollout"].items())
    return [
        *_format(facts["format"]),
        *((name, _place(path)) for name, path in facts["paths"].items()),
        ("group sizes", _sizes(facts["group_sizes"], sizes)),
        ("tasks", _tasks(facts["rollouts_without_task"], facts["groups_of_several_tasks"])),
        ("rollouts", f"{facts['rollouts']:,} in {count(facts['records'], facts['unit'])}"),
        ("tokens a rollout", f"{about}{lengths}"),
        ("shown to the judge", _coverage(result)),
        ("shared prefix", f"{about}{facts['shared_prefix']:.0%} of the prompts, shown once for a group"),
        ("identical rollouts", f"{about}{facts['identical_rollouts']}"),
        ("tied groups", f"{about}{facts['tied_groups']} (one rollout, or all identical)"),
        ("rewards", _rewards(facts["rewards"])),
        (
            "equal rewards",
            f"{count(facts['equal_reward_groups'], 'group')} (their own rewards teach nothing)",
        ),
        ("outcomes", _outcomes(facts["outcomes"])),
        ("judge", _who(facts["judges"])),
        *_passes(facts, about),
        *_money(facts, about, {bill.model.reasoning for bill in result.bills}),
        *_each(facts["judges"]),
        *_in_batches(facts.get("batch")),
        ("suspect rollouts", f"{about}{facts['suspect_rollouts']} (text that addresses a judge)"),
        ("too long", _too_long(facts, about)),
        ("laid out", _laid_out(facts)),
        ("cannot be scored", count(lost, "line or trajectory")),
    ]


def _format(form: Facts | None) -> list[tuple[str, str]]:
    if form is None:
        return []
    agreed = f"{form['agreed']} of the first {count(form['first'], 'record')}"
    has = "has" if form["agreed"] == 1 else "have"
    return [("format", f"{form['name']}: {agreed} {has} {form['tells']}")]


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
    if not taskless and not mixed:
        return "shown to the judge for every rollout, one in a group"
    none = f"none shown for {count(taskless, 'rollout')}" if taskless else ""
    several = f"several in {count(mixed, 'group')}" if mixed else ""
    return ", ".join(part for part in (none, several) if part)


def _coverage(result: Estimate) -> str:
    coverage = result.coverage
    if coverage.share is None:
        return "no text to show"
    missing = coverage.named()
    return f"{coverage.share:.0%} of the text{f'; not shown: {missing}' if missing else ''}"


def _rewards(rewards: Facts) -> str:
    parts = []
    if rewards["mean"] is not None:
        parts.append(f"min {rewards['min']:.4g}, mean {rewards['mean']:.4g}, max {rewards['max']:.4g}")
    if rewards["spread"] is not None:
        parts.append(f"mean spread in a group {rewards['spread']:.4g}")
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


def _who(judges: list[Facts]) -> str:
    """Who is asked, and when."""
    when = {
        "panel": ", {}",
        "fallback": ", where it refuses {}",
        "escalation": "; for groups that stay unresolved {}",
    }
    others = "".join(when[each["asked"]].format(each["model"]) for each in judges[1:])
    return f"{judges[0]['model']}{others}"


def _passes(facts: Facts, about: str) -> list[tuple[str, str]]:
    """How often, and in how many parts, where it is not once and all at a time."""
    out, passes, windows = [], facts["passes"], facts["windows"]
    if facts["adaptive"]:
        out.append(("passes", f"up to {passes} on average, 2 at least"))
    elif passes > 1:
        out.append(("passes", f"{passes}"))
    if windows["groups"]:
        groups, calls = count(windows["groups"], "group"), _calls(windows["calls"])
        out.append(("windows", f"{about}{groups} in parts, twice at least: {calls} of the calls"))
    return out


def _money(facts: Facts, about: str, reasons: set[bool | None]) -> list[tuple[str, str]]:
    """What is left to ask and what it takes."""
    left = facts["estimate"]
    calls, cost, cap = left["calls"], left["cost_usd"], left["max_cost_usd"]
    kept = f"{left['kept']} of {count(left['kept'] + round(calls['expected']), 'call')}"
    if left["kept"]:
        failed = f"; {left['kept_failed']} failed, --retry-failed asks again" if left["kept_failed"] else ""
        kept = f"{about}{kept}, not paid again{failed}"
    thinking = _THINKING[None if None in reasons else True in reasons]
    enough = "or more lets every call go, at the highest cost" if calls["high"] else "no call is left"
    return [
        ("calls", _calls(calls)),
        ("kept", kept),
        ("prompt tokens", _tokens(left["prompt_tokens"])),
        ("completion tokens", _tokens(left["completion_tokens"]) + thinking),
        ("cost", _PRICE if cost is None else _dollars(cost)),
        ("--max-cost", "unknown, as the cost is" if cap is None else f"{rounded(cap, up=True)} {enough}"),
    ]


def _each(judges: list[Facts]) -> list[tuple[str, str]]:
    """What every judge of several takes."""
    return [(f"judge {i}", _of_judge(each)) for i, each in enumerate(judges, 1)] if len(judges) > 1 else []


def _of_judge(one: Facts) -> str:
    prompt, answers = one["prompt_tokens"]["expected"], one["completion_tokens"]["expected"]
    tokens = f"about {prompt:.0f} prompt and {answers:.0f} completion tokens"
    cost = "cost unknown" if one["cost_usd"] is None else _dollars(one["cost_usd"])
    kept = f", {one['kept']} kept" if one["kept"] else ""
    lost, context = "", one["context_tokens"]
    if one["too_long"] and context:
        lost = f", too long for its {context:,} tokens: {count(one['too_long'], 'group')}"
    return f"{one['model']}: {_calls(one['calls'])} calls, {tokens}, {cost}{kept}{lost}"


def _in_batches(batch: Facts | None) -> list[tuple[str, str]]:
    """What a provider's batch API takes, each of several judges in rows of its own."""
    if batch is None:
        return []
    out, judges = [], batch["judges"]
    for number, one in enumerate(judges, 1):
        at = f" {number}" if len(judges) > 1 else ""
        out.append((f"batch cost{at}", _batch_cost(one)))
        if batches := one["batches"]:
            most = f"{one['requests_per_batch']:,} requests or {one['bytes_per_batch'] / 1e6:.0f} MB each"
            out.append((f"batches{at}", f"{_calls(batches)}, of at most {most}"))
    if any(one["provider"] for one in judges):
        hours = f"up to {batch['hours']} hours; again as much for requests that follow from answers"
        out.append(("batch time", hours))
    return out


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
