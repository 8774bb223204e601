"""The page of `ruler check`: a verdict, then the figures in sections, in the width of stdout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from ruler_cli.cli.check_facts import LONGEST, OWN_PATH, Facts
from ruler_cli.cli.messages import one_line, visible
from ruler_cli.cli.units import count, rounded, shorten, wrap
from ruler_cli.judges.providers import EMBEDDED

if TYPE_CHECKING:
    from ruler_cli.runs.estimate import Estimate

Row = tuple[str, str]
"""A name and a value."""
_NAMES, _INDENT, _GAP = 17, 2, 2
"""Columns of the names, before them, and behind them."""
_NARROW = 50
"""Columns below which a value stands under its name."""
_LEAST, _WIDEST = 10, 120
"""Columns of the narrowest value, and of the page: lines that are longer are hard to read."""
_NO_PRICE = (
    "unknown; give --price IN,OUT, in USD per million prompt and completion tokens"
)
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
_SENTENCES = ("not_ready", "missing_keys")
"""Figures whose sentences are in the verdict, without their ways out."""


def print_page(facts: Facts, problems: int, found: str, estimate: Estimate) -> None:
    """Print the verdict and the sections on stdout.

    `problems` is the number of lines and rollouts that cannot be scored, `found` says how INPUT was read.
    """
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    word, colour = ("ready: ", "green") if facts["ready"] else ("not ready: ", "red")
    head = _style(word, colour)
    for line in _verdict(facts):
        for text in wrap(_shown(line), max(_LEAST, width - len(word))):
            _echo(head + text)
            head = " " * len(word)
    for title, rows in _sections(facts, problems, found, estimate):
        if rows:
            _echo("\n" + _style(title))
            for name, value in rows:
                for line in _lines(name, _shown(value), width):
                    _echo(line)


def _shown(text: str) -> str:
    return visible(one_line(text))


def _echo(line: str) -> None:
    typer.echo(line.rstrip())


def _style(text: str, colour: str | None = None) -> str:
    """Return text in bold; typer leaves styles out if stdout is no terminal."""
    return (
        text if os.environ.get("NO_COLOR") else typer.style(text, fg=colour, bold=True)
    )


def _lines(name: str, value: str, width: int) -> Iterator[str]:
    """Yield a name with its value, wrapped beside it; below it on a narrow terminal, alone without a name."""
    wide = width >= _NARROW
    indent = _INDENT + (_NAMES + _GAP if wide else _INDENT) * bool(name)
    rows = [" " * indent + row for row in wrap(value, max(_LEAST, width - indent))]
    head = " " * _INDENT + name
    if not name:
        yield from rows
    elif wide and len(name) <= _NAMES:
        yield head.ljust(indent) + rows[0][indent:]
        yield from rows[1:]
    else:
        yield head
        yield from rows


def _verdict(facts: Facts) -> list[str]:
    """Return why the run is not ready, its size, and the keys that are missing, a line each."""
    left = facts["estimate"]
    names = [each["model"] for each in facts["judges"]]
    judges = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    about = "" if facts["exact"] else "about "
    calls = f"{about}{_number(round(left['calls']['expected']), 'call')}"
    if left["kept"]:
        calls += f" (and {about}{left['kept']:,} cached)"
    cost = left["cost_usd"]
    price = "cost unknown" if cost is None else f"about ${rounded(cost['expected'])}"
    if cost is not None and not cost["high"]:
        price = "no cost"
    size = f"{_number(facts['groups'], 'group')}, {calls}, {price} with {judges}"
    reasons, missing = (
        [text.partition("; ")[0] for text in facts[key]] for key in _SENTENCES
    )
    return [*reasons, *([size] if facts["groups"] else []), *missing]


def _sections(
    facts: Facts, problems: int, found: str, estimate: Estimate
) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield the title and the rows of each section; rows that say nothing new are left out."""
    about = "" if facts["exact"] else "about "
    left_out = (
        [("cannot be scored", _number(problems, "line or trajectory"))]
        if problems
        else []
    )
    yield "Input", [("input", found), *_input_rows(facts), *left_out]
    if not facts["groups"]:
        yield "Warnings", [("", sentence) for sentence in _warnings(facts)]
        return
    yield "Groups", [*_group_rows(facts, about)]
    yield (
        "What the judge sees",
        [*_prompt_rows(facts, about, estimate.coverage.not_shown_text())],
    )
    yield (
        "Rewards",
        [
            *_reward_rows(
                facts["rewards"], facts["outcomes"], facts["equal_reward_groups"], about
            )
        ],
    )
    several = facts["judges"] if len(facts["judges"]) > 1 else ()
    yield (
        "Cost",
        [
            *_judge_rows(facts, about),
            *_estimate_rows(
                facts["estimate"],
                about,
                {bill.model.reasoning for bill in estimate.judges},
            ),
            *((f"judge {i}", _judge_value(each)) for i, each in enumerate(several, 1)),
            *(_batch_rows(facts["batch"]) if "batch" in facts else ()),
        ],
    )
    yield "Warnings", [("", sentence) for sentence in _warnings(facts)]


