"""The limits of one judge: calls in flight, amounts per minute, and money.

docs/running.md lists the rules of the adaptive limit: additive increase, multiplicative decrease (Chiu and
Jain 1989, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance"), with slow start
(Jacobson 1988). In detail:

- A round is as many replies as the limit allows, of calls that went since it changed, with no failure among
  them and four fifths of the limit in use. The limit grows after one round.
- Within the cooldown of a cut a refusal lowers the limit to the calls in flight, and to nine tenths of them if its
  call went after an earlier one was known.
- Calls beyond the first few go at most 32 times as fast as the judge is known to answer, and for 15 s after
  a refusal hardly faster, so that a refusal comes before most of a burst went.
- It grows to at most 1.1 times the limit that failed. If that is clean too, the memory is wrong and doubling
  starts again.
- What rate-limit headers leave beside the calls in flight bounds them, and is used at once until a call is
  refused. Headers that leave nothing while calls are answered are no longer believed.
- Two calls of a round that time out, with others answered meanwhile but none that was sent later, waited in
  the judge's queue: as many as were answered can wait so long, so the limit falls to four fifths of them.
- A pool begins with what the last one learned of the same judge. Refusals, and limits below the usual start,
  are forgotten after a quarter of an hour: the judge may have been down.
- Once refusals prove to be single calls' own (`cooldown.py`), the limit that failed is taken up again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruler_cli.tokens import BYTES_PER_TOKEN, USUAL_ANSWER
from ruler_cli.types import Request, Usage, value

START = 8
"""Calls in flight at first."""
START_OF_QUEUE = 64
"""Calls in flight at first to a judge that has calls wait in a queue and refuses none."""
_CUT = 0.8
_GROW = 1.05
_MEMORY = 1.1
_IN_USE = 0.8
_LESS = 0.9
_COOLDOWN = 15.0
_GAIN = 1.15
_STRIKES = 2
_PLATEAU = 60.0
_REPLIES = 40
"""Replies before a limit that failed is tried again."""
_SURGE = 32
"""Factor on the rate at which the judge answers, for a burst of calls."""
_CALM = 1.25
"""The same for 15 s after a refusal."""
_SOON = 0.005
"""Seconds that are not worth a timer."""
_RECENT = 8
"""Weight of all earlier replies against the newest in the mean of their seconds."""
_LATE = 2
"""Calls of a round that time out if they wait in a queue."""
_VAIN = 32
"""Replies in a row whose headers leave nothing, until headers are no longer believed."""
_KNOWN = 256
"""Judges of which a process remembers what it learned."""
_VALID = 900.0
"""Seconds until it forgets what failed."""


@value
class Sent:
    """The state of a pool when a call goes.

    `number` counts the calls that went, from 0. `epoch` is that of the concurrency limit. `ahead` are the
    other calls in flight, `replies` all replies so far. `began` is the loop's time.
    """

    number: int
    epoch: int
    ahead: int = 0
    replies: int = 0
    began: float = 0.0


LEARNED: dict[Hashable, AdaptiveConcurrency] = {}
"""The last limit of each judge in this process, that the next pool begins with; the newest stand last."""


class AdaptiveConcurrency:
    """A limit that follows the capacity of the server."""

    def __init__(
        self, ceiling: int, start: int = START, judge: Hashable = None
    ) -> None:
        """`ceiling` connections can be open on this machine. `start` calls go at first.

        `judge` is the key under which pools of this process share what they learn; None: they do not.
        """
        self.limit = min(start, ceiling)
        self.epoch = 0
        """Number of changes of the limit so far."""
        self._ceiling = ceiling
        self._judge = judge
        self._most = ceiling
        self._vain = 0
        self._lifted = False
        self._start = self.limit
        self._proved = 0
        self._late = 0
        self._seconds_each = self._gap = 0.0
        self._spread = self._refused = -math.inf
        self._doubling = True
        self._failed = self._clean = 0
        self._cut_until = self._grow_from = -math.inf
        self._rounds = 1
        self._rate = 0.0
        self._strikes = 0
        self._replies = 0
        self._seconds = 0.0
        self._peak = 0
        self._disturbed = False
        self._learned_at = 0.0
        earlier = LEARNED.get(judge)
        if earlier is None:
            return
        self._seconds_each = earlier._seconds_each
        self._clean = earlier._clean
        if time.monotonic() >= earlier._learned_at + _VALID:
            self.limit = min(max(self._start, self._clean), ceiling)
            return
        self.limit = min(earlier.limit, ceiling)
        self._failed = earlier._failed
        self._doubling = earlier._doubling

    @property
    def allowed(self) -> int:
        """The calls that may be in flight now."""
        return min(self.limit, self._most)

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go, so that a refusal comes before most of a burst went."""
        burst = self._spread - self._start * self._gap - now
        return burst if burst > _SOON else 0.0

    def sent(
        self,
        now: float,
        call: Sent,
    ) -> None:
        """Note that a call goes: the highest number in flight, and the time."""
        self._peak = max(self._peak, call.ahead + 1)
        self._spread = max(self._spread, now) + self._gap

    def replied(
        self,
        now: float,
        call: Sent,
        seconds: float,
    ) -> None:
        """Count a call that was answered after `seconds` towards the round; at its end the limit may grow."""
        self._proved = max(self._proved, call.ahead)
        weight = _RECENT if self._seconds_each else 1
        self._seconds_each += (seconds - self._seconds_each) / weight
        self._spread_out(now)
        if call.epoch != self.epoch:
            return
        self._replies += 1
        self._seconds += seconds
        if self._replies < self.limit:
            return
        if self._peak < _IN_USE * self.limit or self._disturbed:
            self._begin()
            return
        rate = self.limit * self._replies / max(self._seconds, 1e-9)
        self._rounds += 1
        self._set(self._grown(now, rate))

    def rejected(
        self, now: float, call: Sent, in_flight: int, retry_after: float | None
    ) -> None:
        """Cut the limit, or within a cooldown lower it to what the server still holds.

        A call passed a limit of the server, with `in_flight` other calls in flight.
        """
        late = call.began > self._refused
        self._refused = now
        self._spread_out(now)
        self._spread = max(self._spread, now + self._start * self._gap)
        if call.epoch != self.epoch and now >= self._cut_until:
            return  # it went before the limit changed
        if now < self._cut_until:
            held = int(_LESS * in_flight) if late else in_flight
            self._set(max(1, min(self.limit, held)))
        else:
            if self._lifted:  # far above the calls that were in flight
                self._lifted = False
                most_in_flight = max(call.ahead, in_flight) + 1
                self.limit = min(self.limit, most_in_flight)
            self._failed = min(self.limit, call.ahead + 1)
            if self._clean >= self.limit:
                self._clean = 0  # it is so no more
            self._doubling = False
            self._set(max(1, int(self.limit * _CUT)))
            self._cut_until = now + max(_COOLDOWN, retry_after or 0.0)
        self._grow_from = now + _COOLDOWN

    def _spread_out(self, now: float) -> None:
        """Set the time between calls of a burst, by the calls that the judge is known to answer at once."""
        if now < self._refused + _COOLDOWN:
            rate = self.limit * _CALM
        else:
            proved = max(self._start, self._proved + 1)
            rate = min(self.limit, proved) * _SURGE
        self._gap = self._seconds_each / rate

    def cleared(self) -> None:
        """Go back to the limit that failed, and on from there as if it had not: it was single calls' own."""
        if not self._failed:
            return
        limit = self._failed
        self._failed = self._clean = 0
        self._doubling = True
        self._rate = 0.0
        self._strikes = 0
        self._cut_until = self._grow_from = -math.inf
        self._set(max(limit, self.limit))

    def disturbed(self) -> None:
        """Hold growth back until a round without failures."""
        self._disturbed = True

    def timed_out(self, call: Sent, answered: int, now: float) -> None:
        """Cut the limit to what is answered in time; without any answer the judge is stuck or down.

        Neither the call nor a later one was answered in time; `answered` calls were meanwhile.
        """
        most = max(1, int(_CUT * answered))
        if call.epoch != self.epoch or not answered or most >= call.ahead:
            return
        self._late += 1
        if self._late < _LATE:  # a single call may be slow by itself
            return
        self._failed = answered
        self._clean = 0
        self._doubling = False
        self._rounds = 0
        self._grow_from = now + _PLATEAU
        self._set(most)

    def left(
        self,
        in_flight: int,
        calls: int | None,
    ) -> None:
        """Bound the calls in flight, and lift the limit to the bound unless a call was refused.

        Rate limits leave so many `calls` beside those `in_flight`; None: they are not named.
        """
        if calls is None:
            self._most = self._ceiling
            return
        self._vain = 0 if calls else self._vain + 1
        if self._vain >= _VAIN:
            self._most = self._ceiling
            return
        self._most = max(1, min(in_flight + calls, self._ceiling))
        # not for a few more, since each change of the limit begins a new round
        if not self._failed and self._most >= 2 * self.limit:
            self._lifted = True
            self._set(self._most)

    def _grown(self, now: float, rate: float) -> int:
        """Return the limit after a clean round, which is higher if it is time for that."""
        limit = self.limit
        failed = self._failed
        if failed and limit < self._clean:
            return self._clean
        self._clean = max(limit, self._clean)
        if self._doubling:
            if limit == self._ceiling:  # a round more at it is no plateau
                return limit
            if rate < _GAIN * self._rate:
                self._strikes += 1
            else:
                self._strikes = 0
            self._rate = max(rate, self._rate)
            if self._strikes < _STRIKES:
                return 2 * limit
            self._doubling = False
            self._rounds = 0
            self._grow_from = now + _PLATEAU
            return max(1, limit // 2)
        if now < self._grow_from:
            return limit
        most = int(_MEMORY * failed)
        if limit >= most:
            # the time of a plateau is over, or what failed once is clean
            self._doubling = True
            self._strikes = _STRIKES - 1
            if failed:
                self._failed = self._strikes = 0
                self._rate = rate
            return 2 * limit
        more = max(limit + 1, math.ceil(limit * _GROW))
        higher = min(most, more)
        # not to the limit that failed before many replies: it may cost a refusal
        if higher >= failed and self._rounds * limit < _REPLIES:
            return limit
        self._rounds = 0
        return higher

    def _set(self, limit: int) -> None:
        if limit != self.limit:
            self.limit = min(limit, self._ceiling)
            self.epoch += 1
        self._begin()

    def _remember(self) -> None:
        if self._judge is None:
            return
        self._learned_at = time.monotonic()
        LEARNED.pop(self._judge, None)  # the newest stands last
        LEARNED[self._judge] = self
        # a copy: other threads may have pools too
        for judge in list(LEARNED)[:-_KNOWN]:
            LEARNED.pop(judge, None)

    def _begin(self) -> None:
        self._replies = 0
        self._seconds = 0.0
        self._peak = 0
        self._disturbed = False
        self._late = 0
        self._remember()


class ConcurrencyLimit(AdaptiveConcurrency):
    """A number of calls in flight that the user has set: nothing changes it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit, limit)

    @property
    def allowed(self) -> int:
        """The calls that may be in flight now."""
        return self.limit

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go."""
        return 0.0

    def _set(self, limit: int) -> None:
        self._begin()


_SPAN = 60.25
"""Seconds of the window: a quarter more than a minute, for time that the network adds or takes."""
_GRAIN = 0.05
"""Seconds that share an entry, so that memory is bounded at any rate."""
_BURST = 1.0
"""Seconds' worth that may go at once: a full minute's would send twice the limit in the first minute."""


@dataclass(slots=True)
class Entry:
    """The amount that went within one grain of time from `since` on; it leaves the window at `until`."""

    since: float
    until: float
    amount: float


class Window:
    """A sliding minute that never holds more than its limit, and is filled evenly.

    Two rules, both needed: an exact log of what went (no minute above the limit), and a virtual
    schedule (GCRA, ITU-T I.371, with a tolerance of one second), without which all would go in the
    first second of every minute.  Without a limit it only counts.
    """

    def __init__(self, limit: float | None = None) -> None:
        """`limit` is an amount per minute: requests, or tokens."""
        self.limited = limit is not None
        self._limit = limit
        self._log: deque[Entry] = deque()
        self._sum = 0.0
        self._due = -math.inf

    def wait(
        self,
        now: float,
        amount: float,
    ) -> float:
        """Return the seconds until `amount` may go; 0 is now.

        An amount above the whole limit goes alone, as soon as the window is empty.
        """
        if self._limit is None:
            return 0.0
        self._forget(now)
        if not self._log:
            return 0.0
        # an empty window owes nothing
        owed = min(self._due - _BURST, self._log[-1].until)
        wait = max(0.0, owed - now)
        over = self._sum + amount - self._limit
        for entry in self._log:
            if over <= 0:
                break
            over -= entry.amount
            wait = max(wait, entry.until - now)
        return wait

    def take(
        self,
        now: float,
        amount: float,
    ) -> Entry:
        """Count an amount that goes now. Return its entry, for `settle`."""
        self._forget(now)
        until = now + _SPAN
        if not self._log or self._log[-1].since + _GRAIN < now:
            self._log.append(Entry(now, until, 0.0))
        entry = self._log[-1]
        entry.amount += amount
        entry.until = until
        self._sum += amount
        if self._limit is not None:
            self._due = max(self._due, now) + amount * _SPAN / self._limit
        return entry

    def settle(
        self,
        now: float,
        entry: Entry,
        more: float,
    ) -> None:
        """Correct an estimate by `more`, which may be negative."""
        self._forget(now)
        if self._log and entry.until >= self._log[0].until:
            entry.amount += more
            self._sum += more
        if self._limit is not None:
            self._due += more * _SPAN / self._limit

    def used(self, now: float) -> float:
        """Return the amount of the last minute."""
        self._forget(now)
        return self._sum

    def _forget(self, now: float) -> None:
        while self._log and self._log[0].until <= now:
            self._sum -= self._log.popleft().amount
        if not self._log:
            self._sum = 0.0  # drops the rounding error of the sum
            self._due = -math.inf


@dataclass(slots=True)
class Allowance:
    """USD that a group may spend yet, on so many `calls`; if it is `refused`, none of its calls goes."""

    left: float = 0.0
    refused: bool = False
    calls: int = 0


class Budget:
    """USD of one run: nothing begins that could lift what is spent, unsure, reserved and promised above the cap.

    A group is promised what its calls may cost at most, so that it can be ended, and a call that goes has its part
    of that reserved. A call that was sent and brought no usage may have been billed: its estimate is added to
    `unsure`, which counts towards the cap and is not reported as spent.
    """

    def __init__(
        self,
        cap: float | None = None,
        *,
        fair: bool = False,
    ) -> None:
        """`cap` in USD; None only counts. If it is `fair`, the first group that does not fit is the last one."""
        self.cap = cap
        self.spent = 0.0
        self.unsure = 0.0
        self.reserved = 0.0
        self.promised = 0.0
        self.open = 0
        """Calls that hold a reservation."""
        self.closed = False
        """True once a group or a call was refused."""
        self.least = math.inf
        """USD that the cheapest group or call which was refused may cost."""
        self.watchers: list[Callable[[], None]] = []
        """Gates that share the budget: each is called when money comes free."""
        self._fair = fair
        self._begun = 0
        self._waiting = deque[
            tuple[Sequence[Callable[[], float]], asyncio.Future[Allowance]]
        ]()

    @property
    def waiting(self) -> int:
        """Groups that wait for money."""
        return len(self._waiting)

    def fits(
        self,
        amount: float,
        left: float = 0.0,
        *,
        promises: bool = True,
    ) -> bool:
        """Return whether a call of this price may go; `left` of it is promised. `promises`: those count, too."""
        if self.cap is None:
            return True
        held = self.promised - left if promises else 0.0
        return (
            self.spent + self.unsure + self.reserved + held + amount <= self.cap
        )

    async def begin(self, prices: Sequence[Callable[[], float]]) -> Allowance:
        """Wait until a group may begin, in the order of the groups; its calls may cost `prices`, as far as is known."""
        answer: asyncio.Future[Allowance] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting.append((prices, answer))
        self.admit()
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled():
                self.end(answer.result())
            raise

    def end(self, allowance: Allowance) -> None:
        """Take back what a group did not spend."""
        if not allowance.refused:
            self._begun -= 1
            self.promised = (
                self.promised - allowance.left if self._begun else 0.0
            )
            allowance.left = 0.0
            self._notify()

    def reserve(
        self,
        amount: float,
        allowance: Allowance | None = None,
    ) -> None:
        """Hold the price of a call that goes now."""
        if allowance is not None:
            # what a call was promised beyond its price is no other call's
            share = allowance.left / max(1, allowance.calls)
            part = min(max(amount, share), allowance.left)
            allowance.calls -= 1
            allowance.left -= part
            self.promised -= part
        self.reserved += amount
        self.open += 1

    def settle(
        self,
        amount: float,
        actual: float | None,
    ) -> None:
        """Replace a call's reserved `amount` by its actual cost, None if that is not known."""
        self.open -= 1
        self.reserved = max(0.0, self.reserved - amount)
        if not self.open:
            self.reserved = 0.0  # whatever the rounding of sums says
        if actual is None:
            self.unsure += amount
        else:
            self.spent += actual
        self._notify()

    def refuse(self, amount: float) -> None:
        """Note that the cap does not pay for a group or a call of this price."""
        self.closed = True
        self.least = min(self.least, amount)

    def admit(self) -> None:
        """Let groups begin that fit, and refuse those that do not and for which no money can come free."""
        while self._waiting:
            prices, answer = self._waiting[0]
            if answer.cancelled():
                self._waiting.popleft()
                continue
            amount = sum(price() for price in prices)
            # beside others it needs twice as much: theirs and its own calls may have to be corrected
            need = 2 * amount if self._begun else amount
            ended = self._fair and self.closed
            fits = not amount or (self.fits(need) and not ended)
            if not fits and (self.open or self._begun):
                return
            self._waiting.popleft()
            if fits:
                self._begun += 1
                self.promised += amount
            else:
                self.refuse(amount)
            answer.set_result(Allowance(amount * fits, not fits, len(prices)))

    def _notify(self) -> None:
        self.admit()
        for watcher in self.watchers:
            watcher()


_PRIOR = 2.0
"""Factor on the guess of an answer before the first reply: too high costs a second, too low breaks a limit."""
_DEAR = 1.5
"""Factor on a prompt before the first reply, and on the longest answer, to hold money for it."""
_DECAY = 0.98
"""Weight of all earlier replies against the newest."""


@dataclass(slots=True)
class _Ratio:
    """Actual / guessed, as a forgetting mean and as the highest seen; 0 before the first reply."""

    actual: float = 0.0
    guessed: float = 0.0
    mean: float = 0.0
    highest: float = 0.0

    def learn(
        self,
        actual: float,
        guessed: float,
    ) -> None:
        self.actual = _DECAY * self.actual + actual
        self.guessed = _DECAY * self.guessed + guessed
        self.mean = self.actual / self.guessed
        faded = self.mean + _DECAY * (self.highest - self.mean)
        self.highest = max(actual / guessed, faded)


class Size(NamedTuple):
    """Guesses of a request's tokens, and the bound on its answer."""

    prompt: int
    answer: int
    bound: int | None


class Estimates:
    """Prompt and completion tokens of a request: the expected number, and an upper bound for money.

    A tokenizer costs as much as the call. So tokens come from the length of the request, corrected by the
    ratio that the judge's own usage shows.
    """

    def __init__(self, most: int | None = None) -> None:
        """`most` completion tokens are allowed by the user's own parameters."""
        self._most = most
        self._prompt = _Ratio()
        self._completion = _Ratio()
        self._longest = _Ratio()

    def expected(self, request: Request) -> Usage:
        """Return the tokens to reserve against a limit per minute."""
        size = self.size(request)
        prompt = int(size.prompt * (self._prompt.mean or 1.0)) + 1
        answer = int(size.answer * (self._completion.mean or _PRIOR)) + 1
        return Usage(prompt, min(answer, size.bound or answer))

    def size(self, request: Request) -> Size:
        """Guess the tokens from the length of the prompt and the number of labels."""
        texts = request.system, request.user, request.asked
        length = sum(
            len(text if text.isascii() else text.encode("utf-8", "replace"))
            for text in texts
        )
        bounds = [
            bound for bound in (request.max_output_tokens, self._most) if bound
        ]
        return Size(
            int(length / BYTES_PER_TOKEN) + request.picture_tokens + 1,
            int(request.answer_tokens(USUAL_ANSWER)),
            min(bounds, default=None),
        )

    def highest(self, request: Request | Size) -> Usage:
        """Return the tokens to reserve money for.

        The prompt takes as many for its length as any did of late, all of it put into a cache; the answer its bound, or
        more than any did.
        """
        size = request if isinstance(request, Size) else self.size(request)
        prompt = int(size.prompt * (self._prompt.highest or _DEAR)) + 1
        longest = _DEAR * (self._longest.highest or _PRIOR * size.answer)
        return Usage(prompt, size.bound or int(longest) + 1, written=prompt)

    def learn(
        self,
        request: Request,
        usage: Usage,
    ) -> None:
        """Take in the usage of a reply."""
        size = self.size(request)
        self._prompt.learn(usage.prompt, size.prompt)
        self._completion.learn(usage.completion, size.answer)
        self._longest.learn(usage.completion, 1)
