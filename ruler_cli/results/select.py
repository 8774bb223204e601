"""A scored file → the same file with fewer groups and rollouts; bytes of the rest are unchanged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Literal

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.input import Input, open_input
from ruler_cli.files.location import Location
from ruler_cli.files.output import open_output, refuse_clashes
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import Patches, read_array, span_at
from ruler_cli.formats.fields import path_of, value_at
from ruler_cli.formats.interface import Format, code, printable
from ruler_cli.results.conditions import FIGURES, Condition
from ruler_cli.results.scored_file import AnnotationReader, refuse_unannotated
from ruler_cli.results.scored_groups import ScoredRollout
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.suggestions import question, suggest_path
from ruler_cli.types import Group, Line, Path, Problem, Record, Rollout

By = Literal["variance", "score", "majority"]
_KEYS = 12
"""Keys of a record that a message names."""
_NEEDS = {
    "reliability": Sentence("as it needs two passes; score with {passes:2} or more"),
    "disagreement": Sentence(
        "as it needs two scored rollouts with different labels; name labels with {labels:PATH}"
    ),
}
"""Reasons why no group may have a figure, with the way out."""
_NOISE = 1e-12
"""Rounding of a variance, as a share of the greatest square: a smaller gain is none."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep at most so many rollouts of each group; `answer` is a dotted path, for `by` majority."""

    most: int
    by: By
    answer: str | None = None


@dataclass(slots=True)
class SelectionCounts:
    """Counts of groups and rollouts, of the input and of those that stay.

    `unscored` and `unanswered` count groups that fulfil every condition on groups but are left out, since
    none of their rollouts has a score, or an answer that votes. `have` counts groups of INPUT that have an
    `annotation`, a `score`, a figure of conditions, or `rollouts` with answers to compare. Scores lie from
    `least` to `most`. `unreadable` counts lines.
    """

    groups: int = 0
    rollouts: int = 0
    kept_groups: int = 0
    kept_rollouts: int = 0
    unscored: int = 0
    unanswered: int = 0
    unreadable: int = 0
    have: Counter[str] = field(default_factory=Counter)
    least: float = math.inf
    most: float = -math.inf


def select(
    source: InputSettings,
    output: str,
    conditions: Sequence[Condition],
    keep: Keep | None,
    *,
    on_open: Callable[[Input], None],
    on_problem: Callable[[Problem], None],
    on_group: Callable[[], object] = lambda: None,
) -> SelectionCounts:
    """Write the groups and rollouts that fulfil all conditions, and of these the ones that `keep` chooses.

    UsageError if no group of INPUT has the figure of a condition. `on_open` is called once with INPUT,
    `on_problem` with each line of it that cannot be read, `on_group` after each group. Groups are read one
    at a time. After an error OUTPUT is as it was, and nothing else is left.
    """
    name, paths = (
        Location(source.source).shown,
        (keep.answer if keep else None, source.outcome),
    )
    counts = SelectionCounts()

    def unreadable(problem: Problem) -> None:
        counts.unreadable += 1
        on_problem(problem)

    def refuse_in_place(wrong: int, why: str) -> None:
        if wrong and output != "-" and Location(source.source).same(output):
            raise UsageError(
                f"{Location(output).shown}: is INPUT, and would {why}; give another OUTPUT"
            )

    refuse_clashes(source.source, output)
    # OUTPUT ends before INPUT is closed: it copies the bytes behind the last record of a document
    with ExitStack() as inputs, ExitStack() as outputs:
        out = open_output(source.source, output, keep=False)
        outputs.enter_context(out)
        opened = open_input(
            source, inputs, unreadable, partial(out.write_as, scored=False)
        )
        on_open(opened)
        refuse_in_place(counts.unreadable, "lose what cannot be read")
        if opened.reader is not None:
            if not opened.in_order:
                out.keep_order(opened.index)
            annotations = AnnotationReader(
                opened.reader, given=source.outcome is not None, sized=False
            )
            selector = _Selector(annotations, conditions, keep, counts)
            cutter = Cutter(
                opened.reader.format, [path for path in paths if path is not None]
            )
            for group in opened.groups:
                selected = selector.select(group)
                on_group()
                try:
                    out.write(cutter.records(group, selected))
                except UsageError as error:
                    raise UsageError(f"{name}: {error}") from None
            selector.refuse_missing(name)
            refuse_in_place(
                counts.groups and not counts.kept_groups,
                f"be left with nothing, as none of its {counts.groups} groups is kept",
            )
        out.commit()
    return counts