def _warnings(facts: Facts) -> list[str]:
    """Return the warnings, and the sentences of the verdict that have a way out."""
    ways_out = [
        sentence for key in _SENTENCES for sentence in facts[key] if "; " in sentence
    ]
    return list(dict.fromkeys([*ways_out, *facts["warnings"]]))


def _input_rows(facts: Facts) -> Iterator[Row]:
    """Yield how the records were recognized, and the paths of their parts with the first value of each."""
    if form := facts["format"]:
        has = "has" if form["agreed"] == 1 else "have"
        agreed = (
            f"{form['agreed']:,} of the first {_number(form['first'], 'record')} {has}"
        )
        yield "format", f"{form['name']}: {agreed} {form['tells']}"
    for name, path in facts["paths"].items():
        nowhere = not path["given"] and path["absent"] >= max(1, facts["rollouts"])
        if nowhere or not path["path"]:
            continue
        parts = (
            []
            if path["path"] == OWN_PATH
            else [_path(path["path"]) + " as given" * path["given"]]
        )
        parts += [] if path["example"] is None else [f"first: {path['example']}"]
        parts += [f"absent in {path['absent']:,}"] if path["absent"] else []
        yield name, ", ".join(parts) or OWN_PATH


def _path(path: str) -> str:
    return path if " " in path else f"`{path}`"


def _group_rows(facts: Facts, about: str) -> Iterator[Row]:
    """Yield sizes of groups, and what is wrong with some."""
    sizes = facts["group_sizes"]
    common = [
        f"{_number(each['groups'], 'group')} of {each['size']}"
        for each in sizes["commonest"]
    ]
    listed = sum(each["groups"] for each in sizes["commonest"])
    common += ["…"] if listed < facts["groups"] else []
    between = f"min {sizes['min']}, median {sizes['median']}, max {sizes['max']} ({', '.join(common)})"
    yield "group sizes", f"{about}{between}"
    yield (
        "rollouts",
        f"{facts['rollouts']:,} in {_number(facts['records'], facts['unit'])}",
    )
    taskless, mixed = facts["rollouts_without_task"], facts["groups_of_several_tasks"]
    none = f"none shown for {_number(taskless, 'rollout')}" if taskless else ""
    several = f"several in {_number(mixed, 'group')}" if mixed else ""
    if taskless or mixed:
        yield "tasks", ", ".join(filter(None, (none, several)))
    if facts["identical_rollouts"]:
        yield (
            "identical",
            f"{about}{_number(facts['identical_rollouts'], 'rollout')}, shown once",
        )
    if facts["tied_groups"]:
        tied = f"{about}{_number(facts['tied_groups'], 'group')}"
        yield (
            "tied groups",
            f"{tied} (one rollout, or all identical): nothing to compare",
        )


def _prompt_rows(facts: Facts, about: str, missing: str) -> Iterator[Row]:
    """Yield how long the prompts are, what they leave out, and what is wrong in them."""
    lengths = ", ".join(
        f"{name} {tokens:,}" for name, tokens in facts["tokens_per_rollout"].items()
    )
    share = facts["shown_to_the_judge"]["share"]
    shown = "no text to show" if share is None else f"{share:.0%} of the text"
    yield "tokens a rollout", f"{about}{lengths}"
    yield "shown", f"{shown}; not shown: {missing}" if missing else shown
    if facts["shared_prefix"] >= 0.005:
        yield (
            "shared prefix",
            f"{about}{facts['shared_prefix']:.0%} of the prompts, shown once for a group",
        )
    if facts["windows"]["groups"]:
        groups, calls = (
            _number(facts["windows"]["groups"], "group"),
            _calls(facts["windows"]["calls"]),
        )
        yield (
            "windows",
            f"{about}{groups} in parts, twice at least: {calls} of the calls",
        )
    if facts["suspect_rollouts"]:
        suspect = _number(facts["suspect_rollouts"], "rollout")
        yield "suspect", f"{about}{suspect} with text that addresses a judge"
    if too_long := _too_long(facts, about):
        yield "too long", too_long
    if not facts["exact"]:
        laid_out = f"{facts['laid_out']:,} of {_number(facts['groups'], 'group')}, spread over all"
        yield (
            "laid out",
            f"{laid_out}; tokens, cost and figures with `about` are estimated from them",
        )


