"""`ruler ledger` as scripts and people see it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import CallError, Reply
from tests.conftest import ROOT, Ruler

BODY = {
    "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 100_000},
}


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """A ledger with two replies and a failed call of a known model, and a reply of an unknown one."""
    path = tmp_path / "cache" / "ruler" / "ledger.sqlite"
    answer = reply_of(json.dumps(BODY).encode())
    assert isinstance(answer, Reply)
    with Ledger(path) as ledger:
        ledger.keep_all([(b"1", "openai/gpt-4o", answer)])
        ledger.keep_all([(b"2", "openai/gpt-4o", answer)])
        ledger.keep_all(
            [(b"3", "openai/gpt-4o", CallError("refused", "no", "group"))]
        )
        ledger.keep_all([(b"4", "mine\x1b[31m\n", answer)])
        ledger._written.connection.execute(
            "UPDATE replies SET at = 1000000000 + id"
        )
    return path


def test_path(ruler: Ruler, tmp_path: Path) -> None:
    """`path` prints one path, for a script: the default, the variable's or the option's."""
    cache = tmp_path / "cache"
    default = ruler("ledger", "path", XDG_CACHE_HOME=str(cache))
    assert (default.returncode, default.stdout) == (
        0,
        f"{cache}/ruler/ledger.sqlite\n",
    )
    assert ruler("ledger", "path", RULER_LEDGER="/a b/c").stdout == "/a b/c\n"
    assert (
        ruler("ledger", "path", "--ledger", "x/y", RULER_LEDGER="/a b/c").stdout
        == "x/y\n"
    )
    assert not cache.exists()


def test_missing_ledger(ruler: Ruler, tmp_path: Path) -> None:
    """A missing ledger has no rows, and `stats` creates none."""
    cache = str(tmp_path / "cache")
    assert (
        "it is empty" in ruler("ledger", "stats", XDG_CACHE_HOME=cache).stdout
    )
    output = json.loads(
        ruler("ledger", "stats", "--json", XDG_CACHE_HOME=cache).stdout
    )
    assert (output["models"], output["first"], output["bytes"]) == ([], None, 0)
    cleared = ruler("ledger", "clear", XDG_CACHE_HOME=cache)
    assert (cleared.returncode, "removed nothing" in cleared.stdout) == (
        0,
        True,
    )
    assert not (tmp_path / "cache").exists()


def test_stats(ruler: Ruler, ledger_path: Path) -> None:
    """Each model has a row: its replies, tokens and, if it is known, list price."""
    done = ruler("ledger", "stats", "--ledger", ledger_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (
        "openai/gpt-4o rows answer 2, fault 1, prompt_tokens 2,000,000, completion_tokens 200,000, cost_usd 7"
    ) in lines
    assert (
        "mine\\x1b[31m\\n rows answer 1, prompt_tokens 1,000,000, completion_tokens 100,000"
    ) in lines
    assert "2001-09-09T01:46:41Z" in done.stdout
    assert "\x1b" not in done.stdout


def test_clear(ruler: Ruler, ledger_path: Path) -> None:
    """Without a terminal `clear` needs --yes, and says how much it would remove; then it removes it."""
    command = ("ledger", "clear", "--ledger", ledger_path)
    for more, words in (
        ((), "4 replies ("),
        (("--older-than", 2), "4 replies older than 2 days ("),
    ):
        done = ruler(*command, *more)
        assert (done.returncode, done.stdout) == (2, "")
        for part in (words, str(ledger_path), "--yes"):
            assert part in done.stderr
    with Ledger(ledger_path) as ledger:
        assert sum(ledger.stats().rows.values()) == 4
        ledger._written.connection.execute(
            "UPDATE replies SET at = ? WHERE id = 1", (time.time() - 86400,)
        )
        some = ruler(*command, "--older-than", 2, "--yes")
        assert (some.returncode, "removed 3 replies" in some.stdout) == (
            0,
            True,
        )
        assert (
            "removed 0 replies"
            in ruler(*command, "--older-than", 2, "--yes").stdout
        )
        rest = ruler(*command, "--yes")
        assert (rest.returncode, "removed 1 reply " in rest.stdout) == (0, True)
        assert ledger.find(b"1") is None


@pytest.mark.parametrize(
    ("answer", "more", "left"),
    [("n", (), 4), ("y", (), 0), ("", ("--yes",), 0)],
)
def test_clear_asks(
    answer: str, more: tuple[str, ...], left: int, ledger_path: Path
) -> None:
    """On a terminal `clear` asks first, unless --yes is given."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruler_cli",
                "ledger",
                "clear",
                "--ledger",
                str(ledger_path),
                *more,
            ],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == (1 if left else 0)
    assert ("Remove 4 replies" in done.stderr) is not bool(more)
    with Ledger(ledger_path) as ledger:
        assert sum(ledger.stats().rows.values()) == left
