"""Foreign keys on stderr, and the next command."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.cli.command import ledger_command, score_command
from ruler_cli.cli.safe_text import parse_key, printable_key
from ruler_cli.settings.load import read_options
from ruler_cli.settings.options import FIELDS
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


def test_next_command() -> None:
    """OUTPUT follows INPUT, no option is left that `score` refuses, and no secret is printed."""
    lines: dict[str, dict[str, Any]] = {
        "-m openai/o3": {"wait": True, "settle": "1", "model": ["openai/o3"]},
        "--passes 3": {"passes": "3", "target": "vllm"},
        "--ledger l": {"ledger": "l"},
        "": {"ledger": ["none"]},
    }
    for message, typed in lines.items():
        options = read_options("batch export", FIELDS, typed, "none")
        line = f"ruler score in.jsonl OUTPUT {message} --config none --cached-only"
        assert score_command(options, "in.jsonl") == " ".join(line.split())
    options = read_options("batch export", FIELDS, {"rubric": "be kind; rm -r x"}, None)
    printed = score_command(options, "https://host/in.jsonl?token=secret")
    assert "--rubric 'be kind; rm -r x'" in printed
    assert "secret" not in printed
    options = read_options("batch collect", FIELDS, {"ledger": "l", "wait": True}, None)
    assert ledger_command(options, "batch collect") == "ruler batch collect --ledger l"
    options = read_options("batch collect", FIELDS, {"ledger": "none"}, None)
    assert ledger_command(options, "batch collect") == "ruler batch collect"
