"""Measure every promise and print one table; exit code 1 if a promise is broken."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import promises
from benchmarks.results import all_of

_MODULES = (
    *(
        "latency",
        "limits",
        "virtual",
        "rounds",
        "adaptive",
        "branches",
        "chaos",
        "kills",
        "cap",
        "check",
        "coverage",
        "each",
    ),
    *(
        "hedging",
        "large",
        "prefix",
        "report",
        "label",
        "ways",
        "ray_scale",
        "hundred_million",
        "install",
        "steps",
        "drift",
    ),
)


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smaller files and fewer repeats, for CI",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the table as JSON as well",
    )
    options = parser.parse_args()
    measures = [
        promises.starts,
        promises.tokens,
        promises.speed,
        promises.passes,
        promises.memory,
    ]
    measures += [
        import_module(f"benchmarks.{name}").measure for name in _MODULES
    ]
    results, code = all_of(measures, options.quick)
    if options.json:
        rows = [{**asdict(result), "holds": result.holds} for result in results]
        options.json.write_text(
            json.dumps(rows, indent=2) + "\n", encoding="utf-8"
        )
    return code


if __name__ == "__main__":
    sys.exit(_main())
