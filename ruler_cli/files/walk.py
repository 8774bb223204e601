"""Values of a JSON text by a path: their bytes are found one by one, and never parsed together.

A path is dotted, and each step may lead to many values: `data[].runs[]`, `{}`, `[1:]`. A key that holds dots or
brackets is quoted: `"a.b".runs[]`.
The text is not trusted: it may end anywhere or be not JSON at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice

from ruler_cli.errors import ForeignError, UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.splice import Span, end_of, skip
from ruler_cli.settings.suggestions import nearest

Steps = tuple[str, ...]
"""`.name` of a member, or of an item by its index; the items of a list, `[]`, or all but the first, `[1:]`; the
values of an object, `{}.value`, or its members as `{"key": …, "value": …}`, `{}`."""
OPENING = (b"[", b"{")
_MOST = 5_000
"""Lists that are compared with a path that leads nowhere."""
_LONGEST = 100
"""Characters of a path in which lists are searched."""
_STEP = re.compile(
    r'\.?(?:(\[(?:1:)?\]|\{\}(?:\.value(?=[.\[{]|\Z))?)|("(?:[^"\\]|\\.)*")|([^."\[\]{}]+))'
)
_PLAIN = re.compile(r'[^."\[\]{}]+')


def steps_of(path: str) -> Steps:
    """Read a path; UsageError if it is none."""
    steps: list[str] = []
    with suppress(ValueError):
        for members, quoted, name in _STEP.findall(path):
            steps.append(members or "." + (name or json.loads(quoted)))
    many = any(step[0] != "." for step in steps)
    if _STEP.sub("", path) or not many or "{}" in steps[:-1]:
        raise UsageError(
            "is not a path of records",
            "it leads to the items of a list, e.g. data.runs[], or to the members of an object, {}",
            place=f"--set records={path}",
        )
    return tuple(steps)


class JsonText:
    """A JSON text with the offset `at` that is read next. `reached`: a path led to a list, an object or a value.

    Every method raises UnreadableError where the text is not JSON, or ends.
    """

    def __init__(self, text: bytes, at: int = 0) -> None:
        """Begin at an offset."""
        self.text = text
        self.at = at
        self.reached = False

    def byte(self) -> bytes:
        """Move to the next byte that is not white space, and return it; b"" at the end."""
        self.at = skip(self.text, self.at)
        return self.text[self.at : self.at + 1]

    def value(self) -> Span:
        """Move behind the value that starts here, and return its begin and end."""
        self.byte()
        start = self.at
        end = end_of(self.text, start)
        if end is None:
            raise damaged()
        self.at = end
        return start, end

    def entries(self) -> Iterator[str]:
        """Yield the key or the index of each entry of the object or list that starts here, and move behind it.

        A value that is not read before the next entry is asked for is skipped.
        """
        is_list = self.byte() == b"["
        closing = b"]" if is_list else b"}"
        self.at += 1
        for index in count():
            if self.byte() == closing:
                break
            if index:
                self._take(b",")
            key = str(index)
            if not is_list:
                start, end = self.value()
                key = str(parse_value(self.text[start:end], exact=False))
                self._take(b":")
            self.byte()
            before = self.at
            yield key
            if self.at == before:
                self.value()
        self.at += 1

    def walk(self, steps: Steps) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and bytes of each value to which a path leads from here, and move behind the whole."""
        if not steps:
            self.reached = True
            start, end = self.value()
            yield start, self.text[start:end]
            return
        step, rest = steps[0], steps[1:]
        is_name = step[0] == "."
        # a name may be that of an item, by its index
        openings = OPENING if is_name else (step[:1].encode(),)
        if self.byte() not in openings:
            self.value()
            return
        has_entry = False
        for key in self.entries():
            if is_name and key != step[1:]:
                continue
            if step == "[1:]" and key == "0":
                continue
            if is_name and has_entry:
                raise UnreadableError(f"has two members `{key}`")
            has_entry = True
            for start, raw in self.walk(rest):
                if step == "{}":
                    yield start, b'{"key": %s, "value": %s}' % (dump(key), raw)
                else:
                    yield start, raw
        self.reached |= not (is_name or has_entry)

    def lists(self, before: str = "") -> Iterator[str]:
        """Yield the paths of lists of objects in the value that starts here, as far as their first items show."""
        opens = self.byte()
        if opens not in OPENING or len(before) > _LONGEST:
            return
        for key in self.entries():
            path = f"{before}[]"
            if opens == b"{":
                name = key if _PLAIN.fullmatch(key) else dump(key).decode()
                path = f"{before}.{name}".removeprefix(".")
            elif key == "0" and self.byte() == b"{":
                yield path
            else:
                continue
            yield from self.lists(path)

    def _take(self, byte: bytes) -> None:
        """Move behind a byte that must be here."""
        if self.byte() != byte:
            raise damaged()
        self.at += 1


def damaged() -> UnreadableError:
    """Return the error for a text that is not JSON, or ends too early."""
    return UnreadableError("is JSON that is damaged or truncated")


def nowhere(name: str, path: str, text: bytes, at: int = 0) -> UsageError:
    """Return the error for a path that leads nowhere in the value that starts at an offset of a text."""
    paths = list[str]()
    with suppress(UnreadableError):
        paths += islice(JsonText(text, at).lists(), _MOST)
    near = nearest(path, paths)
    if near:
        remedy = f"did you mean {near}?"
    elif paths:
        remedy = f"lists of objects are at {', '.join(paths[:3])}"
    else:
        remedy = "it has no list of objects; {} takes the members of an object"
    problem = f"holds no records at `{path}`"
    return ForeignError(problem, remedy, place=f"{name}: --set records")
