"""What counts as a label."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.marked.labels import label_of


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (True, 1.0), (False, 0.0), (0.5, 0.5), (-3, -3.0), ("0.25", 0.25), ("C", 1.0), ("I", 0.0),
        ("passed", 1.0), (" FAILED ", 0.0), ("true", 1.0), ("No", 0.0), ("resolved", 1.0), ([0, 0.5], 0.5),
        ({"reward": 1}, 1.0), (None, None), (float("nan"), None), (float("inf"), None), (10**400, None),
        (1e60, None), ("maybe", None), ("nan", None), ("", None), ({}, None), ("x" * 10**6, None),
    ],
)  # fmt: skip
def test_label_of(value: Any, label: float | None) -> None:
    """Numbers, truth values and words for them are labels; nothing else is, and nothing else is a zero."""
    assert label_of(value) == label
