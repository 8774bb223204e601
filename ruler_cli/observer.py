"""What a run tells: its summary, what its scores are worth, and its events; silent by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from ruler_cli.types import Problem, Usage


@dataclass(frozen=True, slots=True)
class Bin:
    """A part of the slot curve: rollouts shown between `start` and `stop`, from 0 (first) to 1 (last).

    `mean` is how far their scores are above the mean of all shown with them, `error` its standard
    error, `scores` how many there are.
    """

    start: float
    stop: float
    mean: float
    error: float | None
    scores: int


@dataclass(frozen=True, slots=True)
class Length:
    """Scores against length, within groups.

    `slope` is what a rollout of twice the bytes gets more, `error` its standard error, with a group as
    the unit; `correlation` is of the score with the logarithm. `groups` are those whose rollouts differ
    in length.
    """

    slope: float
    error: float
    correlation: float
    groups: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two judges that scored the same rollouts.

    `correlation` is of their scores within groups, over `rollouts`. `errors` is the same of what is left
    of both once the original reward is taken out, over the `rewarded` rollouts that have one: what two
    judges get wrong together no panel of them puts right. None where too little is known.
    """

    judges: tuple[str, str]
    correlation: float | None
    rollouts: int
    errors: float | None
    rewarded: int


@dataclass(frozen=True, slots=True)
class Odd:
    """A rollout whose score contradicts its outcome: its group's key, its number in it from 1, its score."""

    group: str
    rollout: int
    score: float


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """What is known of the scores of a batch.

    `groups` were scored; `tie_rate` is the share of them without relative signal, `degraded` counts
    those of which a pass failed. `slot_curve` is over `slot_groups` groups and `debiased` tells that it
    was subtracted. `reliability` counts groups by tenths of it, 0.0 to 0.1 first, `reliability_median`
    is over those. `noise` is the standard deviation of one score over passes, all groups together.
    `flawed` passed their check with a score below 0.5, `near_misses` failed with one from 0.5 on: the
    most extreme of them are listed. `without_outcome` are rollouts of which a verifier said nothing
    although it did of others, or although outcomes were asked for.
    """

    groups: int = 0
    tie_rate: float | None = None
    degraded: int = 0
    slot_curve: tuple[Bin, ...] = ()
    slot_groups: int = 0
    debiased: bool = False
    length: Length | None = None
    judges: tuple[Pair, ...] = ()
    reliability: tuple[int, ...] = (0,) * 10
    reliability_median: float | None = None
    noise: float | None = None
    flawed: int = 0
    flawed_listed: tuple[Odd, ...] = ()
    near_misses: int = 0
    near_misses_listed: tuple[Odd, ...] = ()
    without_outcome: int = 0


@dataclass(slots=True)
class Summary:
    """What a run did.

    `total` is the number of groups in the input, None for a stream, `groups` of those that are done.
    `failed` counts groups by the kind of their failure, `failed_before` those of them that failed in an
    earlier run and were not asked again, `kept` groups that needed no call. `degraded` groups lack a
    pass, `cut` those that lack one because of the cap, `windowed` were shown in parts, `escalated` were
    scored by the stronger judge. `tied` groups have no relative signal: among them `alone`, which had
    nothing to compare, and `one_score`, others of which judges gave all rollouts the same. `asked` counts
    calls with all their tries, `retried` tries by what made them necessary, `unanswered` requests that the
    ledger does not answer where no judge is asked. `usage` and `cost_usd` are of this run, `kept_usd` is
    what kept replies had cost, `unsure_usd` what calls without a reply may have cost. `figures` tell what
    the scores are worth, at the end of a run.
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

    @classmethod
    def of(cls, parts: Sequence[Summary]) -> Summary:
        """Return the sums over parts of one run; None where one of them is not known."""
        whole = cls()
        for part in parts:
            for name in (each.name for each in fields(cls)):
                one, other = getattr(whole, name), getattr(part, name)
                if name in ("total", "stopped", "figures"):
                    continue
                if isinstance(one, dict):
                    setattr(whole, name, dict(sorted((Counter(one) + Counter(other)).items())))
                else:
                    setattr(whole, name, None if one is None or other is None else one + other)
        return whole

    @property
    def complete(self) -> bool:
        """Whether every group and every trajectory has its score, of all that was to be asked."""
        return not (self.failed or self.unreadable or self.unanswered)


@dataclass(frozen=True, slots=True)
class Status:
    """What the pool is doing at one moment.

    `waiting` is how many seconds nothing will go, and `why`; per-minute figures are of the last one.
    """

    in_flight: int = 0
    limit: int = 0
    queued: int = 0
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    waiting: float = 0.0
    why: str = ""
    spent_usd: float | None = None

    @classmethod
    def of(cls, each: Sequence[Status], spent_usd: float | None = None) -> Status:
        """Return several at one moment as one, with the longest wait of any."""
        longest = max(each, key=lambda status: status.waiting, default=cls())
        return cls(
            sum(s.in_flight for s in each),
            sum(s.limit for s in each),
            sum(s.queued for s in each),
            sum(s.requests_per_minute for s in each),
            sum(s.tokens_per_minute for s in each),
            longest.waiting,
            longest.why,
            spent_usd,
        )


class Observer:
    """Told what happens; a base that ignores everything."""

    def note(self, sentence: str) -> None:
        """Something a person should know, once."""

    def warn(self, sentence: str) -> None:
        """Something that looks wrong but does not stop the run."""

    def problem(self, problem: Problem) -> None:
        """Something of the input that could not be read."""

    def failed(self, group: str, kind: str, reason: str) -> None:
        """A group that could not be scored."""

    def started(self, groups: int | None) -> None:
        """Judging begins; None where the number of groups is not known."""

    def advanced(self, summary: Summary) -> None:
        """A group is done and written."""

    def tick(self, summary: Summary, status: Status) -> None:
        """A second has passed."""

    def stopping(self, in_flight: int, grace: float) -> None:
        """The run is told to stop, and waits so many seconds at most for what is in flight."""

    def replied(self, group: str, text: str) -> None:
        """A judge's reply, as it came."""
