"""Runs that have nothing to gain: nothing to compare, no usable reply, no money; what they leave alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import NothingToCompare, NoUsableReply, TooManyFailures
from ruler_cli.runs.file import score
from ruler_cli.runs.scorer import Scorer
from ruler_cli.settings.models import JudgeSettings, MaxFailures, ScoreSettings
from ruler_cli.types import CallError, Reply, Request
from tests.conftest import OLD, Ruler, group, write
from tests.judge_server import JudgeServer
from tests.runs import Stage, Stub, failing, group_of, truthful
from tests.virtual import virtually

ALONE = [group(f"g{i}", 0.5) for i in range(3)]
ALIKE = [
    {
        "group_id": f"h{i}",
        "trajectories": [group("h", 0.5)["trajectories"][0]] * 2,
    }
    for i in range(3)
]


def asking(server: JudgeServer) -> tuple[str, ...]:
    """The options of a run that asks the server."""
    return "-m", "openai/fake", "--api-base", server.base


def test_nothing_to_compare(
    ruler: Ruler, tmp_path: Path, server: JudgeServer
) -> None:
    """Groups of one rollout, or of rollouts that are all alike, cost no call, and OUTPUT is unchanged."""
    records = [*ALONE, *ALIKE, {"group_id": "empty", "trajectories": []}]
    write(tmp_path / "in.jsonl", records)
    (tmp_path / "out.jsonl").write_text(OLD)
    result = ruler("score", "in.jsonl", "out.jsonl", *asking(server))
    assert result.returncode == 2
    assert "nothing to compare" not in result.stdout
    assert "anything to compare" in result.stderr
    assert "--group-by" in result.stderr
    assert "--set single=score" in result.stderr
    assert server.requests() == []
    assert (tmp_path / "out.jsonl").read_text() == OLD
    assert not (tmp_path / "out.jsonl.partial").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("batch", "export", "in.jsonl", "r.jsonl"),
        ("batch", "submit", "in.jsonl"),
    ],
)
def test_nothing_to_submit(
    ruler: Ruler, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """No request is made or submitted either, if there is nothing to compare."""
    write(tmp_path / "in.jsonl", ALONE)
    result = ruler(*command, "-m", "openai/gpt-4o", OPENAI_API_KEY="x" * 20)
    assert result.returncode == 2
    assert "anything to compare" in result.stderr
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(
    "more", [["--set", "single=score"], ["--limit", "2"], ["--shard", "1/2"]]
)
def test_asked_for(ruler: Ruler, tmp_path: Path, more: list[str]) -> None:
    """Groups of one rollout are scored if that, without a warning, or a part of INPUT is asked for."""
    write(tmp_path / "in.jsonl", ALONE)
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline", *more)
    assert (done.returncode, "nothing can be compared" in done.stderr) == (
        0,
        "--set" not in more,
    )


def test_nothing_to_ask(ruler: Ruler, tmp_path: Path) -> None:
    """Groups about which no judge would be asked are named one by one, as beside others."""
    write(
        tmp_path / "in.jsonl", [{"group_id": "empty", "trajectories": []}] * 2
    )
    assert (
        ruler("score", "in.jsonl", "out.jsonl", "-m", "offline").returncode == 1
    )
    assert (
        ruler(
            "score",
            "-",
            "-",
            "-m",
            "offline",
            stdin=(tmp_path / "in.jsonl").read_text(),
        ).returncode
        == 1
    )


def test_scattered_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One comparable group in a file is enough, however its groups lie; cached replies are not."""
    halves = [
        {**one, "group_id": f"g{i}"}
        for i in range(30)
        for one in group("x", 0.5)["trajectories"]
    ]
    stage = Stage(tmp_path, monkeypatch, halves, Stub())
    with pytest.raises(NothingToCompare):
        virtually(lambda: score(stage.settings()))
    assert stage.asked == 0
    more = [
        {**one, "group_id": "g0"} for one in group("y", 0.9)["trajectories"]
    ]
    write(tmp_path / "in.jsonl", [*halves, *more])
    assert stage.run().summary.scored == 30
    stage.forget()
    assert stage.run().summary.kept == 30
    write(tmp_path / "in.jsonl", halves)
    with pytest.raises(NothingToCompare):
        virtually(lambda: score(stage.settings()))


