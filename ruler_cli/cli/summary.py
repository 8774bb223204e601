"""Report a run: lines on stderr for a person, and `--summary FILE` for a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import typer

from ruler_cli.cli.report_sentences import FEW, SURE, given
from ruler_cli.cli.units import count, counts, shorten
from ruler_cli.errors import OutputError
from ruler_cli.observer import BatchFigures, Summary

_NAMED = 3
"""Rollouts that are named in a line; `--summary` lists more."""
_KEY_LENGTH = 41
"""Characters of a group's key that are printed."""


def summary_lines(summary: Summary) -> list[str]:
    """Return the lines on a run that is done."""
    groups = count(max(summary.total or 0, summary.groups), "group")
    contents = f"{count(summary.rollouts, 'rollout')}, {count(summary.written, 'record')}"
    out = [f"{summary.scored} of {groups} scored ({contents}) in {summary.seconds:.1f} s"]
    failed = ", ".join(f"{number} {kind}" for kind, number in sorted(summary.failed.items()))
    if failed:
        out.append(f"not scored: {failed}")
    notes = (
        (summary.failed_before, "group", "failed in an earlier run, not asked again; --retry-failed does"),
        (summary.kept - summary.failed_before, "group", "answered from the ledger, without a call"),
        (summary.unanswered, "request", "not in the ledger: `ruler render` or `ruler batch submit` has them"),
        (summary.unreadable, "line or trajectory", "not readable"),
        (summary.tied, "group", "without relative signal (tied)"),
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
    )
    out += counts(notes)
    compared = summary.scored - summary.alone
    if 3 * summary.one_score > compared:
        panel = summary.figures is not None and summary.figures.judges
        subject = "these judges do" if panel else "this judge does"
        out.append(
            f"{summary.one_score} of {count(compared, 'group')} got the same score for every rollout: "
            f"{subject} not tell them apart; another judge (-m) or rubric (--rubric) may, more passes hardly "
            "will"
        )
    if summary.figures is not None:
        out += figure_lines(summary.figures)
    usage = summary.usage
    cost = "cost unknown" if summary.cost_usd is None else f"${summary.cost_usd:.4f}"
    tokens = f"{usage.prompt} prompt + {usage.completion} completion tokens"
    out.append(f"{count(usage.calls, 'call')}, {tokens}, {cost}")
    if summary.retried:
        tried = ", ".join(f"{number} {kind}" for kind, number in summary.retried.items())
        out.append(f"{count(sum(summary.retried.values()), 'call')} had to be tried again: {tried}")
    if summary.unsure_usd:
        out.append(f"calls without a stated usage may have cost up to ${summary.unsure_usd:.4f} more")
    return out


def figure_lines(figures: BatchFigures) -> Iterator[str]:
    """Yield a line for each figure on the scores that a person should know."""
    if figures.degraded:
        yield f"degraded: of {count(figures.degraded, 'group')} a pass brought no scores"
    if figures.reliability_median is not None:
        groups, low = sum(figures.reliability), sum(figures.reliability[:5])
        median = f" in the median, below 0.5 in {low} of {count(groups, 'group')}" if groups > 1 else ""
        yield f"reliability: {figures.reliability_median:.2f}{median}"
    bias, length = figures.slot_curve, figures.length
    if figures.slot_groups >= FEW and bias:
        worst = max((b.error for b in bias if b.error is not None), default=None)
        error = given(worst, " (each ± {:.3f} at most)")
        done = ", subtracted" if figures.debiased else ""
        yield f"position bias, first to last: {' '.join(f'{b.mean:+.3f}' for b in bias)}{error}{done}"
    if length is not None and length.groups >= FEW and abs(length.slope) > SURE * length.error:
        yield (
            f"length: twice as long scores {length.slope:+.3f} ± {length.error:.3f}, "
            f"correlation {length.correlation:+.2f} within groups"
        )
    for pair in figures.judges:
        if pair.correlation is not None:
            within = f"scores correlate {pair.correlation:.2f} within groups"
            errors = given(pair.errors, ", errors against the reward {:.2f}")
            yield f"{pair.judges[0]} and {pair.judges[1]}: {within}{errors}"
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
