"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import (
    AsJson,
    Config,
    Format,
    GroupBy,
    Grouping,
    Labels,
    MaxRecord,
    Messages,
    On,
    Prompt,
    Prompts,
    Scored,
    Second,
    Tools,
)
from ruler_cli.cli.scored_files import ScoredFiles
from ruler_cli.cli.sentences import (
    LEFT_OUT,
    OWN_SCORES,
    STATISTICS,
    Fact,
    interval,
    left_out_words,
    measured,
    pair_counts,
)
from ruler_cli.cli.units import count, shorten
from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.agreement import Agreement
    from ruler_cli.results.figures import ScoredFile

_Json = Mapping[str, Any]
_COUNTS = ("scored", "moved", "outcomes", *LEFT_OUT)
"""Counts of rollouts in the JSON; a value that cannot be used never counts as a zero."""
_OF_JUDGES = ("pairwise_accuracy", "kendall_tau_b", "auc", "top1_regret")
_KINDS = {
    "gap": "accuracy by score gap:",
    "slot": "accuracy by position, the better one is",
    "length": "accuracy by length, the better one is",
}
_CHANCE = {"pairwise_accuracy": 0.5, "kendall_tau_b": 0.0, "auc": 0.5}
"""The value of a figure for random scores."""
_NOTHING = {"value": None, "low": None, "high": None, "groups": 0}
_NAME = 24
"""Characters of a judge's name."""


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
    tools: Tools = None,
    prompts: Prompts = None,
    on: On = None,
    max_record: MaxRecord = 512,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Compare scores with labels, or two judges with each other.

    Intervals are bootstrapped over groups. A difference whose interval holds 0 is not significant.

    Example: ruler agree scored.jsonl --labels metadata.passed

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or are in one file
    only; 2 bad usage, unreadable input, or nothing to compare.
    """
    with running(ctx, source, second) as options:
        return _run(options, [one for one in (source, second) if one is not None])


def _run(options: Options, sources: list[str]) -> int:
    from ruler_cli.results.agreement import AgreementBuilder

    builder = AgreementBuilder("score")
    with ExitStack() as stack:
        scored = ScoredFiles(sources, options, stack)
        two = len(scored.files) == 2
        for group in scored.groups():
            if not two:
                builder.add(group.one)
        figures = scored.figures()
        agreement = scored.reading.agreement if two else builder.agreement()
        _refuse_empty(agreement, scored.files)
        scored.report_problems()
    agreement["labels"]["path"] = options.labels
    pairs = zip(scored.heads, scored.files, strict=True)
    inputs = [_input(head, file) for head, file in pairs]
    if options.as_json:
        scored.print_json({"inputs": inputs, **agreement})
    elif two:
        from ruler_cli.cli.report_view import view_of
        from ruler_cli.cli.terminal import Terminal

        names = [one["source"] for one in inputs]
        view_of(scored.reading, names, figures).show(Terminal())
    else:
        _show(inputs[0], agreement)
    unmeasured = any(one[name] for one in inputs for name in LEFT_OUT)
    return 1 if scored.problems.number or unmeasured else 0


def _input(head: _Json, file: ScoredFile) -> dict[str, Any]:
    """Return what a file is, and the counts of its values."""
    groups = file.figures.groups
    rollouts = file.figures.rollouts
    return {
        **head,
        "judges": [*file.figures.words["judges"].listed()],
        "groups": groups["all"],
        "rollouts": rollouts["all"],
        **{name: rollouts[name] for name in _COUNTS},
    }


def _refuse_empty(agreement: Agreement, files: Sequence[ScoredFile]) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out."""
    labelled = any(one["pairs"] or "auc" in one for one in agreement["scorers"])
    both = [pair["scores"]["value"] for pair in agreement["correlations"]]
    if labelled or any(value is not None for value in both):
        return
    counts = files[0].figures.rollouts
    reason = "all labels within each group are equal"
    if not counts["scored"]:
        reason = "no rollout has a score"
    elif not counts["labelled"]:
        reason = "no rollout has a usable label"
    remedy = Sentence("name labels with {labels:PATH}")
    problem = f"nothing to compare: {reason}"
    raise UsageError(problem, remedy, place=files[0].name)