def broken(request: Request) -> Reply | CallError:
    """No usable answer, for good."""
    return CallError("transport", "it is broken", "group", billed=False)


GROUPS = [group(f"g{i}", 0.1, 0.9) for i in range(4)]
YESTERDAY = OLD.encode()


@pytest.mark.parametrize("groups", [GROUPS, []])
def test_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: list[Any]
) -> None:
    """A run that scores nothing leaves an OUTPUT that was there, and writes one that was not."""
    stage = Stage(tmp_path, monkeypatch, groups, Stub(say=broken))
    (tmp_path / "out.jsonl").write_bytes(YESTERDAY)
    result = stage.run()
    assert (result.whole, result.summary.scored) == (False, 0)
    assert (tmp_path / "out.jsonl").read_bytes() == YESTERDAY
    assert len(stage.records("out.jsonl.partial") if groups else []) == len(
        groups
    )
    assert stage.run(output="new.jsonl").whole
    assert len(stage.records("new.jsonl")) == len(groups)


def test_empty_shard(ruler: Ruler, tmp_path: Path) -> None:
    """A shard to which no group falls leaves no records of an earlier run in its OUTPUT."""
    write(tmp_path / "in.jsonl", GROUPS[:1])
    for number in (1, 2):
        (tmp_path / f"{number}.jsonl").write_bytes(YESTERDAY)
        done = ruler(
            "score",
            "in.jsonl",
            f"{number}.jsonl",
            "-m",
            "offline",
            "--shard",
            f"{number}/2",
        )
        assert done.returncode == 0, done.stderr
    assert sorted(
        len((tmp_path / f"{n}.jsonl").read_text().splitlines()) for n in (1, 2)
    ) == [0, 1]


@pytest.mark.parametrize("output", ["out.jsonl", "-"])
@pytest.mark.parametrize("passes", ["1", "2"])
def test_no_call_fits(
    ruler: Ruler, server: JudgeServer, tmp_path: Path, output: str, passes: str
) -> None:
    """A cap below the price of one call ends the run with 4, and each group as failed."""
    write(
        tmp_path / "in.jsonl",
        [{"group_id": "empty", "trajectories": []}, *GROUPS],
    )
    priced = (*asking(server), "--price", "1,1", "--passes", passes)
    result = ruler(
        "score", "in.jsonl", output, *priced, "--max-cost", "0.000001"
    )
    assert result.returncode == 4
    assert "is less than any remaining group may cost" in result.stderr
    written = result.stdout or (tmp_path / "out.jsonl").read_text()
    kinds = [json.loads(line)["ruler"]["kind"] for line in written.splitlines()]
    assert kinds == ["input", *["budget"] * len(GROUPS)]
    (tmp_path / "out.jsonl").write_bytes(YESTERDAY)
    result = ruler(
        "score", "in.jsonl", "out.jsonl", *priced, "--max-cost", "0.000001"
    )
    assert "out.jsonl is unchanged" in result.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == YESTERDAY
    assert server.requests() == []


