"""A trend → a page on a terminal, and the data of a page for a browser."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Column
from rich.text import Text

from ruler_cli.cli.safe_text import printable_key
from ruler_cli.cli.sentences import Fact
from ruler_cli.cli.terminal import BAD, MUTED, TITLE, Terminal
from ruler_cli.cli.units import count, short, shorten
from ruler_cli.results.report.page import compact, source_name
from ruler_cli.results.trend import FALSE_ALARMS, Drift, Trend
from ruler_cli.scoring.drift import ENOUGH, LEAST

if TYPE_CHECKING:
    from rich.console import RenderableType

_Json = Mapping[str, Any]
_BARS = "▁▂▃▄▅▆▇█"
_WIDEST, _TITLE = 48, 26
"""Bars in a line, at most, and characters of its title."""
_LINES = 24
"""Lines of bars, at most."""
_ROWS = 16
"""Steps in the table on a terminal, beside those at which something drifts."""
_TOLD = 4
"""Changes of the judge, and steps without scores, that are told."""
_ORIGINS = {
    "name": "by the number in their names",
    "field": "by the step in their records",
    "order": "in the order of the command line: neither a number in their names nor a step in their records tells "
    "them apart",
}
_TESTS = {
    "label": "score and reward",
    "held_out": "held-out judge",
    "length": "length",
    "spread": "spread",
    "suspects": "suspects",
    "unscored": "unscored",
}


def _three(number: float) -> str:
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.3g}"


def _percent(number: float) -> str:
    return f"{number:.1%}" if 0 < number < 0.01 else f"{number:.0%}"


_two = "{:.2f}".format
_signed = "{:+.2f}".format


def _at(*path: str) -> Callable[[_Json], float | None]:
    """Return a function that reads a number of a step, None if it has none."""

    def read(step: Any) -> float | None:
        for name in path:
            step = None if step is None else step[name]
        return None if step is None else float(step)

    return read


def _share(of: str, name: str, total: str = "all") -> Callable[[_Json], float | None]:
    """Return a function that reads a share of the groups or rollouts of a step."""

    def read(step: _Json) -> float | None:
        counts = step[of]
        return counts[name] / counts[total] if counts[total] else None

    return read


def _unscored(step: _Json) -> float | None:
    scored = _share("rollouts", "scored")(step)
    return None if scored is None else 1 - scored


class Measure(NamedTuple):
    """A quantity of a step: its title, its head in a narrow table (empty: not there), its form and its value.

    A `rare` one is left out if it is 0 in every step.
    """

    title: str
    head: str
    form: Callable[[float], str]
    value: Callable[[_Json], float | None]
    rare: bool = False

    def text(self, step: _Json, none: str = "") -> str:
        """Return the value as text."""
        value = self.value(step)
        return none if value is None else self.form(value)


_MEASURES = (
    Measure("mean score", "score", _three, _at("score", "mean")),
    Measure("mean reward", "reward", _three, _at("label", "mean")),
    Measure("pairs in order", "order", _percent, _at("against_label", "accuracy")),
    Measure("r with reward, in groups", "", _two, _at("against_label", "within")),
    Measure("r with reward, overall", "", _two, _at("against_label", "overall")),
    Measure("spread in groups (sd)", "spread", _three, _at("spread", "mean")),
    Measure("tied groups", "tied", _percent, _share("groups", "tied", "scored"), rare=True),
    Measure("r with length, in groups", "r len", _signed, _at("with_length", "score")),
    Measure("length (bytes)", "bytes", short, _at("bytes", "mean")),
    Measure("turns", "", "{:.1f}".format, _at("turns", "mean")),
    Measure("truncated", "cut", _percent, _share("rollouts", "truncated"), rare=True),
    Measure("aborted", "", _percent, _share("rollouts", "aborted"), rare=True),
    Measure("ended in an error", "", _percent, _share("rollouts", "error"), rare=True),
    Measure("suspect", "susp.", _percent, _share("rollouts", "suspect"), rare=True),
    Measure("without a score", "unscored", _percent, _unscored, rare=True),
)  # fmt: skip


_MOVED: Mapping[str, tuple[Callable[[float], str], Mapping[str, str]]] = {
    "label": (_three, {"score": "the mean score", "label": "the mean {label}"}),
    "held_out": (
        _three,
        {"score": "the mean of {judges[0]}", "label": "the mean of {judges[1]}"},
    ),
    "length": (
        _signed,
        {
            "score": "the correlation of score and length within groups",
            "label": "that of {label} and length",
        },
    ),
    "spread": (
        _three,
        {"spread": "the spread within groups", "tied": "the share of tied groups"},
    ),
    "suspects": (
        _percent,
        {"groups": "the share of groups with a rollout that addresses the judge"},
    ),
    "unscored": (
        _percent,
        {"groups": "the share of groups with a rollout without a score"},
    ),
}
"""The form of the levels of a drift, and what they are levels of."""


@dataclass(frozen=True)
class TrendView:
    """A trend; `judges` are those of its first step, `labels` is the user's path of the labels."""

    trend: Trend
    judges: str
    labels: str | None

    @cached_property
    def _json(self) -> dict[str, Any]:
        return self.trend.as_json()

    @property
    def _label(self) -> str:
        return "original reward" if self.labels is None else f"`{self.labels}`"

    @property
    def _found(self) -> str:
        steps = self.trend.steps
        first, last = (_number(steps[i].number) for i in (0, -1))
        origin = _ORIGINS[self.trend.origin]
        return f"{count(len(steps), 'file')}, steps {first} to {last}, {origin}"

    @property
    def heading(self) -> str:
        """The result in a sentence."""
        running = [one for one in self.trend.tests if one.runs]
        drifts = len(self.trend.drifts)
        steps = count(len(self.trend.steps), "step")
        if not running:
            return f"Nothing can be told yet of {steps}: {LEAST} with scores are needed"
        if not drifts:
            return f"No drift beyond chance was found in {steps}"
        finds = "finds" if drifts == 1 else "find"
        tests = count(len(running), "test")
        return f"{drifts} of {tests} {finds} a drift beyond chance in {steps}"

    def findings(self) -> Iterator[Fact]:
        """Yield changes of the judge, what drifts, what was tested, and what to know of it, each with a name."""
        yield from self._notes("judge changes", self._changes())
        names = [shorten(name, _TITLE) for name in self.trend.ways.values()]
        if len(names) > 1:
            yield (
                "judged apart",
                f"each is a series of its own, and no test runs across them: {'; '.join(names)}",
            )
        for drift in self.trend.drifts:
            yield _TESTS[drift.kind], self._sentence(drift)
        if self.trend.drifts:
            yield (
                "what it means",
                "something moved, whatever the reason: read groups of these steps",
            )
        drifting = {one.kind for one in self.trend.drifts}
        running = [one.kind for one in self.trend.tests if one.runs]
        most = max((len(one.steps) for one in self.trend.tests), default=0)
        if running and most < ENOUGH:
            yield (
                "too early",
                f"fewer than {ENOUGH} steps cannot show a drift beyond chance, however large: look at the numbers",
            )
        quiet = [
            _TESTS[kind] for kind in dict.fromkeys(running) if kind not in drifting
        ]
        yield "within chance", ", ".join(quiet)
        waiting = [_TESTS[one.kind] for one in self.trend.tests if not one.runs]
        if waiting:
            yield (
                "not tested yet",
                f"{', '.join(waiting)}: {LEAST} steps with scores are needed",
            )
        if running:
            each = FALSE_ALARMS / len(running)
            yield (
                "false alarms",
                f"in at most {FALSE_ALARMS:.0%} of trainings in which nothing drifts, {each:.2%} by each test, if "
                "noise is normal and hardly follows itself from step to step; 5 to 37% were measured with shares that "
                "vary more or follow themselves",
            )
        yield from self._notes("no scores", self._empty_steps())

    def _notes(self, name: str, sentences: Sequence[str]) -> Iterator[Fact]:
        """Yield the first sentences, and how many more there are."""
        for i, sentence in enumerate(sentences[:_TOLD]):
            yield "" if i else name, sentence
        if more := sentences[_TOLD:]:
            yield "", f"and {count(len(more), 'more step')}"

    def _changes(self) -> list[str]:
        return [
            f"at step {_number(one.number)}: not the same {one.differs} as before"
            for one in self.trend.steps
            if one.differs
        ]

    def _empty_steps(self) -> list[str]:
        return [
            f"step {_number(one.number)} ({source_name(one.source)}): {one.reason}"
            for one in self.trend.steps
            if one.reason
        ]

    def _sentence(self, drift: Drift) -> str:
        """Say what moved, since when, and how to look into it."""
        form, names = _MOVED[drift.kind]
        judges = self._json["steps"][drift.at]["judges"]
        words = {
            "label": self._label,
            "judges": [shorten(one["name"], _TITLE) for one in judges],
        }
        moved = [
            f"{names[name].format_map(words)} {_moved(*levels, form)}"
            for name, levels in drift.levels.items()
        ]
        if drift.judged:
            moved[0] = f"judged by {shorten(drift.judged, _TITLE)}, {moved[0]}"
        if drift.slope is not None:
            before, after = drift.levels["label"]
            explained = drift.slope * (after - before)
            part = f"{explained:+.3f}" if explained > 0 else "none"
            moved.append(f"which explains {part} of it")
        steps = self.trend.steps
        at, since = (_number(steps[i].number) for i in (drift.at, drift.since))
        look = _command(source_name(steps[drift.at].source))
        return f"{', '.join(moved)}; beyond chance at step {at}, since about step {since} ({look})"

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        names = [source_name(one.source) for one in self.trend.steps]
        trend = compact(self._json)
        for step, name in zip(trend["steps"], names, strict=True):
            step["source"] = name
        measures = self._measures()
        findings = [one for one in self.findings() if one[1]]
        drifting = self._drifting()
        return {
            "source": f"{names[0]} to {names[-1]}",
            "left_out": "",
            "found": self._found,
            "judged": self.judges,
            "heading": self.heading,
            "findings": findings,
            "facts": [("result", self.heading), *findings],
            "label": self._label,
            "trend": trend,
            "table": {
                "head": ["step", "drift", *(one.title for one in measures)],
                "rows": [
                    [
                        _number(step["step"]),
                        ", ".join(drifting.get(i, ())),
                        *(one.text(step, "–") for one in measures),
                    ]
                    for i, step in enumerate(self._json["steps"])
                ],
                "commands": [*map(_command, names)],
            },
        }

    def _drifting(self) -> dict[int, list[str]]:
        """Return the tests that find a drift, by the index of the step."""
        found: dict[int, list[str]] = {}
        for drift in self.trend.drifts:
            found.setdefault(drift.at, []).append(_TESTS[drift.kind])
        return found

    def _measures(self) -> list[Measure]:
        """Return the quantities that some step has, a rare one only if it is not 0 in each."""
        found = []
        for one in _MEASURES:
            values = [one.value(step) for step in self._json["steps"]]
            if any(value is not None and (value or not one.rare) for value in values):
                found.append(one)
        return found

    def show(self, terminal: Terminal) -> None:
        """Write the page to the terminal."""
        labels = self.labels and f"labels at {self._label}"
        facts = [
            ("trend", self._found),
            ("judge", self.judges),
            ("reward", labels or ""),
        ]
        terminal.show(terminal.facts(facts), "", Text(self.heading, TITLE))
        terminal.show(terminal.facts(self.findings()), "")
        terminal.show(self._lines(terminal), "", self._table(terminal))

    def _lines(self, terminal: Terminal) -> RenderableType:
        """Make a line of bars for each quantity, judge and criterion."""
        steps = self._json["steps"]
        rows = [
            (one.title, [one.value(step) for step in steps], one.form)
            for one in self._measures()
        ]
        for listed in ("ways", "judges", "criteria"):
            for name in {one["name"]: 0 for step in steps for one in step[listed]}:
                values = [_mean_of(step[listed], name) for step in steps]
                rows.append((shorten(name, _TITLE), values, _three))
        width = max(8, min(_WIDEST, terminal.width - _TITLE - 22))
        cells = []
        for title, values, form in rows[:_LINES]:
            known = [value for value in values if value is not None]
            ends = f"{form(known[0])} to {form(known[-1])}"
            cells.append((title, Text(bars(values, width), "cyan"), ends))
        heads = [Column(style=MUTED, no_wrap=True), Column(no_wrap=True), Column()]
        return terminal.table(heads, cells)

    def _table(self, terminal: Terminal) -> RenderableType:
        """Make a table of the steps, with the first quantities that fit; a mark is at those at which something drifts.

        Of many steps there are some, with the first and the last.
        """
        steps = self._json["steps"]
        drifting = self._drifting()
        last = len(steps) - 1
        some = [round(last * i / (_ROWS - 1)) for i in range(_ROWS)]
        rows: list[list[RenderableType]] = []
        shown = sorted({*drifting, *some})
        for i in shown:
            number = _number(steps[i]["step"])
            rows.append([Text(f"{number} !", BAD) if i in drifting else number])
        left = terminal.width - max(len(str(row[0])) for row in rows)
        heads = [Column("step", no_wrap=True)]
        for one in self._measures():
            cells = [one.text(steps[i]) for i in shown]
            if not one.head:
                continue
            left -= max(map(len, (one.head, *cells))) + 2
            if left < 0:
                break
            heads.append(Column(one.head, justify="right", no_wrap=True))
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell)
        return terminal.table(heads, rows)


