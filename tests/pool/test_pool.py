"""Settings become the parts of a pool, and the machine's limits are raised, never lowered."""

from __future__ import annotations

import resource

import pytest

from ruler_cli.judges.providers import Price
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.judging.panel import open_caller
from ruler_cli.ledger.database import open_files
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.retries import Caller
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from ruler_cli.types import Request
from tests.virtual import World, virtually

PRICE = Price(1e-6, 10e-6, 0.5e-6)
ASKED = Request("s" * 1000, "u" * 2800, ("a", "b"))


def made(
    settings: PoolSettings,
    judge: JudgeSettings | None = None,
    price: Price | None = PRICE,
    embedded: bool = False,
) -> Caller:
    """A pool that gets no request."""

    async def main() -> Caller:
        chosen = ResolvedJudge(World(), price, None, embedded)
        return open_caller(
            chosen, judge or JudgeSettings(), settings, StopSignal()
        )

    return virtually(main)


def test_start() -> None:
    """An engine that queues is asked with 64 calls at first, any other judge with 8."""
    names = (
        "hosted_vllm/m",
        "vllm/m",
        "sglang/m",
        "ollama/m",
        "lm_studio/m",
        "m",
        "openai/vllm",
        "vllm",
    )
    starts = [
        made(PoolSettings(), JudgeSettings(name)).gate.concurrency.limit
        for name in names
    ]
    assert starts == [64, 64, 64, 8, 8, 8, 8, 8]


@pytest.mark.parametrize(
    ("soft", "hard"),
    [(256, 4096), (256, 256), (4096, 4096), (256, -1), (-1, -1)],
)
def test_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int
) -> None:
    """The run asks for all that the system allows; no limit is lowered, neither the soft nor the hard one."""
    infinity = resource.RLIM_INFINITY
    soft, hard = (infinity if n == -1 else n for n in (soft, hard))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(
        resource, "setrlimit", lambda _, limits: asked.append(limits)
    )
    files = open_files()
    for new_soft, new_hard in asked:
        assert soft != infinity
        assert new_soft > soft
        assert new_hard == hard
    assert files >= (soft if soft != infinity else 1024)
    assert files == (asked[0][0] if asked else files)
