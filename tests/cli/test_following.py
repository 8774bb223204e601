"""The command that follows one is whole: input, options and ledger, and nothing that it does not take."""

from __future__ import annotations

import pytest

from ruler_cli.cli.following import on_ledger, scoring


@pytest.mark.parametrize(
    ("words", "requests", "says"),
    [
        ("in.jsonl -m openai/o3 --wait", None, "in.jsonl OUTPUT -m openai/o3"),
        ("--wait --timeout 5 --settle=1 in.jsonl", None, "in.jsonl OUTPUT"),
        ("--passes 3 in.jsonl r.jsonl --target vllm", "r.jsonl", "--passes 3 in.jsonl OUTPUT"),
        ("in.jsonl in.jsonl --ledger l", "in.jsonl", "in.jsonl OUTPUT --ledger l"),
        ("- r.jsonl --target=vllm", "r.jsonl", "- OUTPUT"),
    ],
)
def test_scoring(words: str, requests: str | None, says: str) -> None:
    """OUTPUT stands behind INPUT, and what only the other command takes is left out."""
    given = words.split()
    source = "-" if given[0] == "-" else "in.jsonl"
    assert scoring(given, source, requests) == f"ruler score {says} --cached-only"


def test_can_be_copied() -> None:
    """Words are quoted as a shell needs it, and an address is shown without what it holds of keys."""
    source = "https://host/in.jsonl?token=secret"
    told = scoring([source, "--rubric", "be kind; rm -r x"], source)
    assert "--rubric 'be kind; rm -r x'" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("batch collect", ""),
        ("batch collect --ledger l.sqlite", " --ledger l.sqlite"),
        ("batch collect --ledger=l.sqlite --wait", " --ledger l.sqlite"),
        ("render a b --ledger first --ledger second", " --ledger first"),
    ],
)
def test_on_ledger(line: str, says: str) -> None:
    """What follows names the ledger that is written, where the command line does."""
    assert on_ledger(line.split()) == says
