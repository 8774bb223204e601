"""Groups that are shown in windows, end to end against the judge server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ruler_cli.runs.file import score as run_score
from ruler_cli.settings.models import (
    AskSettings,
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Summary
from tests.conftest import read, rollout, write
from tests.judge_server import JudgeServer
from tests.judge_server.asks import read_ask
from tests.values import few

pytestmark = pytest.mark.anyio


def large(name: str, size: int, words: int = 0) -> dict[str, Any]:
    """A group of so many rollouts, each better than the one before."""
    return {
        "group_id": name,
        "trajectories": [
            rollout(i / 1000, f"{name}-{i} " + "word " * words, reward=i / 7)
            for i in range(size)
        ],
    }


async def score(
    path: Path, server: JudgeServer, cue: str = "good", **ask: Any
) -> Summary:
    """Score `in.jsonl` to the end."""
    where = JudgeSettings(f"openai/{cue}", server.base)
    run = ScoreSettings(
        InputSettings(str(path / "in.jsonl")),
        str(path / "out.jsonl"),
        where,
        AskSettings(**ask),
        ledger=path / "ledger.sqlite",
    )
    done = await run_score(run)
    if done.stopped is not None:
        raise done.stopped
    return done.summary


def asked(server: JudgeServer) -> list[list[str]]:
    """The rollouts of each request, from the server's record."""
    return [
        sorted(read_ask(request).rollouts.values())
        for request in server.requests()
    ]


def rewards(path: Path) -> list[list[Any]]:
    """The rewards of the output, per record."""
    return [
        [t["reward"] for t in record["trajectories"]]
        for record in read(path / "out.jsonl")
    ]


@pytest.mark.parametrize(
    ("size", "most", "windows"),
    few(2, [(33, 32, 2), (130, 8, 17), (100, 32, 4)]),
)
@pytest.mark.parametrize("passes", [1, 3])
async def test_more_than_a_window(
    size: int,
    most: int,
    windows: int,
    passes: int,
    tmp_path: Path,
    server: JudgeServer,
) -> None:
    """Above --group-size each pass is windows with every rollout once; scores keep the true order."""
    write(tmp_path / "in.jsonl", [large("big", size), large("small", 5)])
    done = await score(tmp_path, server, passes=passes, group_size=most)
    passes_run = max(2, passes)
    assert (done.complete, done.windowed, done.degraded) == (True, 1, 0)
    shown = [texts for texts in asked(server) if "big-" in texts[0]]
    assert len(shown) == windows * passes_run
    assert max(map(len, shown)) <= most
    every = [text for texts in shown for text in texts]
    assert len(every) == size * passes_run
    assert all(every.count(text) == passes_run for text in set(every))
    big, small = rewards(tmp_path)
    assert big == sorted(big)
    assert big == pytest.approx([i / 1000 for i in range(size)], abs=1e-6)
    assert small == [i / 1000 for i in range(5)]
    part = read(tmp_path / "out.jsonl")[0]["ruler"]
    assert (part["windows"], part["passes"], part["size"]) == (
        windows,
        passes_run,
        size,
    )
    requests = server.stats()["requests"]
    before = rewards(tmp_path)
    await score(tmp_path, server, passes=passes, group_size=most)
    assert (server.stats()["requests"], rewards(tmp_path)) == (requests, before)


async def test_context_too_small(tmp_path: Path, server: JudgeServer) -> None:
    """A group that the judge refuses as too long is windowed."""
    cue = "400-context"
    write(tmp_path / "in.jsonl", [large("big", 24, 200), large("small", 4, 20)])
    done = await score(tmp_path, server, cue, passes=2)
    assert (done.complete, done.windowed, done.shortened, done.degraded) == (
        True,
        1,
        0,
        0,
    )
    assert rewards(tmp_path)[0] == pytest.approx(
        [i / 1000 for i in range(24)], abs=1e-6
    )
    assert rewards(tmp_path)[1] == [i / 1000 for i in range(4)]
    assert server.stats()["by_status"]["400"] == 1
    requests = server.stats()["requests"]
    await score(tmp_path, server, cue, passes=2)
    assert server.stats()["requests"] == requests


async def test_window_that_is_lost(tmp_path: Path, server: JudgeServer) -> None:
    """If a window has no answer, its rollouts keep the scores of other windows, and that is reported."""
    write(tmp_path / "in.jsonl", [large("big", 40)])
    server.configure(chaos={"400": 0.3}, seed=2)
    done = await score(tmp_path, server, passes=4, group_size=8)
    assert server.stats()["by_status"]["400"] > 0
    assert (done.complete, done.degraded) == (True, 1)
    (result,) = rewards(tmp_path)
    assert result == sorted(result)
    assert result == pytest.approx([i / 1000 for i in range(40)], abs=2e-3)


@pytest.mark.parametrize("passes", [1, 3])
async def test_window_that_does_not_fit(
    passes: int, tmp_path: Path, server: JudgeServer
) -> None:
    """If a later window does not fit although the first did, the group gets a new layout, once."""
    made = large("big", 40)
    for rollout_ in made["trajectories"][::9]:
        rollout_["messages"][1]["content"] += " truth" + " word" * 1500
    for i, rollout_ in enumerate(made["trajectories"]):
        rollout_["messages"][1]["content"] += f" truth={i / 1000}"
    write(tmp_path / "in.jsonl", [made])
    done = await score(
        tmp_path, server, "400-context", passes=passes, group_size=8
    )
    assert server.stats()["by_status"]["400"] > 0
    assert (done.complete, done.degraded, done.shortened) == (True, 0, 0)
    (result,) = rewards(tmp_path)
    assert result == sorted(result)
    assert result == pytest.approx([i / 1000 for i in range(40)], abs=1e-6)
    requests = server.stats()["requests"]
    await score(tmp_path, server, "400-context", passes=passes, group_size=8)
    assert (server.stats()["requests"], rewards(tmp_path)) == (
        requests,
        [result],
    )


async def test_nothing_fits(tmp_path: Path, server: JudgeServer) -> None:
    """If not even two rollouts fit, the group fails with the numbers, and the others do not."""
    write(tmp_path / "in.jsonl", [large("big", 6, 9000), large("small", 4)])
    done = await score(tmp_path, server, "400-context", passes=2)
    assert done.failed == {"too_long": 1}
    part = read(tmp_path / "out.jsonl")[0]["ruler"]
    assert "more than the 3000 that the judge takes" in part["reason"]
    assert rewards(tmp_path)[0] == [None] * 6
