"""The selection: read a scored file, choose groups and rollouts, cut the bytes of the others out, write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

from ruler_cli.config import InputSettings
from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.interface import Format, plain
from ruler_cli.formats.parallel import path_of, value_at
from ruler_cli.reading.input import Input, open_input
from ruler_cli.reading.location import Location
from ruler_cli.reading.parse import parse
from ruler_cli.results.annotations import Marks, refuse_unmarked
from ruler_cli.results.scored_groups import MarkedRollout
from ruler_cli.results.select.conditions import FIGURES, Condition
from ruler_cli.suggestions import question, suggest_path
from ruler_cli.types import Group, Line, Path, Problem, Record, Rollout
from ruler_cli.writing.output import Writer, open_output, refuse_clashes
from ruler_cli.writing.splice import Patches, read_array, span_at

By = Literal["variance", "score", "majority"]
_KEYS = 12
"""Keys of a record that a sentence names."""
_TAKES = {
    "reliability": "as it takes two passes to tell; score with --passes 2 or more",
    "disagreement": "as that takes two scored rollouts with different labels; say where labels stand, with "
    "--labels PATH",
}
"""Why no group may have a figure, and the way out."""
_NOISE = 1e-12
"""How much more variance is more, as a share of the greatest square: sums are rounded."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Of each group at most so many rollouts, and by what; `answer` is a dotted path, for a majority."""

    most: int
    by: By
    answer: str | None = None