def _reward_rows(
    rewards: Facts, outcomes: Facts, equal: int, about: str
) -> Iterator[Row]:
    parts = []
    if rewards["mean"] is not None:
        parts.append(
            f"min {rewards['min']:.4g}, mean {rewards['mean']:.4g}, max {rewards['max']:.4g}"
        )
    if rewards["spread"] is not None:
        parts.append(f"mean range in a group {about}{rewards['spread']:.4g}")
    parts += [f"{rewards['absent']:,} without"] if rewards["absent"] else []
    parts += [f"{rewards['no_number']:,} no number"] if rewards["no_number"] else []
    yield "rewards", "; ".join(parts) or "none"
    if equal:
        yield (
            "equal rewards",
            f"{about}{_number(equal, 'group')} (their own rewards teach nothing)",
        )
    mean, no_number = outcomes["mean"], outcomes["no_number"]
    if outcomes["numbers"]:
        average = f"{mean:.1%} true" if outcomes["of_truth"] else f"mean {mean:.4g}"
        without = outcomes["absent"] + no_number
        rest = f"; {without:,} without" if without else ""
        yield "outcomes", f"{average} of {outcomes['numbers']:,}{rest}"
    elif no_number:
        yield "outcomes", f"{no_number:,} no number"


def _judge_rows(facts: Facts, about: str) -> Iterator[Row]:
    """Yield rows on the judges and how they are asked."""
    first, *others = facts["judges"]
    clauses = [_ROLES[each["asked"]].format(each["model"]) for each in others]
    yield "judge", "".join([first["model"], *clauses])
    if facts["adaptive"]:
        yield "passes", f"up to {facts['passes']} on average, 2 at least"
    elif facts["passes"] > 1:
        yield "passes", f"{facts['passes']}"


def _estimate_rows(left: Facts, about: str, reasons: set[bool | None]) -> Iterator[Row]:
    """Yield rows on the requests that are not in the ledger: calls, tokens, cost."""
    calls, cost, cap = left["calls"], left["cost_usd"], left["max_cost_usd"]
    thinking = _THINKING[None if None in reasons else True in reasons]
    enough = (
        "or more lets every call go, at the highest cost"
        if calls["high"]
        else "no call is left"
    )
    yield "calls", _calls(calls)
    if left["kept"]:
        cached = f"{left['kept']:,} of {_number(left['kept'] + round(calls['expected']), 'call')}"
        failed = (
            f"; {left['kept_failed']:,} failed, --retry-failed asks again"
            if left["kept_failed"]
            else ""
        )
        yield "cached", f"{about}{cached}, not paid again{failed}"
    yield "prompt tokens", _tokens(left["prompt_tokens"])
    yield "completion tokens", _tokens(left["completion_tokens"]) + thinking
    yield "cost", _NO_PRICE if cost is None else _dollars(cost)
    if cap is None or cap:
        yield (
            "--max-cost",
            "unknown, as the cost is"
            if cap is None
            else f"{rounded(cap, up=True)} {enough}",
        )


def _judge_value(one: Facts) -> str:
    prompt, answers = (
        one["prompt_tokens"]["expected"],
        one["completion_tokens"]["expected"],
    )
    tokens = f"about {prompt:,.0f} prompt and {answers:,.0f} completion tokens"
    cost = "cost unknown" if one["cost_usd"] is None else _dollars(one["cost_usd"])
    cached = f", {one['kept']:,} cached" if one["kept"] else ""
    too_long, context = "", one["context_tokens"]
    if one["too_long"] and context:
        too_long = f", too long for its {context:,} tokens: {_number(one['too_long'], 'group')}"
    return f"{one['model']}: {_calls(one['calls'])} calls, {tokens}, {cost}{cached}{too_long}"


def _batch_rows(batch: Facts) -> Iterator[Row]:
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
    how = (
        "as its provider lists it"
        if one["price"] == "listed"
        else "half the price of calls"
    )
    return f"{_dollars(one['cost_usd'])}, {how}"


def _too_long(facts: Facts, about: str) -> str:
    """Return how many groups are too long, or that this is not known; empty if none is."""
    contexts = [
        each["context_tokens"] for each in facts["judges"] if each["asked"] == "panel"
    ]
    number, keys = facts["too_long"]["groups"], facts["too_long"]["first"]
    if not number:
        embedded = facts["judge"]["model"] in EMBEDDED
        return (
            ""
            if embedded or None not in contexts
            else "not known: the judge's context is not known"
        )
    named = ", ".join(shorten(key, LONGEST) for key in keys) + (
        ", …" if number > len(keys) else ""
    )
    return f"{about}{_number(number, 'group')} for {max(contexts):,} tokens ({named})"


def _number(number: int, what: str) -> str:
    """Return a number with its noun, and commas between its thousands."""
    return count(number, what).replace(str(number), f"{number:,}", 1)


def _calls(calls: Mapping[str, float]) -> str:
    return f"{calls['expected']:,.0f} (up to {calls['high']:,.0f})"


def _tokens(tokens: Mapping[str, float]) -> str:
    return f"about {tokens['expected']:,.0f} (from {tokens['low']:,.0f} to {tokens['high']:,.0f})"


def _dollars(cost: Mapping[str, float]) -> str:
    low, high = rounded(cost["low"], up=False), rounded(cost["high"], up=True)
    if not cost["high"]:
        return "$0.00"
    return f"${rounded(cost['expected'])} (from ${low} to ${high})"
