"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import run_command
from ruler_cli.cli.messages import command_words, one_line, print_note, safe
from ruler_cli.cli.options import (
    AsJson,
    Config,
    Format,
    GroupBy,
    Grouping,
    Labels,
    MaxRecord,
    Messages,
    Prompt,
    Scored,
    Second,
)
from ruler_cli.cli.progress import Problems, UnlikeGroups
from ruler_cli.cli.report_sentences import given, pair_counts
from ruler_cli.cli.units import columns, count, shorten
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.agree import Agreement
    from ruler_cli.results.scored_file import ScoredFile

_Json = Mapping[str, Any]
_Table = Sequence[Sequence[str]]
COUNTS = (
    "groups", "rollouts", "scored", "failed", "unmarked", "odd_scores", "moved", "unlabelled", "outcomes",
    "odd_labels", "odd_costs", "more_judges",
)  # fmt: skip
"""Counts of a file in the JSON; a value that cannot be used never counts as a zero."""
LEFT_OUT = {
    "failed": "not scored",
    "unmarked": "without an annotation",
    "odd_scores": "with a score that is no number",
    "unlabelled": "without a label",
    "odd_labels": "with a label that is no number",
    "more_judges": "scores of too many judges",
}
"""Counts of rollouts and scores that are not measured, in words."""
_STATISTICS = {
    "pairwise_accuracy": "pairwise accuracy",
    "kendall_tau_b": "Kendall's tau-b",
    "auc_within_groups": "AUC within groups",
    "auc": "AUC over all rollouts",
    "top1_regret": "top-1 regret",
    "cost_per_1000_usd": "USD per 1,000 rollouts",
}
_SHORT = {
    "pairwise_accuracy": "accuracy",
    "kendall_tau_b": "tau-b",
    "auc": "AUC",
    "top1_regret": "regret",
}
_SMALLER_IS_BETTER = ("top1_regret", "cost_per_1000_usd")
_KINDS = {
    "gap": "by score gap",
    "slot": "by position: the better one is",
    "place": "by position of the better one",
    "length": "by length: the better one is",
    "size": "by bytes of the longer one",
}
JUDGES_OWN = "the judges' own, before --blend or --order-by-outcome"
_FEW = 100
"""Mixed groups below which the expected width of an interval is shown."""


