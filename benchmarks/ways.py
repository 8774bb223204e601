"""One output by every route of the replies: is it the one that a live run writes?

    python -m benchmarks.ways [--quick]

The tau-bench file, 20,000 groups of 8 rollouts (400 MB), and 200 with criteria, a reference answer and pictures are
scored live by one process, then by files that an engine answers (four forms), by the batch APIs of OpenAI and
Anthropic, by shards with a ledger each, and by Ray. The judge is the tests' server on loopback, or the same judge
behind a batch. Outputs are compared byte for byte, without times (`judged_at`, `latency_s`), without `served`, since
a file of texts names no model, and without `cached`, which says that the reply came from the ledger and not from the
judge.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import engine
from benchmarks.commands import (
    SERVER_LIFETIME,
    command,
    digest,
    ended,
    run,
)
from benchmarks.inputs import write_criteria, write_rich
from benchmarks.promises import TAU_BENCH
from benchmarks.results import Result, alone
from tests.judge_server import BatchServer, JudgeServer

_OPENAI, _ANTHROPIC = "openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"
_PRICE = "2,8"
_SHARDS = 3


@dataclass(frozen=True, slots=True)
class _Scene:
    """A file to score, a folder for its files, and a live judge."""

    source: Path
    folder: Path
    base: str
    options: tuple[str, ...] = ()
    """Options that say what a judge is shown."""

    def score(
        self, output: str, ledger: str, model: str, *more: str | Path
    ) -> Path:
        """Score into a file of the folder, with a ledger in it."""
        out = self.folder / output
        line = command(
            self.source,
            out,
            None,
            m=model,
            ledger=self.folder / ledger,
            price=_PRICE,
        )
        ended([*line, *self.options, *map(str, more)])
        return out

    def live(self, model: str) -> Path:
        """Score in one process that asks the live judge."""
        name = model.partition("/")[0]
        base = (
            self.base if name == "openai" else self.base.removesuffix("/v1")
        )  # litellm adds it
        return self.score(
            f"{name}.jsonl", f"{name}.sqlite", model, "--api-base", base
        )

    def files(self, form: str, model: str) -> Path:
        """Write requests, have an engine answer them, import the replies, and score without a call."""
        requests = self.folder / f"{form}.requests.jsonl"
        ledger = self.folder / f"{form}.ledger.sqlite"
        common = ("-m", model, "--ledger", ledger)
        # the form of an answer depends on the endpoint, and the tokens on the form
        base = () if form == "anthropic" else ("--api-base", self.base)
        run(
            "ruler_cli",
            "batch",
            "export",
            self.source,
            requests,
            *common,
            *base,
            *self.options,
        )
        parts = sorted(self.folder.glob(f"{form}.requests*.jsonl"))
        for part in parts:
            replies = part.with_suffix(".replies")
            engine.answer(form, part, replies)
            run("ruler_cli", "batch", "import", replies, "--ledger", ledger)
            replies.unlink()
            part.unlink()
        return self.score(
            f"{form}.out.jsonl", ledger.name, model, "--cached-only"
        )

    def batch(self, api: str, model: str) -> Path:
        """Submit batches, collect them, and score without a call."""
        ledger = self.folder / f"batch.{api}.sqlite"
        with BatchServer() as server:
            asked = (
                "-m",
                model,
                "--api-base",
                getattr(server, api),
                "--ledger",
                ledger,
            )
            run(
                "ruler_cli",
                "batch",
                "submit",
                self.source,
                *asked,
                *self.options,
            )
            run("ruler_cli", "batch", "collect", "--wait", "--ledger", ledger)
            billed_again = server.billed_again
        if billed_again:
            raise SystemExit(f"{api}: billed more than once: {billed_again}")
        return self.score(
            f"batch.{api}.jsonl", ledger.name, model, "--cached-only"
        )

    def shards(self, model: str) -> Path:
        """Run a process for each shard, two at a time, then one that reads all ledgers."""
        ledgers = [f"shard-{i}.sqlite" for i in range(1, _SHARDS + 1)]

        def one(i: int) -> None:
            part = self.score(
                f"part-{i}.jsonl",
                ledgers[i - 1],
                model,
                "--shard",
                f"{i}/{_SHARDS}",
                "--api-base",
                self.base,
            )
            part.unlink()

        with ThreadPoolExecutor(2) as at_once:
            list(at_once.map(one, range(1, _SHARDS + 1)))
        others = [
            word
            for name in ledgers
            for word in ("--ledger", self.folder / name)
        ]
        return self.score(
            "shards.out.jsonl", "merged.sqlite", model, *others, "--cached-only"
        )

    def ray(self, model: str) -> Path:
        """Score with two workers of Ray on this machine."""
        more = ("--engine", "ray", "--api-base", self.base)
        return self.score("ray.out.jsonl", "ray.sqlite", model, *more)


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """A row for each route and file: 1 if an output differs from the live run's."""
    rich = write_rich(folder / "rich.jsonl", 500 if quick else 20_000)
    seen = write_criteria(folder / "criteria.jsonl", 200)
    for source in (TAU_BENCH, rich, seen):
        options = (
            ("--reference", "gold", "--pictures", "send")
            if source == seen
            else ()
        )
        if source.exists():
            with JudgeServer(lifetime=SERVER_LIFETIME) as server:
                where = folder / source.stem
                yield from _rows(
                    _Scene(source, where, server.base, options), quick
                )


def _rows(scene: _Scene, quick: bool) -> Iterator[Result]:
    scene.folder.mkdir()
    live = {
        model: _timed(partial(scene.live, model))
        for model in (_OPENAI, _ANTHROPIC)
    }
    groups = f"{500 if quick else 20_000:,} groups"
    if scene.source == TAU_BENCH:
        groups = "tau-bench"
    elif scene.options:
        groups = "criteria, references, pictures"
    for name, model, route in _routes(scene):
        seconds, written = _timed(route)
        first, wanted = live[model]
        reported = f"{seconds:.1f} s, live {first:.1f} s; sha256 {written[:12]}, live {wanted[:12]}"
        yield Result(
            None,
            f"{groups}, {name}: unlike",
            float(written != wanted),
            reported,
            limit=0,
        )
    shutil.rmtree(scene.folder)


def _routes(scene: _Scene) -> Iterator[tuple[str, str, Callable[[], Path]]]:
    """Return each route by name, with the judge that it asks."""
    for form in ("openai", "vllm", "ray"):
        name = f"file of {form}" if form != "ray" else "file of texts"
        yield name, _OPENAI, partial(scene.files, form, _OPENAI)
    yield (
        "file of anthropic",
        _ANTHROPIC,
        partial(scene.files, "anthropic", _ANTHROPIC),
    )
    yield (
        "batch API of openai",
        _OPENAI,
        partial(scene.batch, "openai", _OPENAI),
    )
    yield (
        "batch API of anthropic",
        _ANTHROPIC,
        partial(scene.batch, "anthropic", _ANTHROPIC),
    )
    yield f"{_SHARDS} shards", _OPENAI, partial(scene.shards, _OPENAI)
    if importlib.util.find_spec("ray") is not None:
        yield "ray, 2 workers", _OPENAI, partial(scene.ray, _OPENAI)


def _timed(route: Callable[[], Path]) -> tuple[float, str]:
    """Return the seconds of a route, and the digest of its output without times."""
    began = time.perf_counter()
    output = route()
    seconds = time.perf_counter() - began
    written = digest(output)
    output.unlink()
    return seconds, written


if __name__ == "__main__":
    sys.exit(alone(measure))
