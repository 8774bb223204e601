"""Groups too large for one request, end to end over HTTP: 512 rollouts, and 2 million tokens.

    python -m benchmarks.large [--quick]

The judge is the tests' server with a context of 128,000 tokens, which refuses longer requests with a
400 that says so. It scores by the truth in each rollout with the errors of the simulated judge: a persistent
error, position bias, noise, and a range that it stretches differently in every window. So the errors of
scores are a property of that judge as well.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commands import SERVER_LIFETIME, command, ended, printed
from benchmarks.results import Result, alone
from benchmarks.simulation.measures import spearman
from tests.judge_server import JudgeServer

_CONTEXT = 128_000
_LISTED = "openai/gpt-4o"
"""A judge with a listed context of the same size."""
_ERRORS = {"noise": 0.09, "stretch": 0.35, "gain": 0.25, "level": 0.1}
"""The judge of JUDGING.md's windows table, with the default persistent error and position bias."""
_LEAST_CORRELATION = 0.6
"""Least Spearman's correlation with the truth for two windows of each rollout: .70 in that table,
whose groups have 64 rollouts and vary less between draws than one group does."""
_MIB = 1 << 20
_PROSE = (
    "the your flight booking reservation was found and has been changed to a later date please "
    "confirm that I may charge 120 dollars for baggage on card ending 7447 economy passenger "
)


@dataclass(frozen=True, slots=True)
class _Case:
    """One group and one judge: tokens of each rollout's tool output, and a flag for a listed context.

    `bytes_per_token` is the server's; ruler assumes 3.8 until a reply states its tokens.
    """

    name: str
    outputs: tuple[int, ...]
    listed: bool = False
    bytes_per_token: float = 3.8
    refusals: int = 0
    giants: int = 0


def cases(quick: bool) -> tuple[_Case, ...]:
    """The cases; the quick ones are as many, and smaller."""
    many = (300,) * (96 if quick else 512)
    long = (200_000,) * 2 + (27_000,) * (10 if quick else 66)
    return (
        _Case(f"{len(many)} rollouts", many),
        _Case(
            f"{_millions(long)}, context listed", long, listed=True, giants=2
        ),
        _Case(f"{_millions(long)}, context learnt", long, refusals=1, giants=2),
        _Case(
            f"{_millions(long)}, listed, tokens 8 % shorter",
            long,
            True,
            3.5,
            1,
            2,
        ),
    )


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Seven or eight rows for each case."""
    for case in cases(quick):
        yield from _measure(folder, case)


def _millions(outputs: tuple[int, ...]) -> str:
    return f"{sum(outputs) / 1e6:.1f} M tokens"


def _measure(folder: Path, case: _Case) -> Iterator[Result]:
    source, output, summary = (
        folder / name
        for name in ("large.jsonl", "scored.jsonl", "summary.json")
    )
    truths = _write(source, case)
    server_options: dict[str, Any] = {
        "context": _CONTEXT,
        "errors": _ERRORS,
        "bytes_per_token": case.bytes_per_token,
    }
    with JudgeServer(0.2, SERVER_LIFETIME, **server_options) as server:
        line = command(
            source, output, server.base, c=32, passes=2, summary=summary
        )
        if case.listed:  # a context is known by name only without an endpoint
            line = command(
                source, output, None, m=_LISTED, c=32, passes=2, summary=summary
            )
            line = [
                "env",
                f"OPENAI_BASE_URL={server.base}",
                "OPENAI_API_KEY=none",
                *line,
            ]
        cost = ended(line, 0, 1).cost
        record = _record(source, server.root, case)
    scored = json.loads(output.read_text(encoding="utf-8"))
    yield from _score_rows(
        case, scored["ruler"], scored["trajectories"], truths
    )
    yield from _request_rows(case, record)
    size = source.stat().st_size
    detail = f"{cost.peak / _MIB:.0f} / {size / _MIB:.1f} MiB; {cost.cpu:.1f} s CPU, {cost.wall:.1f} s"
    yield Result(
        None, f"{case.name}: peak memory / input", cost.peak / size, detail
    )


def _score_rows(
    case: _Case, result: Any, rollouts: list[Any], truths: list[float]
) -> Iterator[Result]:
    """Rows for the scores of the group."""
    name = case.name
    scores = [
        each["ruler"]["score"]
        for each in rollouts
        if each["ruler"]["status"] == "scored"
    ]
    failed = len(rollouts) - len(scores)
    detail = (
        result.get("reason")
        or f"{result.get('windows', 1)} windows a pass, {result['passes']} passes"
    )
    yield Result(
        None, f"{name}: rollouts without a score", failed, detail, "<=", 0
    )
    if not failed:
        detail = f"of {len(scores)}; reliability {result['reliability']:.2f}"
        yield Result(
            None,
            f"{name}: Spearman with the truth",
            spearman(scores, truths),
            detail,
            ">=",
            _LEAST_CORRELATION,
        )


def _request_rows(case: _Case, record: dict[str, Any]) -> Iterator[Result]:
    """Rows for the requests that the server received."""
    name, largest = case.name, record["largest"]
    detail = f"{largest:,} / {_CONTEXT:,} tokens; {record['answered']} calls, {record['tokens']:,} tokens"
    yield Result(
        None,
        f"{name}: largest prompt / context",
        largest / _CONTEXT,
        detail,
        "<=",
        1.0,
    )
    detail = f"of {record['answered'] + record['refused']}"
    yield Result(
        None,
        f"{name}: calls refused as too long",
        record["refused"],
        detail,
        "<=",
        case.refusals,
    )
    detail = f"at most {record['most']}"
    yield Result(
        None,
        f"{name}: windows of each rollout, at least",
        record["fewest"],
        detail,
        ">=",
        2,
    )
    detail = "first user messages and final answers that a request does not hold whole"
    yield Result(
        None,
        f"{name}: what must be whole and is not",
        record["broken"],
        detail,
        "<=",
        0,
    )
    others = [at for at in record["cut"] if at >= case.giants]
    detail = f"{len(record['cut'])} shortened, of {case.giants} that fit no window, to {record['left']:,} bytes"
    yield Result(
        None, f"{name}: shortened without need", len(others), detail, "<=", 0
    )


def _write(path: Path, case: _Case) -> list[float]:
    """Write the group; return its truths, in input order."""
    dice = random.Random(1)
    texts = " ".join(dice.choices(_PROSE.split(), k=200_000))
    question = {
        "role": "user",
        "content": 'Find out what "went wrong":\n' + texts[:2000],
    }
    truths, rollouts = [], []
    for number, tokens in enumerate(case.outputs):
        start = dice.randrange(len(texts))
        text = "".join([texts[start:], texts])[: int(tokens * 3.8)]
        truth = round(min(0.98, max(0.02, dice.gauss(0.5, 0.12))), 4)
        truths.append(truth)
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "read", "arguments": "{}"},
        }
        messages = [
            question,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": text},
            {
                "role": "assistant",
                "content": f"It was cause {number}: "
                + text[:200]
                + f" truth={truth}",
            },
        ]
        rollouts.append({"messages": messages})
    path.write_text(
        json.dumps({"group_id": case.name, "trajectories": rollouts}) + "\n",
        encoding="utf-8",
    )
    return truths


def _record(source: Path, root: str, case: _Case) -> dict[str, Any]:
    result: dict[str, Any] = printed(
        "benchmarks.record", source, root, _CONTEXT, case.bytes_per_token
    )
    return result


if __name__ == "__main__":
    sys.exit(alone(measure))
