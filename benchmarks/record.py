"""The requests of one large group to a judge server, from the server's own record.

    python -m benchmarks.record INPUT ROOT CONTEXT BYTES_PER_TOKEN

It prints a JSON object; `large` runs it in a child process, so that its memory is in no measurement.
INPUT is a line that `large` wrote, ROOT the address of the server, whose limit is CONTEXT tokens.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from ruler_cli.judges.offline import blocks


def summarize(
    source: Path, requests: list[Any], most: int, bytes_per_token: float
) -> dict[str, Any]:
    """Count the windows and cuts of each rollout; requests of more than `most` tokens were refused."""
    rollouts = json.loads(source.read_text(encoding="utf-8"))["trajectories"]
    first = json.dumps(
        rollouts[0]["messages"][0]["content"], ensure_ascii=False
    )
    last = [
        json.dumps(each["messages"][-1]["content"], ensure_ascii=False)
        for each in rollouts
    ]
    outputs = [
        json.dumps(each["messages"][2]["content"], ensure_ascii=False)
        for each in rollouts
    ]
    number = {text: at for at, text in enumerate(last)}
    sizes: list[int] = []
    times: Counter[int] = Counter()
    cut: set[int] = set()
    broken = refused = left = 0
    for request in requests:
        texts = [message["content"] for message in request["messages"]]
        tokens = int(
            sum(len(text.encode()) for text in texts) / bytes_per_token
        )
        fits = tokens <= most
        refused += not fits
        if fits:
            sizes.append(tokens)
        distinct = blocks(texts[-1])
        broken += f"<context>\nuser: {first}\n" not in texts[-1]
        for text in distinct.values():
            at = number.get(text.rpartition("\nassistant: ")[2])
            if at is None:
                broken += 1
                continue
            times[at] += fits
            if f"tool read: {outputs[at]}" not in text:
                cut.add(at)
                left = max(left, len(text.encode()))
    return {
        "answered": len(sizes),
        "refused": refused,
        "largest": max(sizes, default=0),
        "tokens": sum(sizes),
        "fewest": min(times[at] for at in range(len(rollouts))),
        "most": max(times.values(), default=0),
        "broken": broken,
        "cut": sorted(cut),
        "left": left,
    }


def _main(source: str, root: str, most: str, bytes_per_token: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{root}/requests", timeout=60) as reply:
        requests = json.load(reply)
    print(
        json.dumps(
            summarize(Path(source), requests, int(most), float(bytes_per_token))
        )
    )


if __name__ == "__main__":
    _main(*sys.argv[1:])
