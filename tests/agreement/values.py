"""Scored groups as hypothesis strategies and small builders."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ruler_cli.agreement.scored import Item, Scored

grades = st.integers(0, 4).map(lambda n: n / 4)
"""Few different numbers, so that ties are common."""
rows = st.lists(st.tuples(grades, grades), min_size=1, max_size=9)
"""(score, label) of the rollouts of a group."""


def scored(
    scores: Sequence[float | None],
    labels: Sequence[float | None],
    *,
    key: str = "g",
    cost: float | None = None,
    judges: Mapping[str, Sequence[float | None]] | None = None,
    **columns: Sequence[Any],
) -> Scored:
    """A group with these scores and labels, and other columns of its rollouts."""
    panel = [{name: own[i] for name, own in (judges or {}).items()} for i in range(len(scores))]
    columns |= {"score": scores, "label": labels, "judges": panel}
    each = ({name: column[i] for name, column in columns.items()} for i in range(len(scores)))
    return Scored(key, tuple(Item(**one) for one in each), cost)


def drawn(groups: int, size: int, seed: int, noise: float = 0.3) -> list[Scored]:
    """Groups whose labels are passed or failed, and whose scores tell it as well as the noise lets them."""
    draw = random.Random(seed)
    found = []
    for number in range(groups):
        rate = draw.betavariate(0.6, 0.6)
        labels = [float(draw.random() < rate) for _ in range(size)]
        scores = [0.4 * label + draw.gauss(0.3, noise) for label in labels]
        found.append(scored(scores, labels, key=str(number)))
    return found