@dataclass(slots=True)
class SelectionCounts:
    """Counts of groups and rollouts, and of what is kept.

    `unscored` and `unanswered`: groups left out although every condition about them holds, since none of
    their rollouts has a score, or an answer that votes. `have` counts groups of INPUT: `mark`, `score` and
    the figures of conditions that they have, `rollouts` whose answers were looked for. Scores lie from
    `least` to `most`.
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
    where: Sequence[Condition],
    keep: Keep | None,
    *,
    on_found: Callable[[Input], None],
    on_problem: Callable[[Problem], None],
    on_group: Callable[[], object] = lambda: None,
) -> SelectionCounts:
    """Write what conditions hold for, of that what `keep` chooses; UsageError where INPUT has nothing such.

    `on_found` is called once with INPUT, `on_problem` with each line of it that cannot be read, `on_group`
    for each group that is done. Groups are read one at a time. Where an error ends it, OUTPUT is as it was.
    """
    name, named = Location(source.source).shown, (keep.answer if keep else None, source.outcome)
    tally = SelectionCounts()

    def unreadable(problem: Problem) -> None:
        tally.unreadable += 1
        on_problem(problem)

    def refuse_itself(wrong: int, why: str) -> None:
        if wrong and output != "-" and Location(source.source).same(output):
            raise UsageError(f"{Location(output).shown}: is INPUT, and would {why}; give another OUTPUT")

    refuse_clashes(source.source, output)
    # OUTPUT ends before INPUT is closed: what is behind the last record of a document is copied from there
    with ExitStack() as inputs, ExitStack() as outputs:
        out = open_output(source.source, output)
        outputs.enter_context(out)
        found = open_input(source, inputs, unreadable, out.write_as)
        on_found(found)
        refuse_itself(tally.unreadable, "lose what cannot be read")
        if found.reader is not None:
            writer = Writer(out, found.index if found.scattered else None)
            chooser = _Chooser(
                Marks(found.reader, given=source.outcome is not None, sized=False), where, keep
            )
            cutter = Cutter(found.reader.format, [path for path in named if path is not None])
            for group in found.groups:
                kept = chooser.kept(group, tally)
                on_group()
                try:
                    writer.write(cutter.bodies(group, kept))
                except UsageError as error:
                    raise UsageError(f"{name}: {error}") from None
            chooser.refuse_missing(name, tally)
            refuse_itself(
                tally.groups and not tally.kept_groups,
                f"be left with nothing, as none of its {tally.groups} groups is kept",
            )
        out.commit()
    return tally


class _Chooser:
    """Chooses which rollouts of each group are kept."""

    def __init__(self, marks: Marks, where: Sequence[Condition], keep: Keep | None) -> None:
        self._marks, self._where, self._keep = marks, where, keep
        self._picky = keep is not None or any(one.about_rollouts for one in where)
        self._record: dict[str, Any] = {}

    def kept(self, group: Group, tally: SelectionCounts) -> Collection[int] | None:
        """Places among the group's rollouts, counted in `tally`; None: the group is left out."""
        marked = self._marks.group(group)
        tally.groups += 1
        tally.rollouts += len(marked.rollouts)
        tally.have["mark"] += marked.status != "unmarked"
        tally.have["score"] += bool(marked.scores)
        for name, figure in FIGURES.items():
            tally.have[name] += figure(marked) is not None
        tally.least, tally.most = min((tally.least, *marked.scores)), max((tally.most, *marked.scores))
        if not all(one.holds(marked) for one in self._where):
            return None
        rollouts = [r for r in marked.rollouts if all(one.takes(r) for one in self._where)]
        if self._picky and not marked.scores:
            tally.unscored += 1
            return None
        if self._keep is not None:
            rollouts = [r for r in rollouts if r.score is not None]
            rollouts = self._best(group, self._keep, rollouts, tally)
        if self._picky and not rollouts:
            return None
        tally.kept_groups += 1
        tally.kept_rollouts += len(rollouts)
        return {place for rollout in rollouts for place in rollout.at}

    def _best(
        self, group: Group, keep: Keep, rollouts: list[MarkedRollout], tally: SelectionCounts
    ) -> list[MarkedRollout]:
        scores = [r.score for r in rollouts if r.score is not None]
        if keep.answer is None:
            found = (widest if keep.by == "variance" else highest)(scores, keep.most)
        else:
            every = [(record, rollout) for record in group.records for rollout in record.rollouts]
            answers = [self._answer([every[at] for at in one.at], keep.answer) for one in rollouts]
            found = commonest(answers, scores, keep.most)
            tally.have["rollouts"] += bool(rollouts)
            tally.unanswered += bool(rollouts) and not found
        return [rollouts[i] for i in found]

    def _answer(self, parts: Sequence[tuple[Record, Rollout]], path: str) -> Hashable | None:
        """What a rollout answered: the last of its parts with an answer."""
        for record, part in reversed(parts):
            self._record = self._marks.value(record)
            if (answer := same_as(self._marks.reader.at(self._record, part, path))) is not None:
                return answer
        return None

    def refuse_missing(self, name: str, tally: SelectionCounts) -> None:
        """UsageError for a condition about what no group of INPUT has; one that none fulfils is an answer."""
        have = tally.have
        if tally.groups:
            refuse_unmarked(name, tally.groups, tally.groups - have["mark"])
        for one in self._where:
            if have["score"] and one.name in FIGURES and not have[one.name]:
                raise UsageError(f"--where {one.name}: no group of {name} has one, {_TAKES[one.name]}")
        if self._keep and self._keep.answer and have["rollouts"] and have["rollouts"] == tally.unanswered:
            path, keys = self._keep.answer, ", ".join(list(map(plain, self._record))[:_KEYS])
            way = question(suggest_path(path, [self._record]))
            way = plain(way) or f"; name a path below a rollout or one of {keys}"
            raise UsageError(f"--answer {plain(path)}: no rollout of {name} has an answer there{way}")


