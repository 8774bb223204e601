"""Scored groups → how often scores order two rollouts as labels do, for one file or two.

Of each group every judge adds its labelled pairs to sums, and each figure is one sum divided by another; its interval
is that of a bootstrap over groups.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from ruler_cli.results.record import GroupRecord, Json, RolloutRecord
from ruler_cli.scoring.bootstrap import Bootstrap, Measured, measured
from ruler_cli.scoring.statistics import won

_GAPS = {
    0.05: "to 0.05",
    0.1: "to 0.1",
    0.2: "to 0.2",
    0.4: "to 0.4",
    9e99: "above 0.4",
}
_BINS = {
    "gap": _GAPS.values(),
    "slot": ("earlier", "later", "alike"),
    "length": ("shorter", "longer", "alike"),
}
"""The kinds by which pairs of rollouts are divided, and the bins of each."""
_ALIKE = 0.05
"""Two rollouts are alike in length if the longer one is longer by at most this share."""
MOST_JUDGES = 80
"""Judges and criteria that are measured."""
_ACCURACY = "pairwise_accuracy"
"""The figure of a judge: the share of pairs in the order of their labels, a tied one as a half."""
_DIFFERENCE = "difference"
"""The figure of two files: that of the first less that of the second."""
GATED = "with_unscored"
"""The pairwise accuracy in which a pair counts as wrong if the judge was asked about it and gave no score."""
_PEOPLE = "people"
"""The share of pairs in which another person says the same as one."""
_JUDGES_FAILURES = ("reply", "refused", "too_long", "unknown")
_AT_ONCE = 128
"""Labelled rollouts of a group whose pairs are compared; of more, a sample."""
_TIED = 0.5

Agreement = Json
"""The object that `ruler agree` prints as JSON.

