"""Fields of a turn beside its content → their text for the judge, or for the count of text that is not shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruler_cli.files.values import JsonObject, is_text, words
from ruler_cli.messages.content import json_inside, leaves, other_text
from ruler_cli.messages.form import SideField
from ruler_cli.messages.json_text import json_or_quoted, json_text, quoted
from ruler_cli.messages.names import KNOWN, USER_ROLES, words_of

ABOUT = frozenset(
    words("note signature attachment file filename path uri url id uuid")
)
"""Words of keys with notes, and with names of other data."""
HARNESS = frozenset(
    words(
        "metadata meta config setting log usage stat version replay language lang locale sentiment emotion"
    )
)
"""Words of keys with text or measurements of a harness."""
_MEASURED = frozenset(
    words(
        "time timestamp ts date tag token logit logprob hash mask weight cost duration"
    )
)
"""Words of keys with marks and figures of a message."""
_NOTES = ABOUT | HARNESS | _MEASURED
_COUNTED = _NOTES | frozenset(
    words("""
step turn index idx count number num n no nr round epoch iteration iter attempt try retry seed at value return done
terminal terminated truncated final finished complete completed success succeeded passed pass won win train trainable
masked cached stream streaming partial synthetic internal visible hidden latency timing ms sec second elapsed timeout
length len size byte char temperature penalty price usd budget remaining position pos rank priority level depth seq
sequence prob probability confidence kl entropy perplexity ratio rate percent uid gid pid start end begin stop ttft
offset logp top first last strict
""")
)
"""Words of keys whose numbers count, measure or mark a message, or tell how good it is."""
_MOST_NUMBERS = 16
"""Numbers of a field that says something; more are ids of tokens, or measures."""


def side_fields(
    message: JsonObject,
    besides: frozenset[str] = KNOWN,
) -> Iterator[SideField]:
    """Yield the fields of a message with text or numbers that are not content, not about it and no grader's.

    `besides` are those that are content or metadata.
    """
    shown = other_text(message, numbers=True, besides=besides)
    for key, value in shown.items():
        values = tuple(_values_inside(value, key))
        if values and _NOTES.isdisjoint(words_of(key)):
            yield SideField(key, json_or_quoted(value), values)


def is_shown_beside(
    message: JsonObject,
    key: str,
) -> bool:
    """Return whether a field beside the content of a turn is shown.

    A user's are not: they mostly describe a task, whose text is the content. An `answer` is not: it may be the
    reference.
    """
    return message.get("role") not in USER_ROLES and "answer" not in words_of(
        key
    )


def _values_inside(
    value: Any,
    key: str,
) -> Iterator[Any]:
    """Yield the texts and numbers in a JSON value, also in JSON text, without those of metadata."""
    for text in filter(is_text, leaves(value, ABOUT | _MEASURED)):
        inner = json_inside(text)
        if inner is not None:
            yield from _values_inside(inner, key)
        elif text.strip():
            yield text.strip()
    if _COUNTED & words_of(key):
        return
    numbers = []
    for leaf in leaves(value, _COUNTED):
        if not is_text(leaf) and leaf is not False:
            numbers.append(leaf)
    if len(numbers) <= _MOST_NUMBERS:
        yield from numbers


def repeats(
    field: SideField,
    line: str,
) -> bool:
    """Return whether a line already contains every value of a field."""
    return all(_contains(line, value) for value in field.values)


def _contains(
    line: str,
    value: Any,
) -> bool:
    if is_text(value):
        return quoted(value)[1:-1] in line
    number = rf"(?<![\w.]){re.escape(json_text(value))}(?![\w.])"
    return value is not True and re.search(number, line) is not None
