"""The selection: read a scored file, choose groups and rollouts, cut the rest out, write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.parse import parse
from ruler_cli.formats.interface import plain
from ruler_cli.formats.reader import Reader
from ruler_cli.marked.read import Marks
from ruler_cli.marked.values import MarkedRollout
from ruler_cli.nearest import path as nearest_path
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Group, Problem
from ruler_cli.selection.conditions import Condition
from ruler_cli.selection.cut import Cutter
from ruler_cli.settings import InputSettings
from ruler_cli.writing import Writer, open_output, refuse_clashes

By = Literal["variance", "score", "majority"]
_KEYS = 12
"""Keys of a record that a sentence names."""
_NOISE = 1e-12
"""How much more variance is more, as a share of the greatest square: sums are rounded."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Of each group at most so many rollouts, and by what; `answer` is a dotted path, for a majority."""

    most: int
    by: By
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class SelectSettings:
    """One run of `ruler select`: all conditions must hold, then `keep` looks at what they left."""

    input: InputSettings
    output: str
    where: tuple[Condition, ...] = ()
    keep: Keep | None = None


@dataclass(slots=True)
class Tally:
    """What was found and what was kept.

    `unscored` and `unanswered`: groups left out although every condition about them holds, for none of
    their rollouts has a score, or an answer that votes. `marked`, `scored`, `reliable` and `labelled`
    are the groups of INPUT that have what conditions may ask for, `asked` those whose answers were looked
    for; `unlike`: in some of them the labels of scored rollouts differ. Scores lie from `least` to `most`.
    """

    groups: int = 0
    rollouts: int = 0
    kept_groups: int = 0
    kept_rollouts: int = 0
    unscored: int = 0
    unanswered: int = 0
    unreadable: int = 0
    marked: int = 0
    scored: int = 0
    reliable: int = 0
    labelled: int = 0
    asked: int = 0
    unlike: bool = False
    least: float = math.inf
    most: float = -math.inf


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
            _refuse_missing(settings, tally, chooser)
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
        self._reader, self._where, self._keep, self._tally = reader, settings.where, settings.keep, tally
        self._marks = Marks(reader, given=settings.input.outcome is not None, sized=False)
        self._picky = settings.keep is not None or any(one.about_rollouts for one in settings.where)
        self._raw = b""
        self._record: dict[str, Any] = {}

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

    def _best(self, group: Group, keep: Keep, rollouts: list[MarkedRollout]) -> list[MarkedRollout]:
        scores = [r.score for r in rollouts if r.score is not None]
        if keep.answer is not None:
            answers = self._answers(group, rollouts, keep.answer)
            found = commonest(answers, scores, keep.most)
            self._tally.asked += bool(rollouts)
            self._tally.unanswered += bool(rollouts) and not found
        else:
            found = (widest if keep.by == "variance" else highest)(scores, keep.most)
        return [rollouts[i] for i in found]

    def _answers(self, group: Group, rollouts: Sequence[MarkedRollout], path: str) -> list[Hashable | None]:
        """What each rollout answered, of one in parts the last part with an answer."""
        every = [(record, rollout) for record in group.records for rollout in record.rollouts]
        answers = []
        for one in rollouts:
            answer = None
            for place in reversed(one.at):
                record, rollout = every[place]
                answer = same_as(self._reader.at(self._value(record.line.raw), rollout, path))
                if answer is not None:
                    break
            answers.append(answer)
        return answers

    def _value(self, raw: bytes) -> dict[str, Any]:
        if self._raw is not raw:
            try:
                self._raw, self._record = raw, parse(raw)
            except (RecursionError, UnreadableError):  # at the very depth that the reader could just read
                self._raw, self._record = raw, {}
        return self._record

    def hint(self, answer: str) -> str:
        """The path nearest to `answer` in the last record, or its keys: the end of a sentence."""
        if (meant := nearest_path(answer, [self._record])) is not None:
            return f"; did you mean {plain(meant)}?"
        return f"; name a path below a rollout or one of {', '.join(list(map(plain, self._record))[:_KEYS])}"


def _refuse_missing(settings: SelectSettings, tally: Tally, chooser: _Chooser) -> None:
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
    answer = settings.keep.answer if settings.keep else None
    if answer and tally.asked and tally.asked == tally.unanswered:
        raise UsageError(f"--answer {answer}: no rollout of {name} has an answer there{chooser.hint(answer)}")


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
    wanted = Counter(ranked[:lows] + ranked[len(ranked) - (most - lows) :])
    kept = []
    for i, score in enumerate(scores):
        if wanted[score]:
            wanted[score] -= 1
            kept.append(i)
    return kept


def commonest(answers: Sequence[Hashable | None], scores: Sequence[float], most: int) -> list[int]:
    """The best of those that gave the answer which most gave; None is no answer.

    Of answers that equally many gave, the one with the higher mean score, then the one that came first.
    """
    by_answer: dict[Hashable, list[int]] = {}
    for i, answer in enumerate(answers):
        if answer is not None:
            by_answer.setdefault(answer, []).append(i)
    if not by_answer:
        return []
    voters = max(by_answer.values(), key=lambda found: (len(found), _mean([scores[i] for i in found])))
    return [voters[i] for i in highest([scores[i] for i in voters], most)]


def _mean(scores: Sequence[float]) -> float:
    return round(math.fsum(scores) / len(scores), 9)


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
