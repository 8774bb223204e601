"""Groups that a cap pays for: the first groups of a file, or a fair sample of all."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import orjson
import pytest

from ruler_cli.errors import CapReached
from tests.conftest import Ruler, group, write
from tests.runs import Stage, Stub, noisy
from tests.test_shards import laid
from tests.values import few

PRICE = (10.0, 10.0)
"""USD per million tokens, of which a call takes 1,100: 0.011 USD."""
CALL = 0.011


def capped(
    stage: Stage, calls: float, spend: str = "spread", **more: Any
) -> list[str]:
    """Run under a cap of so many calls; return the keys of the groups that were scored, in OUTPUT's order."""
    more = {"ledger": None, "max_cost": calls * CALL, "spend": spend, **more}
    stopped = stage.run(**more).stopped
    assert isinstance(stopped, CapReached)
    scored = (
        record["group_id"]
        for record in stage.records()
        if record["ruler"]["status"] == "scored"
    )
    return list(dict.fromkeys(scored))


@pytest.mark.parametrize("seed", few(2, range(6)))
def test_fair_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of a sorted file the mean of a spread sample is near that of all, and the mean of the first is not."""
    draw = random.Random(0)
    means = sorted(draw.random() for _ in range(200))
    groups = [
        group(f"g{i:03}", mean * 0.8, mean * 0.8 + 0.2)
        for i, mean in enumerate(means)
    ]
    stage = Stage(tmp_path, monkeypatch, groups, Stub(price=PRICE))
    stage.run(ledger=None)
    full = fmean(map(fmean, stage.rewards()))

    def sample(spend: str) -> tuple[float, float]:
        """The distance of a capped run's mean from that of all, and its standard error."""
        done = capped(stage, 60, spend, seed=seed)
        assert 50 <= len(done) <= 60
        scored = [
            fmean(rewards) for rewards in stage.rewards() if None not in rewards
        ]
        left = math.sqrt(
            1 - len(scored) / 200
        )  # a sample of a finite population
        return abs(fmean(scored) - full), stdev(scored) / math.sqrt(
            len(scored)
        ) * left

    distance, error = sample("spread")
    assert distance < 2.5 * error
    distance, error = sample("first")
    assert distance > 5 * error


def lines(records: list[dict[str, Any]], path: Path) -> None:
    """JSON lines."""
    write(path, records)


def document(records: list[dict[str, Any]], path: Path) -> None:
    """A list, which has no line in which a record can be read again."""
    path.write_bytes(orjson.dumps(records, option=orjson.OPT_INDENT_2))


@pytest.mark.parametrize("how", ["line", "adjacent", "scattered"])
@pytest.mark.parametrize("make", few(1, [lines, document]))
@pytest.mark.parametrize("passes", few(1, [1, 2]))
def test_same_in_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    make: Callable[[list[dict[str, Any]], Path], None],
    passes: int,
) -> None:
    """The same ledger goes on to all of a file, pays for no reply twice, and OUTPUT is that of one run."""
    judge = Stub(say=noisy, price=PRICE)
    stage = Stage(tmp_path, monkeypatch, [], judge)
    records = laid([2, 3, 4] * 10, how)
    make(records, tmp_path / "in.json")
    names: dict[str, Any] = {
        "source": "in.json",
        "output": "out.jsonl",
        "passes": passes,
    }
    one = capped(stage, 8, ledger="one", **names)
    assert 0 < len(one) < 20
    two = capped(stage, 8, ledger="one", **names)
    assert set(one) < set(two)
    assert [record.get("group_id") for record in stage.records()] == [
        each["group_id"] for each in records
    ]
    last = stage.run(max_cost=99.0, spend="spread", ledger="one", **names)
    assert (last.stopped, last.summary.scored) == (None, 30)
    assert stage.asked == 30 * passes
    spread = stage.masked()
    stage.run(ledger="one", **names)
    assert stage.masked() == spread
    assert stage.asked == 30 * passes


def test_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed and contents decide the sample, not the order of the file; a higher cap only adds to it."""
    groups = [group(f"g{i:02}", i / 100, 0.9) for i in range(60)]
    stage = Stage(tmp_path, monkeypatch, groups, Stub(price=PRICE))
    few_groups, more = set(capped(stage, 10)), set(capped(stage, 30))
    assert few_groups < more
    write(tmp_path / "in.jsonl", groups[::-1])
    assert set(capped(stage, 30)) == more
    assert set(capped(stage, 30, seed=1)) != more
    assert set(capped(stage, 10, reading={"limit": 20})) <= {
        f"g{i}" for i in range(40, 60)
    }


def test_refused(ruler: Ruler, tmp_path: Path) -> None:
    """A pipe, and options that rest on neighbours, are refused; without a cap it changes nothing."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    text = (tmp_path / "in.jsonl").read_text()
    run = (
        "score",
        "-",
        "out.jsonl",
        "-m",
        "offline",
        "--set",
        "spend=spread",
        "--max-cost",
        "1",
    )
    piped = ruler(*run, stdin=text)
    assert piped.returncode == 2
    assert (
        "--set spend=spread: groups are drawn from all of INPUT, and stdin is read once"
        in piped.stderr
    )
    assert ruler(*run, "--grouping", "scattered", stdin=text).returncode == 2
    uncapped = (*run[:1], "in.jsonl", "out.jsonl", *run[3:-2])
    assert ruler(*uncapped).returncode == 0
    assert ruler("score", "in.jsonl", "out.jsonl", *run[3:]).returncode == 0
    assert (
        ruler(
            "score", "in.jsonl", "s.jsonl", *run[3:], "--shard", "1/1"
        ).returncode
        == 0
    )
