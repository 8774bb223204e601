"""Groups of a report → one HTML file that opens offline: figures, table and texts as data, and the scripts.

Each block of data is gzip in base64, so that no foreign character stands in the page. The page's policy
allows no scripts but its own.
"""

from __future__ import annotations

import base64
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import orjson

from ruler_cli import __version__
from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import writing
from ruler_cli.files.location import Location
from ruler_cli.files.output import create_file, refuse_clashes, refuse_input
from ruler_cli.files.scratch import Scratch
from ruler_cli.prompting.render import MARK
from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.highlights import Best, RunGroup, reasons
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.results.record_fields import GroupValues, RecordFields
from ruler_cli.types import Group, iso, printable, readable, shorten

MOST_GROUPS = 10_000
"""Rows of the table, unless the user says otherwise."""
MOST_TEXTS = 32 << 20
"""Bytes of all groups' texts in the file."""
MOST_TEXT = 16 << 20
"""Bytes of JSON of one group's text; a browser cannot show more."""
MOST_PICTURES = 8 << 20
"""Bytes of one group's pictures."""
LONGEST = 500
"""Characters of a text in figures and rows."""
_EXPLANATION = 4_000
"""Characters of an explanation that the table is searched for."""
_LEVEL = 6
"""Level 9 takes a fifth longer and saves a thousandth; 3 is twice as fast and a tenth larger."""
_GZIP = zlib.MAX_WBITS | 16
_DECIMALS = 9
"""Decimals of a figure: the noise of the last digits does not compress."""
_NAME = 255
"""Characters of the file's name in the page."""
_BASE = ("vendor/lib.js", "base.js", "charts.js")
SCRIPTS = (
    *_BASE,
    "conditions.js",
    "strip.js",
    "overview.js",
    "turns.js",
    "turnlist.js",
    "marks.js",
    "search.js",
    "filters.js",
    "table.js",
    "group.js",
    "app.js",
)
"""The page's scripts in the order in which they run: each may use those before it."""
_FACT = '<tr><th scope="row">{}</th><td>{}</td></tr>'
STYLES = ("report.css", "overview.css", "group.css")
COMPARE_SCRIPTS = (*SCRIPTS[:-1], "compare.js", SCRIPTS[-1])
"""The last script shows the page."""
COMPARE_STYLES = (*STYLES, "compare.css")
TREND_SCRIPTS = (*_BASE, "trend.js")
TREND_STYLES = ("report.css", "overview.css")


def as_json(value: Any) -> bytes:
    """Write JSON that every reader takes: lone surrogates become U+FFFD, NaN and Infinity null.

    Integers beyond 64 bits, up to the largest double, are rounded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, a huge integer
        return orjson.dumps(readable(value))


def compact(
    value: Any,
    longest: int = LONGEST,
) -> Any:
    """Shorten the long texts of a JSON value, and round its numbers."""
    if isinstance(value, str):
        return shorten(value, longest)
    if isinstance(value, float):
        return round(value, _DECIMALS)
    if isinstance(value, dict):
        return {
            shorten(name, longest): compact(item, longest)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [compact(item, longest) for item in value]
    return value


def packed(pieces: Iterable[bytes]) -> bytes:
    """Pack pieces of bytes into one block; the same bytes give the same block."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    done = [packer.compress(piece) for piece in pieces]
    return base64.b64encode(b"".join((*done, packer.flush())))


def source_name(source: str) -> str:
    """Return the name of a source without the folders of this machine, as the page is handed on."""
    place = Location(source)
    if place.local:
        return Path(source).absolute().name
    return place.shown


class LeftOut(NamedTuple):
    """Numbers of a page: all groups, the rows of its table, and the texts of groups in it."""

    groups: int
    rows: int
    texts: int


class _Kept(NamedTuple):
    """The fields of a group, and a function that returns its text."""

    values: GroupValues
    text: Callable[[], Json]


_Span = tuple[int, int]
"""The size and the place of some bytes in the temporary file."""


