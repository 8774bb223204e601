"""Report a run: lines on stderr for a person, and `--summary FILE` for a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import typer

from ruler_cli.cli.report_sentences import FEW, LOW, SURE, given, same_scores, sure_positions
from ruler_cli.cli.units import count, counts, seconds, short, shorten, usd
from ruler_cli.errors import OutputError
from ruler_cli.observer import BatchFigures, Summary

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
    tied = summary.tied if summary.tied > summary.one_score else 0
    action = (
        (summary.failed_before, "group", "failed in an earlier run, not asked again; --retry-failed does"),
        (
            summary.unanswered,
            "request",
            "not in the ledger: send them with `ruler batch submit` or `ruler render`",
        ),
        (summary.unreadable, "line or trajectory", "not readable"),
    )
    notes = (
        (summary.kept - summary.failed_before, "group", "answered from the ledger, without a call"),
        (tied, "group", "tied: equal scores, or no further apart than chance"),
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
    )
    failures = _failures(summary, debug=debug)
    out = [_first_line(summary), *failures, *counts(action), *counts(notes), *_same_scores(summary)]
    if summary.figures is not None:
        out += figure_lines(summary.figures)
    if summary.retried:
        tried = ", ".join(f"{number} {_TRIED.get(kind, kind)}" for kind, number in summary.retried.items())
        out.append(f"{count(sum(summary.retried.values()), 'call')} had to be tried again: {tried}")
    if summary.unsure_usd:
        out.append(f"calls without a stated usage may have cost up to {usd(summary.unsure_usd)} more")
    return out


def _first_line(summary: Summary) -> str:
    """Return groups, time, mean score, ties, failures and cost in one line."""
    groups, failed = max(summary.total or 0, summary.groups), sum(summary.failed.values())
    mean = summary.figures.mean_score if summary.figures is not None else None
    calls = count(summary.usage.calls, "call")
    if summary.cost_usd is None:
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
    other = {"transport": "no reply in the ledger (transport)"} if summary.unanswered else {}
    for kind, number in sorted(summary.failed.items()):
        way_out = "; --debug shows them" if kind == "reply" and not debug else ""
        yield f"{count(number, 'group')} not scored: {(_REASONS | other)[kind]}{way_out}"


def _same_scores(summary: Summary) -> Iterator[str]:
    """Yield a line if the judge does not tell rollouts apart in many groups."""
    panel = summary.figures is not None and bool(summary.figures.judges)
    line = same_scores(summary.one_score, summary.scored - summary.alone, panel=panel)
    if line:
        yield line


def figure_lines(figures: BatchFigures) -> Iterator[str]:
    """Yield a line for each figure on the scores that a person should know."""
    if figures.degraded:
        yield f"{count(figures.degraded, 'group')} without the scores of some pass or judge (degraded)"
    if figures.reliability_median is not None:
        groups, low = sum(figures.reliability), sum(figures.reliability[:5])
        median = f" in the median, below {LOW} in {low} of {count(groups, 'group')}" if groups > 1 else ""
        more = "; more --passes raise it" if figures.reliability_median < LOW else ""
        yield f"reliability: {figures.reliability_median:.2f}{median}{more}"
    length = figures.length
    if figures.slot_groups >= FEW and figures.slot_curve:
        sure = sure_positions([asdict(bar) for bar in figures.slot_curve])
        if sure:
            moved = ", ".join(f"{name} {bar['mean']:+.3f}" for name, bar in sure.items())
            error = max(bar["error"] for bar in sure.values())
            several = figures.reliability_median is not None  # known from two passes on
            advice = "averaged over passes" if several else "--debias corrects it"
            done = "subtracted" if figures.debiased else advice
            yield f"position bias: {moved} (± {error:.3f}); {done}"
    if length is not None and length.groups >= FEW and abs(length.slope) > SURE * length.error:
        yield (
            f"length: twice as long scores {length.slope:+.3f} ± {length.error:.3f} "
            f"(correlation {length.correlation:+.2f})"
        )
    yield from _pairs(figures)
    contradictions = (
        (figures.flawed, figures.flawed_listed, "passed with a score below 0.5 (flawed positives)"),
        (figures.near_misses, figures.near_misses_listed, "failed with a score from 0.5 on (near misses)"),
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
    known = [(pair.correlation, pair) for pair in figures.judges if pair.correlation is not None]
    listed = known if len(known) <= _NAMED else sorted(known, key=lambda each: each[0])[:_NAMED]
    for correlation, pair in listed:
        errors = given(pair.errors, ", errors against the reward {:.2f}")
        yield f"{' and '.join(pair.judges)}: scores correlate {correlation:.2f} within groups{errors}"
    if len(known) > len(listed):
        yield f"{len(known) - len(listed)} more pairs of judges correlate better; --summary has all"


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary as JSON, to stdout for `-`; OutputError if the file cannot be written."""
    import orjson

    text = orjson.dumps({"version": 1, **asdict(summary)}, option=orjson.OPT_INDENT_2)
    if str(path) == "-":
        typer.echo(text)
        return
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise OutputError(f"--summary {path}: cannot be written: {error.strerror}") from None
