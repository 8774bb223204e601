"""Judge behind an OpenAI-compatible endpoint: one POST for each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from ruler_cli.judges.chat_completions import AnswerFormat, ChatJudge, chat_body
from ruler_cli.judges.http_client import HttpClient
from ruler_cli.judges.provider_errors import ErrorResponse
from ruler_cli.types import CallError, Reply, Request


@dataclass(slots=True)
class HttpJudge(ChatJudge):
    """A judge behind the `/chat/completions` of a client's endpoint."""

    client: HttpClient = field(kw_only=True)

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        body = chat_body(self.model, self.params, request, how)
        return await self.client.post("chat/completions", body)

    async def __aenter__(self) -> Self:
        """Open the connections."""
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.__aexit__()
