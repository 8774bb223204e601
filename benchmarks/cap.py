"""`--max-cost` in random runs: the overspending, in units of one call."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import SERVER_LIFETIME, command, ended, statuses
from benchmarks.inputs import write_uneven
from benchmarks.results import Result, alone
from tests.judge_server import JudgeServer

_RUNS, _QUICK = 50, 10
_PANEL_RUNS, _PANEL_QUICK = 6, 3
_PANEL: dict[str, object] = {"m": ("openai/good", "openai/fine"), "passes": 2}
"""Two judges and two passes: four calls for a group, under one cap."""
_RUBRIC_TOKENS = (
    500  # roughly; a cap only has to be below the cost of the whole run
)


@dataclass(frozen=True, slots=True)
class _Run:
    over: float
    """USD spent beyond the cap, in mean calls of this run; negative: the rest."""
    used: float
    """Share of the cap that was spent."""
    code: int
    paid_again: int
    """Calls paid for twice, after the rerun without a cap."""
    complete: bool
    """True if the rerun scored everything, with exit code 0."""


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """The worst of all runs, for one judge and for a panel with several passes."""
    yield from _worst(folder, "--max-cost", {}, _QUICK if quick else _RUNS)
    number = _PANEL_QUICK if quick else _PANEL_RUNS
    yield from _worst(folder, "--max-cost, 2 judges, 2 passes", _PANEL, number)


def _worst(
    folder: Path, what: str, options: dict[str, object], number: int
) -> Iterator[Result]:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(partial(_run, folder, options), range(number)))
    name = f"{what}, {len(runs)} runs"
    detail = f"left at most {-min(run.over for run in runs):.1f} calls, used {_shares(runs)} of the cap"
    yield Result(
        7,
        f"{name}: worst overspend in calls",
        max(run.over for run in runs),
        detail,
        "<=",
        1.0,
    )
    codes = [run.code for run in runs]
    yield Result(
        7,
        f"{name}: ended with 4",
        codes.count(4) / len(runs),
        f"{sorted(set(codes))}",
        ">=",
        1.0,
    )
    whole, paid_again = (
        sum(run.complete for run in runs),
        sum(run.paid_again for run in runs),
    )
    detail = f"{paid_again} calls paid twice"
    yield Result(
        7,
        f"{name}: rerun ends",
        whole / len(runs),
        "all scored, exit code 0",
        ">=",
        1.0,
    )
    yield Result(
        7, f"{name}: rerun pays again", float(paid_again), detail, "<=", 0.0
    )


def _shares(runs: list[_Run]) -> str:
    """The least and the median share of the cap that was spent."""
    shares = sorted(run.used for run in runs)
    return f"at least {shares[0]:.0%}, mostly {shares[len(shares) // 2]:.0%}"


def _run(folder: Path, options: dict[str, object], number: int) -> _Run:
    dice, here = random.Random(number), folder / f"cap-{len(options)}-{number}"
    here.mkdir()
    calls = round(2 ** dice.uniform(0, 6))
    per_group = 4 if options else 1
    groups = 30 + 5 * calls // (2 if options else 1)
    source = write_uneven(here / "uneven.jsonl", groups, number)
    output, ledger = here / "scored.jsonl", here / "ledger.sqlite"
    dollars = (
        10 ** dice.uniform(-1, 1.3),
        10 ** dice.uniform(-0.5, 1.9),
    )  # per million tokens
    conduct = {
        "completion": 10 ** dice.uniform(1.5, 3),
        "completion_spread": dice.uniform(0, 0.8),
        "bytes_per_token": dice.choice((3.8, 3.8, 2.5, 6.0)),
        "latency_spread": 0.5,
        "seed": number,
    }
    prompt = (
        source.stat().st_size / groups / conduct["bytes_per_token"]
        + _RUBRIC_TOKENS
    )
    whole = (
        per_group
        * groups
        * (prompt * dollars[0] + conduct["completion"] * dollars[1])
        / 1e6
    )
    cap = round(whole * dice.uniform(0.05, 0.6), 6)
    with JudgeServer(0.05, SERVER_LIFETIME, **conduct) as server:
        price = ",".join(f"{each:.4f}" for each in dollars)
        line = partial(
            command,
            source,
            output,
            server.base,
            c=calls,
            price=price,
            ledger=ledger,
            **options,
        )
        end = ended(line(max_cost=f"{cap:.6f}"), 0, 1, 4)
        books = server.stats()["books"]
        spent, answered = _spent(books, price), books["answered"]["calls"]
        rerun = ended(line(), 0, 1, 3, 4)
        paid_again = server.stats()["books"]["paid_again"]
    complete = rerun.code == 0 and set(statuses(output)) == {"scored"}
    over = (spent - cap) / (spent / answered) if answered else 0.0
    return _Run(over, spent / cap, end.code, paid_again, complete)


def _spent(books: Any, price: str) -> float:
    prompt, completion = (float(each) / 1e6 for each in price.split(","))
    columns = books["answered"], books["abandoned"]
    return float(
        sum(
            column["prompt"] * prompt + column["completion"] * completion
            for column in columns
        )
    )


if __name__ == "__main__":
    sys.exit(alone(measure))
