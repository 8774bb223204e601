"""The file that a report becomes."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.report.target import Target


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """Before `commit` the old file is there, behind it the new one, and nothing else is left."""
    path = tmp_path / "report.html"
    path.write_text("old")
    with Target(str(path), "-") as out:
        out.write("new é")
        assert path.read_text() == "old"
        out.commit()
    assert path.read_text(encoding="utf-8") == "new é"
    assert out.size == 6
    with pytest.raises(RuntimeError), Target(str(path), "-") as out:
        out.write("lost")
        raise RuntimeError
    assert path.read_text(encoding="utf-8") == "new é"
    assert list(tmp_path.iterdir()) == [path]


def test_who_may_read_it_is_as_usual(tmp_path: Path) -> None:
    """A new file has the permissions that the umask leaves, an old one keeps its own."""
    path = tmp_path / "report.html"
    before = os.umask(0o027)
    try:
        for expected in (0o640, 0o604):
            with Target(str(path), "-") as out:
                out.commit()
            assert stat.S_IMODE(path.stat().st_mode) == expected
            path.chmod(0o604)
    finally:
        os.umask(before)


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    """A symbolic link stays one."""
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    with Target(str(tmp_path / "link.html"), "-") as out:
        out.write("x")
        out.commit()
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("report", "report: a report is one HTML file; name it .*report.html, or give `-` for stdout"),
        ("out.jsonl", "name it .*out.html"),
        ("report.html.gz", "a report is one HTML file"),
        ("folder.html", "is a directory; give a file name, such as .*folder.html/report.html"),
        ("none/report.html", "its directory does not exist; create it with: mkdir -p .*none"),
        ("scored.html", "is the scored file itself; give the report another name"),
        ("pipe.html", "is no file; give another name, or `-` for stdout"),
    ],
)
def test_what_cannot_be_a_report_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    """A name that is none is refused in a sentence, before anything is read, and nothing is left."""
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "scored.html").write_text("{}")
    os.mkfifo(tmp_path / "pipe.html")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=sentence):
        Target(str(tmp_path / name), str(tmp_path / "scored.html"))
    assert sorted(tmp_path.iterdir()) == before


def test_an_address_is_no_file() -> None:
    """A report goes to this machine, and the sentence holds no secret of the address."""
    with pytest.raises(UsageError, match="a report is written to a file of this machine") as error:
        Target("s3://user:secret@bucket/report.html", "-")
    assert "secret" not in str(error.value)


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written to its end says so and leaves nothing."""

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "report.html"
    with (
        pytest.raises(OutputError, match="No space left on device; make room"),
        Target(str(path), "-") as out,
    ):
        out.write("x")
        monkeypatch.setattr(os, "fsync", full)
        out.commit()
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's reason stands in the sentence."""

    def denied(*_args: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        Target(str(tmp_path / "report.html"), "-")


def test_stdout_takes_it_as_it_comes(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` is stdout, which stays open; without one there is a sentence."""
    with Target("-", "-") as out:
        out.write("page")
        out.commit()
    assert capfdbinary.readouterr().out == b"page"
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UsageError, match="stdout is closed"):
        Target("-", "-")


def test_no_page_among_what_is_read(tmp_path: Path) -> None:
    """A page in the directory that was read would be read with it the next time, unless it is hidden."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.jsonl").touch()
    for name in ("in/r.html", "in/deep/r.html", "out/../in/r.html"):
        (tmp_path / "out").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="lies in SCORED"):
            Target(str(tmp_path / name), str(tmp_path / "in"))
    for name in ("out/r.html", "in/.r.html", "in2.html"):
        with Target(str(tmp_path / name), str(tmp_path / "in")) as target:
            target.commit()
        assert (tmp_path / name).is_file()
