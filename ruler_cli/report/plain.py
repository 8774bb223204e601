"""The main figures as plain words: what of a report can be read without its scripts."""

from __future__ import annotations

from collections.abc import Iterator

from ruler_cli.report.values import Overview


def plain_figures(o: Overview) -> list[tuple[str, str]]:
    """Names and values; nothing that stands in the input, but for the kinds of failures ruler knows."""
    return [*_counts(o), *_measures(o), *_spent(o)]


def _counts(o: Overview) -> Iterator[tuple[str, str]]:
    yield "Groups", f"{o.groups:,}"
    yield "Groups scored", f"{o.scored:,}, of them {o.live:,} live and {o.tied:,} tied"
    if o.failed:
        kinds = ", ".join(f"{kind.replace('_', ' ')} {n:,}" for kind, n in o.kinds.items())
        yield "Groups failed", f"{o.failed:,} ({kinds})"
    if o.unmarked:
        yield "Groups never asked about", f"{o.unmarked:,}"
    yield "Rollouts", f"{o.rollouts:,}, of them {o.rollouts_scored:,} scored"
    if o.suspects:
        yield "Rollouts that address the judge", f"{o.suspects:,}"


def _measures(o: Overview) -> Iterator[tuple[str, str]]:
    if o.score_mean is not None:
        spread = "" if o.score_sd is None else f", standard deviation {o.score_sd:.3f}"
        yield "Mean score", f"{o.score_mean:.3f}{spread}"
    if o.spread_median is not None:
        yield "Median spread within a group", f"{o.spread_median:.3f}"
    if o.agreement is not None:
        yield "Pairs of rollouts ordered as their labels", f"{o.agreement:.1%} of {o.pairs:,}"
    if o.reliability_median is not None:
        yield "Median reliability", f"{o.reliability_median:.2f} over {_groups(o.reliable_groups)}"


def _spent(o: Overview) -> Iterator[tuple[str, str]]:
    if o.cost is not None:
        yield "Cost", f"{o.cost:,.2f} USD over {_groups(o.costed)}"
    if o.usage.prompt or o.usage.completion:
        yield "Tokens", f"{o.usage.prompt:,} prompt, {o.usage.completion:,} completion"
    if o.latency.get("p50") is not None:
        yield "Time per group", f"median {o.latency['p50']:.1f} s, longest {o.latency['max']:.1f} s"


def _groups(n: int) -> str:
    return f"{n:,} group{'s' * (n != 1)}"