def _show(file: _Json, page: Agreement) -> None:
    """Show the agreement of one file to a person."""
    from rich.table import Column

    from ruler_cli.cli.terminal import Terminal

    terminal = Terminal()
    terminal.show(terminal.facts(_head(file, page)), "")
    heads = ("value", "95 % interval", "n", "right", "wrong", "tied")
    right = [Column(head, justify="right") for head in heads]
    rows = [
        (
            name,
            measured(value),
            # chance is not measured
            interval(value) if n else "",
            str(n or ""),
            *_counts(pairs),
        )
        for name, value, n, pairs in _values(page)
    ]
    terminal.show(terminal.table((Column("", overflow="fold"), *right), rows))


def _head(file: _Json, page: Agreement) -> Iterator[Fact]:
    """Yield what is compared, each with a name."""
    main = page["scorers"][0]
    judges = f" ({', '.join(file['judges'])})" if file["judges"] else ""
    yield "scored", f"{file['source']}{judges}"
    yield "found", file["found"]
    yield "scores", OWN_SCORES if file["moved"] else ""
    yield "left out", left_out_words(file)
    path = page["labels"]["path"]
    two = page["labels"]["two"]
    labels = "the first original reward" if path is None else f"`{path}`"
    if file["outcomes"]:
        labels += ", or the outcome"
    yield "labels", labels + (", {:g} or {:g}".format(*two) if two else "")
    rollouts = main["compared"]
    groups = count(page["groups"], "group")
    compared = f"{count(rollouts, 'rollout')} in {groups}"
    yield "compared", f"{compared}; {page['mixed_groups']} mixed"
    pairs = pair_counts(
        main["pairs"],
        main["against"],
        main["tied"],
        "with different labels",
    )
    yield "pairs", pairs


def _counts(pairs: _Json | None) -> list[str]:
    """Return how many pairs are in the order of their labels, against it and tied; empty for what has no pairs."""
    if pairs is None:
        return [""] * 3
    against, tied = pairs["against"], pairs["tied"]
    return [
        f"{number:,}" for number in (pairs["pairs"] - against - tied, against, tied)
    ]


def _chance(scorer: _Json, name: str) -> _Json:
    """Return the value of a figure for random scores: a number, or the one measured on the labels."""
    if name in _CHANCE:
        return {**_NOTHING, "value": _CHANCE[name]}
    chance: _Json = scorer["chance_regret"]
    return chance


def _value(
    scorer: _Json, name: str, title: str
) -> Iterator[tuple[str, _Json, int, _Json | None]]:
    """Yield a scorer's figure if it is defined, with the pairs behind an accuracy."""
    value = scorer.get(name, _NOTHING)
    if value["value"] is not None:
        counts = scorer if name == "pairwise_accuracy" else None
        yield title, value, value["groups"], counts


def _values(page: Agreement) -> Iterator[tuple[str, _Json, int, _Json | None]]:
    """Yield the measured values: a name, the value, the number of its groups or of pairs, and counts of pairs.

    The baselines of a figure stand below it.
    """
    main, *judges = page["scorers"]
    for name, title in STATISTICS.items():
        yield from _value(main, name, title)
        if name not in _OF_JUDGES or main.get(name, _NOTHING)["value"] is None:
            continue
        for baseline in page["baselines"]:
            yield from _value(baseline, name, f"  {baseline['name']} wins")
        yield from _value({"chance": _chance(main, name)}, "chance", "  chance")
    for judge in judges:
        for name in _OF_JUDGES:
            title = f"{shorten(judge['name'], _NAME)}: {STATISTICS[name]}"
            yield from _value(judge, name, title)
    for criterion in page["criteria"]:
        title = f"criterion {shorten(criterion['name'], _NAME)}"
        yield from _value(criterion, "pairwise_accuracy", title)
    for what in ("errors", "scores"):
        for pair in page["correlations"]:
            both = " and ".join(shorten(judge, _NAME) for judge in pair["judges"])
            if pair[what]["value"] is not None:
                title = f"correlation of {what}, {both}"
                yield title, pair[what], pair[what]["groups"], None
    for kind, title in _KINDS.items():
        for one in main.get(f"by_{kind}", ()):
            yield f"{title} {one['bin']}", one["accuracy"], one["pairs"], one
