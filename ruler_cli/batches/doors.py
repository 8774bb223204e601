"""The ways to providers, each opened once: by a judge's settings, or by what the journal says of a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ruler_cli.batches.choose import provider
from ruler_cli.batches.journal import Batch, Way
from ruler_cli.batches.provider import Provider
from ruler_cli.errors import RefusedError
from ruler_cli.judges.answer_form import MissingKeyError
from ruler_cli.settings import JudgeSettings

Make = Callable[[JudgeSettings], Provider]


class Doors:
    """Open providers; an async context, which closes them."""

    def __init__(self, key_env: str | None = None, make: Make = provider) -> None:
        """`key_env` names the variable of the key, instead of the one that a batch was submitted with."""
        self._key_env, self._make = key_env, make
        self._open: dict[tuple[str, str | None, str | None], Provider] = {}
        self._stack = AsyncExitStack()

    async def of(self, judge: JudgeSettings) -> Provider:
        """The provider of a judge, open; UsageError where there is none, or its key is missing."""
        try:
            made = self._make(judge)
        except MissingKeyError as error:  # no batch is asked of a judge without a model
            raise MissingKeyError(error.name, error.variable, trial=False) from None
        place = (made.name, judge.api_base, judge.api_key_env)
        if place not in self._open:
            self._open[place] = await self._stack.enter_async_context(made)
        return self._open[place]

    async def to(self, batch: Batch) -> Provider:
        """The provider of a batch; RefusedError where it was submitted to another account.

        One whose id is known is asked for with any key of that address: keys are renewed, and a key that
        may not see it is told so. What is to be looked for could be overlooked with another key.
        """
        way = batch.way
        found = await self.of(
            JudgeSettings(way.model, api_base=way.base, api_key_env=self._key_env or way.key_env)
        )
        known = found.account == way.account
        if batch.remote is not None:
            known = found.account.partition(".")[0] == way.account.partition(".")[0]
        if not known:
            raise RefusedError(
                f"batch {batch.tag}: was submitted with another key, or to another address, than those that "
                f"are set now; set them as they were, or give it up with `ruler batch cancel --forget "
                f"{batch.tag}`"
            )
        return found

    async def __aenter__(self) -> Self:
        """Nothing is open yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
        await self._stack.aclose()


def way_of(found: Provider, judge: JudgeSettings) -> Way:
    """How the journal notes the way to a judge's provider."""
    return Way(found.name, judge.model, judge.api_base, judge.api_key_env, found.account)
