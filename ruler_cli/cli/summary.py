"""The lines on a run that is done: how it went, what needs action, how good the scores are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from ruler_cli.cli.report_sentences import (
    FEW,
    given,
    length_bias,
    mere_noise,
    position_bias,
    reliability,
    same_explanations,
    same_scores,
)
from ruler_cli.cli.units import count, counts, seconds, short, shorten, usd
from ruler_cli.types import BatchFigures, Summary

if TYPE_CHECKING:
    pass

_NAMED = 3
"""Rollouts, and pairs of judges, that are named; `--summary` lists more."""
_KEY_LENGTH = 41
"""Characters of a group's key that are printed."""
_TRIED = {"rate": "rate limit", "transport": "no answer"}
"""Reasons to try a call again, by the kind that `--summary` has."""
_REASONS = {
    "reply": "the judge's answers cannot be used (reply)",
    "transport": "no answer came (transport)",
    "refused": "the judge refused (refused)",
    "too_long": "longer than the judge's context (too_long); --group-size N shows fewer at once",
    "input": "nothing in the group can be judged (input)",
    "budget": "--max-cost is reached (budget)",
    "interrupted": "the run was stopped before (interrupted)",
}
"""Reasons why groups are not scored, by the kind that OUTPUT and `--summary` have."""


def summary_lines(summary: Summary, *, debug: bool = False) -> list[str]:
    """Return the lines on a run that is done: how it went, what needs action, how good the scores are.

    With `debug` no line names --debug: the run has shown each reply, or no reply is kept to be shown.
    """
    noise, same = _weaknesses(summary)
    tied = summary.tied if summary.tied > summary.one_score and not noise else 0
    explanations = same_explanations(
        summary.same_explanations, summary.explained, "reply"
    )
    action = (
        (
            summary.failed_before,
            "group",
            "failed in an earlier run, not asked again; --retry-failed does",
        ),
        (
            summary.unanswered,
            "request",
            "not in the ledger: send them with `ruler batch submit` or `ruler render`",
        ),
        (summary.unreadable, "line or trajectory", "not readable"),
    )
    notes = (
        (
            summary.kept - summary.failed_before,
            "group",
            "answered from the ledger, without a call",
        ),
        (tied, "group", "tied: equal scores, or no further apart than chance"),
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
    )
    failures = _failures(summary, debug=debug)
    out = [_first_line(summary), *failures, *counts(action), *counts(notes)]
    out += filter(None, (noise, same, explanations))
    if summary.figures is not None:
        out += figure_lines(summary.figures, weak=bool(noise or same))
    if summary.hedged:
        out.append(f"{count(summary.hedged, 'slow call')} asked a second time")
    if summary.retried:
        tried = ", ".join(
            f"{number} {_TRIED.get(kind, kind)}"
            for kind, number in summary.retried.items()
        )
        out.append(f"calls tried again: {tried}")
    if summary.unsure_usd:
        out.append(
            f"calls without a stated usage may have cost up to {usd(summary.unsure_usd)} more"
        )
    return out


def _first_line(summary: Summary) -> str:
    """Return groups, time, mean score, ties, failures and cost in one line."""
    groups, failed = (
        max(summary.total or 0, summary.groups),
        sum(summary.failed.values()),
    )
    mean = summary.figures.mean_score if summary.figures is not None else None
    calls = count(summary.usage.calls, "call")
    if summary.cost_usd is None and not (summary.asked or summary.usage.calls):
        cost = calls
    elif summary.cost_usd is None:
        tokens = summary.usage.prompt + summary.usage.completion
        cost = f"cost unknown ({calls}{f', {short(tokens)} tokens' if tokens else ''})"
    else:
        cost = f"{usd(summary.cost_usd)} ({calls})"
    parts = (
        given(mean, "mean {:.2f}"),
        f"{summary.tied} tied" if summary.tied else "",
        f"{failed} failed" if failed else "",
        cost,
    )
    scored = f"{summary.scored} of {count(groups, 'group')} scored in {seconds(summary.seconds)}"
    return f"{scored}: {', '.join(filter(None, parts))}"


def _failures(summary: Summary, *, debug: bool) -> Iterator[str]:
    other = (
        {"transport": "no reply in the ledger (transport)"}
        if summary.unanswered
        else {}
    )
    for kind, number in sorted(summary.failed.items()):
        way_out = "; --debug shows them" if kind == "reply" and not debug else ""
        yield f"{count(number, 'group')} not scored: {(_REASONS | other)[kind]}{way_out}"


def _weaknesses(summary: Summary) -> tuple[str, str]:
    """Return the sentence on a judge whose differences are noise, else on one that often gives none."""
    compared, tied = summary.scored - summary.alone, summary.tied - summary.alone
    median = summary.figures.reliability_median if summary.figures else None
    noise = mere_noise(tied, summary.one_score, compared, median)
    return noise, "" if noise else same_scores(summary.one_score, compared)


def figure_lines(figures: BatchFigures, *, weak: bool = False) -> Iterator[str]:
    """Yield a line for each figure on the scores that a person should know.

    `weak`: a sentence says that the judge tells few rollouts apart, so that more passes are no advice.
    """
    if figures.degraded:
        yield f"{count(figures.degraded, 'group')} without the scores of some pass or judge (degraded)"
    if figures.reliability_median is not None and not (
        weak and not round(figures.reliability_median, 2)
    ):
        groups, low = sum(figures.reliability), sum(figures.reliability[:5])
        median = figures.reliability_median
        yield f"reliability: {reliability(median, groups, low, advise=not weak)}"
    if figures.slot_groups >= FEW and figures.slot_curve:
        bias = position_bias(
            [asdict(bar) for bar in figures.slot_curve],
            corrected=figures.debiased,
            several=figures.reliability_median is not None,  # known from two passes on
        )
        if bias:
            yield f"position bias: {bias}"
    if figures.length is not None and (bias := length_bias(asdict(figures.length))):
        yield f"length: {bias}"
    yield from _pairs(figures)
    contradictions = (
        (
            figures.flawed,
            figures.flawed_listed,
            "passed with a score below 0.5 (flawed positives)",
        ),
        (
            figures.near_misses,
            figures.near_misses_listed,
            "failed with a score from 0.5 on (near misses)",
        ),
    )
    for number, listed, note in contradictions:
        named = [
            f"group {shorten(odd.group, _KEY_LENGTH)} rollout {odd.rollout} ({odd.score:.2f})"
            for odd in listed[:_NAMED]
        ]
        if number:
            more = ", …" if number > len(named) else ""
            yield f"{count(number, 'rollout')} {note}: {', '.join(named)}{more}"
    if figures.without_outcome:
        yield f"{count(figures.without_outcome, 'rollout')} without an outcome"


def _pairs(figures: BatchFigures) -> Iterator[str]:
    """Yield a line for each two judges; of many, for those that agree least."""
    known = [
        (pair.correlation, pair)
        for pair in figures.judges
        if pair.correlation is not None
    ]
    listed = (
        known
        if len(known) <= _NAMED
        else sorted(known, key=lambda each: each[0])[:_NAMED]
    )
    for correlation, pair in listed:
        errors = given(pair.errors, ", errors against the reward {:.2f}")
        yield f"{' and '.join(pair.judges)}: scores correlate {correlation:.2f} within groups{errors}"
    if len(known) > len(listed):
        yield f"{len(known) - len(listed)} more pairs of judges correlate better; --summary has all"
