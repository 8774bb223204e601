"""What a selection is told, and what it counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ruler_cli.selection.conditions import Condition
from ruler_cli.settings import InputSettings

By = Literal["variance", "score", "majority"]


@dataclass(frozen=True, slots=True)
class Keep:
    """Of each group at most so many rollouts, and by what; `answer` is a dotted path, for a majority."""

    most: int
    by: By
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class SelectSettings:
    """One run of `ruler select`: all conditions must hold, then `keep` looks at what they left."""

    input: InputSettings
    output: str
    where: tuple[Condition, ...] = ()
    keep: Keep | None = None


@dataclass(slots=True)
class Tally:
    """What was found and what was kept.

    `unscored` and `unanswered`: groups left out although every condition about them holds, for none of
    their rollouts has a score, or an answer that votes. `marked`, `scored`, `reliable` and `labelled`
    are the groups of INPUT that have what conditions may ask for, `asked` those whose answers were looked
    for; `unlike`: in some of them the labels of scored rollouts differ. Scores lie from `least` to `most`.
    """

    groups: int = 0
    rollouts: int = 0
    kept_groups: int = 0
    kept_rollouts: int = 0
    unscored: int = 0
    unanswered: int = 0
    unreadable: int = 0
    marked: int = 0
    scored: int = 0
    reliable: int = 0
    labelled: int = 0
    asked: int = 0
    unlike: bool = False
    least: float = math.inf
    most: float = -math.inf