def command(
    ctx: typer.Context,
    source: Scored,
    second: Second = None,
    labels: Labels = None,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    max_record: MaxRecord = 512,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Compare scores with labels, or two judges with one another.

    The judges have scored the same rollouts. Intervals are bootstrapped over groups. Judges that chance
    may have put in order are not ranked.

    Example: ruler agree scored.jsonl --labels metadata.passed

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or stand in one
    file only; 2 bad usage, unreadable input, or nothing to compare.
    """
    return run_command(ctx, _run, source, second)


def _run(options: Options, source: str, second: str | None) -> int:
    from ruler_cli.cli.report import print_json
    from ruler_cli.results.agree import measure
    from ruler_cli.results.compare import compare_files
    from ruler_cli.results.scored_file import ScoredFile

    if source == second == "-":
        raise UsageError("only one of SCORED and SCORED2 can be stdin")
    settings = [
        scored_input(options, one) for one in (source, second) if one is not None
    ]
    problems = Problems(quiet=options.as_json)
    with ExitStack() as stack:
        stack.push(problems.print_on_error)
        files = [
            ScoredFile(one, stack, partial(problems.add, Location(one.source).shown))
            for one in settings
        ]
        if second is None:
            agreement = measure(
                (scored_group for _, scored_group in files[0].groups()), "score"
            )
        else:
            unlike = UnlikeGroups()
            agreement = compare_files(files, on_left_out=unlike.add).agreement
            unlike.hand_to(problems)
        print_note(
            *(
                f"warning: {command_words(file.warning)}"
                for file in files
                if file.warning
            )
        )
        _refuse_empty(agreement, files)
        inputs = [
            {
                "source": Location(one.source).public,
                "found": file.input.found(),
                "judges": [*file.judges],
            }
            | {name: file.counts[name] for name in COUNTS}
            for one, file in zip(settings, files, strict=True)
        ]
        page = {"version": 1, "inputs": inputs, **agreement}
        page["labels"]["path"] = settings[0].outcome
    problems.close()
    if options.as_json:
        print_json(
            page | {"problems": problems.number, "first_problems": problems.first}
        )
    else:
        for line in _lines(page):
            typer.echo(one_line(line))
    left_out = any(file.counts[name] for file in files for name in LEFT_OUT)
    return 1 if problems.number or left_out else 0


def _refuse_empty(agreement: Agreement, files: list[ScoredFile]) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out."""
    compared = any(
        scorer["pairs"] or "auc" in scorer for scorer in agreement["scorers"]
    )
    if compared or any(
        pair["scores"]["value"] is not None for pair in agreement["correlations"]
    ):
        return
    counts = files[0].counts
    if not counts["scored"]:
        reason = f"no rollout has a score; `ruler report {files[0].name}` shows why"
    elif counts["unlabelled"] + counts["odd_labels"] == counts["rollouts"]:
        reason = (
            "no rollout has a usable label; name where labels stand with --labels PATH"
        )
    else:
        reason = (
            "all labels within each group are equal; name others with --labels PATH"
        )
    raise UsageError(f"{files[0].name}: nothing to compare: {reason}")


def _lines(page: _Json) -> Iterator[str]:
    """Lay the page out for a person, in 80 columns."""
    main, paired = page["scorers"][0], page["paired"]
    for name, file in zip("AB" if paired else ["scored"], page["inputs"], strict=True):
        judges = f" ({', '.join(file['judges'])})" if file["judges"] else ""
        yield from _head(name, f"{file['source']}{judges}")
        yield from _head("", file["found"])
        yield from _head("scores", JUDGES_OWN if file["moved"] else "")
        left_out = [
            f"{file[key]} {words}" for key, words in LEFT_OUT.items() if file[key]
        ]
        yield from _head("left out", ", ".join(left_out))
    yield from _head("labels", _labels(page["labels"], page["inputs"][0]["outcomes"]))
    groups, pairs = count(page["groups"], "group"), count(main["pairs"], "pair")
    compared = (
        f"in {groups}; {page['mixed_groups']} mixed, with {pairs} of different labels"
    )
    if not paired:
        compared += f": {pair_counts(main['in_order'] or 'none', main['against'], main['tied'])}"
    yield from _head("compared", f"{count(main['compared'], 'rollout')} {compared}")
    if paired:
        one, other = paired["alone"]
        others = f"{paired['unlike']} unlike, {one} only in A, {other} only in B"
        yield from _head("paired", f"{count(paired['groups'], 'group')}; {others}")
    for table in _two(page) if paired else _one(page):
        yield ""
        yield from columns(table, str.rjust)
    mixed, width = page["mixed_groups"], page["expected_half_width"]
    if width is not None and mixed < _FEW:
        yield ""
        groups = count(mixed, "mixed group")
        yield f"The accuracy is known to about ±{100 * width:.0f} points, by {groups} of 8 rollouts;"
        yield "100 would make about ±6, 300 about ±3.5. Smaller groups tell less."


def _head(name: str, text: str) -> Iterator[str]:
    """Yield a name and a sentence, in 80 columns."""
    for i, line in enumerate(
        wrap(safe(text), 66, break_long_words=False, break_on_hyphens=False)
    ):
        yield f"{f'{name}:' if name and not i else '':<14}{line}"


def _labels(labels: _Json, outcomes: int) -> str:
    source = (
        "the first original reward" if labels["path"] is None else f"`{labels['path']}`"
    )
    if outcomes:
        source += f", or the outcome ({count(outcomes, 'rollout')} without a reward)"
    return source + (", {:g} or {:g}".format(*labels["two"]) if labels["two"] else "")


def _one(page: _Json) -> Iterator[_Table]:
    """Yield the tables of one file, with the judges of its panel."""
    main, *judges = page["scorers"]
    beside = {
        "pairwise_accuracy": given(main["tied_share"]["value"], "{:.1%} ties"),
        "top1_regret": given(main["chance_regret"]["value"], "chance {:.3g}"),
    }
    rows = [_row("", "value", "95 % interval", "groups")]
    for name, title in _STATISTICS.items():
        measured = main.get(name)
        if measured and measured["value"] is not None:
            rows.append(
                _measured(title, measured, measured["groups"], beside.get(name))
            )
    yield rows
    if judges:
        rows = [("judge", *_SHORT.values(), "95 % of accuracy")]
        for judge in judges:
            values = [_number(judge[name]) if name in judge else "-" for name in _SHORT]
            interval = _interval(judge["pairwise_accuracy"])
            rows.append((shorten(judge["name"], 24), *values, interval))
        yield rows
        better = [
            (
                f"{shorten(pair['better'], 34)} agrees more than {shorten(pair['worse'], 34)}",
            )
            for pair in page["ranked"]
        ]
        if overlap := len(judges) * (len(judges) - 1) // 2 - len(better):
            pairs = count(overlap, "pair")
            better.append((f"no significant difference for {pairs} of judges",))
        yield better
        yield from _correlations(page)
    for kind, title in _KINDS.items():
        if bins := main.get(f"by_{kind}"):
            yield [
                _row(title, "accuracy", "95 % interval", "pairs"),
                *(_measured(f"  {b['bin']}", b["accuracy"], b["pairs"]) for b in bins),
            ]


def _correlations(page: _Json) -> Iterator[_Table]:
    for what in ("errors", "scores"):
        rows = [_row(f"{what} of two judges", "r", "95 % interval", "groups")]
        for pair in page["correlations"]:
            measured = pair[what]
            if measured["value"] is not None:
                both = ", ".join(shorten(judge, 14) for judge in pair["judges"])
                rows.append(_measured(f"  {both}", measured, measured["groups"]))
        if len(rows) > 1:
            yield rows


def _two(page: _Json) -> Iterator[_Table]:
    """Yield the tables of two files, A and B, and of their differences."""
    rows: list[Sequence[str]] = [("", "A", "B", "A - B", "95 % interval", "")]
    for name, title in _STATISTICS.items():
        if difference := page["differences"].get(name):
            both = [_number(judge[name]) for judge in page["scorers"]]
            ends = _interval(difference, "+"), _better(name, difference)
            rows.append((title, *both, _number(difference, "+"), *ends))
    yield rows
    yield from _correlations(page)


def _better(name: str, difference: _Json) -> str:
    if difference["value"] is None:
        return ""
    if not difference["told_apart"]:
        return "not significant"
    larger = difference["value"] > 0
    better = "A" if larger is not (name in _SMALLER_IS_BETTER) else "B"
    return f"{better} {'costs less' if name == 'cost_per_1000_usd' else 'is better'}"


def _row(name: str, *cells: str, note: str | None = None) -> Sequence[str]:
    return f"{name:<30}", *cells, note or ""


def _measured(
    name: str, measured: _Json, number: int, note: str | None = None
) -> Sequence[str]:
    return _row(name, _number(measured), _interval(measured), str(number), note=note)


def _number(measured: _Json, sign: str = "", end: str = "value") -> str:
    value = measured[end]
    if value is None:
        return "-"
    plain = 0.001 <= abs(value) < 1000 or not value
    return f"{value:{sign if value else ''}{'.3f' if plain else '.2e'}}"


def _interval(measured: _Json, sign: str = "") -> str:
    if measured["low"] is None:
        return "too few groups" if measured["value"] is not None else ""
    return f"{_number(measured, sign, 'low')} to {_number(measured, sign, 'high')}"
