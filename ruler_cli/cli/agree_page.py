"""What `ruler agree` measured, as a table for a person and as one JSON object for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from ruler_cli.agreement.bootstrap import LEVEL, RESAMPLES, Figure
from ruler_cli.agreement.measure import Agreement, ranked, told_apart
from ruler_cli.agreement.measures import SMALLER_IS_BETTER, Bin, Scorer
from ruler_cli.agreement.paired import Matched
from ruler_cli.agreement.pairs import KINDS
from ruler_cli.agreement.scored import Seen
from ruler_cli.cli.messages import safe
from ruler_cli.cli.units import count

_TOLD = {
    "pairwise_accuracy": "pairwise accuracy",
    "kendall_tau_b": "Kendall's tau-b",
    "auc_within_groups": "AUC within groups",
    "auc": "AUC over all rollouts",
    "top1_regret": "top-1 regret",
    "cost_per_1000_usd": "USD per 1,000 rollouts",
}
_SHORT = {"pairwise_accuracy": "accuracy", "kendall_tau_b": "tau-b", "auc": "AUC", "top1_regret": "regret"}
_OWN = "the judges' own, without what --blend or --order-by-outcome made of them"
_FEW = 100
"""Mixed groups below which the width to expect is told."""


@dataclass(frozen=True, slots=True)
class File:
    """One scored file: its name, what was found in it, where its labels stand, what was seen."""

    source: str
    found: str
    labels: str | None
    seen: Seen


def lines(result: Agreement, files: Sequence[File], matched: Matched | None) -> Iterator[str]:
    """The page for a person."""
    names = ("A", "B") if matched else ("scored",)
    for name, file in zip(names, files, strict=True):
        judges = f" ({', '.join(file.seen.names)})" if file.seen.names else ""
        yield from _head(name, f"{file.source}{judges}")
        yield from _head("", file.found)
        yield from _head("scores", _OWN if file.seen.moved else "")
        yield from _head("left out", _left_out(file.seen))
    yield from _head("labels", _labels(result, files[0]))
    yield from _head("compared", _compared(result))
    if matched:
        yield from _head("paired", _paired(matched))
    yield ""
    yield from _two(result) if matched else _one(result)
    yield from _width(result)


def _head(name: str, text: str) -> Iterator[str]:
    """A name and a sentence, in 80 columns."""
    for i, line in enumerate(wrap(safe(text), 66, break_long_words=False, break_on_hyphens=False)):
        yield f"{f'{name}:' if name and not i else '':<14}{line}"


def _labels(result: Agreement, file: File) -> str:
    where = "the first original reward" if file.labels is None else f"`{file.labels}`"
    if file.seen.outcomes:
        where += f", or the outcome ({count(file.seen.outcomes, 'rollout')} without a reward)"
    return where + (f", {result.labels[0]:g} or {result.labels[1]:g}" if result.labels else "")


def _compared(result: Agreement) -> str:
    main = result.scorers[0]
    return (
        f"{count(main.compared, 'rollout')} in {count(result.groups, 'group')}; {result.mixed} mixed, with "
        f"{count(main.pairs, 'pair')} of different labels"
    )


def _paired(matched: Matched) -> str:
    one, other = matched.alone
    return f"{count(matched.groups, 'group')}; {matched.unlike} unlike, {one} only in A, {other} only in B"


def _left_out(seen: Seen) -> str:
    counts = (
        (seen.failed, "not scored"),
        (seen.unmarked, "without a mark"),
        (seen.odd_scores, "with a score that is no number"),
        (seen.unlabelled, "without a label"),
        (seen.odd_labels, "with a label that is no number"),
        (seen.more_judges, "scores of too many judges"),
    )
    return ", ".join(f"{number} {what}" for number, what in counts if number)


def _one(result: Agreement) -> Iterator[str]:
    main = result.scorers[0]
    yield _row("", "value", "95 % interval", "groups")
    for name, told in _TOLD.items():
        figure = main.figures.get(name)
        if figure is not None and figure.value is not None:
            value, ends = _number(figure.value), _interval(figure)
            yield _row(told, value, ends, str(figure.groups), _beside(main, name))
    if len(result.scorers) > 1:
        yield ""
        yield from _panel(result)
    for kind in KINDS:
        if kind.name in main.breakdowns:
            yield ""
            yield _row(kind.told, "accuracy", "95 % interval", "pairs")
            for bin_ in main.breakdowns[kind.name]:
                figure = bin_.accuracy
                yield _row(f"  {bin_.name}", _number(figure.value), _interval(figure), str(bin_.pairs))


def _beside(main: Scorer, name: str) -> str:
    tied, chance = main.figures["tied_share"].value, main.figures["chance_regret"].value
    if name == "pairwise_accuracy" and tied is not None:
        return f"{tied:.1%} ties"
    if name == "top1_regret" and chance is not None:
        return f"chance {chance:.3g}"
    return ""


def _panel(result: Agreement) -> Iterator[str]:
    """Each judge of a panel, in the order in which the file names them."""
    judges = result.scorers[1:]
    yield f"{'judge':<24}" + "".join(f"{told:>9}" for told in _SHORT.values()) + "  95 % of accuracy"
    for judge in judges:
        cells = [judge.figures.get(name) for name in _SHORT]
        accuracy = judge.figures["pairwise_accuracy"]
        row = "".join(f"{_number(cell.value if cell else None):>9}" for cell in cells)
        yield f"{_short(judge.name, 24):<24}{row}  {_interval(accuracy)}"
    yield from _ranking(judges)
    yield from _correlations(result)


def _ranking(judges: Sequence[Scorer]) -> Iterator[str]:
    order = ranked(tuple(judges))
    for better, worse in order:
        yield f"  {_short(better, 34)} agrees more than {_short(worse, 34)}"
    pairs = len(judges) * (len(judges) - 1) // 2
    if len(order) < pairs:
        yield f"  {count(pairs - len(order), 'pair')} of judges not told apart: their intervals overlap"


def _correlations(result: Agreement) -> Iterator[str]:
    for name in ("errors", "plain"):
        found = [c for c in result.correlations if getattr(c, name).value is not None]
        if not found:
            continue
        yield ""
        what = "errors of two judges" if name == "errors" else "scores of two judges"
        yield _row(what, "r", "95 % interval", "groups")
        for pair in found:
            figure: Figure = getattr(pair, name)
            both = f"  {_short(pair.one, 14)}, {_short(pair.other, 14)}"
            yield _row(both, _number(figure.value), _interval(figure), str(figure.groups))


def _two(result: Agreement) -> Iterator[str]:
    one, other = result.scorers
    yield f"{'':<22}{'A':>8}{'B':>8}{'A - B':>8}  95 % interval"
    for name, told in _TOLD.items():
        if name in result.differences:
            figure = result.differences[name]
            row = f"{_number(one.figures[name].value):>8}{_number(other.figures[name].value):>8}"
            if figure.value is not None:
                row += f"{_signed(figure.value):>8}  {_signed_interval(figure):<18}{_verdict(name, figure)}"
            yield f"{told:<22}{row}"
    yield from _correlations(result)
    for kind in KINDS:
        bins = [{b.name: b for b in scorer.breakdowns.get(kind.name, ())} for scorer in result.scorers]
        if any(bins):
            yield ""
            yield f"{kind.told:<30}{'A':>8}{'pairs':>9}{'B':>9}{'pairs':>9}"
            for name in kind.bins:
                if any(name in found for found in bins):
                    yield f"  {name:<28}" + " ".join(_cell(found.get(name)) for found in bins)


def _cell(found: Bin | None) -> str:
    return f"{'':>17}" if found is None else f"{_number(found.accuracy.value):>8}{found.pairs:>9}"


def _verdict(name: str, figure: Figure) -> str:
    if not told_apart(figure):
        return "not told apart"
    first = ((figure.value or 0) > 0) is not (name in SMALLER_IS_BETTER)
    return f"{'A' if first else 'B'} {'costs less' if name == 'cost_per_1000_usd' else 'is better'}"


def _width(result: Agreement) -> Iterator[str]:
    width = result.expected_width
    if width is None or result.mixed >= _FEW:
        return
    yield ""
    yield (
        f"{count(result.mixed, 'mixed group')}: with groups of 8 that makes about "
        f"±{100 * width:.0f} points for the accuracy,"
    )
    yield "and more with smaller ones; 100 mixed groups make about ±6, 300 about ±3.5."


def _row(name: str, *cells: str) -> str:
    value, interval, groups, *beside = cells
    return f"{name:<30}{value:>9}  {interval:<17}{groups:>7}  {' '.join(beside)}".rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or not value else f"{value:.2e}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + _number(value)


def _interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return "too few groups" if figure.value is not None else ""
    return f"{_number(figure.low)} to {_number(figure.high)}"


def _signed_interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return "too few groups"
    return f"{_signed(figure.low)} to {_signed(figure.high)}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def values(result: Agreement, files: Sequence[File], matched: Matched | None) -> dict[str, Any]:
    """The page for a program."""
    return {
        "version": 1,
        "inputs": [_file(file) for file in files],
        "labels": {"path": files[0].labels, "two": list(result.labels) if result.labels else None},
        "groups": result.groups,
        "mixed_groups": result.mixed,
        "rollouts": result.rollouts,
        "paired": None
        if matched is None
        else {"groups": matched.groups, "unlike": matched.unlike, "alone": list(matched.alone)},
        "bootstrap": {"level": LEVEL, "resamples": RESAMPLES, "seed": 0, "units": result.units},
        "expected_half_width": result.expected_width,
        "scorers": [_scorer(scorer) for scorer in result.scorers],
        "differences": {
            name: _figure(figure) | {"told_apart": told_apart(figure)}
            for name, figure in result.differences.items()
        },
        "ranked": [{"better": better, "worse": worse} for better, worse in ranked(result.scorers[1:])]
        if matched is None
        else [],
        "correlations": [
            {"judges": [c.one, c.other], "errors": _figure(c.errors), "scores": _figure(c.plain)}
            for c in result.correlations
        ],
    }


def _file(file: File) -> dict[str, Any]:
    seen = file.seen
    return {
        "source": file.source,
        "found": file.found,
        "judges": list(seen.names),
        "groups": seen.groups,
        "rollouts": seen.rollouts,
        "scored": seen.scored,
        "failed": seen.failed,
        "unmarked": seen.unmarked,
        "odd_scores": seen.odd_scores,
        "moved": seen.moved,
        "unlabelled": seen.unlabelled,
        "outcomes": seen.outcomes,
        "odd_labels": seen.odd_labels,
        "odd_costs": seen.odd_costs,
        "more_judges": seen.more_judges,
    }


def _scorer(scorer: Scorer) -> dict[str, Any]:
    figures = {name: _figure(figure) for name, figure in scorer.figures.items()}
    bins = {
        f"by_{name}": [
            {"bin": found.name, "pairs": found.pairs, "accuracy": _figure(found.accuracy)} for found in bins
        ]
        for name, bins in scorer.breakdowns.items()
    }
    return {"name": scorer.name, "compared": scorer.compared, "pairs": scorer.pairs, **figures, **bins}


def _figure(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "low": figure.low, "high": figure.high, "groups": figure.groups}
