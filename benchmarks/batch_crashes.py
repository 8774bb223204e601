"""The crash-between-steps matrix of batches; exit code 1 if a request was lost or paid for twice.

python -m benchmarks.batch_crashes
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.batch.apis import APIS
from tests.batch.matrix import CrashResult, ends, kills, table


def _main() -> int:
    bad = 0
    for what in (ends, kills):
        columns: dict[str, list[CrashResult]] = {}
        for name in APIS:
            with tempfile.TemporaryDirectory(prefix="ruler-matrix-") as folder:
                columns[name] = list(what(name, Path(folder)))
        print(table(columns), end="\n\n", flush=True)
        bad += sum(
            not each.good for result in columns.values() for each in result
        )
    print(f"{bad} points at which a request was lost or paid for twice")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(_main())
