"""Measurements, and their table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Result:
    """A measurement (None: skipped), its details, and the promised limit, if any."""

    promise: int | None
    what: str
    ratio: float | None
    detail: str
    relation: Literal["<=", ">="] = "<="
    limit: float | None = None

    @property
    def holds(self) -> bool | None:
        """Return whether the promise holds; None without a promise or a measurement."""
        if self.ratio is None or self.limit is None:
            return None
        return (
            self.ratio <= self.limit
            if self.relation == "<="
            else self.ratio >= self.limit
        )


def table(results: list[Result]) -> str:
    """Write the results in the order of the promises, those without a promise last."""
    rows = [("promise", "measured", "limit", "holds", "from")]
    for r in sorted(results, key=lambda result: result.promise or sys.maxsize):
        measured = "-" if r.ratio is None else f"{r.ratio:.3g}"
        limit = "-" if r.limit is None else f"{r.relation} {r.limit:g}"
        holds = {True: "yes", False: "NO", None: "-"}[r.holds]
        rows.append(
            (f"{r.promise or '-'}  {r.what}", measured, limit, holds, r.detail)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows
    )


def of_limit(
    name: str, limit: float, mean: tuple[float, str], fullest: tuple[float, str]
) -> Iterator[Result]:
    """Promise 3 for a limit per minute: the mean and the fullest sliding minute, each with its detail."""
    yield Result(3, f"{name}: used", mean[0] / limit, mean[1], ">=", 0.98)
    yield Result(
        3, f"{name}: fullest minute", fullest[0] / limit, fullest[1], "<=", 1.0
    )


Measure = Callable[[Path, bool], Iterator[Result]]


def all_of(
    measures: Iterable[Measure], quick: bool
) -> tuple[list[Result], int]:
    """Measure and print the table; return the results, and 1 if a promise is broken."""
    results = []
    with tempfile.TemporaryDirectory(prefix="ruler-bench-") as folder:
        for measure in measures:
            for result in measure(Path(folder), quick):
                print(f"measured: {result.what}", file=sys.stderr)
                results.append(result)
    print(table(results))
    return results, int(any(result.holds is False for result in results))


def alone(measure: Measure) -> int:
    """Run one module's measurements alone; return 1 if a promise is broken."""
    module = sys.modules[measure.__module__]
    parser = argparse.ArgumentParser(description=module.__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller and shorter"
    )
    return all_of([measure], parser.parse_args().quick)[1]
