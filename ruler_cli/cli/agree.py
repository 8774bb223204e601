"""`ruler agree SCORED`: scores against labels, on the terminal or as JSON."""

from __future__ import annotations

from collections.abc import (
    Iterator,
    Mapping,
)
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    RECORD_OPTIONS,
    RECORD_SETTINGS,
    Scored,
    takes,
)
from ruler_cli.cli.scored_files import ScoredFiles
from ruler_cli.cli.sentences import (
    LEFT_OUT,
    OWN_SCORES,
    Fact,
    interval,
    labelled_pairs,
    left_out_words,
    measured,
    pair_counts,
)
from ruler_cli.cli.terminal import NOTE, Terminal
from ruler_cli.cli.units import count
from ruler_cli.results.label_agreement import MOST_NOT_ASKED
from ruler_cli.settings.options import Options
from ruler_cli.types import shorten

if TYPE_CHECKING:
    from ruler_cli.results.agreement import Agreement

_Json = Mapping[str, Any]
_COUNTS = ("scored", "moved", "outcomes", *LEFT_OUT)
"""Counts of rollouts in the JSON; a value that cannot be used never counts as a zero."""
_KINDS = {
    "gap": "accuracy by score gap:",
    "slot": "accuracy by position, the better one is",
    "length": "accuracy by length, the better one is",
}
_ALIKE = ("the better one is alike", "both alike")
_CHANCE = {"value": 0.5, "groups": 0}
_NAME = 24
"""Characters of a judge's name, and of other names in a row."""


@takes(
    "people",
    "at_least",
    "labels",
    *RECORD_OPTIONS,
    "as_json",
    settings=RECORD_SETTINGS,
)
def command(
    ctx: typer.Context,
    source: Scored,
) -> int:
    """Compare scores with labels.

    Intervals are bootstrapped over groups. If only some rollouts have labels, the mean of all scores is corrected
    by the error that these labels show. Groups with the same rollouts count once. `ruler compare A B` compares
    two judges.

    \b
    Example:
      ruler agree scored.jsonl --labels metadata.passed
      ruler agree scored.jsonl --people labels.jsonl

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label; 2 bad usage,
    unreadable input, or nothing to compare. With --people records may lack labels, and 1 means that some
    label names no rollout with a score. With --at-least 1 means that the judge failed the gate, and nothing
    else.
    """
    with running(ctx, source) as options:
        return _run(options, source)


def _run(options: Options, source: str) -> int:
    from ruler_cli.results.label_agreement import gate

    bound = options.at_least
    with ExitStack() as stack:
        scored = ScoredFiles([source], options, stack, labelled=True)
        for _ in scored.groups():
            pass
        files = [*options.people]
        agreement = {
            "labels": {"path": options.labels, "files": files},
            **scored.agreement(),
        }
        scored.report_problems()
    agreement["gate"] = None if bound is None else gate(agreement, bound)
    page = {"inputs": [_input(scored)], **agreement}
    if options.as_json:
        scored.problems.print_json(page)
    else:
        _show(page)
    if bound is not None:
        passed = agreement["gate"]["passed"]
        if options.as_json and not passed:
            print_note(_gate_sentence(agreement["gate"]))
        return 0 if passed else 1
    left = left_out_words(page["inputs"][0])
    if options.people:
        unscored = agreement["labelled"]["unscored"]
        left = f"{count(unscored, 'label')} without a score" if unscored else ""
    if left:
        print_note(f"{left}: not measured, so the exit code is 1")
    return 1 if scored.problems.number or left else 0


def _input(scored: ScoredFiles) -> dict[str, Any]:
    """Return what the file is, and the counts of its values."""
    figures = scored.files[0].figures
    return {
        **scored.heads[0],
        "judges": [*figures.words["judge"].listed()],
        "groups": figures.groups["all"],
        "rollouts": figures.rollouts["all"],
        **{name: figures.rollouts[name] for name in _COUNTS},
    }


def _show(page: Agreement) -> None:
    """Show an agreement to a person."""
    terminal = Terminal()
    terminal.show(terminal.facts(_head(page), note=NOTE))
    heads = ("", "value", "95 % interval", "n", "right", "wrong", "tied")
    terminal.section(terminal.numbers(heads, _rows(page)))
    if page["gate"]:
        terminal.section(
            terminal.facts([("gate", _gate_sentence(page["gate"]))])
        )


