"""`ruler report --open`: the page in the user's browser, or how to open it."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from ruler_cli.results.identity import group_name
from tests.cli.scored import scored
from tests.conftest import Ruler, write

NOWHERE = {
    "BROWSER": "",
    "DISPLAY": "",
    "WAYLAND_DISPLAY": "",
    "SSH_CONNECTION": "",
    "SSH_TTY": "",
}


@pytest.fixture
def browser(tmp_path: Path) -> str:
    """A browser that writes the address it is given to the file `opened`."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened"\n')
    script.chmod(0o755)
    return str(script)


def opened(folder: Path) -> str:
    """The address that the browser got."""
    until = time.monotonic() + 20
    while not ((place := folder / "opened").exists() and place.read_text()):
        assert time.monotonic() < until, "no browser was started"
        time.sleep(0.02)
    return place.read_text()


def file_of(address: str) -> Path:
    """The page of an address."""
    assert address.startswith("file:///")
    return Path(unquote(urlsplit(address).path))


def test_browser(ruler: Ruler, tmp_path: Path, browser: str) -> None:
    """$BROWSER gets the address of FILE.html, also over SSH."""
    write(tmp_path / "s.jsonl", [scored("a", 0.1, 0.9)])
    done = ruler(
        "report",
        "s.jsonl",
        "-o",
        "the page.html",
        "--open",
        BROWSER=browser,
        SSH_TTY="/dev/pts/0",
    )
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert re.fullmatch("ruler: 1 group, .* written to the page.html", first)
    assert second.startswith("ruler: opening file:///")
    assert opened(tmp_path) == (tmp_path / "the page.html").as_uri()


def test_temporary_page(process: Ruler, tmp_path: Path, browser: str) -> None:
    """Without -o the page is in a directory that only the user can read, and it stays there."""
    write(tmp_path / "s.jsonl", [scored("a", 0.1, 0.9)])
    done = process(
        "report", "s.jsonl", "--open", BROWSER=browser, TMPDIR=str(tmp_path)
    )
    page = file_of(opened(tmp_path))
    assert page.parent.parent == tmp_path
    assert f"written to {page}\n" in done.stderr
    assert page.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "key", ["b", "a&b=c#d%e?f/g", "é 😀", "two\nlines", "\ud800", "x" * 900]
)
def test_group(key: str, ruler: Ruler, tmp_path: Path, browser: str) -> None:
    """With --group the page opens at that group's address, and has the group, however small it is."""
    write(tmp_path / "s.jsonl", [scored(one, 0.1, 0.9) for one in ("a", key)])
    asked = (
        key
        if key.isascii() and key.isprintable()
        else {"\ud800": "$'\\ud800'"}.get(key, key)
    )
    done = ruler(
        "report",
        "s.jsonl",
        "-o",
        "p.html",
        "--open",
        "--group",
        asked,
        "--max-groups",
        "1",
        BROWSER=browser,
    )
    assert done.returncode == 0, done.stderr
    fragment = urlsplit(opened(tmp_path)).fragment
    assert fragment.startswith("group=")
    assert unquote(fragment[6:]) == group_name(key)
    from tests.results.report.written import Page

    (row,) = Page((tmp_path / "p.html").read_text()).data["rows"]["key"]
    assert row == group_name(key)


def test_two_files(ruler: Ruler, tmp_path: Path, browser: str) -> None:
    """The page of two files opens at a group that both have; a key of one file, or of none, is refused."""
    write(
        tmp_path / "s.jsonl",
        [
            scored("a", 0.1, 0.9),
            scored("alone", 0.1, 0.9),
            scored("other", 0.1, 0.9),
        ],
    )
    write(tmp_path / "t.jsonl", [scored("a", 0.2, 0.7), scored("other", 0.1)])
    files = (
        "report",
        "s.jsonl",
        "t.jsonl",
        "-o",
        "p.html",
        "--open",
        "--group",
    )
    for key, sentence in (
        ("alone", "group 'alone' left out: only in the first file"),
        (
            "other",
            "group 'other' left out: its rollouts differ between the files",
        ),
        (
            "nowhere",
            "there is no group `nowhere`; `ruler check s.jsonl and t.jsonl` says how groups are found",
        ),
    ):
        done = ruler(*files, key, BROWSER=browser)
        assert done.returncode == 2
        assert done.stderr == f"ruler: s.jsonl and t.jsonl: {sentence}\n"
        assert not (tmp_path / "p.html").exists()
    done = ruler(*files, "a", BROWSER=browser)
    assert done.returncode == 1  # a group is left out
    assert opened(tmp_path) == (tmp_path / "p.html").as_uri() + "#group=a"


def test_unknown_group(process: Ruler, tmp_path: Path, browser: str) -> None:
    """For a key that no group has nothing is written or opened."""
    write(tmp_path / "s.jsonl", [scored("kettle", 0.1, 0.9)])
    (tmp_path / "t").mkdir()
    done = process(
        "report",
        "s.jsonl",
        "--open",
        "--group",
        "ketle",
        BROWSER=browser,
        TMPDIR=str(tmp_path / "t"),
    )
    assert (done.returncode, done.stderr) == (
        2, "ruler: s.jsonl: there is no group `ketle`; the nearest is `kettle`\n",
    )  # fmt: skip
    assert list((tmp_path / "t").iterdir()) == []
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("where", [{}, {"BROWSER": "false"}])
def test_no_browser(
    where: dict[str, str], ruler: Ruler, tmp_path: Path
) -> None:
    """Without a display and without a browser the command still says where the page is."""
    write(tmp_path / "s.jsonl", [scored("a", 0.1, 0.9)])
    done = ruler(
        "report",
        "s.jsonl",
        "-o",
        "p.html",
        "--open",
        "--group",
        "a",
        **(NOWHERE | where),
    )
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    assert re.search(
        r"opening file:///\S+/p\.html#group=a; if no browser appears, ", last
    )


def test_browser_that_stays(ruler: Ruler, tmp_path: Path) -> None:
    """A browser that does not end does not hold the command."""
    write(tmp_path / "s.jsonl", [scored("a", 0.1, 0.9)])
    script = tmp_path / "browser"
    script.write_text("#!/bin/sh\nexec sleep 15\n")
    script.chmod(0o755)
    before = time.monotonic()
    done = ruler(
        "report", "s.jsonl", "--open", "-o", "p.html", BROWSER=str(script)
    )
    assert done.returncode == 0
    assert time.monotonic() - before < 10


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--open", "--json"), "--json and a page: leave one of them out"),
        (("--open", "-o", "-"), "-o - and --open: give -o FILE.html"),
        (("--max-groups", "3"), "--max-groups is for a page; add -o FILE.html"),
        (("--group", "g", "-o", "p.html"), "--group and -o: add --open"),
    ],
)
def test_mistakes(
    args: tuple[str, ...], sentence: str, ruler: Ruler, tmp_path: Path
) -> None:
    """Options that contradict --open are refused before anything is read."""
    done = ruler("report", "nowhere.jsonl", *args)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ruler: {sentence}")