The first of `scorers` is the file's own score; the judges of a panel follow. `baselines` are judges of length
alone, on the same rollouts, `criteria` are those of the rubric, each value as it is. `mixed_groups` have rollouts
with different labels. `difference` is that of the accuracy of two files, the first less the second.
"""
_Judge = tuple[str, str]
"""A name, and what it is of: the `scorers`, of a `panel`, of `baselines` or of `criteria`, and its name."""
_Values = Mapping[_Judge, float]
"""The values that judges give to a rollout."""


def was_asked(group: GroupRecord) -> bool:
    """Return whether the judge was asked about a group: it scored a part of it, or failed by itself."""
    return group.status == "scored" or group.kind in _JUDGES_FAILURES


class Vote(NamedTuple):
    """A word that one rollout of a group is better than another, by their indices.

    `share` is its part in those about the same pair, `weight` the inverse of the chance that the pair had to be
    drawn. `agreed` tells how often another person says the same; None if nobody else said anything.
    """

    better: int
    worse: int
    share: float = 1.0
    weight: float = 1.0
    agreed: float | None = None


def votes_of(labels: Mapping[int, tuple[float, float]]) -> Iterator[Vote]:
    """Yield a vote for each two rollouts with different labels, each of which stands here with its weight."""
    labelled = [*labels]
    if len(labelled) > _AT_ONCE:
        labelled = random.Random(0).sample(labelled, _AT_ONCE)
    for pair in combinations(labelled, 2):
        worse, better = sorted(pair, key=labels.__getitem__)
        low, weight = labels[worse]
        high, more = labels[better]
        if high > low:
            yield Vote(
                better,
                worse,
                weight=weight * more,
            )


class AgreementBuilder:
    """The judges of one file or of two; they share one bootstrap, and so its resamples."""

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self._sums = Bootstrap()
        self._main: list[_Judge] = [("scorers", name) for name in names]
        self._judges = dict.fromkeys(self._main)
        self._judges["baselines", "longer"] = None
        self._judges["baselines", "shorter"] = None
        self._groups = 0
        self._rollouts = 0
        self._compared = 0
        # of pairs, whatever their weights
        self._counts = defaultdict[Any, float](float)

    def add(
        self,
        *groups: GroupRecord,
        votes: Sequence[Vote] | None = None,
        labelled: Collection[int] = (),
    ) -> None:
        """Add one group as each file has it; only rollouts that all files score count.

        Without `votes` on the `labelled` rollouts their own labels count.
        """
        rollouts = groups[0].rollouts
        if votes is None:
            labels = {}
            for i, rollout in enumerate(rollouts):
                if rollout.label is not None:
                    labels[i] = (rollout.label, 1.0)
            votes = [*votes_of(labels)]
            labelled = labels
        values = [*map(self._values, *[group.rollouts for group in groups])]
        self._groups += 1
        self._rollouts += len(rollouts)
        self._compared += sum(1 for i in labelled if values[i])
        sums = defaultdict[Any, float](float)
        asked = was_asked(groups[0])
        for vote in votes:
            results = _results(
                vote,
                values,
                rollouts,
            )
            result = results.get(self._main[0])
            if asked:
                results[GATED] = result or 0.0
            if result is not None and vote.agreed is not None:
                results[_PEOPLE] = vote.agreed
            weight = vote.share * vote.weight
            for key, amount in results.items():
                self._counts[key, "pairs"] += vote.share
                self._counts[key, "won"] += vote.share * amount
                self._counts[key, "tied"] += vote.share * (amount == _TIED)
                sums[key, "pairs"] += weight
                sums[key, "won"] += weight * amount
            if result is not None and len(groups) > 1:
                apart = result - results[self._main[1]]
                sums[_DIFFERENCE, "won"] += weight * apart
                sums[_DIFFERENCE, "apart"] += weight * abs(apart)
        self._sums.add(sums)

    def _values(self, *sides: RolloutRecord) -> _Values:
        """Return the values of a rollout as each file has it; none if some file has no score."""
        values: dict[_Judge, float] = {}
        for judge, side in zip(self._main, sides, strict=True):
            if side.judge_score is None:
                return {}
            values[judge] = side.judge_score
        rollout = sides[0]
        values["baselines", "longer"] = rollout.size
        values["baselines", "shorter"] = -rollout.size
        if len(sides) == 1:
            for name, score in rollout.panel.items():
                values["panel", name] = score
            for name, value in rollout.criterion_values.items():
                values["criteria", name] = value
        for judge in [*values]:
            if judge in self._judges or len(self._judges) < MOST_JUDGES:
                self._judges[judge] = None
            else:
                del values[judge]
        return values

    def agreement(self) -> Agreement:
        """Measure all groups so far."""
        figures = self._figures()
        listed = defaultdict[str, list[Json]](list)
        for judge in self._judges:
            row = {"name": judge[1], **self._row(judge, figures)}
            listed[judge[0]].append(row)
        for judge, scorer in zip(self._main, listed["scorers"], strict=True):
            if len(self._main) == 1:
                scorer[GATED] = figures[GATED]
            for kind, bins in _BINS.items():
                rows = []
                for bin_ in bins:
                    row = self._row((judge, kind, bin_), figures)
                    if row["pairs"]:
                        rows.append({"bin": bin_, **row})
                scorer[f"by_{kind}"] = rows
        # a single judge is no panel
        if len(listed["panel"]) > 1:
            listed["scorers"] += listed["panel"]
        people = figures[_PEOPLE]
        return {
            "groups": self._groups,
            "mixed_groups": figures[self._main[0]]["groups"],
            "rollouts": self._rollouts,
            "compared": self._compared,
            "scorers": listed["scorers"],
            "baselines": listed["baselines"],
            "criteria": listed["criteria"],
            "difference": self._difference(figures),
            "people": people if people["groups"] else None,
        }

    def _difference(self, figures: Mapping[Any, Measured]) -> Json | None:
        """Return the difference of two files, and if its interval leaves out 0."""
        if len(self._main) == 1:
            return None
        figure = figures[_DIFFERENCE]
        apart = figure["low"] is not None
        apart = apart and not figure["low"] <= 0 <= figure["high"]
        return {**figure, "told_apart": apart}

    def _row(
        self,
        key: Any,
        figures: Mapping[Any, Measured],
    ) -> Json:
        """Return how many pairs there are, how many against the labels and tied, and the accuracy."""
        pairs = self._counts[key, "pairs"]
        tied = self._counts[key, "tied"]
        against = pairs - self._counts[key, "won"] - tied / 2
        return {
            "pairs": round(pairs),
            "against": round(against),
            "tied": round(tied),
            _ACCURACY: figures[key],
        }

    def _figures(self) -> Mapping[Any, Measured]:
        """Measure the accuracy of each key, and the figures of two files."""
        totals = self._sums.totals()
        groups = self._sums.groups
        pairs_of = {key: key for key, name in self._counts if name == "won"}
        # in a group of average size all pairs are right, in another all are wrong
        least: dict[Any, float] = {}
        most: dict[Any, float] = {}
        for key in pairs_of:
            pairs = (key, "pairs")
            size = totals[pairs] / max(1, groups[pairs])
            least[pairs] = size
            most[pairs] = size
            most[key, "won"] = size
        # and all pairs that two files order differently are so for one of them, or for the other
        pairs_of[_DIFFERENCE] = self._main[0]
        pairs = (self._main[0], "pairs")
        apart = totals[_DIFFERENCE, "apart"] / max(1, groups[pairs])
        most[_DIFFERENCE, "won"] = apart
        least[_DIFFERENCE, "won"] = -apart
        resampled = defaultdict[Any, list[float | None]](list)
        for sums in self._sums.resamples((least, most)):
            for key, of in pairs_of.items():
                number = sums.get((of, "pairs"))
                if number:
                    won_pairs = sums.get((key, "won"), 0.0)
                    resampled[key].append(won_pairs / number)
        figures = defaultdict[Any, Measured](lambda: measured(None, (), 0))
        for key, of in pairs_of.items():
            number = groups[of, "pairs"]
            if number:
                value = totals[key, "won"] / totals[of, "pairs"]
                figures[key] = measured(
                    value,
                    resampled[key],
                    number,
                )
        return figures


def _results(
    vote: Vote,
    values: Sequence[_Values],
    rollouts: Sequence[RolloutRecord],
) -> dict[Any, float]:
    """Return the result of a vote for each judge that has values for both, as a tie one half.

    Those of the files' own judges stand there again under the bins of the pair.
    """
    better = rollouts[vote.better]
    worse = rollouts[vote.worse]
    longer = max(better.size, worse.size)
    length = "shorter"
    if abs(better.size - worse.size) <= _ALIKE * longer:
        length = "alike"
    elif better.size == longer:
        length = "longer"
    bins = [("length", length)]
    at = better.mean_position
    other_at = worse.mean_position
    if at is not None and other_at is not None:
        slot = "alike"
        later = round(at - other_at, 9)
        if later:
            slot = "later" if later > 0 else "earlier"
        bins.append(("slot", slot))
    high = values[vote.better]
    low = values[vote.worse]
    results: dict[Any, float] = {}
    for judge in high.keys() & low.keys():
        result = won(high[judge], low[judge])
        results[judge] = result
        if judge[0] != "scorers":
            continue
        for bin_ in bins:
            results[judge, *bin_] = result
        gap = round(abs(high[judge] - low[judge]), 9)
        if gap:
            end = next(end for end in _GAPS if gap <= end)
            results[judge, "gap", _GAPS[end]] = result
    return results
