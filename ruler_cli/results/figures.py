"""A scored file → its groups one after another, and the figures of the run; no group stays in memory.

The figures are one JSON object, which `ruler report` prints as JSON, a page for a browser embeds and the
terminal's page puts into sentences: docs/output.md describes it. Names are stable; new ones may be added.
Counts are bounded, whatever words a file has.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.ledger.database import digest_of, params_text
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.annotations import AnnotationReader, refuse_unannotated
from ruler_cli.results.record import GroupRecord, Json, RolloutRecord
from ruler_cli.results.source import ScoredSource
from ruler_cli.scoring.figures import Figures
from ruler_cli.scoring.statistics import PositionBias, quantile
from ruler_cli.types import Group, iso, printable, rubric_text, shorten

ReportFigures = Json
"""The figures of a run; None: not known."""
TextLookup = Callable[[Iterable[str]], Mapping[str, str]]
"""Returns the texts that are known, by digest."""
Wanted = Callable[[str], bool] | None
"""Tells if a group is wanted, by its key; None: all are."""
ENOUGH = 10
"""Groups from which on a chart shows more than a list of them."""
BUILT_IN = digest_of(DEFAULT_RUBRIC)
"""The digest of the built-in rubric."""
OTHER = "other"
"""The word under which further different words are counted, once there are too many."""
_WORDS, _LISTED, _LONGEST_NAME = 1000, 24, 200
"""Different words that are counted, those that are listed, and characters of one."""
_PATTERNS, _LONGEST_REASON, _LONGEST_KEY = 500, 600, 4000
"""Different reasons that are counted, characters of one, and of the key of a group."""
_COMMONEST = 6
"""Reasons that are listed."""
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")
_MOST_RUBRICS = 24
"""Rubrics of records whose texts are kept."""
_MOST_LABELS = 12
"""Different labels up to which each has a cell; more are in as many bins."""
WAYS = {
    "judge": "judges",
    "served": "served",
    "rubric": "rubrics",
    "parameters": "params",
    "version": "versions",
    "passes": "passes",
}
"""The things that make scores, with the names of their words."""
_GROUPS = (
    "all",
    "scored",
    "failed",
    "unmarked",
    "tied",
    "live",
    "alone",
    "one_score",
    "explained",
    "same_explanations",
)
_USAGE = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens")
_ROLLOUTS = ("all", "scored", "failed", "labelled", "suspect", "moved")
_TENTHS = [i / 10 for i in range(11)]
TWENTIETHS = [i / 20 for i in range(21)]
"""Edges of the bins of a score."""
_HALVED = [i / 40 for i in range(21)]
"""Edges of a standard deviation of scores, which is hardly above a half."""
_POWERS = [0.0, *(2.0**n for n in range(64))]
"""Edges of bytes."""


class ScoredFile:
    """A scored file; its `figures` and their counts are complete once all groups were read."""

    def __init__(self, opened: ScoredSource) -> None:
        """UsageError if it holds no records."""
        self.input = opened
        self.source = opened.settings.source
        self.name = Location(self.source).shown
        self._labels = opened.settings.outcome
        if self.input.reader is None:
            problem = f"{self.name}: holds no records"
            raise UsageError(f"{problem}; give a file that `ruler score` wrote")
        at_path = self._labels is not None
        self.annotations = AnnotationReader(self.input.reader, at_path=at_path)
        self.figures = FileFigures()

    def groups(
        self, wanted: Wanted = None
    ) -> Iterator[tuple[int, Group, GroupRecord]]:
        """Yield each group with its number, from 1, and its annotations; or those with a `wanted` key.

        After all groups UsageError if none has an annotation, or none a label at the user's path.
        """
        yield from self.read(wanted)
        if wanted is not None:
            return
        groups = self.figures.groups
        rollouts = self.figures.rollouts
        refuse_unannotated(
            self.name,
            groups["all"],
            groups["unmarked"],
        )
        if self._labels is not None and not rollouts["labelled"]:
            raise UsageError(
                f"no rollout of {self.name} has a usable label there",
                "a label is a number, true or false, or a word such as passed",
                place=f"--labels {printable(self._labels)}",
            )

    def read(
        self, wanted: Wanted = None
    ) -> Iterator[tuple[int, Group, GroupRecord]]:
        """Yield the same, whatever the annotations and labels are."""
        for number, group in enumerate(self.input.groups, 1):
            if wanted is None or wanted(group.key):
                scored = self.annotations.group(group)
                self.figures.add(scored, rubric_text(group.rubric or ""))
                yield number, group, scored

    @property
    def warning(self) -> str:
        """Warn if every label equals its score: then the labels are probably ruler's own scores."""
        rollouts = self.figures.rollouts
        if not 1 < rollouts["own_labels"] == rollouts["scored"]:
            return ""
        return (
            f"--labels {printable(self._labels or '')}: every label of {self.name} equals its score; "
            "if ruler wrote it there, leave out --labels to use the original rewards"
        )


