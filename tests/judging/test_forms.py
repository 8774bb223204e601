"""Forms of an answer, and of a request, that an endpoint cannot do: the next one is found, and kept for the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Picture, Reply, Request
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.judges.raw_server import answer, serving
from tests.values import opened

GROUPS = [group(f"g{at}", 0.1, 0.9) for at in range(30)]


def scores(path: Path) -> list[list[float | None]]:
    """Return the scores of each record of OUTPUT."""
    return [
        [entry["reward"] for entry in row["trajectories"]] for row in read(path)
    ]


@pytest.mark.parametrize("groups", [1, 2, 30])
@pytest.mark.parametrize(
    ("cue", "asked"),
    [
        ("schema-null", "json_object"),
        ("format-braces", "none"),
    ],
)
def test_next_form(
    cue: str,
    asked: str,
    groups: int,
    ruler: Ruler,
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    """A form that never brings a usable reply is given up, no group fails by it, and the ledger has the answers."""
    source = write(tmp_path / "in.jsonl", GROUPS[:groups])
    judge = ("-m", f"hosted_vllm/{cue}", "--api-base", server.base)
    few = ("--set", "retries=0", "-c", "8")
    for _ in range(2):
        run = ruler("score", source, "out.jsonl", *judge, *few)
        assert run.returncode == 0, run.stderr
        assert scores(tmp_path / "out.jsonl") == [[0.1, 0.9]] * groups
    forms = server.stats()["by_format"]
    assert forms[asked] >= groups  # and the second run asked nothing
    assert sum(forms.values()) - forms[asked] <= 60


def test_no_form_helps(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """If no form brings a usable reply the group fails, the first form is kept, and the calls are bounded."""
    source = write(tmp_path / "in.jsonl", GROUPS[:1])
    judge = ("-m", "hosted_vllm/not-json", "--api-base", server.base)
    run = ruler("score", source, "out.jsonl", *judge)
    assert run.returncode == 1
    assert "could not be used 4 times" in run.stderr
    forms = server.stats()["by_format"]
    assert (forms["json_object"], forms["none"]) == (1, 1)
    assert sum(forms.values()) <= 12


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
            assert texts == ["Grade.\n\nsee ", None, "it"]


@pytest.mark.anyio
async def test_outage_is_no_form() -> None:
    """An endpoint that is down keeps the form that it is asked for."""
    good = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
    healthy = False

    def serve(_: bytes) -> bytes:
        return (
            answer(200, good)
            if healthy
            else answer(500, b"Internal Server Error")
        )

    request = Request("Grade.", "?", ("abcd",))
    async with (
        serving(serve) as server,
        opened(resolve(JudgeSettings("mine", server.base))) as judge,
    ):
        for _ in range(12):
            assert isinstance(await judge.ask(request), CallError)
        assert len(server.requests) == 12
        healthy = True
        await judge.ask(request)
    assert (
        json.loads(server.requests[-1])["response_format"]["type"]
        == "json_schema"
    )
