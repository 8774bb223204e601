"""Store of the batch server: files, batches, and the bill of each request."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.judge_server.batch_rows import Api, Row, cue_of, result_of, undone
from tests.judge_server.judge import Judge

_STAGES = 3
"""Steps from a batch's creation to its end; its rows are processed in the second."""


@dataclass(slots=True)
class Conduct:
    """Settings that a test may change at any time."""

    pace: Literal["at once", "retrieve", "advance"] = "at once"
    """A batch goes on by itself, by a step at each retrieval, or when the test calls `advance()`."""
    page: int = 3
    """The most entries of one page of a listing."""
    lag: int = 0
    """Listings in which a new batch does not show yet."""
    fails: bool = False
    """Batches fail validation (Anthropic: are refused with 400)."""
    clock: float | None = None
    """Unix time of the server; None: the machine's."""


@dataclass(slots=True)
class Batch:
    """One batch of either API; `ended` is why it is over: completed, failed or canceled."""

    id: str
    api: Api
    lines: list[dict[str, Any]]
    created: float
    metadata: dict[str, str] | None
    file: str
    hidden: int
    stage: int = 0
    canceling: bool = False
    ended: str = ""
    invalid: str = ""
    done: list[Row] = field(default_factory=list)
    output: str | None = None
    errors: str | None = None


class Store:
    """Everything of one account."""

    def __init__(self, conduct: Conduct, judge: Judge) -> None:
        self.conduct = conduct
        self.judge = judge
        self.files: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.batches: dict[str, Batch] = {}
        self.billed: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    @property
    def now(self) -> float:
        """The Unix time of the server."""
        return time.time() if self.conduct.clock is None else self.conduct.clock

    def keep(self, data: bytes, name: str) -> str:
        """Store a file under a new id."""
        id = f"file-{len(self.names) + 1:04}"
        self.files[id], self.names[id] = data, name
        return id

    def begin(
        self,
        api: Api,
        lines: list[dict[str, Any]],
        metadata: dict[str, str] | None = None,
        file: str = "",
    ) -> Batch:
        """A new batch."""
        id = f"{'batch' if api == 'openai' else 'msgbatch'}_{len(self.batches) + 1:04}"
        self.batches[id] = Batch(
            id, api, lines, self.now, metadata, file, self.conduct.lag
        )
        return self.batches[id]

    def advance(self, batch: Batch) -> None:
        """Advance a batch by one step."""
        if batch.ended:
            return
        if batch.invalid:
            batch.ended = "failed"
            return
        if batch.stage == 1 or (batch.canceling and not batch.done):
            self._process(batch)
        batch.stage += 1
        if batch.stage >= _STAGES or batch.canceling:
            batch.ended = "canceled" if batch.canceling else "completed"
            self._write(batch)

    def _process(self, batch: Batch) -> None:
        """Judge its rows: all, or half of them if it was called off once it had begun."""
        most = len(batch.lines)
        if batch.canceling:
            most = (most + 1) // 2 if batch.stage else 0
        for at, line in enumerate(batch.lines):
            custom_id = str(line["custom_id"])
            if at >= most:
                batch.done.append(undone(batch.api, custom_id, "canceled"))
                continue
            model = str(
                (line["body"] if batch.api == "openai" else line["params"])[
                    "model"
                ]
            )
            row = result_of(
                batch.api,
                line,
                cue_of(model, at, self.seen[custom_id]),
                self.judge,
            )
            self.seen[custom_id] += 1
            self.billed[custom_id] += row.good
            batch.done.append(row)

    def _write(self, batch: Batch) -> None:
        """Make the result files: never in the order of the requests."""
        rows = batch.done[::-1]
        good = b"".join(
            line + b"\n" for row in rows if row.good for line in row.lines
        )
        bad = b"".join(
            line + b"\n" for row in rows if not row.good for line in row.lines
        )
        if batch.api == "anthropic":
            batch.output = self.keep(bad + good, "results")
            return
        if any(row.good for row in rows):
            batch.output = self.keep(good, "output")
        if bad:
            batch.errors = self.keep(bad, "errors")
