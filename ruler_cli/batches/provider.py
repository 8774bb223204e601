"""What a batch API does for us, whoever offers it, and how it may fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from ruler_cli.errors import RefusedError, RulerError

State = Literal["running", "ended", "failed"]
"""`ended`: results can be fetched, of canceled and expired batches too. `failed`: nothing was processed."""

Row = bytes
"""One line of results; inside of Provider the word `bytes` is a limit."""


class UnclearError(RulerError):
    """A batch was asked for and no answer came that tells whether there is one now.

    Nobody but who recorded the intent can decide: it may be there, and paid for, though nobody saw its id.
    """


class UnreachedError(RefusedError):
    """No connection could be made: where one was made before, it may pass."""


class UnknownBatchError(RefusedError):
    """The provider knows no batch of this id, or none that this key may see."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A batch as its provider tells it.

    `label` is the provider's own word for its state: validating, in_progress, canceling, ended, expired ….
    `tag` is ours, None where the provider keeps none; `file` is the uploaded file it was made of, which
    tells whose batch it is where an endpoint drops the tag, None where there is no such file. `total`,
    `succeeded` and `failed` count requests, and may be 0 until the provider has counted. `created` is Unix
    time, by the provider's clock. `reason` says in one clean sentence why it failed. `files` are where its
    results stand, in the provider's own words.
    """

    id: str
    state: State
    label: str
    tag: str | None
    total: int
    succeeded: int
    failed: int
    created: float
    reason: str = ""
    file: str | None = None
    files: tuple[str, ...] = ()


class Provider(Protocol):
    """A batch API, open inside its own async context.

    Every failure is a RulerError: RefusedError where the key, the account or the batch is refused for good,
    UnclearError only of `create`. What can be asked again without harm has been, before it fails.
    """

    name: str
    """How sentences name it."""
    requests: int
    """The most requests of one batch."""
    bytes: int
    """The most bytes of one batch's file."""
    tagged: bool
    """Whether batches carry our tag."""

    @property
    def account(self) -> str:
        """Signs that tell this address from others, a dot, signs that tell its key; they betray neither."""
        ...

    async def upload(self, file: Path, tag: str) -> str:
        """Give the provider the requests; the id of its file, "" where there is no such step."""
        ...

    async def uploaded(self, tag: str) -> str | None:
        """The file of an earlier try, found by its name; None where there is none (yet)."""
        ...

    async def create(self, file: Path, uploaded: str, tag: str, requests: int) -> Remote:
        """Have the requests processed, from here on paid for; never asked twice once it may have arrived.

        `file` holds the `requests` lines, `uploaded` is what `upload` returned for it.
        UnclearError where it is not known whether there is a batch now; after any other error there is none.
        """
        ...

    def listed(self, since: float) -> AsyncIterator[Remote]:
        """Every batch of the account created at `since` (Unix time) or later, newest first, all pages."""
        ...

    async def retrieve(self, id: str) -> Remote:
        """A batch by its id; UnknownBatchError where there is none."""
        ...

    def results(self, remote: Remote) -> AsyncIterator[Row]:
        """Lines of what was answered, then of what was not, streamed, as they came, without line breaks.

        Lines may come twice, after a connection that broke; one of more than 32 MiB comes cut.
        """
        ...

    async def cancel(self, id: str) -> Remote:
        """Have no further requests processed; what is done is paid for, and can be fetched in the end."""
        ...

    async def __aenter__(self) -> Self:
        """Open what is needed for requests."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close it."""
        ...