@dataclass(slots=True)
class _Selector:
    """Chooses the rollouts of each group that stay, and counts them."""

    annotations: AnnotationReader
    conditions: Sequence[Condition]
    keep: Keep | None
    counts: SelectionCounts
    record: dict[str, Any] = field(default_factory=dict)

    def select(self, group: Group) -> Collection[int] | None:
        """Return indices among the group's rollouts; None: the group is left out."""
        scored_group, counts = self.annotations.group(group), self.counts
        scores = scored_group.scores
        counts.groups += 1
        counts.rollouts += len(scored_group.rollouts)
        counts.have["annotation"] += scored_group.status != "unmarked"
        counts.have["score"] += bool(scores)
        for name, figure in FIGURES.items():
            counts.have[name] += figure(scored_group) is not None
        counts.least, counts.most = (
            min((counts.least, *scores)),
            max((counts.most, *scores)),
        )
        if not all(one.holds(scored_group) for one in self.conditions):
            return None
        by_rollout = self.keep is not None or any(
            one.about_rollouts for one in self.conditions
        )
        if by_rollout and not scores:
            counts.unscored += 1
            return None
        rollouts = [
            r
            for r in scored_group.rollouts
            if all(one.holds_for_rollout(r) for one in self.conditions)
        ]
        if self.keep is not None:
            rollouts = self._best(
                group, self.keep, [r for r in rollouts if r.score is not None]
            )
        if by_rollout and not rollouts:
            return None
        counts.kept_groups += 1
        counts.kept_rollouts += len(rollouts)
        return {index for rollout in rollouts for index in rollout.indices}

    def _best(
        self, group: Group, keep: Keep, rollouts: list[ScoredRollout]
    ) -> list[ScoredRollout]:
        scores = [r.score for r in rollouts if r.score is not None]
        if keep.answer is None:
            best = (widest if keep.by == "variance" else highest)(scores, keep.most)
        else:
            every = [
                (record, rollout)
                for record in group.records
                for rollout in record.rollouts
            ]
            answers = [
                self._answer([every[i] for i in one.indices], keep.answer)
                for one in rollouts
            ]
            best = majority(answers, scores, keep.most)
            self.counts.have["rollouts"] += bool(rollouts)
            self.counts.unanswered += bool(rollouts) and not best
        return [rollouts[i] for i in best]

    def _answer(
        self, parts: Sequence[tuple[Record, Rollout]], path: str
    ) -> Hashable | None:
        """Return the answer of a rollout: that of its last part with one."""
        for record, part in reversed(parts):
            self.record = self.annotations.value(record)
            value = self.annotations.reader.value_at(self.record, part, path)
            if (answer := comparable(value)) is not None:
                return answer
        return None

    def refuse_missing(self, name: str) -> None:
        """Raise UsageError for a figure that no group of INPUT has; a range that holds none is no error."""
        have = self.counts.have
        if self.counts.groups:
            refuse_unannotated(
                name, self.counts.groups, self.counts.groups - have["annotation"]
            )
        for one in self.conditions:
            if have["score"] and one.name in FIGURES and not have[one.name]:
                needs = Sentence(
                    "no group of {name} has one, {needs}",
                    name=name,
                    needs=_NEEDS[one.name],
                )
                raise UsageError(needs, option="where", value=one.name)
        unanswered = have["rollouts"] and have["rollouts"] == self.counts.unanswered
        if self.keep and self.keep.answer and unanswered:
            path = self.keep.answer
            keys = ", ".join([printable(key) for key in self.record][:_KEYS])
            suggestion = printable(question(suggest_path(path, [self.record])))
            suggestion = suggestion or f"; name a path below a rollout or one of {keys}"
            problem = f"no rollout of {name} has an answer there{suggestion}"
            raise UsageError(problem, option="answer", value=printable(path))


def highest(scores: Sequence[float], most: int) -> list[int]:
    """Return the indices of the highest scores; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:most]


def widest(scores: Sequence[float], most: int) -> list[int]:
    """Return the indices of so many scores whose variance is the greatest.

    That is max-variance down-sampling (PODS, Xu et al. 2025, arXiv 2504.13818): the best choice is some of
    the lowest and the rest of the highest, so there are only `most` + 1 to compare. Of equal choices the
    one with more high scores wins, of equal scores the first.
    """
    if most >= len(scores):
        return list(range(len(scores)))
    ranked = sorted(scores)
    middle = math.fsum(ranked) / len(ranked)
    deviations = [score - middle for score in ranked]
    sums = [0.0, *accumulate(deviations)]
    squares = [0.0, *accumulate(x * x for x in deviations)]
    margin = _NOISE * max(x * x for x in deviations)
    best, lows = -math.inf, 0
    for low in range(most + 1):
        first_high = len(ranked) - (most - low)
        total = sums[low] + sums[-1] - sums[first_high]
        square = squares[low] + squares[-1] - squares[first_high]
        variance = square / most - (total / most) ** 2
        if variance > best + margin:
            best, lows = variance, low
    lowest = sorted(range(len(scores)), key=scores.__getitem__)[:lows]
    return sorted(
        (*lowest, *highest(scores, most - lows))
    )  # none twice: else there were fewer low ones


def majority(
    answers: Sequence[Hashable | None], scores: Sequence[float], most: int
) -> list[int]:
    """Return the indices of the highest scores among rollouts with the commonest answer.

    None is no answer. Of equally common answers the one with the higher mean score counts, then the first.
    """
    by_answer: dict[Hashable, list[int]] = {}

    def weight(voters: list[int]) -> tuple[int, float]:
        return len(voters), round(math.fsum(scores[i] for i in voters) / len(voters), 9)

    for i, answer in enumerate(answers):
        if answer is not None:
            by_answer.setdefault(answer, []).append(i)
    voters = max(by_answer.values(), key=weight, default=[])
    return [voters[i] for i in highest([scores[i] for i in voters], most)]


def comparable(value: Any) -> Hashable | None:
    """Make a value that is equal for equal JSON values; white space around a text does not count.

    None if it is no answer: null, empty text, NaN, and JSON nested too deeply to be compared.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        return _frozen(value)
    except RecursionError:
        return None


