"""Screens of the command line, as files: `SCREENS=write python -m pytest …` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("screens")


def same_screen(name: str, shown: str) -> None:
    """Compare what a command showed with the stored screen of this name."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("SCREENS") == "write":
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
