"""What a run tells while it runs; silent by default. Only the CLI prints."""

from __future__ import annotations

from dataclasses import dataclass, field

from ruler_cli.records import Problem, Usage


@dataclass(slots=True)
class Summary:
    """What a run did. `failed` counts groups by the kind of their failure."""

    groups: int = 0
    scored: int = 0
    rollouts: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    tied: int = 0
    suspect: int = 0
    rescaled: int = 0
    unknown_ids: int = 0
    shortened: int = 0
    written: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every group and every trajectory has its score."""
        return not self.failed and not self.unreadable


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

    def replied(self, group: str, text: str) -> None:
        """A judge's reply, as it came."""
