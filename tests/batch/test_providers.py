"""The batch APIs by their SDKs: one creation per batch, listing, fetching, canceling, and errors without the key."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.runs.batch import providers as module
from ruler_cli.runs.batch.providers import Provider, Providers, UnclearError
from ruler_cli.runs.batch.replies import read_row
from ruler_cli.settings.models import JudgeSettings
from tests.batch.apis import APIS, KEY, TAG, api, requests, results, submit
from tests.judge_server import BatchServer
from tests.judges.raw_server import answer, serving

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("name", APIS)


async def _of(name: str, **settings: Any) -> Provider:
    async with Providers() as providers:
        return providers.for_judge(JudgeSettings(name, **settings))


async def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider's key goes to its own address; to another one only a key that is named for it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("MINE", "sk-y")
    cases: list[tuple[str, dict[str, str], str, str | None]] = [
        ("openai/o3", {}, "https://api.openai.com/v1", "sk-x"),
        ("anthropic/claude", {}, "https://api.anthropic.com", "sk-ant"),
        ("plain", {"api_base": "http://h:1/v1"}, "http://h:1/v1", None),
        ("gemini/x", {"api_base": "http://h:1/v1"}, "http://h:1/v1", None),
        ("openai/o3", {"api_base": "http://h", "api_key_env": "MINE"}, "http://h", "sk-y"),
        ("anthropic/c", {"api_base": "http://h/v1/messages"}, "http://h", None),
    ]  # fmt: skip
    for name, settings, base, key in cases:
        provider = await _of(name, **settings)
        assert (provider.base, provider.key) == (base, key), name
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1/")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://h/v1")
    assert (await _of("openai/o3")).base == "http://h/v1"
    assert (await _of("anthropic/claude")).base == "http://h"


async def test_no_batch_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge without a batch API, key, SDK or usable address is refused with the way out, without secrets."""
    files = r"`ruler batch export` .*`ruler batch import`"
    names = ("gemini/x", "o3", "offline")
    cases: list[tuple[str, str | None, str]] = [
        (name, None, files) for name in names
    ]
    for name in APIS:
        cases.append((f"{name}/m", None, f"{name.upper()}_API_KEY is not set"))
        for base in ("ftp://h", "h:80/v1", "http://me:secret@h/v1"):
            cases.append((f"{name}/m", base, "--api-base"))
    for name, address, reason in cases:
        with pytest.raises(UsageError, match=reason) as error:
            await _of(name, api_base=address)
        assert "secret" not in str(error.value)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(
        UsageError, match=r"pip install 'ruler-cli\[anthropic\]'"
    ):
        await _of("anthropic/m", api_base="http://h")


@both
async def test_no_foreign_headers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No header of another variable goes to an endpoint, in any spelling, and without a key none."""
    key = "X-Api-Key" if name == "anthropic" else "authorization"
    for sdk in ("ANTHROPIC", "OPENAI"):
        given = f"Cookie: another\n{key}: another"
        monkeypatch.setenv(f"{sdk}_CUSTOM_HEADERS", given)
        for end in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "AUTH_TOKEN"):
            monkeypatch.setenv(f"{sdk}_{end}", "another")
    async with serving(answer(401, b"{}")) as server, Providers() as providers:
        for own in (None, KEY):
            judge = JudgeSettings(
                f"{name}/m", api_base=server.base, api_key=own
            )
            provider = providers.for_judge(judge)
            with pytest.raises(RefusedError):
                await provider.create(TAG, requests(name, 1), "f")
    bare, keyed = server.heads
    assert b"another" not in bare + keyed
    assert (bare.count(KEY.encode()), keyed.count(KEY.encode())) == (0, 1)


@both
async def test_listing(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """All pages are listed back to the requested time, in any order of time."""
    times = (1009.0, 1008.0, 1001.0, 1002.0, 1007.0, 1003.0)
    async with api(name, batch_server) as provider:
        for number, created in enumerate(times):
            batch_server.conduct.clock = created
            file = requests(name, 1, start=number)
            await submit(provider, file, f"tag-{number}")
        batches = await provider.list_batches(0)
        assert [batch.created for batch in batches] == [*times[::-1]]
        batches = await provider.list_batches(1005.0)
        assert [batch.created for batch in batches] == [1007.0, 1008.0, 1009.0]


@both
async def test_states(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A batch runs until its results are there; it is canceled once, and its finished answers are kept."""
    batch_server.conduct.pace = "advance"
    file = requests(name, 4)
    async with api(name, batch_server) as provider:
        first = await submit(provider, file)
        assert first.state == "running"
        batch_server.fault("cancel", "403")
        with pytest.raises(RefusedError, match="answered 403"):
            await provider.cancel(first.id)
        batch_server.advance()
        for _ in range(2):  # a repeated call is harmless
            assert (await provider.cancel(first.id)).state == "running"
        batch_server.advance()
        remote = await provider.cancel(first.id)  # and so is one at the end
        assert (remote.state, remote.succeeded, remote.total) == ("ended", 2, 4)
        rows = [read_row(line) for line in await results(provider, remote)]
        assert len(rows) == 4
    assert batch_server.billed == 2


