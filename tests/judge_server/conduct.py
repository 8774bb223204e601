"""Conduct of a server for all requests: its speed, its limits, its errors."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tests.judge_server.cues import CUES, MALFORMED


@dataclass(frozen=True, slots=True)
class Conduct:
    """Settings of a test or a benchmark; `with_` checks them."""

    latency: float = 0.0
    """Seconds before each reply, the mean of them; a refusal by a limit comes at once."""
    latency_spread: float = 0.0
    """Sigma of a log-normal latency; 0: it is fixed."""
    stalls_after: int | None = None
    """Requests that are answered; each later one waits for minutes."""
    capacity: int | None = None
    """Requests in flight; one more is answered 429."""
    schedule: tuple[tuple[float, int | None], ...] = ()
    """(seconds after the first request, capacity from then on), in order."""
    rpm: float | None = None
    tpm: float | None = None
    """Requests and tokens per window; a request beyond them is answered 429."""
    window: float = 60.0
    """Seconds of the sliding window."""
    retry_after: float | None = None
    """Seconds that a 429 of chaos or of the capacity asks to wait; one of a rate asks for whole
    seconds until it is free. None: neither asks for any."""
    tells: bool = False
    """Set to have replies name in headers what `rpm` and `tpm` leave."""
    chaos: Mapping[str, float] = field(default_factory=dict)
    """Probability of each cue, or of `malformed`, which is one of several."""
    seed: int = 0
    bytes_per_token: float = 3.8
    completion: float | None = None
    """Mean of the completion tokens; None: a token for four characters of the reply."""
    completion_spread: float = 0.0
    """Sigma of log-normal completion tokens; 0: they are fixed."""
    context: int | None = None
    """Tokens of a prompt; a longer one is answered 400 with both numbers, and costs nothing."""
    cut: int | None = None
    """Tokens of a prompt that are read; of a longer one nothing else is seen, and only the usage says so."""
    errors: Mapping[str, float] | None = None
    """Errors of a good answer, as parameters of the simulated judge; None: it is the truth."""

    def with_(self, changes: Mapping[str, Any]) -> Conduct:
        """The same with changes from JSON; ValueError for an unknown field."""
        if unknown := set(changes) - {each.name for each in fields(self)}:
            raise ValueError(f"no such setting: {', '.join(sorted(unknown))}")
        changed = dict(changes)
        if "schedule" in changed:
            changed["schedule"] = tuple(
                (at, capacity) for at, capacity in changed["schedule"]
            )
        conduct = replace(self, **changed)
        if unknown := set(conduct.chaos) - {*CUES, "malformed"}:
            raise ValueError(f"no such cue: {', '.join(sorted(unknown))}")
        if sum(conduct.chaos.values()) > 1:
            raise ValueError("the probabilities of chaos exceed 1")
        return conduct

    @property
    def draws(self) -> bool:
        """Return whether anything is random."""
        return bool(
            self.chaos or self.latency_spread or self.completion is not None
        )

    def dice(self, body: bytes, seen: int) -> random.Random:
        """The same random numbers in every run: by the seed, a request, and how often it came before."""
        digest = hashlib.blake2b(
            body, digest_size=8, key=b"%d-%d" % (self.seed, seen)
        )
        return random.Random(digest.digest())

    def misbehaviour(self, dice: random.Random) -> str | None:
        """The cue that chance picks, if any."""
        drawn, kind = dice.random(), dice.choice(MALFORMED)
        for cue, share in self.chaos.items():
            if drawn < share:
                return kind if cue == "malformed" else cue
            drawn -= share
        return None


def around(mean: float, spread: float, dice: random.Random) -> float:
    """A log-normal number with this mean and sigma."""
    return (
        mean * math.exp(spread * dice.gauss() - spread * spread / 2)
        if spread
        else mean
    )
