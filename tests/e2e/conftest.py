"""A real model for the tests of this folder, which run with `make e2e` only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.command import Done, run_here
from tests.conftest import Ruler
from tests.e2e.llama import Llama, missing
from tests.e2e.recorder import Recorder
from tests.e2e.runs import CONTEXT, NARROW, Run

_LONGEST = 1800
"""Seconds of a command on a machine that runs other programs too."""


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """llama.cpp's server with two slots, for the session."""
    if reason := missing():
        pytest.skip(reason)
    with Llama(
        tmp_path_factory.mktemp("llama"), context=CONTEXT, slots=2
    ) as server:
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


@pytest.fixture
def score(judge: Recorder, ruler: Ruler, tmp_path: Path) -> Callable[..., Run]:
    """Run `ruler score` with the model, and return the run."""
    return partial(_score, judge, ruler, tmp_path)


@pytest.fixture
def short(narrow: Recorder, ruler: Ruler, tmp_path: Path) -> Callable[..., Run]:
    """Do the same with the model that holds few tokens."""
    return partial(_score, narrow, ruler, tmp_path)


def _score(
    judge: Recorder,
    ruler: Ruler,
    folder: Path,
    source: Path,
    *options: object,
) -> Run:
    begun = len(judge.seen)
    out, summary = folder / "out.jsonl", folder / "summary.json"
    done = ruler(
        *(
            "score",
            source,
            out,
            "-m",
            "hosted_vllm/smollm2",
            "--api-base",
            judge.base,
        ),
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
    return Run(done, out, json.loads(summary.read_bytes()), judge.seen[begun:])
