"""What a rollout's label comes to: a number, a truth value, or a word for one."""

from __future__ import annotations

from typing import Any

from ruler_cli.formats.rewards import number, passed

LARGEST = 1e50
"""Beyond it no number is a score or a label: products of several must stay finite."""


def label_of(value: Any) -> float | None:
    """A label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None where it is neither: null, NaN, a number too large, an object without a reward.
    """
    found = number(value)
    if found is None:
        good = passed(value)
        return None if good is None else float(good)
    return None if abs(found) > LARGEST else found
