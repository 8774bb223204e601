"""Pages as text: their fenced blocks, tables and headings, and the report of all checks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OTHERS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
)
"""Pages outside `docs/`, relative to the checkout."""

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?"
_SECONDS = re.compile(
    rf'("(?:latency_s|seconds|most_in_flight)": ?|\bin ){_NUMBER}( s\b|(?=[,}}\n]))'
)
_INSTANT = re.compile(r'("(?:(?:judged|started|ended)_at|version)": ?")[^"]+')
_MINUTES = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d(?: to (?:\d{4}-\d\d-\d\d )?\d\d:\d\d)? UTC"
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, its language, the number of its first line, its lines."""

    page: str
    language: str
    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        """Return the lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def where(self) -> str:
        """Return the address of the block, for a message."""
        return f"{self.page} line {self.line}"


@dataclass
class Report:
    """The summary of all checks, and the differences."""

    done: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def same(self, subject: str, documented: str, live: str) -> None:
        """Compare a documented text with the live one."""
        if normal(documented) == normal(live):
            return
        diff = difflib.unified_diff(
            normal(documented).splitlines(),
            normal(live).splitlines(),
            "as documented",
            "as it is",
            lineterm="",
        )
        self.wrong.append(
            f"{subject} differs:\n" + "\n".join(f"    {line}" for line in diff)
        )


def normal(text: str) -> str:
    """Return a text with every value that depends on time at 0."""
    return _MINUTES.sub(
        "0 UTC",
        _INSTANT.sub(r"\g<1>0", _SECONDS.sub(r"\g<1>0\g<2>", text)),
    )


def names() -> list[str]:
    """Return the paths of all pages, relative to the checkout."""
    return [
        *OTHERS,
        *(
            f"docs/{path.relative_to(DOCS)}"
            for path in sorted(DOCS.rglob("*.md"))
        ),
    ]


def read(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str, text: str) -> list[Block]:
    """Return every fenced block of a page, in order."""
    result: list[Block] = []
    inside: Block | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if inside is None and line.startswith("```"):
            inside = Block(page, line[3:].strip(), number + 1, [])
        elif inside is not None and line == "```":
            result.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
    return result


def prose(text: str) -> list[tuple[int, str]]:
    """Return the lines outside fenced blocks, each with its number."""
    result: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            result.append((number, line))
    return result


def rewritten(text: str, old: Sequence[Block], new: Sequence[Block]) -> str:
    """Return a page with each block's lines replaced."""
    lines = text.split("\n")
    for before, after in reversed(list(zip(old, new, strict=True))):
        start = before.line - 1
        lines[start : start + len(before.lines)] = after.lines
    return "\n".join(lines)


def below(text: str, heading: str) -> str:
    """Return the text below a heading, up to the next one of its rank or above; empty without it."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.MULTILINE)
    if found is None:
        return ""
    return re.split(
        rf"^#{{1,{len(found[1])}}} ",
        text[found.end() :],
        maxsplit=1,
        flags=re.MULTILINE,
    )[0]


def table(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    result: list[list[str]] = []
    for line in below(text, heading).split("\n"):
        if line.startswith("|"):
            result.append(
                [
                    cell.strip().replace("\\|", "|")
                    for cell in re.split(r"(?<!\\)\|", line)[1:-1]
                ]
            )
        elif result or line.startswith("#"):
            break
    return result[2:]


def code(cell: str) -> list[str]:
    """Return the code spans of a table cell."""
    return re.findall(r"`([^`]+)`", cell)


def between(text: str, mark: str, content: str) -> str:
    """Return a page with the text between `<!-- mark -->` and `<!-- /mark -->` replaced; empty without."""
    start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, opened, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}" if opened and closed else ""
