"""The page of `ruler check`: a verdict, then the figures in sections, in the width of stdout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence

import typer

from ruler_cli.cli.check_facts import OWN_PATH, Facts
from ruler_cli.cli.figures import Row, number_of, rows
from ruler_cli.cli.safe_text import one_line, visible
from ruler_cli.cli.units import rounded, wrap
from ruler_cli.runs.estimate import Range

_NAMES, _INDENT, _GAP = 17, 2, 2
"""Columns of the names, before them, and behind them."""
_NARROW = 50
"""Columns below which a value stands under its name."""
_LEAST, _WIDEST = 10, 120
"""Columns of the narrowest value, and of the page: lines that are longer are hard to read."""

_PAGE = """
Input
input: {found}
format: {format[name]}: {format[agreed]} of the first {format[first]:record} have {format[tells]}
cannot be scored: {cannot_be_scored:line or trajectory}

Groups
group sizes: {about!s}min {group_sizes[min]}, median {group_sizes[median]}, max {group_sizes[max]} ({sizes})
rollouts: {rollouts} in {records:{unit}}
no task: {rollouts_without_task:rollout}
several tasks: {groups_of_several_tasks:group}
identical: {about!s}{identical_rollouts:rollout}, shown once
tied groups: {about!s}{tied_groups:group} (one rollout, or all identical): nothing to compare

What the judge sees
tokens a rollout: {about!s}{tokens_per_rollout}
shown: {shown}
shared prefix: {about!s}{shared:%} of the prompts, shown once for a group
windows: {about!s}{windows[groups]:group} in parts, twice at least: {windows[calls]} of the calls
suspect: {about!s}{suspect_rollouts:rollout} with text that addresses a judge
too long: {about!s}{too_long[groups]:group} for {context} tokens ({too_long[first]})
laid out: {sampled} of {groups:group}, spread over all; figures with `about` are estimated from them

Rewards
rewards: {rewards[numbers]} of {rollouts} (min {rewards[min]}, mean {rewards[mean]}, max {rewards[max]})
no number: {rewards[no_number]:reward}
range in a group: {about!s}{rewards[spread]} on average
equal rewards: {about!s}{equal_reward_groups:group} (their own rewards teach nothing)
outcomes: {outcomes[numbers]} of {rollouts} (min {outcomes[min]}, mean {outcomes[mean]}, max {outcomes[max]})
no verdict: {outcomes[no_number]:outcome}

