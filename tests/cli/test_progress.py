"""The counter of a slow command."""

from __future__ import annotations

import sys

import pytest

from ruler_cli.cli import progress


@pytest.mark.parametrize(("tty", "moment"), [(True, 0), (True, 3600), (False, 0)])
def test_bar(
    tty: bool, moment: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups are counted on a terminal, after a moment; elsewhere nothing is written."""
    monkeypatch.setattr(progress, "_COUNTER_DELAY", moment)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    with progress.group_counter() as one:
        for _ in range(3):
            one()
    assert ("group" in capsys.readouterr().err) is (tty and not moment)
