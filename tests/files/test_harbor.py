"""Harbor jobs: a trial is a record."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from ruler_cli.files import open_container
from ruler_cli.files.containers.harbor import HarborJob, find_trials
from ruler_cli.files.location import Location
from ruler_cli.types import Problem
from tests.files.test_directory import write

STEPS = b'{\n "schema_version": "ATIF-v1.7",\n "steps": []\n}\n'
REWARDED = (
    b'{"task_name": "t", "verifier_result": {"rewards": {"reward": 1.0}}}'
)
PLAIN = b'\n{"task_name": "t", "n": 1.0e2}\n'
FILES = {
    "t__2/result.json": REWARDED,
    "t__2/agent/trajectory.json": STEPS,
    "t__10/result.json": PLAIN,
    "t__10/agent/trajectory.json": STEPS,
    "t__20/result.json": PLAIN,
    "t__20/agent/log.txt": b"crashed",
    "t__21/result.json": b'{"a": 1}, "x": {"b": 1}',
    "t__21/agent/trajectory.json": STEPS,
    "t__22/result.json": PLAIN,
    "t__22/agent/trajectory.json": b'{"steps": oops}',
    "t__23/result.json": PLAIN,
    "result.json": b'{"job": 1}',
    "config.json": b"{}",
}


def opened(root: Path) -> tuple[HarborJob, list[Problem]]:
    """Open a job: the container, and the trials that cannot be read."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        container = open_container(str(root), stack)
    assert isinstance(container, HarborJob)
    assert container.check_files(lambda line: True, problems.append) == []
    return container, problems


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Write a job to disk."""
    return write(tmp_path / "job", FILES)


def test_records(job: Path) -> None:
    """A trial's record contains its result and its trajectory."""
    container, problems = opened(job)
    every = list(container.records())
    assert [line.where for line in every] == ["trial t__2", "trial t__10"]
    values = [json.loads(line.raw) for line in every]
    assert values[0]["result"] == json.loads(REWARDED)
    assert all(STEPS.strip() in line.raw for line in every)
    assert [container.where(line.number) for line in every] == [
        line.place for line in every
    ]
    steps = "agent/trajectory.json"
    assert [(p.place, p.reason) for p in problems] == [
        ("trial t__20", f"has no {steps}"),
        (
            "trial t__21",
            "has a damaged result.json: it is not JSON (unexpected content after document)",
        ),
        (
            "trial t__22",
            f"has a damaged {steps}: it is not JSON (unexpected character, expected a JSON value)",
        ),
        ("trial t__23", f"has no {steps}"),
    ]


def test_steps(tmp_path: Path) -> None:
    """A trial of several steps has their trajectories, in the order of the result, beside trials of one."""
    names = [{"step_name": name} for name in ("make", "check")]
    result = json.dumps({"task_name": "t", "step_results": names}).encode()
    files = {"u/result.json": PLAIN, "u/agent/trajectory.json": STEPS}
    for trial, steps in (("s", ("check", "make")), ("t", ("make",))):
        files[f"{trial}/result.json"] = result
        for step in steps:
            file = f"{trial}/steps/{step}/agent/trajectory.json"
            files[file] = b'{"of": "%s"}' % step.encode()
    container, problems = opened(write(tmp_path / "job", files))
    read = [json.loads(line.raw) for line in container.records()]
    assert [value["trajectory"] for value in read] == [
        [{"of": "make"}, {"of": "check"}],
        json.loads(STEPS),
    ]
    lacking = "has no steps/check/agent/trajectory.json"
    assert [str(problem.reason) for problem in problems] == [lacking]


def test_links(job: Path, tmp_path: Path) -> None:
    """A trial's file that is a link out of the job is not read, though its name is known."""
    (tmp_path / "secret").write_bytes(b'{"secret": 1}')
    for name in ("t__2/agent/trajectory.json", "t__10/agent/x.json"):
        (job / name).unlink(missing_ok=True)
        (job / name).symlink_to(tmp_path / "secret")
    with ExitStack() as stack:
        container = open_container(str(job), stack)
    assert isinstance(container, HarborJob)
    problems: list[Problem] = []
    container.check_files(lambda line: True, problems.append)
    links = [sentence.split()[0] for sentence in container.warnings()]
    assert links == ["t__2/agent/trajectory.json", "t__10/agent/x.json"]
    assert ("trial t__2", "has no agent/trajectory.json") in [
        (p.place, p.reason) for p in problems
    ]
    assert not any(b"secret" in line.raw for line in container.records())


def test_no_job(tmp_path: Path) -> None:
    """Results without any trajectory are no job, and a single trial is one."""
    none = write(tmp_path / "a", {"x/result.json": b"{}", "x/agent/log": b""})
    alone = write(
        tmp_path / "b", {"result.json": b"{}", "agent/trajectory.json": b"{}"}
    )
    assert [
        find_trials(Location(str(root)).listed().names)
        for root in (none, alone)
    ] == [
        [],
        ["."],
    ]


def test_files_of_the_agent(tmp_path: Path) -> None:
    """A trial stays one whatever files the agent leaves in it."""
    names = [
        "t/result.json",
        "t/agent/trajectory.json",
        "t/artifacts/result.json",
        "u/result.json",
        "u/agent/trajectory.json",
        "result.json",
    ]
    assert find_trials(names) == ["t", "u"]
