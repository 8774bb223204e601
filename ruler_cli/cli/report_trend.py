"""`ruler report A B C…`: the scored files of the steps of a training, read one after another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ruler_cli.cli.progress import group_counter
from ruler_cli.cli.safe_text import shell_word
from ruler_cli.cli.scored_files import FileProblems, print_written, warn
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.trend_view import TrendView
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.results.report.page import (
    TREND_SCRIPTS,
    TREND_STYLES,
    HtmlFile,
    source_name,
)
from ruler_cli.results.trend import Trend, TrendStep, Ways, step_numbers
from ruler_cli.settings.option_names import option_name
from ruler_cli.settings.options import Options


def report_trend(
    options: Options, sources: Sequence[str], page: str | None, stack: ExitStack
) -> bool:
    """Show the trend of three files or more on stdout, or write it to a `page`; tell if something is left out."""
    _refuse(options, sources)
    file = None
    if page is not None:
        file = HtmlFile(stack, page, sources, force=options.force)
    problems = FileProblems()
    trend = _read_trend(options, sources, problems)
    view = TrendView(trend, options.labels)
    if file is not None:
        size = file.write(view.data(), (TREND_SCRIPTS, TREND_STYLES))
        print_written(count(len(sources), "step"), size, file.target)
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
            option = f"{option_name(name)} {value}"
            raise UsageError("is not for a trend", remedy, place=option)
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


def _read_trend(
    options: Options, sources: Sequence[str], problems: FileProblems
) -> Trend:
    """Read the files one after another; UsageError if no file has scores, or none a label at the user's path."""
    names = [Location(source).public for source in sources]
    numbers, origin = step_numbers(names)
    steps = [*map(TrendStep, names, numbers)]
    ways = Ways()
    errors = []
    # the first step says which of two judges is the training judge
    for i in sorted(range(len(steps)), key=numbers.__getitem__):
        try:
            with ExitStack() as stack, group_counter() as bar:
                file = problems.open(sources[i], options, stack)
                steps[i].read(file, ways, bar.update)
                warn(file)
        except UsageError as error:
            errors.append(error)
            steps[i] = TrendStep(names[i], numbers[i], reason=str(error.brief))
    judged = [step for step in steps if not step.reason]
    if not judged:
        remedy = f"see why with `ruler report {shell_word(names[0])}`"
        raise errors[0] if errors else UsageError("no file has a score", remedy)
    if options.labels is not None and not any(
        one.means["label"].number for one in judged
    ):
        problem = "no rollout with a score has a usable label there"
        raise UsageError(problem, place=f"--labels {options.labels}")
    if origin != "name":
        numbers, origin = step_numbers(names, [one.recorded for one in steps])
        for step, number in zip(steps, numbers, strict=True):
            step.step = number
    trend = Trend(steps, origin, ways.panel)
    for step in trend.steps:
        if step.reason:
            problems.add(f"{source_name(step.source)}: {step.reason}")
    problems.close()
    return trend