Cost
judge: {asked}
passes: {passed}
calls: {estimate.calls}
cached: {about!s}{estimate.kept:call}, not paid again
failed: {about!s}{estimate.kept_failed:call}; --retry-failed asks again
prompt tokens: {estimate.prompt_tokens}
completion tokens: {estimate.completion_tokens}{thought!s}
cost: {cost}
--max-cost: {cap} or more lets every call go
batch time: up to {batch[hours]} hours; again as much for requests that follow from answers
"""
"""Sections with a title, then names and values. A line whose figure is absent or 0 is left out."""
_JUDGE = """judge {number}: {model}: {calls} calls, {cost}
cached {number}: {kept:call}
too long {number}: {too_long:group} for its {context_tokens} tokens"""
_BATCH = """batch cost {number}: {cost}
batches {number}: {batches}, of at most {requests_per_batch} requests or {bytes_per_batch} bytes"""
_NO_PRICE = (
    "unknown; give --price IN,OUT, in USD per million prompt and completion tokens"
)
_ROLES = {
    "panel": ", {}",
    "fallback": ", if it refuses {}",
    "escalation": "; for groups that stay unresolved {}",
}
"""Clauses on the judges after the first."""
_THOUGHTS = {
    True: ", thinking included",
    False: "",
    None: "; the highest allows for thinking, which is not known of this model",
}


def print_page(facts: Facts) -> None:
    """Print the verdict and the sections on stdout."""
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    word, colour = ("ready: ", "green") if facts["ready"] else ("not ready: ", "red")
    head = _style(word, colour)
    for line in _verdict(facts):
        for text in wrap(visible(one_line(line)), max(_LEAST, width - len(word))):
            typer.echo((head + text).rstrip())
            head = " " * len(word)
    warnings = [("", sentence) for sentence in _warnings(facts)]
    for title, lines in (
        *_sections({**facts, **_texts(facts)}),
        ("Warnings", warnings),
    ):
        if lines:
            typer.echo("\n" + _style(title))
        for name, value in lines:
            for line in _lines(name, visible(one_line(value)), width):
                typer.echo(line.rstrip())


def _style(text: str, colour: str | None = None) -> str:
    """Return text in bold; typer leaves styles out if stdout is no terminal."""
    if os.environ.get("NO_COLOR"):
        return text
    return typer.style(text, fg=colour, bold=True)


def _lines(name: str, value: str, width: int) -> Iterator[str]:
    """Yield a name with its value, wrapped beside it; below it on a narrow terminal, alone without a name."""
    indent = _INDENT + (_NAMES + _GAP if width >= _NARROW else _INDENT) * bool(name)
    head = " " * _INDENT + name
    if name and (width < _NARROW or len(name) > _NAMES):
        yield head
        head = ""
    for row in wrap(value, max(_LEAST, width - indent)):
        yield head.ljust(indent) + row
        head = ""


def _verdict(facts: Facts) -> list[str]:
    """Return why the run is not ready, its size, and the keys that are missing, a line each."""
    left, cost, about = facts["estimate"], facts["estimate"].cost_usd, _about(facts)
    *first, last = [judge["model"] for judge in facts["judges"]]
    judges = f"{', '.join(first)} and {last}" if first else last
    calls = f"{about}{number_of(round(left.calls.expected), 'call')}"
    if left.kept:
        calls += f" (and {about}{left.kept:,} cached)"
    price = "cost unknown"
    if cost is not None:
        price = f"about ${rounded(cost.expected)}" if cost.high else "no cost"
    size = f"{number_of(facts['groups'], 'group')}, {calls}, {price} with {judges}"
    reasons, missing = (
        [text.partition("; ")[0] for text in facts[key]]
        for key in ("not_ready", "missing_keys")
    )
    return [*reasons, *([size] if facts["groups"] else []), *missing]


def _warnings(facts: Facts) -> list[str]:
    """Return the warnings, and the sentences of the verdict that have a way out."""
    verdict = [*facts["not_ready"], *facts["missing_keys"]]
    ways_out = [sentence for sentence in verdict if "; " in sentence]
    return list(dict.fromkeys([*ways_out, *facts["warnings"]]))


def _sections(facts: Facts) -> Iterator[tuple[str, list[Row]]]:
    """Yield the title and the rows of each section; without a group there is only the first."""
    for section in _PAGE.strip().split("\n\n")[: None if facts["groups"] else 1]:
        title, _, template = section.partition("\n")
        yield title, [*rows(template, facts), *facts.get(title, ())]


def _texts(facts: Facts) -> Facts:
    """Return texts of the page that are made of several figures."""
    sizes, judges, cap = (
        facts["group_sizes"],
        facts["judges"],
        facts["estimate"].max_cost_usd,
    )
    common = [
        f"{number_of(size['groups'], 'group')} of {size['size']}"
        for size in sizes["commonest"]
    ]
    if sum(size["groups"] for size in sizes["commonest"]) < facts["groups"]:
        common.append("…")
    clauses = [_ROLES[judge["asked"]].format(judge["model"]) for judge in judges[1:]]
    passes = facts["passes"]
    contexts = [
        judge["context_tokens"] or 0 for judge in judges if judge["asked"] == "panel"
    ]
    batches = facts.get("batch", {"judges": ()})["judges"]
    share, hidden = facts["shown_to_the_judge"]["share"], facts["hidden"]
    shown = "no text to show" if share is None else f"{share:.0%} of the text"
    return {
        "about": _about(facts),
        "shown": f"{shown}; not shown: {hidden}" if hidden else shown,
        "thought": _THOUGHTS[facts["thinking"]],
        "sizes": ", ".join(common),
        "shared": round(facts["shared_prefix"], 2) or None,
        "context": max(contexts),
        "sampled": not facts["exact"] and facts["laid_out"],
        "asked": judges[0]["model"] + "".join(clauses),
        "passed": f"up to {passes} on average"
        if facts["adaptive"]
        else passes * (passes > 1),
        "cost": _dollars(facts["estimate"].cost_usd),
        "cap": rounded(cap, up=True) if cap else None,
        "Input": _path_rows(facts),
        "Cost": (
            *_each(_JUDGE, judges if judges[1:] else ()),
            *_each(_BATCH, batches),
        ),
    }


def _path_rows(facts: Facts) -> Iterator[Row]:
    """Yield the paths of the parts of a record, with the first value of each."""
    for name, path in facts["paths"].items():
        nowhere = not path["given"] and path["absent"] >= max(1, facts["rollouts"])
        if nowhere or not path["path"]:
            continue
        shown = path["path"] if " " in path["path"] else f"`{path['path']}`"
        parts = (
            "" if path["path"] == OWN_PATH else shown + " as given" * path["given"],
            path["example"] and f"first: {path['example']}",
            path["absent"] and f"absent in {path['absent']:,}",
        )
        yield name, ", ".join(filter(None, parts)) or OWN_PATH


def _each(template: str, judges: Sequence[Facts]) -> Iterator[Row]:
    """Fill the lines of a template for each judge."""
    for number, judge in enumerate(judges, 1):
        cost = _dollars(judge["cost_usd"])
        if how := judge.get("price"):
            cost += f", {how} price"
        if judge.get("provider", "") is None:
            cost = f"{judge['model']} has no batch API; use `ruler render`"
        yield from rows(template, {**judge, "number": number, "cost": cost})


def _about(facts: Facts) -> str:
    return "" if facts["exact"] else "about "


def _dollars(cost: Range | None) -> str:
    if cost is None:
        return _NO_PRICE
    low, high = rounded(cost.low, up=False), rounded(cost.high, up=True)
    middle = f"${rounded(cost.expected)}"
    return f"{middle} (from ${low} to ${high})" if cost.high else middle
