"""The whole run against a judge that misbehaves: each rollout gets a right score or a reason."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli.cli.progress import Console
from ruler_cli.errors import InputChanged, RefusedError
from ruler_cli.judging.exchange import CORRECTIONS
from ruler_cli.runs.file import score as run_score
from ruler_cli.settings.models import (
    AskSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
)
from ruler_cli.types import Group, Observer, Rollout, Summary
from tests.conftest import Ruler, group, read, rollout, write
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.anyio

GROUPS = [
    group("a", 0.1, 0.9, 0.4),
    group("b", 0.8, 0.2),
    group("c", 0.5, 0.75, 0.25, 1.0),
]
HARMLESS = """
good reordered duplicate-same extra fenced think prose decoy list plain-map percent fraction strings
schema-refused format-refused 400-context
"""
MENDED = """
duplicate missing integer position ten mixed negative nan null-score bool-score cutoff empty
null-content refusal filter not-json huge no-choices html 429 500 502 529 drop half
"""
LIMITS = ["429", "429-date", "529"]
"""Limits that a run waits for, up to an hour: tests/pool shows how that ends."""
FATAL = ["401", "403", "404", "quota"]


async def score(
    run: ScoreSettings, observer: Observer | None = None
) -> Summary:
    """Run to the end, and raise the error that stops the run."""
    done = await run_score(run, observer)
    if done.stopped is not None:
        raise done.stopped
    return done.summary


def settings(
    path: Path, server: JudgeServer, cue: str, **judge: object
) -> ScoreSettings:
    """A run over GROUPS with a cue for the judge."""
    write(path / "in.jsonl", GROUPS)
    values = {"retries": 1, "timeout": 20.0, **judge}
    pool = {
        name: values.pop(name)
        for name in ("retries", "concurrency")
        if name in values
    }
    return ScoreSettings(
        InputSettings(str(path / "in.jsonl")),
        str(path / "out.jsonl"),
        JudgeSettings(f"openai/{cue}", server.base, **values),  # type: ignore[arg-type]  # by keyword
        pool=PoolSettings(**pool),  # type: ignore[arg-type]  # by keyword
        ledger=None,
    )


def rewards(path: Path) -> list[list[float | None]]:
    """The rewards of the output, per record."""
    return [
        [t["reward"] for t in record["trajectories"]]
        for record in read(path / "out.jsonl")
    ]


NOTHING = """
cutoff empty null-content not-json huge no-choices html 500 502 drop half
"""
"""Kinds of replies and errors that hold no entry of an answer."""
TRUE = [[0.1, 0.9, 0.4], [0.8, 0.2], [0.5, 0.75, 0.25, 1.0]]


async def test_usable(
    tmp_path: Path, server: JudgeServer, subtests: pytest.Subtests
) -> None:
    """A reply with all scores, at once or after a correction, gives each rollout its score."""
    for cue in [*HARMLESS.split(), *(f"once-{cue}" for cue in MENDED.split())]:
        with subtests.test(cue=cue):
            server.reset()
            done = await score(settings(tmp_path, server, cue))
            assert done.complete
            assert rewards(tmp_path) == TRUE
            if cue.startswith("once-"):
                assert server.stats()["requests"] == 2 * len(GROUPS)


async def test_failed(
    tmp_path: Path, server: JudgeServer, subtests: pytest.Subtests
) -> None:
    """A judge that never answers well leads to errors with a reason: null, never a number."""
    for cue in [c for c in (*MENDED.split(), "400") if c not in LIMITS]:
        with subtests.test(cue=cue):
            server.reset()
            done = await score(settings(tmp_path, server, cue))
            assert sum(done.failed.values()) == len(GROUPS)
            assert all(
                reward is None
                for record in rewards(tmp_path)
                for reward in record
            )
            for record in read(tmp_path / "out.jsonl"):
                assert record["ruler"]["status"] == "failed"
                assert record["ruler"]["reason"]
                for i, trajectory in enumerate(record["trajectories"]):
                    assert trajectory["ruler"]["kind"] in (
                        "reply",
                        "transport",
                        "refused",
                    )
                    assert trajectory["ruler"]["independent_reward"] == float(i)
            twice = 1 + (
                cue in NOTHING.split()
            )  # the form of the answer may be the cause
            most = twice * (1 + CORRECTIONS) * len(GROUPS)
            assert server.stats()["requests"] <= most


async def test_deadline(tmp_path: Path, server: JudgeServer) -> None:
    """The deadline holds by the wall clock, even while bytes drip in."""
    for cue in ("drip", "hang", "slow"):
        with anyio.fail_after(60):  # a drip would last for ever
            done = await score(
                settings(tmp_path, server, cue, timeout=0.3, retries=0)
            )
        assert done.failed == {"transport": 3}


async def test_fatal(tmp_path: Path, server: JudgeServer) -> None:
    """A wrong key, an empty account or an unknown model ends the run with a way out."""
    for cue in FATAL:
        server.reset()
        with pytest.raises(RefusedError, match=r"key|credit|model"):
            await score(settings(tmp_path, server, cue, concurrency=1))
        assert server.stats()["requests"] <= 2
        assert not (tmp_path / "out.jsonl").exists()


async def test_unreachable(tmp_path: Path, server: JudgeServer) -> None:
    """A judge that no call ever reaches ends the run with its name."""
    write(tmp_path / "in.jsonl", GROUPS)
    where = JudgeSettings("openai/x", "http://127.0.0.1:9/v1")
    out = str(tmp_path / "out.jsonl")
    run = ScoreSettings(
        InputSettings(str(tmp_path / "in.jsonl")),
        out,
        where,
        pool=PoolSettings(retries=0),
    )
    with pytest.raises(RefusedError, match=r"127\.0\.0\.1:9"):
        await score(run)


async def test_limits(tmp_path: Path, server: JudgeServer) -> None:
    """Every group is scored if an endpoint refuses the limit of the answer, its name, or its size."""
    limits: dict[str, list[set[str]]] = {
        "limit-refused": [{"max_tokens"}, *[{"max_completion_tokens"}] * 3],
        "limits-refused": [{"max_tokens"}, *[set[str]()] * 3],
        "beside": [{"max_tokens"}] * 6,
    }
    for cue, names in limits.items():
        server.reset()
        assert (
            await score(settings(tmp_path, server, cue, concurrency=1))
        ).complete
        assert rewards(tmp_path) == TRUE
        sent = [
            {name for name in request if name.startswith("max_")}
            for request in server.requests()
        ]
        assert sent == names


async def test_cut_off_asks_for_the_rest(
    tmp_path: Path, server: JudgeServer
) -> None:
    """After two cut-off replies the complete entries count, and only the missing ids are asked for."""
    done = await score(settings(tmp_path, server, "twice-cutoff"))
    assert done.complete
    assert rewards(tmp_path) == TRUE


async def test_rescoring(tmp_path: Path, server: JudgeServer) -> None:
    """Scoring in place, twice, keeps the first original reward and one explanation."""
    run = settings(tmp_path, server, "good")
    run = ScoreSettings(
        run.input, str(tmp_path / "in.jsonl"), run.judge, ledger=None
    )
    await score(run)
    await score(run)
    for record in read(tmp_path / "in.jsonl"):
        for i, trajectory in enumerate(record["trajectories"]):
            assert trajectory["metrics"]["independent_reward"] == float(i)
            assert trajectory["ruler"]["independent_reward"] == float(i)
            assert len(trajectory["logs"]) == 1


async def test_scattered(tmp_path: Path, server: JudgeServer) -> None:
    """Scattered rollouts of a group are scored together and written in their own places."""
    members = [
        rollout(t / 10, f"{g}", group_id=g, reward=0.0)
        for t in range(6)
        for g in ("x", "y", "z", "w")
    ]
    write(tmp_path / "in.jsonl", members)
    run = ScoreSettings(
        InputSettings(str(tmp_path / "in.jsonl")),
        str(tmp_path / "out.jsonl"),
        JudgeSettings("openai/good", server.base),
    )
    done = await score(run)
    assert server.stats()["requests"] == 4
    assert done.written == len(members)
    out = read(tmp_path / "out.jsonl")
    assert [r["reward"] for r in out] == [
        t / 10 for t in range(6) for _ in range(4)
    ]
    assert [r["messages"] for r in out] == [m["messages"] for m in members]


async def test_identical_and_single(
    tmp_path: Path, server: JudgeServer
) -> None:
    """Identical rollouts share one score; a group without relative signal is flagged tied."""
    same = rollout(0.3, "same")
    groups = [
        {"trajectories": [same, same, rollout(0.9, "other")]},
        {"trajectories": [same, same]},
        {"trajectories": [same]},
        {"trajectories": []},
    ]
    write(tmp_path / "in.jsonl", groups)
    run = settings(tmp_path, server, "good")
    write(tmp_path / "in.jsonl", groups)
    done = await score(run)
    assert rewards(tmp_path) == [[0.3, 0.3, 0.9], [0.3, 0.3], [0.3], []]
    assert [r["ruler"]["tied"] for r in read(tmp_path / "out.jsonl")] == [
        False,
        True,
        True,
        False,
    ]
    assert server.stats()["requests"] == 3
    assert (done.tied, done.failed) == (2, {"input": 1})


async def test_bad_trajectory_in_group(
    tmp_path: Path, server: JudgeServer
) -> None:
    """One trajectory that cannot be read fails alone; its bytes stand in the failed file."""
    bad = {"reward": 7, "messages": None}
    run = settings(tmp_path, server, "good")
    write(
        tmp_path / "in.jsonl",
        [{"trajectories": [rollout(0.3, "a"), bad, rollout(0.6, "b")]}],
    )
    done = await score(run)
    assert rewards(tmp_path) == [[0.3, None, 0.6]]
    assert (
        read(tmp_path / "out.jsonl")[0]["trajectories"][1]["ruler"]["kind"]
        == "input"
    )
    assert read(tmp_path / "out.jsonl.failed.jsonl") == [bad]
    assert not done.complete


async def test_summary_counts(tmp_path: Path, server: JudgeServer) -> None:
    """The summary counts groups, rollouts, calls, tokens and money."""
    done = await score(
        settings(tmp_path, server, "plain-map", price=(1.0, 2.0))
    )
    assert (done.groups, done.scored, done.rollouts, done.written) == (
        3,
        3,
        9,
        3,
    )
    assert done.usage.calls == 3
    assert done.cost_usd == pytest.approx(
        (done.usage.prompt + 2 * done.usage.completion) / 1e6
    )
    assert (done.mended, done.other_scale) == (3, 0)


async def test_empty_input(tmp_path: Path, server: JudgeServer) -> None:
    """An empty file has an empty output and costs no call."""
    run = settings(tmp_path, server, "good")
    (tmp_path / "in.jsonl").write_bytes(b"\n\n")
    assert (await score(run)).complete
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_command_with_an_input_that_changes(
    ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with code 1, the place, and how to go on; what it wrote so far is whole."""
    path = write(
        tmp_path / "in.jsonl",
        [group(f"g{i}", 0.1, 0.2) | {"note": "x" * 4000} for i in range(200)],
    )
    whole = path.read_bytes()
    monkeypatch.setattr(
        Console,
        "started",
        lambda *_: path.write_bytes(whole.replace(b"g150-1", b"g151-1")),
    )
    done = ruler(
        "score", "in.jsonl", "out.jsonl", "-m", "offline", "--progress", "none"
    )
    assert done.returncode == 1
    assert (
        "ruler: in.jsonl: changed while it was read (line 151); run again once no"
        in done.stderr
    )
    assert (
        "to resume: ruler score in.jsonl out.jsonl" in done.stderr
        or "begin anew" in done.stderr
    )
    assert not (tmp_path / "out.jsonl").exists()
    assert [
        record["group_id"] for record in read(tmp_path / "out.jsonl.partial")
    ] == [f"g{i}" for i in range(150)]


