"""The gain of each option, as benchmarks/README.md shows it: from the simulation, as its text says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.simulation.spending import MOST, UNIFORM, at_equal_error
from benchmarks.simulation.worlds import KINDS

Series = Mapping[tuple[str, ...], Sequence[Any]]

OPTIONS = (
    ("`--set order=input`", "1, input order"),
    ("(default)", "1, random order"),
    ("`--set debias=true`", "1, random order + slot correction"),
    ("`--passes 2`", "2, an order and its reverse"),
    ("`--passes 4`", "4 balanced"),
    (f"`--passes {MOST} --set adaptive=true`", ""),
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
        "with a known truth, judged with the default errors of the simulated judge.",
        "",
        "| | calls per group | graded truth: RMSE / rank correlation / wrong sign "
        "| pass-or-fail truth: the same |",
        "| --- | --- | --- | --- |",
    ]
    for option, name in OPTIONS:
        cells = [_cell(_measured(result, kind, name)) for kind in KINDS]
        lines.append(
            f"| {option} | {_calls(result, name)} | {cells[0]} | {cells[1]} |"
        )
    shares = [f"{100 * share(result, kind):.0f} %" for kind in KINDS]
    lines += [
        "",
        f"`--passes {MOST} --set adaptive=true` has this RMSE at {shares[0]} (graded) and {shares[1]} "
        "(pass or fail) of the calls that it takes with the same passes for every group.",
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


def share(result: Series, kind: str) -> float:
    """Return the calls of adaptive spending, as a share of those that reach its RMSE with equal passes for all."""
    shares = []
    for number, spent in enumerate(result["spending", kind, "adaptive"]):
        uniform = [
            result["spending", kind, f"uniform {k}"][number] for k in UNIFORM
        ]
        shares.append(
            spent.passes / at_equal_error(uniform, spent.measured.rmse)
        )
    return fmean(shares)


def _measured(result: Series, kind: str, name: str) -> Sequence[Any]:
    if name:
        return result["passes", kind, name]
    return [spent.measured for spent in result["spending", kind, "adaptive"]]


def _calls(result: Series, name: str) -> str:
    if name:
        return name[0]
    means = []
    for kind in KINDS:
        passes = [
            spent.passes for spent in result["spending", kind, "adaptive"]
        ]
        means.append(f"{fmean(passes):.1f}")
    return f"{means[0]} and {means[1]}"


def _cell(values: Sequence[Any]) -> str:
    rmse, rank, wrong = (
        fmean(getattr(v, m) for v in values)
        for m in ("rmse", "spearman", "wrong_sign")
    )
    return f"{rmse:.2f} / {rank:.2f} / {100 * wrong:.1f} %"
