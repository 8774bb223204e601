"""Groups that are read a second time, from whatever the input is."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.report import chosen
from ruler_cli.report.html import write_html
from ruler_cli.report.kept import Kept
from ruler_cli.settings import InputSettings
from tests.formats.test_every_format import each_layout, scored
from tests.report.pages import MADE, Page, group, piped, report, rollout, written


@each_layout
def test_every_layout_is_the_same_when_read_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `score` wrote in any layout makes one page, at the first look, read again, or from a pipe."""
    scored(name, tmp_path)
    source = tmp_path / "out.jsonl"
    first, said, problems = report(source, tmp_path / "first.html")
    assert not problems
    assert said.overview.groups == said.overview.scored == len(first.data["rows"]["key"])
    monkeypatch.setattr(chosen, "AT_ONCE", 0)
    report(source, tmp_path / "again.html")
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "again.html").read_bytes()
    if said.overview.groups and "scattered" not in said.found:
        with piped(source.read_bytes()):
            page, _, _ = report("-", tmp_path / "piped.html")
        assert page.data["rows"] == first.data["rows"]
        assert page.blocks["texts"] == first.blocks["texts"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_changes_between_two_looks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """What is cut off under the reader is a sentence, and no page appears."""
    monkeypatch.setattr(chosen, "AT_ONCE", 0)
    plain = written(tmp_path / "in.jsonl", *(group(f"g{i}") for i in range(3)))
    source = tmp_path / "in.jsonl.gz" if packed else plain
    fewer = b"\n".join(plain.read_bytes().splitlines()[:2]) + b"\n"
    if packed:
        source.write_bytes(gzip.compress(plain.read_bytes()))
    seen: list[int] = []

    def looked() -> None:
        seen.append(1)
        if len(seen) == 3:
            with source.open("r+b") as file:
                file.truncate()
                file.write(gzip.compress(fewer) if packed else fewer)

    with pytest.raises(UsageError, match="changed while it was read"):
        write_html(
            InputSettings(str(source)),
            str(tmp_path / "report.html"),
            on_problem=lambda _problem: None,
            on_group=looked,
        )
    assert not list(tmp_path.glob("*.html*"))
    assert not list(tmp_path.glob(".*"))


class _Full(io.BytesIO):
    """A temporary file for which there is no room."""

    def write(self, _raw: Any) -> int:
        """Nothing fits."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        """Nor does what was held."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """It held nothing."""


@pytest.mark.parametrize("ready", [0, 1 << 20])
def test_no_room_for_temporary_files_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: int
) -> None:
    """A full temporary directory is named, with the way out."""
    monkeypatch.setattr(chosen, "AT_ONCE", ready)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_options: _Full())
    source = written(tmp_path / "in.jsonl", group("a"))
    with pytest.raises(OutputError, match=r"No space left on device; make room, or name another .* TMPDIR"):
        report(source, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == [source]


def test_a_flush_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a buffer held back is told as well."""
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_options: _Full())
    with ExitStack() as stack, pytest.raises(OutputError, match="make room"):
        Kept(stack).settle()


def test_a_page_of_unmarked_and_suspect_groups_says_so(tmp_path: Path) -> None:
    """The plain figures name what a run cost, what was never asked, and what addresses the judge."""
    asked = group(
        "a",
        rollout("x", 0.2, suspect=True),
        rollout("y", 0.7),
        cost_usd=0.25,
        latency_s=2.0,
        usage={"prompt_tokens": 1_200, "completion_tokens": 34},
        reliability=0.8,
    )
    never = {"group_id": "b", "trajectories": [{"messages": rollout("z")["messages"]}]}
    report(written(tmp_path / "in.jsonl", asked, never), tmp_path / "report.html")
    words = " ".join(" ".join(Page((tmp_path / "report.html").read_text()).words).split())
    assert f"{MADE:%Y-%m-%d}" in words
    for figure in (
        "Groups never asked about 1",
        "Rollouts that address the judge 1",
        "Cost 0.25 USD over 1 group",
        "Tokens 1,200 prompt, 34 completion",
        "Time per group median 2.0 s",
        "Median reliability 0.80 over 1 group",
    ):
        assert figure in words
