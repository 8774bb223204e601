"""The accuracy of a small model as a judge, by the way in which it is asked and read, on groups with known truth.

    python -m benchmarks.labelled FOLDER                                  makes two files of groups
    python -m benchmarks.small_judges --model WEIGHTS.gguf FILE…          starts llama.cpp's server
    python -m benchmarks.small_judges --api-base http://HOST/v1 FILE…     asks a server that runs
    python -m benchmarks.small_judges --api-base http://HOST --api systemone FILE…      asks a decision model

Each line of FILE is a group with rewards. All ways are asked about a group before the next one, so that the engine's
prefix cache serves them. Half A are the groups of an even number: defaults are chosen there, and reported on half B,
beside the baselines of `ruler agree`. `--wordings` compares questions, too. It takes hours on a laptop; replies are
kept in `--ledger`, so that it can be resumed, and `--cached-only` prints what is there without a call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_cli import Scorer, ScoreSettings, load_settings, score_file
from ruler_cli.prompting.templates import QUESTION
from ruler_cli.scoring.statistics import Anova

WORDINGS = (
    "Is this answer right?",
    "Did the agent solve the task?",
    "Is the task done, and done right?",
    "Did this rollout reach the goal of its task?",
    "Is the result of this rollout correct?",
    "Is the final answer of this rollout correct?",
)
"""Other questions than the built-in one; of a decision, the first three are asked side by side."""
_SIDE_BY_SIDE = 3
CRITERION = '[{"criterion": "The result is what the task asks for, and right", "weight": 1}]'
CRITERION_WORDINGS = (None, "Is this criterion met?")
GAPS = (0.05, 0.1, 0.15, 0.2)
"""Values of `escalate_gap`."""
_COLUMNS = (
    "judge",
    "groups",
    "all groups",
    "right, wrong, tied",
    "half A",
    "half B",
    "tokens a group",
    "of these cached",
    "seconds a group",
)
_CASCADE = (
    "judge",
    "gap",
    "asked again",
    "accuracy of the rest",
    "of the rest, A",
)
Agreement = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way of asking: the options of `score`. With `order` the scores of that pass alone count."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    order: int | None = None


_EACH = {"ask": "each", "read": "probability"}
_GROUP = {"ask": "group", "read": "probability"}
_TWO = {**_GROUP, "passes": 2}
TEXT = Way("side by side, scores written")
PROBABILITY = (
    Way("each alone, by probability", _EACH),
    Way("side by side, by probability, one order", _GROUP),
    Way("its reverse", _TWO, order=1),
    Way("an order and its reverse", _TWO),
)


def _wordings() -> Iterator[Way]:
    """Yield the questions about a rollout alone, about one among others, and about a criterion."""
    for number, wording in enumerate(WORDINGS):
        yield Way(f"each alone: {wording}", {**_EACH, "question": wording})
        if number < _SIDE_BY_SIDE:
            yield Way(
                f"side by side: {wording}", {**_GROUP, "question": wording}
            )
    for question in CRITERION_WORDINGS:
        name = (
            f"a criterion, side by side: {question or 'the built-in question'}"
        )
        yield Way(name, {**_GROUP, "rubric": CRITERION, "question": question})


def _ruler(*words: str | Path) -> str:
    """Run a command; exit with its words if it fails."""
    command = [sys.executable, "-m", "ruler_cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    return done.stdout


@dataclass(frozen=True)
class Scored:
    """The scored groups of a file, with their numbers in it."""

    way: Way
    groups: Sequence[tuple[int, dict[str, Any]]]
    folder: Path

    def agreement(
        self, *, half: int | None = None, without: float = -1
    ) -> Agreement:
        """Return the agreement with the truth, of a half, without the groups whose scores lie within a gap."""
        path = self.folder / "part.jsonl"
        lines = [
            json.dumps(group) + "\n"
            for number, group in self.groups
            if half in (None, number % 2) and not _undecided(group, without)
        ]
        if not lines:
            return {}
        path.write_text("".join(lines))
        agreement: Agreement = json.loads(_ruler("agree", path, "--json"))
        return agreement

    def accuracy(
        self, *, half: int | None = None, without: float = -1
    ) -> float | None:
        """Return the pairwise accuracy, None if there is no pair."""
        agreement = self.agreement(half=half, without=without)
        if not agreement:
            return None
        accuracy: float | None = agreement["scorers"][0]["pairwise_accuracy"][
            "value"
        ]
        return accuracy

    def asked_again(self, gap: float) -> float:
        """Return the share of groups that a stronger judge would be asked about."""
        return fmean(_undecided(group, gap) for _, group in self.groups)

    @property
    def usage(self) -> tuple[str, str, str]:
        """Tokens of prompts and answers of a group, the share of cached ones, and seconds; kept replies included."""
        parts = [group["ruler"] for _, group in self.groups]
        prompt, completion, cached = (
            sum(part["usage"][f"{kind}_tokens"] for part in parts)
            for kind in ("prompt", "completion", "cached")
        )
        seconds = fmean(part["latency_s"] for part in parts)
        tokens = f"{prompt / len(parts):.0f} + {completion / len(parts):.0f}"
        return tokens, f"{cached / max(prompt, 1):.0%}", f"{seconds:.1f}"


def _undecided(group: dict[str, Any], gap: float) -> bool:
    """Return whether `--escalate` would ask about a group whose scores lie within the gap, or twice their error."""
    if gap < 0:
        return False
    rollouts = [trajectory["ruler"] for trajectory in group["trajectories"]]
    rollouts = [rollout for rollout in rollouts if rollout["score"] is not None]
    scores = [rollout["score"] for rollout in rollouts]
    passes = [
        *zip(*(rollout["pass_scores"] for rollout in rollouts), strict=True)
    ]
    error = 0.0
    if len(passes) > 1:
        table = Anova.of(passes)
        error = sqrt(table.ms_res / table.k)
    distance: float = max(scores) - min(scores)
    return distance <= max(gap, 2 * error)


def _in_order(group: dict[str, Any], order: int) -> dict[str, Any]:
    """Return a group with the scores of one pass, rounded as OUTPUT has them."""
    for trajectory in group["trajectories"]:
        rollout = trajectory["ruler"]
        passes = rollout["pass_scores"]
        score = passes[order] if order < len(passes) else None
        rollout |= {"score": score, "judge_score": score, "pass_scores": []}
        trajectory["reward"] = trajectory["metrics"]["ruler_score"] = score
    return group


async def _ask(lines: Sequence[str], runs: Sequence[ScoreSettings]) -> None:
    """Ask about a group in all ways, then about the next."""
    for number, line in enumerate(lines):
        group = {"group_id": f"g{number}", **json.loads(line)}
        for settings in runs:
            async with Scorer(settings) as scorer:
                await scorer.score(group)


def _scored(
    path: Path, way: Way, settings: ScoreSettings, folder: Path
) -> Scored:
    """Score a file by kept replies."""
    out = folder / "out.jsonl"
    out.unlink(missing_ok=True)
    asyncio.run(score_file(path, out, settings))
    groups = []
    for number, line in enumerate(out.read_text().splitlines()):
        group = json.loads(line)
        if group["ruler"]["status"] == "scored":
            picked = group if way.order is None else _in_order(group, way.order)
            groups.append((number, picked))
    return Scored(way, groups, folder)


def _interval(value: Mapping[str, float | None]) -> str:
    """Write an accuracy, with its interval if there is one."""
    words = _number(value["value"])
    if value["low"] is None:
        return words
    return f"{words} [{value['low']:.2f}, {value['high']:.2f}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _head(columns: Sequence[str]) -> str:
    return f"{_line(*columns)}\n{'| --- ' * len(columns)}|"


def _row(
    name: str,
    parts: Sequence[Mapping[str, Any]],
    groups: object = "",
    usage: Sequence[str] = ("", "", ""),
) -> str:
    """Write the row of a judge or a baseline: over all groups, and over both halves."""
    accuracies = [
        _interval(part["pairwise_accuracy"]) if part else "–" for part in parts
    ]
    pairs, against, tied = (
        parts[0][key] for key in ("pairs", "against", "tied")
    )
    counts = f"{pairs - against - tied}, {against}, {tied}"
    return _line(name, groups, accuracies[0], counts, *accuracies[1:], *usage)


def _table(judged: Sequence[Scored]) -> Iterator[str]:
    """Yield the rows of a file: each way, then the baselines."""
    yield _head(_COLUMNS)
    most: list[Agreement] = []
    for scored in judged:
        agreements = [scored.agreement(half=half) for half in (None, 0, 1)]
        parts = [part["scorers"][0] if part else {} for part in agreements]
        usage = scored.usage if scored.way.order is None else ("", "", "")
        yield _row(scored.way.name, parts, len(scored.groups), usage)
        if not most or agreements[0]["groups"] > most[0]["groups"]:
            most = agreements
    baselines = [part["baselines"] if part else [] for part in most]
    for number, baseline in enumerate(baselines[0]):
        parts = [part[number] if part else {} for part in baselines]
        yield _row(f"the {baseline['name']} one wins", parts)


def _cascade(judged: Sequence[Scored]) -> Iterator[str]:
    """Yield what a stronger judge is asked about, and how right the rest is, by the gap."""
    yield _head(_CASCADE)
    for scored in judged:
        for gap in GAPS:
            rest = _number(scored.accuracy(without=gap))
            half = _number(scored.accuracy(half=0, without=gap))
            asked = f"{scored.asked_again(gap):.0%}"
            yield _line(scored.way.name, gap, asked, rest, half)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.3f} of {len(known)}" if known else "–"


def _means(
    files: Sequence[Sequence[Scored]], ways: Sequence[Way]
) -> Iterator[str]:
    """Yield the mean accuracy over files, by which defaults are chosen (half A) and reported (half B)."""
    yield _head(
        ("judge", "half A", "half B", *[f"A, rest at {gap}" for gap in GAPS])
    )
    for way in ways:
        judged = [
            scored for file in files for scored in file if scored.way is way
        ]
        if not judged:
            continue
        cells = [
            [part.accuracy(half=half) for part in judged] for half in (0, 1)
        ]
        rest = [
            [part.accuracy(half=0, without=gap) for part in judged]
            for gap in GAPS
        ]
        yield _line(way.name, *map(_mean, (*cells, *rest)))


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", type=Path, help="weights in GGUF")
    parser.add_argument("--api-base", help="a server that runs")
    parser.add_argument("--api", default="auto", help="the API that it speaks")
    parser.add_argument(
        "--name", default="hosted_vllm/small", help="the model's name"
    )
    parser.add_argument("--ledger", default="small_judges.sqlite")
    parser.add_argument(
        "--wordings", action="store_true", help="compare questions"
    )
    parser.add_argument(
        "--cached-only", action="store_true", help="ask nothing"
    )
    options = parser.parse_args()
    typed = options.api in ("systemone", "decisions")
    ways = [*PROBABILITY] if typed else [TEXT, *PROBABILITY]
    if options.wordings:
        ways += _wordings()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = options.api_base
        if base is None and not options.cached_only:
            from tests.e2e.llama import Llama

            server = Llama(folder, slots=1, threads=2, model=options.model)
            base = stack.enter_context(server).base

        def settings(way: Way) -> ScoreSettings:
            return load_settings(
                model=options.name,
                api=options.api,
                api_base=base or "http://127.0.0.1:1/v1",
                # a decision model has none
                param={} if typed else {"temperature": 0},
                concurrency=1,
                timeout=3000,
                ledger=options.ledger,
                cached_only=options.cached_only,
                config="none",
                **way.options,
            )

        print(f"The built-in question: {QUESTION}")
        runs = sorted(map(settings, ways), key=lambda run: run.ask.passes)
        files = []
        for path in options.files:
            if not options.cached_only:
                asyncio.run(_ask(path.read_text().splitlines(), runs))
            judged = [_scored(path, way, settings(way), folder) for way in ways]
            files.append([scored for scored in judged if scored.groups])
            if not files[-1]:
                continue
            print(f"\n{path.name}\n", *_table(files[-1]), sep="\n", flush=True)
            asked = [part for part in files[-1] if part.way in PROBABILITY]
            print("", *_cascade(asked), sep="\n", flush=True)
        print("\nmean over files\n", *_means(files, ways), sep="\n")


if __name__ == "__main__":
    _main()
