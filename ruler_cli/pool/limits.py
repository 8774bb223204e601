"""The limits of one judge: calls in flight, amounts per minute, and money.

docs/running.md lists the rules of the adaptive limit: additive increase, multiplicative decrease (Chiu and
Jain 1989, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance"), with slow start
(Jacobson 1988). In detail:

- A round is as many replies as the limit allows, of calls that went since it changed, with no failure among
  them and four fifths of the limit in use. The limit grows after one round.
- Within the cooldown of a cut a refusal lowers the limit to the calls in flight.
- Calls beyond the first few go at most 32 times as fast as they are answered, and for 15 s after a refusal hardly
  faster, so that a refusal comes before most of a burst went.
- It grows to at most 1.1 times the limit that failed. If that is clean too, the memory is wrong and doubling
  starts again.
- A doubling that brings hardly more replies is taken back, and tried again after a minute.
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
_PLATEAU = 60.0
_RECENT = 8
"""Weight of all earlier replies against the newest in the mean of their seconds."""
_REPLIES = 40
"""Replies before a limit that failed is tried again."""
_SURGE = 32
"""Calls beyond the first few go at most so many times as fast as they are answered."""
_CALM = 1.25
"""The same for 15 s after a refusal."""
_SOON = 0.005
"""Seconds that are not worth a timer."""
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

    limit: int
    """Calls in flight at most."""

    def __init__(
        self, ceiling: int, start: int = START, judge: Hashable = None
    ) -> None:
        """`ceiling` connections can be open on this machine. `start` calls go at first.

        `judge` is the key under which pools of this process share what they learn; None: they do not.
        """
        self.epoch = 0
        """Number of changes of the limit so far."""
        self._judge = judge
        self._ceiling = self._most = ceiling
        self._vain = 0
        self._doubling = True
        self._failed = self._clean = self._steady = 0
        self._proved = START
        self._cut_until = self._grow_from = -math.inf
        self._calm_until = self._due = -math.inf
        self._rate = self._call_seconds = 0.0
        self._learned_at = 0.0
        limit = start
        if earlier := LEARNED.get(judge):
            self._clean = earlier._clean
            limit = max(start, self._clean)
            if time.monotonic() < earlier._learned_at + _VALID:
                limit = earlier.limit
                self._failed = earlier._failed
                self._doubling = earlier._doubling
        self.limit = min(limit, ceiling)
        self._begin()

    def _begin(self) -> None:
        """Begin a round."""
        self._replies = self._peak = self._late = 0
        self._seconds = 0.0
        self._disturbed = False

    @property
    def allowed(self) -> int:
        """The calls that may be in flight now."""
        return min(self.limit, self._most)

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go, so that a refusal comes before most of a burst went."""
        wait = self._due - START * self._gap(now) - now
        return wait if wait > _SOON else 0.0

    def sent(self, now: float, call: Sent) -> None:
        """Note that a call goes."""
        self._peak = max(self._peak, call.ahead + 1)
        self._due = max(self._due, now) + self._gap(now)

    def _gap(self, now: float) -> float:
        """Return the seconds between two calls of a burst."""
        if now < self._calm_until:
            return self._call_seconds / (_CALM * self.limit)
        return self._call_seconds / (_SURGE * min(self.limit, self._proved))

    def replied(
        self,
        now: float,
        call: Sent,
        seconds: float,
    ) -> None:
        """Count a call that was answered after `seconds` towards the round; at its end the limit may grow."""
        self._proved = max(self._proved, call.ahead + 1)
        self._call_seconds += (seconds - self._call_seconds) / _RECENT
        if call.epoch != self.epoch:
            return
        self._replies += 1
        self._seconds += seconds
        if self._replies < self.limit:
            return
        used = self._peak >= _IN_USE * self.limit
        if used and not self._disturbed:
            self._set(self._grown(now))
        self._begin()

    def rejected(
        self, now: float, call: Sent, in_flight: int, retry_after: float | None
    ) -> None:
        """Cut the limit, or within a cooldown lower it to what the server still holds.

        A call passed a limit of the server, with `in_flight` other calls in flight.
        """
        self._calm_until = now + _COOLDOWN
        self._due = max(self._due, now + START * self._gap(now))
        if now < self._cut_until:
            self._set(max(1, min(self.limit, int(_LESS * in_flight))))
        elif call.epoch == self.epoch:
            self._failed = min(self.limit, call.ahead + 1)
            if self._clean >= self.limit:
                self._clean = 0  # it is so no more
            self._doubling = False
            # headers may have lifted it far above the calls that were in flight
            most = min(self.limit, max(call.ahead, in_flight) + 1)
            self._set(max(1, int(most * _CUT)))
            self._cut_until = now + max(_COOLDOWN, retry_after or 0.0)
        else:
            return  # it went before the limit changed
        self._grow_from = now + _COOLDOWN

    def cleared(self) -> None:
        """Go back to the limit that failed, and on from there as if it had not: it was single calls' own."""
        if self._failed:
            limit = max(self._failed, self.limit)
            self._failed = self._clean = 0
            self._doubling = True
            self._rate = 0.0
            self._cut_until = self._grow_from = -math.inf
            self._set(limit)

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
        if self._late == _LATE:  # a single call may be slow by itself
            self._failed = answered
            self._clean = 0
            self._doubling = False
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
        self._vain = self._vain + 1 if calls == 0 else 0
        if calls is None or self._vain >= _VAIN:
            self._most = self._ceiling
            return
        self._most = max(1, min(in_flight + calls, self._ceiling))
        # not for a few more, since each change of the limit begins a new round
        if not self._failed and self._most >= 2 * self.limit:
            self._set(self._most)

    def _grown(self, now: float) -> int:
        """Return the limit after a clean round, which is higher if it is time for that."""
        limit = self.limit
        self._steady += self._replies
        if self._failed and limit < self._clean:
            return self._clean
        self._clean = max(limit, self._clean)
        rate = limit * self._replies / max(self._seconds, 1e-9)
        if self._doubling:
            if limit == self._ceiling:  # a round more at it is not a plateau
                return limit
            if rate >= _GAIN * self._rate:
                self._rate = rate
                return 2 * limit
            self._doubling = False
            self._grow_from = now + _PLATEAU
            return max(1, limit // 2)
        if now < self._grow_from:
            return limit
        most = int(_MEMORY * self._failed)
        if limit >= most:
            # the time of a plateau is over, or what failed once is clean
            self._doubling = True
            self._failed = 0
            self._rate = rate
            return 2 * limit
        higher = min(most, max(limit + 1, math.ceil(limit * _GROW)))
        # not to the limit that failed before many replies: it may cost a refusal
        few = self._steady < _REPLIES
        return limit if few and higher >= self._failed else higher

    def _set(self, limit: int) -> None:
        """Change the limit, which begins a round, and remember it for the next pool."""
        limit = min(limit, self._ceiling)
        if limit == self.limit:
            return
        self.limit = limit
        self.epoch += 1
        self._steady = 0
        self._begin()
        if self._judge is not None:
            self._learned_at = time.monotonic()
            LEARNED.pop(self._judge, None)  # the newest stands last
            LEARNED[self._judge] = self
            # a copy: other threads may have pools too
            for judge in list(LEARNED)[:-_KNOWN]:
                LEARNED.pop(judge, None)


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
        """Leave the limit as it is."""


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
        if entry.until > now:
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
