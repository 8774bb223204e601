"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli import options, scored
from ruler_cli.cli.console import safe, safe_value, say, told
from ruler_cli.cli.problems import Problems
from ruler_cli.errors import UsageError
from ruler_cli.settings import InputSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from ruler_cli.agreement.measure import Agreement
    from ruler_cli.agreement.scored import Scored


def command(
    source: scored.Scored,
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCORED2]", help="The same input scored by another judge.", show_default=False
        ),
    ] = None,
    labels: scored.Labels = None,
    group_by: options.GroupBy = None,
    messages: options.Messages = None,
    prompt: options.Prompt = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    as_json: scored.AsJson = False,
) -> None:
    """Measure how well scores agree with labels, or compare two judges on the same rollouts.

    Intervals are bootstrapped over groups. Judges that chance may have put in order are not ranked.

    Example: ruler agree scored.jsonl --labels metadata.passed

    Exit codes: 0 measured; 1 measured, but some rollouts have no score or no label, or stand in one
    file only; 2 bad usage, unreadable input, or nothing to compare.
    """
    with told():
        if source == second == "-":
            raise UsageError("SCORED and SCORED2: only one of them can be stdin; give a file for the other")
        where = [
            InputSettings(one, format_, grouping, group_by, None, messages, labels, "--labels", prompt=prompt)
            for one in (source, second)
            if one is not None
        ]
        fine = _agree(where, as_json=as_json)
        raise typer.Exit(0 if fine else 1)


def _agree(where: list[InputSettings], *, as_json: bool) -> bool:
    """Print what was measured; false if some rollouts could not be."""
    from contextlib import ExitStack

    from ruler_cli.agreement.measure import measure, measure_two

    problems = Problems(quiet=as_json)
    with ExitStack() as stack:
        stack.push(problems.left)
        files = [_File(one, problems, stack, digests=len(where) == 2) for one in where]
        if len(files) == 1:
            found = measure(files[0].groups(), "score")
        else:
            found = measure_two(files[0].groups(), files[1].groups(), problems.tell)
        for file in files:
            file.doubt()
        _refuse_empty(found, files)
        page = {"version": 1, "inputs": [file.as_json() for file in files], **found}
        page["labels"]["path"] = where[0].outcome
    problems.close()
    _show(page | {"problems": problems.number, "first_problems": problems.first}, as_json=as_json)
    return not problems.number and all(file.complete for file in files)


def _show(page: dict[str, Any], *, as_json: bool) -> None:
    from ruler_cli.cli.agree_page import lines

    if not as_json:
        for line in lines(page):
            typer.echo(safe(line).replace("\n", "\\n").replace("\t", "\\t"))
        return
    import orjson

    typer.echo(orjson.dumps(safe_value(page), option=orjson.OPT_INDENT_2))


class _File:
    """One scored file, ready to be read."""

    def __init__(self, where: InputSettings, problems: Problems, stack: ExitStack, *, digests: bool) -> None:
        from ruler_cli.agreement.scored import Extract
        from ruler_cli.files.remote import public
        from ruler_cli.files.source import shown
        from ruler_cli.reading import open_input

        self.name, self._labels, self._public = shown(where.source), where.outcome, public(where.source)
        self._input = open_input(where, stack, lambda problem: problems.problem(self.name, problem))
        if self._input.reader is None:
            raise UsageError(f"{self.name}: holds no records; give a file that `ruler score` wrote")
        self._extract = Extract(self._input.reader, given=where.outcome is not None, digests=digests)
        self.seen = self._extract.seen

    def groups(self) -> Iterator[Scored]:
        """Each group as it is measured."""
        return map(self._extract.group, self._input.groups)

    @property
    def complete(self) -> bool:
        """Whether every rollout has a score and a label."""
        from ruler_cli.agreement.scored import LEFT_OUT

        return not any(self.seen[name] for name in LEFT_OUT)

    def doubt(self) -> None:
        """UsageError if the file was never scored; a warning if labels may be what ruler wrote."""
        from ruler_cli.marked.read import doubt, refuse_unmarked

        refuse_unmarked(self.name, self.seen["rollouts"], self.seen["unmarked"])
        if said := doubt(self._labels, self.seen["own_labels"], self.seen["scored"]):
            say(f"ruler: warning: {said}")

    def as_json(self) -> dict[str, Any]:
        """What the file is, and what was seen in it."""
        from ruler_cli.agreement.scored import COUNTS

        names = {"source": self._public, "found": self._input.found(), "judges": list(self._extract.names)}
        return names | {name: self.seen[name] for name in COUNTS}


def _refuse_empty(found: Agreement, files: list[_File]) -> None:
    """UsageError where there is nothing to compare, with the reason and the way out."""
    told = [
        scorer[name] for scorer in found["scorers"] for name in ("pairwise_accuracy", "auc") if name in scorer
    ]
    told += [pair["scores"] for pair in found["correlations"]]
    if any(figure["value"] is not None for figure in told):
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
