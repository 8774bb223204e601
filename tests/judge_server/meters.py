"""Meters of a server: rates, load, and the cost of each request."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from tests.judge_server.replies import Reply


class Window:
    """Requests and tokens of the last `span` seconds, and the most there ever were."""

    def __init__(self, span: float) -> None:
        self.span = span
        self.tokens = self.most_requests = self.most_tokens = 0
        self.arrivals: deque[tuple[float, int]] = deque()

    def add(self, now: float, tokens: int) -> None:
        """Note an arrival."""
        arrivals = self.arrivals
        arrivals.append((now, tokens))
        self.tokens += tokens
        self.pass_to(now)
        self.most_requests = max(self.most_requests, len(arrivals))
        self.most_tokens = max(self.most_tokens, self.tokens)

    def pass_to(self, now: float) -> None:
        """Drop the entries that have left the window."""
        arrivals, gone = self.arrivals, now - self.span
        while arrivals and arrivals[0][0] <= gone:
            self.tokens -= arrivals.popleft()[1]

    def wait(
        self, now: float, rpm: float | None, tpm: float | None, tokens: int
    ) -> float:
        """Seconds until a request of so many tokens fits; one that never would fits an empty window."""
        self.pass_to(now)
        requests, held, until = len(self.arrivals), self.tokens, now
        for at, size in self.arrivals:
            full = rpm is not None and requests + 1 > rpm
            if not full and (tpm is None or held + tokens <= tpm):
                break
            until = at + self.span
            requests, held = requests - 1, held - size
        return until - now

    def left(self, rpm: float | None, tpm: float | None) -> str:
        """Headers with the requests and tokens that may still come, as OpenAI names them."""
        left = {
            "requests": None if rpm is None else rpm - len(self.arrivals),
            "tokens": None if tpm is None else tpm - self.tokens,
        }
        return "".join(
            f"x-ratelimit-remaining-{name}: {number:.0f}\r\n"
            for name, number in left.items()
            if number is not None
        )


class Rates:
    """Rates of all arrivals from the first to the last."""

    def __init__(self, span: float) -> None:
        self.fullest = Window(span)
        self.admitted = Window(span)
        self.requests = self.prompt = self.completion = self.last_tokens = 0
        self.first = self.last = 0.0

    def arrive(self, now: float, prompt: int, completion: int) -> None:
        """Note an arrival and the tokens that it will have used, none if it is refused."""
        if not self.requests:
            self.first = now
        self.last = now
        self.requests += 1
        self.prompt += prompt
        self.completion += completion
        self.last_tokens = prompt + completion
        self.fullest.add(now, self.last_tokens)

    def report(self, rpm: float | None, tpm: float | None) -> dict[str, Any]:
        """Means over all arrivals but the last, which begins a time that was not waited for."""
        windows = (self.last - self.first) / self.fullest.span
        requests = self.requests - 1
        tokens = self.prompt + self.completion - self.last_tokens
        shares = {"rpm": (requests, rpm), "tpm": (tokens, tpm)}
        return {
            "seconds": self.last - self.first,
            "tokens": {"prompt": self.prompt, "completion": self.completion},
            "mean": {
                name: count / windows if windows else None
                for name, (count, _) in shares.items()
            },
            "fullest": {
                "requests": self.fullest.most_requests,
                "tokens": self.fullest.most_tokens,
            },
            "utilisation": {
                name: count / windows / limit if windows and limit else None
                for name, (count, limit) in shares.items()
            },
        }


@dataclass(slots=True)
class Phase:
    """A time of one capacity; the first 429 ends the warm-up, which is a phase as well."""

    capacity: int | None
    began: float
    until: float
    used: float = 0.0  # busy seconds until the last arrival
    requests: int = 0
    refused: int = 0

    def report(self, start: float) -> dict[str, Any]:
        """Times in seconds after the first request; the share of the capacity that was used."""
        offered = (self.until - self.began) * (self.capacity or 0)
        return {
            "capacity": self.capacity,
            "began": self.began - start,
            "until": self.until - start,
            "used": self.used / offered if offered else None,
            "requests": self.requests,
            "refused": self.refused,
        }


class Load:
    """Requests in flight over time, against a capacity that may change."""

    def __init__(self) -> None:
        self.in_flight = self.most = 0
        self.phases: list[Phase] = []
        self.busy_seconds, self.now, self.warm = 0.0, 0.0, False

    def reset(self) -> None:
        """Forget everything except requests in flight."""
        self.phases, self.most, self.warm = [], self.in_flight, False

    def arrive(self, now: float, capacity: int | None) -> bool:
        """Count a request in, and tell if the capacity allows it."""
        if capacity is None and not self.phases:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            return True
        if not self.phases or self.phases[-1].capacity != capacity:
            if self.phases:
                self._settle(now)
            self._begin(now, capacity)
        phase = self._settle(now)
        phase.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if capacity is None or self.in_flight <= capacity:
            return True
        if not self.warm:
            self.warm = True
            phase.requests -= 1
            phase = self._begin(now, capacity)
            phase.requests += 1
        phase.refused += 1
        return False

    def leave(self, now: float) -> None:
        """Let a request go; the time until the next arrival decides if it counts."""
        if self.phases:
            self._flow(now)
        self.in_flight -= 1

    def _begin(self, now: float, capacity: int | None) -> Phase:
        self.phases.append(Phase(capacity, now, now))
        self.busy_seconds, self.now = 0.0, now
        return self.phases[-1]

    def _flow(self, now: float) -> None:
        capacity = self.phases[-1].capacity
        busy = (
            self.in_flight
            if capacity is None
            else min(self.in_flight, capacity)
        )
        self.busy_seconds += busy * (now - self.now)
        self.now = now

    def _settle(self, now: float) -> Phase:
        self._flow(now)
        phase = self.phases[-1]
        phase.used += self.busy_seconds
        phase.until, self.busy_seconds = now, 0.0
        return phase


class Books:
    """The paid replies: the times that each content was answered, and the cost."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.paid: dict[int, int] = {}
        self.answered: Counter[str] = Counter(calls=0, prompt=0, completion=0)
        self.abandoned: Counter[str] = Counter(calls=0, prompt=0, completion=0)

    def see(self, content: int) -> int:
        """Count a request; how often the same came before."""
        before = self.seen.get(content, 0)
        self.seen[content] = before + 1
        return before

    def bill(self, reply: Reply, gone: bool) -> None:
        """Charge a reply; a caller that is gone pays as well, as with a real provider."""
        self.paid[reply.content] = self.paid.get(reply.content, 0) + 1
        column = self.abandoned if gone else self.answered
        column["calls"] += 1
        column["prompt"] += reply.prompt_tokens
        column["completion"] += reply.completion_tokens

    def report(self) -> dict[str, Any]:
        """The totals, and how many contents were paid once, twice, …"""
        times = Counter(self.paid.values())
        return {
            "contents": len(self.seen),
            "answered": self.answered,
            "abandoned": self.abandoned,
            "times": {str(n): times[n] for n in sorted(times)},
            "paid_again": sum((n - 1) * count for n, count in times.items()),
        }
