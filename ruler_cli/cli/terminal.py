"""stdout for pages with tables and bars: as wide as it is, in its colours, in characters that it has."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, cast

from ruler_cli.cli.messages import escape, printable_key, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_Colours = Literal["standard", "256", "truecolor", "windows"]
_NARROWEST, _WIDEST = 10, 9_999
_VARIATION = re.compile("[\ufe0e\ufe0f]")
"""Whether the character before is a picture: half of a model's check marks have one."""
_ESCAPED = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}")
_INSTEAD = {"─": "-", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▐": "#", "▕": " "}
_INSTEAD |= {"▍": " ", "▎": " ", "▏": " ", "…": "~"}


class Terminal:
    """Writes what rich lays out to stdout; no line is wider than `width`.

    Colours are for a terminal, or where FORCE_COLOR asks for them; NO_COLOR leaves all styles away.
    Every line goes to `write`: stdout's, until a pager takes its place.
    """

    def __init__(self) -> None:
        from rich.console import Console

        own = Console(file=sys.stdout)
        self.tty = sys.stdout.isatty()
        # what COLUMNS says, else the terminal's, else 80
        self.width = min(max(shutil.get_terminal_size((80, 24)).columns, _NARROWEST), _WIDEST)
        self.styled = own.is_terminal and not own.no_color and own.color_system is not None
        self._colours = cast("_Colours | None", own.color_system if self.styled else None)
        self.encoding = "ascii" if _plain_locale() else getattr(sys.stdout, "encoding", None) or "utf-8"
        self._instead = {ord(c): other for c, other in _INSTEAD.items() if not self._has(c)}
        self._console: Console | None = None
        self.write: Callable[[str], object] = sys.stdout.write

    def _has(self, text: str) -> bool:
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def foreign(self, text: str, *, lines: bool = False) -> str:
        """Text of a file as it may be shown: nothing unseen, and only characters that stdout has.

        It is one line, with its breaks as escapes, unless `lines`.
        """
        text = visible(_VARIATION.sub("", text) if lines else text)
        if not lines:
            text = text.replace("\n", "\\n").replace("\t", "\\t")
        if not self._has(text):
            text = text.replace("±", "+-").replace("…", "~")
            text = "".join(c if self._has(c) else escape(c) for c in text)
        return text.expandtabs(4) if lines else text

    def text(self, text: str, style: str = "", *, lines: bool = False) -> Text:
        """The same for rich, with the escapes standing out."""
        from rich.text import Text

        found = Text(self.foreign(text, lines=lines), style)
        if self.styled and found.plain != text:
            found.highlight_regex(_ESCAPED, "yellow")
        return found

    def key(self, key: str) -> str:
        """A group's key in characters that stdout has; see `messages.printable_key`."""
        return printable_key(key, self._has)

    def show(self, *parts: RenderableType) -> None:
        """Write some parts, one below another."""
        if self._console is None:
            self._console = self._made()
        paper = self._console.file = io.StringIO()
        for part in parts:
            self._console.print(part)
        for line in paper.getvalue().translate(self._instead).splitlines():
            self.write((line if self.styled else line.rstrip()) + "\n")

    def _made(self) -> Console:
        from rich.console import Console

        return Console(
            file=io.StringIO(), width=self.width, height=100, color_system=self._colours,
            force_terminal=self.styled, no_color=not self.styled, highlight=False, markup=False, emoji=False,
            legacy_windows=False, force_jupyter=False,
        )  # fmt: skip

    def flush(self) -> None:
        """Let what was written be seen."""
        sys.stdout.flush()


@contextmanager
def paged(terminal: Terminal) -> Iterator[None]:
    """On a terminal, show with `$PAGER`, else less, what is written inside; an empty one is none."""
    import pydoc

    able = os.environ.get("TERM", "dumb") != "dumb" and shutil.which("less")
    os.environ.setdefault("PAGER", "less" if able else "")
    if not terminal.tty or not os.environ["PAGER"]:
        yield
        return

    parts: list[str] = []
    write, terminal.write = terminal.write, parts.append
    try:
        yield
    finally:
        terminal.write = write
    os.environ.pop("MANPAGER", None)  # pydoc prefers it, and it is made for manual pages
    os.environ.setdefault("LESS", "FRX")
    pydoc.pager("".join(parts))


def _plain_locale() -> bool:
    """Whether the user asks for a locale of ASCII only; Python itself writes UTF-8 even there."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return next((name for name in names if name), "") in ("C", "POSIX")