def test_kept_replies_fit(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Under such a cap groups that the ledger answers are written, with those before them, in order."""
    write(tmp_path / "in.jsonl", GROUPS[2:3])
    assert (
        ruler("score", "in.jsonl", "out.jsonl", *asking(server)).returncode == 0
    )
    write(tmp_path / "in.jsonl", GROUPS)
    result = ruler(
        "score",
        "in.jsonl",
        "-",
        *asking(server),
        "--price",
        "1,1",
        "--max-cost",
        "0.000001",
    )
    assert result.returncode == 4
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["group_id"] for record in records] == [
        "g0",
        "g1",
        "g2",
        "g3",
    ]
    assert [record["ruler"]["status"] for record in records] == [
        "failed",
        "failed",
        "scored",
        "failed",
    ]


MANY = [group(f"g{i:02}", 0.1, 0.9) for i in range(40)]


def test_no_usable_reply(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """If none of the first 20 groups gets a score the run stops, and names the command that shows a reply."""
    write(tmp_path / "in.jsonl", MANY)
    judge = ("-m", "openai/not-json", "--api-base", server.base)
    result = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        *judge,
        "-c",
        "1",
        "-q",
        "--summary",
        "s.json",
    )
    assert result.returncode == 3
    assert (
        "of the first 20 groups sent to the judge, none was scored"
        in result.stderr
    )
    assert "to resume" not in result.stderr
    assert not (tmp_path / "out.jsonl").exists()
    calls = server.stats()["requests"]
    assert 4 * 20 <= calls <= 4 * 24
    command = (
        result.stderr.splitlines()[-1].partition("to see a reply: ")[2].split()
    )
    assert command[:4] == ["ruler", "score", "in.jsonl", "-"]
    shown = ruler(*command[1:])
    assert shown.returncode == 1
    assert "judge on group g00" in shown.stderr
    assert server.stats()["requests"] == calls


def test_one_score_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One score ends the rule; so do fewer groups, or --max-failures, which has its own exit code."""
    judge = Stub(say=failing(lambda request: group_of(request) != "g05"))
    stage = Stage(tmp_path, monkeypatch, MANY, judge)
    result = stage.run(ledger=None)
    assert (result.stopped, result.summary.failed) == (None, {"transport": 39})
    judge.say = broken
    stage.forget()
    stopped = stage.run(
        ledger=None, max_failures=MaxFailures(30), concurrency=1
    ).stopped
    assert isinstance(stopped, TooManyFailures)
    assert stage.asked >= 30
    assert (
        stage.run(
            ledger=None, max_failures=MaxFailures(100, percent=True)
        ).stopped
        is None
    )
    stopped = stage.run(ledger=None, concurrency=1).stopped
    assert isinstance(stopped, NoUsableReply)
    assert (stopped.exit_code, stopped.first) == (3, 1)
    write(tmp_path / "in.jsonl", MANY[:19])
    assert stage.run(ledger=None).stopped is None


def test_failures_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures of the ledger, and of groups themselves, stop no run; scores of the ledger keep none going."""
    judge = Stub(
        say=lambda request: CallError("transport", "400", "group", body=b"kept")
    )
    stage = Stage(tmp_path, monkeypatch, MANY[:18], judge)
    stage.run()
    empty = [{"group_id": f"e{i}", "trajectories": []} for i in range(30)]
    write(tmp_path / "in.jsonl", [*empty, *MANY[:30]])
    result = stage.run()
    assert (result.stopped, result.summary.failed) == (
        None,
        {"input": 30, "transport": 30},
    )
    assert (result.summary.failed_before, result.summary.asked) == (18, 12)
    judge.say = truthful
    write(tmp_path / "in.jsonl", MANY[30:35])
    assert stage.run().summary.scored == 5
    judge.say = broken
    write(
        tmp_path / "in.jsonl",
        [*MANY[30:35], *[group(f"h{i}", 0.2, 0.7) for i in range(30)]],
    )
    stopped = stage.run(concurrency=1).stopped
    assert isinstance(stopped, NoUsableReply)
    assert stopped.first == 6


@pytest.mark.anyio
async def test_scorer_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Scorer logs, once, that none of the first groups got a score, and goes on."""
    stage = Stage(tmp_path, monkeypatch, [], Stub(say=broken, latency=0))
    monkeypatch.setattr(
        "ruler_cli.runs.scorer.resolve_judges",
        lambda _: [stage._choose(JudgeSettings("one"))],
    )
    async with Scorer(
        ScoreSettings(judge=JudgeSettings("one"), ledger=None)
    ) as scorer:
        scored = [one async for one in scorer.score_groups(MANY)]
    assert [one.kind for one in scored] == ["transport"] * 40
    told = [
        record for record in caplog.records if record.levelname == "WARNING"
    ]
    assert [
        "of the first 20 groups" in record.getMessage() for record in told
    ] == [True]
    assert {record.name for record in told} == {"ruler_cli"}
