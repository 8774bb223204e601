"""A scored file → the same file with fewer groups and rollouts; bytes of the rest are unchanged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, count
from statistics import fmean
from typing import Any, Literal

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.output import Output, refuse_clashes
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import Patches, read_array, span_at
from ruler_cli.formats.fields import (
    JsonObject,
    is_list,
    is_object,
    items,
    lookup,
    parts,
    value_at,
)
from ruler_cli.formats.table import Format
from ruler_cli.results.annotations import (
    AnnotationReader,
    ScoredRollout,
    refuse_unannotated,
)
from ruler_cli.results.conditions import FIGURES, Condition
from ruler_cli.results.criteria import by_criterion
from ruler_cli.runs.input import Input, open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Path, Problem, printable

By = Literal["variance", "score", "majority"]
_NOISE = 1e-12
"""Rounding of a variance, as a share of the greatest square: a smaller gain is none."""
_NEEDS = {
    "reliability": Sentence("score with {passes:2} or more"),
    "disagreement": Sentence(
        "it needs two scored rollouts with different labels: name labels with {labels:PATH}"
    ),
}
"""Ways out if no group has a figure."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep at most so many rollouts of each group; `answer` is a dotted path, for `by` majority."""

    most: int
    by: By
    answer: str | None = None


def select(
    source: InputSettings,
    output: str,
    conditions: Sequence[Condition],
    keep: Keep | None,
    *,
    on_open: Callable[[Input], None],
    on_problem: Callable[[Problem], None],
    on_group: Callable[[], object] = lambda: None,
) -> Counter[str]:
    """Write the groups and rollouts that fulfil all conditions, and of these the ones that `keep` chooses.

    UsageError if no group of INPUT has the figure of a condition. `on_open` is called once with INPUT,
    `on_problem` with each line of it that cannot be read, `on_group` after each group. Groups are read one
    at a time. After an error OUTPUT is as it was, and nothing else is left.

    Returned are counts of all `groups` and `rollouts`, of those `kept groups` and `kept rollouts`, and of
    `unreadable` lines. `unscored` and `unanswered` groups fulfil every condition on groups but are left out,
    since none of their rollouts has a score, or an answer that votes. `annotation`, `score`, and the names
    of figures count groups that have it, `answers` those with rollouts whose answers were compared.
    """
    counts = Counter[str]()
    scored = Location(source.source)

    def unreadable(problem: Problem) -> None:
        counts["unreadable"] += 1
        on_problem(problem)

    def refuse_in_place(why: str) -> None:
        if output != "-" and scored.same(output):
            problem = f"is INPUT, and would {why}"
            place = Location(output).shown
            raise UsageError(problem, "give another OUTPUT", place=place)

    refuse_clashes(source.source, output, tasks=source.prompts)
    # OUTPUT ends before INPUT is closed: it copies the bytes behind the last record of a document
    with ExitStack() as inputs, Output(output, keep=False) as out:
        write_as = partial(out.write_as, scored=False)
        opened = open_input(source, inputs, unreadable, write_as)
        on_open(opened)
        if counts["unreadable"]:
            refuse_in_place("lose what cannot be read")
        if opened.reader is not None:
            if not opened.in_order:
                out.keep_order(opened.index)
            annotations = AnnotationReader(
                opened.reader,
                given=source.outcome is not None,
                sized=False,
            )
            selector = _Selector(annotations, conditions, keep, counts)
            paths = (source.outcome, keep and keep.answer)
            cutter = Cutter(opened.reader.format, [path for path in paths if path])
            for group in opened.groups:
                selected = selector.select(group)
                on_group()
                try:
                    out.write(cutter.records(group, selected))
                except UsageError as error:
                    raise UsageError(f"{scored.shown}: {error}") from None
            selector.refuse_missing(scored.shown)
            if counts["groups"] and not counts["kept groups"]:
                refuse_in_place(f"be left with none of its {counts['groups']} groups")
        out.commit()
    return counts


