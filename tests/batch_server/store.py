"""What the batch server keeps: files, batches, and who was billed for what."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.batch_server.conduct import STAGES, Conduct
from tests.batch_server.rows import Api, Row, cue_of, judged, undone
from tests.judging_server.conduct import Conduct as JudgeConduct
from tests.judging_server.judge import Judge


@dataclass(slots=True)
class File:
    """One file; `hidden` is how many listings it is not in yet."""

    id: str
    name: str
    purpose: str
    data: bytes
    created: float
    hidden: int = 0


@dataclass(slots=True)
class Batch:
    """One batch of either API; `ended` is why it is over: completed, failed, expired or canceled.

    `times` are Unix times of its words: in_progress, finalizing, canceling, and why it is over.
    """

    id: str
    api: Api
    lines: list[dict[str, Any]]
    created: float
    metadata: dict[str, str] | None = None
    file: str = ""
    stage: int = 0
    canceling: bool = False
    ended: str = ""
    invalid: str = ""
    hidden: int = 0
    done: list[Row] = field(default_factory=list)
    output: str | None = None
    errors: str | None = None
    times: dict[str, float] = field(default_factory=dict)


class Store:
    """Everything of one account."""

    def __init__(self, conduct: Conduct, judge: Mapping[str, Any]) -> None:
        self.conduct = conduct
        self.judge = Judge(JudgeConduct().with_(judge))
        self.files: dict[str, File] = {}
        self.batches: dict[str, Batch] = {}
        self.billed: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    @property
    def now(self) -> float:
        """Unix time by the server's clock."""
        return time.time() if self.conduct.clock is None else self.conduct.clock

    def keep(self, name: str, purpose: str, data: bytes) -> File:
        """A new file."""
        file = File(f"file-{len(self.files) + 1:04}", name, purpose, data, self.now, self.conduct.lag)
        self.files[file.id] = file
        return file

    def begin(
        self, api: Api, lines: list[dict[str, Any]], metadata: dict[str, str] | None = None, file: str = ""
    ) -> Batch:
        """A new batch."""
        mark = "batch" if api == "openai" else "msgbatch"
        kept = metadata if self.conduct.tags else None
        batch = Batch(f"{mark}_{len(self.batches) + 1:04}", api, lines, self.now, kept, file)
        batch.hidden = self.conduct.lag
        self.batches[batch.id] = batch
        return batch

    def cancel(self, batch: Batch) -> None:
        """Let a batch end at its next step."""
        batch.canceling = True
        batch.times.setdefault("canceling", self.now)

    def advance(self, batch: Batch) -> None:
        """Let a batch make one step."""
        if not batch.ended:
            self._advance(batch)
            batch.times[batch.ended or ("in_progress", "finalizing")[batch.stage - 1]] = self.now

    def _advance(self, batch: Batch) -> None:
        if batch.invalid:
            batch.ended = "failed"
            return
        if batch.stage == 1 or (batch.canceling and not batch.done):
            self._process(batch)
        batch.stage += 1
        if batch.stage >= STAGES or batch.canceling:
            expired = self.conduct.expires is not None and not batch.canceling
            batch.ended = "canceled" if batch.canceling else "expired" if expired else "completed"
            self._write(batch)

    def _process(self, batch: Batch) -> None:
        """Judge its rows: all, or what an expiry or a cancellation leaves time for."""
        most = len(batch.lines)
        if batch.canceling:  # one that had not begun ends with nothing, one that had with half
            most = (most + 1) // 2 if batch.stage else 0
        elif self.conduct.expires is not None:
            most = self.conduct.expires
        for at, line in enumerate(batch.lines):
            custom_id = str(line["custom_id"])
            if at >= most:
                batch.done.append(undone(batch.api, custom_id, "canceled" if batch.canceling else "expired"))
                continue
            model = str((line["body"] if batch.api == "openai" else line["params"])["model"])
            kind = cue_of(model, at, self.seen[custom_id], self.conduct.some)
            self.seen[custom_id] += 1
            row = judged(batch.api, line, kind, self.judge)
            self.billed[custom_id] += row.good
            batch.done.append(row)

    def _write(self, batch: Batch) -> None:
        """Make the result files: never in the order of the requests."""
        rows = batch.done[::-1]
        good = b"".join(line + b"\n" for row in rows if row.good for line in row.lines)
        bad = b"".join(line + b"\n" for row in rows if not row.good for line in row.lines)
        if batch.api == "anthropic":
            batch.output = self.keep(f"{batch.id}.jsonl", "results", bad + good).id
            return
        if any(row.good for row in rows):
            batch.output = self.keep(f"{batch.id}_output.jsonl", "batch_output", good).id
        if bad:
            batch.errors = self.keep(f"{batch.id}_error.jsonl", "batch_output", bad).id
