"""Tokens of every prompt of a file: as ruler writes it, and with messages as `json.dumps` writes them.

    python -m benchmarks.tokens INPUT

It prints `{"unit", "ours", "dumped", "bytes", "shared"}`: both counts, the bytes of ours, and the share of a second
pass's prompt that the first pass begins with, at the median over groups. System message, labels and the shared
prefix are the same on both sides; only the rendering of messages differs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sized
from contextlib import ExitStack
from functools import partial
from hashlib import sha1
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from statistics import median

from ruler_cli.prompting.prompt import build_layout
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import AskSettings, InputSettings
from ruler_cli.types import Group
from tests.values import first_request

_ENCODINGS = ("o200k_base", "cl100k_base")
_ORIGIN = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def counter() -> tuple[str, Callable[[str], int]]:
    """Return the unit and its counter: tokens of an encoding that litellm contains, or bytes."""
    result = find_spec("litellm")
    for location in (result and result.submodule_search_locations) or ():
        folder = Path(location, "litellm_core_utils", "tokenizers")
        for name in _ENCODINGS:
            # tiktoken would download a missing file of this name
            if (
                folder
                / sha1(
                    _ORIGIN.format(name).encode(), usedforsecurity=False
                ).hexdigest()
            ).exists():
                import tiktoken

                os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
                encode = tiktoken.get_encoding(name).encode_ordinary
                return f"{name} tokens", partial(_length, encode)
    return "bytes", partial(_length, str.encode)


def _length(encode: Callable[[str], Sized], text: str) -> int:
    return len(encode(text))


def ours(group: Group) -> list[str]:
    """Return the two messages that ruler sends."""
    request = first_request(build_layout(group, AskSettings()), AskSettings())
    return [request.system, request.user]


def begun(group: Group) -> list[str]:
    """Return the part of them with which every pass begins."""
    ask = AskSettings(passes=2)
    request = first_request(build_layout(group, ask), ask)
    return [request.system, request.user[: request.shared]]


def dumped(group: Group) -> list[str]:
    """Return the same request with messages as json.dumps writes them, the shared ones once."""
    prompt = first_request(build_layout(group, AskSettings()), AskSettings())
    all_messages = [rollout.messages for rollout in group.rollouts]
    columns = zip(*all_messages, strict=False)
    shared = len(
        list(
            takewhile(
                lambda column: all(m == column[0] for m in column), columns
            )
        )
    )
    parts = [f"<context>\n{json.dumps(all_messages[0][:shared])}\n</context>"]
    labels = [
        *prompt.shown,
        *map(str, range(len(all_messages) - len(prompt.shown))),
    ]
    for label, messages in zip(labels, all_messages, strict=True):
        parts.append(
            f'<trajectory id="{label}">\n{json.dumps(messages[shared:])}\n</trajectory>'
        )
    parts.append("trajectory_ids to score: " + json.dumps(labels))
    return [prompt.system, "\n".join(parts)]


def _main(source: str) -> None:
    unit, count = counter()
    totals = {"ours": 0, "dumped": 0, "bytes": 0}
    shares = []
    with ExitStack() as stack:
        for group in open_input(
            InputSettings(source), stack, lambda _: None
        ).groups:
            size = sum(map(count, ours(group)))
            totals["ours"] += size
            shares.append(sum(map(count, begun(group))) / size)
            totals["dumped"] += sum(map(count, dumped(group)))
            totals["bytes"] += sum(len(text.encode()) for text in ours(group))
    shared = round(median(shares), 3)
    print(json.dumps({"unit": unit, **totals, "shared": shared}))


if __name__ == "__main__":
    _main(sys.argv[1])