@dataclass(frozen=True, slots=True)
class _Selector:
    """Chooses the rollouts of each group that stay, and counts them."""

    annotations: AnnotationReader
    conditions: Sequence[Condition]
    keep: Keep | None
    counts: Counter[str]

    def select(self, group: Group) -> Collection[int] | None:
        """Return indices among the group's rollouts; None: the group is left out."""
        scored = self.annotations.group(group)
        counts = self.counts
        keep = self.keep
        counts.update(
            groups=1,
            rollouts=len(scored.rollouts),
            annotation=scored.status != "unmarked",
            score=bool(scored.scores),
        )
        for name, figure_of in FIGURES.items():
            counts[name] += figure_of(scored) is not None
        for one in self.conditions:
            if one.criterion:
                counts[one.name] += one.criterion in by_criterion(scored)
        if not all(one.holds(scored) for one in self.conditions):
            return None
        rollouts = [
            r
            for r in scored.rollouts
            if all(one.holds_for_rollout(r) for one in self.conditions)
        ]
        if keep or any(one.name == "score" for one in self.conditions):
            counts["unscored"] += not scored.scores
            rollouts = [r for r in rollouts if r.score is not None]
        if keep and rollouts:
            rollouts = [rollouts[i] for i in self._best(group, keep, rollouts)]
        some = keep or any(one.about_rollouts for one in self.conditions)
        if some and not rollouts:
            return None
        counts["kept groups"] += 1
        counts["kept rollouts"] += len(rollouts)
        return {index for rollout in rollouts for index in rollout.indices}

    def _best(
        self, group: Group, keep: Keep, rollouts: Sequence[ScoredRollout]
    ) -> list[int]:
        """Return the indices of the rollouts to keep; an answer is that of the last part with one."""
        scores = [r.score for r in rollouts if r.score is not None]
        if keep.answer is None:
            choose = widest if keep.by == "variance" else highest
            return choose(scores, keep.most)
        # by part of a rollout
        found = []
        for record in group.records:
            whole = self.annotations.value(record)
            for part in record.rollouts:
                value = self.annotations.reader.value_at(whole, part, keep.answer)
                found.append(comparable(value))
        answers = []
        for rollout in rollouts:
            known = filter(None, (found[i] for i in reversed(rollout.indices)))
            answers.append(next(known, None))
        best = majority(answers, scores, keep.most)
        self.counts.update(answers=1, unanswered=not best)
        return best

    def refuse_missing(self, name: str) -> None:
        """Raise UsageError for a figure that no group of INPUT has; a range that holds none is no error."""
        counts = self.counts
        keep = self.keep
        if counts["groups"]:
            unmarked = counts["groups"] - counts["annotation"]
            refuse_unannotated(name, counts["groups"], unmarked)
        for one in self.conditions:
            named = one.name in FIGURES or one.criterion
            if counts["score"] and named and not counts[one.name]:
                problem = f"no group of {name} has one"
                need = _NEEDS.get(one.name, "`ruler report` names the criteria")
                raise UsageError(problem, need, option="where", value=one.name)
        if keep and keep.answer and 0 < counts["answers"] == counts["unanswered"]:
            raise UsageError(
                f"no rollout of {name} has an answer there",
                "name a path below a rollout or its record",
                option="answer",
                value=printable(keep.answer),
            )


