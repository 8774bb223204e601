"""The truth of a scored file, read and matched without the page: figures, conditions, order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.highlights import Best, Shortlist, reasons
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.settings.models import InputSettings

Range = tuple[float | None, float | None]
_ROLLOUT = ("score", "label", "bytes", "slot", "spread")


@dataclass(frozen=True)
class Truth:
    """The groups of a file in its order, their tasks and texts, and their rank by how telling they are."""

    groups: list[GroupRecord]
    tasks: list[str]
    texts: list[GroupText]
    telling: list[int]

    @classmethod
    def of(cls, scored: Path) -> Truth:
        """Read a scored file."""
        best, shortlist, result = Best[int](10_000), Shortlist(), cls([], [], [], [])
        with ExitStack() as stack:
            file = ScoredFile(InputSettings(str(scored)), stack, _none)
            for ordinal, group, marked in file.groups():
                result.groups.append(marked)
                result.tasks.append(str(group.rollouts[0].messages[0]["content"]))
                result.texts.append(GroupText.of(group, marked))
                best.add(shortlist.add(marked), ordinal)
        ranks = {ordinal: rank for rank, ordinal in enumerate(best.ranked())}
        result.telling.extend(ranks[i + 1] for i in range(len(ranks)))
        return result

    def place(self, key: str) -> int:
        """The position in the file of the first group with this key, from 0."""
        return next(i for i, group in enumerate(self.groups) if group.key == key)

    def ordered(
        self, key: Callable[[int], Any] | None = None, *, down: bool = False
    ) -> list[str]:
        """The keys by the value of each group (from its position), None last, else the most telling first."""
        order = sorted(range(len(self.groups)), key=lambda i: self.telling[i])
        if key is not None:
            some = sorted(
                (i for i in order if key(i) is not None), key=key, reverse=down
            )
            order = some + [i for i in order if key(i) is None]
        return [self.groups[i].key for i in order]

    def matching(self, hash_: str) -> list[int]:
        """The positions of the groups that a link to the table asks for."""
        asked = list(conditions(hash_))
        return [
            i for i, group in enumerate(self.groups) if self._fulfils(i, group, asked)
        ]

    def _fulfils(
        self, i: int, group: GroupRecord, asked: Sequence[tuple[str, str]]
    ) -> bool:
        words = {
            name: [v for n, v in asked if n == name]
            for name in ("where", "kind", "flag")
        }
        ranges = {name: _range(value) for name, value in asked if ".." in value}
        where = {"live": group.live, "tied": group.is_tied, group.status: True}
        reported = {"disputed": "disagrees", "unreliable": "unsure", "apart": "spread"}
        where |= {word: name in reasons(group) for word, name in reported.items()}
        return (
            (not words["where"] or any(where.get(word) for word in words["where"]))
            and (not words["kind"] or group.kind in words["kind"])
            and (
                not words["flag"] or any(flag in words["flag"] for flag in group.flags)
            )
            and all(
                _within(self.value(i, n), r)
                for n, r in ranges.items()
                if n not in _ROLLOUT
            )
            and (not any(n in _ROLLOUT for n in ranges) or rollouts(group, ranges) > 0)
        )

    def value(self, i: int, name: str) -> float | None:
        """A figure of the group at a position, by its name in the table."""
        group = self.groups[i]
        own = {
            "disagreement": group.disagreement,
            "cost": group.cost_usd,
            "latency": group.latency_s,
            "at": group.time,
            "ordinal": i + 1,
            "tokens": group.usage["prompt_tokens"] + group.usage["completion_tokens"],
        }
        result: float | None = own[name] if name in own else getattr(group, name)
        return (
            result if result is None or name not in ("mean", "sd") else round(result, 9)
        )  # as the page has it


def conditions(hash_: str) -> Iterator[tuple[str, str]]:
    """The conditions of a link to the table, one by one."""
    page, _, query = hash_.partition("?")
    assert page == "#groups"
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        yield unquote(name), unquote(value)


def rollouts(group: GroupRecord, ranges: dict[str, Range]) -> int:
    """The number of a group's rollouts in all of the ranges over rollouts."""
    asked = {name: ends for name, ends in ranges.items() if name in _ROLLOUT}
    return sum(
        all(
            any(_within(v, asked[name]) for v in _values(r, name, group))
            for name in asked
        )
        for r in group.rollouts
    )


def _values(
    rollout: RolloutRecord, name: str, group: GroupRecord
) -> list[float | None]:
    if name != "slot":
        return [
            {
                "score": rollout.score,
                "label": rollout.label,
                "bytes": rollout.size,
                "spread": rollout.spread,
            }[name]
        ]
    between = (
        len({tuple(r.slots) for r in group.rollouts}) - 2
    )  # alike rollouts are shown once
    return [
        at if at in (0.0, 1.0) else (round(at * (between + 1)) - 0.5) / between
        for at in rollout.slots
        if between > -1 and rollout.score is not None
    ]


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A text as people sort it: 10 after 9."""
    parts = re.findall(r"\d+|\D+", text.lower())
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts
    )


def _range(text: str) -> Range:
    low, high = text.split("..")
    return (float(low) if low else None, float(high) if high else None)


def _within(value: float | None, ends: Range) -> bool:
    low, high = ends
    if value is None:
        return False
    return (low is None or value >= low) and (high is None or value <= high)


def _none(problem: object) -> None:
    raise AssertionError(problem)
