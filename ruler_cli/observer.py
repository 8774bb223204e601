"""A run's reports: its summary, the quality of its scores, and its events; silent by default."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ruler_cli.types import Problem, Usage

_EVERY, _LASTS = 60.0, 5.0
"""Seconds between two reports of a wait for a judge, and those after which another wait is reported."""


@dataclass(frozen=True, slots=True)
class PositionBin:
    """Scores of the rollouts shown between positions `start` and `stop`, from 0 (first) to 1 (last).

    `mean` is the mean of their scores less that of all shown with them, `error` its standard error,
    `scores` their number.
    """

    start: float
    stop: float
    mean: float
    error: float | None
    scores: int


@dataclass(frozen=True, slots=True)
class Length:
    """Scores against length, within groups.

    `slope` is the score that a rollout of twice the bytes gets more, `error` its standard error, with a
    group as the unit. `correlation` is that of the score with the logarithm of the length. `groups` counts
    groups whose rollouts differ in length.
    """

    slope: float
    error: float
    correlation: float
    groups: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two judges that scored the same rollouts.

    `correlation` is that of their scores within groups, over `rollouts`. `errors` is that of the residuals
    once the original reward is taken out of both, over the `rewarded` rollouts that have one: no panel
    corrects errors that its judges share. Each is None if there are too few rollouts.
    """

    judges: tuple[str, str]
    correlation: float | None
    rollouts: int
    errors: float | None
    rewarded: int


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A rollout whose score contradicts its outcome: its group's key, its number there from 1, its score."""

    group: str
    rollout: int
    score: float


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Statistics over the scores of a batch.

    `groups` were scored, `mean_score` is the mean of all their scores. `tie_rate` is the share of them
    without relative signal, `degraded` the number with a failed pass. `slot_curve` is the position bias
    over `slot_groups` groups; `debiased` tells that it was subtracted. `reliability` counts groups by
    tenths of it, 0.0 to 0.1 first; `reliability_median` is over those. `noise` is the standard
    deviation of one score over passes, all groups together. `flawed` rollouts passed their check with a
    score below 0.5, `near_misses` failed with one from 0.5 on: the most extreme are listed.
    `without_outcome` counts rollouts without an outcome, if others have one or if outcomes were asked
    for.
    """

    groups: int = 0
    mean_score: float | None = None
    tie_rate: float | None = None
    degraded: int = 0
    slot_curve: tuple[PositionBin, ...] = ()
    slot_groups: int = 0
    debiased: bool = False
    length: Length | None = None
    judges: tuple[Pair, ...] = ()
    reliability: tuple[int, ...] = (0,) * 10
    reliability_median: float | None = None
    noise: float | None = None
    flawed: int = 0
    flawed_listed: tuple[Contradiction, ...] = ()
    near_misses: int = 0
    near_misses_listed: tuple[Contradiction, ...] = ()
    without_outcome: int = 0


@dataclass(slots=True)
class Summary:
    """The numbers of a run.

    `total` is the number of groups in the input, None for a stream; `groups` counts those that are done.
    `failed` counts groups by the kind of their failure, `failed_before` those of them that failed in an
    earlier run and were not asked again, `kept` groups that needed no call. `degraded` groups lack a
    pass, `cut` groups lack one because of the cap, `windowed` groups were shown in parts, `escalated` groups
    were scored by the stronger judge. `tied` groups have no relative signal: among them `alone` groups have
    one distinct rollout, and `one_score` groups have several with one score. Of the `explained` replies,
    those about several rollouts, `same_explanations` have one text for all. `asked` counts calls with all
    their tries, `hedged` second calls beside a slow one, `retried` tries by their reason, `unanswered`
    requests that the ledger does not answer if no judge is asked. `usage` and `cost_usd` are of this run,
    `kept_usd` is the earlier cost of cached replies, `unsure_usd` the possible cost of calls without a reply.
    `figures` are there at the end of a run.

    `rubric_texts` are the first rubrics of the run by their digest, and `more_rubrics` counts groups with
    others; `params_texts` are the parameters of its judges. `served` counts groups by the models that judges
    say that they are.
    """

    total: int | None = None
    groups: int = 0
    scored: int = 0
    kept: int = 0
    rollouts: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    failed_before: int = 0
    unreadable: int = 0
    tied: int = 0
    alone: int = 0
    one_score: int = 0
    explained: int = 0
    same_explanations: int = 0
    suspect: int = 0
    rescaled: int = 0
    unknown_ids: int = 0
    shortened: int = 0
    degraded: int = 0
    cut: int = 0
    windowed: int = 0
    escalated: int = 0
    written: int = 0
    asked: int = 0
    hedged: int = 0
    retried: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    kept_usd: float | None = 0.0
    unsure_usd: float | None = 0.0
    most_in_flight: int = 0
    seconds: float = 0.0
    stopped: str | None = None
    figures: BatchFigures | None = None
    rubric_texts: dict[str, str] = field(default_factory=dict)
    more_rubrics: int = 0
    params_texts: dict[str, str] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[Summary]) -> Summary:
        """Return the sums over parts of one run; None if a part does not know its number."""
        whole = cls()
        for part in parts:
            for name in (each.name for each in fields(cls)):
                one, other = getattr(whole, name), getattr(part, name)
                if name in ("total", "stopped", "figures", "rubric_texts", "more_rubrics", "params_texts"):
                    continue
                if isinstance(one, dict):
                    setattr(whole, name, dict(sorted((Counter(one) + Counter(other)).items())))
                else:
                    setattr(whole, name, None if one is None or other is None else one + other)
        return whole

    @property
    def complete(self) -> bool:
        """True if every group and every trajectory of the input has its score."""
        return not (self.failed or self.unreadable or self.unanswered)


def duration(seconds: float) -> str:
    """Write seconds for people."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def wait_sentence(why: str, seconds: float) -> str:
    """Return the sentence on calls that wait for a judge, at most so many seconds."""
    end = f"for up to {duration(seconds)}" if seconds < math.inf else "until it answers"
    return f"{why}; calls wait {end}"


