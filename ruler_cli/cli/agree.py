"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    RECORD_OPTIONS,
    RECORD_SETTINGS,
    Scored,
    Second,
    takes,
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
    second: Second = None,
) -> int:
    """Compare scores with labels, or two judges with each other.

    Intervals are bootstrapped over groups. Of two judges the pairwise accuracy decides: its difference is
    significant if the interval leaves out 0. With labels of some rollouts and scores of all, means are corrected:
    what labels show of the judge holds for all. Groups of equal rollouts count once.

    \b
    Example:
      ruler agree scored.jsonl --labels metadata.passed
      ruler agree scored.jsonl --people labels.jsonl

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or are in one file
    only; 2 bad usage, unreadable input, or nothing to compare. With --people records without a label are
    normal, and 1 means that some label is of no rollout with a score. With --at-least 1 means that the judge
    did not show it, and nothing else.
    """
    with running(ctx, source, second) as options:
        return _run(options, [source] if second is None else [source, second])


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
            # the option that names a file of labels is easily forgotten
            first = error.values[0] if error.values else None
            if isinstance(first, dict) and first.keys() & {"choice", "mark"}:
                raise UsageError(
                    "holds labels, and no scores",
                    "name it with --people",
                    place=error.place,
                ) from None
            raise
        figures, agreement = _measured(options, scored)
        scored.report_problems()
    agreement["gate"] = None if bound is None else gate(agreement, bound)
    inputs = []
    for head, file in zip(scored.heads, scored.files, strict=True):
        inputs.append(_input(head, file))
    _show(options, scored, inputs, figures, agreement)
    if bound is not None:
        return 0 if agreement["gate"]["passed"] else 1
    left = ""
    if not options.people:
        counts = {name: sum(part[name] for part in inputs) for name in LEFT_OUT}
        left = left_out_words(counts)
    elif unscored := agreement["labelled"]["unscored"]:
        left = f"{count(unscored, 'label')} without a score"
    if left:
        print_note(f"{left}: not measured, so the exit code is 1")
    return 1 if scored.problems.number or left else 0


def _show(
    options: Options,
    scored: ScoredFiles,
    inputs: Sequence[_Json],
    figures: Any,
    agreement: Agreement,
) -> None:
    """Print the figures as JSON, as the text of two files, or as a table."""
    if options.as_json:
        scored.problems.print_json({"inputs": inputs, **agreement})
        if agreement["gate"] and not agreement["gate"]["passed"]:
            from ruler_cli.cli.agree_view import verdict

            print_note(verdict(agreement["gate"]))
    elif len(inputs) > 1 and not options.people:
        from ruler_cli.cli.report_view import view_of
        from ruler_cli.cli.terminal import Terminal

        names = [part["source"] for part in inputs]
        view_of(scored.reading, names, figures).show(Terminal())
    else:
        from ruler_cli.cli.agree_view import show

        show(inputs, agreement)


def _measured(options: Options, scored: ScoredFiles) -> tuple[Any, Agreement]:
    """Read the files, and return their figures and the agreement; UsageError if there is nothing to compare."""
    from ruler_cli.results.identity import rollout_ids
    from ruler_cli.results.label_agreement import LabelAgreement
    from ruler_cli.results.labels import Labels as LabelFiles

    files = [*options.people]
    labels = LabelFiles.read(files, option="--people") if files else None
    second = len(scored.files) > 1
    judges = ("A", "B") if second else ("score",)
    measure = LabelAgreement(
        labels, *judges, of_records=options.labels is not None
    )
    for group in scored.groups(rollout_ids):
        sides = (group.first, group.second) if second else (group.first,)
        measure.add(group.kept, *sides)
    agreement = measure.agreement(scored.reading.paired if second else None)
    agreement = {
        "labels": {"path": options.labels, "files": files},
        **agreement,
    }
    if second and not files:
        scored.reading.agreement = agreement
    figures = scored.figures()
    if measure.repeated:
        groups = count(measure.repeated, "group")
        print_note(
            f"{groups} with the rollouts of another one, not counted again"
        )
    left = []
    for group, *rollouts in measure.left:
        label = f"label of {' and '.join(rollouts)} in group {group!r}"
        left.append(f"{label}: no such rollout in {scored.names}")
    _refuse_empty(agreement, scored.files[0], left)
    for sentence in left:
        scored.problems.add(sentence)
    return figures, agreement


def _input(head: _Json, file: ScoredFile) -> dict[str, Any]:
    """Return what a file is, and the counts of its values."""
    groups = file.figures.groups
    rollouts = file.figures.rollouts
    counts = {name: rollouts[name] for name in _COUNTS}
    return {
        **head,
        "judges": [*file.figures.words["judges"].listed()],
        "groups": groups["all"],
        "rollouts": rollouts["all"],
        **counts,
    }


def _refuse_empty(
    agreement: Agreement, file: ScoredFile, left: Sequence[str]
) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out.

    `left` are sentences on labels of no rollout.
    """
    labelled = any(scorer["pairs"] for scorer in agreement["scorers"])
    both = agreement["correlation"]
    if (
        labelled
        or agreement["corrected"]
        or (both and both["value"] is not None)
    ):
        return
    counts = file.figures.rollouts
    labels = agreement["labelled"]
    remedy = "name labels with --labels PATH or --people FILE"
    reason = "all labels within each group are equal"
    if not counts["scored"]:
        reason = "no rollout has a score"
    elif agreement["label_files"]:
        reason = "no label says that one rollout is better than another"
        if labels["unscored"]:
            reason = "no labelled rollout has a score"
        elif left and not labels["equal"] + labels["unsure"]:
            reason = left[0]
            remedy = "give the file whose rollouts were labelled, scored again or not"
    elif not counts["labelled"]:
        reason = "no rollout has a usable label"
    raise UsageError(f"nothing to compare: {reason}", remedy, place=file.name)