@pytest.mark.parametrize("change", ["cut", "spoil"])
async def test_input_that_changes(
    change: str, tmp_path: Path, server: JudgeServer
) -> None:
    """A file that changes after its survey ends the run: no line is lost silently."""
    long = {
        "note": "x" * 4000
    }  # so that most of the file is not yet read when judging begins
    path = write(
        tmp_path / "in.jsonl",
        [group(f"g{i}", 0.1, 0.2) | long for i in range(500)],
    )
    whole = path.read_bytes()

    class Meddler(Observer):
        """A judge that changes the file at its start."""

        def started(self, groups: int | None) -> None:
            """Cut the file, or spoil its second half."""
            half = whole[: whole.index(b"\n", len(whole) // 2) + 1]
            path.write_bytes(
                half
                if change == "cut"
                else half + b"x" * (len(whole) - len(half))
            )

    run = ScoreSettings(
        InputSettings(str(path)),
        str(tmp_path / "out.jsonl"),
        JudgeSettings("offline"),
    )
    with pytest.raises(InputChanged, match="changed while it was read"):
        await score(run, Meddler())
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ask": AskSettings(passes=3)},
        {"panel": (JudgeSettings("offline"),)},
        {"adaptive": True, "ask": AskSettings(passes=2)},
    ],
    ids=["one pass", "three passes", "two judges", "further passes"],
)
async def test_memory_of_a_group(tmp_path: Path, more: dict[str, Any]) -> None:
    """A group that is written is freed at once: no circle of references keeps it."""
    write(tmp_path / "in.jsonl", GROUPS)
    source, output = (
        InputSettings(str(tmp_path / "in.jsonl")),
        str(tmp_path / "out.jsonl"),
    )
    gc.collect()
    gc.freeze()  # what was there before is no garbage of this run, and slow to look through
    gc.disable()
    try:
        await score(
            ScoreSettings(source, output, JudgeSettings("simulated"), **more)
        )
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert [
            one for one in gc.garbage if isinstance(one, Group | Rollout)
        ] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
