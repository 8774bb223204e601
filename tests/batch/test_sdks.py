"""The batch server of the tests, driven by the providers' own SDKs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.runs.batch.replies import ReplyRow, read_row
from ruler_cli.types import Reply
from tests.batch.apis import KEY, request, requests
from tests.judge_server import BatchServer


def test_openai(batch_server: BatchServer, tmp_path: Path) -> None:
    """OpenAI's SDK reads files, batches, answers and refusals."""
    from openai import (
        ConflictError,
        OpenAI,
    )  # each SDK takes a second, so only where it is needed
    from openai.types.chat import ChatCompletion

    with OpenAI(
        base_url=batch_server.openai,
        api_key=KEY,
        max_retries=0,
        _strict_response_validation=True,
    ) as openai:
        file = requests(tmp_path / "r.jsonl", "openai", 4, "some-row-error")
        sent = openai.files.create(file=file, purpose="batch")
        batch_server.conduct.pace = "retrieve"
        batch = openai.batches.create(
            input_file_id=sent.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"ruler": "tag"},
        )
        states = [
            batch.status,
            *(openai.batches.retrieve(batch.id).status for _ in range(3)),
        ]
        assert states == ["validating", "in_progress", "finalizing", "completed"]
        done = openai.batches.retrieve(batch.id)
        assert (done.metadata, done.errors) == ({"ruler": "tag"}, None)
        assert done.request_counts is not None
        counts = (
            done.request_counts.total,
            done.request_counts.completed,
            done.request_counts.failed,
        )
        assert counts == (4, 2, 2)
        for id, number in ((done.output_file_id, 2), (done.error_file_id, 2)):
            assert id is not None
            rows = [
                json.loads(line)
                for line in openai.files.content(id).read().splitlines()
            ]
            assert len(rows) == number
            for row in rows if id == done.output_file_id else ():
                ChatCompletion.model_validate(row["response"]["body"], strict=True)
        with pytest.raises(
            ConflictError, match="Cannot cancel a batch with status 'completed'"
        ):
            openai.batches.cancel(done.id)


def test_anthropic(batch_server: BatchServer) -> None:
    """Anthropic's SDK writes and reads a batch, its states, failed rows and answers."""
    from anthropic import Anthropic
    from anthropic.types import TextBlock
    from anthropic.types.messages.batch_create_params import Request

    with Anthropic(
        base_url=batch_server.anthropic,
        api_key=KEY,
        max_retries=0,
        _strict_response_validation=True,
    ) as anthropic:
        asked = [request("anthropic", at, "some-row-error") for at in range(4)]
        batch_server.conduct.pace = "retrieve"
        batch = anthropic.messages.batches.create(
            requests=[
                Request(custom_id=each["custom_id"], params=each["params"])
                for each in asked
            ]
        )
        assert (batch.processing_status, batch.request_counts.processing) == (
            "in_progress",
            4,
        )
        for _ in range(3):
            batch = anthropic.messages.batches.retrieve(batch.id)
        assert (batch.processing_status, batch.request_counts.succeeded) == ("ended", 2)
        for row in anthropic.messages.batches.results(batch.id):
            result = read_row(row.to_json(indent=None).encode())
            assert isinstance(result, ReplyRow)
            if row.result.type == "succeeded":
                assert isinstance(row.result.message.content[0], TextBlock)
                assert isinstance(result.answer, Reply)
            else:
                assert row.result.type == "errored"
                assert row.result.error.error.message
