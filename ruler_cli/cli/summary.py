"""The lines on a run that is done: how it went, what needs action, how good the scores are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ruler_cli.cli.report_sentences import (
    FEW,
    given,
    length_bias,
    position_bias,
    reliability,
    same_explanations,
    weakness,
)
from ruler_cli.cli.units import count, counts, seconds, short, usd
from ruler_cli.types import BatchFigures, Summary

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
    median = summary.figures.reliability_median if summary.figures else None
    tied, compared = (
        number - summary.alone for number in (summary.tied, summary.scored)
    )
    weak = weakness(tied, summary.one_score, compared, median)
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
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
        (summary.hedged, "slow call", "asked a second time"),
    )
    out = [_first_line(summary)]
    for kind, number in sorted(summary.failed.items()):
        reason = _REASONS[kind]
        if kind == "transport" and summary.unanswered:
            reason = "no reply in the ledger (transport)"
        if kind == "reply" and not debug:
            reason += "; --debug shows them"
        out.append(f"{count(number, 'group')} not scored: {reason}")
    out += [*counts(action), *counts(notes)]
    out += filter(None, (weak, explanations))
    if summary.figures is not None:
        out += figure_lines(summary.figures, weak=bool(weak))
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
    contradictions = (
        (figures.flawed, "rollout", "passed with a score below 0.5 (flawed positives)"),
        (
            figures.near_misses,
            "rollout",
            "failed with a score from 0.5 on (near misses)",
        ),
        (figures.without_outcome, "rollout", "without an outcome"),
    )
    yield from counts(contradictions)
