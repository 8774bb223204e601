"""One Ray of two nodes for the session, tiny, on loopback; every run over it is a driver of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import JudgeServer

if importlib.util.find_spec("ray") is None:
    collect_ignore = ["test_equality.py", "test_ends.py"]

_TIMES = re.compile(rb'"judged_at": ?"[^"]+"|"latency_s": ?[0-9.e+-]+')


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster whose nodes have room for a worker each."""
    from ruler_cli.cluster.session import quiet, require_ray

    require_ray()
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # Ray's processes find this package there
    small = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    with quiet():
        nodes = Cluster(initialize_head=True, head_node_args=small)
        nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    yield nodes.address
    with quiet():
        nodes.shutdown()  # type: ignore[no-untyped-call]  # ray's own


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """An input of eighty groups in `tmp_path`."""
    return write(tmp_path / "in.jsonl", many(80))


def many(number: int) -> list[Any]:
    """Groups of four rollouts each."""
    return [group(f"g{i}", *((7 * i + 13 * k) % 100 / 100 for k in range(4))) for i in range(number)]


Score = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def score(ruler: Ruler, server: JudgeServer, cluster: str, tmp_path: Path) -> Score:
    """`ruler score` on the cluster, or in one process (`ray=False`), with a summary beside OUTPUT."""

    def run(output: str, *args: str, ray: bool = True, source: str = "in.jsonl", model: str = "fine") -> Any:
        where = ("--engine", "ray", "--ray-address", cluster) if ray else ()
        judge = () if "-m" in args else ("-m", f"openai/{model}")
        kept = ("--ledger", f"{output}.sqlite", "--summary", f"{output}.json")
        return ruler("score", source, output, *judge, "--api-base", server.base, *kept, *where, *args)

    return run


def timeless(path: Path) -> bytes:
    """An output without what is time."""
    return _TIMES.sub(b"", path.read_bytes())


def summary(path: Path) -> dict[str, Any]:
    """A run's summary without what is time."""
    found: dict[str, Any] = json.loads(Path(f"{path}.json").read_text())
    return {name: value for name, value in found.items() if name not in ("seconds", "most_in_flight")}
