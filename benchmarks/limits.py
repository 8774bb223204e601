"""Promise 3: `--rpm` and `--tpm` over real minutes, as the server measures them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import SERVER_LIFETIME, command, ended
from benchmarks.inputs import write_small, write_uneven
from benchmarks.results import Result, alone, of_limit
from tests.judge_server import JudgeServer

_SECONDS, _QUICK = 150.0, 75.0
_RPM, _TPM = 1_200, 400_000
_FREE = 100_000_000
"""A limit that is never reached."""

_TEXT = {"completion": 150, "completion_spread": 0.5}
_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "--rpm": ("requests", {}),
    "--tpm": ("tokens", _TEXT),
    "--tpm, a third of the bytes per token": (
        "tokens",
        {**_TEXT, "bytes_per_token": 3.8 / 3},
    ),
}


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Two rows for each limit; the limits run at the same time, since they mostly wait."""
    with ThreadPoolExecutor(len(_CASES)) as pool:
        for results in pool.map(partial(_measure, folder, quick), _CASES):
            yield from results


def _measure(folder: Path, quick: bool, name: str) -> list[Result]:
    unit, server_options = _CASES[name]
    here = folder / f"limits-{list(_CASES).index(name)}"
    here.mkdir()
    output, seconds = here / "scored.jsonl", _QUICK if quick else _SECONDS
    limit = {"requests": _RPM, "tokens": _TPM}[unit]
    with JudgeServer(0.5, SERVER_LIFETIME, **server_options) as server:
        groups = _RPM * seconds / 60
        if unit == "tokens":
            pilot = write_uneven(here / "pilot.jsonl", 50, seed=0)
            ended(command(pilot, output, server.base, c=50))
            groups = (
                _TPM
                * seconds
                / 60
                / (sum(server.stats()["rates"]["tokens"].values()) / 50)
            )
            server.reset()
            source = write_uneven(here / "uneven.jsonl", round(groups), seed=1)
        else:
            source = write_small(here / "small.jsonl", round(groups), "line")
        rpm, tpm = (_RPM, _FREE) if unit == "requests" else (_FREE, _TPM)
        ended(command(source, output, server.base, c=200, rpm=rpm, tpm=tpm))
        rates = server.stats()["rates"]
    mean, fullest = (
        rates["mean"]["rpm" if unit == "requests" else "tpm"],
        rates["fullest"][unit],
    )
    detail = f"{mean:,.0f} of {limit:,} {unit} per minute over {rates['seconds']:.0f} s"
    peak = f"{fullest:,} of {limit:,} {unit} in the fullest sliding minute"
    return list(of_limit(name, limit, (mean, detail), (fullest, peak)))


if __name__ == "__main__":
    sys.exit(alone(measure))
