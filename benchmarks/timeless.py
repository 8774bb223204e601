"""A whole run of `ruler score` in virtual time, with simulated judges that have a latency.

    python -m benchmarks.timeless FOLDER CASE

CASE is JSON, the fields of a case of `rounds`; it prints each judge's record as JSON. `rounds` runs it in a
child process, so that its memory is in no measurement.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.inputs import write_trios
from benchmarks.rounds import Case
from benchmarks.simulated import SimulatedModel, score
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.runs.file import score as run
from ruler_cli.settings.models import (
    AskSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
)
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.virtual import World, virtually


class _Judge(World):
    """A world with the simulated judge's replies."""

    async def ask(self, request: Request) -> Reply | CallError:
        """Wait, then score."""
        output = await super().ask(request)
        if isinstance(output, CallError):
            return output
        scores = score(SimulatedModel(seed=self.seed), request)
        entries = [
            {"trajectory_id": k, "explanation": "Drawn.", "score": v}
            for k, v in scores.items()
        ]
        return Reply(json.dumps({"scores": entries}), output.usage)


def run_case(folder: Path, case: Case) -> list[dict[str, Any]]:
    """Run the case and return each judge's record; SystemExit unless every group was scored."""
    judges = {
        f"judge-{n}": _Judge(
            latency,
            spread=case.spread,
            usage=Usage(1000, 200, 0, 1),
            seed=n,
            name=f"judge-{n}",
        )
        for n, latency in enumerate(case.latencies)
    }
    first, *others = map(JudgeSettings, judges)
    settings = ScoreSettings(
        InputSettings(str(write_trios(folder / "trios.jsonl", case.groups))),
        str(folder / "scored.jsonl"),
        first,
        AskSettings(passes=case.passes),
        PoolSettings(case.calls, case.rpm, case.tpm),
        panel=tuple(others),
        adaptive=case.adaptive,
        ledger=None,
    )

    async def main() -> bool:
        return (await run(settings)).summary.complete

    with patch(
        "ruler_cli.runs.file.resolve",
        lambda judge: ResolvedJudge(judges[judge.model], None, None),
    ):
        if not virtually(main):
            raise SystemExit("not every group was scored")
    return [_report(judge) for judge in judges.values()]


def _report(judge: World) -> dict[str, Any]:
    """Summarize a judge's calls; times are seconds after the first call, since opening INPUT takes time.

    The means leave out the first minute, and the last call, which ends the time.
    """
    first, last = judge.sent[0][0], judge.sent[-1][0]
    later = [tokens for at, tokens in judge.sent if first + 60.0 <= at < last]
    minutes = (last - first) / 60.0 - 1
    return {
        "asked": judge.asked,
        "most": judge.most,
        "end": max(until for _, until in judge.busy) - first,
        "work": sum(until - since for since, until in judge.busy),
        "minutes": minutes,
        "mean": {"rpm": len(later) / minutes, "tpm": sum(later) / minutes}
        if minutes > 0
        else None,
        "fullest": {
            "rpm": judge.fullest_minute(),
            "tpm": judge.fullest_minute(tokens=True),
        },
    }


if __name__ == "__main__":
    print(
        json.dumps(run_case(Path(sys.argv[1]), Case(**json.loads(sys.argv[2]))))
    )
