"""What both batch APIs have in common: one batch, a listing of all, its end, and a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import quote

from ruler_cli.batches.body import Body
from ruler_cli.batches.provider import Remote, UnclearError, UnknownBatchError
from ruler_cli.batches.told import OddError, entries, id_of
from ruler_cli.batches.wire import Wire
from ruler_cli.errors import RulerError

_PAGE = 100


@dataclass(slots=True)
class Served(ABC):
    """Batches behind `{base}{path}`, where `cursor` names the entry after which a page begins."""

    wire: Wire
    path: ClassVar[str]
    cursor: ClassVar[str]

    @property
    def account(self) -> str:
        """What tells this address and key from others."""
        return self.wire.account

    async def retrieve(self, id: str) -> Remote:
        """Ask for one batch."""
        return self.remote(await self.wire.get(self.place(id), self._lost(id)))

    async def cancel(self, id: str) -> Remote:
        """Ask for its end; one that has ended, or is about to, is told as it is."""
        try:
            return self.remote(await self.wire.post(f"{self.place(id)}/cancel", lost=self._lost(id)))
        except UnknownBatchError:
            raise
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith("cancel"):
                raise
            return remote

    async def listed(self, since: float) -> AsyncIterator[Remote]:
        """Batches created since then; a listing that is not in the order of time is read to its end."""
        last, ordered = float("inf"), True
        async for page in self.pages(self.path):
            for remote in map(self.remote, page):
                ordered, last = ordered and remote.created <= last, remote.created
                if remote.created >= since:
                    yield remote
            if ordered and last < since:
                return

    async def pages(self, path: str, **query: str) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Every page of a listing; OddError where it has no end."""
        passed: set[str] = set()
        while True:
            told = await self.wire.get(path, limit=_PAGE, **query)
            found = entries(told, self.wire.who)
            yield found
            if not found or told.get("has_more") is not True:
                return
            after = id_of(found[-1], self.wire.who)
            if after in passed:
                raise OddError(f"{self.wire.who}: a page of its listing comes again; check --api-base")
            passed.add(after)
            query[self.cursor] = after

    async def begin(self, body: Body) -> Remote:
        """Create a batch; UnclearError where the answer does not tell which, too."""
        told = await self.wire.create(self.path, body)
        try:
            return self.remote(told)
        except OddError as error:
            raise UnclearError(f"{error}; whether there is a batch now is not known") from None

    @abstractmethod
    def remote(self, value: Mapping[str, Any]) -> Remote:
        """A batch as it was told; OddError where it is none."""

    def place(self, id: str) -> str:
        """The path of one batch."""
        return f"{self.path}/{quote(id, safe='')}"

    def _lost(self, id: str) -> str:
        return f"{self.wire.who} knows no batch {id}: was it submitted with another key, or is it deleted?"

    async def __aenter__(self) -> Self:
        """Open the wire."""
        await self.wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close it."""
        await self.wire.__aexit__(kind, error, tb)
