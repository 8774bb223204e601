"""The usual loop: `litellm.acompletion` under a semaphore, all groups gathered at once.

    python -m benchmarks.litellm_loop INPUT OUTPUT BASE IN_FLIGHT

It sends the same prompts as `floor`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import orjson

from benchmarks.floor import attach, prompt


async def _run(lines: list[bytes], base: str, in_flight: int) -> list[bytes]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
        "True"  # else its import downloads a list
    )
    import litellm

    litellm.suppress_debug_info = True
    semaphore = asyncio.Semaphore(in_flight)

    async def judge(line: bytes) -> bytes:
        async with semaphore:
            group = orjson.loads(line)
            reply: Any = await litellm.acompletion(
                model="openai/good",
                messages=prompt(group),
                api_base=base,
                api_key="dummy",
                num_retries=0,
            )
            return attach(group, reply.choices[0].message.content)

    return await asyncio.gather(*map(judge, lines))


def _main(source: str, target: str, base: str, in_flight: str) -> None:
    scored = asyncio.run(
        _run(Path(source).read_bytes().splitlines(), base, int(in_flight))
    )
    Path(target).write_bytes(b"".join(scored))


if __name__ == "__main__":
    _main(*sys.argv[1:])
