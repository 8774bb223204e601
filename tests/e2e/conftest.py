"""A real model for the tests of this folder, which run with `make e2e` only, and their table of figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, run_here
from tests.conftest import Ruler
from tests.e2e.figures import Figures, figures, table
from tests.e2e.llama import Llama, missing
from tests.e2e.recorder import Recorder
from tests.e2e.runs import CONTEXT, NARROW, Run

_LONGEST = 1800
"""Seconds of a command on a machine that runs other programs too."""
_PROPERTY = "figures of a real model"


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """llama.cpp's server with two slots, for the session."""
    if reason := missing():
        pytest.skip(reason)
    with Llama(tmp_path_factory.mktemp("llama"), context=CONTEXT, slots=2) as server:
        yield server


@pytest.fixture
def ruler(tmp_path: Path) -> Ruler:
    """Run the command in `tmp_path`, in this process, with the patience that a real model takes."""

    def run(*args: object, stdin: str = "", **env: str) -> Done:
        return run_here([*map(str, args)], stdin, tmp_path, env, _LONGEST)

    return run


@pytest.fixture
def judge(llama: Llama) -> Iterator[Recorder]:
    """The model behind a recorder of each request and answer."""
    with Recorder(llama.root) as recorder:
        yield recorder


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Recorder]:
    """The model in a server of its own, with slots of few tokens."""
    if reason := missing():
        pytest.skip(reason)
    with (
        Llama(tmp_path, context=NARROW, slots=2) as server,
        Recorder(server.root) as recorder,
    ):
        yield recorder


Keep = Callable[[str, object], None]


@pytest.fixture
def score(
    judge: Recorder, ruler: Ruler, tmp_path: Path, record_property: Keep
) -> Callable[..., Run]:
    """Run `ruler score` with the model, collect its figures for the table, and return the run."""
    return partial(_score, judge, ruler, tmp_path, record_property)


@pytest.fixture
def short(
    narrow: Recorder, ruler: Ruler, tmp_path: Path, record_property: Keep
) -> Callable[..., Run]:
    """Do the same with the model that holds few tokens."""
    return partial(_score, narrow, ruler, tmp_path, record_property)


def _score(
    judge: Recorder,
    ruler: Ruler,
    folder: Path,
    keep: Keep,
    name: str,
    source: Path,
    *options: object,
) -> Run:
    begun = len(judge.seen)
    out, summary = folder / "out.jsonl", folder / "summary.json"
    done = ruler(
        *("score", source, out, "-m", "hosted_vllm/smollm2", "--api-base", judge.base),
        *(
            "--ledger",
            folder / "ledger.sqlite",
            "--summary",
            summary,
            "--progress",
            "none",
            *options,
        ),
    )
    assert summary.exists(), done.stderr
    result = Run(done, out, json.loads(summary.read_bytes()), judge.seen[begun:])
    keep(_PROPERTY, json.dumps(asdict(figures(name, result.seen, result.summary))))
    return result


_ROWS: list[Figures] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the rows, from workers too: properties travel with the reports."""
    if report.when == "call":
        _ROWS.extend(
            Figures(**json.loads(str(v)))
            for name, v in report.user_properties
            if name == _PROPERTY
        )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures that depend on the model, which no test asserts."""
    if _ROWS:
        terminalreporter.section(
            "what depends on the model: SmolLM2-135M-Instruct, llama.cpp"
        )
        terminalreporter.write_line(table(sorted(_ROWS, key=lambda row: row.run)))
        terminalreporter.write_line(
            "used: replies to first requests that could be used. again: corrective requests. prompt, "
            "completion: tokens a group."
        )
