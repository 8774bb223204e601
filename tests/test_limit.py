"""`--limit N`: a run takes the first groups of an input, whatever holds them and however they lie."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ruler_cli.runs.file import RunResult
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings, shard_of
from tests.conftest import Ruler, group, read, rollout, write
from tests.fuzz_containers import KINDS, OUTPUT, unpack
from tests.judge_server import JudgeServer
from tests.runs import Stage
from tests.test_shards import LIES, bare, laid, staged


def limited(
    stage: Stage, kind: str, limit: int | None, **more: Any
) -> RunResult:
    """Run over the first groups, with one ledger for all runs."""
    reading = {"limit": limit, **more.pop("reading", {})}
    names: Any = {
        "source": f"in{kind}",
        "output": f"out-{limit}{OUTPUT[kind]}",
        "ledger": "ledger",
    }
    return stage.run(
        reading=reading, failed=stage.path / "failed", **names, **more
    )


def keys(records: list[bytes]) -> list[str]:
    """The keys of the groups of records, each once, in order."""
    return list(
        dict.fromkeys(json.loads(record)["group_id"] for record in records)
    )


@settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(LIES),
    st.lists(st.integers(1, 3), min_size=1, max_size=6).filter(
        lambda sizes: max(sizes) > 1
    ),
    st.integers(1, 7),
)
def test_first_groups(
    kind: str, lie: str, sizes: list[int], limit: int
) -> None:
    """OUTPUT holds what a whole run writes for the first groups, and the whole run pays the rest only."""
    records = [json.dumps(record).encode() for record in laid(sizes, lie)]
    with staged(records, kind) as stage:
        summary = limited(stage, kind, limit).summary
        some = bare(
            unpack(stage.path / f"out-{limit}{OUTPUT[kind]}", OUTPUT[kind])
        )
        assert (summary.total, summary.scored) == (min(limit, len(sizes)),) * 2
        first = stage.asked
        limited(stage, kind, None)
        assert stage.asked == first + max(0, len(sizes) - limit)
        alone = unpack(stage.path / f"out-None{OUTPUT[kind]}", OUTPUT[kind])
        wanted = keys(records)[:limit]
        assert some == [
            one for one in bare(alone) if json.loads(one)["group_id"] in wanted
        ]


def opened(path: Path, **settings: Any) -> tuple[list[str], int, list[str]]:
    """The keys of the groups of a file, the records that were read, and the notes."""
    with ExitStack() as stack:
        source = open_input(
            InputSettings(str(path), **settings),
            stack,
            lambda problem: pytest.fail(str(problem)),
        )
        assert source.survey is not None
        return (
            [one.key for one in source.groups],
            source.survey.records,
            list(source.notes),
        )


def test_reads_no_further(tmp_path: Path) -> None:
    """Input behind the first groups is read only if a group may go on there, and a sentence says which."""
    lines = write(
        tmp_path / "lines.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(50)]
    )
    cut = ["--limit 3: the first 3 groups only"]
    assert opened(lines, limit=3) == (["g0", "g1", "g2"], 3, cut)
    rows = write(tmp_path / "rows.jsonl", laid([2] * 50, "adjacent"))
    whole = ["--limit 3: the first 3 groups only"]
    assert opened(rows, limit=3) == (["g0", "g1", "g2"], 100, whole)
    assert opened(rows, limit=1)[2] == ["--limit 1: the first 1 group only"]
    assert opened(rows, limit=50)[2] == ["--limit 50: the first 50 groups only"]
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(lines.read_bytes() + b"no JSON\n")
    assert opened(damaged, limit=3)[1] == 3


def test_columns_are_not_cut(tmp_path: Path) -> None:
    """A line of several groups is taken whole."""
    talks = [[{"role": "user", "content": text}] for text in "xyz"]
    line = {"prompt": talks, "completion": ["a", "b", "c"], "step": [1, 2, 3]}
    path = write(tmp_path / "in.jsonl", [line, line, line])
    assert len(opened(path)[0]) == 9
    assert [len(opened(path, limit=limit)[0]) for limit in (1, 3, 4)] == [
        3,
        3,
        6,
    ]


def test_limit_before_shard(tmp_path: Path) -> None:
    """Shards share the first groups, so that together they judge them once."""
    path = write(tmp_path / "in.jsonl", laid([2] * 40, "scattered"))
    parts = [
        opened(path, limit=10, shard=shard_of(f"{number}/3"))[0]
        for number in (1, 2, 3)
    ]
    assert sorted(key for part in parts for key in part) == sorted(
        f"g{i}" for i in range(10)
    )


def test_stdin(ruler: Ruler, tmp_path: Path) -> None:
    """From stdin the first groups are scored, and the rest may be anything."""
    groups = "".join(json.dumps(group(name, 0.1, 0.9)) + "\n" for name in "abc")
    done = ruler(
        "score",
        "-",
        "-",
        "-m",
        "offline",
        "--limit",
        "2",
        stdin=groups + "no JSON\n",
    )
    assert done.returncode == 0, done.stderr
    assert [
        json.loads(line)["group_id"] for line in done.stdout.splitlines()
    ] == [
        "a",
        "b",
    ]
    assert done.stderr.count("--limit") == 1
    assert "--limit 2: the first 2 groups only" in done.stderr
    rows = "".join(
        json.dumps(row) + "\n" for row in laid([2, 3, 2], "scattered")
    )
    scattered = ("--grouping", "scattered", "--limit", "2")
    done = ruler("score", "-", "-", "-m", "offline", *scattered, stdin=rows)
    assert keys(done.stdout.encode().splitlines()) == ["g0", "g1"]
    assert len(done.stdout.splitlines()) == 5


def test_group_that_goes_on(ruler: Ruler) -> None:
    """A group of the first ones that comes back behind them is an error; other groups may."""

    def rows(names: str) -> str:
        records = [
            {"task_id": name, **rollout(0.5, f"{i}")}
            for i, name in enumerate(names)
        ]
        return "".join(json.dumps(record) + "\n" for record in records)

    words = (
        "score",
        "-",
        "-",
        "-m",
        "offline",
        "--group-by",
        "task_id",
        "--limit",
        "2",
    )
    for names in ("aabbcca", "aba"):
        done = ruler(*words, stdin=rows(names))
        assert done.returncode == 2
        assert "belongs to an earlier group" in done.stderr
    done = ruler(*words, stdin=rows("aabbccdc"))
    assert done.returncode == 0, done.stderr
    assert [
        json.loads(line)["task_id"] for line in done.stdout.splitlines()
    ] == list("aabb")


def test_other_commands(ruler: Ruler, tmp_path: Path) -> None:
    """`check`, `render` and `prompt` take the same groups; figures of `check` are theirs."""
    write(tmp_path / "in.jsonl", laid([2] * 9, "scattered"))
    done = ruler("check", "in.jsonl", "--limit", "4")
    assert (done.stdout.count("--limit"), done.stderr) == (1, "")
    assert "--limit 4: the first 4 groups only" in done.stdout
    facts = json.loads(
        ruler("check", "in.jsonl", "--limit", "4", "--json").stdout
    )
    assert (
        facts["groups"],
        facts["rollouts"],
        facts["calls"]["expected"],
    ) == (4, 8, 4)
    assert (
        ruler(
            "batch", "export", "in.jsonl", "requests.jsonl", "--limit", "4"
        ).returncode
        == 0
    )
    assert len(read(tmp_path / "requests.jsonl")) == 4
    assert (
        ruler("prompt", "in.jsonl", "--group", "g3", "--limit", "4").returncode
        == 0
    )
    assert (
        "no group"
        in ruler("prompt", "in.jsonl", "--group", "g4", "--limit", "4").stderr
    )


def test_refused(ruler: Ruler, tmp_path: Path) -> None:
    """OUTPUT that is INPUT would lose the groups that are left out."""
    path = write(tmp_path / "in.jsonl", [group("a", 0.1), group("b", 0.2)])
    before = path.read_bytes()
    done = ruler(
        "score", "in.jsonl", "in.jsonl", "-m", "offline", "--limit", "1"
    )
    assert (done.returncode, path.read_bytes()) == (2, before)
    assert (
        "--limit: OUTPUT in.jsonl is INPUT, of which only a part would be left"
        in done.stderr
    )
    for bad in ("0", "-1", "x"):
        assert (
            ruler(
                "score",
                "in.jsonl",
                "out.jsonl",
                "-m",
                "offline",
                "--limit",
                bad,
            ).returncode
            == 2
        )


def test_no_cache(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """`--ledger none` keeps and reads no reply; with --ledger or --cached-only it is a contradiction."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    run = (
        "score",
        "in.jsonl",
        "out.jsonl",
        "--model",
        "openai/good",
        "--api-base",
        server.base,
    )
    for number in (1, 2):
        done = ruler(*run, "--ledger", "none", RULER_LEDGER="ledger")
        assert (done.returncode, server.stats()["requests"]) == (0, number), (
            done.stderr
        )
    assert not (tmp_path / "ledger").exists()
    for words in (("--ledger", "x"), ("--cached-only",)):
        done = ruler(*run, "--ledger", "none", *words)
        assert (done.returncode, "; leave " in done.stderr) == (2, True), (
            done.stderr
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", LIES)
def test_each_container(kind: str, lie: str) -> None:
    """Each container and arrangement of groups, with records behind the first groups."""
    records = [
        json.dumps(record).encode() for record in laid([2, 1, 3, 2, 2, 2], lie)
    ]
    with staged(records, kind) as stage:
        for limit in (1, 3, 5):
            assert limited(stage, kind, limit).summary.scored == limit
            out = unpack(
                stage.path / f"out-{limit}{OUTPUT[kind]}", OUTPUT[kind]
            )
            assert keys(out) == keys(records)[:limit]
