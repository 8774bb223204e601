"""A provider against the loopback server, and files of requests for it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

from ruler_cli.runs.batch.providers import (
    Provider,
    Providers,
    RemoteBatch,
)
from ruler_cli.settings.models import JudgeSettings
from tests.judge_server import BatchServer

KEY = "sk-0123456789abcdef"
TAG = "tag-1"
APIS = ("openai", "anthropic")


@asynccontextmanager
async def api(name: str, server: BatchServer) -> AsyncIterator[Provider]:
    """The provider of that name, whose SDK does not wait before it tries again."""
    async with Providers() as providers:
        base = getattr(server, name)
        judge = JudgeSettings(f"{name}/m", api_base=base, api_key=KEY)
        yield at_once(providers.for_judge(judge))


def at_once(provider: Provider) -> Provider:
    """Have the SDK of a provider try again at once."""
    provider.client._calculate_retry_timeout = lambda *_: 0.0
    return provider


def request(
    name: str, at: int, model: str = "m", text: str = ""
) -> dict[str, Any]:
    """One request in the API's format, of two rollouts whose true scores follow from `at`."""
    rollouts = "".join(
        f'<trajectory id="{label}">\n{text} {at} truth={truth}\n</trajectory>\n'
        for label, truth in (("a", 0.25), ("b", (at % 5) / 4))
    )
    user = {
        "role": "user",
        "content": f'{rollouts}\ntrajectory_ids to score: ["a","b"]',
    }
    if name == "anthropic":
        params = {
            "model": model,
            "max_tokens": 100,
            "system": "Judge.",
            "messages": [user],
        }
        return {"custom_id": f"{at:032x}", "params": params}
    body = {
        "model": model,
        "messages": [{"role": "system", "content": "Judge."}, user],
    }
    return {
        "custom_id": f"{at:032x}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    }


def requests(
    name: str,
    count: int,
    model: str = "m",
    start: int = 0,
) -> BinaryIO:
    """Return a file of requests."""
    lines = [
        json.dumps(request(name, start + i, model)).encode() + b"\n"
        for i in range(count)
    ]
    return io.BytesIO(b"".join(lines))


async def submit(
    provider: Provider, file: BinaryIO, tag: str = TAG
) -> RemoteBatch:
    """Upload and create."""
    return await provider.create(tag, file, await provider.upload(tag, file))


async def results(provider: Provider, remote: RemoteBatch) -> list[bytes]:
    """Download the results of a batch, and return their lines."""
    return [*await provider.results(remote)]
