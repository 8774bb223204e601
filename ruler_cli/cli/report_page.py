"""`ruler report -o FILE.html`: write the page for a browser, and open it there with `--open`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ruler_cli.cli.command import text_lookup
from ruler_cli.cli.group_keys import KeySearch
from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.cli.progress import Problems, UnlikeGroups, group_counter
from ruler_cli.cli.units import count
from ruler_cli.files.location import Location
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.pairing import LeftOutGroup
    from ruler_cli.results.report.html import WrittenReport

_PATIENCE = 1.0
"""Seconds in which a browser that cannot start says so."""
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def write_page(
    files: Sequence[InputSettings], problems: Problems, options: Options
) -> None:
    """Write the page of one file or two, and a sentence on stderr; open it if the options say so."""
    search = KeySearch(
        " and ".join(Location(one.source).shown for one in files), options.group
    )
    with page_name(options.page) as output, group_counter() as tick:

        def is_asked(key: str) -> bool:
            tick()
            return search.matches(key)

        written = _write(files, output, problems, options, is_asked, search)
    problems.close()
    print_note(*(f"warning: {command_words(one)}" for one in written.warnings))
    part = f"{written.rows} of " if written.rows < written.groups else ""
    size, to = f"{written.size / 1e6:.1f} MB", "stdout" if output == "-" else output
    print_note(f"{part}{count(written.groups, 'group')}, {size} written to {to}")
    if written.left_out:
        print_note(f"{written.left_out}")
    if options.open_page:
        open_page(Path(output), search.fragment)


def _write(
    files: Sequence[InputSettings],
    output: str,
    problems: Problems,
    options: Options,
    is_asked: Callable[[str], bool],
    search: KeySearch,
) -> WrittenReport:
    """Write the page of one file or two."""
    from ruler_cli.results.report.html import MOST_GROUPS, write_html

    most = MOST_GROUPS if options.max_groups is None else options.max_groups
    texts = text_lookup(options)
    each = [(one, partial(problems.add, Location(one.source).shown)) for one in files]
    if len(each) == 1:
        from ruler_cli.cli.report_sentences import facts

        ((settings, on_problem),) = each
        return write_html(
            settings, output, on_problem=on_problem, facts=facts, texts=texts, most=most, on_group=is_asked,
            on_read=search.refuse_unknown,
        )  # fmt: skip
    from ruler_cli.cli import compare_sentences
    from ruler_cli.results.report.comparison import write_comparison

    unlike = UnlikeGroups()

    def leave_out(group: LeftOutGroup) -> None:
        unlike.add(group)
        search.leave_out(group.key, group.sentence)

    written = write_comparison(
        each, output, on_left_out=leave_out, words=compare_sentences.words, most=most, on_group=is_asked,
        on_read=search.refuse_unknown, texts=texts,
    )  # fmt: skip
    unlike.hand_to(problems)
    return written


@contextmanager
def page_name(output: str | None) -> Iterator[str]:
    """Give the name of the page's file: `output`, else one in a new directory that only the user can read.

    The directory stays; after an error it is removed.
    """
    if output is not None:
        yield output
        return
    folder = Path(tempfile.mkdtemp(prefix="ruler-report-"))
    try:
        yield str(folder / "report.html")
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
        raise


def open_page(page: Path, fragment: str) -> None:
    """Open the page in the user's browser, and go on at once; if that cannot be, say where it is."""
    address = page.absolute().as_uri() + fragment
    failed = not _has_browser(os.environ)
    if not failed:
        child = subprocess.Popen(  # noqa: S603 - our own words and the page's address
            [sys.executable, "-c", _OPEN, address],
            # a browser on the terminal would wait for keys there
            env={name: value for name, value in os.environ.items() if name != "TERM"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            failed = child.wait(_PATIENCE) != 0
        except subprocess.TimeoutExpired:  # it stays open without this process
            child.returncode = 0
    if failed:
        print_note(f"no browser here; open {address} in yours")


def _has_browser(environ: Mapping[str, str]) -> bool:
    """True if a browser may show a page here, and not over SSH on another machine."""
    if environ.get("BROWSER"):
        return True
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    screen = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return sys.platform != "linux" or bool(screen)