def _gate_sentence(gate: _Json) -> str:
    """Say if a judge passed, and what is counted as wrong or left out."""
    words = "passed" if gate["passed"] else "failed"
    below = "below" if gate["low"] < gate["at_least"] else "not below"
    words += (
        f": the interval of the pairwise accuracy begins at {gate['low']:.3f}, {below} "
        f"{gate['at_least']:g}"
    )
    if gate["highest"] < gate["at_least"]:
        words += f"; with so few groups even that of a judge without an error begins at {gate['highest']:.3f} at most"
    if gate["unscored"]:
        words += f"; counted as wrong: {count(gate['unscored'], 'label')} without a score"
    share = gate["not_asked"]
    if share:
        percent = f"{share:.0%}" if share >= 0.01 else "less than 1%"
        words += f"; the judge was not asked about {percent} of the labels, which are left out"
    if share > MOST_NOT_ASKED:
        words += f" and more than {MOST_NOT_ASKED:.0%}"
    return words


def _head(page: Agreement) -> Iterator[Fact]:
    """Yield what is compared, each with a name."""
    (file,) = page["inputs"]
    judges = f" ({', '.join(file['judges'])})" if file["judges"] else ""
    yield "scored", f"{file['source']}{judges}"
    yield "found", file["found"]
    yield "scores", OWN_SCORES if file["moved"] else ""
    if page["label_files"]:
        yield from _of_people(page)
    else:
        yield "left out", left_out_words(file)
        path = page["labels"]["path"]
        words = "the first original reward" if path is None else f"`{path}`"
        if file["outcomes"]:
            words += ", or the outcome"
        yield "labels", words
    yield (
        "compared",
        f"{count(page['compared'], 'rollout')} in {count(page['groups'], 'group')}; {page['mixed_groups']:,} mixed",
    )
    scorer = page["scorers"][0]
    pairs = (scorer["pairs"], scorer["against"], scorer["tied"])
    yield "pairs", pair_counts(*pairs, "with different labels")


def _of_people(page: Agreement) -> Iterator[Fact]:
    """Yield what the labels of files are, and what of them is not counted."""
    labelled = page["labelled"]
    pairs, not_counted = labelled_pairs(page)
    yield "labels", f"{', '.join(page['labels']['files'])}: {pairs}"
    yield "not counted", not_counted
    people = page["label_files"]
    by = [
        f"{shorten(name or '(no name)', _NAME)} {number:,}"
        for name, number in people["by"].items()
    ]
    if people["people"] > len(by):
        by.append(f"{people['people'] - len(by):,} more people")
    shared = ""
    if labelled["shared"]:
        shared = f"; {count(labelled['shared'], 'pair')} by several"
    yield "labels by", ", ".join(by) + shared
    if not labelled["drawn"]:
        yield (
            "note",
            "not drawn at random: the figures are those of these labels, not of the file",
        )


def _rows(page: Agreement) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each measured value; chance is not measured, and only an accuracy has pairs."""
    for title, row in _values(page):
        value = row.get("pairwise_accuracy", row)
        groups = value["groups"]
        ends = interval(value) if groups else ""
        counts = [str(groups or ""), "", "", ""]
        if "pairs" in row:
            number = row["pairs"] if "bin" in row else groups
            right = row["pairs"] - row["against"] - row["tied"]
            numbers = (number, right, row["against"], row["tied"])
            counts = [f"{amount:,}" for amount in numbers]
        if value["value"] is not None:
            yield (title, measured(value), ends, *counts)


def _values(page: Agreement) -> Iterator[tuple[str, _Json]]:
    """Yield each measured value, or counts of pairs with their accuracy. The baselines stand below the accuracy."""
    main, *judges = page["scorers"]
    yield "pairwise accuracy", main
    if main["pairs"]:
        for baseline in page["baselines"]:
            yield f"  {baseline['name']} wins", baseline
        yield "  chance", _CHANCE
    for judge in judges:
        yield f"{shorten(judge['name'], _NAME)}: pairwise accuracy", judge
    if page["people"]:
        yield "two people agree", page["people"]
    for criterion in page["criteria"]:
        yield f"criterion {shorten(criterion['name'], _NAME)}", criterion
    for kind, title in _KINDS.items():
        for row in main[f"by_{kind}"]:
            yield f"{title} {row['bin']}".replace(*_ALIKE), row
    if means := page["corrected"]:
        yield "mean: scores", means["scores"]
        yield f"  {count(means['labelled'], 'label')}", means["labels"]
        yield "  corrected", means["corrected"]
