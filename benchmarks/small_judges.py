"""The accuracy of a small model as a judge, by the way in which it is asked, on groups with known truth.

    python -m benchmarks.labelled FOLDER                                  makes two files of groups
    python -m benchmarks.small_judges --model WEIGHTS.gguf FILE…          starts llama.cpp's server
    python -m benchmarks.small_judges --api-base http://HOST/v1 FILE…     asks a server that runs

Each line of FILE is a group with rewards. The wordings of the question are compared on half A of the groups (those of
an even number), and reported on half B, beside the baselines of `ruler agree`. It takes hours on a laptop; replies are
kept in `--ledger`, so that it can be resumed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ruler_cli.prompting.templates import QUESTION

WORDINGS = (
    QUESTION,
    "Did this rollout reach the goal of its task?",
    "Is this answer right?",
    "Is the result of this rollout correct?",
    "Did the agent solve the task?",
    "Is the final answer of this rollout correct?",
    "Is the task done, and done right?",
)
_COLUMNS = (
    "judge",
    "all groups",
    "right, wrong, tied",
    "half A",
    "half B",
    "tokens a group",
)


def _ruler(*words: str | Path) -> str:
    """Run a command; exit with its words if it fails."""
    command = [sys.executable, "-m", "ruler_cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    return done.stdout


def _agreements(scored: Path) -> list[dict[str, Any]]:
    """Return the agreement with the truth over all groups of a scored file, over half A, and over half B."""
    lines = scored.read_text().splitlines(keepends=True)
    found = []
    for name, part in (("all", lines), ("a", lines[0::2]), ("b", lines[1::2])):
        path = scored.with_suffix(f".{name}.jsonl")
        path.write_text("".join(part))
        found.append(json.loads(_ruler("agree", path, "--json")))
    return found


def _tokens(scored: Path) -> str:
    """Write the tokens of prompts and answers that a group took, kept replies included."""
    lines = scored.read_text().splitlines()
    usages = [json.loads(line)["ruler"]["usage"] for line in lines]
    return " + ".join(
        f"{sum(usage[kind] for usage in usages) / len(usages):.0f}"
        for kind in ("prompt_tokens", "completion_tokens")
    )


def _accuracy(value: dict[str, Any]) -> str:
    """Write an accuracy, with its interval if there is one."""
    if value["value"] is None:
        return "–"
    words = f"{value['value']:.3f}"
    if value["low"] is None:
        return words
    return f"{words} [{value['low']:.2f}, {value['high']:.2f}]"


def _row(name: str, scorers: list[dict[str, Any]], tokens: str = "") -> str:
    whole, *halves = (_accuracy(one["pairwise_accuracy"]) for one in scorers)
    pairs, against, tied = (scorers[0][key] for key in ("pairs", "against", "tied"))
    counts = f"{pairs - against - tied}, {against}, {tied}"
    return f"| {' | '.join((name, whole, counts, *halves, tokens))} |"


def _table(source: Path, judge: list[str], folder: Path) -> Iterator[str]:
    """Yield the rows of a file: each wording, all rollouts in one call, the baselines."""
    yield f"\n{source.name}\n"
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "| --- " * len(_COLUMNS) + "|"
    ways = {wording: ["--ask", "each", "--question", wording] for wording in WORDINGS}
    found: list[dict[str, Any]] = []
    for name, way in {**ways, "all rollouts in one call": []}.items():
        out = folder / "out.jsonl"
        out.unlink(missing_ok=True)
        _ruler("score", source, out, "-q", *judge, *way)
        found = _agreements(out)
        yield _row(name, [one["scorers"][0] for one in found], _tokens(out))
    for baselines in zip(*(one["baselines"] for one in found), strict=True):
        yield _row(f"the {baselines[0]['name']} one wins", [*baselines])


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", type=Path, help="weights in GGUF")
    parser.add_argument("--api-base", help="a server that runs")
    parser.add_argument("--name", default="hosted_vllm/small", help="the model's name")
    parser.add_argument("--ledger", default="small_judges.sqlite")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = options.api_base
        if base is None:
            from tests.e2e.llama import Llama

            server = Llama(folder, slots=1, threads=2, model=options.model)
            base = stack.enter_context(server).base
        judge = ["-m", options.name, "--api-base", base, "-p", "temperature=0"]
        judge += ["--ledger", options.ledger, "-c", "1"]
        for source in options.files:
            for row in _table(source, judge, folder):
                print(row, flush=True)


if __name__ == "__main__":
    _main()
