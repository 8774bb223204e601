"""Processes that share an input by shards: together they do the work of one, each part once."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import digest
from ruler_cli.runs.file import RunResult, score
from ruler_cli.settings.models import MaxFailures, Shard, shard_of
from ruler_cli.types import Request
from tests.conftest import ROOT, group, rollout
from tests.fuzz_containers import KINDS, OUTPUT, pack, unpack
from tests.judging.test_adaptive import drawing, groups
from tests.runs import Stage, Stub, failing, group_of, noisy
from tests.virtual import virtually

DAMAGED = (b'{"torn', b"7", b'{"group_id": "no messages"}')
LIES = ("line", "adjacent", "scattered")


@contextmanager
def staged(
    records: list[bytes], kind: str = ".jsonl", **judge: Any
) -> Iterator[Stage]:
    """A folder of its own with a container of records, and a judge."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_CACHE_HOME", folder)
        stage = Stage(Path(folder), patch, [], Stub(**judge))
        (stage.path / "in.jsonl").unlink()
        pack(stage.path / f"in{kind}", kind, records, b"\n")
        yield stage


def run_shard(
    stage: Stage, kind: str, number: int, of: int, **more: Any
) -> RunResult:
    """Run one shard with a ledger and a failed file of its own."""
    given = {
        "source": f"in{kind}",
        "output": f"out-{number}{OUTPUT[kind]}",
        "ledger": f"ledger-{number}",
        **more,
    }
    reading = {"shard": shard_of(f"{number}/{of}"), **given.pop("reading", {})}
    return stage.run(
        reading=reading, failed=stage.path / f"failed-{number}", **given
    )


def whole(
    stage: Stage, kind: str, ledger: str, *others: str, **more: Any
) -> RunResult:
    """Run over the whole, with more ledgers to look things up in."""
    ledgers = tuple(stage.path / name for name in others)
    given = {"source": f"in{kind}", "output": f"whole{OUTPUT[kind]}", **more}
    return stage.run(
        ledger=ledger,
        ledgers=ledgers,
        failed=stage.path / "failed-whole",
        **given,
    )


def refused(stage: Stage, **more: Any) -> None:
    """The error of a run that cannot begin, without the task group around it."""
    virtually(lambda: score(stage.settings(**more)))


def failed(stage: Stage, name: object) -> Counter[bytes]:
    """The lines of a failed file."""
    path = stage.path / f"failed-{name}"
    return (
        Counter(path.read_bytes().splitlines()) if path.exists() else Counter()
    )


