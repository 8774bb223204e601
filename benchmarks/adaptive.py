"""Without `-c`: the share of a hidden capacity that is used after the first 429, and the refused requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import SERVER_LIFETIME, command, ended
from benchmarks.inputs import write_small
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

_SECONDS, _QUICK = 60.0, 25.0


@dataclass(frozen=True, slots=True)
class _Case:
    capacity: int
    latency: float
    retry_after: float | None = None
    factors: tuple[float, ...] = (1.0,)
    """The successive capacities, as shares of `capacity`, each for the same time."""

    @property
    def name(self) -> str:
        """The case's name in the table."""
        reported = (
            ""
            if self.retry_after is None
            else f", Retry-After {self.retry_after:g} s"
        )
        return f"hidden capacity {'→'.join(f'{self.capacity * f:g}' for f in self.factors)}{reported}"


# The largest runs alone, with a slow judge: the client's CPU must not be the limit.
_TOGETHER = (
    _Case(8, 0.2),
    _Case(64, 0.5),
    _Case(64, 0.5, 1.0),
    _Case(64, 0.5, factors=(1.0, 0.5, 1.0)),
)
_ALONE = (_Case(400, 1.0),)


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Two rows for each capacity: the used share of it, and the share of refused requests."""
    work = partial(_measure, folder, _QUICK if quick else _SECONDS)
    with ThreadPoolExecutor(len(_TOGETHER)) as pool:
        for results in pool.map(work, _TOGETHER):
            yield from results
    for case in _ALONE:
        yield from work(case)


def _measure(folder: Path, seconds: float, case: _Case) -> list[Result]:
    here = folder / case.name.replace(" ", "-")
    here.mkdir()
    mean_capacity = case.capacity * sum(case.factors) / len(case.factors)
    groups = int(mean_capacity / case.latency * seconds)
    schedule = [
        [seconds * n / len(case.factors), int(case.capacity * f)]
        for n, f in enumerate(case.factors)
    ]
    source, output = (
        write_small(here / "small.jsonl", groups, "line"),
        here / "scored.jsonl",
    )
    conduct = {"retry_after": case.retry_after, "schedule": schedule}
    with JudgeServer(case.latency, SERVER_LIFETIME, **conduct) as server:
        end = ended(
            command(source, output, server.base, summary=here / "summary.json"),
            0,
            1,
        )
        stats = server.stats()
    return list(_rows(case, groups, end.cost.cpu / end.cost.wall, stats))


def _rows(case: _Case, groups: int, cpu: float, stats: Any) -> Iterator[Result]:
    warm_up, *phases = stats["phases"]
    spans = [phase["until"] - phase["began"] for phase in phases]
    offered = [
        span * phase["capacity"]
        for span, phase in zip(spans, phases, strict=True)
    ]
    if not sum(offered):
        yield Result(
            None,
            f"{case.name}: used",
            None,
            f"no 429 in {warm_up['until']:.0f} s",
            ">=",
        )
        return
    each = [
        (phase["used"] or 0.0) * o
        for phase, o in zip(phases, offered, strict=True)
    ]
    shares = ", ".join(
        f"{phase['capacity']}: {phase['used'] or 0:.0%}" for phase in phases
    )
    detail = f"{shares}; {sum(spans):.0f} s after {warm_up['until']:.1f} s of warm-up; {cpu:.0%} CPU"
    yield Result(
        None, f"{case.name}: used", sum(each) / sum(offered), detail, ">="
    )
    refused = sum(phase["refused"] for phase in stats["phases"])
    detail = (
        f"{refused:,} of {stats['requests']:,} requests for {groups:,} groups"
    )
    yield Result(
        None, f"{case.name}: wasted", refused / stats["requests"], detail
    )


if __name__ == "__main__":
    sys.exit(alone(measure))
