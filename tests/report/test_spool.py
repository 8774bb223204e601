"""Temporary files for which there is no room."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError
from ruler_cli.report.html import write_html
from ruler_cli.settings import InputSettings
from tests.report.pages import group, rollout, written


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("most", [1, 100])
def test_no_room_is_told_as_it_is(most: int, tmp_path: Path) -> None:
    """Where a temporary file has no room the sentence says so, and nothing is left behind."""
    dice = random.Random(1)
    texts = [dice.randbytes(2000).hex() for _ in range(100)]
    source = written(
        tmp_path / "s.jsonl", *(group(f"g{n}", rollout(text), rollout(n)) for n, text in enumerate(texts))
    )
    place = InputSettings(f"{source}")
    with no_file_beyond(2000), pytest.raises(OutputError, match="temporary file cannot be written: File too"):
        write_html(place, str(tmp_path / "o.html"), on_problem=lambda _: None, most=most)
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]
