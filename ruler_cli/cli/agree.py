"""`ruler agree SCORED`: scores against labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from ruler_cli.cli import agree_view
from ruler_cli.cli.command import running
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import (
    RECORD_OPTIONS,
    RECORD_SETTINGS,
    Scored,
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
) -> int:
    """Compare scores with labels.

    Intervals are bootstrapped over groups. With labels of some rollouts and scores of all, means are corrected:
    what labels show of the judge holds for all. Groups of equal rollouts count once. `ruler compare A B`
    compares two judges.

    \b
    Example:
      ruler agree scored.jsonl --labels metadata.passed
      ruler agree scored.jsonl --people labels.jsonl

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label; 2 bad usage,
    unreadable input, or nothing to compare. With --people records without a label are normal, and 1 means
    that some label is of no rollout with a score. With --at-least 1 means that the judge did not show it,
    and nothing else.
    """
    with running(ctx, source) as options:
        return _run(options, source)


def _run(options: Options, source: str) -> int:
    from ruler_cli.results.label_agreement import gate

    bound = options.at_least
    with ExitStack() as stack:
        try:
            scored = ScoredFiles([source], options, stack)
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
        agreement = _measured(options, scored)
        scored.report_problems()
    agreement["gate"] = None if bound is None else gate(agreement, bound)
    page = {"inputs": [_input(scored)], **agreement}
    if options.as_json:
        scored.problems.print_json(page)
    else:
        agree_view.show(page)
    if bound is not None:
        if options.as_json and not agreement["gate"]["passed"]:
            print_note(agree_view.verdict(agreement["gate"]))
        return 0 if agreement["gate"]["passed"] else 1
    left = left_out_words(page["inputs"][0])
    if options.people:
        unscored = agreement["labelled"]["unscored"]
        left = f"{count(unscored, 'label')} without a score" if unscored else ""
    if left:
        print_note(f"{left}: not measured, so the exit code is 1")
    return 1 if scored.problems.number or left else 0


def _measured(options: Options, scored: ScoredFiles) -> Agreement:
    """Read the file, and measure its agreement with labels; UsageError if there is nothing to compare."""
    from ruler_cli.results.identity import rollout_ids
    from ruler_cli.results.label_agreement import LabelAgreement
    from ruler_cli.results.labels import read_labels

    files = [*options.people]
    measure = LabelAgreement(
        read_labels(files) if files else None,
        of_records=options.labels is not None,
    )
    for group in scored.groups(rollout_ids):
        measure.add(group.kept, group.first)
    if measure.repeated:
        groups = count(measure.repeated, "group")
        print_note(
            f"{groups} with the rollouts of another one, not counted again"
        )
    left = []
    for group, *rollouts in measure.left:
        label = f"label of {' and '.join(rollouts)} in group {group!r}"
        left.append(f"{label}: no such rollout in {scored.names}")
    agreement = measure.agreement()
    _refuse_empty(agreement, scored.files[0], left)
    for sentence in left:
        scored.problems.add(sentence)
    return {"labels": {"path": options.labels, "files": files}, **agreement}


def _input(scored: ScoredFiles) -> dict[str, Any]:
    """Return what the file is, and the counts of its values."""
    figures = scored.files[0].figures
    counts = {name: figures.rollouts[name] for name in _COUNTS}
    return {
        **scored.heads[0],
        "judges": [*figures.words["judges"].listed()],
        "groups": figures.groups["all"],
        "rollouts": figures.rollouts["all"],
        **counts,
    }


def _refuse_empty(
    agreement: Agreement, file: ScoredFile, left: Sequence[str]
) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out.

    `left` are sentences on labels of no rollout.
    """
    labelled = any(scorer["pairs"] for scorer in agreement["scorers"])
    if labelled or agreement["corrected"]:
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
