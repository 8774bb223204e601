"""Several passes, panels and `--set adaptive=true` in virtual time: the time that they add to a run, and their limits.

Each row is a whole run, from INPUT to OUTPUT, whose judges take time on a clock that jumps. So it
shows waits, and does not depend on the speed of the machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import printed
from benchmarks.results import Result, alone, of_limit


@dataclass(frozen=True, slots=True)
class Case:
    """One run: `latencies` are those of its judges in seconds, `spread` their log-deviation."""

    groups: int
    passes: int = 1
    calls: int = 64
    latencies: tuple[float, ...] = (1.0,)
    spread: float = 0.0
    adaptive: bool = False
    rpm: float | None = None
    tpm: float | None = None

    @property
    def name(self) -> str:
        """The case's name in the table."""
        judges = f", judges of {' and '.join(f'{each:g}' for each in self.latencies)} s"
        passes = f"{self.passes} pass{'es' * (self.passes > 1)}{' --set adaptive=true' * self.adaptive}"
        return f"{passes}{judges * (len(self.latencies) > 1)}"


_MANY, _FEW = 1_024, 40
_PAIR = (1.0, 0.3)
# passes · groups / calls is 64 or more: the input's last groups take one latency more than the calls
_CASES = (
    Case(_MANY, 2, 32),
    Case(_MANY, 4),
    Case(_MANY, 4, adaptive=True),
    Case(_MANY, 2, 32, (1.0, 1.0)),
    Case(_MANY, 2, 32, _PAIR),
    Case(_MANY, 4, 64, _PAIR, adaptive=True),
)
_SPREAD = 0.5
"""Log-deviation of a call's latency: one in six takes 1.6 times the median or more."""
_RPM, _TPM = 300, 400_000
_MINUTES, _QUICK = 8, 4


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each case, for uneven latencies and for few groups; two for each judge and its limit."""
    cases = _CASES[1:3] + _CASES[-1:] if quick else _CASES
    uneven = [replace(case, spread=_SPREAD) for case in _CASES[1:3]]
    few = [replace(case, groups=_FEW, calls=64) for case in _CASES[:3]]
    minutes = _QUICK if quick else _MINUTES
    limited = [replace(case, calls=400) for case in _limited(minutes)]
    with ThreadPoolExecutor(2) as pool:
        run = partial(pool.map, partial(_run, folder))
        for case, judges in zip(cases, run(cases), strict=True):
            yield _wall(case, judges)
        single = Case(4 * _MANY, spread=_SPREAD)
        one, *others = run([single, *uneven])
        for case, judges in zip(uneven, others, strict=True):
            yield _compare(case, judges[0], one[0])
        for case, judges in zip(few, run(few), strict=True):
            yield _tail(case, judges[0])
        for case, judges in zip(limited, run(limited), strict=True):
            yield from _limits(case, judges, minutes)


def _limited(minutes: int) -> tuple[Case, Case]:
    """A panel whose judges have 2 passes, limited by requests and by tokens per minute."""
    groups = round((minutes + 1) * _RPM / 2)
    return Case(groups, 2, latencies=_PAIR, spread=_SPREAD, rpm=_RPM), Case(
        groups, 2, latencies=_PAIR, spread=_SPREAD, tpm=_TPM
    )


def _run(folder: Path, case: Case) -> list[dict[str, Any]]:
    """Run the case in a child process; return each judge's record."""
    with tempfile.TemporaryDirectory(dir=folder) as here:
        result: list[dict[str, Any]] = printed(
            "benchmarks.timeless", here, json.dumps(asdict(case))
        )
    return result


def _wall(case: Case, judges: list[dict[str, Any]]) -> Result:
    """Promise 2, for the judge that takes longest."""
    ideals = [judge["work"] / case.calls for judge in judges]
    end, ideal = max(judge["end"] for judge in judges), max(ideals)
    calls = " + ".join(f"{judge['asked']:,}" for judge in judges)
    detail = (
        f"{end:.0f} / {ideal:.1f} s; {calls} calls for {case.groups:,} groups"
    )
    name = f"virtual wall time / ideal, {case.name}, {case.calls} in flight"
    return Result(2, name, end / ideal, detail, "<=", 1.03)


def _compare(case: Case, judge: dict[str, Any], one: dict[str, Any]) -> Result:
    """Compare with one pass of as many groups as calls: uneven latencies make any run wait at its end."""
    mine, single = (each["end"] / each["work"] for each in (judge, one))
    detail = f"{judge['end']:.0f} s for {judge['asked']:,} calls, {one['end']:.0f} s for {one['asked']:,}"
    name = f"virtual wall time per call, uneven latency, {case.name} / 1 pass"
    return Result(None, name, mine / single, detail)


def _tail(case: Case, judge: dict[str, Any]) -> Result:
    """The latencies that a run with fewer groups than calls in flight takes."""
    least = -(-judge["asked"] // case.calls)
    detail = f"{judge['asked']} calls, at most {judge['most']} in flight; {least} if none waited for another"
    return Result(
        None,
        f"virtual latencies of {case.groups} groups, {case.name}",
        judge["end"],
        detail,
    )


def _limits(
    case: Case, judges: list[dict[str, Any]], minutes: int
) -> Iterator[Result]:
    unit, limit = ("rpm", _RPM) if case.rpm else ("tpm", _TPM)
    for number, judge in enumerate(judges):
        name = f"virtual --{unit} {limit:,}, {case.name}, judge {number + 1}"
        mean, fullest = judge["mean"][unit], judge["fullest"][unit]
        detail = f"{mean:,.0f} per minute over {judge['minutes']:.1f} virtual minutes after the first"
        peak = f"{fullest:,.0f} in the fullest sliding minute"
        yield from of_limit(name, limit, (mean, detail), (fullest, peak))


if __name__ == "__main__":
    sys.exit(alone(measure))
