"""A ledger of many rows: the CPU of looking a reply up, and of adding one, as an import does.

    python -m benchmarks.crowd FOLDER ROWS

It prints `{"find", "missing", "keep", "import", "bytes", "memory"}`: microseconds of CPU a row, bytes of a
row, MiB. `hundred_million` runs it in a child process. The rows are made within SQLite, with a
short reply each and keys in no order.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.database import TABLES, files_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import Reply

_MANY, _FEW = 20_000, 2_000
"""The number of look-ups that are measured, and of rows in one import."""
_COMPLETION = {
    "id": "x",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": '{"scores":[]}'},
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
    },
}
_BODY = json.dumps(_COMPLETION).encode()
_FILL = (
    "INSERT INTO replies (key, at, seconds, model, status, prompt, completion, cached, body) "
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    "SELECT randomblob(16), 1.8e9 + i, 0.5, 'm', 'answer', 100, 10, 0, ? FROM n"
)


def _fill(path: Path, rows: int) -> list[bytes]:
    """Make the ledger; return the keys of some rows, in random order."""
    Ledger(path).close()
    db = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "PRAGMA synchronous = OFF",
        "DROP INDEX replies_key",
        "BEGIN",
    ):
        db.execute(statement)
    db.execute(_FILL, (rows, _BODY))
    for statement in (TABLES[1], "COMMIT", "PRAGMA wal_checkpoint(TRUNCATE)"):
        db.execute(statement).fetchall()
    some = random.Random(rows).sample(range(1, rows + 1), min(rows, _MANY))
    keys = [
        db.execute("SELECT key FROM replies WHERE id = ?", (id,)).fetchone()[0]
        for id in some
    ]
    db.close()
    return keys


def _cpu(work: Callable[[], object], rows: int) -> float:
    """Measure microseconds of CPU a row."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / rows * 1e6


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Measure a ledger with so many rows, which is made in a folder and removed."""
    path = folder / f"crowd-{rows}.sqlite"
    keys = _fill(path, rows)
    size = path.stat().st_size / rows
    reply = reply_of(_BODY)
    if not isinstance(reply, Reply):
        raise TypeError(f"not a reply: {reply}")
    fresh = [
        [os.urandom(16) for _ in range(_FEW)] for _ in range(_MANY // _FEW)
    ]
    with Ledger(path) as ledger:

        def import_all() -> None:
            for some in fresh:
                ledger.keep_all([(key, "m", reply) for key in sorted(some)])

        def keep_each() -> None:
            for _ in range(_FEW):
                ledger.keep_all([(os.urandom(16), "m", reply)])

        figures = {
            "find": _cpu(lambda: [ledger.find(key) for key in keys], len(keys)),
            "missing": _cpu(
                lambda: [ledger.find(os.urandom(16)) for _ in range(_MANY)],
                _MANY,
            ),
            "keep": _cpu(keep_each, _FEW),
            "import": _cpu(import_all, _MANY),
        }
    for file in files_of(path):
        file.unlink(missing_ok=True)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return {
        **figures,
        "bytes": size,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))
