"""Values of a JSON text by a path: their bytes, found one by one and never parsed.

A path is dotted, and a step may lead to many values: `data[].runs[]`, `{}`. A key that holds dots or brackets is
quoted: `"a.b".runs[]`. The text is not trusted: it may end anywhere or be not JSON at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from contextlib import suppress

from ruler_cli.errors import ForeignError, UnreadableError, UsageError
from ruler_cli.files.parse import dump
from ruler_cli.files.splice import (
    DAMAGED,
    read_array,
    read_object,
    skip,
    value_end,
)

Steps = tuple[str, ...]
"""`.name` of a member, or of an item by its index; the items of a list, `[]`; the values of an object, `{}.value`, or
its members as `{"key": …, "value": …}`, `{}`."""
_STEP = re.compile(
    r'\.?(?:(\[\]|\{\}(?:\.value(?=[.\[{]|\Z))?)|("(?:[^"\\]|\\.)*")|([^."\[\]{}]+))'
)


class NoRecordsError(UnreadableError):
    """A path leads nowhere."""

    def for_input(self, name: str) -> ForeignError:
        """Return the error for a whole file."""
        remedy = "check the path, or leave it out: `ruler check` proposes one"
        return ForeignError(self.reason, remedy, place=f"{name}: --set records")


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


def values_at(raw: bytes, at: int, steps: Steps) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each value to which a path leads from the value at an offset.

    UnreadableError where the text is not JSON; NoRecordsError at the end if the path led nowhere.
    """
    try:
        any_reached = yield from _walk(raw, at, steps)
    except IndexError:  # the text ends
        raise UnreadableError(DAMAGED) from None
    if not any_reached:
        path = "".join(steps).removeprefix(".")
        raise NoRecordsError(f"holds no records at `{path}`")


def _walk(
    raw: bytes, at: int, steps: Steps
) -> Generator[tuple[int, bytes], None, bool]:
    """Yield the values, and return whether the path led to a value, or to a list or an object, even an empty one."""
    at = skip(raw, at)
    if not steps:
        yield at, raw[at : value_end(raw, at)]
        return True
    step, rest = steps[0], steps[1:]
    inside = dict[str, int]()
    if raw[at] == ord("[") and step[0] in ".[":
        for number, (start, _) in enumerate(read_array(raw, at)):
            inside[str(number)] = start
    elif raw[at] == ord("{") and step[0] in ".{":
        spans = read_object(raw, at)
        if raw[spans.end - 1 : spans.end] != b"}":
            raise UnreadableError(DAMAGED)
        if len(spans.every) > len(spans.members):
            raise UnreadableError(
                "has two members with the same name; rename one"
            )
        for key, (_, start, _) in spans.members.items():
            inside[key] = start
    else:
        return False
    is_name = step[0] == "."
    if is_name:
        key = step[1:]
        inside = {key: inside[key]} if key in inside else {}
    any_reached = not (is_name or inside)
    for key, start in inside.items():
        values = _walk(raw, start, rest)
        if step == "{}":
            for offset, value in values:
                yield offset, b'{"key": %s, "value": %s}' % (dump(key), value)
            any_reached = True
        else:
            any_reached |= yield from values
    return any_reached
