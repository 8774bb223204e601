"""Foreign keys on stderr, and the next command."""

from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.cli.messages import (
    ledger_options,
    parse_key,
    printable_key,
    score_command,
)
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
    lines = {
        (
            "--wait --timeout 5 --settle=1 in.jsonl -m openai/o3",
            None,
        ): "in.jsonl OUTPUT -m openai/o3",
        (
            "--passes 3 in.jsonl r.jsonl --target vllm",
            "r.jsonl",
        ): "--passes 3 in.jsonl OUTPUT",
        ("in.jsonl in.jsonl --ledger l", "in.jsonl"): "in.jsonl OUTPUT --ledger l",
        ("in.jsonl --no-cache r.jsonl --ledger=none", "r.jsonl"): "in.jsonl OUTPUT",
        ("in.jsonl --config lab.toml", None): "in.jsonl OUTPUT --config lab.toml",
    }
    for (words, requests), message in lines.items():
        assert (
            score_command(words.split(), "in.jsonl", requests)
            == f"ruler score {message} --cached-only"
        )
    address = "https://host/in.jsonl?token=secret"
    printed = score_command([address, "--rubric", "be kind; rm -r x"], address)
    assert "--rubric 'be kind; rm -r x'" in printed
    assert "secret" not in printed
    assert (
        ledger_options(["collect", "--ledger=l.sqlite", "--ledger", "second"])
        == " --ledger l.sqlite"
    )
    assert (
        ledger_options(["collect", "--config=f", "--ledger", "none"]) == " --config f"
    )
    assert ledger_options(["collect"]) == ""