def bare(records: list[bytes]) -> list[str]:
    """Records without their times and their cached flags."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: timeless(v)
                for k, v in value.items()
                if k not in ("judged_at", "cached", "latency_s")
            }
        return (
            [timeless(item) for item in value]
            if isinstance(value, list)
            else value
        )

    return [json.dumps(timeless(json.loads(record))) for record in records]


def laid(sizes: list[int], lie: str) -> list[dict[str, Any]]:
    """Groups of these sizes as records: a group each, or a rollout each, adjacent or far apart."""
    if lie == "line":
        return [
            group(f"g{i}", *(0.1 + j / 10 for j in range(size)))
            for i, size in enumerate(sizes)
        ]
    places = [
        (j, i) if lie == "scattered" else (i, j)
        for i, size in enumerate(sizes)
        for j in range(size)
    ]
    numbers = [
        place[::-1] if lie == "scattered" else place for place in sorted(places)
    ]
    return [
        rollout(0.1 + j / 10, f"g{i}-{j}", group_id=f"g{i}", reward=j)
        for i, j in numbers
    ]


@st.composite
def dumps(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """A container and its records, in scattered groups, with damaged ones between."""
    kind, sizes = (
        draw(st.sampled_from(KINDS)),
        draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)),
    )
    sizes[0] += 1  # an input without anything to compare is refused
    records = [
        json.dumps(record).encode()
        for record in laid(sizes, draw(st.sampled_from(LIES)))
    ]
    bad = (
        DAMAGED
        if kind in (".jsonl", ".jsonl.gz", ".jsonl.zst")
        else DAMAGED[2:]
    )
    for _ in range(draw(st.integers(0, 3))):
        records.insert(
            draw(st.integers(1, len(records))), draw(st.sampled_from(bad))
        )
    return kind, records


@settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(dumps(), st.integers(2, 4), st.sampled_from([1, 2]))
def test_together(dump: tuple[str, list[bytes]], of: int, passes: int) -> None:
    """All shards together read, ask, count and refuse exactly as one process does, each thing once.

    The run with all ledgers sends no request and writes the output of one process with its own.
    """
    kind, records = dump
    with staged(records, kind, say=noisy) as stage:
        one = whole(stage, kind, "ledger-whole", passes=passes).summary
        asked, alone, lost = (
            stage.asked,
            bare(unpack(stage.path / f"whole{OUTPUT[kind]}", OUTPUT[kind])),
            failed(stage, "whole"),
        )
        whole(stage, kind, "ledger-whole", passes=passes)
        again = bare(unpack(stage.path / f"whole{OUTPUT[kind]}", OUTPUT[kind]))
        stage.forget()
        shards = [
            run_shard(stage, kind, number, of, passes=passes).summary
            for number in range(1, of + 1)
        ]
        assert stage.asked == asked
        result = [
            bare(
                unpack(stage.path / f"out-{number}{OUTPUT[kind]}", OUTPUT[kind])
            )
            for number in range(1, of + 1)
        ]
        if passes == 1:  # else some fields of a record are of the whole batch
            for part in result:  # in the order of the input
                rest = iter(alone)
                assert all(record in rest for record in part)
            assert Counter(itertools.chain(*result)) == Counter(alone)
        for name in (
            "total",
            "groups",
            "scored",
            "rollouts",
            "written",
            "unreadable",
        ):
            assert sum(getattr(each, name) for each in shards) == getattr(
                one, name
            ), name
        assert (
            sum(
                (failed(stage, number) for number in range(1, of + 1)),
                Counter(),
            )
            == lost
        )
        stage.forget()
        others = [f"ledger-{number}" for number in range(1, of + 1)]
        summary = whole(
            stage,
            kind,
            "main",
            *others,
            passes=passes,
            output=f"merged{OUTPUT[kind]}",
        ).summary
        assert (stage.asked, summary.kept) == (0, summary.groups)
        assert (
            bare(unpack(stage.path / f"merged{OUTPUT[kind]}", OUTPUT[kind]))
            == again
        )


GROUPS = [group(f"g{i}", 0.1, 0.4, 0.9) for i in range(24)]
LINES = [json.dumps(record).encode() for record in GROUPS]


def test_each_group_in_one_shard() -> None:
    """Exactly one of N shards has a group and one reports a line, and each has about its share."""
    for of in (2, 7, 16):
        shards = [Shard(number, of) for number in range(1, of + 1)]
        for key in ("", "a", "\ud800", "task-17"):
            assert sum(shard.holds(digest(key)) for shard in shards) == 1
        for line in (0, 1, 2, 10**9):
            assert sum(shard.reports(line) for shard in shards) == 1
        counts = [
            sum(shard.holds(digest(f"task-{i}")) for i in range(3200))
            for shard in shards
        ]
        assert min(counts) > 3200 / of * 0.7


def test_same_everywhere() -> None:
    """A group is in the same shard in every process, on every machine and in every version."""
    result = [
        next(n for n in range(1, 17) if Shard(n, 16).holds(digest(f"task-{i}")))
        for i in range(8)
    ]
    assert result == [2, 6, 2, 8, 2, 3, 3, 10]


def test_resumed() -> None:
    """Shards that are stopped go on where they were, and no group is asked about twice."""
    with staged(LINES) as stage:
        for number in (1, 2, 3):
            assert (
                run_shard(
                    stage, ".jsonl", number, 3, until=2, concurrency=1
                ).stopped
                is not None
            )
        for number in (1, 2, 3):
            assert run_shard(stage, ".jsonl", number, 3).stopped is None
        assert stage.asked == len(GROUPS)
        assert Counter(map(group_of, stage.judges["one"].asked)) == Counter(
            f"g{i}" for i in range(24)
        )


def test_what_is_missing_is_asked() -> None:
    """The last run asks about the groups of a shard that never ran, and stores them in the first ledger."""
    with staged(LINES) as stage:
        done = run_shard(stage, ".jsonl", 1, 2)
        stage.forget()
        whole(stage, ".jsonl", "main", "ledger-1")
        assert stage.asked == len(GROUPS) - done.summary.groups
        stage.forget()
        whole(stage, ".jsonl", "main", "ledger-1")
        assert stage.asked == 0


def test_asked_further() -> None:
    """Requests that all groups decide together are sent by the last run alone, and no cached one again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        unsure = groups(48)
        stage = Stage(Path(folder), patch, unsure, Stub(say=drawing(0.12)))
        further: dict[str, Any] = {"adaptive": True, "passes": 4}
        whole(stage, ".jsonl", "ledger-whole", **further)
        needed, alone = stage.asked, stage.masked("whole.jsonl")
        stage.forget()
        for number in (1, 2):
            run_shard(stage, ".jsonl", number, 2, passes=2)
        first = stage.asked
        assert first == 2 * len(unsure) < needed
        stage.forget()
        whole(stage, ".jsonl", "main", "ledger-1", "ledger-2", **further)
        assert stage.asked == needed - first
        assert stage.masked("whole.jsonl") == alone


