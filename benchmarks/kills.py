"""`kill -9` and SIGTERM at random moments of one run, which is restarted until it ends."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import SERVER_LIFETIME, Child, command, digest, ended
from benchmarks.inputs import write_small
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

_CALLS, _LATENCY = 16, 0.1
_LONGEST = 60.0
_LAG = 0.01
"""Longest time of a reply on its way into the ledger, in seconds."""
_PANEL: dict[str, object] = {"m": ("openai/good", "openai/fine"), "passes": 3}
"""Six calls for a group, by two judges."""


@dataclass(slots=True)
class _Tally:
    signals: int = 0
    in_flight: int = 0
    codes: str = ""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Two rows for each signal: equality of the outputs, and calls paid for again."""
    groups = 400 if quick else 1_600
    kinds = {"kill -9": (signal.SIGKILL, 25), "SIGTERM": (signal.SIGTERM, 10)}
    for name, (signal_number, times) in kinds.items():
        yield from _killed(
            folder,
            name,
            signal_number,
            times if not quick else times // 2,
            groups,
            {},
        )
    name = "kill -9 of 3 passes, 2 judges"
    yield from _killed(
        folder, name, signal.SIGKILL, 5 if quick else 12, groups // 8, _PANEL
    )


def _killed(
    folder: Path,
    name: str,
    signal_number: int,
    times: int,
    groups: int,
    options: dict[str, object],
) -> Iterator[Result]:
    here = folder / name.replace(" ", "-")
    here.mkdir()
    source = write_small(here / "small.jsonl", groups, "line")
    output, whole, ledger = (
        here / "scored.jsonl",
        here / "whole.jsonl",
        here / "ledger.sqlite",
    )
    with JudgeServer(_LATENCY, SERVER_LIFETIME) as server:
        ended(command(source, whole, server.base, c=_CALLS, **options))
    with JudgeServer(_LATENCY, SERVER_LIFETIME) as server:
        line = command(
            source, output, server.base, c=_CALLS, ledger=ledger, **options
        )
        judges, per_group = (2, 6) if options else (1, 1)
        tally = _interrupt(
            line,
            server,
            signal_number,
            times,
            groups * per_group,
            judges * _CALLS,
        )
        books = server.stats()["books"]
    same = digest(output) == digest(whole)
    what = f"{name} at {tally.signals} moments: output equals"
    yield Result(
        7, what, float(same), f"the uninterrupted one; {tally.codes}", ">=", 1.0
    )
    what = f"{name}: paid again / in flight"
    detail = f"{books['paid_again']} calls of {books['contents']:,}, {tally.in_flight} in flight"
    yield Result(
        7,
        what,
        books["paid_again"] / max(1, tally.in_flight),
        detail,
        "<=",
        1.0,
    )


def _interrupt(
    line: list[str],
    server: JudgeServer,
    signal_number: int,
    times: int,
    calls: int,
    most: int,
) -> _Tally:
    """Interrupt the command: four in five times while judges are asked, else at the start or the end."""
    dice, tally, codes = random.Random(signal_number), _Tally(), set()
    moments = sorted(dice.uniform(0, calls) for _ in range(times * 4 // 5))
    moments += [moments[-1]] * (times - len(moments))
    dice.shuffle(early := [n >= times * 4 // 5 for n in range(times)])
    later = iter(moments)
    for at_start in early:
        child = Child(line)
        if at_start:
            time.sleep(dice.uniform(0.02, 0.6))
        else:
            _until_answered(server, child, next(later) + dice.uniform(0, most))
        if not child.running():
            codes.add(child.end().code)
            continue
        tally.in_flight += _freeze(server, child, most)
        child.send(signal_number)
        child.send(signal.SIGCONT)
        tally.signals += 1
        codes.add(child.end().code)
    last = ended(line)
    tally.codes = f"exit codes {sorted(codes)}, then {last.code}"
    return tally


def _until_answered(server: JudgeServer, child: Child, calls: float) -> None:
    """Wait until so many calls are answered in all, or the command has ended."""
    end = time.monotonic() + _LONGEST
    while (
        child.running() and server.stats()["books"]["answered"]["calls"] < calls
    ):
        if time.monotonic() > end:
            raise SystemExit(
                f"{child.command} does not come as far as {calls:.0f} calls"
            )
        time.sleep(0.01)


def _freeze(server: JudgeServer, child: Child, most: int) -> int:
    """Stop the command; count its calls that are not answered, or answered too lately to be in the ledger."""
    before = server.stats()["books"]["answered"]["calls"]
    time.sleep(
        _LAG * (most // _CALLS) ** 2
    )  # many replies at once take longer to arrive
    child.send(signal.SIGSTOP)
    stats = server.stats()
    return int(
        min(
            most,
            stats["in_flight"] + stats["books"]["answered"]["calls"] - before,
        )
    )


if __name__ == "__main__":
    sys.exit(alone(measure))
