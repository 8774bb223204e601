"""How the batch server behaves: its pace, its listings, what it loses, and how a step goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STAGES = 3
"""Steps from a batch's creation to its end; its rows are processed in the second."""
FAULTS = frozenset(
    {
        "drop",  # hangs up, the request unhandled
        "drop-after",  # handles it and hangs up
        "half",  # handles it and hangs up in the middle of the answer
        "hang",  # never answers, the request unhandled
        "hang-after",  # handles it and never answers
        "html",  # handles it and answers with a page
        "huge",  # handles it and answers with a body without end
        "404",
        "429",  # Retry-After: 0
        "429-later",  # Retry-After: 3600
        "401",
        "403",
        "quota",
        "400",
        "413",
        "500",
        "500-after",  # handles it and answers 500
        "302",
    }
)


@dataclass(slots=True)
class Conduct:
    """What a test sets, at any time."""

    pace: Literal["at once", "retrieve", "advance"] = "at once"
    """A batch goes on by itself, by a step at each retrieval, or when the test says `advance()`."""
    page: int = 3
    """The most entries of one page of a listing."""
    lag: int = 0
    """Listings in which a new batch or file does not show yet."""
    fails: bool = False
    """Batches fail validation (Anthropic: are refused with 400)."""
    expires: int | None = None
    """Rows processed before a batch expires."""
    some: int = 3
    """Every so manieth row of a batch misbehaves where the model's name says `some-`."""
    tags: bool = True
    """Whether metadata is kept; some endpoints drop it."""
    clock: float | None = None
    """Unix time of the server; None: the machine's."""
    results_host: str = ""
    """The root that Anthropic's `results_url` names; "": the server's own."""
    key: str | None = None
    """The only key that is taken; None: any."""


@dataclass(slots=True)
class Fault:
    """How the next requests of one step (`any`: of every step) go wrong, after `skip` that go well."""

    step: str
    kind: str
    times: int = 1
    skip: int = 0

    def __post_init__(self) -> None:
        """ValueError for a kind that there is none of."""
        if self.kind not in FAULTS:
            raise ValueError(f"no such fault: {self.kind}")

    def strikes(self, step: str) -> bool:
        """Whether this request goes wrong; counts it."""
        if self.step not in (step, "any") or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True
