"""The batch server of these tests, driven by the providers' own SDKs: they read all that it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from anthropic import Anthropic, AuthenticationError, BadRequestError, NotFoundError
from anthropic.types import TextBlock
from anthropic.types.messages import MessageBatch
from anthropic.types.messages.batch_create_params import Request
from openai import AuthenticationError as WrongKeyError
from openai import ConflictError, OpenAI
from openai import NotFoundError as NoBatchError
from openai.types import Batch
from openai.types.chat import ChatCompletion

from ruler_cli.judges.rows import Row, read_row
from ruler_cli.records import Reply
from tests.batch_server import BatchServer
from tests.batches.apis import KEY, request, requests


@pytest.fixture
def openai(batch_server: BatchServer) -> Iterator[OpenAI]:
    """OpenAI's SDK, which checks every answer against its types."""
    with OpenAI(
        base_url=batch_server.openai, api_key=KEY, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture
def anthropic(batch_server: BatchServer) -> Iterator[Anthropic]:
    """Anthropic's SDK, which checks every answer against its types."""
    with Anthropic(
        base_url=batch_server.anthropic, api_key=KEY, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def _submit(openai: OpenAI, path: Path, count: int, model: str = "m") -> Batch:
    file = openai.files.create(file=requests(path / "r.jsonl", "openai", count, model), purpose="batch")
    assert (file.object, file.status, file.bytes) == ("file", "processed", (path / "r.jsonl").stat().st_size)
    return openai.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"ruler": "tag"},
    )


def _create(anthropic: Anthropic, count: int, model: str = "m") -> MessageBatch:
    asked = [request("anthropic", at, model) for at in range(count)]
    return anthropic.messages.batches.create(
        requests=[Request(custom_id=each["custom_id"], params=each["params"]) for each in asked]
    )


def _read(openai: OpenAI, file: str | None) -> list[bytes]:
    assert file is not None
    return openai.files.content(file).read().splitlines()


def test_openai_to_the_end(openai: OpenAI, batch_server: BatchServer, tmp_path: Path) -> None:
    """A file, a batch, its states and its answers, as OpenAI's SDK reads them."""
    batch_server.conduct.pace = "retrieve"
    batch = _submit(openai, tmp_path, 4)
    states = [batch.status, *(openai.batches.retrieve(batch.id).status for _ in range(3))]
    assert states == ["validating", "in_progress", "finalizing", "completed"]
    done = openai.batches.retrieve(batch.id)
    assert (done.metadata, done.errors, done.error_file_id) == ({"ruler": "tag"}, None, None)
    assert done.completed_at is not None
    assert done.request_counts is not None
    assert (done.request_counts.total, done.request_counts.completed) == (4, 4)
    rows = [json.loads(line) for line in _read(openai, done.output_file_id)]
    for row in rows:
        chat = ChatCompletion.model_validate(row["response"]["body"], strict=True)
        assert chat.choices[0].message.content
    assert {row["custom_id"] for row in rows} == {f"{at:032x}" for at in range(4)}


def test_openai_failures(openai: OpenAI, batch_server: BatchServer, tmp_path: Path) -> None:
    """Rows that failed, batches that are no batch, and refusals come as what OpenAI's SDK has for them."""
    done = openai.batches.retrieve(_submit(openai, tmp_path, 3, "some-row-error").id)
    assert done.request_counts is not None
    assert (done.request_counts.completed, done.request_counts.failed) == (2, 1)
    assert len(_read(openai, done.error_file_id)) == 1
    with pytest.raises(ConflictError, match="Cannot cancel a batch with status 'completed'"):
        openai.batches.cancel(done.id)
    with pytest.raises(NoBatchError, match="No such batch"):
        openai.batches.retrieve("batch_9999")
    batch_server.conduct.fails = True
    failed = openai.batches.retrieve(_submit(openai, tmp_path, 1).id)
    assert (failed.status, failed.failed_at is not None) == ("failed", True)
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert failed.errors.data[0].message == "The batch is not valid, said the test."
    batch_server.conduct.key = "another"
    with pytest.raises(WrongKeyError, match="Incorrect API key"):
        openai.batches.retrieve(done.id)


def test_anthropic_to_the_end(anthropic: Anthropic, batch_server: BatchServer) -> None:
    """A batch, its states and its answers, as Anthropic's SDK reads them."""
    batch_server.conduct.pace = "retrieve"
    batch = _create(anthropic, 4)
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 4)
    for _ in range(3):
        batch = anthropic.messages.batches.retrieve(batch.id)
    assert (batch.processing_status, batch.request_counts.succeeded) == ("ended", 4)
    assert batch.ended_at is not None
    assert batch.expires_at > batch.created_at
    seen = {}
    for row in anthropic.messages.batches.results(batch.id):
        assert row.result.type == "succeeded"
        (block,) = row.result.message.content
        assert isinstance(block, TextBlock)
        seen[row.custom_id] = block.text
    assert set(seen) == {f"{at:032x}" for at in range(4)}
    assert all(seen.values())


@pytest.mark.parametrize("kind", ["error", "expired", "canceled"])
def test_anthropic_failed_rows(anthropic: Anthropic, kind: str) -> None:
    """Rows that failed come as what Anthropic's SDK has for them, and are counted."""
    batch = anthropic.messages.batches.retrieve(_create(anthropic, 4, f"some-row-{kind}").id)
    results = [row.result for row in anthropic.messages.batches.results(batch.id)]
    word = kind if kind in ("expired", "canceled") else "errored"
    assert sorted(each.type for each in results) == sorted(["succeeded"] * 2 + [word] * 2)
    assert getattr(batch.request_counts, word) == 2
    for each in results:
        if each.type == "errored":
            assert each.error.error.message


def test_anthropic_cancel(anthropic: Anthropic, batch_server: BatchServer) -> None:
    """A canceled batch says so to Anthropic's SDK until it has ended, and then what was not done."""
    batch_server.conduct.pace = "advance"
    batch = _create(anthropic, 4)
    with pytest.raises(NotFoundError, match="in progress"):
        anthropic.get(f"/v1/messages/batches/{batch.id}/results", cast_to=object)
    batch_server.advance()
    canceling = anthropic.messages.batches.cancel(batch.id)
    assert (canceling.processing_status, canceling.cancel_initiated_at is not None) == ("canceling", True)
    batch_server.advance()
    done = anthropic.messages.batches.retrieve(batch.id)
    assert (done.processing_status, done.request_counts.canceled) == ("ended", 2)
    with pytest.raises(BadRequestError, match="has ended"):
        anthropic.messages.batches.cancel(batch.id)
    batch_server.conduct.key = "another"
    with pytest.raises(AuthenticationError, match="Incorrect API key"):
        anthropic.messages.batches.retrieve(batch.id)


def test_rows_that_the_sdk_writes_back(anthropic: Anthropic) -> None:
    """A row of results that Anthropic's SDK was given, and wrote as JSON, is read like the provider's."""
    batch = _create(anthropic, 1)
    (row,) = anthropic.messages.batches.results(batch.id)
    found = read_row(row.to_json(indent=None).encode())
    assert isinstance(found, Row)
    assert isinstance(found.answer, Reply)
    assert found.answer.text
