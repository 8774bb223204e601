"""Scored files → what `ruler agree` prints: one JSON object, or that object as a table for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import starmap
from textwrap import wrap
from typing import Any

import orjson
import typer

from ruler_cli.cli.messages import one_line, print_stderr, safe, safe_value
from ruler_cli.cli.progress import Problems
from ruler_cli.cli.units import count
from ruler_cli.config import InputSettings
from ruler_cli.errors import UsageError
from ruler_cli.reading.location import Location
from ruler_cli.results.agree.measure import KINDS, Agreement, measure, measure_two
from ruler_cli.results.agree.paired import known
from ruler_cli.results.scored_file import ScoredFile

_Json = Mapping[str, Any]
COUNTS = (
    "groups", "rollouts", "scored", "failed", "unmarked", "odd_scores", "moved", "unlabelled", "outcomes",
    "odd_labels", "odd_costs", "more_judges",
)  # fmt: skip
"""Counts of a file that the JSON holds; what could not be used is never taken for a zero."""
LEFT_OUT = {
    "failed": "not scored",
    "unmarked": "without a mark",
    "odd_scores": "with a score that is no number",
    "unlabelled": "without a label",
    "odd_labels": "with a label that is no number",
    "more_judges": "scores of too many judges",
}
"""Counts of what is not measured, in words."""
_FIGURES = {
    "pairwise_accuracy": "pairwise accuracy",
    "kendall_tau_b": "Kendall's tau-b",
    "auc_within_groups": "AUC within groups",
    "auc": "AUC over all rollouts",
    "top1_regret": "top-1 regret",
    "cost_per_1000_usd": "USD per 1,000 rollouts",
}
_SHORT = {"pairwise_accuracy": "accuracy", "kendall_tau_b": "tau-b", "auc": "AUC", "top1_regret": "regret"}
_SMALLER_IS_BETTER = ("top1_regret", "cost_per_1000_usd")
_KINDS = {
    "gap": "by score gap",
    "slot": "by slot: the better one stood",
    "place": "by place of the better one",
    "length": "by length: the better one is",
    "size": "by bytes of the longer one",
}
_OWN = "the judges' own, without what --blend or --order-by-outcome made of them"
_FEW = 100
"""Mixed groups below which the width to expect is told."""


def agree(where: list[InputSettings], *, as_json: bool) -> bool:
    """Print what was measured; false if some rollouts could not be."""
    problems = Problems(quiet=as_json)
    with ExitStack() as stack:
        stack.push(problems.print_on_error)
        files = [ScoredFile(one, stack, partial(problems.add, Location(one.source).shown)) for one in where]
        if len(files) == 1:
            found = measure((marked for _, marked in files[0].groups()), "score")
        else:
            one, other = (starmap(known, file.groups()) for file in files)
            found = measure_two(one, other, problems.add_sentence)
        for file in files:
            if file.doubt:
                print_stderr(f"ruler: warning: {file.doubt}")
        _refuse_empty(found, files)
        page = {"version": 1, "inputs": list(map(_input, where, files)), **found}
        page["labels"]["path"] = where[0].outcome
    problems.close()
    if as_json:
        page |= {"problems": problems.number, "first_problems": problems.first}
        typer.echo(orjson.dumps(safe_value(page), option=orjson.OPT_INDENT_2))
    else:
        for line in lines(page):
            typer.echo(one_line(line))
    return not problems.number and not any(file.seen[name] for file in files for name in LEFT_OUT)


def _input(where: InputSettings, file: ScoredFile) -> dict[str, Any]:
    """Describe a file, with its counts."""
    names = {"source": Location(where.source).public, "found": file.input.found(), "judges": [*file.judges]}
    return names | {name: file.seen[name] for name in COUNTS}


def _refuse_empty(found: Agreement, files: list[ScoredFile]) -> None:
    """UsageError where there is nothing to compare, with the reason and the way out."""
    compared = any(scorer["pairs"] or "auc" in scorer for scorer in found["scorers"])
    if compared or any(pair["scores"]["value"] is not None for pair in found["correlations"]):
        return
    seen = files[0].seen
    if found["paired"] and not found["paired"]["groups"]:
        why = "the two files have no group in common; give two scored files of the same input"
    elif not all(file.seen["scored"] for file in files):
        why = "no rollout has a score; `ruler score` says why each failed, and --retry-failed asks again"
    elif seen["unlabelled"] + seen["odd_labels"] == seen["rollouts"]:
        why = "no rollout has a label that can be used; say where labels stand, with --labels PATH"
    else:
        why = "no group has two scored rollouts with different labels; name other labels with --labels PATH"
    raise UsageError(f"{files[0].name}: nothing to compare: {why}")


def lines(page: _Json) -> Iterator[str]:
    """The page for a person."""
    main, paired = page["scorers"][0], page["paired"]
    for name, file in zip("AB" if paired else ["scored"], page["inputs"], strict=True):
        judges = f" ({', '.join(file['judges'])})" if file["judges"] else ""
        yield from _head(name, f"{file['source']}{judges}")
        yield from _head("", file["found"])
        yield from _head("scores", _OWN if file["moved"] else "")
        left_out = [f"{file[name]} {told}" for name, told in LEFT_OUT.items() if file[name]]
        yield from _head("left out", ", ".join(left_out))
    yield from _head("labels", _labels(page["labels"], page["inputs"][0]["outcomes"]))
    groups, pairs = count(page["groups"], "group"), count(main["pairs"], "pair")
    told = f"in {groups}; {page['mixed_groups']} mixed, with {pairs} of different labels"
    yield from _head("compared", f"{count(main['compared'], 'rollout')} {told}")
    if paired:
        one, other = paired["alone"]
        told = f"{paired['unlike']} unlike, {one} only in A, {other} only in B"
        yield from _head("paired", f"{count(paired['groups'], 'group')}; {told}")
    yield ""
    yield from _two(page) if paired else _one(page)
    yield from _width(page["mixed_groups"], page["expected_half_width"])


def _head(name: str, text: str) -> Iterator[str]:
    """A name and a sentence, in 80 columns."""
    for i, line in enumerate(wrap(safe(text), 66, break_long_words=False, break_on_hyphens=False)):
        yield f"{f'{name}:' if name and not i else '':<14}{line}"


def _labels(labels: _Json, outcomes: int) -> str:
    where = "the first original reward" if labels["path"] is None else f"`{labels['path']}`"
    if outcomes:
        where += f", or the outcome ({count(outcomes, 'rollout')} without a reward)"
    return where + (", {:g} or {:g}".format(*labels["two"]) if labels["two"] else "")


def _one(page: _Json) -> Iterator[str]:
    main, *judges = page["scorers"]
    tied, chance = main["tied_share"]["value"], main["chance_regret"]["value"]
    beside = {
        "pairwise_accuracy": "" if tied is None else f"{tied:.1%} ties",
        "top1_regret": "" if chance is None else f"chance {chance:.3g}",
    }
    yield _row("", "value", "95 % interval", "groups")
    for name, told in _FIGURES.items():
        if name in main and main[name]["value"] is not None:
            yield _figure(told, main[name], main[name]["groups"], beside.get(name, ""))
    if judges:
        yield ""
        yield f"{'judge':<24}" + "".join(f"{told:>9}" for told in _SHORT.values()) + "  95 % of accuracy"
        for judge in judges:
            row = "".join(f"{_number(judge[name]['value'] if name in judge else None):>9}" for name in _SHORT)
            yield f"{_short(judge['name'], 24):<24}{row}  {_interval(judge['pairwise_accuracy'])}"
        for pair in page["ranked"]:
            yield f"  {_short(pair['better'], 34)} agrees more than {_short(pair['worse'], 34)}"
        if overlap := len(judges) * (len(judges) - 1) // 2 - len(page["ranked"]):
            yield f"  {count(overlap, 'pair')} of judges not told apart: their intervals overlap"
        yield from _correlations(page)
    for kind, told in _KINDS.items():
        if bins := main.get(f"by_{kind}"):
            yield ""
            yield _row(told, "accuracy", "95 % interval", "pairs")
            for found in bins:
                yield _figure(f"  {found['bin']}", found["accuracy"], found["pairs"])


def _correlations(page: _Json) -> Iterator[str]:
    for what in ("errors", "scores"):
        found = [pair for pair in page["correlations"] if pair[what]["value"] is not None]
        if found:
            yield ""
            yield _row(f"{what} of two judges", "r", "95 % interval", "groups")
        for pair in found:
            both = ", ".join(_short(judge, 14) for judge in pair["judges"])
            yield _figure(f"  {both}", pair[what], pair[what]["groups"])


def _two(page: _Json) -> Iterator[str]:
    one, other = page["scorers"]
    yield f"{'':<22}{'A':>8}{'B':>8}{'A - B':>8}  95 % interval"
    for name, told in _FIGURES.items():
        if figure := page["differences"].get(name):
            row = f"{told:<22}{_number(one[name]['value']):>8}{_number(other[name]['value']):>8}"
            if figure["value"] is not None:
                interval = _interval(figure, signed=True)
                row += f"{_number(figure['value'], signed=True):>8}  {interval:<18}{_verdict(name, figure)}"
            yield row
    yield from _correlations(page)
    for kind, told in _KINDS.items():
        bins = [{found["bin"]: found for found in judge.get(f"by_{kind}", ())} for judge in (one, other)]
        if any(bins):
            yield ""
            yield f"{told:<30}{'A':>8}{'pairs':>9}{'B':>9}{'pairs':>9}"
        for name in KINDS[kind]:
            if any(name in found for found in bins):
                yield f"  {name:<28}" + " ".join(_cell(found.get(name)) for found in bins)


def _cell(found: _Json | None) -> str:
    return f"{'':>17}" if found is None else f"{_number(found['accuracy']['value']):>8}{found['pairs']:>9}"


def _verdict(name: str, difference: _Json) -> str:
    if not difference["told_apart"]:
        return "not told apart"
    better = "A" if (difference["value"] > 0) is not (name in _SMALLER_IS_BETTER) else "B"
    return f"{better} {'costs less' if name == 'cost_per_1000_usd' else 'is better'}"


def _width(mixed: int, width: float | None) -> Iterator[str]:
    if width is not None and mixed < _FEW:
        yield ""
        about = f"about ±{100 * width:.0f} points for the accuracy,"
        yield f"{count(mixed, 'mixed group')}: with groups of 8 that makes {about}"
        yield "and more with smaller ones; 100 mixed groups make about ±6, 300 about ±3.5."


def _figure(name: str, figure: _Json, number: int, beside: str = "") -> str:
    return _row(name, _number(figure["value"]), _interval(figure), str(number), beside)


def _row(name: str, value: str, interval: str, number: str, beside: str = "") -> str:
    return f"{name:<30}{value:>9}  {interval:<17}{number:>7}  {beside}".rstrip()


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    sign = "+" if signed and value > 0 else ""
    return sign + (f"{value:.3f}" if 0.001 <= abs(value) < 1000 or not value else f"{value:.2e}")


def _interval(figure: _Json, *, signed: bool = False) -> str:
    if figure["low"] is None:
        return "too few groups" if figure["value"] is not None else ""
    return f"{_number(figure['low'], signed=signed)} to {_number(figure['high'], signed=signed)}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
