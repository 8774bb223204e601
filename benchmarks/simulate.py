"""Reproduce the specification's tables with ruler's own orders, windows, combining and adaptive spending.

It also measures the coverage of the intervals of `ruler agree`.
`python -m benchmarks.simulate [--quick] [--markdown FILE]`: this is a simulation, no judge is asked.
Exit code 1 if a row of the product differs by more than three standard errors, or an interval holds too rarely.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.simulation import corrections, gains
from benchmarks.simulation.large import large
from benchmarks.simulation.reference import (
    ADAPTIVE,
    AGGREGATES,
    LARGE,
    PANEL_ERROR,
    PANELS,
    PASSES,
    STATED_ERROR,
    Beside,
    Mean,
    shown,
)
from benchmarks.simulation.schemes import aggregates, panels, passes
from benchmarks.simulation.spending import (
    MOST,
    UNIFORM,
    at_equal_cost,
    spending,
)
from benchmarks.simulation.worlds import KINDS, Kind

METRICS = ("rmse", "spearman", "wrong_sign")
WORSE = 1.0
"""Percent of RMSE that `--set adaptive=true` may be worse."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Groups per seed, seeds, single groups of 64, and runs of each cell with labels."""

    groups: int = 400
    seeds: int = 30
    large: int = 120
    labelled: int = 600


QUICK = Sizes(groups=100, seeds=3, large=12, labelled=20)
Series = dict[tuple[str, ...], list[Any]]
Task = tuple[
    tuple[str, ...],
    Callable[..., dict[str, Any]],
    tuple[Any, ...],
    dict[str, Any],
]


def simulated(sizes: Sizes, workers: int) -> Series:
    """Return all measures by name, one value per seed; the number of workers changes only the time."""
    tasks: list[Task] = []
    for seed in range(sizes.seeds):
        for kind in KINDS:
            tasks.append(
                (("passes", kind), passes, (seed, kind, sizes.groups), {})
            )
            tasks.append(
                (("spending", kind), spending, (seed, kind, sizes.groups), {})
            )
        tasks.append((("aggregates",), aggregates, (seed, sizes.groups), {}))
        tasks.append((("panels",), panels, (seed, sizes.groups), {}))
    tasks += [(("large",), large, (seed,), {}) for seed in range(sizes.large)]
    result: Series = defaultdict(list)
    with ProcessPoolExecutor(workers) as pool:
        waiting = [
            (key, pool.submit(work, *values, **named))
            for key, work, values, named in tasks
        ]
        for key, future in waiting:
            for name, value in future.result().items():
                result[*key, name].append(value)
    return result


def beside(result: Series, sizes: Sizes) -> Iterable[tuple[str, list[Beside]]]:
    """Our figures beside the specification's, table by table.

    A standard error of few seeds is itself uncertain: with fewer groups than the specification's, it
    grows with the root of their ratio.
    """
    stated = STATED_ERROR * math.sqrt(
        max(1.0, 12_000 / (sizes.groups * sizes.seeds))
    )

    def mean(*key: str, metric: str = "rmse") -> Mean:
        return Mean.of([getattr(value, metric) for value in result[key]])

    for kind, column in zip(KINDS, (0, 1), strict=True):
        rows = [
            Beside(
                name,
                metric,
                mean("passes", kind, name, metric=metric),
                theirs[column][i],
                stated,
            )
            for name, theirs in PASSES.items()
            for i, metric in enumerate(METRICS)
        ]
        yield f"Passes, {_truth(kind)}", rows
    yield (
        "What four passes in random orders are combined by, graded truth",
        [
            Beside(name, "rmse", mean("aggregates", name), theirs, stated)
            for name, theirs in AGGREGATES.items()
        ],
    )
    yield (
        "Panels, graded truth",
        [
            Beside(
                name,
                "rmse",
                mean("panels", name),
                theirs,
                max(stated, PANEL_ERROR),
            )
            for name, theirs in PANELS.items()
        ],
    )
    rows = []
    for name, theirs in LARGE.items():
        ours = Mean.of(result["large", name])
        rows.append(
            Beside(name, "spearman", ours, theirs, max(stated, ours.error))
        )
    yield (
        "Groups of 64 (theirs: 120 groups as well, so the same standard error)",
        rows,
    )


def adaptive(result: Series) -> Iterable[tuple[str, bool]]:
    """Return lines about `--set adaptive=true`, each with True if it is no worse than uniform passes at equal cost."""
    for kind in KINDS:
        spent = result["spending", kind, "adaptive"]
        changes = {}
        for metric in (*METRICS, "worst"):
            ratios = []
            for number, adapted in enumerate(spent):
                uniform = [
                    result["spending", kind, f"uniform {k}"][number]
                    for k in UNIFORM
                ]
                wanted = at_equal_cost(uniform, adapted.passes, metric)
                ratios.append(
                    100 * (getattr(adapted.measured, metric) / wanted - 1)
                )
            changes[metric] = Mean.of(ratios)
        text = ", ".join(
            f"{metric} {change.value:+.2f} ± {change.error:.2f} %"
            for metric, change in changes.items()
        )
        passes = Mean.of([adapted.passes for adapted in spent]).value
        rmse = changes["rmse"]
        yield (
            f"  {_truth(kind)}, {passes:.2f} passes: {text}; {100 * gains.share(result, kind):.0f} % of the calls "
            "that reach its RMSE with equal passes for all",
            rmse.value <= WORSE + 3 * rmse.error,
        )


def _truth(kind: Kind) -> str:
    return "graded truth" if kind == "graded" else "outcome-like truth"


def main(arguments: list[str] | None = None) -> int:
    """Simulate and print; return 1 if a row of the product differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulate", description=__doc__
    )
    parser.add_argument(
        "--quick", action="store_true", help="few seeds: coarse, for tests"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="processes; they change only the time",
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the table of docs/evidence.md there as well, and corrections.md beside it",
    )
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    result = simulated(sizes, options.workers)
    print(
        f"A simulation: {sizes.groups} groups of 8, {sizes.seeds} seeds; no judge was asked."
    )
    failed = 0
    for title, rows in beside(result, sizes):
        print(f"\n{shown(title, rows)}")
        failed += sum(row.checked and not row.holds for row in rows)
    print(
        f"\n--adaptive --passes {MOST} against as many passes for all (the specification: {ADAPTIVE})"
    )
    for line, holds in adaptive(result):
        print(
            line
            + ("" if holds else "\n    NO: worse than the same passes for all")
        )
        failed += not holds
    print("\nCoverage of 95 % intervals, and their mean width")
    study = corrections.Study.of(sizes.labelled, options.workers)
    failed += corrections.report(study, print)
    print(f"\n{study.markdown()}")
    table = gains.markdown(result, sizes.groups, sizes.seeds, sizes.large)
    print(f"\n{table}")
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")
        also = options.markdown.with_name("corrections.md")
        also.write_text(study.markdown(), encoding="utf-8")
    if failed:
        print(f"{failed} rows of the product are off.", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
