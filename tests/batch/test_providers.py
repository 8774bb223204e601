"""The batch APIs: chosen by a judge's name, one creation per batch, listing, fetching, canceling."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import orjson
import pytest

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.runs.batch import providers as http
from ruler_cli.runs.batch.providers import (
    Provider,
    Providers,
    RemoteBatch,
    UnclearError,
    open_session,
)
from ruler_cli.settings.models import JudgeSettings
from tests.batch.apis import APIS, KEY, TAG, api, requests, submit, to_list
from tests.batch.raw import Call, serving
from tests.judge_server import BatchServer

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("name", APIS)


async def results(made: Provider, remote: RemoteBatch) -> list[bytes]:
    """Download the results of a batch, and return their lines."""
    with TemporaryFile() as file:
        return [*await made.results(remote, file)]


async def _of(name: str, **settings: Any) -> Provider:
    async with open_session() as session:
        return Providers(session).for_judge(JudgeSettings(name, **settings))


async def test_openai_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's models are reached at OpenAI, or at the address of its variable, with its key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x\n")
    client = await _of("openai/o3")
    assert (client.base, client.name) == (
        "https://api.openai.com/v1",
        "the batch API at api.openai.com",
    )
    assert client.headers == {"Authorization": "Bearer sk-x"}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1/")
    client = await _of("openai/o3")
    assert (client.base, client.key) == ("http://h/v1", "sk-x")


async def test_own_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any name with an endpoint is reached there, with a key only if one is named for it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("MINE", "sk-y")
    for name in ("openai/o3", "hosted_vllm/q", "plain", "gemini/x"):
        for variable, key in ((None, None), ("MINE", "sk-y")):
            made = await _of(name, api_base="http://h:1/v1", api_key_env=variable)
            assert (made.form.target, made.key) == ("openai", key)
            assert made.name == "the batch API at h:1"


async def test_anthropic_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's models are reached at Anthropic, or at the address of its variables or the option."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    client = await _of("anthropic/claude")
    assert (client.base, client.name) == (
        "https://api.anthropic.com",
        "the batch API at api.anthropic.com",
    )
    assert client.headers == {"anthropic-version": "2023-06-01", "x-api-key": "sk-ant"}
    for base in (
        "http://h",
        "http://h/",
        "http://h/v1",
        "http://h/v1/",
        "http://h/v1/messages",
    ):
        client = await _of("anthropic/claude", api_base=base)
        assert (client.base, client.key) == ("http://h", None)
        for variable in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
            monkeypatch.setenv(variable, base)
            client = await _of("anthropic/claude")
            assert (client.base, client.key) == ("http://h", "sk-ant")
            monkeypatch.delenv(variable)


async def test_no_batch_api() -> None:
    """A judge without a batch API, key or usable address is refused with the way out, without secrets."""
    render = r"`ruler render` .*`ruler ledger import`"
    cases: list[tuple[str, str | None, str]]
    cases = [
        (name, None, render) for name in ("gemini/x", "hosted_vllm/q", "o3", "offline")
    ]
    cases += [("offline", "http://h", render)]
    cases += [
        (f"{name}/m", None, f"{name.upper()}_API_KEY is not set") for name in APIS
    ]
    bad = ("ftp://h", "h:80/v1", "http://me:secret@h/v1")
    cases += [(f"{name}/m", base, "--api-base") for name in APIS for base in bad]
    for name, base, reason in cases:
        with pytest.raises(UsageError, match=reason) as error:
            await _of(name, api_base=base)
        assert "secret" not in str(error.value)


@both
async def test_listing(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """All pages are listed, newest first, back to the requested time and no further."""
    async with api(name, batch_server) as made:
        for at in range(8):
            batch_server.conduct.clock = 1000.0 + at
            await submit(
                made, requests(tmp_path / "r.jsonl", name, 1, start=at), f"tag-{at}"
            )
        assert [each.created for each in await to_list(made.list_batches(0))] == [
            1007.0 - at for at in range(8)
        ]
        batch_server.steps.clear()
        assert [each.created for each in await to_list(made.list_batches(1006.0))] == [
            1007.0,
            1006.0,
        ]
        assert batch_server.steps == ["list"] * 2  # the second page has none


@both
async def test_unordered_listing(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A listing that is not in the order of time is read to its end, so that no new batch is missed."""
    async with api(name, batch_server) as made:
        for at, when in enumerate(
            (1009.0, 1008.0, 1001.0, 1002.0, 1007.0, 1003.0)
        ):  # listed from last to first
            batch_server.conduct.clock = when
            await submit(made, requests(tmp_path / "r.jsonl", name, 1, start=at))
        result = [each.created for each in await to_list(made.list_batches(1005.0))]
    assert sorted(result) == [1007.0, 1008.0, 1009.0]