async def test_odd_fields(batch_server: BatchServer) -> None:
    """A batch of a gateway is read although fields are missing or of another type; without files it runs."""
    good = {"output_file_id": "o", "error_file_id": "e"}
    counts = SimpleNamespace(total=3, completed=2, failed=1)
    empty = SimpleNamespace(total=None, completed="2", failed=None)
    failed = SimpleNamespace(data=[SimpleNamespace(message="bad \x1b[2J")])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"status": "a_new_word"}, "running"),
        ({"status": "COMPLETED", **good}, "ended"),
        ({"status": "completed"}, "running"),
        ({"status": "completed", "request_counts": counts}, "running"),
        (
            {"status": "expired", "request_counts": empty, **good},
            "ended",
        ),
        ({"status": "failed", "errors": failed}, "failed"),
    ]
    fields = "request_counts output_file_id error_file_id metadata errors input_file_id"
    async with api("openai", batch_server) as provider:
        for values, state in cases:
            given = {
                **dict.fromkeys(fields.split()),
                "id": "b",
                "created_at": 1,
            }
            remote = provider._read(SimpleNamespace(**given | values))
            assert remote.state == state, values
            assert remote.reason == ("bad  [2J" if state == "failed" else "")


@both
async def test_unclear(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A creation without a good answer is unclear, handled or not, and is never repeated."""
    handled = dict.fromkeys(("drop-after", "500-after", "hang-after", "half", "html"), 1)  # fmt: skip
    for kind, created in {**handled, "drop": 0, "500": 0}.items():
        with BatchServer() as server:
            server.fault("create", kind)
            seconds = 0.5 if kind == "hang-after" else 60.0
            monkeypatch.setattr(module, "_DEADLINE", seconds)
            async with api(name, server) as provider:
                with pytest.raises(UnclearError):
                    await submit(provider, requests(name, 2))
                there = await provider.list_batches(0)
        assert (server.created, len(there)) == (created, created), kind
    overloaded = answer(503, b'{"error":{"message":"overloaded"}}')
    async with serving(overloaded) as busy, Providers() as providers:
        judge = JudgeSettings(f"{name}/m", api_base=busy.base, api_key=KEY)
        with pytest.raises(UnclearError):
            await providers.for_judge(judge).create(TAG, requests(name, 1), "f")


@both
async def test_refused(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A lasting error is raised at once, in a sentence without the key, and nothing is sent elsewhere."""
    file = requests(name, 2)
    async with api(name, batch_server) as provider:
        for kind in ("401", "403", "quota", "400", "413", "302", "404"):
            batch_server.fault("create", kind)
            with pytest.raises(RefusedError) as caught:
                await submit(provider, file)
            assert str(caught.value).startswith("the batch API at 127.0.0.1:")
            assert KEY not in str(caught.value)
    assert batch_server.created == 0


@both
async def test_retries(name: str, tmp_path: Path) -> None:
    """A query without an answer is retried by the SDK, and its answer is complete."""
    steps = ("list", "retrieve", "results", "cancel")
    cases = [
        (step, kind)
        for step in steps
        for kind in ("429", "500", "drop", "half")
    ]
    if name == "openai":
        cases += [("upload", "drop"), ("upload", "500")]
    for step, kind in cases:
        with BatchServer() as server:
            server.fault(step, kind, times=2)
            async with api(name, server) as provider:
                file = requests(name, 3)
                first = await submit(provider, file)
                assert len(await provider.list_batches(0)) == 1
                remote = await provider.retrieve(first.id)
                assert len({*await results(provider, remote)}) == 3
                assert (await provider.cancel(first.id)).state == "ended"
        assert (server.created, server.billed) == (1, 3)


@both
async def test_gives_up(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """A provider with lasting server errors, or out of reach, is given up after a few tries."""
    with BatchServer() as gone:
        pass
    async with api(name, gone) as provider:
        with pytest.raises(RefusedError, match="cannot be reached"):
            await provider.create(TAG, requests(name, 1), "f")
    async with api(name, batch_server) as provider:
        batch_server.fault("list", "500", times=100)
        with pytest.raises(
            RulerError, match=r"answered 500: .*run again later"
        ):
            await provider.list_batches(0)
        batch_server.step_errors.clear()
        batch_server.fault("list", "html")
        with pytest.raises(UnclearError, match="not that of a batch API"):
            await provider.list_batches(0)


@both
async def test_hostile_rows(
    name: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    """Results keep no key that they repeat, and a lost file of them is an error."""
    async with api(name, batch_server) as provider:
        file = requests(name, 2)
        remote = await submit(provider, file)
        remote = await provider.retrieve(remote.id)
        for id, data in batch_server.store.files.items():
            if b"custom_id" in data:
                odd = orjson.dumps({"custom_id": KEY}) + b"\r\n\n"
                batch_server.store.files[id] = odd + data
        lines = await results(provider, remote)
        assert KEY.encode() not in b"".join(lines)
        assert len(lines) >= 3
        batch_server.store.files.clear()
        batch_server.store.batches.clear()
        with pytest.raises(RulerError, match="answered 404"):
            await results(provider, remote)
