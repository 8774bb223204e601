"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.messages import print_note
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
    Tools,
    option,
)
from ruler_cli.cli.scored_files import ScoredFiles
from ruler_cli.cli.sentences import LEFT_OUT, left_out_words
from ruler_cli.cli.units import count
from ruler_cli.errors import UnknownShapeError, UsageError
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.agreement import Agreement
    from ruler_cli.results.figures import ScoredFile

_Json = Mapping[str, Any]
_COUNTS = ("scored", "moved", "outcomes", *LEFT_OUT)
"""Counts of rollouts in the JSON; a value that cannot be used never counts as a zero."""


def command(
    ctx: typer.Context,
    source: Scored,
    second: Second = None,
    labels_file: Annotated[
        list[str] | None,
        option(
            "Labels of people: comparisons and marks, as JSON lines. Repeatable.",
            "FILE",
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        option(
            "Exit with 1 unless the interval of the pairwise accuracy begins at X or above.",
            "X",
        ),
    ] = None,
    labels: Labels = None,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    tools: Tools = None,
    max_record: MaxRecord = 512,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Compare scores with labels, or two judges with each other.

    Intervals are bootstrapped over groups. Of two judges the pairwise accuracy decides: its difference is
    significant if the interval leaves out 0. With labels of some rollouts and scores of all, means are corrected:
    what labels show of the judge holds for all. Groups of equal rollouts count once.

    \b
    Example:
      ruler agree scored.jsonl --labels metadata.passed
      ruler agree scored.jsonl --labels-file labels.jsonl

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or are in one file
    only; 2 bad usage, unreadable input, or nothing to compare. With --labels-file records without a label are
    normal, and 1 means that some label is of no rollout with a score. With --at-least 1 means that the judge
    did not show it, and nothing else.
    """
    with running(ctx, source, second) as options:
        return _run(options, [one for one in (source, second) if one is not None])


def _run(options: Options, sources: list[str]) -> int:
    from ruler_cli.results.label_agreement import gate

    bound = options.at_least
    if len(sources) == 2 and bound is not None:
        raise UsageError(
            "is about one judge", "give one file", place=f"--at-least {bound}"
        )
    with ExitStack() as stack:
        try:
            scored = ScoredFiles(sources, options, stack)
        except UnknownShapeError as error:
            if _of_labels(error.values):
                name = "name it with --labels-file"
                problem = "holds labels, and no scores"
                raise UsageError(problem, name, place=error.place) from None
            raise
        figures, agreement = _measured(options, scored, stack)
        scored.report_problems()
    agreement["gate"] = None if bound is None else gate(agreement, bound)
    pairs = zip(scored.heads, scored.files, strict=True)
    inputs = [_input(head, file) for head, file in pairs]
    if options.as_json:
        scored.problems.print_json({"inputs": inputs, **agreement})
        if bound is not None and not agreement["gate"]["passed"]:
            from ruler_cli.cli.agree_view import verdicts

            print_note(*(words for _, words in verdicts(agreement["gate"])))
    elif len(inputs) > 1 and not options.labels_file:
        from ruler_cli.cli.report_view import view_of
        from ruler_cli.cli.terminal import Terminal

        names = [one["source"] for one in inputs]
        view_of(scored.reading, names, figures).show(Terminal())
    else:
        from ruler_cli.cli.agree_view import show

        show(inputs, agreement)
    if bound is not None:
        return 0 if agreement["gate"]["passed"] else 1
    people = agreement["label_files"]
    if people:
        unscored = people["left_out"]
        left = f"{count(unscored, 'label')} without a score" if unscored else ""
    else:
        counts = {name: sum(one[name] for one in inputs) for name in LEFT_OUT}
        left = left_out_words(counts)
    if left:
        print_note(f"{left}: not measured, so the exit code is 1")
    return 1 if scored.problems.number or left else 0


def _of_labels(records: Sequence[Any]) -> bool:
    """Tell if the first record is a label: the option that names such a file is easily forgotten."""
    first = records[0] if records else None
    return (
        type(first) is dict and "group" in first and bool({"choice", "mark"} & {*first})
    )


def _measured(
    options: Options, scored: ScoredFiles, stack: ExitStack
) -> tuple[Any, Agreement]:
    """Read the files, and return their figures and the agreement; UsageError if there is nothing to compare."""
    from ruler_cli.results.label_agreement import LabelAgreement
    from ruler_cli.results.labels import Labels as LabelFiles

    names = options.labels_file
    labels = LabelFiles.read(names, option="--labels-file") if names else None
    second = len(scored.files) > 1
    measure = LabelAgreement(
        labels,
        *("A", "B") if second else ("score",),
        given=options.labels is not None,
    )
    stack.callback(measure.close)
    for group in scored.groups(measure.keep):
        sides = (group.one, group.other) if second else (group.one,)
        measure.add(group.kept, *sides)
    paired = scored.reading.paired if second else None
    agreement = measure.agreement(paired)
    if second and not labels:
        scored.reading.agreement = agreement
    figures = scored.figures()
    if number := agreement["repeated"]["groups"]:
        print_note(_repeated(number, agreement["repeated"]))
    left = [_left_out(label, scored.names) for label in measure.left]
    _refuse_empty(agreement, scored.files[0], left)
    for sentence in left:
        scored.problems.add(sentence)
    agreement["labels"] |= {"path": options.labels, "files": [*names]}
    return figures, agreement


def _repeated(number: int, repeated: _Json) -> str:
    """Say how many groups stand more than once, and of how many the mean counts."""
    differ = [
        f"of {repeated[name]} of them the {name} differ, and the mean counts"
        for name in ("scores", "labels")
        if repeated[name]
    ]
    words = f"{count(number, 'group')} with equal rollouts, each counted once"
    return "; ".join([f"more than once: {words}", *differ])


def _left_out(label: Sequence[str], names: str) -> str:
    """Say that a label is of no rollout in the files."""
    group, *rollouts = label
    which = " and ".join(rollouts)
    return f"label of {which} in group {group!r}: no such rollout in {names}"


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


def _refuse_empty(agreement: Agreement, file: ScoredFile, left: Sequence[str]) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out.

    `left` are sentences on labels of no rollout.
    """
    labelled = any(one["pairs"] for one in agreement["scorers"])
    both = agreement["correlation"]
    corrected = agreement["corrected"] and agreement["corrected"]["mean"]
    if labelled or corrected or (both and both["value"] is not None):
        return
    counts = file.figures.rollouts
    people = agreement["label_files"]
    reason = "all labels within each group are equal"
    if not counts["scored"]:
        reason = "no rollout has a score"
    elif people:
        reason = _no_pairs(people, left)
    elif not counts["labelled"]:
        reason = "no rollout has a usable label"
    remedy = "name labels with --labels PATH or --labels-file FILE"
    if reason in left[:1]:
        remedy = "give the file whose rollouts were labelled, scored again or not"
    raise UsageError(f"nothing to compare: {reason}", remedy, place=file.name)


def _no_pairs(people: _Json, left: Sequence[str]) -> str:
    """Say why labels of people give no pair that one of them is better in."""
    if people["unscored"]:
        return "no labelled rollout has a score"
    if left and not people["equal"] + people["unsure"]:
        return left[0]
    return "no label says that one rollout is better than another"
