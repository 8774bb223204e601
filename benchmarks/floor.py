"""The floor: the minimum work of any judge client, in a bare loop over aiohttp.

    python -m benchmarks.floor INPUT OUTPUT BASE IN_FLIGHT

It reads, dumps a prompt, posts, parses, attaches and writes in order; it checks, retries and caches
nothing. The further cost of ruler is the cost of its guarantees.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import orjson

_SYSTEM = (
    "All of the trajectories below pursue the same goal. Consider each of them and give it a score "
    "between 0 and 1, relative to the others. Answer with JSON: "
    '{"scores": [{"trajectory_id": "...", "explanation": "...", "score": 0.0}]}.'
)


def prompt(group: dict[str, Any]) -> list[dict[str, str]]:
    """Dump every trajectory whole, as most loops do."""
    parts = ["Trajectories:"]
    for number, rollout in enumerate(group["trajectories"]):
        parts.append(
            f'<trajectory id="{number}">\n{json.dumps(rollout["messages"])}\n</trajectory>'
        )
    labels = [str(number) for number in range(len(group["trajectories"]))]
    parts.append("trajectory_ids to score: " + json.dumps(labels))
    return [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": "\n".join(parts)},
    ]


def attach(group: dict[str, Any], content: str) -> bytes:
    """Write each score of the reply to the rollout that it names."""
    for entry in orjson.loads(content)["scores"]:
        rollout = group["trajectories"][int(entry["trajectory_id"])]
        rollout["reward"], rollout["explanation"] = (
            entry["score"],
            entry["explanation"],
        )
    return orjson.dumps(group) + b"\n"


async def _run(
    lines: BinaryIO, output: BinaryIO, base: str, in_flight: int
) -> None:
    numbered = enumerate(lines)
    ready: dict[int, bytes] = {}
    written = 0
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0)
    ) as session:

        async def work() -> None:
            nonlocal written
            for number, line in numbered:
                group = orjson.loads(line)
                body = orjson.dumps(
                    {"model": "good", "messages": prompt(group)}
                )
                async with session.post(
                    f"{base}/chat/completions", data=body
                ) as response:
                    reply = orjson.loads(await response.read())
                ready[number] = attach(
                    group, reply["choices"][0]["message"]["content"]
                )
                while written in ready:
                    output.write(ready.pop(written))
                    written += 1

        await asyncio.gather(*(work() for _ in range(in_flight)))


def _main(source: str, target: str, base: str, in_flight: str) -> None:
    with Path(source).open("rb") as lines, Path(target).open("wb") as output:
        asyncio.run(_run(lines, output, base, int(in_flight)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
