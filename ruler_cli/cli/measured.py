"""Measured values, and counts of what is not measured, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_Json = Mapping[str, Any]
OWN_SCORES = "the judges' own, before --blend or --order-by-outcome"
LEFT_OUT = {
    "failed": "not scored",
    "unmarked": "not annotated",
    "odd_scores": "with a score that is no number",
    "unlabelled": "without a label",
    "odd_labels": "with a label that is no number",
    "more_judges": "scores of too many judges",
}
"""Counts of rollouts and scores that are not measured, in words."""
STATISTICS = {
    "pairwise_accuracy": "pairwise accuracy",
    "kendall_tau_b": "Kendall's tau-b",
    "auc": "AUC over all rollouts",
    "top1_regret": "top-1 regret",
    "cost_per_1000_usd": "USD per 1,000 rollouts",
}


def left_out_words(counts: Mapping[str, int]) -> str:
    """Count the rollouts and scores of a file that are not measured."""
    left = [f"{counts[key]} {words}" for key, words in LEFT_OUT.items() if counts[key]]
    return ", ".join(left)


def number(measured: _Json, sign: str = "", end: str = "value") -> str:
    """Write a value, or an end of its interval, in three decimals."""
    value = measured[end]
    if value is None:
        return "-"
    plain = 0.001 <= abs(value) < 1000 or not value
    return f"{value:{sign if value else ''}{'.3f' if plain else '.2e'}}"


def interval(measured: _Json, sign: str = "") -> str:
    """Write the interval of a value."""
    if measured["low"] is None:
        return "too few groups" if measured["value"] is not None else ""
    return f"{number(measured, sign, 'low')} to {number(measured, sign, 'high')}"
