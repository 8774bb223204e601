"""The truth of a scored file, read and matched without the page: figures, conditions, order."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.highlights import Best, Run
from ruler_cli.results.record import GroupRecord
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings


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
        best = Best[int](10_000)
        result = cls([], [], [], [])
        with ExitStack() as stack:
            run = Run(
                ScoredFile(open_input(InputSettings(str(scored)), stack, _none))
            )
            for shown in run.groups(lambda *kept: kept):
                group, marked = shown.kept
                result.groups.append(marked)
                result.tasks.append(
                    str(group.rollouts[0].messages[0]["content"])
                )
                result.texts.append(GroupText.of(group, marked))
                best.add(shown.rank, shown.number)
        ranks = {ordinal: rank for rank, ordinal in enumerate(best.ranked())}
        result.telling.extend(ranks[i + 1] for i in range(len(ranks)))
        return result

    def place(self, key: str) -> int:
        """The position in the file of the first group with this key, from 0."""
        return next(
            i for i, group in enumerate(self.groups) if group.key == key
        )

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

    def value(self, i: int, name: str) -> float | None:
        """A figure of the group at a position, by its name in the table."""
        group = self.groups[i]
        figures = {
            "disagreement": group.disagreement,
            "cost_usd": group.cost_usd,
            "ordinal": i + 1,
            "tokens": group.usage["prompt_tokens"]
            + group.usage["completion_tokens"],
        }
        result: float | None = (
            figures[name] if name in figures else getattr(group, name)
        )
        return (
            result
            if result is None or name not in ("mean", "sd")
            else round(result, 9)
        )  # as the page has it


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A text as people sort it: 10 after 9."""
    parts = re.findall(r"\d+|\D+", text.lower())
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts
    )


def _none(problem: object) -> None:
    raise AssertionError(problem)
