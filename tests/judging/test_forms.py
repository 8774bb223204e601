"""Templates without a system role: both messages are sent as one of the user, for the rest of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Picture, Reply, Request
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.judges.raw_server import answer, serving
from tests.values import opened

GROUPS = [group(f"g{at}", 0.1, 0.9) for at in range(30)]


def test_merged_messages(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """A template without a system role gets both messages as one of the user, after one refusal in a run."""
    source = write(tmp_path / "in.jsonl", GROUPS)
    judge = (
        "-m",
        "hosted_vllm/no-system",
        "--api-base",
        server.base,
        "-c",
        "1",
    )
    run = ruler("score", source, "out.jsonl", *judge)
    assert run.returncode == 0, run.stderr
    sent = [row["messages"] for row in server.requests()]
    roles = [[message["role"] for message in messages] for messages in sent]
    assert roles == [["system", "user"], *[["user"]] * 30]
    merged = sent[-1][0]["content"]
    assert merged.index("Answer with one JSON") < merged.rindex(
        "<trajectory id"
    )
    server.reset()
    assert ruler("score", source, "again.jsonl", *judge).returncode == 0
    assert not server.requests()  # the ledger knows no merged messages


SYSTEM = (
    (400, "System role not supported"),
    (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    (400, "Only user and assistant roles are supported!"),
    (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    (400, "This model doesn't support system messages. Try again without a system message."),
    (400, 'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter'),
    (422, "Template error: syntax error: System role not supported (in <string>:1)"),
    (422, "body.messages.0.role: Input should be 'user' or 'assistant'"),
    (500, "While executing CallExpression at line 1, column 2: Error: Jinja Exception: System role not supported"),
    (500, "invalid operation: Conversation roles must alternate user/assistant/... (in chat_template:1)"),
    (400, "'system' is not one of ['user', 'assistant'] - 'messages.0.role'"),
)  # fmt: skip


@pytest.mark.anyio
async def test_wordings() -> None:
    """Each engine's words for a template without a system role are read, and those of other refusals are not."""
    picture = Picture("d", b"x", media="image/png")
    request = Request("Grade.", "see it", ("abcd",), pictures=((4, picture),))
    good = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
    for status, message in (
        *SYSTEM,
        (400, "temperature is not supported, see the system card"),
    ):
        error = json.dumps({"error": {"message": message}}).encode()

        def serve(
            sent: bytes, status: int = status, error: bytes = error
        ) -> bytes:
            refused = b'"role":"system"' in sent
            return answer(status, error) if refused else answer(200, good)

        async with serving(serve) as server:
            settings = JudgeSettings("mine", server.base)
            async with opened(resolve(settings)) as judge:
                reply = await judge.ask(request)
        taken = isinstance(reply, Reply)
        assert taken == ("card" not in message), message
        if taken:
            (only,) = json.loads(server.requests[-1])["messages"]
            texts = [part.get("text") for part in only["content"]]
            assert texts == ["Grade.\n\n", "see ", None, "it"]
