"""What judging a large input would take, from notes of every group and a look at some of them.

Laying out a gigabyte takes minutes. Of a large input only some groups are laid out, spread over all
of it, with those that are longest, that seem too long for the judge, or seem to hold the same rollout
twice. How many groups and rollouts there are is counted; what they come to in tokens is the length
that was noted of each, times what the groups laid out have shown. For high figures that is the most
that any of them has shown, not their mean.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruler_cli.estimate import Estimate, Kept, Seen, Total
from ruler_cli.index import place
from ruler_cli.judges.prices import Model
from ruler_cli.notes import Noted, Notes, Overview
from ruler_cli.quantiles import rounded
from ruler_cli.records import Group
from ruler_cli.scoring import words
from ruler_cli.scoring.request import BYTES_PER_TOKEN, lay_out
from ruler_cli.settings import AskSettings

SMALL = 64 << 20
"""Bytes of input up to which every group is laid out, and nothing is extrapolated."""
_SAMPLE = (32, 128)
"""Groups of the sample: the fewest, and the most, as far as they are not too many bytes."""
_ENOUGH = 6 << 20
"""Bytes of groups that tell enough."""
_LONGEST, _ALIKE, _LONG = 3, 24, 64
"""Groups that are laid out beside the sample: the longest, with equal rollouts, and near the limit."""
_HUGE = 32 << 20
"""Bytes of a group that is not laid out: no judge reads so much."""

Fetch = Callable[[Sequence[Sequence[int]]], Iterable[Group]]


@dataclass(frozen=True, slots=True)
class _Looked:
    """A group that was laid out: its tokens and entries, and what of it turned out to be the same.

    `spread` groups were drawn evenly from all.
    """

    group: Noted
    tokens: int
    entries: int
    identical: int
    tied: int
    spread: bool


@dataclass(slots=True)
class _Rate:
    """Tokens that a group comes to, as a multiple of those that its bytes in the dump tell."""

    fixed: float
    mean: float = 1.0
    most: float = 1.0

    def tokens(self, group: Noted, rate: float) -> float:
        """Tokens of a group's prompt."""
        return self._fixed(group.distinct) + rate * group.size / BYTES_PER_TOKEN

    def learn(self, looked: Iterable[_Looked]) -> None:
        """Take the rates from groups that were laid out whole; the mean from those that are spread."""
        actual = noted = 0.0
        rates = []
        for each in looked:
            one = max(1.0, each.tokens - self._fixed(each.entries))
            other = max(1.0, each.group.size / BYTES_PER_TOKEN)
            if not each.spread:
                rates.append(one / other)
                continue
            actual, noted = actual + one, noted + other
            rates.append(one / other)
        if noted:
            self.mean = actual / noted
        self.most = max([self.mean, *rates])

    def _fixed(self, entries: int) -> float:
        return self.fixed + 20 * entries


@dataclass(slots=True)
class _TooLong:
    """What may not fit the judge: how many groups, which of them were laid out, which did not fit."""

    maybe: int
    looked: int
    numbers: frozenset[int]
    keys: tuple[str, ...]

    @property
    def fit(self) -> float:
        """The share of those that were laid out which do fit: of the others it will be the same."""
        return 1 - len(self.numbers) / self.looked if self.looked else 1.0

    @property
    def unsure(self) -> int:
        """How many of those that were not laid out will not fit."""
        return round((self.maybe - self.looked) * (1 - self.fit))


