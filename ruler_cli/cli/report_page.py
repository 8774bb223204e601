"""`ruler report -o FILE.html`: write the page for a browser, and open it there with `--open`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ruler_cli.cli.messages import print_note
from ruler_cli.cli.units import count
from ruler_cli.results.report.page import (
    MOST_GROUPS,
    MOST_TEXTS,
    LeftOut,
    ReportPage,
    source_name,
)
from ruler_cli.settings.options import Options

_PATIENCE = 1.0
"""Seconds in which a browser that cannot start says so."""
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def start(stack: ExitStack, sources: Sequence[str], options: Options) -> ReportPage:
    """Create the page of one file or two."""
    most = MOST_GROUPS if options.max_groups is None else options.max_groups
    output = stack.enter_context(page_name(options.page))
    return ReportPage(stack, output, sources, most)


def finish(page: ReportPage, view: Any, figures: Any, reading: Any) -> None:
    """Write the page as `view` shows it, and a sentence on stderr."""
    names = [source_name(one) for one in page.sources]
    data = view.page_data(names, figures, reading)
    left_out = page.choose()
    sentences = left_out_sentences(left_out, names, view.RULE)
    size = page.write(data, sentences)
    part = f"{left_out.rows} of " if left_out.rows < left_out.groups else ""
    to = "stdout" if page.target == "-" else page.target
    groups = count(left_out.groups, "group")
    print_note(f"{part}{groups}, {size / 1e6:.1f} MB written to {to}")
    if sentences:
        print_note(sentences)


def left_out_sentences(left_out: LeftOut, sources: Sequence[str], rule: str) -> str:
    """Name what the page lacks, the rule that chose, and commands that show it; empty if it lacks nothing."""
    names = [shlex.quote("SCORED" if one == "stdin" else one) for one in sources]
    command = " ".join(["ruler report", *names])
    groups, rows, texts = left_out
    sentences = []
    if rows < groups:
        sentences.append(
            f"The table has {rows:,} of {groups:,} groups, {rule}; the figures count all. "
            f"For all of them: `{command} -o report.html --max-groups {groups}`."
        )
    if texts < rows:
        sentences.append(
            f"The page holds the texts of {texts:,} of {rows:,} groups, in the same order, up to "
            f"{MOST_TEXTS >> 20} MiB."
        )
    if sentences:
        sentences.append(f"`{command} --group KEY` shows any group in full.")
    return " ".join(sentences)


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
        with suppress(OSError):  # a page may still be in it
            folder.rmdir()
        raise


def open_page(page: str, fragment: str) -> None:
    """Open the page in the user's browser, and go on at once; if that cannot be, say where it is."""
    address = Path(page).absolute().as_uri() + fragment
    has = os.environ.get
    # over SSH a browser would be on another machine, and one without a display on this terminal
    display = sys.platform != "linux" or has("DISPLAY") or has("WAYLAND_DISPLAY")
    local = display and not (has("SSH_CONNECTION") or has("SSH_TTY"))
    if not ((has("BROWSER") or local) and _started(address)):
        print_note(f"no browser here; open {address} in yours")


def _started(address: str) -> bool:
    """Start the browser in a process of its own: it may stay open, or write to the terminal."""
    child = subprocess.Popen(  # noqa: S603 - our own words and the page's address
        [sys.executable, "-c", _OPEN, address],
        # a browser on the terminal would wait for keys there
        env={name: value for name, value in os.environ.items() if name != "TERM"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.wait(_PATIENCE) == 0
    except subprocess.TimeoutExpired:  # it stays open without this process
        child.returncode = 0
        return True