class HtmlFile:
    """The file of a page, which appears once it is whole."""

    def __init__(
        self,
        stack: ExitStack,
        target: str,
        sources: Sequence[str],
        *,
        force: bool = False,
    ) -> None:
        """Create the file `target`, which ends in .html or is `-` for stdout; an error in `stack` removes it.

        UsageError if it cannot have this name, is one of the sources, or is there and no page of ours, but for `force`.
        """
        for source in sources:
            _refuse(target, source)
        self.target = target
        file = create_file(Location(target), "page", force=force)
        self._file = stack.enter_context(file)

    def write(
        self,
        head: Json,
        files: tuple[Sequence[str], Sequence[str]],
        *,
        more: Iterable[bytes] = (),
        explanations: Iterable[bytes] = (),
        texts: Iterable[bytes] = (),
    ) -> int:
        """Write the page, let it appear, and return its size; OutputError if it cannot be written to its end.

        `head` are the page's data, among them `source`, `left_out` and `facts`; `more` are pieces of JSON behind its
        last member. `files` are the names of the scripts and of the styles, `explanations` are JSON, `texts` lines
        for blocks of their own.
        """
        head = head | {
            "version": 1,
            "made": _made(),
            "ruler": __version__,
        }
        # text of the input is escaped here, or packed
        facts = []
        for name, sentence in head["facts"]:
            if sentence:
                facts.append(_FACT.format(escape(name), escape(sentence)))
        left_out = head["left_out"]
        values = {
            "name": escape(printable(head["source"], _NAME)),
            "facts": "\n".join(facts),
            "left_out": escape(printable(left_out, len(left_out))),
            "data": packed((as_json(head)[:-1], *more, b"}")).decode(),
            "said": packed(explanations).decode(),
        }
        return self.fill("report.html", files, values, texts)

    def fill(
        self,
        template: str,
        files: tuple[Sequence[str], Sequence[str]],
        values: Mapping[str, str],
        texts: Iterable[bytes],
    ) -> int:
        """Fill a template with values, scripts, styles and texts; as `write` does."""
        page, licences = web_files([template, "vendor/LICENSES.txt"])
        scripts, styles = map(web_files, files)
        values = {
            **values,
            "policy": _policy(scripts),
            "style": "\n".join(styles),
            "scripts": "\n".join(
                f"<script>{script}</script>" for script in scripts
            ),
            "licences": licences,
            "made": _made() or "",
            "ruler": __version__,
        }
        before, after = (
            Template(part).substitute(values).encode()
            for part in page.split("$texts")
        )
        stream = self._file.stream
        with writing(str(self.target)):
            size = stream.write(before)
            for text in texts:
                size += stream.write(text + b"\n")
            size += stream.write(after)
            self._file.commit()
        return size


class ReportPage:
    """The page of one scored file, or of two: its groups are on disk until those of the page are chosen.

    These are the `most` of the highest rank. Texts are those of the highest rank, until the next does not fit
    into MOST_TEXTS.
    """

    def __init__(
        self,
        stack: ExitStack,
        target: str,
        sources: Sequence[str],
        most: int,
        *,
        force: bool = False,
    ) -> None:
        """Create the file `target` (see `HtmlFile`)."""
        self._file = HtmlFile(
            stack,
            target,
            sources,
            force=force,
        )
        self.names = [*map(source_name, sources)]
        self.two = len(sources) > 1
        self._spool = stack.enter_context(Scratch())
        self._best = Best[int](most)
        self._groups = 0
        # by number: the row, the explanations, the annotations with the text, and the fields of the record
        self._stored: dict[int, list[_Span]] = {}
        self._chosen: list[int] = []
        self._texts: dict[int, _Span] = {}
        self._fields: RecordFields | None = None

    def read_fields(self, annotations: AnnotationReader) -> None:
        """Have the page offer the fields of the records of a file, the first of two, to filter by."""
        self._fields = RecordFields(annotations)

    def keep(
        self,
        group: Group,
        scored: GroupRecord,
    ) -> _Kept:
        """Keep the text of a group; of one file until it is known if it is in the page.

        Of two files it is stored until the group's like in the second is found.
        """
        values = self._fields.add(group) if self._fields else {}
        text = partial(_whole_text, group, scored)
        if self.two:
            text = partial(self._load, self._store(text()))
        return _Kept(values, text)

    def _store(self, value: Any) -> _Span:
        data = as_json(value)
        return len(data), self._spool.write(data)

    def _load(self, span: _Span) -> Any:
        return orjson.loads(self._spool.read(*span))

    def add(self, shown: RunGroup | ComparedGroup) -> None:
        """Add the next group."""
        self._groups += 1
        if not self._best.add(shown.rank, shown.number):
            return
        values, make_text = shown.kept
        text = make_text()
        row = _row(shown) | text.pop("row")
        text["rollouts"] = rollouts = [
            r.as_json() for r in shown.first.rollouts
        ]
        words = [rollout["explanation"] for rollout in rollouts]
        if shown.second:
            for rollout, second in zip(
                rollouts, shown.second.rollouts, strict=True
            ):
                rollout["second"] = second.as_json()
                words.append(second.explanation)
        explanations = [
            shorten(explanation, _EXPLANATION) or None for explanation in words
        ]
        blocks = (compact(row), explanations, text, values)
        self._stored[shown.number] = [*map(self._store, blocks)]

    def choose(self) -> LeftOut:
        """Choose the groups and the texts of the page, after the last group."""
        self._chosen = self._best.ranked()
        left = MOST_TEXTS
        for number in self._chosen:
            text = self._stored[number][2]
            if text[0] <= MOST_TEXT:
                block = packed([self._spool.read(*text)])
                left -= len(block) + 1
                if left < 0:
                    break
                self._texts[number] = (len(block), self._spool.write(block))
        return LeftOut(self._groups, len(self._chosen), len(self._texts))

    def write(
        self,
        data: Json,
        left_out: str,
    ) -> int:
        """Write the page, let it appear, and return its size; OutputError if it cannot be written to its end.

        `data` are those of a page of one file, or of two; `left_out` says in sentences what the page lacks.
        """
        # a text that is not in the page is empty
        texts = [
            self._texts.get(number, (0, 0)) for number in sorted(self._chosen)
        ]
        head = data | {
            "source": " and ".join(self.names),
            "left_out": left_out,
            "fields": self._fields.as_json() if self._fields else [],
            "ranked": self._chosen,
            "texts": [size for size, _ in texts],
        }
        files: tuple[Sequence[str], Sequence[str]] = (SCRIPTS, STYLES)
        if self.two:
            files = (COMPARE_SCRIPTS, COMPARE_STYLES)
        return self._file.write(
            head,
            files,
            more=(
                b',"rows":',
                *self._listed(0),
                b',"values":[',
                *self._values(),
                b"]",
            ),
            explanations=self._listed(1),
            texts=(self._spool.read(*text) for text in texts),
        )

    def _listed(self, piece: int) -> Iterator[bytes]:
        """Yield a piece of each chosen group, in input order, as a JSON list."""
        yield b"["
        for i, number in enumerate(sorted(self._chosen)):
            span = self._stored[number][piece]
            yield b"," * (i > 0) + self._spool.read(*span)
        yield b"]"

    def _values(self) -> Iterator[bytes]:
        """Yield the values of the fields of each chosen group, in input order.

        A field has the number of its value in the group, a list of several, or null.
        """
        offered = self._fields.offered() if self._fields else []
        for i, number in enumerate(sorted(self._chosen)):
            held = self._load(self._stored[number][3])
            values = []
            for path in offered:
                numbers = held.get(readable(path))
                alone = numbers and len(numbers) == 1
                values.append(numbers[0] if alone else numbers)
            yield b"," * (i > 0) + as_json(values)