@both
async def test_cancel(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A canceled batch ends with its finished answers, and has a row for each other request."""
    batch_server.conduct.pace = "advance"
    async with api(name, batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", name, 4))
        batch_server.fault("cancel", "403")
        with pytest.raises(RefusedError, match="answered 403"):
            await made.cancel(first.id)
        batch_server.advance()
        assert (await made.cancel(first.id)).state == "running"
        assert (
            await made.cancel(first.id)
        ).state == "running"  # a repeated call is harmless
        batch_server.advance()
        remote = await made.cancel(first.id)  # and so is one at the end
        assert (remote.state, remote.succeeded) == ("ended", 2)
        assert len(await results(made, remote)) == 4
    assert batch_server.billed == 2


@both
async def test_unclear(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A creation without a good answer is unclear, handled or not, and is never repeated."""
    handled = dict.fromkeys(
        ("drop-after", "500-after", "hang-after", "half", "html", "huge"), 1
    )
    for kind, created in {**handled, "drop": 0, "500": 0}.items():
        with BatchServer() as server:
            server.fault("create", kind)
            seconds = 0.5 if kind == "hang-after" else 60.0
            monkeypatch.setattr(http, "_UPLOAD_TIMEOUT", seconds)
            async with api(name, server) as made:
                with pytest.raises(UnclearError):
                    await submit(made, requests(tmp_path / "r.jsonl", name, 2))
                tags = [each.tag for each in await to_list(made.list_batches(0))]
        assert (server.created, tags) == (
            created,
            [TAG if made.form.target == "openai" else None] * created,
        )


@both
async def test_refused(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A lasting error is raised at once, in a sentence without the key, and nothing is sent elsewhere."""
    file = requests(tmp_path / "r.jsonl", name, 2)
    async with api(name, batch_server) as made:
        for kind in ("401", "403", "quota", "400", "413", "302", "404"):
            batch_server.fault("create", kind)
            with pytest.raises(RefusedError) as caught:
                await submit(made, file)
            assert str(caught.value).startswith("the batch API at 127.0.0.1:")
            assert KEY not in str(caught.value)
    assert batch_server.created == 0


@both
async def test_retries(name: str, tmp_path: Path) -> None:
    """A query without an answer, or a rate limit at creation, is retried, and its answer is complete."""
    steps = ("list", "retrieve", "results", "cancel")
    cases = [(step, kind) for step in steps for kind in ("429", "500", "drop", "half")]
    cases += [("create", "429")] + (
        [("upload", "drop"), ("upload", "500")] if name == "openai" else []
    )
    for step, kind in cases:
        waits: list[float] = []
        with BatchServer() as server:
            server.fault(step, kind, times=2)
            async with api(name, server, waits) as made:
                first = await submit(made, requests(tmp_path / "r.jsonl", name, 3))
                assert len(await to_list(made.list_batches(0))) == 1
                remote = await made.retrieve(first.id)
                assert len({*await results(made, remote)}) == 3
                assert (await made.cancel(first.id)).state == "ended"
        assert (server.created, server.billed) == (1, 3)
        assert len(waits) in (1, 2), (
            step,
            kind,
        )  # aiohttp itself retries a broken connection


@both
async def test_gives_up(name: str, batch_server: BatchServer, tmp_path: Path) -> None:
    """A provider with lasting server errors, or out of reach, is given up after a few tries."""
    waits: list[float] = []
    with BatchServer() as gone:
        pass
    async with api(name, gone, waits) as made:
        with pytest.raises(RefusedError, match="cannot be reached"):
            await made.create(requests(tmp_path / "r.jsonl", name, 1), "file-1", TAG)
    async with api(name, batch_server, waits) as made:
        batch_server.fault("list", "500", times=100)
        with pytest.raises(RulerError, match=r"answered 500: .*run again later"):
            await to_list(made.list_batches(0))
    assert 6 <= len(waits) <= 20


@both
async def test_malformed_answers(name: str, tmp_path: Path) -> None:
    """A malformed listing is an error, a circular one ends; a creation without an id is unclear."""
    answers: list[Any] = [{"data": {}}, {"data": [{"id": "x"}]}, {"object": "batch"}]
    whole = {
        "id": "x",
        "created_at": 9,
        "status": "ended",
        "processing_status": "ended",
    }
    around = {"data": [whole], "has_more": True}

    async def play(call: Call) -> None:
        await call.body()
        await call.answer(orjson.dumps(answers.pop(0) if answers else around))

    async with serving(play, []) as base:
        server = BatchServer()
        server.openai = server.anthropic = base
        async with api(name, server) as made:
            for _ in range(2):
                with pytest.raises(
                    RulerError, match=r"is not a batch API's; check --api-base"
                ):
                    await to_list(made.list_batches(0))
            with pytest.raises(UnclearError):
                await made.create(
                    requests(tmp_path / "r.jsonl", name, 1), "file-1", TAG
                )
            assert len(await to_list(made.list_batches(0))) == 2


@pytest.mark.parametrize(
    ("name", "state"), [("openai", "status"), ("anthropic", "processing_status")]
)
async def test_malformed_batch(name: str, state: str) -> None:
    """An object without id, state or time is an error, not a batch."""
    whole: dict[str, Any] = {
        "id": "x",
        state: "ended",
        "created_at": "1970-01-01T00:00:10Z",
    }
    odd: list[dict[str, Any]]
    odd = [
        {"id": None},
        {"id": "a b"},
        {"id": ""},
        {state: None},
        {"created_at": "soon"},
    ]
    odd.append({"created_at": None})
    answers = [whole, whole | {"created_at": 10}, *(whole | fields for fields in odd)]

    async def play(call: Call) -> None:
        await call.answer(orjson.dumps(answers.pop(0)))

    async with serving(play, []) as base:
        server = BatchServer()
        server.openai = server.anthropic = base
        async with api(name, server) as made:
            for _ in range(2):
                assert (await made.retrieve("x")).created == 10.0
            for _ in odd:
                with pytest.raises(RulerError, match="is not a batch API's"):
                    await made.retrieve("x")
    assert answers == []


def _batch(**fields: Any) -> RemoteBatch:
    value = {
        "id": "batch_1",
        "object": "batch",
        "status": "in_progress",
        "created_at": 1000,
        **fields,
    }
    return RemoteBatch.model_validate(value)


async def test_openai_files(batch_server: BatchServer, tmp_path: Path) -> None:
    """Answers come first, then the other rows; missing files are reported."""
    file = requests(tmp_path / "r.jsonl", "openai", 6, "some-row-refused")
    async with api("openai", batch_server) as made:
        remote = await made.retrieve((await submit(made, file)).id)
        assert (remote.succeeded, remote.failed) == (4, 2)
        codes = [
            orjson.loads(row)["response"]["status_code"]
            for row in await results(made, remote)
        ]
        assert codes == [200] * 4 + [400] * 2
        batch_server.store.files.clear()
        with pytest.raises(RulerError, match="answered 404"):
            await results(made, remote)


def test_openai_states() -> None:
    """Every state is that of a running batch, except a final one with its files."""
    counts = {"total": 3, "completed": 2, "failed": 1}
    good, bad = {"output_file_id": "o"}, {"error_file_id": "e"}
    running = ("validating", "in_progress", "finalizing", "cancelling", "a_new_word")
    cases: list[tuple[str, dict[str, Any], str]] = [
        (word, {}, "running") for word in running
    ]
    cases += [
        (word, good, "ended")
        for word in ("completed", "COMPLETED", "expired", "cancelled")
    ]
    cases += [("completed", {}, "running"), ("expired", {}, "ended")]
    cases += [("failed", {}, "failed"), ("failed", good, "failed")]
    cases += [
        ("completed", {"request_counts": counts} | files, "running")
        for files in ({}, bad)
    ]
    cases += [("completed", {"request_counts": counts} | good | bad, "ended")]
    cases += [
        ("ended", {"request_counts": counts}, "running")
    ]  # another API's word, without the files
    for word, fields, state in cases:
        assert _batch(status=word, **fields).state == state, (word, fields)


def test_anthropic_states() -> None:
    """A batch of an API without result files ends with any word for it."""
    for word in ("ended", "canceled", "expired", "completed"):
        counts = {"succeeded": 2, "expired": 1}
        fields = {
            "id": "b",
            "created_at": "2026-03-01T12:00:00Z",
            "request_counts": counts,
        }
        value = {**fields, "processing_status": word}
        assert RemoteBatch.model_validate(value).state == "ended"
        value = {**fields, "status": word}
        assert RemoteBatch.model_validate(value).state == "running"


def test_openai_malformed_fields() -> None:
    """A batch is read, and its answers fetched, although optional fields have another type."""
    odd = _batch(
        status="expired", request_counts={"total": None}, metadata=[1], errors=[]
    )
    assert (odd.state, odd.total, odd.succeeded, odd.tag) == ("ended", 0, 0, None)
    counts = {
        "total": 3,
        "completed": 3,
        "failed": None,
    }  # the other counts announce files
    late = _batch(
        status="expired", request_counts=counts, created_at="2026-03-01T12:00:00"
    )
    assert (late.state, late.total, late.succeeded) == ("running", 3, 3)


def test_openai_reasons() -> None:
    """The reason of a failed batch is its first error, as one clean sentence."""
    for errors, reason in (
        (None, "its provider does not say why"),
        ({"data": [{"message": "bad \x1b[2J"}]}, "bad  [2J"),
        ({"data": "x"}, "its provider does not say why"),
        ([], "its provider does not say why"),
    ):
        assert _batch(status="failed", errors=errors).reason == reason


async def test_anthropic_counts(batch_server: BatchServer, tmp_path: Path) -> None:
    """The total is the sum of the counts, from the start; before the end there are no results.

    The key is sent with every request.
    """
    batch_server.conduct.pace = "advance"
    async with api("anthropic", batch_server) as made:
        first = await submit(
            made, requests(tmp_path / "r.jsonl", "anthropic", 6, "some-row-refused")
        )
        assert (first.total, first.succeeded, first.failed) == (6, 0, 0)
        with pytest.raises(RulerError, match="answered 404"):
            await results(made, first)
        batch_server.advance(3)
        last = await made.retrieve(first.id)
        assert (last.total, last.succeeded, last.failed) == (6, 4, 2)
    assert batch_server.keys == {KEY}
