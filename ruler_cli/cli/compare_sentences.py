"""The figures of two scored files → sentences and pairs of values; empty if a file does not have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruler_cli.cli import report_sentences
from ruler_cli.cli.report_sentences import given, ordered_pairs, percent
from ruler_cli.cli.units import count, usd
from ruler_cli.results.compare import ComparisonFigures
from ruler_cli.results.report.comparison import ComparisonWords
from ruler_cli.results.report.made_by import in_cells

_Json = Mapping[str, Any]
NAMES = ("A", "B")
"""Names of the two files."""
_OF_ROWS = {
    "served as": "served",
    "rubric": "rubric",
    "parameters": "parameters",
    "ruler": "version",
}
"""Facts on what made the scores, as they are shown, and as the figures name the difference."""
_INTERVAL = ("value", "low", "high")


def words(heads: Sequence[_Json], figures: ComparisonFigures) -> ComparisonWords:
    """Put the figures into words for a page; `heads` hold the sources of the files."""
    rows, sentences = of_scores(figures), [one for one in findings(figures) if one[1]]
    facts = [
        (f"{name}: {what}", text)
        for name, file in zip(NAMES, figures["files"], strict=True)
        for what, text in report_sentences.counts(file["figures"])
    ]
    for what, *values in rows:
        facts += [
            (f"{name}: {what}", text) for name, text in zip(NAMES, values, strict=True)
        ]
    return ComparisonWords(
        [*of_files(heads, figures), *rows], sentences, [*facts, *sentences]
    )


def of_files(
    heads: Sequence[_Json], figures: ComparisonFigures
) -> Iterator[tuple[str, str, str]]:
    """Yield rows about each file as a whole."""
    each = [file["figures"] for file in figures["files"]]
    cells: list[dict[str, str]] = []
    for head, own in zip(heads, each, strict=True):
        groups, usage, made = own["groups"], own["usage"], in_cells(own["made_by"])
        cells.append(
            {
                "file": head["source"],
                "judge": ", ".join(filter(None, own["judges"])),
                **{
                    name: made.get(name, "")
                    for name, what in _OF_ROWS.items()
                    if figures["differs"][what]
                },
                "passes": ", ".join(own["passes"]),
                "groups": f"{groups['scored']} of {groups['all']} scored",
                "failed": ", ".join(
                    f"{n} {kind}" for kind, n in own["failed_by_kind"].items()
                ),
                "cost": _cost(own),
                "calls": str(usage["calls"]) if usage["calls"] else "",
                "reliability": given(own["reliability"]["median"], "{:.2f}"),
            }
        )
    if cells[0]["judge"] and cells[0]["judge"] == cells[1]["judge"]:
        for cell in cells:  # the file tells them apart
            cell["judge"] += f" ({cell['file']})"
    for name in cells[0]:
        yield name, cells[0][name], cells[1][name]


def _cost(figures: _Json) -> str:
    spent, groups = figures["cost_usd"], figures["cost_groups"]
    return (
        ""
        if spent is None
        else usd(spent) + (f" ({usd(spent / groups)} a group)" if spent else "")
    )


def of_scores(figures: ComparisonFigures) -> list[tuple[str, str, str]]:
    """Return rows about the scores that can be compared."""
    labels = figures["labels"]
    accuracy = labels["accuracy"] if labels else (None, None)
    rows = {
        "mean score": [given(mean, "{:.2f}") for mean in figures["means"]],
        "spread (sd)": [given(spread, "{:.2f}") for spread in figures["spreads"]],
        "tied groups": [
            str(tied) if any(figures["tied"]) else "" for tied in figures["tied"]
        ],
        "reward agreement": [_share(value) for value in accuracy],
    }
    return [(name, a, b) for name, (a, b) in rows.items()]


def _share(measured: _Json | None) -> str:
    if measured is None or measured["value"] is None:
        return ""
    value, low, high = (
        "" if measured[name] is None else percent(measured[name]) for name in _INTERVAL
    )
    return f"{value} ({low} to {high})" if low else value


def findings(figures: ComparisonFigures) -> Iterator[tuple[str, str]]:
    """Yield sentences about the two judges, each with a name."""
    order, distance, paired = figures["order"], figures["distance"], figures["paired"]
    if order["agreement"] is not None:
        yield "same order", ordered_pairs(order, "are")
    if distance["mean"] is not None:
        moved = any(file["figures"]["rollouts"]["moved"] for file in figures["files"])
        own = " (the judges' own, before --blend or --order-by-outcome)" * moved
        yield (
            "scores",
            f"differ by {distance['mean']:.2f} on average, by {distance['max']:.2f} at most{own}",
        )
    yield "correlation", _interval(figures["correlation"], " within groups")
    yield "rewards", _better(figures["labels"])
    one, other = paired["alone"]
    rest = paired["groups"] - figures["groups"] - sum(figures["one_scored"])
    left_out = {
        "with different rollouts": paired["unlike"],
        "only in A": one,
        "only in B": other,
        "scored by A only": figures["one_scored"][0],
        "scored by B only": figures["one_scored"][1],
        "with no rollout scored by both": rest,
    }
    yield (
        "not compared",
        ", ".join(f"{count(n, 'group')} {what}" for what, n in left_out.items() if n),
    )


def _interval(measured: _Json, more: str = "") -> str:
    if measured["value"] is None:
        return ""
    ends = (
        ""
        if measured["low"] is None
        else f" ({measured['low']:.2f} to {measured['high']:.2f})"
    )
    return f"{measured['value']:.2f}{ends}{more}"


def _better(labels: _Json | None) -> str:
    """Say which judge orders more pairs as the original rewards do."""
    if not labels or not labels["difference"] or labels["difference"]["value"] is None:
        return ""
    difference = labels["difference"]
    points = count(round(100 * abs(difference["value"])), "point")
    if points == "0 points":
        return "A and B agree equally"
    better = NAMES[difference["value"] < 0]
    if difference["low"] is None:
        return f"{better} agrees more, by {points}; too few groups to tell"
    if not difference["told_apart"]:
        return f"{better} agrees more, by {points} (not significant)"
    return f"{better} agrees more, by {points}"