def highest(scores: Sequence[float], most: int) -> list[int]:
    """Return the indices of the highest scores; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])[:most]


def widest(scores: Sequence[float], most: int) -> list[int]:
    """Return the indices of so many scores whose variance is the greatest.

    That is max-variance down-sampling (PODS, Xu et al. 2025, arXiv 2504.13818): the best choice is some of
    the lowest and the rest of the highest, so there are only `most` + 1 to compare. Of equal choices the
    one with more high scores wins, of equal scores the first.
    """
    size = len(scores)
    if most >= size:
        return list(range(size))
    middle = fmean(scores)
    deviations = sorted(score - middle for score in scores)
    sums = [0.0, *accumulate(deviations)]
    squares = [0.0, *accumulate(x * x for x in deviations)]

    def variance(low: int) -> float:
        high = size - (most - low)
        total = sums[low] + sums[-1] - sums[high]
        square = squares[low] + squares[-1] - squares[high]
        return square / most - (total / most) ** 2

    variances = [variance(low) for low in range(most + 1)]
    enough = max(variances) - _NOISE * max(x * x for x in deviations)
    lows = next(low for low, one in enumerate(variances) if one >= enough)
    by_score = sorted(range(size), key=scores.__getitem__)
    # none twice: else there were fewer low ones
    return sorted([*by_score[:lows], *highest(scores, most - lows)])


def majority(
    answers: Sequence[Hashable | None], scores: Sequence[float], most: int
) -> list[int]:
    """Return the indices of the highest scores among rollouts with the commonest answer.

    None is no answer. Of equally common answers the one with the higher mean score counts, then the first.
    """
    by_answer: dict[Hashable, list[int]] = {}
    for i, answer in enumerate(answers):
        if answer is not None:
            by_answer.setdefault(answer, []).append(i)

    def weight(voters: list[int]) -> tuple[int, float]:
        return len(voters), round(fmean(scores[i] for i in voters), 9)

    voters = max(by_answer.values(), key=weight, default=[])
    return sorted(voters, key=lambda i: -scores[i])[:most]


def comparable(value: Any) -> str | None:
    """Return a text that is equal for equal JSON values; white space around a text does not count.

    None if it is no answer: null, empty text, NaN, and JSON nested too deeply to be compared.
    """
    try:
        text = json.dumps(_plain(value), sort_keys=True)
    except RecursionError:
        return None
    return None if text in ("null", '""', "NaN") else text


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1 is 1.0
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(_plain, value)]
    return value


class Cutter:
    """Cuts the rollouts that are left out from the bytes of their records.

    A columnar line holds several groups, and is done when the last of them is.
    """

    def __init__(self, form: Format, named: Sequence[str] = ()) -> None:
        """`named` are the user's paths of values that each rollout has."""
        self._form = form
        self._named = named
        # by line: the paths of rollouts that stay, and of others
        self._open: dict[int, tuple[list[Path], list[Path]]] = {}

    def records(
        self, group: Group, selected: Collection[int] | None
    ) -> list[tuple[int, bytes]]:
        """Return the number and the new bytes of each record that is done; no bytes: it is left out.

        `selected` are indices among the group's rollouts, None: the group is left out. UsageError for a
        record that cannot lose a rollout.
        """
        records = []
        numbers = count()
        for record in group.records:
            line = record.line
            remaining, removed = self._open.pop(line.number, ([], []))
            for rollout, i in zip(record.rollouts, numbers, strict=False):
                stays = selected is not None and i in selected
                (remaining if stays else removed).append(rollout.path)
            if record.part + 1 < record.parts:
                self._open[line.number] = (remaining, removed)
                continue
            body = line.raw
            if not remaining and (removed or selected is None):
                body = b""
            elif removed:
                size = len(remaining) + len(removed)
                try:
                    body = cut(body, self._form, removed, size, self._named)
                except (UnreadableError, RecursionError) as error:
                    deep = isinstance(error, RecursionError)
                    reason = "is nested too deeply" if deep else error
                    raise UsageError(
                        f"{line.where} cannot lose a rollout exactly: it {reason}",
                        "use conditions about groups, which leave out whole records",
                    ) from None
            records.append((line.number, body))
        return records


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
    dropped = {int(path[-1]) for path in removed}
    paths = [path[:-1] for path in removed if len(path) > 1]
    if form.listed or form.lists:
        value = parse(raw)
        if form.listed:
            paths += _take_out(value, named, size)
        paths += parallel_lists(form, value, size)
    if form.listed:
        paths += [path_of(value, path) for path in (form.annotations, form.reward)]
    patches = Patches(raw)
    for path in dict.fromkeys(paths):
        span = span_at(raw, path)
        if span is None or raw[span[0]] != ord("["):
            continue
        items = read_array(raw, span[0])
        if form.listed and len(items) != size:
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
        items = value_at(value, path)
        parent = value_at(value, path[:-1])
        if path and isinstance(items, list) and len(items) == size:
            if isinstance(parent, dict):
                del parent[str(path[-1])]
            yield path


def path_of(record: Any, dotted: str) -> Path:
    """Return the path to the value that `lookup` returns for a dotted path; () if there is none, and for `-1`."""
    if is_object(record) and dotted in record:
        return (dotted,)
    path = parts(dotted)
    known = "-1" not in path and value_at(record, path) is not None
    return path if known else ()


# If the wrong list loses an item, or the right one does not, every later item belongs to another rollout, and
# nobody notices. So lists that a format does not know are refused, not guessed at.


def parallel_lists(form: Format, record: JsonObject, size: int) -> list[Path]:
    """Return the paths of lists with an item for each of `size` rollouts; UnreadableError if one is doubtful."""
    if form.lists is None:
        raise UnreadableError(
            "compares its answers, and would be wrong without one of them"
        )
    apart = form.apart
    names = form.lists
    if names == ("*",):
        names = tuple(name for name in record if name not in apart)
    same = (name for name in names if len(items(lookup(record, name))) == size)
    lists = [path_of(record, name) for name in same]
    if apart == ("*",):
        return lists
    # ruler's own lists are parallel, or belong to the group
    known = {("ruler",), *lists, *((name,) for name in apart)}
    inside: list[tuple[Path, Any]] = [((), record)]
    while inside:
        path, value = inside.pop()
        if path in known:
            continue
        if is_object(value):
            inside += [((*path, key), inner) for key, inner in value.items()]
        elif is_list(value) and len(value) == size:
            where = printable(".".join(map(str, path)))
            raise UnreadableError(
                f"has as many items at `{where}` as rollouts, and may not be cut with them; take `{where}` "
                "out, or write a rollout a line"
            )
    return lists
