"""A trend → a page on a terminal, and the data of a page for a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from rich.table import Column
from rich.text import Text

from ruler_cli.cli.safe_text import shell_word
from ruler_cli.cli.sentences import Fact, judges
from ruler_cli.cli.terminal import TITLE, Terminal
from ruler_cli.cli.units import count, short, shorten
from ruler_cli.results.report.page import compact, source_name
from ruler_cli.results.trend import FALSE_ALARMS, Drift, Trend
from ruler_cli.scoring.drift import LEAST

_NAME = 26
"""Characters of the name of a judge in a sentence."""
_COLUMN = 9
"""The width of a column of the table."""
_TOLD = 4
"""Steps of which a note is told."""
_ORIGINS = {
    "name": "by the number in their names",
    "field": "by the step in their records",
    "order": "in the order of the command line: neither a number in their names nor a step in their records tells "
    "them apart",
}
_NOTES = {
    "same files": ("same_as", "holds the groups of step {}: no test counts it"),
    "judge changes": ("differs", "not the same {} as before"),
    "no scores": ("reason", "{}"),
}
_LENGTH = "the size of the correlation of score and length within groups"
_TESTS = {
    "label": ("score and reward", "the mean score", "the mean {0}"),
    "held_out": ("held-out judge", "the mean of {1}", "the mean of {2}"),
    "length": ("length", _LENGTH),
}
"""The name of each test, and the names of its levels."""


def _three(number: float) -> str:
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.3g}"


_MEASURES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "score": ("score", "mean", _three),
    "reward": ("label", "mean", _three),
    "order": ("against_label", "accuracy", "{:.0%}".format),
    "r len": ("with_length", "score", "{:+.2f}".format),
    "spread": ("spread", "median", _three),
    "bytes": ("bytes", "mean", short),
    "tied": ("groups", "tied", str),
    "cut": ("rollouts", "truncated", str),
    "suspect": ("rollouts", "suspect", str),
    "unscored": ("rollouts", "failed", str),
}
"""The place and the form of each quantity of a step, by its head in the table."""


class TrendView:
    """A trend; `labels` is the user's path of the labels."""

    def __init__(self, trend: Trend, labels: str | None) -> None:
        self._trend = trend
        self._label = "original reward" if labels is None else f"`{labels}`"
        self._running = [one.kind for one in trend.tests if one.runs]
        first, *_, last = (_number(one.step) for one in trend.steps)
        files = count(len(trend.steps), "file")
        self._found = f"{files}, steps {first} to {last}, {_ORIGINS[trend.origin]}"
        figures = (one.figures for one in trend.steps if not one.reason)
        self._judges = judges(next(figures))

    @property
    def heading(self) -> str:
        """The result in a sentence."""
        drifts = len(self._trend.drifts)
        steps = count(len(self._trend.steps), "step")
        if not self._running:
            few = f"Nothing can be told yet of {steps}: {LEAST} with scores are needed"
            return f"{few}, judged alike, with rewards, a second judge or answers of several lengths"
        if not drifts:
            return f"No drift beyond chance was found in {steps}"
        finds = "finds" if drifts == 1 else "find"
        tests = count(len(self._running), "test")
        return f"{drifts} of {tests} {finds} a drift beyond chance in {steps}"

    def findings(self) -> Iterator[Fact]:
        """Yield what is to know of the steps, what drifts, and what was tested, each with a name."""
        trend = self._trend
        for name, (key, words) in _NOTES.items():
            told = [
                f"step {_number(one.step)} ({source_name(one.source)}): {words.format(text)}"
                for one in trend.steps
                if (text := getattr(one, key)) not in (None, "")
            ]
            more = len(told) - _TOLD
            for sentence in told[:_TOLD]:
                yield name, sentence
            if more > 0:
                yield name, f"and {count(more, 'more step')}"
        ways = [shorten(name, _NAME) for name in trend.ways.values()]
        if len(ways) > 1:
            yield (
                "judged apart",
                f"each is a series of its own, and no test runs across them: {'; '.join(ways)}",
            )
        for drift in trend.drifts:
            yield _TESTS[drift.kind][0], self._sentence(drift)
        drifting = {one.kind for one in trend.drifts}
        kinds = {one.kind: _TESTS[one.kind][0] for one in trend.tests}
        early = [kinds.pop(kind) for kind in [*kinds] if kind not in self._running]
        quiet = [name for kind, name in kinds.items() if kind not in drifting]
        yield "within chance", ", ".join(quiet)
        if early:
            sentence = f"{', '.join(early)}: {LEAST} steps with scores are needed"
            yield "not tested yet", sentence
        if {one.kind for one in trend.tests} <= {"length"}:
            yield (
                "no rewards",
                "name labels with --labels PATH, or score with a second judge",
            )
        if self._running:
            yield (
                "false alarms",
                f"in at most {FALSE_ALARMS:.0%} of trainings in which nothing drifts, if noise hardly follows itself "
                "from step to step; up to 30% were measured where it does",
            )

    def _sentence(self, drift: Drift) -> str:
        """Say what moved, since when, and how to look into it."""
        words = self._label, *(shorten(name, _NAME) for name in self._trend.panel)
        moved = [f"judged by {shorten(drift.judged, _NAME)}"] * bool(drift.judged)
        for name, (before, after) in zip(
            _TESTS[drift.kind][1:], drift.levels.values(), strict=True
        ):
            verb = "rose" if after > before else "fell"
            ends = f"from {_three(before)} to {_three(after)}"
            moved.append(f"{name.format(*words)} {verb} {ends}")
            explained = drift.slope * (after - before)
        if drift.kind != "length":
            part = f"{explained:+.3f}" if explained > 0 else "none"
            moved.append(f"which explains {part} of it")
        at, since = _number(drift.step), _number(drift.since)
        steps = self._trend.steps
        source = next(one.source for one in steps if one.step == drift.step)
        look = f"ruler report {shell_word(source_name(source))}"
        return f"{', '.join(moved)}; beyond chance at step {at}, since about step {since} ({look})"

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        trend = compact(self._trend.as_json())
        names = [source_name(one.pop("source")) for one in trend["steps"]]
        findings = [*filter(itemgetter(1), self.findings())]
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
        drifting = {one.step for one in self._trend.drifts}
        steps = self._trend.as_json()["steps"]
        numbers = [one["step"] for one in steps]
        columns = {"step": [_number(one) + " !" * (one in drifting) for one in numbers]}
        for head, (group, name, form) in _MEASURES.items():
            values = [(one[group] or {}).get(name) for one in steps]
            if any(isinstance(value, float) or value for value in values):
                columns[head] = ["–" if one is None else form(one) for one in values]
        return columns

    def show(self, terminal: Terminal) -> None:
        """Write the page to the terminal, with the first quantities that fit."""
        facts = [("trend", self._found), ("judge", self._judges)]
        terminal.show(terminal.facts(facts), "", Text(self.heading, TITLE))
        terminal.show(terminal.facts(self.findings()), "")
        columns = [*self._columns().items()][: terminal.width // _COLUMN]
        heads = [Column(head, justify="right", no_wrap=True) for head, _ in columns]
        heads[0].justify = "left"
        rows = zip(*(cells for _, cells in columns), strict=True)
        terminal.show(terminal.table(heads, rows))


def _number(step: float) -> str:
    return f"{step:.15g}"