def _frozen(value: Any) -> Hashable:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return (
            "object",
            frozenset((key, _frozen(item)) for key, item in value.items()),
        )
    if isinstance(value, list):
        return ("list", tuple(map(_frozen, value)))
    # 1 is 1.0, and neither is true
    return (
        ("truth", value)
        if isinstance(value, bool)
        else ("number", value)
        if value is not None
        else ()
    )


class Cutter:
    """Cuts the rollouts that are left out from the bytes of their records.

    A columnar line holds several groups, and is done when the last of them is.
    """

    def __init__(self, form: Format, named: Sequence[str] = ()) -> None:
        """`named` are the user's paths of values that each rollout has."""
        self._form, self._named = form, named
        self._open: dict[int, tuple[list[Path], list[Path]]] = {}

    def records(
        self, group: Group, selected: Collection[int] | None
    ) -> list[tuple[int, bytes]]:
        """Return the number and the new bytes of each record that is done; no bytes: it is left out.

        `selected` are indices among the group's rollouts, None: the group is left out. UsageError for a
        record that cannot lose a rollout.
        """
        records, first = [], 0
        for record in group.records:
            remaining, removed = self._open.pop(record.line.number, ([], []))
            for i, rollout in enumerate(record.rollouts, first):
                (
                    remaining if selected is not None and i in selected else removed
                ).append(rollout.path)
            first += len(record.rollouts)
            if record.part + 1 < record.parts:
                self._open[record.line.number] = (remaining, removed)
                continue
            body = record.line.raw
            if removed or selected is None:
                body = self._cut(record.line, remaining, removed) if remaining else b""
            records.append((record.line.number, body))
        return records

    def _cut(self, line: Line, remaining: list[Path], removed: list[Path]) -> bytes:
        try:
            return cut(
                line.raw,
                self._form,
                removed,
                len(remaining) + len(removed),
                self._named,
            )
        except (UnreadableError, RecursionError) as error:
            reason = (
                "is nested too deeply" if isinstance(error, RecursionError) else error
            )
            raise UsageError(
                f"{line.where} cannot lose a rollout exactly: it {reason}; conditions about groups leave out "
                "whole ones only"
            ) from None


def cut(
    raw: bytes,
    form: Format,
    removed: Collection[Path],
    size: int,
    named: Iterable[str] = (),
) -> bytes:
    """Cut some of the `size` rollouts out of a record.

    `named` are the user's dotted paths of lists with an item for each rollout. UnreadableError if it is
    not clear which items of the record belong to a rollout.
    """
    layout = form.layout
    dropped = {int(path[-1]) for path in removed}
    paths = dict.fromkeys(path[:-1] for path in removed if len(path) > 1)
    if layout.lists is not None:
        value = parse(raw)
        paths |= dict.fromkeys(_take_out(value, named, size) if layout.listed else ())
        paths |= dict.fromkeys(code(layout.lists)(value, size))
    if layout.listed:
        ours: Path = ("ruler",) if form.shape == "columns" else ("ruler", "rollouts")
        paths |= dict.fromkeys(path for path in (ours, layout.reward) if path)
    patches = Patches(raw)
    for path in paths:
        span = span_at(raw, path)
        if span is None or raw[span[0]] != ord("["):
            continue
        items = read_array(raw, span[0])
        if layout.listed and len(items) != size:
            where = ".".join(map(str, path))
            raise UnreadableError(
                f"has {len(items)} items at `{where}` for {size} rollouts"
            )
        patches.drop(items, [i in dropped for i in range(len(items))])
    return patches.apply()


def _take_out(value: dict[str, Any], named: Iterable[str], size: int) -> Iterator[Path]:
    """Yield the paths of the user's own lists, and take each out of the value: it is not doubtful."""
    for dotted in named:
        path = path_of(value, dotted)
        items, parent = value_at(value, path), value_at(value, path[:-1])
        if path and isinstance(items, list) and len(items) == size:
            if isinstance(parent, dict):
                del parent[str(path[-1])]
            yield path