def test_share_of_failures() -> None:
    """A percentage of --max-failures is one of the shard's own groups."""
    with staged(LINES, say=failing(lambda request: True)) as stage:
        most = MaxFailures(50, percent=True)
        done = run_shard(
            stage, ".jsonl", 1, 4, max_failures=most, concurrency=1
        )
        assert done.stopped is not None
        own = done.summary.total
        assert own is not None
        assert own < len(GROUPS) / 2
        assert own / 2 < sum(done.summary.failed.values()) <= own / 2 + 2


def test_dropped() -> None:
    """A shard drops its own failed groups, and leaves out those of others silently."""

    def broken(request: Request) -> bool:
        return group_of(request) in ("g3", "g4", "g5", "g6")

    with staged(LINES, say=failing(broken)) as stage:
        written = [
            run_shard(stage, ".jsonl", n, 3, on_failure="drop").summary.written
            for n in (1, 2, 3)
        ]
        assert sum(written) == len(GROUPS) - 4
        together = failed(stage, 1) + failed(stage, 2) + failed(stage, 3)
        assert together == Counter(LINES[3:7])


def test_columns() -> None:
    """A record whose groups belong to several shards is refused with a way out."""
    records = (
        (ROOT / "samples" / "formats" / "ms_swift.jsonl")
        .read_bytes()
        .splitlines()
    )
    with staged(records) as stage, pytest.raises(UsageError, match="split -n"):
        refused(stage, reading={"shard": Shard(1, 2)})


@pytest.mark.parametrize("output", ["in.jsonl", "./in.jsonl"])
def test_in_place(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OUTPUT of a shard is never INPUT, whose other records would be lost."""
    monkeypatch.chdir(tmp_path)
    stage = Stage(tmp_path, monkeypatch, GROUPS, Stub())
    with pytest.raises(
        UsageError, match="is INPUT, of which only a part would be left"
    ):
        refused(
            stage,
            source="in.jsonl",
            output=output,
            reading={"shard": Shard(1, 2)},
        )
    assert stage.records("in.jsonl") == GROUPS
