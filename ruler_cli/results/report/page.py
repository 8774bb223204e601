"""Groups of a report → one HTML file that opens offline: figures, table and texts as data, and the scripts.

Each block of data is gzip in base64, so that no foreign character stands in the page. The page's policy
allows no scripts but its own.
"""

from __future__ import annotations

import base64
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from html import escape
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import orjson

from ruler_cli import __version__
from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import writing
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    create_file,
    refuse_clashes,
    refuse_input,
)
from ruler_cli.files.scratch import Scratch
from ruler_cli.prompting.render import MARK
from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.highlights import (
    Best,
    RunGroup,
    reasons,
)
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.record import GroupRecord, Json
from ruler_cli.results.record_fields import RecordFields
from ruler_cli.types import (
    Group,
    iso,
    printable,
    readable,
    shorten,
    words_of,
)

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
_BASE = words_of("vendor/lib.js base.js charts.js")
_BEFORE_APP = (
    *_BASE,
    *words_of(
        "conditions.js strip.js overview.js turns.js turnlist.js marks.js "
        "search.js filters.js table.js group.js"
    ),
)
SCRIPTS = (*_BEFORE_APP, "app.js")
"""The page's scripts in the order in which they run: each may use those before it; the last one shows the page."""
_FACT = '<tr><th scope="row">{}</th><td>{}</td></tr>'
STYLES = words_of("report.css overview.css group.css")
COMPARE_SCRIPTS = (*_BEFORE_APP, "compare.js", "app.js")
COMPARE_STYLES = (*STYLES, "compare.css")
TREND_SCRIPTS = (*_BASE, "trend.js")
TREND_STYLES = STYLES[:2]


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
        return round(value, _DECIMALS) + 0.0
    if isinstance(value, dict):
        return {
            shorten(name, longest): compact(item, longest)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [compact(item, longest) for item in value]
    return value


def packed(data: bytes) -> bytes:
    """Pack bytes into a block; the same bytes give the same block."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return base64.b64encode(packer.compress(data) + packer.flush())


def source_name(source: str) -> str:
    """Return the name of a source without the folders of this machine, as the page is handed on."""
    place = Location(source)
    if place.local:
        return Path(source).absolute().name
    return place.shown


class LeftOut(NamedTuple):
    """Numbers of a page: all groups, the rows of its table, the texts of groups in it, and the rule that chose them."""

    groups: int
    rows: int
    texts: int
    rule: str

    @property
    def sentences(self) -> str:
        """Sentences on what the page lacks, and on options that show it; empty if it lacks nothing."""
        sentences = []
        if self.rows < self.groups:
            sentences.append(
                f"The table has {self.rows:,} of {self.groups:,} groups, {self.rule}; the figures count all. "
                f"With --max-groups {self.groups} it has all of them."
            )
        if self.texts < self.rows:
            sentences.append(
                f"The page holds the texts of {self.texts:,} of {self.rows:,} groups; --group KEY shows any group in "
                "full."
            )
        return " ".join(sentences)


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
        explanations: Sequence[orjson.Fragment] = (),
        texts: Iterable[bytes] = (),
    ) -> int:
        """Write the page, let it appear, and return its size; OutputError if it cannot be written to its end.

        `head` are the page's data, among them `source`, `left_out` and `facts`. `files` are the names of the scripts
        and of the styles, `texts` are lines for blocks of their own.
        """
        head = head | {
            "version": 1,
            "made": _made(),
            "ruler": __version__,
        }
        # text of the input is escaped here, or packed
        facts = [
            _FACT.format(
                escape(name), escape(printable(sentence, len(sentence)))
            )
            for name, sentence in head["facts"]
            if sentence
        ]
        left_out = head["left_out"]
        values = {
            "name": escape(printable(head["source"], _NAME)),
            "facts": "\n".join(facts),
            "left_out": escape(printable(left_out, len(left_out))),
            "data": packed(as_json(head)).decode(),
            "said": packed(as_json(explanations)).decode(),
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
    """The page of one scored file, or of two: texts of its groups are on disk until those of the page are chosen.

    The groups are the `most` of the highest rank. Texts are those of the highest rank, until the next does not fit
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
        self._file = HtmlFile(stack, target, sources, force=force)
        self.names = [*map(source_name, sources)]
        self.two = len(sources) > 1
        self._spool = stack.enter_context(Scratch())
        # of each group the number, the row, the explanations, the fields of the record and the place of the text
        self._best = Best[Json](most)
        self._groups = 0
        self._fields: RecordFields | None = None

    def read_fields(self, annotations: AnnotationReader) -> None:
        """Have the page offer the fields of the records of a file, the first of two, to filter by."""
        self._fields = RecordFields(annotations)

    def keep(
        self,
        group: Group,
        scored: GroupRecord,
    ) -> Callable[[], Json]:
        """Keep the text of a group; of one file until it is known if it is in the page.

        Of two files it is stored until the group's like in the second is found.
        """
        values = self._fields.add(group) if self._fields else {}

        def whole_text() -> Json:
            text = GroupText.of(group, scored)
            whole = text_of(text, range(len(text.rollouts)))
            row = {"task": text.task, "ids": rollout_ids(group, scored)}
            return whole | {"row": row, "values": values}

        if not self.two:
            return whole_text
        stored = self._store(whole_text())
        return lambda: orjson.loads(self._spool.read(*stored))

    def _store(self, value: Json) -> _Span:
        data = as_json(value)
        return len(data), self._spool.write(data)

    def add(self, shown: RunGroup | ComparedGroup) -> None:
        """Add the next group."""
        self._groups += 1
        entry: Json = {"number": shown.number}
        if not self._best.add(shown.rank, entry):
            return
        text = shown.kept()
        row = _row(shown) | text.pop("row")
        entry["row"] = orjson.Fragment(as_json(compact(row)))
        entry["values"] = text.pop("values")
        text["rollouts"] = [r.as_json() for r in shown.first.rollouts]
        words = [r.explanation for r in shown.first.rollouts]
        if shown.second:
            words += [r.explanation for r in shown.second.rollouts]
            sides = zip(text["rollouts"], shown.second.rollouts, strict=True)
            for rollout, second in sides:
                rollout["second"] = second.as_json()
        shown_words = [shorten(word, _EXPLANATION) or None for word in words]
        entry["said"] = orjson.Fragment(as_json(shown_words))
        entry["text"] = self._store(text)

    def write(
        self,
        data: Json,
        rule: str,
    ) -> tuple[LeftOut, int]:
        """Write the page, let it appear, and return its numbers and its size.

        `data` are those of a page of one file, or of two; `rule` is the one that chooses groups, in words.
        OutputError if it cannot be written to its end.
        """
        ranked = self._best.ranked()
        blocks = {}
        left = MOST_TEXTS
        for entry in ranked:
            size, at = entry["text"]
            if size <= MOST_TEXT:
                block = packed(self._spool.read(size, at))
                left -= len(block) + 1
                if left < 0:
                    break
                blocks[entry["number"]] = block
        left_out = LeftOut(self._groups, len(ranked), len(blocks), rule)
        fields = self._fields.as_json() if self._fields else []
        entries = sorted(ranked, key=itemgetter("number"))
        # a text that is not in the page is empty
        texts = [blocks.get(entry["number"], b"") for entry in entries]
        head = data | {
            "source": " and ".join(self.names),
            "left_out": left_out.sentences,
            "fields": fields,
            "ranked": [entry["number"] for entry in ranked],
            "texts": [*map(len, texts)],
            "rows": [entry["row"] for entry in entries],
            "values": [_values(entry, fields) for entry in entries],
        }
        files = (COMPARE_SCRIPTS, COMPARE_STYLES)
        if not self.two:
            files = (SCRIPTS, STYLES)
        size = self._file.write(
            head,
            files,
            explanations=[entry["said"] for entry in entries],
            texts=texts,
        )
        return left_out, size


def _values(entry: Json, fields: Sequence[Json]) -> list[Any]:
    """Return the values of the fields of a group: the number of its value, a list of several, or null."""
    values = []
    for field in fields:
        numbers = entry["values"].get(field["path"])
        alone = numbers and len(numbers) == 1
        values.append(numbers[0] if alone else numbers)
    return values


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
        for name, value in _columns(shown.second).items():
            row[f"b_{name}"] = value
        row["pairs"] = shown.order["pairs"]
        row["against"] = shown.order["against"]
        row["distance"] = shown.distance
        row["reasons"] = shown.reasons
    return row


def _columns(group: GroupRecord) -> Json:
    return group.as_json() | {
        "key": group_name(group.key),
        "bytes": [rollout.size for rollout in group.rollouts],
        "reasons": [*reasons(group)],
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
