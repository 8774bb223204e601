"""The gain of each option, as benchmarks/README.md shows it: from the simulation, as its text says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.simulation.worlds import KINDS

Series = Mapping[tuple[str, ...], Sequence[Any]]

OPTIONS = (
    ("`--set order=input`", "1, input order"),
    ("(default)", "1, random order"),
    ("`--set debias=true`", "1, random order + slot correction"),
    ("`--passes 2`", "2, an order and its reverse"),
    ("`--passes 4`", "4 balanced"),
    ("`--passes 4 --set adaptive=true`", ""),
    ("`--passes 8`", "8 balanced"),
)
LARGE = (
    (
        "`--passes 1` or `2`: two windows for each rollout",
        "two random windows each",
        16,
    ),
    ("`--passes 3`: three windows", "three random windows each", 24),
)


def markdown(result: Series, groups: int, seeds: int, large: int) -> str:
    """Write the table of benchmarks/README.md, with a sentence that describes it."""
    lines = [
        f"Simulated (`make simulate`), not measured on a live judge: {seeds} × {groups} groups of 8 rollouts "
        "with a known truth, judged with the default errors of `-m simulated`.",
        "",
        "| | calls per group | graded truth: RMSE / rank correlation / wrong sign "
        "| pass-or-fail truth: the same |",
        "| --- | --- | --- | --- |",
    ]
    for option, name in OPTIONS:
        cells = [_cell(_measured(result, kind, name)) for kind in KINDS]
        lines.append(f"| {option} | {_calls(name)} | {cells[0]} | {cells[1]} |")
    even, uneven = (
        [_share(result, kind, costs, what) for kind in KINDS]
        for costs, what in (("even", "passes"), ("uneven", "tokens"))
    )
    lines += [
        "",
        f"`--set adaptive=true` reaches the RMSE of `--passes 4` with {even[0]} (graded) and {even[1]} (pass or fail) "
        f"of its calls, and, if groups differ in length, with {uneven[0]} and {uneven[1]} of its tokens.",
        "",
        f"{large} groups of 64 in windows of 8 (`--group-size 8`), a judge that stretches what it is shown:",
        "",
        "| | calls per group | rank correlation |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {option} | {calls} | {fmean(result['large', name]):.2f} |"
        for option, name, calls in LARGE
    ]
    return "\n".join(lines) + "\n"


def _share(result: Series, kind: str, costs: str, what: str) -> str:
    """Return the cost of adaptive spending at the error of 4 passes for all, in percent of theirs."""
    uniform, fewer, more = (
        result["spending", kind, costs, name]
        for name in ("uniform 4", "adaptive 3", "adaptive 4")
    )
    return f"{25 * at_equal_error(uniform, fewer, more, (what,))[what]:.0f} %"


def _measured(result: Series, kind: str, name: str) -> Sequence[Any]:
    if name:
        return result["passes", kind, name]
    return [spent.measured for spent in result["spending", kind, "even", "adaptive 4"]]


def _calls(name: str) -> str:
    return name[0] if name else "4 on average"


def _cell(values: Sequence[Any]) -> str:
    rmse, rank, wrong = (
        fmean(getattr(v, m) for v in values) for m in ("rmse", "spearman", "wrong_sign")
    )
    return f"{rmse:.2f} / {rank:.2f} / {100 * wrong:.1f} %"


def at_equal_error(
    uniform: Sequence[Any],
    fewer: Sequence[Any],
    more: Sequence[Any],
    spent: Sequence[str],
) -> dict[str, float]:
    """Return the cost of adaptive spending at the RMSE of uniform passes, interpolated on log scales."""
    wanted, low, high = (
        math.log(fmean(s.measured.rmse for s in side))
        for side in (uniform, fewer, more)
    )
    part = (wanted - low) / (high - low)
    result = {}
    for what in spent:
        a, b = (
            math.log(fmean(getattr(s, what) for s in side)) for side in (fewer, more)
        )
        result[what] = math.exp(a + part * (b - a))
    return result
