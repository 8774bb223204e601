"""What a run tells while it runs; silent by default. Only the CLI prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ruler_cli.records import Problem, Usage

if TYPE_CHECKING:
    from ruler_cli.figures import Figures


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
    figures: Figures | None = None

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
