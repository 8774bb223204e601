"""Judge behind an OpenAI-compatible endpoint: one POST for each call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ruler_cli.judges.chat_completions import AnswerFormat, ChatJudge, chat_body
from ruler_cli.judges.http_client import HttpClient
from ruler_cli.judges.provider_errors import ErrorResponse
from ruler_cli.types import CallError, Reply, Request


@dataclass(slots=True)
class HttpJudge(ChatJudge):
    """A judge behind `{base}/chat/completions`, with further `headers` and a `query` in each call."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)
    _client: HttpClient = field(init=False, repr=False)

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        body = chat_body(self.model, self.params, request, how)
        path = "responses" if how.responses else "chat/completions"
        return await self._client.post(path, body)

    async def __aenter__(self) -> Self:
        """Open the session."""
        self._client = HttpClient(
            self.base or "",
            self.key,
            self.timeout,
            self.headers,
            self.query,
            self.secrets,
        )
        self.secret = self._client.secret
        await self._client.open()
        self.who = self._client.who
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()