class WordCounts(Counter[str]):
    """Counts of words: the first thousand different ones, the rest as `other`."""

    def count(self, word: str) -> None:
        """Count a word; a very long one counts by its beginning."""
        word = word[:_LONGEST_NAME]
        if word not in self and len(self) >= _WORDS:
            word = OTHER
        self[word] += 1

    def listed(self) -> dict[str, int]:
        """Return the counts of the most frequent words, and of all other ones."""
        ranked = sorted(self.items(), key=lambda item: (-item[1], item[0]))
        listed = Counter(dict(ranked[:_LISTED]))
        listed[OTHER] += sum(n for _, n in ranked[_LISTED:])
        return dict(+listed)


class FileFigures:
    """The figures of a scored file, group by group; it stores some numbers of a group and of a rollout.

    `groups` and `rollouts` are counts by name: those of the figures, and of values that cannot be used:
    `odd_scores`, `odd_labels`, `unlabelled`; `outcomes` counts labels that a verifier gave instead of a reward,
    `own_labels` labels at the user's path that equal the score. `sums` are those of all groups with scores.
    """

    def __init__(self) -> None:
        self.groups = Counter[str]()
        # not empty, else the first update would store truth values
        self.rollouts = Counter[str](all=0)
        self.words: defaultdict[str, WordCounts] = defaultdict(WordCounts)
        """Words of groups, by what they name."""
        self.sums = Figures()
        self._rubrics: dict[str, str] = {}
        # by kind and pattern
        self._reasons: dict[tuple[str, str], Json] = {}
        self._usage = Counter[str](calls=0)
        # a number of each group that has one
        self._numbers: defaultdict[str, array[float]] = defaultdict(
            lambda: array("d")
        )

    def add(
        self,
        group: GroupRecord,
        own_rubric: str = "",
    ) -> None:
        """Count the next group of the file; its record may have a rubric of its own."""
        self.groups.update(["all", group.status])
        for rollout in group.rollouts:
            self._add_rollout(rollout)
        words = {
            "flags": group.flags,
            "kinds": (group.kind,),
            "judges": (group.judge,),
            "passes": () if group.passes is None else (str(group.passes),),
            "served": group.served,
            "versions": (group.version,),
            "rubrics": (group.rubric,),
            "params": (group.params,),
        }
        for name, listed in words.items():
            for word in listed:
                if word:
                    self.words[name].count(word)
        numbers = {
            "cost": group.cost_usd,
            "time": group.time,
        }
        for name, number in numbers.items():
            if number is not None:
                self._numbers[name].append(number)
        self._usage.update(group.usage)
        if group.failed:
            self._add_reason(group)
        few = len(self._rubrics) < _MOST_RUBRICS
        if own_rubric and few and group.rubric == digest_of(own_rubric):
            self._rubrics[group.rubric] = own_rubric
        if group.scores:
            # embedded judges say the same of many by design
            own_words = not {*EMBEDDED} & {*group.judge.split(", ")}
            self.sums.add(group.values, own_words=own_words)

    def _add_reason(self, group: GroupRecord) -> None:
        """Count the reason of a failure; two are alike if they differ in numbers and ids only."""
        reason = shorten(group.reason, _LONGEST_REASON)
        pattern = (group.kind, _NUMBERS.sub("0", _IDS.sub("0", reason)))
        if pattern in self._reasons or len(self._reasons) < _PATTERNS:
            first = {
                "kind": group.kind,
                "reason": reason,
                "groups": 0,
                "first": group.key[:_LONGEST_KEY],
            }
            self._reasons.setdefault(pattern, first)["groups"] += 1

    def _add_rollout(self, rollout: RolloutRecord) -> None:
        label = rollout.label
        source = rollout.label_source
        counts = {
            "all": True,
            "odd_scores" if rollout.odd_score else rollout.status: True,
            "suspect": rollout.suspect,
            "moved": rollout.judge_score not in (None, rollout.score),
            "labelled": label is not None,
            "unlabelled": not source,
            "odd_labels": label is None and source != "",
            "outcomes": source == "outcome",
            "own_labels": source == "given" and label == rollout.score,
        }
        if rollout.ended:
            counts[rollout.ended] = True
        self.rollouts.update(counts)

    def figures(self, lookup: TextLookup) -> ReportFigures:
        """Return the figures of all groups so far; `lookup` finds texts of rubrics and parameters."""
        numbers = self._numbers
        words = self.words
        groups = self.groups + self.sums.counts
        rollouts = {name: self.rollouts[name] for name in _ROLLOUTS}
        rollouts["failed"] += self.rollouts["odd_scores"]
        reasons = sorted(
            self._reasons.values(), key=lambda reason: -reason["groups"]
        )
        scores = self.sums.scores
        costs = numbers["cost"]
        times = numbers["time"]
        return {
            "groups": {name: groups[name] for name in _GROUPS},
            "rollouts": rollouts,
            "failed_by_kind": words["kinds"].listed(),
            "reasons": reasons[:_COMMONEST],
            "flags": words["flags"].listed(),
            "judges": words["judges"].listed(),
            "passes": words["passes"].listed(),
            "made_by": self._made_by(lookup),
            "cost_usd": math.fsum(costs) if costs else None,
            "cost_groups": len(costs),
            "usage": {
                **{name: self._usage[name] for name in _USAGE},
                "estimated": self._usage["estimated"] > 0,
            },
            "started_at": iso(min(times, default=None)),
            "ended_at": iso(max(times, default=None)),
            "scores": {
                "bins": histogram(self.sums.numbers["score"], TWENTIETHS),
                "mean": scores.mean if scores.number else None,
                "sd": scores.spread if scores.number else None,
            },
            "spread": _middle(self.sums.numbers["spread"], _HALVED),
            "against_label": self._against_label(),
            "slots": self._position_bias(),
            "lengths": self._length_bias(),
            "criteria": self._criteria(),
            "reliability": {
                **_middle(self.sums.numbers["reliability"], _TENTHS),
                "groups": len(self.sums.numbers["reliability"]),
            },
        }

    def _made_by(self, lookup: TextLookup) -> Json:
        """Return what made the scores, the most frequent first, with the texts that are known.

        Without a ledger the built-in rubric and question are known too, and the parameters of a judge without any.
        """
        texts_of = self._rubrics | {BUILT_IN: DEFAULT_RUBRIC, digest_of(""): ""}
        for name in self.words["judges"].listed():
            plain = {
                "judge": name,
                "model": name,
                "params": {},
            }
            text = params_text([plain])
            texts_of[digest_of(text)] = text
        made: Json = {
            name: self.words[name].listed() for name in ("served", "versions")
        }
        for name in ("rubrics", "params"):
            listed = self.words[name].listed()
            listed.pop(OTHER, None)
            texts = texts_of | dict(lookup(listed))
            made[name] = [
                {
                    "digest": digest,
                    "groups": number,
                    "text": texts.get(digest),
                }
                for digest, number in listed.items()
            ]
            made[f"more_{name}"] = max(0, len(self.words[name]) - _LISTED)
        return made

    def _against_label(self) -> Json:
        numbers = self.sums.numbers
        labels = sorted({*numbers["label"]})
        edges = labels
        exact = len(labels) <= _MOST_LABELS
        if not exact:
            step = (labels[-1] - labels[0]) / _MOST_LABELS
            edges = [labels[0] + step * i for i in range(_MOST_LABELS)]
        listed = cells(
            zip(numbers["labelled"], numbers["label"], strict=True),
            score=_TENTHS,
            label=[*edges, *labels[-1:]],
        )
        for cell in listed if exact else ():
            cell["label"] = cell["values"]["label"]
        pairs = self.sums.pairs
        return {
            "cells": listed,
            "pairs": pairs.pairs,
            "against": pairs.against,
            "tied": pairs.tied,
            "agreement": pairs.agreement,
            "groups": self.sums.counts["labelled"],
        }

    def _length_bias(self) -> Json:
        numbers = self.sums.numbers
        trend = self.sums.lengths.trend()
        none = dict.fromkeys(("slope", "error", "correlation"))
        figures = asdict(trend) if trend else {**none, "groups": 0}
        points = zip(numbers["score"], numbers["bytes"], strict=True)
        return {
            "cells": cells(
                points,
                score=_TENTHS,
                bytes=_POWERS,
            ),
            **figures,
        }

    def _criteria(self) -> list[Json]:
        """Return the figures of each criterion, the most frequent first, of these the one that decides the most."""
        figures: list[Json] = []
        for name, sums in self.sums.criteria.items():
            bins = sums.positions.bins()
            figures.append(
                {
                    "name": name,
                    "rollouts": sums.values.number,
                    "mean": sums.values.mean,
                    "with_score": sums.with_score,
                    "reliability": sums.reliability,
                    "first_less_last": bins[0].mean - bins[-1].mean
                    if bins
                    else None,
                }
            )
        # of rubrics of single records the common criteria come first
        return sorted(
            figures,
            key=lambda row: (-row["rollouts"], -abs(row["with_score"] or 0.0)),
        )

    def _position_bias(self) -> Json:
        positions = self.sums.positions
        in_order = self.sums.counts["in_order"]
        if in_order >= ENOUGH and positions.groups == in_order:
            # a position says what the rollout is, not how the judge is biased; few may be so by chance
            positions = PositionBias()
        bins = [
            {
                "from": bar.start,
                "to": bar.stop,
                "mean": bar.mean,
                "error": bar.error,
                "n": bar.scores,
            }
            for bar in positions.bins()
        ]
        return {
            "bins": bins,
            "groups": positions.groups,
            "corrected": self.sums.counts["corrected"],
        }


