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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ruler_cli.estimate.bill import Bill, Seat
from ruler_cli.estimate.notes import Noted, Notes, Overview
from ruler_cli.estimate.outlay import NEVER, Range
from ruler_cli.estimate.rate import Looked, Rate, passes
from ruler_cli.estimate.whole import Estimate, Seen, added, charge
from ruler_cli.index import place
from ruler_cli.judges.prices import Model
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
_HUGE, _LONG_BYTES = 32 << 20, 64 << 20
"""Bytes of a group that is not laid out, and of all that are because they are near the limit."""

Fetch = Callable[[Sequence[Sequence[int]]], Iterable[Group]]


@dataclass(slots=True)
class _TooLong:
    """What may not fit the judge: how many groups, which of them were looked at, which did not fit."""

    maybe: int
    looked: frozenset[int]
    numbers: frozenset[int]
    keys: tuple[str, ...]

    @property
    def fit(self) -> float:
        """The share of those that were looked at which do fit: of the others it will be the same."""
        return 1 - len(self.numbers) / len(self.looked) if self.looked else 1.0

    @property
    def unsure(self) -> int:
        """How many of those that were not looked at will not fit."""
        return round((self.maybe - len(self.looked)) * (1 - self.fit))


def extrapolate(
    notes: Notes,
    whole: Overview,
    fetch: Fetch,
    ask: AskSettings,
    seats: Sequence[Seat],
    *,
    adaptive: bool = False,
) -> Estimate:
    """What the judges of `seats` are asked, the first of them on the panel.

    `fetch` reads groups, each given by the numbers of its records.
    """
    seen = Seen()
    bills, sample = ([Bill.of(seat, ask, adaptive=adaptive) for seat in seats] for _ in range(2))
    rate = Rate(400 + len((ask.rubric or words.RUBRIC).encode()) / BYTES_PER_TOKEN)
    looked = _look(notes, fetch, whole, seen, sample)
    rate.learn(looked)
    rate.shared = seen.shared / max(1, seen.bytes)
    by_context = {bill.ask.context_tokens: bill.ask for bill in bills}
    long = {context: _long(notes, fetch, own, rate) for context, own in by_context.items()}
    for bill, few in zip(bills, sample, strict=True):
        bill.certain = few.certain / max(1, few.groups)
        bill.total.longest(*few.total.most)
    for group in notes.groups():
        for bill in bills:
            _charge(bill, group, rate, long[bill.ask.context_tokens])
    for bill, few in zip(bills, sample, strict=True):
        _settle(bill, few, long[bill.ask.context_tokens])
    shown = {one.group.number for one in looked}.union(*(each.looked for each in long.values()))
    told = replace(
        seen,
        groups=len(shown),
        suspect=round(seen.suspect / max(1, seen.rollouts) * whole.rollouts),
        identical_rollouts=_identical(whole, looked),
        tied_groups=_tied(whole, looked),
        lengths=Counter(),
    )
    for size, count in whole.lengths.items():
        told.lengths[rounded(int(size * rate.mean / BYTES_PER_TOKEN))] += count
    return added(told, bills, whole.groups)


def _look(notes: Notes, fetch: Fetch, whole: Overview, seen: Seen, sample: Sequence[Bill]) -> list[Looked]:
    """Lay out a sample, which `seen` and the bills take in, and beside it what may be special."""
    spread, others = _picks(notes, whole)
    numbers = {group.number for group in spread}
    bare = replace(sample[0].ask, context_tokens=None)
    beside, unkept = (
        Seen(),
        [Bill.of(replace(bill.seat, kept=None), bill.ask, adaptive=bill.adaptive) for bill in sample],
    )
    looked: list[Looked] = []
    for group, found in _fetched(notes, fetch, [*spread, *others]):
        drawn = group.number in numbers
        mine, bills = (seen, sample) if drawn else (beside, unkept)
        before = mine.identical_rollouts, mine.tied_groups
        sheet = bills[0].lay_out(found)
        if mine.look(found, sheet):
            charge(found, sheet, bills)
        if sheet.shortening:
            sheet = lay_out(found, bare)
        alike, tied = mine.identical_rollouts - before[0], mine.tied_groups - before[1]
        looked.append(Looked(group, sheet.tokens, len(sheet.bodies), alike, tied, drawn))
    for bill, other in zip(sample, unkept, strict=True):
        bill.total.longest(*other.total.most)
    return looked