def quoted(name: str) -> str:
    """Return a file's name as a word for a shell."""
    word = printable_key(name)
    if word != name:
        return word
    return shlex.quote(f"./{name}" if name.startswith("-") and name != "-" else name)


def _command(name: str) -> str:
    return f"ruler report {quoted(name)}"


def _number(step: float) -> str:
    return f"{step:.15g}"


def _mean_of(listed: Sequence[_Json], name: str) -> float | None:
    return next((one["mean"] for one in listed if one["name"] == name), None)


def _moved(before: float, after: float, form: Callable[[float], str]) -> str:
    """Say how a number moved, as far as its form shows it."""
    if form(before) == form(after):
        return f"stayed at {form(after)}"
    verb = "rose" if after > before else "fell"
    return f"{verb} from {form(before)} to {form(after)}"


def bars(values: Sequence[float | None], width: int) -> str:
    """Draw values as bars from the least to the greatest, a space for none; more than `width` as means."""
    size = -(-len(values) // width)
    means = []
    for at in range(0, len(values), size):
        part = [one for one in values[at : at + size] if one is not None]
        means.append(fmean(part) if part else None)
    known = [one for one in means if one is not None]
    least, most = min(known), max(known)
    top = len(_BARS) - 1
    return "".join(
        " "
        if one is None
        else _BARS[round(top * (one - least) / (most - least))]
        if most > least
        else _BARS[top // 2]
        for one in means
    )
