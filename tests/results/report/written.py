"""Small scored files, and the parsed page of a report."""

from __future__ import annotations

import base64
import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ruler_cli.cli.report_view import view_of
from ruler_cli.results.compare import Comparison, LeftOutGroup
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.highlights import Run
from ruler_cli.results.report.page import (
    MOST_GROUPS,
    LeftOut,
    ReportPage,
)
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Problem

MADE = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def rollout(
    turn: Any, score: float | None = 0.5, **annotation: Any
) -> dict[str, Any]:
    """A scored rollout of one turn."""
    reported = {
        "status": "scored",
        "score": score,
        "explanation": f"said of {score}",
    } | annotation
    user = {"role": "user", "content": "Book a seat."}
    return {
        "messages": [user, {"role": "assistant", "content": turn}],
        "reward": score,
        "ruler": reported,
    }


def group(key: str, *rollouts: dict[str, Any], **mine: Any) -> dict[str, Any]:
    """A scored group a line."""
    return {
        "group_id": key,
        "trajectories": list(rollouts)
        or [rollout(f"{key} one", 0.2), rollout(f"{key} two", 0.8)],
        "ruler": {"status": "scored", "judge": "offline", "passes": 1} | mine,
    }


def written(where: Path, *lines: dict[str, Any]) -> Path:
    """Write a file of these lines; Python's own JSON also writes NaN."""
    where.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return where


def unpacked(block: str) -> Any:
    """Return the value in a block."""
    return json.loads(gzip.decompress(base64.b64decode(block, validate=True)))


@dataclass
class Page(HTMLParser):
    """A page as a browser parses it: the content of each element with an id, and its scripts."""

    text: str
    policy: str = ""
    scripts: list[str] = field(default_factory=list)
    blocks: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    _id: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        """Begin an element."""
        result = {name: value or "" for name, value in attrs}
        self.attributes += [
            (tag, name, value) for name, value in result.items()
        ]
        if result.get("http-equiv") == "Content-Security-Policy":
            self.policy = result["content"]
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        self._id = result.get("id", "")

    def handle_endtag(self, tag: str) -> None:
        """End the element that began last."""
        assert self.open.pop() == tag
        self._id = ""

    def handle_data(self, data: str) -> None:
        """Store text of the innermost element."""
        if self.open and self.open[-1] == "script":
            if self._id:
                self.blocks[self._id] = self.blocks.get(self._id, "") + data
            else:
                self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def data(self) -> Any:
        """The page's data, the rows as columns."""
        data = unpacked(self.blocks["data"])
        rows = data["rows"]
        data["rows"] = {name: [row[name] for row in rows] for name in rows[0]}
        ranks = {number: rank for rank, number in enumerate(data["ranked"])}
        ends = [*accumulate(size + 1 for size in data["texts"])]
        data["rows"] |= {
            "telling": [ranks[number] for number in data["rows"]["ordinal"]],
            "text": [
                (end - size - 1, size) if size else None
                for end, size in zip(ends, data["texts"], strict=True)
            ],
        }
        return data

    @property
    def explanations(self) -> Any:
        """The explanations of each row."""
        return unpacked(self.blocks["said"])

    def group(self, row: int) -> Any:
        """Return the text of a row, None if it was left out."""
        place = self.data["rows"]["text"][row]
        if place is None:
            return None
        at, size = place
        return unpacked(self.blocks["texts"][at : at + size])


@contextmanager
def piped(content: bytes) -> Iterator[None]:
    """Replace stdin by a pipe with this content."""
    taking, giving = os.pipe()
    before = os.dup(0)
    os.dup2(taking, 0)

    def feed() -> None:
        with suppress(BrokenPipeError), os.fdopen(giving, "wb") as stream:
            stream.write(content)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(taking)
        feeder.join()


def at_time() -> AbstractContextManager[object]:
    """Make pages at the time MADE."""
    return patch.dict(os.environ, SOURCE_DATE_EPOCH=f"{MADE.timestamp():.0f}")


def no_texts(_digests: object) -> dict[str, str]:
    """Look up no text."""
    return {}


def write_page(page: ReportPage, reading: Run | Comparison) -> LeftOut:
    """Write the page of groups that were read, and return its numbers."""
    view = view_of(reading, page.names, reading.figures(no_texts))
    return page.write(view.data(), view.rule)[0]


OLD_PAGE = '<!doctype html><meta name="generator" content="ruler 0">'


def report(
    source: Path | str,
    target: Path | str,
    *,
    most: int = MOST_GROUPS,
    **where: Any,
) -> tuple[Page, LeftOut, list[Problem]]:
    """The page of a scored file, its numbers, and the records that could not be read."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        stack.enter_context(at_time())
        page = ReportPage(stack, str(target), [str(source)], most)
        settings = InputSettings(str(source), **where)
        run = Run(ScoredFile(open_input(settings, stack, problems.append)))
        for row in run.groups(page.keep):
            page.add(row)
        left_out = write_page(page, run)
    return Page(Path(target).read_text(encoding="utf-8")), left_out, problems


def comparison(
    first: Path,
    second: Path,
    target: Path,
    *,
    most: int = MOST_GROUPS,
) -> tuple[Page, LeftOut, list[LeftOutGroup]]:
    """The page of two files, its numbers, and the groups that are not compared."""
    left: list[LeftOutGroup] = []
    sources = [str(first), str(second)]
    with ExitStack() as stack:
        stack.enter_context(at_time())
        page = ReportPage(stack, str(target), sources, most)
        files = [
            ScoredFile(
                open_input(InputSettings(source), stack, lambda problem: None)
            )
            for source in sources
        ]
        compared = Comparison(files, left.append)
        for group in compared.groups(page.keep):
            page.add(group)
        left_out = write_page(page, compared)
    return Page(target.read_text(encoding="utf-8")), left_out, left
