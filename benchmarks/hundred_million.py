"""The cost of a run over 100 million rollouts, projected from measurements made here.

    python -m benchmarks.hundred_million [--quick]

It prints the table of benchmarks/README.md: rows that are measured, prices and limits that are
assumed, and computed rows. Measured are files of 20 kB groups and of tau-bench's rollouts, each
in three sizes, and a ledger of 5 million rows; CPU is user and system time, so that another program on the
machine changes it least.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks import stages
from benchmarks.commands import printed
from benchmarks.projection import (
    MEASURED,
    MODELS,
    PRICES,
    SOURCES,
    Given,
    Row,
    project,
    read,
    shown,
    table,
)
from benchmarks.results import Result
from benchmarks.stages import Stages
from ruler_cli.judges.providers import listed_batch_price, model_info

_SIZES = {"20 kB a group": (200, 2_000, 20_000), "tau-bench": (100, 500, 2_500)}
_QUICK = {"20 kB a group": (50, 250, 1_000), "tau-bench": (50, 100, 250)}
_ROWS, _FEWER, _QUICK_ROWS = 5_000_000, 50_000, 500_000
"""Rows of the large ledger, and of the small one to which it is compared."""
_GROWTH_LIMIT = 1.5
"""Limit of a group's growth in cost in a file ten times as large: CPU is noisy on a busy machine."""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Measure the growth of CPU a group, memory and look-ups with the file and the ledger."""
    for kind, result in _measured(folder, quick).items():
        for stage, growth in result.growth.items():
            limit = (
                None if quick else _GROWTH_LIMIT
            )  # with less, the fixed cost is too large a share
            reported = f"{result.ms[stage]:.2f} ms"
            yield Result(
                None,
                f"{kind}, {stage}: CPU a group, larger / smaller",
                growth,
                reported,
                limit=limit,
            )
        few, many = result.peaks[1], result.peaks[-1]
        reported = f"{many:.1f} / {few:.1f} MiB"
        yield Result(
            None,
            f"{kind}: peak memory, larger / smaller",
            many / few,
            reported,
            limit=_GROWTH_LIMIT,
        )
    rows = _rows(quick)
    small, large = (_crowd(folder, number) for number in rows)
    for what in ("find", "missing", "keep", "import"):
        reported = f"{large[what]:.1f} / {small[what]:.1f} µs"
        which = f"{rows[1]:,} / {rows[0]:,} rows"
        yield Result(
            None,
            f"ledger, {what}: CPU, {which}",
            large[what] / small[what],
            reported,
        )


def _rows(quick: bool) -> tuple[int, int]:
    return _FEWER, _QUICK_ROWS if quick else _ROWS


def _measured(folder: Path, quick: bool) -> dict[str, Stages]:
    sizes = _QUICK if quick else _SIZES
    return {
        kind: stages.measure(folder, write, sizes[kind])
        for kind, write in stages.kinds().items()
    }


def _crowd(folder: Path, rows: int) -> dict[str, float]:
    result: dict[str, float] = printed("benchmarks.crowd", folder, rows)
    return result


def _rounded_figures(
    result: Stages, few: Given, many: Given
) -> dict[str, float]:
    """Return the measured figures of a kind by name, rounded as in the table, for the computed rows."""
    figures = {
        **result.counts,
        **{key: result.ms[key] for key in result.ms},
        "growth": max(result.growth.values(), default=1.0),
        "memory": result.peaks[-1],
        "find": few["find"],
        "find_many": many["find"],
        "keep": few["import"],
        "keep_many": many["import"],
    }
    return {key: read(shown(figures[key])) for key in MEASURED}


def _prices() -> dict[str, float]:
    """Return USD for a million tokens, by name; SystemExit if the list's batch price is not half of it."""
    result = {}
    for model, name in MODELS.items():
        price, halved = model_info(name).price, listed_batch_price(name)
        if price is None or (halved is not None and halved != price.halved):
            raise SystemExit(
                f"{name}: litellm's list has no price, or not half of it in a batch"
            )
        result[f"{model}_prompt"] = read(shown(price.prompt * 1e6))
        result[f"{model}_completion"] = read(shown(price.completion * 1e6))
    return result


def report(folder: Path, quick: bool) -> str:
    """Return the table."""
    few, many = (_crowd(folder, rows) for rows in _rows(quick=False))
    result = _measured(folder, quick)
    prices = _prices()
    given = [
        {**_rounded_figures(each, few, many), **prices}
        for each in result.values()
    ]
    sizes = _QUICK if quick else _SIZES

    def row(key: str, title: str, origin: str) -> Row:
        return Row(title, tuple(each[key] for each in given), origin)

    listed = f"assumed: litellm {version('litellm')}'s price list"
    rows = [
        *(row(key, title, "measured") for key, title in MEASURED.items()),
        *(row(key, title, listed) for key, title in PRICES.items()),
        *project(given),
    ]
    heads = [
        f"{kind} ({sizes[kind][1]:,} to {sizes[kind][2]:,} groups)"
        for kind in result
    ]
    return f"{table(heads, rows)}\n{SOURCES}"


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hundred_million", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="smaller files")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="ruler-bench-") as folder:
        print(report(Path(folder), quick))


if __name__ == "__main__":
    _main()
