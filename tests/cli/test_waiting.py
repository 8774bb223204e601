"""A bar for who waits, and nothing for who does not."""

from __future__ import annotations

import sys

import pytest

from ruler_cli.cli import waiting as module
from ruler_cli.cli.waiting import waiting


@pytest.mark.parametrize("tty", [True, False])
def test_a_bar_is_for_a_terminal(
    tty: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups are counted where stderr is a terminal; elsewhere nothing is written."""
    monkeypatch.setattr(module, "_MOMENT", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    with waiting() as one:
        for _ in range(3):
            one()
    assert ("group" in capsys.readouterr().err) is tty


def test_nothing_before_a_moment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is done at once shows no bar."""
    monkeypatch.setattr(module, "_MOMENT", 3600)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with waiting() as one:
        one()
    assert capsys.readouterr().err.strip() == ""
