"""The judge behind the connections: its answers, its refusals, and its counts."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import orjson

from tests.judge_server.asks import Ask, err, read_ask
from tests.judge_server.conduct import Conduct, around
from tests.judge_server.cues import CUES
from tests.judge_server.meters import Books, Load, Rates
from tests.judge_server.replies import Reply, good, limit, refuse, too_long

_SPELLS = {"once": 1, "twice": 2}


class Judge:
    """The state of one server; `reset` forgets everything except requests in flight."""

    def __init__(self, conduct: Conduct) -> None:
        self.first_conduct = conduct
        self.load = Load()
        self.reset()

    def reset(self) -> None:
        """Count from zero, and behave as at the start."""
        self.conduct = self.first_conduct
        self.load.reset()
        self.rates = Rates(self.conduct.window)
        self.books = Books()
        self.waits, self.waited = 0, 0.0
        self.statuses: Counter[str] = Counter()
        self.forms: Counter[str] = Counter(json_schema=0, json_object=0, none=0)
        self.keys: dict[str, None] = {}
        self.requests: deque[Any] = deque(maxlen=200)
        self.cast: Counter[tuple[str, int]] = Counter()

    def chat(self, body: bytes, key: str | None) -> Reply:
        """The reply to a request that has just come in; `leave` has to follow."""
        now = time.monotonic()
        accepted = self.load.arrive(now, self.capacity(now))
        if key is not None:
            self.keys[key] = None
        try:
            reply = self.answer(body, now, accepted)
        except ValueError as error:
            reply = refuse(400, f"judge_server: {error}")
        reply.asked = now
        paid = reply.status == 200
        self.rates.arrive(
            now, reply.prompt_tokens * paid, reply.completion_tokens * paid
        )
        # What never arrives whole has no status: it counts by the name of its delivery.
        self.statuses[
            str(reply.status) if reply.delivery == "whole" else reply.delivery
        ] += 1
        return reply

    def answer(self, body: bytes, now: float, accepted: bool) -> Reply:
        """Refuse by the limits, or misbehave by chance or on cue, or judge."""
        request = orjson.loads(body)
        self.requests.append(request)
        conduct, content = self.conduct, hash(body) or 1
        ask = read_ask(request)
        self.forms[ask.form] += 1
        seen = self.books.see(content)
        if not accepted:
            return self.full(conduct.retry_after)
        ask.prompt_tokens = int(
            sum(map(_bytes, ask.texts)) / conduct.bytes_per_token
        )
        latency, chance = conduct.latency, None
        if conduct.draws:
            dice = conduct.dice(body, seen)
            chance = conduct.misbehaviour(dice)
            latency = around(latency, conduct.latency_spread, dice)
            if conduct.completion is not None:
                drawn = around(
                    conduct.completion, conduct.completion_spread, dice
                )
                ask.completion_tokens = max(1, round(drawn))
        if chance in ("429", "429-bare"):
            return self.full(
                None if chance == "429-bare" else conduct.retry_after or 0.0
            )
        if conduct.context is not None and ask.prompt_tokens > conduct.context:
            return too_long(ask.prompt_tokens, conduct.context)
        if conduct.cut is not None and ask.prompt_tokens > conduct.cut:
            ask.prompt_tokens = conduct.cut
            for entry in ask.entries:
                entry["score"] = 0.99
        if conduct.errors is not None:
            err(ask, conduct.errors)
        reply = CUES[chance](ask) if chance else self.behaviour(ask)(ask)
        if conduct.rpm is not None or conduct.tpm is not None:
            tokens = reply.prompt_tokens + reply.completion_tokens
            wait = self.rates.admitted.wait(
                now, conduct.rpm, conduct.tpm, tokens
            )
            if wait > 0:
                return self.full(
                    None if conduct.retry_after is None else math.ceil(wait)
                )
            self.rates.admitted.add(now, tokens)
            if conduct.tells:
                reply.headers += self.rates.admitted.left(
                    conduct.rpm, conduct.tpm
                )
        stalls_after = conduct.stalls_after
        if stalls_after is not None and len(self.requests) > stalls_after:
            latency = 120.0
        reply.content = content
        reply.delay += latency
        return reply

    def full(self, seconds: float | None) -> Reply:
        """A 429 before any latency of a judge."""
        return limit(None if seconds is None else f"{seconds:g}")

    def capacity(self, now: float) -> int | None:
        """The requests in flight that are allowed now."""
        capacity = self.conduct.capacity
        if self.conduct.schedule:
            since = now - self.rates.first if self.rates.requests else 0.0
            for at, scheduled in self.conduct.schedule:
                if since >= at:
                    capacity = scheduled
        return capacity

    def behaviour(self, ask: Ask) -> Callable[[Ask], Reply]:
        """The reply that the model's name cues."""
        cue = ask.model.rpartition("/")[2]
        spell, _, kind = cue.partition("-")
        if spell not in _SPELLS:
            return CUES.get(cue, good)
        group = (cue, hash(frozenset(ask.rollouts.values())))
        self.cast[group] += 1
        return (
            good if self.cast[group] > _SPELLS[spell] else CUES.get(kind, good)
        )

    def leave(self, reply: Reply, gone: bool) -> None:
        """A request is over: answered, or its caller is gone."""
        now = time.monotonic()
        self.load.leave(now)
        if not gone:
            self.waits += 1
            self.waited += now - reply.asked
        if reply.charged:
            self.books.bill(reply, gone)

    def other(self, route: str, body: bytes) -> Reply:
        """The replies to other requests, which tests make."""
        if route == "GET /stats":
            return Reply(orjson.dumps(self.stats()))
        if route == "GET /requests":
            return Reply(orjson.dumps(list(self.requests)))
        if route == "POST /reset":
            self.reset()
            return Reply(b"{}")
        if route == "POST /configure":
            try:
                self.conduct = self.conduct.with_(orjson.loads(body))
            except (ValueError, TypeError) as error:
                return refuse(400, f"judge_server: {error}")
            self.rates.fullest.span = self.rates.admitted.span = (
                self.conduct.window
            )
            return Reply(b"{}")
        return refuse(404, f"Unknown request URL: {route}", "unknown_url")

    def stats(self) -> dict[str, Any]:
        """Everything that is counted."""
        return {
            "requests": self.rates.requests,
            "in_flight": self.load.in_flight,
            "in_flight_max": self.load.most,
            "latency": self.waited / self.waits if self.waits else None,
            "by_status": self.statuses,
            "by_format": self.forms,
            "keys": list(self.keys),
            "rates": self.rates.report(self.conduct.rpm, self.conduct.tpm),
            "phases": [
                phase.report(self.rates.first) for phase in self.load.phases
            ],
            "books": self.books.report(),
        }


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
