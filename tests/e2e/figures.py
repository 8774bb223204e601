"""The figures of a run that depend on the model: one row of the table that `make e2e` prints at its end.

    python -m tests.e2e.figures INPUT [--groups N --rollouts N --messages N] [--slots N] [-- OPTIONS]

scores INPUT with the model of tests.e2e.llama, by `ruler score` with these OPTIONS, and prints the row.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruler_cli.judges.offline import blocks
from tests.command import run_apart
from tests.e2e.llama import Llama
from tests.e2e.recorder import Recorder, Seen

HEAD = (
    "run",
    "groups",
    "scored",
    "first tries",
    "used",
    "again",
    "s",
    "s/group",
    "prompt",
    "completion",
)


@dataclass(frozen=True)
class Figures:
    """One run: groups, those of them scored, first requests, replies to these that could be used, corrective
    requests, seconds, tokens as the server reported them.
    """

    run: str
    groups: int
    scored: int
    first: int
    used: int
    corrective: int
    seconds: float
    prompt: int
    completion: int

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the table, under HEAD; tokens are per group."""
        n = self.groups or 1
        return (
            self.run,
            *map(
                str, (self.groups, self.scored, self.first, self.used, self.corrective)
            ),
            f"{self.seconds:.1f}",
            f"{self.seconds / n:.1f}",
            f"{self.prompt / n:.0f}",
            f"{self.completion / n:.0f}",
        )


def figures(run: str, seen: Sequence[Seen], summary: Mapping[str, Any]) -> Figures:
    """Count the requests and answers of a run, with the figures of its summary."""
    answered = [each for each in seen if each.status == 200]
    first = [each for each in answered if not each.corrective]
    again = [_shown(each) for each in answered if each.corrective]
    used = 0
    for asked in {_shown(each) for each in first}:
        here = sum(_shown(each) == asked for each in first)
        # a request for missing scores shows only these rollouts
        used += max(
            0,
            here
            - sum(other[0] == asked[0] and other[1] <= asked[1] for other in again),
        )
    tokens = [each.tokens for each in answered]
    return Figures(
        run,
        summary["groups"],
        summary["scored"],
        len(first),
        used,
        len(again),
        summary["seconds"],
        sum(prompt for prompt, _ in tokens),
        sum(completion for _, completion in tokens),
    )


def _shown(seen: Seen) -> tuple[str, frozenset[str]]:
    """The judge and the rollouts of a request: the same for all requests about one group."""
    body = seen.body
    return body["model"], frozenset(blocks(body["messages"][-1]["content"]).values())


def table(rows: Sequence[Figures]) -> str:
    """The rows as text, columns aligned."""
    cells = [HEAD, *(each.row for each in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in cells
    )


def cut(
    source: Path,
    to: Path,
    *,
    groups: int,
    rollouts: int = 4,
    messages: int = 0,
    characters: int = 0,
) -> Path:
    """Write the first rollouts of the first groups of a tau-bench file, and of each the first messages.

    `characters` bounds each text: the rules for the agent are longer than all of its messages.
    """
    taken: dict[int, int] = {}
    lines: list[str] = []
    for line in source.read_text().splitlines():
        record = json.loads(line)
        task = record["task_id"]
        if taken.get(task, 0) < rollouts and (task in taken or len(taken) < groups):
            taken[task] = taken.get(task, 0) + 1
            record["traj"] = [
                {
                    **each,
                    "content": (each["content"] or "")[: characters or None] or None,
                }
                for each in record["traj"][: messages or None]
            ]
            lines.append(json.dumps(record) + "\n")
    to.write_text("".join(lines))
    return to


def _main() -> None:
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(
        description="Score a file with a small real model and count."
    )
    parser.add_argument("input", type=Path)
    parser.add_argument(
        "--groups", type=int, default=0, help="of a tau-bench file: so many groups"
    )
    parser.add_argument(
        "--rollouts",
        type=int,
        default=4,
        help="of a tau-bench file: so many of a group",
    )
    parser.add_argument(
        "--messages",
        type=int,
        default=0,
        help="of a tau-bench file: so many of a rollout",
    )
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--slots", type=int, default=2)
    chosen = parser.parse_args(own)
    with tempfile.TemporaryDirectory() as name:
        place, source = Path(name), chosen.input.resolve()
        if chosen.groups:
            wanted = {
                name: getattr(chosen, name)
                for name in ("groups", "rollouts", "messages")
            }
            source = cut(source, place / "in.jsonl", **wanted)
        with (
            Llama(place, context=chosen.context, slots=chosen.slots) as llama,
            Recorder(llama.root) as judge,
        ):
            done = _score(place, source, judge, options, chosen.slots)
            summary = json.loads((place / "summary.json").read_text())
            result = figures(chosen.input.stem, judge.seen, summary)
            print(table([result]))
            counts = {key: summary[key] for key in ("asked", "retried", "failed")}
            print(json.dumps({"exit": done, **asdict(result), **counts}))


def _score(
    place: Path, source: Path, judge: Recorder, options: list[str], slots: int
) -> int:
    arguments = [
        "score",
        str(source),
        "out.jsonl",
        "-m",
        "hosted_vllm/smollm2",
        "--api-base",
        judge.base,
    ]
    arguments += [
        "-c",
        str(slots),
        "--ledger",
        "none",
        "--timeout",
        "3000",
        "--summary",
        "summary.json",
    ]
    began = time.time()
    done = run_apart([*arguments, *options], "", place, {}, longest=3600)
    print(done.stderr, f"{time.time() - began:.0f} s", sep="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    _main()
