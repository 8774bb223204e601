"""`ruler trend STEP…`: the scored files of the steps of a training, read one after another, and what drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import (
    RECORD_OPTIONS,
    RECORD_SETTINGS,
    ScoredSteps,
    takes,
)
from ruler_cli.cli.progress import group_counter
from ruler_cli.cli.report import refuse_page_options, shown
from ruler_cli.cli.safe_text import shell_word
from ruler_cli.cli.scored_files import FileProblems, print_written, warn
from ruler_cli.cli.sentences import Fact, judges
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import count, short
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.results.report.page import (
    TREND_SCRIPTS,
    TREND_STYLES,
    HtmlFile,
    compact,
    source_name,
)
from ruler_cli.results.trend import (
    FALSE_ALARMS,
    Drift,
    Trend,
    TrendStep,
    step_numbers,
)
from ruler_cli.scoring.drift import LEAST
from ruler_cli.settings.options import Options
from ruler_cli.types import shorten

LEAST_STEPS = 3
_NAME = 26
"""Characters of the name of a judge in a sentence."""
_COLUMN = 9
"""The width of a column of the table."""
_ORIGINS = {
    "name": "by the number in their names",
    "order": "in the order of the command line: no number in their names orders them",
}
_NOTES = {
    "same files": ("same_as", "holds the groups of step {}: no test counts it"),
    "judge changes": ("differs", "not the same {} as in the first step"),
    "no scores": ("reason", "{}"),
}
_MOVED = {
    "label": ("the mean score", "the mean {label}"),
    "held_out": ("the mean of {0}", "the mean of {1}"),
    "length": ["the size of the correlation of score and length within groups"],
    "size": ["the mean length in bytes"],
}
"""The quantities that a drift moves, by its kind."""
_TESTS = {
    "label": "score and reward",
    "held_out": "held-out judge",
    "length": "score and length",
    "size": "length",
}


def _three(number: float) -> str:
    return f"{number:z.3f}" if abs(number) < 100 else f"{number:,.0f}"


_MEASURES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "score": ("score", "mean", _three),
    "reward": ("label", "mean", _three),
    "order": ("against_label", "accuracy", "{:.0%}".format),
    "r len": ("with_length", "score", "{:+z.2f}".format),
    "spread": ("spread", "median", _three),
    "bytes": ("bytes", "mean", short),
    "tied": ("groups", "tied", str),
    "cut": ("rollouts", "truncated", str),
    "suspect": ("rollouts", "suspect", str),
    "unscored": ("rollouts", "failed", str),
}
"""The place and the form of each quantity of a step, by its head in the table."""


@takes(
    "page",
    "force",
    "as_json",
    "labels",
    *RECORD_OPTIONS,
    settings=RECORD_SETTINGS,
)
def command(ctx: typer.Context, sources: ScoredSteps) -> int:
    """Show the scored files of a training, step by step.

    \b
    Example:
      ruler trend step-*.jsonl
      ruler trend step-*.jsonl -o trend.html

    Exit codes: 0 done; 1 some lines could not be read, or a step has no scores; 2 bad usage, unreadable
    input, or no annotations of ruler.
    """
    with running(ctx, *sources) as options:
        return shown(_show_trend, options, sources)


def _show_trend(
    options: Options, sources: Sequence[str], stack: ExitStack
) -> FileProblems:
    """Show the trend on stdout, or write it to a page; return what is left out."""
    if len(sources) < LEAST_STEPS:
        raise UsageError(
            "a trend needs three files or more",
            "use `ruler compare A B` for two, `ruler report SCORED` for one",
        )
    refuse_page_options(options)
    file = None
    if options.page is not None:
        file = HtmlFile(stack, options.page, sources, force=options.force)
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
    return problems


def _read_trend(
    options: Options, sources: Sequence[str], problems: FileProblems
) -> Trend:
    """Read the files one after another; UsageError if one cannot be read, or none has scores."""
    names = [Location(source).public for source in sources]
    numbers, origin = step_numbers(names)
    steps = []
    for source, name, number in zip(sources, names, numbers, strict=True):
        step = TrendStep(name, number)
        with ExitStack() as stack, group_counter() as bar:
            file = problems.open(source, options, stack)
            step.read(file, bar.update)
            warn(file)
        if step.reason:
            problems.add(f"{source_name(name)}: {step.reason}")
        steps.append(step)
    problems.close()
    if all(step.reason for step in steps):
        remedy = f"see why with `ruler report {shell_word(names[0])}`"
        raise UsageError("no file has a score", remedy)
    return Trend(steps, origin)


class TrendView:
    """A trend on the terminal and as the data of its page; `labels` is the user's path of the labels."""

    def __init__(self, trend: Trend, labels: str | None) -> None:
        self._trend = trend
        self._label = "original reward" if labels is None else f"`{labels}`"
        steps = trend.steps
        between = f"steps {_number(steps[0].step)} to {_number(steps[-1].step)}"
        files = count(len(steps), "file")
        self._found = f"{files}, {between}, {_ORIGINS[trend.origin]}"
        judged = next(step for step in steps if not step.reason)
        self._judges = judges(judged.file.figures(lambda _: {}))
        self._json = trend.as_json()

    @property
    def heading(self) -> str:
        """The result in a sentence."""
        steps = count(len(self._trend.steps), "step")
        if not any(test.runs for test in self._trend.tests):
            few = f"Drift cannot be tested in {steps}: {LEAST} with scores are needed"
            return f"{few}, judged alike, with rewards, a second judge or answers of several lengths"
        drifts = "No drift"
        if self._trend.drifts:
            drifts = count(len(self._trend.drifts), "drift")
        return f"{drifts} beyond chance in {steps}"

    def findings(self) -> Iterator[Fact]:
        """Yield what is to know of the steps, what drifts, and what was tested, each with a name."""
        trend = self._trend
        for name, (key, words) in _NOTES.items():
            noted = [step for step in trend.steps if getattr(step, key)]
            for step in noted[:1]:
                note = words.format(getattr(step, key))
                file = source_name(step.source)
                if len(noted) > 1:
                    note += f"; and {count(len(noted) - 1, 'more step')}"
                yield name, f"step {_number(step.step)} ({file}): {note}"
        if trend.left_out:
            steps = count(trend.left_out, "step")
            words = f"{steps} not judged as the first: no test counts them"
            yield "judged apart", words
        drifts = {drift.kind: drift for drift in trend.drifts}
        for test in trend.tests:
            words = f"{LEAST} steps with scores are needed"
            if test.kind in drifts:
                words = self._sentence(drifts[test.kind])
            elif test.runs:
                words = "within chance"
            yield _TESTS[test.kind], words
        if all(test.kind in ("length", "size") for test in trend.tests):
            remedy = (
                "name labels with --labels PATH, or score with a second judge"
            )
            yield "no rewards", remedy
        yield (
            "false alarms",
            f"in at most {FALSE_ALARMS:.0%} of trainings in which nothing drifts, if the noise of a step hardly "
            "depends on that of the step before; up to 30% were measured where it does",
        )

    def _sentence(self, drift: Drift) -> str:
        """Say what moved, since when, and how to look into it."""
        panel = [shorten(name, _NAME) for name in self._trend.panel]
        moved = []
        levels = drift.levels.values()
        form = short if drift.kind == "size" else _three
        for words, ends in zip(_MOVED[drift.kind], levels, strict=True):
            before, after = map(form, ends)
            verb = "rose" if ends[1] > ends[0] else "fell"
            change = f"{verb} from {before} to {after}"
            if before == after:
                change = f"hardly moved from {before}"
            moved.append(f"{words.format(*panel, label=self._label)} {change}")
        sources = {step.step: step.source for step in self._trend.steps}
        source = shell_word(source_name(sources[drift.step]))
        return (
            f"{', '.join(moved)}; beyond chance at step {_number(drift.step)}, since about step "
            f"{_number(drift.since)} (ruler report {source})"
        )

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        trend = compact(self._json)
        names = [source_name(step.pop("source")) for step in trend["steps"]]
        findings = [*self.findings()]
        columns = self._columns()
        return {
            "source": f"{names[0]} to {names[-1]}",
            "left_out": "",
            "found": self._found,
            "judged": self._judges,
            "heading": self.heading,
            "findings": findings,
            "facts": [("result", self.heading), *findings],
            "label": self._label,
            "trend": trend,
            "table": {
                "head": [*columns],
                "rows": [*zip(*columns.values(), strict=True)],
            },
        }

    def _columns(self) -> dict[str, list[str]]:
        """Return the cells of each quantity that some step has, by its head; a count only if it is not 0 in each.

        A mark is at the steps at which something drifts.
        """
        drifting = {drift.step for drift in self._trend.drifts}
        columns: dict[str, list[str]] = {"step": []}
        for step in self._trend.steps:
            mark = " !" if step.step in drifting else ""
            columns["step"].append(_number(step.step) + mark)
        for head, (group, name, form) in _MEASURES.items():
            values = [
                (step[group] or {}).get(name) for step in self._json["steps"]
            ]
            if any(isinstance(value, float) or value for value in values):
                columns[head] = [
                    "–" if value is None else form(value) for value in values
                ]
        return columns

    def show(self, terminal: Terminal) -> None:
        """Write the page to the terminal, with the first quantities that fit."""
        facts = [("trend", self._found), ("judge", self._judges)]
        terminal.show(terminal.facts(facts))
        findings = terminal.facts(self.findings())
        terminal.section(findings, title=self.heading)
        columns = self._columns()
        heads = [*columns][: terminal.width // _COLUMN]
        cells = [columns[head] for head in heads]
        table = terminal.numbers(heads, zip(*cells, strict=True))
        terminal.section(table)


def _number(step: float) -> str:
    return f"{step:.15g}"
