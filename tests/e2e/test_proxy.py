"""The command against a real litellm proxy in front of the judge server of the tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler, group, read, write
from tests.e2e.proxy import MASTER_KEY, Proxy, deployment, interpreter
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.skipif(
    interpreter() is None, reason="litellm[proxy] is not installed"
)

TRUTHS = (0.2, 0.5, 0.9)
KEY = {"GATEWAY_KEY": MASTER_KEY}


@pytest.fixture(scope="module")
def backend() -> Iterator[JudgeServer]:
    """The judge server behind the proxy, with its own counters."""
    with JudgeServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    backend: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    """The proxy; it retries nothing by itself, so that every retry is ruler's."""
    base, cost = (
        backend.base,
        {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
    )
    models = [
        deployment("a", "judge-a", base),
        deployment("b", "judge-b", base),
        deployment("narrow", "judge-a", base, max_parallel_requests=2),
        # two deployments that refuse the first call for each group, and rest for a second then
        deployment("busy", "once-429-bare", base),
        deployment("busy", "of/once-429-bare", base),
        deployment(
            "spent",
            "judge-a",
            base,
            max_budget=0.001,
            budget_duration="1d",
            **cost,
        ),
        deployment("textual", "format-refused", base),
    ]
    router = {"num_retries": 0, "cooldown_time": 1}
    with Proxy(tmp_path_factory.mktemp("proxy"), models, router) as proxy:
        yield proxy


@pytest.fixture
def asked(backend: JudgeServer) -> JudgeServer:
    """The backend with its counters at zero."""
    backend.reset()
    return backend


def rollouts(folder: Path, groups: int) -> Path:
    """An input of groups with known scores."""
    return write(
        folder / "in.jsonl", [group(f"g{at}", *TRUTHS) for at in range(groups)]
    )


def scores(folder: Path) -> list[list[float]]:
    """The scores of each group in the output."""
    return [
        [rollout["reward"] for rollout in line["trajectories"]]
        for line in read(folder / "out.jsonl")
    ]


def summary(folder: Path) -> Any:
    """The summary of a run."""
    return json.loads((folder / "summary.json").read_bytes())


def through(gateway: Proxy, *models: str, base: str = "") -> list[str]:
    """The options of a run with models of the proxy."""
    named = [
        part for model in models for part in ("-m", f"litellm_proxy/{model}")
    ]
    where = ["--api-base", gateway.root + base, "--api-key-env", "GATEWAY_KEY"]
    return [*named, *where, "--progress", "none", "--summary", "summary.json"]


@pytest.mark.parametrize(
    ("model", "key", "sentence"),
    [
        ("a", "sk-not-the-masters-key-0123456789", "set the right key"),
        ("nobody", MASTER_KEY, "Invalid model name passed in model=nobody"),
    ],
)
def test_refused(
    gateway: Proxy,
    asked: JudgeServer,
    ruler: Ruler,
    tmp_path: Path,
    model: str,
    key: str,
    sentence: str,
) -> None:
    """A wrong key and an unknown model end the run at once, in one sentence without the key."""
    began = time.monotonic()
    done = ruler(
        "score",
        rollouts(tmp_path, 12),
        "out.jsonl",
        *through(gateway, model),
        GATEWAY_KEY=key,
    )
    assert done.returncode == 3, done.stderr
    assert time.monotonic() - began < 20
    reported, go_on = done.stderr.splitlines()
    assert sentence in reported
    assert "to resume" in go_on
    assert key not in done.stdout + done.stderr
    assert asked.stats()["requests"] == 0
    assert summary(tmp_path)["retried"] == {}
    assert not (tmp_path / "out.jsonl").exists()


def test_limit_of_calls_in_flight(
    gateway: Proxy, asked: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A run waits for the proxy's own limit: every group is scored, each once."""
    asked.configure(latency=0.2)
    done = ruler(
        "score",
        rollouts(tmp_path, 16),
        "out.jsonl",
        *through(gateway, "narrow"),
        **KEY,
    )
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == [list(TRUTHS)] * 16
    assert summary(tmp_path)["retried"].keys() == {"rate"}
    assert asked.stats()["in_flight_max"] <= 2
    assert asked.stats()["requests"] == 16


def test_deployments_that_rest(
    gateway: Proxy, asked: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """If all deployments of a model rest, the run waits as the proxy asks and scores every group."""
    done = ruler(
        "score",
        rollouts(tmp_path, 3),
        "out.jsonl",
        *through(gateway, "busy"),
        **KEY,
    )
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == [list(TRUTHS)] * 3
    assert summary(tmp_path)["retried"].keys() == {"rate"}


def test_budget(
    gateway: Proxy, asked: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A budget that is used up ends the run without a wait."""
    began = time.monotonic()
    done = ruler(
        "score",
        rollouts(tmp_path, 30),
        "out.jsonl",
        *through(gateway, "spent"),
        **KEY,
    )
    assert done.returncode == 3, done.stderr
    assert time.monotonic() - began < 30
    assert "crossed budget" in done.stderr
    assert "add credit or raise the limit" in done.stderr
    assert summary(tmp_path)["retried"] == {}
    assert asked.stats()["requests"] < 30


def test_form_that_is_refused(
    gateway: Proxy, asked: JudgeServer, ruler: Ruler, tmp_path: Path
) -> None:
    """A model behind the proxy that takes no schema is asked for JSON, and then for text."""
    done = ruler(
        "score",
        rollouts(tmp_path, 3),
        "out.jsonl",
        *through(gateway, "textual"),
        **KEY,
    )
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == [list(TRUTHS)] * 3
    assert asked.stats()["by_format"]["none"] == 3


def test_restart(
    gateway: Proxy, asked: JudgeServer, process: Ruler, tmp_path: Path
) -> None:
    """A proxy that is killed and started again costs no group and no call except those in flight."""
    asked.configure(latency=0.4)
    source, ends = rollouts(tmp_path, 16), []
    options = ["score", source, "out.jsonl", *through(gateway, "a"), "-c", "2"]
    run = threading.Thread(target=lambda: ends.append(process(*options, **KEY)))
    run.start()
    while asked.stats()["requests"] < 5 and run.is_alive():
        time.sleep(0.05)
    gateway.kill()
    gateway.start()
    run.join()
    assert ends[0].returncode == 0, ends[0].stderr
    assert scores(tmp_path) == [list(TRUTHS)] * 16
    assert summary(tmp_path)["retried"].keys() == {"transport"}
    assert 16 <= asked.stats()["requests"] <= 16 + 2