def _whole_text(
    group: Group,
    scored: GroupRecord,
) -> Json:
    """Return the text of a group, and what its `row` of the table has of it."""
    text = GroupText.of(group, scored)
    row = {"task": text.task, "ids": rollout_ids(group, scored)}
    return text_of(text, range(len(text.rollouts))) | {"row": row}


def text_of(
    text: GroupText,
    shown: Iterable[int],
) -> Json:
    """Return the text of the rollouts with these numbers; `strings` has each line once."""
    strings: dict[str, int] = {}
    lines = []
    for number in shown:
        rollout = text.rollouts[number]
        lines.append(
            [strings.setdefault(line, len(strings)) for line in rollout]
        )
    return {
        "context": text.context,
        "tools": text.tools,
        "rubric": text.rubric,
        "pictures": _pictures(text, (*text.context, *strings)),
        "strings": list(strings),
        "lines": lines,
    }


def _pictures(
    text: GroupText,
    lines: Sequence[str],
) -> dict[str, str]:
    """Return the pictures in lines by their digests as data addresses, as far as they fit; never from elsewhere."""
    marks = map(MARK.match, lines if text.pictures else ())
    held = {}
    left = MOST_PICTURES
    for digest in dict.fromkeys(mark[2] for mark in marks if mark):
        picture = text.pictures.get(digest)
        if picture is not None and 0 < len(picture.data) <= left:
            left -= len(picture.data)
            held[digest] = picture.url
    return held


def _row(shown: RunGroup | ComparedGroup) -> Json:
    """Return the group's values in the columns of the table, by their names; those of B begin with `b_`."""
    row = _columns(shown.first) | {"ordinal": shown.number}
    if isinstance(shown, ComparedGroup):
        second = _columns(shown.second)
        row |= {f"b_{name}": value for name, value in second.items()}
        row |= {
            "pairs": shown.order.pairs,
            "against": shown.order.against,
            "distance": shown.distance,
            "reasons": shown.reasons,
        }
    return row


def _columns(g: GroupRecord) -> Json:
    return g.as_json() | {
        "key": group_name(g.key),
        "bytes": [r.size for r in g.rollouts],
        "reasons": [*reasons(g)],
    }


def _made() -> str | None:
    """Return the time at which a page is made; the same input can give the same page."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    fixed = epoch.isdecimal() and len(epoch) < 12
    return iso(float(epoch) if fixed else time.time())


def _refuse(
    target: str,
    source: str,
) -> None:
    """Raise UsageError if a page cannot have this name."""
    page = Location(target)
    if page.stream:
        return
    if page.remote or Path(target).suffix.lower() != ".html":
        raise UsageError(
            "a report is a local file",
            "end its name in .html, or give `-` for stdout",
            place=page.public,
        )
    refuse_input(source, target)
    refuse_clashes(source, target)


def web_files(names: Iterable[str]) -> list[str]:
    """Read files of the package's folder `web`."""
    folder = files(__package__) / "web"
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _policy(scripts: Iterable[str]) -> str:
    """Return the Content Security Policy: these scripts run, pictures are in the page, and nothing is ever loaded.

    No script may make a program of text.
    """
    digests = [sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(
        f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests
    )
    return (
        f"default-src 'none'; script-src {hashes}; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