def highest(scores: Sequence[float], most: int) -> list[int]:
    """The best of n; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:most]


def widest(scores: Sequence[float], most: int) -> list[int]:
    """The rollouts whose scores have the greatest variance of all choices of so many.

    That is max-variance down-sampling (PODS, Xu et al. 2025, arXiv 2504.13818): the best choice is some of
    the lowest and the rest of the highest, so there are only `most` + 1 to compare. Of equal choices the
    one with more high scores, of equal scores the first.
    """
    if most >= len(scores):
        return list(range(len(scores)))
    ranked = sorted(scores)
    middle = math.fsum(ranked) / len(ranked)
    apart = [score - middle for score in ranked]
    sums = [0.0, *accumulate(apart)]
    squares = [0.0, *accumulate(x * x for x in apart)]
    margin = _NOISE * max(x * x for x in apart)
    best, lows = -math.inf, 0
    for low in range(most + 1):
        behind = len(ranked) - (most - low)
        total = sums[low] + sums[-1] - sums[behind]
        square = squares[low] + squares[-1] - squares[behind]
        variance = square / most - (total / most) ** 2
        if variance > best + margin:
            best, lows = variance, low
    lowest = sorted(range(len(scores)), key=scores.__getitem__)[:lows]
    return sorted((*lowest, *highest(scores, most - lows)))  # none twice: else there were fewer low ones


def commonest(answers: Sequence[Hashable | None], scores: Sequence[float], most: int) -> list[int]:
    """The best of those that gave the answer which most gave; None is no answer.

    Of answers that equally many gave, the one with the higher mean score, then the one that came first.
    """
    by_answer: dict[Hashable, list[int]] = {}

    def weight(found: list[int]) -> tuple[int, float]:
        return len(found), round(math.fsum(scores[i] for i in found) / len(found), 9)

    for i, answer in enumerate(answers):
        if answer is not None:
            by_answer.setdefault(answer, []).append(i)
    voters = max(by_answer.values(), key=weight, default=[])
    return [voters[i] for i in highest([scores[i] for i in voters], most)]


def same_as(value: Any) -> Hashable | None:
    """Something that is equal for equal JSON values, texts without the white space around them.

    None for what is no answer: null, empty text, NaN, and what is nested too deeply to be compared.
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
        return ("object", frozenset((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(_frozen, value)))
    # 1 is 1.0, and neither is true
    return ("truth", value) if isinstance(value, bool) else ("number", value) if value is not None else ()


class Cutter:
    """Groups and the places of what is kept of them → what each record becomes.

    A columnar line is several groups, and is done when the last of them is.
    """

    def __init__(self, form: Format, named: Sequence[str] = ()) -> None:
        """`form` tells where rollouts stand, `named` are paths of what the user said each of them has."""
        self._form, self._named = form, named
        self._open: dict[int, tuple[list[Path], list[Path]]] = {}

    def bodies(self, group: Group, kept: Collection[int] | None) -> list[tuple[int, bytes]]:
        """The number and the new bytes of each record that is done; no bytes: it is left out.

        `kept` are places among the group's rollouts, None: the group is left out. UsageError for a record
        that cannot lose a rollout.
        """
        batch, at = [], 0
        for record in group.records:
            stay, lost = self._open.pop(record.line.number, ([], []))
            for i, rollout in enumerate(record.rollouts, at):
                (stay if kept is not None and i in kept else lost).append(rollout.path)
            at += len(record.rollouts)
            if record.part + 1 < record.parts:
                self._open[record.line.number] = (stay, lost)
            elif kept is not None and not lost:
                batch.append((record.line.number, record.line.raw))
            else:
                batch.append((record.line.number, self._cut(record.line, stay, lost)))
        return batch

    def _cut(self, line: Line, stay: list[Path], lost: list[Path]) -> bytes:
        if not stay:
            return b""
        if not lost:
            return line.raw
        try:
            return cut(line.raw, self._form, lost, len(stay) + len(lost), self._named)
        except (UnreadableError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else error
            raise UsageError(
                f"{line.where} cannot lose a rollout exactly: it {why}; conditions about groups leave out "
                "whole ones only"
            ) from None


def cut(raw: bytes, form: Format, lost: Collection[Path], size: int, named: Iterable[str] = ()) -> bytes:
    """A record without these of its `size` rollouts; UnreadableError where nobody knows what that is.

    `named` are dotted paths of the user's, at which a list has an item for each rollout.
    """
    layout = form.layout
    gone = {int(path[-1]) for path in lost}
    paths = dict.fromkeys(path[:-1] for path in lost if len(path) > 1)
    if layout.lists is not None:
        value = parse(raw)
        paths |= dict.fromkeys(_taken(value, named, size) if layout.listed else ())
        paths |= dict.fromkeys(layout.lists(value, size))
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
            raise UnreadableError(f"has {len(items)} items at `{where}` for {size} rollouts")
        patches.drop(items, [i in gone for i in range(len(items))])
    return patches.apply()


def _taken(value: dict[str, Any], named: Iterable[str], size: int) -> Iterator[Path]:
    """The user's own lists, each taken out of the value: nobody need doubt them."""
    for dotted in named:
        path = path_of(value, dotted)
        found, holder = value_at(value, path), value_at(value, path[:-1])
        if path and isinstance(found, list) and len(found) == size:
            if isinstance(holder, dict):
                del holder[str(path[-1])]
            yield path
