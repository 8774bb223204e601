"""`ruler batch export` as scripts and people see it: from request files back to scores."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import pytest

from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import words_of
from tests.conftest import Ruler, group, rollout, write
from tests.judge_server import JudgeServer

GROUPS = [group(f"g{i}", 0.1, 0.3 + i / 100, 0.9) for i in range(12)]
LONG = {
    "group_id": "long",
    "trajectories": [
        rollout(i / 30, f"l-{i} " + "word " * 200) for i in range(24)
    ],
}
_MOST = 12
"""Rounds after which no request is missing."""


def answer(path: Path, server: JudgeServer, ledger: Path, model: str) -> int:
    """Answer each request of a file with the judge server, as an engine does, and write the replies."""
    lines = path.read_bytes().splitlines()
    with Ledger(ledger) as database:
        for line in reversed(lines):  # an engine keeps no order
            row = orjson.loads(line)
            post = urllib.request.Request(
                server.base + "/chat/completions", orjson.dumps(row["body"])
            )
            key = bytes.fromhex(row["custom_id"])
            try:
                with server.opener.open(post, timeout=10) as reply:
                    answer = reply_of(reply.read())
            except urllib.error.HTTPError as error:
                code, message = error_of(error.read())
                answer = classify(
                    error.code, code, message, dict(error.headers)
                )
            database.keep_all([(key, model, answer)])
    return len(lines)


def masked(path: Path) -> bytes:
    """An output without times, `cached`, and the tokens of prompts: a run may ask for another form of the answer."""
    return re.sub(
        rb'"judged_at": ?"[^"]+"|"cached": ?\w+|"(?:latency_s|prompt_tokens)": ?[0-9.]+',
        b"",
        path.read_bytes(),
    )


@pytest.mark.parametrize(
    ("cue", "options"),
    [
        (
            "good",
            ["--passes", "3", "--group-size", "8", "--set", "adaptive=true"],
        ),
        (
            "once-not-json",
            [
                "--set",
                "order=input",
                "--seed",
                "7",
                "--rubric",
                "Be strict.",
                "-p",
                "temperature=0.5",
            ],
        ),
        ("400-context", ["--passes", "2"]),
    ],
)
def test_round_trip(
    cue: str,
    options: list[str],
    ruler: Ruler,
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    """Rendered, answered and imported requests give the output of a live run, except for times."""
    write(tmp_path / "in.jsonl", [*GROUPS[:6], LONG, *GROUPS[6:]])
    model = f"openai/{cue}"
    there = [*options, "-m", model, "--api-base", server.base]
    live = ruler(
        "score",
        "in.jsonl",
        "live.jsonl",
        *there,
        "--ledger",
        "live.sqlite",
        "--set",
        "retries=0",
    )
    server.reset()
    for _ in range(_MOST):
        done = ruler(
            "batch",
            "export",
            "in.jsonl",
            "requests.jsonl",
            *there,
            "--ledger",
            "l.sqlite",
        )
        assert done.returncode == 0, done.stderr
        assert (
            server.stats()["requests"] == 0 or (tmp_path / "l.sqlite").exists()
        )
        if not answer(
            tmp_path / "requests.jsonl", server, tmp_path / "l.sqlite", model
        ):
            break
    before = server.stats()["requests"]
    cached = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        *there,
        "--ledger",
        "l.sqlite",
        "--cached-only",
    )
    assert server.stats()["requests"] == before
    assert cached.returncode == live.returncode
    assert masked(tmp_path / "out.jsonl") == masked(tmp_path / "live.jsonl")


def test_no_side_effects(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """`render` needs no key, sends no request and creates no ledger."""
    write(tmp_path / "in.jsonl", GROUPS)
    done = ruler(
        *words_of("batch export in.jsonl r.jsonl -m openai/o3"),
        OPENAI_BASE_URL=server.base,
    )
    assert done.returncode == 0
    assert "r.jsonl: 12 requests\n" in done.stderr
    assert done.stdout == ""
    assert server.stats()["requests"] == 0
    assert not Path(ruler("ledger", "path").stdout.strip()).exists()


def test_stdout(ruler: Ruler, process: Ruler, tmp_path: Path) -> None:
    """`-` is stdout, with the bytes of a file, from a pipe too; so is a link to a pipe."""
    write(tmp_path / "in.jsonl", GROUPS)
    ruler(*words_of("batch export in.jsonl r.jsonl -m openai/o3"))
    text = (tmp_path / "r.jsonl").read_text()
    assert (
        ruler(*words_of("batch export in.jsonl - -m openai/o3")).stdout == text
    )
    piped = ruler(
        *words_of("batch export - - -m openai/o3"),
        stdin=(tmp_path / "in.jsonl").read_text(),
    )
    assert piped.stdout == text
    assert "stdout: 12 requests" in piped.stderr
    assert (
        process(
            *words_of("batch export in.jsonl /dev/stdout -m openai/o3")
        ).stdout
        == text
    )


def test_nothing_missing(ruler: Ruler, tmp_path: Path) -> None:
    """If the ledger answers all requests, the file is empty, so that `[ -s FILE ]` tests for missing ones."""
    write(tmp_path / "in.jsonl", [])
    done = ruler("batch", "export", "in.jsonl", "r.jsonl")
    assert done.returncode == 0
    assert "no request is missing" in done.stderr
    assert (tmp_path / "r.jsonl").read_bytes() == b""


def test_panel(ruler: Ruler, tmp_path: Path) -> None:
    """Each judge of a panel has its own files, in the format of its API."""
    write(tmp_path / "in.jsonl", GROUPS[:2])
    judges = [
        "-m",
        "openai/o3",
        "-m",
        "anthropic/claude-sonnet-4-5",
        "-m",
        "hosted_vllm/Qwen/Qwen3-8B",
    ]
    assert (
        ruler("batch", "export", "in.jsonl", "r.jsonl", *judges).returncode == 0
    )
    rows = {
        path.name: orjson.loads(path.read_bytes().splitlines()[0])
        for path in tmp_path.glob("r.*")
    }
    assert set(rows) == {
        "r.1.jsonl",
        "r.2.jsonl",
        "r.3.jsonl",
    }
    assert rows["r.2.jsonl"]["params"]["model"] == "claude-sonnet-4-5"
    assert rows["r.3.jsonl"]["body"]["model"] == "Qwen/Qwen3-8B"
    refused = ruler("batch", "export", "in.jsonl", "-", *judges)
    assert (refused.returncode, "one model" in refused.stderr) == (2, True)


def test_skipped_groups(ruler: Ruler, tmp_path: Path) -> None:
    """Unreadable lines and groups with nothing to judge are reported; the rest is written."""
    write(
        tmp_path / "in.jsonl",
        [GROUPS[0], {"no": "group"}, {"group_id": "x", "trajectories": []}],
    )
    done = ruler(*words_of("batch export in.jsonl r.jsonl -m openai/o3"))
    assert done.returncode == 1
    assert "line 2" in done.stderr
    assert "cannot be asked about: 1 group" in done.stderr
    assert len((tmp_path / "r.jsonl").read_bytes().splitlines()) == 1


def test_existing_files(ruler: Ruler, tmp_path: Path) -> None:
    """Rollouts are not overwritten, and an earlier request file stays if nothing can be rendered."""
    write(tmp_path / "in.jsonl", GROUPS)
    ruler(*words_of("batch export in.jsonl r.jsonl -m openai/o3"))
    (tmp_path / "bad.jsonl").write_text('{"no": "rollouts"}\n' * 3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for names in (
        ("in.jsonl", "in.jsonl"),
        ("r.jsonl", "in.jsonl"),
        ("bad.jsonl", "r.jsonl"),
    ):
        assert (
            ruler("batch", "export", *names, "-m", "openai/o3").returncode == 2
        )
        assert {
            path.name: path.read_bytes() for path in tmp_path.iterdir()
        } == before


def test_same_requests_as_prompt(ruler: Ruler, tmp_path: Path) -> None:
    """A row holds the request that `ruler prompt` prints."""
    write(tmp_path / "in.jsonl", GROUPS[:1])
    body: Any = orjson.loads(
        ruler(*words_of("batch export in.jsonl - -m openai/o3")).stdout
    )["body"]
    printed = ruler("prompt", "in.jsonl", "-m", "openai/o3").stdout
    system, user = (message["content"] for message in body["messages"])
    assert printed == f"system:\n{system}\n\nuser:\n{user}\n"
