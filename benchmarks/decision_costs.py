"""The cost of 1,000,000 rollouts by judge, from `ruler check` on a dump.

    python -m benchmarks.decision_costs DUMP.jsonl [--gpu-rate TOKENS_PER_SECOND --gpu-price USD_PER_HOUR]

It prints a table in Markdown. Calls and tokens are what `check` expects for the groups of DUMP, scaled by rollouts.
Prices are those of litellm's list; rows without one need a newer litellm (decision models: 1.110.2). The row of one's
own GPU rests on the rate and the price that are given, and says so. Nothing is sent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

ROLLOUTS = 1_000_000
_HOUR = 3600


class Row(NamedTuple):
    """A judge, and the options of `check` that ask it."""

    name: str
    options: Sequence[str]


_OPENAI = ("-m", "openai/gpt-6-luna", "--api", "decisions")
_JEV = ("-m", "typesafe/jev-1.14.0")
ROWS = (
    Row("o3, scores written", ("-m", "openai/o3")),
    Row("gpt-6-luna, scores written", ("-m", "openai/gpt-6-luna")),
    Row("gpt-4.1-nano, scores written", ("-m", "openai/gpt-4.1-nano")),
    Row("gpt-6-luna, Decisions", _OPENAI),
    Row("Jev 1.14", _JEV),
    Row("Jev 1.14, an order and its reverse", (*_JEV, "--passes", "2")),
    Row("Jev 1.14, each alone", (*_JEV, "--ask", "each")),
    Row("Perplexity's decider 1.2", ("-m", "perplexity/pplx-decider-v1.2")),
    Row("its flash model", ("-m", "perplexity/pplx-decider-flash-v1.2")),
)
_OWN = (
    *("-m", "hosted_vllm/decider", "--api", "systemone"),
    *("--api-base", "http://localhost:8000"),
)
_COLUMNS = (
    "judge",
    "options",
    "calls",
    "prompt tokens",
    "answer tokens",
    "USD",
)


def estimate(dump: str, options: Sequence[str]) -> dict[str, float | None]:
    """Return the expected calls, tokens and cost of ROLLOUTS rollouts like those of a dump; exit if there is none."""
    words = [
        "check",
        dump,
        "--json",
        "--ledger",
        "none",
        "--config",
        "none",
        *options,
    ]
    command = [sys.executable, "-m", "ruler_cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    scale = ROLLOUTS / result["rollouts"]
    return {
        name: _expected(result[name], scale)
        for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")
    }


def _expected(value: Mapping[str, Any] | None, scale: float) -> float | None:
    return None if value is None else value["expected"] * scale


def _number(value: float | None) -> str:
    """Write a number with two digits that count, or a count in millions or billions."""
    if value is None:
        return "not in litellm's list"
    for unit, word in ((1e9, " billion"), (1e6, " million")):
        if value >= unit:
            return f"{value / unit:.2f}{word}"
    digits = max(len(f"{value:.0f}") - 2, 0)
    return f"{round(value, -digits):,.0f}"


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("--gpu-rate", type=float, help="prompt tokens a second")
    parser.add_argument("--gpu-price", type=float, help="USD an hour")
    options = parser.parse_args()
    print(_line(*_COLUMNS))
    print(_line(*["---"] * 2, *["---:"] * 4))
    for row in ROWS:
        values = map(_number, estimate(options.dump, row.options).values())
        print(
            _line(row.name, f"`{' '.join(row.options)}`", *values), flush=True
        )
    if options.gpu_rate and options.gpu_price:
        own = estimate(options.dump, _OWN)
        hours = (own["prompt_tokens"] or 0.0) / options.gpu_rate / _HOUR
        own["cost_usd"] = hours * options.gpu_price
        name = (
            f"your own GPU, assumed: {options.gpu_rate:,.0f} prompt tokens a second, {options.gpu_price:g} USD an "
            f"hour; {hours:,.0f} hours"
        )
        print(_line(name, f"`{' '.join(_OWN)}`", *map(_number, own.values())))
    print(f"\nPrices: litellm {version('litellm')}.")


if __name__ == "__main__":
    _main()
