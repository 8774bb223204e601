"""Scored groups → how often scores order two rollouts as labels do, for one file or two.

Of each group every judge adds its labelled pairs, and each figure is the share of pairs that it puts in order; its
interval is that of a bootstrap over groups.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import combinations
from typing import Any, NamedTuple

from ruler_cli.results.record import (
    GroupRecord,
    Json,
    RolloutRecord,
)
from ruler_cli.scoring.bootstrap import (
    Bootstrap,
    Measured,
    measured,
)
from ruler_cli.scoring.statistics import Concordance, won

_GAPS = {
    0.05: "to 0.05",
    0.1: "to 0.1",
    0.2: "to 0.2",
    0.4: "to 0.4",
    9e99: "above 0.4",
}
_BINS = {
    "gap": (*_GAPS.values(),),
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
_APART = "apart"
"""The share of pairs that two files order differently, a tied one as a half."""
GATED = "with_unscored"
"""The pairwise accuracy in which a pair counts as wrong if the judge was asked about it and gave no score."""
_PEOPLE = "people"
"""The share of pairs in which another person says the same as one."""
_JUDGES_FAILURES = ("reply", "refused", "too_long", "unknown")
_AT_ONCE = 128
"""Labelled rollouts of a group whose pairs are compared; of more, a sample."""

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


def votes_of(labels: Mapping[int, float]) -> Iterator[Vote]:
    """Yield a vote for each two rollouts with different labels."""
    labelled = [*labels]
    if len(labelled) > _AT_ONCE:
        labelled = random.Random(0).sample(labelled, _AT_ONCE)
    for pair in combinations(labelled, 2):
        worse, better = sorted(pair, key=labels.__getitem__)
        if labels[better] > labels[worse]:
            yield Vote(better, worse)


class AgreementBuilder:
    """The judges of one file or of two; they share one bootstrap, and so its resamples."""

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self._main: list[_Judge] = [("scorers", name) for name in names]
        baselines = [("baselines", "longer"), ("baselines", "shorter")]
        self._judges = dict.fromkeys([*self._main, *baselines])
        self._counts = Counter[str]()
        # of pairs, whatever their weights
        self._pairs: defaultdict[Any, Concordance] = defaultdict(Concordance)
        self._shares = Bootstrap()

    def add(
        self,
        *groups: GroupRecord,
        votes: Iterable[Vote] | None = None,
        labelled: Collection[int] = (),
    ) -> None:
        """Add one group as each file has it; only rollouts that all files score count.

        Without `votes` on the `labelled` rollouts their own labels count.
        """
        rollouts = groups[0].rollouts
        if votes is None:
            labels = {
                i: rollout.label
                for i, rollout in enumerate(rollouts)
                if rollout.label is not None
            }
            votes = votes_of(labels)
            labelled = labels
        values = [*map(self._values, *[group.rollouts for group in groups])]
        self._counts["groups"] += 1
        self._counts["rollouts"] += len(rollouts)
        self._counts["compared"] += sum(1 for i in labelled if values[i])
        asked = was_asked(groups[0])
        shares = defaultdict[Any, list[float]](lambda: [0.0, 0.0])
        for vote in votes:
            results = self._results(
                vote,
                values,
                rollouts,
            )
            result = results.get(self._main[0])
            if asked:
                results[GATED] = result or 0.0
            if result is not None and vote.agreed is not None:
                results[_PEOPLE] = vote.agreed
            if result is not None and len(groups) > 1:
                difference = result - results[self._main[1]]
                results[_DIFFERENCE] = difference
                results[_APART] = abs(difference)
            weight = vote.share * vote.weight
            for key, amount in results.items():
                self._pairs[key].add(amount, vote.share)
                shares[key][0] += weight * amount
                shares[key][1] += weight
        self._shares.add(shares)

    def _values(self, *sides: RolloutRecord) -> _Values:
        """Return the values of a rollout as each file has it; none if some file has no score."""
        rollout = sides[0]
        values = {}
        for judge, side in zip(
            self._main,
            sides,
            strict=True,
        ):
            if side.judge_score is None:
                return {}
            values[judge] = side.judge_score
        values["baselines", "longer"] = rollout.size
        values["baselines", "shorter"] = -rollout.size
        if len(sides) > 1:
            return values
        more = {
            "panel": rollout.panel,
            "criteria": rollout.criterion_values,
        }
        for kind, numbers in more.items():
            for name, number in numbers.items():
                judge = (kind, name)
                if judge in self._judges or len(self._judges) < MOST_JUDGES:
                    self._judges[judge] = None
                    values[judge] = number
        return values

    def _results(
        self,
        vote: Vote,
        values: Sequence[_Values],
        rollouts: Sequence[RolloutRecord],
    ) -> dict[Any, float]:
        """Return the result of a vote for each judge that has values for both, as a tie one half.

        That of the file's own judge stands there again under the bins of the pair.
        """
        high = values[vote.better]
        low = values[vote.worse]
        results: dict[Any, float] = {
            judge: won(high[judge], low[judge])
            for judge in high.keys() & low.keys()
        }
        judge = self._main[0]
        if judge not in results:
            return results
        better = rollouts[vote.better]
        worse = rollouts[vote.worse]
        longer = (better.size - worse.size) / max(
            better.size,
            worse.size,
            1,
        )
        if abs(longer) <= _ALIKE:
            longer = 0.0
        bins = {"length": _bin("length", longer)}
        at = better.mean_position
        other_at = worse.mean_position
        if at is not None and other_at is not None:
            bins["slot"] = _bin("slot", round(at - other_at, 9))
        gap = round(abs(high[judge] - low[judge]), 9)
        if gap:
            bins["gap"] = _GAPS[next(end for end in _GAPS if gap <= end)]
        for bin_ in bins.items():
            results[bin_] = results[judge]
        return results

    def agreement(self) -> Agreement:
        """Measure all groups so far."""
        # of groups at the ends of the scale all pairs are right or wrong
        ends = dict.fromkeys(self._pairs, (0.0, 1.0))
        # and all that two files order differently are so for one of them, or for the other
        apart = self._shares.ratio(_APART)
        ends[_DIFFERENCE] = (-apart, apart)
        rows = [*self._shares.rows(ends)]
        groups = self._shares.groups

        def measure(key: Any) -> Measured:
            return measured(
                key,
                rows,
                groups[key],
            )

        def figures(key: Any, **named: str) -> Json:
            """Return how many pairs there are, how many against the labels and tied, and the accuracy."""
            pairs = self._pairs[key]
            return {
                **named,
                "pairs": round(pairs.pairs),
                "against": round(pairs.lost),
                "tied": round(pairs.tied),
                _ACCURACY: measure(key),
            }

        listed = defaultdict[str, list[Json]](list)
        for kind, name in self._judges:
            listed[kind].append(figures((kind, name), name=name))
        difference = None
        if len(self._main) > 1:
            difference = measure(_DIFFERENCE)
            low = difference["low"]
            sure = low is not None and not low <= 0 <= difference["high"]
            difference["told_apart"] = sure
        else:
            scorer = listed["scorers"][0]
            scorer[GATED] = measure(GATED)
            for kind, bins in _BINS.items():
                rows_of_bins = [
                    figures((kind, bin_), bin=bin_) for bin_ in bins
                ]
                scorer[f"by_{kind}"] = [
                    row for row in rows_of_bins if row["pairs"]
                ]
        # a single judge is no panel
        if len(listed["panel"]) > 1:
            listed["scorers"] += listed["panel"]
        return {
            "groups": self._counts["groups"],
            "mixed_groups": groups[self._main[0]],
            "rollouts": self._counts["rollouts"],
            "compared": self._counts["compared"],
            "scorers": listed["scorers"],
            "baselines": listed["baselines"],
            "criteria": listed["criteria"],
            "difference": difference,
            "people": measure(_PEOPLE) if groups[_PEOPLE] else None,
        }


def _bin(kind: str, difference: float) -> str:
    """Return the bin of a pair by what the better rollout has more of than the worse one."""
    less, more, alike = _BINS[kind]
    if not difference:
        return alike
    return more if difference > 0 else less