def extrapolate(
    notes: Notes,
    whole: Overview,
    fetch: Fetch,
    ask: AskSettings,
    model: Model,
    params: Mapping[str, Any] | None = None,
    kept: Kept | None = None,
) -> Estimate:
    """The estimate.

    `fetch` reads groups, each given by the numbers of its records. `ask.context_tokens` is that of the
    model. UsageError as `estimate`.
    """
    seen, total = Seen(ask, model, kept), Total.of(model, params)
    rate = _Rate(400 + len((ask.rubric or words.RUBRIC).encode()) / BYTES_PER_TOKEN)
    sample, others = _picks(notes, whole)
    spread = {group.number for group in sample}
    looked: list[_Looked] = []
    for group, found in _fetched(notes, fetch, [*sample, *others]):
        mine = seen if group.number in spread else Seen(ask, model)
        before = mine.identical_rollouts, mine.tied_groups
        sheet = mine.look(found)
        if sheet is not None and sheet.tokens > total.longest[0]:
            total.longest = sheet.tokens, sheet
        bare = (
            lay_out(found, replace(ask, context_tokens=None)) if sheet is None or sheet.shortening else sheet
        )
        alike, tied = mine.identical_rollouts - before[0], mine.tied_groups - before[1]
        looked.append(_Looked(group, bare.tokens, len(bare.bodies), alike, tied, group.number in spread))
    rate.learn(looked)
    long = _long(notes, fetch, ask, model, rate)
    for group in notes.groups():
        if group.number not in long.numbers:
            tokens, most = rate.tokens(group, rate.mean), rate.tokens(group, rate.most)
            limit = model.context or most
            likely = long.fit if most > limit and long.unsure else 1.0
            total.add(min(tokens, limit), group.distinct, min(most, limit), likely)
    share = seen.kept / max(1, seen.groups)
    total.part = 1 - share
    told = replace(
        seen,
        groups=len(looked) + long.looked,
        kept=round(share * total.asked),
        kept_failed=round(seen.kept_failed / max(1, seen.groups) * total.asked),
        suspect=round(seen.suspect / max(1, seen.rollouts) * whole.rollouts),
        identical_rollouts=_identical(whole, looked),
        tied_groups=_tied(whole, looked),
        too_long=len(long.numbers) + long.unsure,
        keys=long.keys,
        lengths=Counter(),
    )
    for size, count in whole.lengths.items():
        told.lengths[rounded(int(size * rate.mean / BYTES_PER_TOKEN))] += count
    return total.estimate(ask, model.price, told, whole.groups)


def _picks(notes: Notes, whole: Overview) -> tuple[list[Noted], list[Noted]]:
    """Groups spread over all, and beside them the longest and some that seem to repeat a rollout."""
    fewest, most = _SAMPLE
    number = min(most, max(fewest, _ENOUGH * whole.groups // max(1, notes.bytes)))
    step = -(-whole.groups // number)
    sample: list[Noted] = []
    alike: list[Noted] = []
    longest: list[tuple[int, int, Noted]] = []
    for i, group in enumerate(notes.groups()):
        if group.size > _HUGE:
            continue
        if i % step == 0:
            sample.append(group)
            continue
        if group.distinct < group.rollouts and len(alike) < _ALIKE:
            alike.append(group)
        heapq.heappush(longest, (group.size, i, group))
        if len(longest) > _LONGEST:
            heapq.heappop(longest)
    others = {group.number: group for group in (*alike, *(group for _, _, group in longest))}
    return sample, list(others.values())


def _fetched(notes: Notes, fetch: Fetch, wanted: Sequence[Noted]) -> Iterator[tuple[Noted, Group]]:
    records = notes.places(group.number for group in wanted)
    by_first = {records[group.number][0]: group for group in wanted}
    for found in fetch([records[group.number] for group in wanted]):
        yield by_first[place(found.records[0])], found


def _long(notes: Notes, fetch: Fetch, ask: AskSettings, model: Model, rate: _Rate) -> _TooLong:
    """Lay out those groups that may be more than the judge's context: all, or some spread over them."""
    if model.context is None:
        return _TooLong(0, 0, frozenset(), ())
    picked: list[Noted] = []
    huge: list[int] = []
    number, step = 0, 1
    for group in notes.groups():
        if rate.tokens(group, rate.most) <= model.context:
            continue
        if group.size > _HUGE:
            huge.append(group.number)
            continue
        if number % step == 0:
            picked.append(group)
        if len(picked) > _LONG:
            picked, step = picked[::2], 2 * step
        number += 1
    seen, numbers = Seen(ask, model), set(huge)
    for group, found in _fetched(notes, fetch, picked):
        before = seen.too_long
        seen.look(found)
        if seen.too_long > before:
            numbers.add(group.number)
    return _TooLong(number + len(huge), len(picked) + len(huge), frozenset(numbers), seen.keys)


def _identical(whole: Overview, looked: Sequence[_Looked]) -> int:
    """Rollouts that repeat another: those that seem to, as far as a look at some has shown them so."""
    seemed = sum(one.group.rollouts - one.group.distinct for one in looked)
    were = sum(one.identical for one in looked if one.group.distinct < one.group.rollouts)
    unlike = [one.identical for one in looked if one.spread and one.group.distinct == one.group.rollouts]
    missed = sum(unlike) / len(unlike) if unlike else 0.0
    alike = whole.identical * were / seemed if seemed else whole.identical
    return round(alike + missed * (whole.groups - whole.alike))


def _tied(whole: Overview, looked: Sequence[_Looked]) -> int:
    """Groups with nothing to compare: those of one rollout, and of those that seem so the part that is."""
    seem = [one.tied for one in looked if one.group.distinct == 1 < one.group.rollouts]
    singles = whole.sizes[1]
    return singles + round((whole.tied - singles) * (sum(seem) / len(seem) if seem else 1.0))
