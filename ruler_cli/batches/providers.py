"""The provider of a judge, or of a batch on record: its API, address and key."""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from ruler_cli.batches.apis import Anthropic, OpenAI, Provider
from ruler_cli.batches.journal import Batch
from ruler_cli.batches.wire import Wire, connections
from ruler_cli.errors import RefusedError, UsageError
from ruler_cli.judges.answer_form import EMBEDDED, MissingKeyError
from ruler_cli.judges.endpoint import check_address, direct, key_for
from ruler_cli.settings import JudgeSettings


class Providers:
    """The providers of one command, by a judge's settings or by a batch on record; an async context."""

    def __init__(self, key_env: str | None = None) -> None:
        """`key_env` names the variable of the key, instead of the one that a batch was submitted with."""
        self._key_env = key_env

    def of(self, judge: JudgeSettings) -> Provider:
        """Anthropic for `anthropic/…`, OpenAI for `openai/…` and for anything behind --api-base.

        UsageError if the judge has no batch API, or its key is missing.
        """
        family = judge.model.partition("/")[0]
        try:
            if family == "anthropic":
                return self._anthropic(judge)
            if judge.model not in EMBEDDED and (family == "openai" or judge.api_base):
                there = direct(judge)
                headers = {"Authorization": f"Bearer {there.key}"} if there.key else {}
                return OpenAI(self._wire("OpenAI", there.base, headers, there.key, judge))
        except MissingKeyError as error:  # a judge without a model is no way out here
            raise MissingKeyError(error.name, error.variable, trial=False) from None
        if bare := re.match(r"(claude-)|gpt-|o[134]", judge.model):
            meant = f"{'anthropic' if bare[1] else 'openai'}/{judge.model}"
            raise UsageError(
                f"judge {judge.model}: batches go by the provider, which stands before the name; did you "
                f"mean -m {meant}?"
            )
        raise UsageError(
            f"judge {judge.model}: only openai/… and anthropic/… are asked in batches, and endpoints with a "
            "batch API like OpenAI's, with --api-base URL; for any other way to ask, write the requests with "
            "`ruler render` and take the answers in with `ruler ledger import`"
        )

    def to(self, batch: Batch) -> Provider:
        """The provider of a batch; RefusedError if it was submitted to another account.

        If its id is known, any key of that address will do: keys are renewed, and a key that may not see
        the batch is told so. To look for a batch with another key could overlook it.
        """
        key_env = self._key_env or batch.key_env
        found = self.of(JudgeSettings(batch.model, api_base=batch.base, api_key_env=key_env))
        known, mine = batch.account, found.wire.account
        if batch.remote is not None:
            known, mine = known.partition(".")[0], mine.partition(".")[0]
        if known != mine:
            raise RefusedError(
                f"batch {batch.tag}: was submitted with another key, or to another address, than those that "
                f"are set now; set them as they were, or give it up with `ruler batch cancel --forget "
                f"{batch.tag}`"
            )
        return found

    def _anthropic(self, judge: JudgeSettings) -> Provider:
        given = judge.api_base or os.environ.get("ANTHROPIC_BASE_URL")
        given = given or os.environ.get("ANTHROPIC_API_BASE") or "https://api.anthropic.com"
        check_address(given)
        base = given.rstrip("/").removesuffix("/messages").removesuffix("/v1").rstrip("/")
        key = key_for(judge, "ANTHROPIC_API_KEY")
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})
        return Anthropic(self._wire("Anthropic", base, headers, key, judge))

    def _wire(
        self, name: str, base: str, headers: dict[str, str], key: str | None, judge: JudgeSettings
    ) -> Wire:
        host = urlsplit(base).netloc
        who = f"{name}'s batch API" if host == f"api.{name.lower()}.com" else f"the batch API at {host}"
        return Wire(self._session, who, base, headers, key, judge.timeout)

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._session = connections()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
        await self._session.close()