def differences(
    first: FileFigures,
    second: FileFigures,
) -> dict[str, bool | None]:
    """Return for each thing that makes scores if two files differ in it; None: at least one does not say it."""
    differs: dict[str, bool | None] = {}
    for name, words in WAYS.items():
        a = first.words[words]
        b = second.words[words]
        differs[name] = a.keys() != b.keys() if a and b else None
    if differs["judge"]:
        # their digest is of the judges' names, too
        differs["parameters"] = None
    return differs


def _middle(
    numbers: Sequence[float],
    edges: Sequence[float],
) -> Json:
    return {"bins": histogram(numbers, edges), "median": quantile(numbers, 0.5)}


def _bin(
    edges: Sequence[float],
    value: float,
) -> int:
    """Return the bin of a value: an edge is in the bin above it, what is outside in the first or last."""
    last = len(edges) - 1
    return bisect_right(edges, value, 1, last) - 1


def histogram(
    values: Iterable[float],
    edges: Sequence[float],
) -> list[Json]:
    """Count values between edges, `n` in each bin; no bins without values."""
    empty = {"n": 0, "values": {"x": None}}
    filled = {cell["x"][0]: cell for cell in cells(zip(values), x=edges)}
    bins = []
    for start, stop in pairwise(edges):
        cell = filled.get(start, empty)
        bins.append(
            {
                "from": start,
                "to": stop,
                "n": cell["n"],
                "values": cell["values"]["x"],
            }
        )
    return bins if filled else []


def cells(
    points: Iterable[Sequence[float]], **axes: Sequence[float]
) -> list[Json]:
    """Count points between the edges of axes, which have names; empty cells are left out."""
    held = defaultdict[tuple[int, ...], list[Sequence[float]]](list)
    for point in points:
        held[tuple(map(_bin, axes.values(), point))].append(point)
    filled = []
    for place, inside in sorted(held.items()):
        cell: Json = {}
        ranges = {}
        columns = zip(*inside, strict=True)
        for name, number, column in zip(axes, place, columns, strict=True):
            cell[name] = [*axes[name][number : number + 2]]
            ranges[name] = [min(column), max(column)]
        filled.append({**cell, "n": len(inside), "values": ranges})
    return filled
