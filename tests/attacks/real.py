"""Real rollouts and frameworks' examples, if they are beside this checkout, and the samples in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ruler_cli.errors import RulerError
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import AskSettings, InputSettings
from tests.conftest import ROOT, SHARED


def real_dumps() -> list[Path]:
    """Every dump that can be read; none of them is an attack's."""
    dumps = [
        p
        for folder in (SHARED / "data", SHARED / "formats")
        if folder.exists()
        for p in folder.iterdir()
    ]
    return sorted(
        p
        for p in (*dumps, *(ROOT / "samples" / "formats").iterdir())
        if p.suffix != ".md"
    )


def rollouts_of(dump: Path) -> Iterator[str]:
    """Every distinct rollout of a dump as the judge sees it; none if the file is no dump."""
    with ExitStack() as stack:
        try:
            groups = open_input(
                InputSettings(str(dump)), stack, lambda _problem: None
            ).groups
            for group in groups:
                yield from build_layout(group, AskSettings()).distinct
        except RulerError:
            return
