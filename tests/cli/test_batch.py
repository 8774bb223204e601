"""`ruler batch` as a shell runs it; its results give the output of a live run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import BatchServer

GROUPS = [group(f"g{i}", 0.25, (i % 5) / 4, 0.5) for i in range(6)]
_TIMES = re.compile(
    rb'"(?:judged_at": ?"[^"]+"|(?:latency_s|prompt_tokens|cost_usd)": ?(?:[0-9.e-]+|null)'
    rb'|cached": ?(?:true|false))'
)
"""Fields in which a batch and a live run differ: prompts to a loopback endpoint have ids and are longer."""
REFUSED = (
    ("submit none.jsonl -m openai/m", 2, "none.jsonl"),
    ("submit in.jsonl -m offline", 2, "openai/… or anthropic/…"),
    ("submit in.jsonl -m gemini/gemini-2.5-pro", 2, "ruler batch export"),
    ("submit in.jsonl -m openai/m --ledger none", 2, "--ledger none"),
    ("submit in.jsonl -m openai/m --max-cost 1", 2, "--price"),
    (
        "submit in.jsonl -m openai/gpt-4o --max-cost 0.0001",
        4,
        "nothing was submitted",
    ),
    (
        "submit in.jsonl -m openai/m --set settle=nan",
        2,
        "'nan' is not 0 or more",
    ),
    ("status --ledger none", 2, "--ledger none"),
    ("collect --ledger none.sqlite", 0, "no batch is open"),
)
Batch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def batches() -> Iterator[BatchServer]:
    """Both batch APIs; a batch advances by one step at each query."""
    with BatchServer(pace="retrieve") as server:
        yield server


def given(server: BatchServer) -> dict[str, str]:
    """Environment variables of the providers."""
    return {
        "OPENAI_API_KEY": "sk-0123456789abcdef",
        "OPENAI_BASE_URL": server.openai,
        "ANTHROPIC_API_KEY": "sk-0123456789abcdef",
        "ANTHROPIC_BASE_URL": server.anthropic,
        "RULER_SETTLE": "0.3",
    }


@pytest.fixture
def batch(
    ruler: Ruler,
    batches: BatchServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Batch:
    """Run `ruler` with a provider, in a folder that holds the input; polls follow fast."""
    monkeypatch.setattr("ruler_cli.runs.batch.batches._FIRST_PAUSE", 0.05)
    write(tmp_path / "in.jsonl", GROUPS)

    def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
        return ruler(*args, **{**given(batches), **env})

    return run


def test_another_key(batch: Batch, batches: BatchServer) -> None:
    """Only the command line names another key for batches that are out: they may be at another endpoint."""
    assert (
        batch("batch", "submit", "in.jsonl", "-m", "openai/gpt-4o").returncode
        == 0
    )
    other = "sk-another-0123456789"
    assert (
        batch(
            "batch", "status", RULER_API_KEY_ENV="OTHER", OTHER=other
        ).returncode
        == 0
    )
    assert other not in batches.keys
    batch("batch", "status", "--api-key-env", "OTHER", OTHER=other)
    assert other in batches.keys


def test_whole_round(
    batch: Batch, batches: BatchServer, tmp_path: Path
) -> None:
    """Submit, status, collect and score: each command reports its result and names the next step."""
    done = batch("batch", "submit", "in.jsonl", "-m", "openai/gpt-4o")
    assert (done.returncode, done.stderr.count("warning")) == (0, 0)
    assert re.search(
        r"\(batch_0001\): submitted, openai/gpt-4o, 6 requests, about \$0\.0",
        done.stdout,
    )
    assert "submitted: 6 requests\n" in done.stderr
    again = batch("batch", "submit", "in.jsonl", "-m", "openai/gpt-4o")
    assert (again.returncode, again.stdout) == (0, "")
    assert "already in open batches: 6 requests" in again.stderr
    assert again.stderr.endswith("next: ruler batch collect\n")

    shown = batch("batch", "status")
    assert shown.returncode == 0
    assert (
        "(batch_0001): in_progress, openai/gpt-4o, 6 requests" in shown.stdout
    )
    facts = json.loads(batch("batch", "status", "--json").stdout)
    (one,) = facts["batches"]
    assert (one["state"], one["requests"], one["remote"]["succeeded"]) == (
        "submitted",
        6,
        6,
    )

    early = batch(
        "score", "in.jsonl", "out.jsonl", "-m", "openai/gpt-4o", "--cached-only"
    )
    assert early.returncode == 1
    collected = batch("batch", "collect", "--wait")
    assert collected.returncode == 0
    assert ": collected, openai/gpt-4o, 6 requests" in collected.stdout
    assert "6 requests answered" in collected.stdout
    assert collected.stderr == (
        "ruler: no batch is open\n"
        "ruler: next: ruler score INPUT OUTPUT --cached-only, with the options of `ruler batch submit`\n"
    )
    assert batch("batch", "status").stderr == "ruler: no batch is open\n"
    (one,) = json.loads(batch("batch", "status", "--all", "--json").stdout)[
        "batches"
    ]
    assert (one["state"], one["answered"], one["left_out"], one["remote"]) == (
        "collected",
        6,
        0,
        None,
    )
    assert (
        batch(
            "score",
            "in.jsonl",
            "out.jsonl",
            "-m",
            "openai/gpt-4o",
            "--cached-only",
        ).returncode
        == 0
    )
    assert (batches.created, batches.billed, batches.billed_again) == (1, 6, 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("openai", ["--passes", "3", "--set", "adaptive=true"]),
        ("anthropic", ["--passes", "3", "--seed", "4"]),
    ],
)
def test_as_live(
    name: str,
    options: list[str],
    batch: Batch,
    batches: BatchServer,
    tmp_path: Path,
) -> None:
    """Results of batches are written as in a live run, byte for byte except for times and `cached`.

    The other API names the model in another way.
    """
    batches.conduct.pace, model = "at once", f"{name}/m"
    for _ in range(4):
        done = batch(
            "batch",
            "submit",
            "in.jsonl",
            "-m",
            model,
            *options,
            "--wait",
            RULER_LEDGER="one.sqlite",
        )
        assert done.returncode == 0, done.stderr
        if "no request is missing" in done.stderr:
            break
    billed = batches.billed
    cached = ["--ledger", "one.sqlite", "-m", model, *options]
    assert (
        batch(
            "score", "in.jsonl", "cached.jsonl", *cached, "--cached-only"
        ).returncode
        == 0
    )
    assert batch("score", "in.jsonl", "plain.jsonl", *cached).returncode == 0
    assert batches.store.judge.rates.requests == billed
    live = [
        "--ledger",
        "two.sqlite",
        "-m",
        model,
        *options,
        "--set",
        "via=http",
    ]
    if name == "anthropic":  # the same judge through the other API
        live += ["--api-base", batches.openai]
    assert batch("score", "in.jsonl", "live.jsonl", *live).returncode == 0
    written = [
        _TIMES.sub(b"", (tmp_path / f"{file}.jsonl").read_bytes())
        for file in ("cached", "plain", "live")
    ]
    if name == "anthropic":
        written[2] = written[2].replace(
            b'"served":["anthropic/m"]', b'"served":["m"]'
        )
    assert written[0] == written[1] == written[2]
    assert batches.billed_again == 0


def test_partial_results(batch: Batch, batches: BatchServer) -> None:
    """The exit code is 1 while requests are missing, and the next round submits the rest."""
    args = [
        "batch",
        "submit",
        "in.jsonl",
        "-m",
        "openai/some-row-expired",
        "--wait",
    ]
    first = batch(*args)
    assert first.returncode == 1
    assert (
        "4 requests answered, 2 requests to be submitted again" in first.stdout
    )
    assert "the same `ruler batch submit`" in first.stderr
    assert batch(*args).returncode == 0
    batch("batch", "submit", "in.jsonl", "-m", "openai/m")
    out = batch("batch", "collect")
    assert (out.returncode, ": in_progress, openai/m" in out.stdout) == (
        1,
        True,
    )


def test_cancel(batch: Batch) -> None:
    """A batch is canceled by its tag, by its id or with all others; its finished answers are collected."""
    batch("batch", "submit", "in.jsonl", "-m", "openai/m")
    assert batch("batch", "cancel").returncode == 2
    assert batch("batch", "cancel", "nothing-like-it").returncode == 2
    done = batch("batch", "cancel", "batch_0001")
    assert (done.returncode, "cancelling" in done.stdout) == (0, True)
    assert batch("batch", "collect", "--wait").returncode == 1
    batch("batch", "submit", "in.jsonl", "-m", "openai/m")
    given_up = batch("batch", "cancel", "--all", "--forget")
    assert ": abandoned, openai/m, 6 requests" in given_up.stdout
    assert (
        batch("batch", "cancel", "--all").stderr == "ruler: no batch is open\n"
    )


def test_refused(
    batch: Batch, batches: BatchServer, subtests: pytest.Subtests
) -> None:
    """An impossible command is reported before anything is sent, with the way out."""
    for line, code, message in REFUSED:
        with subtests.test(line=line):
            done = batch("batch", *line.split())
            assert (done.returncode, batches.steps) == (code, [])
            assert message in done.stderr


def test_no_key(batch: Batch) -> None:
    """A missing key is reported before anything is read, and by `collect` too."""
    batch("batch", "submit", "in.jsonl", "-m", "openai/m")
    for command in (["submit", "in.jsonl", "-m", "openai/m"], ["collect"]):
        done = batch("batch", *command, OPENAI_API_KEY="")
        assert (
            done.returncode,
            "OPENAI_API_KEY is not set" in done.stderr,
        ) == (
            2,
            True,
        )
        assert "name another variable with --api-key-env VAR" in done.stderr
    shown = batch("batch", "status", OPENAI_API_KEY="")
    assert shown.returncode == 3
    assert "batch_0001" in shown.stdout


def test_interrupted(
    batch: Batch, batches: BatchServer, tmp_path: Path
) -> None:
    """Ctrl-C ends a waiting command at once, and nothing is lost."""
    batches.conduct.pace = "advance"
    submit = ["batch", "submit", "in.jsonl", "-m", "openai/m", "--wait"]
    code, message = _interrupted(
        submit, batches, tmp_path, lambda: batches.steps.count("retrieve") > 1
    )
    assert code == 130
    assert "to resume: ruler batch submit in.jsonl" in message
    batches.advance(3)
    assert batch("batch", "collect", "--ledger", "l.sqlite").returncode == 0
    assert (batches.billed, batches.billed_again) == (6, 0)


def _interrupted(
    args: list[str],
    server: BatchServer,
    folder: Path,
    ready: Callable[[], bool],
) -> tuple[int, str]:
    """Return the exit code and stderr of a process that gets Ctrl-C once it is `ready`."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **given(server),
        "RULER_LEDGER": "l.sqlite",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "ruler_cli", *args],
        cwd=folder,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 60
        while (
            not ready() and time.monotonic() < until and process.poll() is None
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=60)[1]
    return process.returncode, message


