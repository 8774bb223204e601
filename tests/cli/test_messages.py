"""Foreign keys on stderr, and the next command."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.cli.command import command_line, ledger_command, score_command
from ruler_cli.cli.safe_text import parse_key, printable_key
from ruler_cli.settings.fields import SECTIONS
from ruler_cli.settings.load import read_options
from tests.on_terminal import RAW

TEXT = st.text(
    st.characters(codec=None) | st.sampled_from("\\'$\"\n\t\x1b\u200d\ufe0f é日"),
    max_size=12,
)


@given(key=TEXT, ascii_only=st.booleans())
def test_printed_key(key: str, *, ascii_only: bool) -> None:
    """A printed key shows every character, fits one line and can be parsed back to the key."""
    printed = printable_key(key, str.isascii) if ascii_only else printable_key(key)
    assert not RAW.search(printed)
    assert "\n" not in printed
    assert parse_key(printed) == key
    assert not ascii_only or printed.isascii()


@settings(max_examples=10)
@given(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12
    )
)
def test_quoted_key(key: str) -> None:
    """A key printed with shell quotes is the key to bash."""
    printed = printable_key(key, str.isascii)
    if printed.startswith("$'"):
        script = f"LC_ALL=C.UTF-8; printf %s {printed}"
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, timeout=30, check=True
        )
        assert done.stdout.decode() == key


def test_plain_key() -> None:
    """A key of plain words is printed as it is."""
    for key in ("task-17", "a b", "日本", "[bold]", "it's", "$HOME", "a\\x1b"):
        assert (printable_key(key), parse_key(key)) == (key, key)


def test_next_command() -> None:
    """OUTPUT follows INPUT, no option is left that `score` refuses, and no secret is printed."""
    lines: dict[str, dict[str, Any]] = {
        "-m openai/o3": {"wait": True, "settle": "1", "model": ["openai/o3"]},
        "--passes 3": {"passes": "3", "target": "vllm"},
        "--ledger l": {"ledger": "l"},
        "": {"ledger": ["none"]},
    }
    for message, typed in lines.items():
        options = read_options("batch export", SECTIONS, typed, "none")
        line = f"ruler score in.jsonl OUTPUT {message} --config none --cached-only"
        assert score_command(options, "in.jsonl") == " ".join(line.split())
    options = read_options(
        "batch export", SECTIONS, {"rubric": "be kind; rm -r x"}, None
    )
    printed = score_command(options, "https://host/in.jsonl?token=secret")
    assert "--rubric 'be kind; rm -r x'" in printed
    assert "secret" not in printed
    options = read_options(
        "batch collect", SECTIONS, {"ledger": "l", "wait": True}, None
    )
    assert ledger_command(options, "batch collect") == "ruler batch collect --ledger l"
    options = read_options("batch collect", SECTIONS, {"ledger": "none"}, None)
    assert ledger_command(options, "batch collect") == "ruler batch collect"


def test_ledger_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is printed names the ledger of a variable: it may be set for this command alone."""
    monkeypatch.setenv("RULER_LEDGER", "my ledger")
    options = read_options("score", SECTIONS, {"passes": "2"}, None)
    line = command_line(options, "score", "a", "b", debug=True)
    assert line == "ruler score a b --ledger 'my ledger' --passes 2 --debug"
