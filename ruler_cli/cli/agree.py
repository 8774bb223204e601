"""`ruler agree SCORED [SCORED2]`: scores against labels, and two judges against one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli import options
from ruler_cli.cli.messages import safe, safe_value, say, told
from ruler_cli.cli.progress import Problems
from ruler_cli.errors import UsageError
from ruler_cli.settings import InputSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from ruler_cli.agreement.measure import Agreement
    from ruler_cli.agreement.paired import Matched
    from ruler_cli.agreement.scored import Extract, Scored
    from ruler_cli.cli.agree_page import File


def command(
    source: options.Scored,
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCORED2]", help="The same input scored by another judge.", show_default=False
        ),
    ] = None,
    labels: options.Labels = None,
    group_by: options.GroupBy = None,
    messages: options.Messages = None,
    prompt: options.Prompt = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    as_json: options.AsJson = False,
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
    from contextlib import ExitStack

    from ruler_cli.agreement.measure import measure, measure_two
    from ruler_cli.agreement.paired import Matched, paired

    problems, matched = Problems(quiet=as_json), Matched()
    with ExitStack() as stack:
        stack.push(problems.left)
        opened = [_Opened(one, problems, stack, prints=len(where) == 2) for one in where]
        if len(opened) == 1:
            result = measure(opened[0].groups(), "score")
        else:
            one, other = (file.groups() for file in opened)
            result = measure_two(paired(one, other, matched, problems.tell), ("A", "B"))
        for file in opened:
            file.refuse_unmarked()
            if doubt := file.doubt():
                say(f"ruler: warning: {doubt}")
        if result.empty:
            raise UsageError(f"{opened[0].name}: nothing to compare: {_why(opened, matched)}")
        files = [file.told() for file in opened]
    problems.close()
    _show(result, files, matched if len(files) == 2 else None, problems, as_json=as_json)
    return not problems.number and all(file.seen.complete for file in files)


class _Opened:
    """One scored file, ready to be read."""

    def __init__(self, where: InputSettings, problems: Problems, stack: ExitStack, *, prints: bool) -> None:
        from ruler_cli.agreement.scored import Extract
        from ruler_cli.files.remote import public
        from ruler_cli.files.source import shown
        from ruler_cli.reading import open_input

        self.name, self._public, self._labels = shown(where.source), public(where.source), where.outcome
        self._input = open_input(where, stack, lambda problem: problems.problem(self.name, problem))
        if self._input.reader is None:
            raise UsageError(f"{self.name}: holds no records; give a file that `ruler score` wrote")
        self.extract: Extract = Extract(self._input.reader, given=where.outcome is not None, prints=prints)

    def groups(self) -> Iterator[Scored]:
        """Each group as it is measured."""
        return map(self.extract.group, self._input.groups)

    def told(self) -> File:
        """What is told of the file."""
        from ruler_cli.cli.agree_page import File

        return File(self._public, self._input.found(), self._labels, self.extract.seen)

    def refuse_unmarked(self) -> None:
        """A file that was never scored."""
        from ruler_cli.marked.doubts import refuse_unmarked

        refuse_unmarked(self.name, 1, int(not self.extract.seen.marked))

    def doubt(self) -> str | None:
        """Whether labels may be what ruler wrote."""
        from ruler_cli.marked.doubts import doubt

        return doubt(self._labels, self.extract.seen.own_labels, self.extract.seen.scored)


def _why(opened: list[_Opened], matched: Matched) -> str:
    """Why there is nothing to compare, and the way out."""
    seen = opened[0].extract.seen
    if len(opened) == 2 and not matched.groups:
        return "the two files have no group in common; give two scored files of the same input"
    if not all(file.extract.seen.scored for file in opened):
        return "no rollout has a score; `ruler score` says why each failed, and --retry-failed asks again"
    if seen.unlabelled + seen.odd_labels == seen.rollouts:
        return "no rollout has a label that can be used; say where labels stand, with --labels PATH"
    return "no group has two scored rollouts with different labels; name other labels with --labels PATH"


def _show(
    result: Agreement, files: list[File], matched: Matched | None, problems: Problems, *, as_json: bool
) -> None:
    from ruler_cli.cli.agree_page import lines, values

    if not as_json:
        for line in lines(result, files, matched):
            typer.echo(safe(line).replace("\n", "\\n").replace("\t", "\\t"))
        return
    import orjson

    page = values(result, files, matched) | {"problems": problems.number, "first_problems": problems.first}
    out = typer.get_binary_stream("stdout")
    out.write(orjson.dumps(safe_value(page), option=orjson.OPT_INDENT_2) + b"\n")
    out.flush()