def answer_sentence(judge: str, seconds: float) -> str:
    """Return the sentence on a judge that answers again after so many seconds."""
    return f"{judge or 'the judge'} answers again after {duration(seconds)}"


@dataclass(frozen=True, slots=True)
class JudgeWait:
    """A wait of all calls to a judge, because of `why`; it ends when the judge answers.

    `seconds` is how long it may still last: then calls are given up, or go if the judge asked for the wait.
    """

    judge: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the pool at one moment.

    No call will go for `waiting` seconds, because of `why`; if `why` alone is given, the seconds are not
    known. Numbers per minute are of the last one. `retrying` calls failed, and wait to be tried again.
    `waits` are those for judges that are down, or that asked for a long wait.
    """

    in_flight: int = 0
    limit: int = 0
    queued: int = 0
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    waiting: float = 0.0
    why: str = ""
    retrying: int = 0
    waits: tuple[JudgeWait, ...] = ()

    @property
    def outage(self) -> str:
        """The causes of the waits for judges; empty if none is waited for."""
        return "; ".join(dict.fromkeys(wait.why for wait in self.waits))

    @classmethod
    def of(cls, each: Sequence[Status]) -> Status:
        """Return the sum of several, with the longest wait of any, and of all for one judge."""
        longest = max(each, key=lambda status: (status.waiting, status.why), default=cls())
        waits = sorted((wait for s in each for wait in s.waits), key=lambda wait: wait.seconds)
        return cls(
            sum(s.in_flight for s in each),
            sum(s.limit for s in each),
            sum(s.queued for s in each),
            sum(s.requests_per_minute for s in each),
            sum(s.tokens_per_minute for s in each),
            longest.waiting,
            longest.why,
            sum(s.retrying for s in each),
            tuple({wait.judge: wait for wait in waits}.values()),
        )


class Observer:
    """A receiver of a run's events.

    Inherit from it and write the methods that you need. From Python, notes, warnings, failures and replies
    that it has no method for go to the logger `ruler_cli`.
    """

    def note(self, sentence: str) -> None:
        """Take a sentence that a person should know, once."""

    def warn(self, sentence: str) -> None:
        """Take a warning: the run goes on."""

    def problem(self, problem: Problem) -> None:
        """Take a part of the input that could not be read."""

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Take a group that could not be scored."""

    def scored(self, group: str, scores: Sequence[float | None], fields: Mapping[str, Any]) -> None:
        """Take the final scores of a group by its key, once, also if its replies were cached.

        A rollout that cannot be judged has None. `fields` is the group's `ruler` object of OUTPUT.
        """

    def started(self, groups: int | None) -> None:
        """Note that judging begins; `groups` is None if their number is not known."""

    def advanced(self, summary: Summary) -> None:
        """Note that a group is done and written."""

    def tick(self, summary: Summary, status: Status) -> None:
        """Note that a second has passed."""

    def waiting(self, judge: str, why: str, seconds: float) -> None:
        """Note that calls wait for a judge, at most `seconds`: it is down, or asks for it. Warns of it.

        Called when the wait begins, and then once a minute.
        """
        self.warn(wait_sentence(why, seconds))

    def answering(self, judge: str, seconds: float) -> None:
        """Note that a judge answers again, after so many seconds. Warns of it, since a wait was warned of."""
        self.warn(answer_sentence(judge, seconds))

    def stopping(self, in_flight: int, grace: float) -> None:
        """Note that the run stops, and waits at most `grace` seconds for `in_flight` calls."""

    def replied(self, group: str, text: str) -> None:
        """Take the text of a judge's reply to a group."""


class WaitReports:
    """Reports the waits for judges to an observer: each when it begins, once a minute, and at its end.

    One that begins within a minute of an earlier report is reported once it has lasted for some seconds.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._since, self._reported = dict[str, float](), dict[str, float]()

    def look(self, now: float, status: Status) -> None:
        """Report what has changed until `now`, in seconds of any clock."""
        waits = {wait.judge: wait for wait in status.waits}
        for judge in [judge for judge in self._since if judge not in waits]:
            since = self._since.pop(judge)
            if self._reported.get(judge, -math.inf) >= since:
                self._observer.answering(judge, now - since)
        busy = status.in_flight or status.queued or status.retrying
        for judge, wait in waits.items():
            reported, begun = self._reported.get(judge, -math.inf), judge not in self._since
            since = self._since.setdefault(judge, now)
            due = now >= reported + _EVERY or (since > reported and now >= since + _LASTS)
            if due and (busy or begun):
                self._reported[judge] = now
                self._observer.waiting(judge, wait.why, wait.seconds)
