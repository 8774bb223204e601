"""The recipe: read, choose, cut, write."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.formats.reader import Reader
from ruler_cli.marked.read import Marks
from ruler_cli.marked.values import MarkedRollout
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Group, Problem
from ruler_cli.selection.answers import Answers
from ruler_cli.selection.best import commonest, highest, widest
from ruler_cli.selection.cut import Cutter
from ruler_cli.selection.values import Keep, SelectSettings, Tally
from ruler_cli.writing import Writer, open_output, refuse_clashes


def select(
    settings: SelectSettings,
    on_found: Callable[[Input], None],
    on_problem: Callable[[Problem], None],
    on_group: Callable[[], object] = lambda: None,
) -> Tally:
    """Write what conditions hold for; UsageError where INPUT has nothing that a condition asks about.

    `on_found` is told once what INPUT is, `on_problem` each line of it that cannot be read,
    `on_group` that a group is done. Groups are read one at a time. Where an error ends it, OUTPUT is as
    it was.
    """
    source, output = settings.input.source, settings.output
    answer = settings.keep.answer if settings.keep else None
    named = [path for path in (answer, settings.input.outcome) if path is not None]
    tally = Tally()

    def unreadable(problem: Problem) -> None:
        tally.unreadable += 1
        on_problem(problem)

    refuse_clashes(source, output)
    # OUTPUT ends before INPUT is closed: what is behind the last record of a document is copied from there
    with ExitStack() as inputs, ExitStack() as outputs:
        out = open_output(source, output)
        outputs.enter_context(out)
        found = open_input(settings.input, inputs, unreadable, out.into)
        on_found(found)
        itself = output != "-" and Location(source).same(output)
        if tally.unreadable and itself:
            raise UsageError(
                f"{Location(output).shown}: is INPUT, and would lose what cannot be read; give another OUTPUT"
            )
        if found.reader is not None:
            writer = Writer(out, found.index if found.scattered else None)
            chooser, cutter = _Chooser(settings, found.reader, tally), Cutter(found.reader.format, named)
            for group in found.groups:
                kept = chooser.kept(group)
                on_group()
                try:
                    writer.write(cutter.bodies(group, kept))
                except UsageError as error:
                    raise UsageError(f"{Location(source).shown}: {error}") from None
            _refuse_missing(settings, tally, chooser.hint)
            if tally.groups and not tally.kept_groups and itself:
                raise UsageError(
                    f"{Location(output).shown}: is INPUT, and would be left with nothing, as none of its "
                    f"{tally.groups} groups is kept; give another OUTPUT"
                )
        out.commit()
    return tally


class _Chooser:
    """Which rollouts of each group are kept, counted."""

    def __init__(self, settings: SelectSettings, reader: Reader, tally: Tally) -> None:
        self._marks = Marks(reader, given=settings.input.outcome is not None, sized=False)
        self._where, self._keep, self._tally = settings.where, settings.keep, tally
        self._picky = settings.keep is not None or any(one.about_rollouts for one in settings.where)
        answer = settings.keep.answer if settings.keep else None
        self._answers = None if answer is None else Answers(reader, answer)

    def kept(self, group: Group) -> Collection[int] | None:
        """Places among the group's rollouts; None: the group is left out."""
        marked, tally = self._marks.group(group), self._tally
        tally.groups += 1
        tally.rollouts += len(marked.rollouts)
        tally.marked += marked.status != "unmarked"
        tally.scored += marked.status == "scored"
        tally.reliable += marked.reliability is not None
        tally.labelled += any(rollout.label is not None for rollout in marked.rollouts)
        tally.unlike = tally.unlike or marked.disagreement is not None
        for score in marked.scores:
            tally.least, tally.most = min(tally.least, score), max(tally.most, score)
        if not all(one.holds(marked) for one in self._where):
            return None
        rollouts = [r for r in marked.rollouts if all(one.takes(r) for one in self._where)]
        if self._picky and not marked.scores:
            tally.unscored += 1
            return None
        if self._keep is not None:
            rollouts = self._best(group, self._keep, [r for r in rollouts if r.score is not None])
        if self._picky and not rollouts:
            return None
        tally.kept_groups += 1
        tally.kept_rollouts += len(rollouts)
        return {place for rollout in rollouts for place in rollout.at}

    @property
    def hint(self) -> str:
        """What else an answer's path may be: the end of a sentence."""
        return "" if self._answers is None else self._answers.hint

    def _best(self, group: Group, keep: Keep, rollouts: list[MarkedRollout]) -> list[MarkedRollout]:
        scores = [r.score for r in rollouts if r.score is not None]
        if self._answers is not None:
            every = [(record, rollout) for record in group.records for rollout in record.rollouts]
            answers = [self._answers.of([every[place] for place in r.at]) for r in rollouts]
            found = commonest(answers, scores, keep.most)
            self._tally.asked += bool(rollouts)
            self._tally.unanswered += bool(rollouts) and not found
        else:
            found = (widest if keep.by == "variance" else highest)(scores, keep.most)
        return [rollouts[i] for i in found]


def _refuse_missing(settings: SelectSettings, tally: Tally, hint: str) -> None:
    """A condition about what no group of INPUT has is a mistake; one that none fulfils is an answer."""
    name = Location(settings.input.source).shown
    asked = {one.name for one in settings.where}
    if tally.groups and not tally.marked:
        raise UsageError(
            f"{name}: no rollout has a mark of ruler; score it first, with "
            f"`ruler score {name} scored.jsonl`, and give what that writes"
        )
    if tally.scored and "reliability" in asked and not tally.reliable:
        raise UsageError(
            f"--where reliability: no group of {name} has one, as it takes two passes to tell; score with "
            "--passes 2 or more"
        )
    if tally.scored and "disagreement" in asked and not tally.labelled:
        labels = settings.input.outcome
        where = f"at `{labels}`" if labels else "(the first original reward, or the outcome)"
        raise UsageError(
            f"--where disagreement: no rollout of {name} has a label {where} that can be used; say where "
            "labels stand, with --labels PATH"
        )
    if tally.scored and "disagreement" in asked and not tally.unlike:
        raise UsageError(
            f"--where disagreement: in no group of {name} do the labels of scored rollouts differ, so there "
            "is no order to disagree with; name other labels with --labels PATH"
        )
    if settings.keep and settings.keep.answer and tally.asked and tally.asked == tally.unanswered:
        raise UsageError(f"--answer {settings.keep.answer}: no rollout of {name} has an answer there{hint}")
