"""Why a run on Ray stops, as sentences."""

from __future__ import annotations

from typing import Any

from ruler_cli.cluster.chunk import Chunk
from ruler_cli.errors import RulerError
from ruler_cli.judges.faults import clean


def ended(error: Exception) -> RulerError:
    """Workers end before they can be used."""
    return RulerError(
        f"--engine ray: workers end as soon as they begin ({_first(error)}); is the same ruler-cli[ray] "
        "installed on every node? See Ray's logs there"
    )


def unreadable(error: Any) -> RulerError:
    """A read task ended: its own reason, where it had one."""
    if isinstance(cause := getattr(error, "cause", None), RulerError):
        return cause
    return RulerError(
        f"--engine ray: the input cannot be read to its end ({_first(error)}); run the same command again"
    )


def deadly(chunk: Chunk, times: int) -> RulerError:
    """A chunk over which workers ended so many times."""
    first, last = chunk.lines[0].where, chunk.lines[-1].where
    return RulerError(
        f"--engine ray: {times} workers ended over {first} to {last}, one after another (out of memory?); "
        "see Ray's logs on their nodes; replies are kept, the same command goes on"
    )


def _first(error: Exception) -> str:
    """Of what Ray says the first sentence."""
    return clean(str(error).strip().split("\n")[0].split(", \x1b")[0].rstrip("."))[:160]
