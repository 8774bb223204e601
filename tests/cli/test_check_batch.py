"""`ruler check --batch`: the price, the time and the number of a provider's batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.estimate.batched import batched
from ruler_cli.estimate.outlay import NEVER, Outlay, Range
from ruler_cli.judges.choose import batch_price
from ruler_cli.judges.prices import Model, Price, in_batches, known
from ruler_cli.judges.targets import LIMITS, batches_of
from ruler_cli.settings import JudgeSettings
from tests.cli.test_check import rows
from tests.conftest import Ruler, group, write


@pytest.fixture
def check(ruler: Ruler, tmp_path: Path) -> Any:
    """`ruler check` of some groups."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(3)])
    return lambda *args: ruler("check", "in.jsonl", "--ledger", "none", *args)


def test_page(check: Any) -> None:
    """Price, number and time stand beside the figures of calls, which stay as they are."""
    plain, told = (rows(check("-m", "openai/o3", *more).stdout) for more in ((), ("--batch",)))
    assert {name: value for name, value in told.items() if name in plain} == plain
    assert set(told) - set(plain) == {"batch cost", "batches", "batch time"}
    assert told["batch cost"].endswith("as its provider lists it")
    assert told["batches"] == "1 (up to 1), of at most 50,000 requests or 200 MB each"
    assert told["batch time"].startswith("up to 24 hours")


def test_half(check: Any) -> None:
    """Of a price that is given, or of a list that says nothing of batches, a batch takes half."""
    found = json.loads(check("-m", "openai/m", "--price", "2,8", "--batch", "--json").stdout)
    whole, (judge,) = found["estimate"]["cost_usd"], found["batch"]["judges"]
    assert judge["price"] == "half"
    assert judge["cost_usd"] == pytest.approx({name: usd / 2 for name, usd in whole.items()})
    assert found["batch"]["hours"] == 24
    assert found["batch"]["cost_usd"] == judge["cost_usd"]


def test_panel(check: Any) -> None:
    """Each judge has its own row; where one has no batch API that is said, and the whole is not known."""
    args = ("-m", "openai/o3", "-m", "anthropic/claude-sonnet-4-5", "-m", "gemini/gemini-2.5-pro", "--batch")
    told = rows(check(*args).stdout)
    assert told["batches 2"].endswith("100,000 requests or 256 MB each")
    assert "ruler render" in told["batch cost 3"]
    found = json.loads(check(*args, "--json").stdout)["batch"]
    assert [judge["provider"] for judge in found["judges"]] == ["openai", "anthropic", None]
    assert found["cost_usd"] is None
    assert "batch" not in json.loads(check("-m", "openai/o3", "--json").stdout)


def test_unknown(check: Any) -> None:
    """Where the price is not known, the cost of batches is not either."""
    assert rows(check("-m", "openai/m", "--batch").stdout)["batch cost"] == "unknown, as the cost is"


@pytest.mark.parametrize(
    ("requests", "tokens", "least"), [(1, 1, 1), (50_000, 1, 1), (50_001, 1, 2), (100, 100e6, 2), (0, 0, 0)]
)
def test_number(requests: float, tokens: float, least: int) -> None:
    """As many batches as the provider's limits of number and of bytes make necessary."""
    calls, prompts = Range(requests, requests, 2 * requests), Range(0.85 * tokens, tokens, 2.7 * tokens)
    outlay = Outlay("openai/m", "panel", Model(), calls, prompts, NEVER, None, None)
    found = batched(outlay, "openai", LIMITS["openai"], None, listed=False)
    assert found.batches is not None
    assert found.batches.low <= found.batches.expected <= found.batches.high
    assert found.batches.expected >= least
    assert found.batches.expected <= max(least, tokens * 5 / 200e6 + 1)


def test_prices() -> None:
    """A listed price of batches is taken as it is; no other price than the list's own is taken from it."""
    listed, usual = in_batches("openai/o3"), known("openai/o3").price
    assert listed is not None
    assert usual is not None
    assert listed.prompt == usual.prompt / 2
    assert in_batches("openai/m") is None
    assert batch_price(JudgeSettings("openai/o3")) == listed
    assert batch_price(JudgeSettings("openai/o3", price=(2.0, 8.0))) == Price(1e-6, 4e-6, 1e-6)
    assert batch_price(JudgeSettings("openai/o3", api_base="http://localhost/v1")) is None


@pytest.mark.parametrize(
    ("model", "base", "whose"),
    [
        ("openai/o3", None, "openai"),
        ("anthropic/claude-sonnet-4-5", None, "anthropic"),
        ("anthropic/claude-sonnet-4-5", "http://localhost", "anthropic"),
        ("hosted_vllm/m", "http://localhost/v1", "openai"),
        ("gemini/gemini-2.5-pro", None, None),
        ("offline", "http://localhost/v1", None),
    ],
)
def test_whose(model: str, base: str | None, whose: str | None) -> None:
    """The provider is known by the judge's name and endpoint, as for `ruler batch submit`."""
    assert batches_of(JudgeSettings(model, api_base=base)) == whose