def _charge(bill: Bill, group: Noted, rate: Rate, long: _TooLong) -> None:
    """What a group is expected to take by what was noted of it."""
    if group.number in long.numbers:
        return
    ask = bill.ask
    windows, limit = rate.windows(group, ask), ask.context_tokens
    tokens, most = (rate.tokens(group, each, windows) for each in (rate.mean, rate.most))
    likely = 1.0
    if limit is not None:
        if rate.tokens(group, rate.most) > limit and long.unsure:
            likely = long.fit
        tokens, most = min(tokens, limit), min(most, limit)
    alone = group.distinct == 1
    turns = range(passes(windows, ask, alone=alone))
    often = sum((bill.often(turn, alone=alone, certain=bill.certain) for turn in turns), NEVER)
    if not often.high:
        return
    bill.windowed += windows > 1
    if windows > 1:
        often = Range(windows * often.low, windows * often.expected, windows * often.high)
    bill.total.add(tokens, group.distinct / windows, often, high=most, likely=likely, windowed=windows > 1)


def _settle(bill: Bill, few: Bill, long: _TooLong) -> None:
    """What the sample shows of kept replies is taken for its part of all."""
    requests, total = max(1, few.requests), bill.total
    total.part = 1 - few.kept / requests
    bill.kept = round(few.kept / requests * total.asked)
    bill.kept_failed = round(few.kept_failed / requests * total.asked)
    bill.too_long, bill.keys = len(long.numbers) + long.unsure, long.keys


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


def _long(notes: Notes, fetch: Fetch, ask: AskSettings, rate: Rate) -> _TooLong:
    """Lay out those groups that may be more than the judge's context: all, or some spread over them."""
    limit = ask.context_tokens
    if limit is None:
        return _TooLong(0, frozenset(), frozenset(), ())
    picked: list[Noted] = []
    huge: list[Noted] = []
    number, step = 0, 1
    for group in notes.groups():
        if rate.tokens(group, rate.most) <= limit:
            continue
        if group.size > _HUGE:
            huge.append(group)
            continue
        if number % step == 0:
            picked.append(group)
        if len(picked) > _LONG or sum(one.size for one in picked) > _LONG_BYTES:
            picked, step = picked[::2], 2 * step
        number += 1
    lost = [group.number for group in huge if rate.tokens(group, rate.mean, group.distinct) > limit]
    bill = Bill.of(Seat("", Model(context=limit)), replace(ask, passes=1), adaptive=False)
    for group, found in _fetched(notes, fetch, picked):
        before = bill.too_long
        bill.take(found.key, bill.lay_out(found))
        if bill.too_long > before:
            lost.append(group.number)
    looked = frozenset(group.number for group in (*picked, *huge))
    return _TooLong(number + len(huge), looked, frozenset(lost), bill.keys)


def _identical(whole: Overview, looked: Sequence[Looked]) -> int:
    """Rollouts that repeat another: those that seem to, as far as a look at some has shown them so."""
    seemed = sum(one.group.rollouts - one.group.distinct for one in looked)
    were = sum(one.identical for one in looked if one.group.distinct < one.group.rollouts)
    unlike = [one.identical for one in looked if one.spread and one.group.distinct == one.group.rollouts]
    missed = sum(unlike) / len(unlike) if unlike else 0.0
    alike = whole.identical * were / seemed if seemed else whole.identical
    return round(alike + missed * (whole.groups - whole.alike))


def _tied(whole: Overview, looked: Sequence[Looked]) -> int:
    """Groups with nothing to compare: those of one rollout, and of those that seem so the part that is."""
    seem = [one.tied for one in looked if one.group.distinct == 1 < one.group.rollouts]
    singles = whole.sizes[1]
    return singles + round((whole.tied - singles) * (sum(seem) / len(seem) if seem else 1.0))