def test_live_run_beside(batch: Batch) -> None:
    """A live run warns that it pays twice for open requests; a cached-only run names `collect`."""
    batch("batch", "submit", "in.jsonl", "-m", "openai/m")
    cached = batch(
        "score", "in.jsonl", "out.jsonl", "-m", "openai/m", "--cached-only"
    )
    assert "ruler batch collect" in cached.stderr
    live = batch("score", "in.jsonl", "out.jsonl", "-m", "openai/m")
    assert "6 requests of this ledger are in open batches" in live.stderr
    batch("batch", "collect", "--wait")
    assert (
        "in open batches"
        not in batch("score", "in.jsonl", "out.jsonl", "-m", "openai/m").stderr
    )
    batch("batch", "submit", "in.jsonl", "-m", "openai/m", "--seed", "1")
    whole = batch(
        "score", "in.jsonl", "out.jsonl", "-m", "openai/m", "--cached-only"
    )
    assert (whole.returncode, "batch collect" in whole.stderr) == (0, False)


def test_hostile_provider(batch: Batch, batches: BatchServer) -> None:
    """A provider's text reaches the terminal only with escapes."""
    batch("batch", "submit", "in.jsonl", "-m", "openai/m\x1b[31m")
    for command in (["status"], ["status", "--json"], ["collect", "--wait"]):
        done = batch("batch", *command)
        assert "\x1b" not in done.stdout + done.stderr


def test_format_refused(batch: Batch, batches: BatchServer) -> None:
    """If an endpoint refuses the answer format, the command names the option that helps, and it works."""
    batches.conduct.pace = "at once"
    args = ["in.jsonl", "-m", "openai/schema-refused"]
    done = batch("batch", "submit", *args, "--wait")
    assert done.returncode == 1
    assert "set what it takes with -p, e.g. response_format=null" in done.stderr
    less = ["-p", 'response_format={"type":"json_object"}']
    assert batch("batch", "submit", *args, *less, "--wait").returncode == 0
    assert (
        batch(
            "score",
            "in.jsonl",
            "out.jsonl",
            "-m",
            args[2],
            *less,
            "--cached-only",
        ).returncode
        == 0
    )
