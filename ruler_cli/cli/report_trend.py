"""`ruler report A B C…`: the scored files of the steps of a training, read one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from ruler_cli.cli import sentences
from ruler_cli.cli.messages import command_words
from ruler_cli.cli.progress import group_counter
from ruler_cli.cli.scored_files import FileProblems, print_written, warn
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.trend_view import TrendView, quoted
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.results.compare import differences
from ruler_cli.results.report.page import (
    TREND_SCRIPTS,
    TREND_STYLES,
    HtmlFile,
    source_name,
)
from ruler_cli.results.trend import (
    StepBuilder,
    StepFigures,
    Trend,
    TrendStep,
    Way,
    Ways,
    step_numbers,
    step_of,
    turns_of,
)
from ruler_cli.settings.options import Options
from ruler_cli.types import rubric_text

_Json = dict[str, Any]


def report_trend(
    options: Options, sources: Sequence[str], page: str | None, stack: ExitStack
) -> bool:
    """Show the trend of three files or more on stdout, or write it to a `page`; tell if something is left out."""
    _refuse(options, sources)
    file = None
    if page is not None:
        file = HtmlFile(stack, page, sources, force=options.force)
    problems = FileProblems()
    trend, judges = _read_trend(sources, options, problems)
    for step in trend.steps:
        if step.reason:
            problems.add(f"{source_name(step.source)}: {step.reason}")
    problems.close()
    view = TrendView(trend, judges, options.labels)
    if file is not None:
        size = file.write(view.data(), (TREND_SCRIPTS, TREND_STYLES))
        print_written(count(len(trend.steps), "step"), size, file.target)
    elif options.as_json:
        problems.print_json({"labels": options.labels, **trend.as_json()})
    else:
        view.show(Terminal())
    return bool(problems.number)


def _refuse(options: Options, sources: Sequence[str]) -> None:
    """Raise UsageError for options that a trend has no use for, and for a file that is not there or named twice."""
    for name in ("group", "max_groups"):
        value = getattr(options, name)
        if value is not None:
            remedy = "give one file, or two of the same input"
            raise UsageError("is not for a trend", remedy, option=name, value=value)
    seen = set[str]()
    for source in sources:
        place = Location(source)
        real = str(place.real) if place.local else place.public
        if real in seen:
            raise UsageError("is named twice", "name it once", place=place.shown)
        seen.add(real)
        if place.local and not place.many and not Path(source).exists():
            with place.open():  # says what is wrong
                pass


@dataclass(frozen=True)
class _ReadFile:
    """A file that was read: its figures as a step, its panel of two judges, and the step that its records name.

    `ways` are the figures of its groups by the way in which they were judged.
    `run` are some of its figures as a run. Of a file that cannot be read to its end there is the `error` alone.
    """

    figures: StepFigures
    panel: Sequence[str] = ()
    step: float | None = None
    run: _Json = field(default_factory=dict)
    ways: Mapping[Way, StepFigures] = field(default_factory=dict)
    error: UsageError | None = None

    @property
    def reason(self) -> str:
        """The reason why it has no scores; empty if it has any."""
        if self.error is not None:
            return command_words(self.error.brief)
        if self.run["groups"]["scored"]:
            return ""
        if self.run["groups"]["failed"]:
            kinds = sentences.kinds(self.run)
            return f"no rollout has a score; failed groups: {kinds}"
        return "no rollout has an annotation of ruler"


def _read_file(
    source: str,
    options: Options,
    problems: FileProblems,
    bar: Any,
    panel: Sequence[str],
    ways: Ways,
    *,
    named: bool,
) -> _ReadFile:
    """Read a file; if its step is `named` by it, its records are not asked."""
    builder = StepBuilder(panel)
    builders: dict[Way, StepBuilder] = {}
    fields = set[float | None]()
    try:
        with ExitStack() as stack:
            file = problems.open(source, options, stack)
            for _, group, scored in file.read():
                way = ways.of(scored, rubric_text(group.rubric or ""))
                turns = turns_of(group, scored)
                for each in (builder, builders.setdefault(way, StepBuilder(panel))):
                    each.add(scored, turns)
                if not named and len(fields) < 2:
                    fields.update(
                        step_of(file.annotations.value(one)) for one in group.records
                    )
                bar.update()
            warn(file)
    except UsageError as error:
        return _ReadFile(StepBuilder().figures(), error=error)
    figures = file.figures.figures(lambda _: {})
    return _ReadFile(
        builder.figures(),
        builder.panel,
        fields.pop() if len(fields) == 1 else None,
        {name: figures[name] for name in _OF_RUN},
        {way: own.figures() for way, own in builders.items()},
    )


_OF_RUN = ("groups", "failed_by_kind", "judges", "passes", "made_by")


def _read_trend(
    sources: Sequence[str], options: Options, problems: FileProblems
) -> tuple[Trend, str]:
    """Read the files one after another; return the trend, and the judges of the first step with scores.

    UsageError if no file has scores, or none a label at the user's path.
    """
    names = [Location(source).public for source in sources]
    numbers, origin = step_numbers(names)
    named = origin == "name"
    read: dict[int, _ReadFile] = {}
    panel: Sequence[str] = ()
    ways = Ways()
    with group_counter() as bar:
        # the first step says which of two judges is the training judge
        for i in sorted(range(len(sources)), key=lambda i: numbers[i]):
            one = _read_file(
                sources[i], options, problems, bar, panel, ways, named=named
            )
            read[i] = one
            panel = panel or one.panel
    files = [read[i] for i in range(len(sources))]
    _refuse_empty(files, names[0], options)
    if not named:
        numbers, origin = step_numbers(names, [one.step for one in files])
    steps = []
    judges = ""
    before: _ReadFile | None = None
    in_order = sorted(zip(numbers, names, files, strict=True), key=itemgetter(0))
    for number, name, file in in_order:
        differs = ""
        if not file.reason:
            judges = judges or sentences.judges(file.run)
            differs = _changes(before, file) if before else ""
            before = file
        step = TrendStep(number, name, file.figures, file.reason, differs, file.ways)
        steps.append(step)
    return Trend(steps, origin), judges


def _changes(before: _ReadFile, file: _ReadFile) -> str:
    """Name what made scores of a file differently from those of the step before, and those of how many groups."""
    changed = differences(before.run, file.run, of_most=True)
    usual = max(before.ways, key=lambda way: _groups(before, way))
    news = [way for way in file.ways if way not in before.ways]
    names = {name for way in news for name in way.unlike(usual)}
    # the parameters' digest is of the judges' names, too
    names -= {"parameters"} if "judge" in names else set()
    changed |= {name: name in names for name in Way._fields}
    words = sentences.differing(changed)
    groups = sum(_groups(file, way) for way in news)
    every = sum(_groups(file, way) for way in file.ways)
    if not names or groups == every:
        return words
    return f"{words} in {groups} of {count(every, 'group')}"


def _groups(file: _ReadFile, way: Way) -> int:
    return int(file.ways[way].json["groups"]["all"])


def _refuse_empty(files: Sequence[_ReadFile], first: str, options: Options) -> None:
    """Raise UsageError if no file has a score, or none a label at the user's path."""
    if all(file.reason for file in files):
        for file in files:
            if file.error is not None:
                raise file.error
        remedy = f"see why with `ruler report {quoted(first)}`"
        raise UsageError("no file has a score", remedy)
    labelled = any(file.figures.pairs["label"] for file in files)
    if options.labels is not None and not labelled:
        problem = "no rollout with a score has a usable label there"
        raise UsageError(problem, option="labels", value=options.labels)
