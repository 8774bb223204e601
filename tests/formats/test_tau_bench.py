"""tau-bench results."""

from __future__ import annotations

from collections import Counter

import pytest

from ruler_cli.errors import UnreadableError
from tests.conftest import SHARED
from tests.values import read

DATA = SHARED / "data" / "tau_bench_gpt4o_airline.jsonl"


@pytest.mark.parametrize("traj", [[], None])
def test_crashed(traj: object) -> None:
    """A run that crashed is told as that."""
    with pytest.raises(UnreadableError, match="when a run crashed"):
        read({"task_id": 4, "trial": 0, "traj": traj})


def test_real_file() -> None:
    """The 200 real rollouts are 50 groups of four."""
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is not beside this checkout")
    found = read(*DATA.read_bytes().strip().split(b"\n"))
    assert Counter(Counter(r.key for r in found).values()) == {4: 50}
