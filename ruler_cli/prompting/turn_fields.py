"""Fields of a turn beside its content → their texts, which a judge is shown, or which count as not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruler_cli.formats.chat import USER_ROLES, leaves, other_text, words_of
from ruler_cli.formats.fields import JsonObject, is_text, json_value, words

ABOUT = frozenset(words("note signature attachment file filename path uri url id uuid"))
"""Words of keys with notes, and with names of other data."""
HARNESS = frozenset(words("metadata meta config setting log usage stat version replay"))
"""Words of keys with text of a harness."""
_MEASURED = frozenset(
    words(
        "time timestamp ts date tag token logit logprob hash mask weight cost duration"
    )
)
"""Words of keys with marks and figures of a message."""
_NOTES = ABOUT | HARNESS | _MEASURED


def fields_told(message: JsonObject) -> dict[str, list[str]]:
    """Return the fields of a message with text that is no content, not about the message and no grader's."""
    return {
        key: texts
        for key, value in other_text(message).items()
        if not _NOTES & words_of(key) and (texts := [*_texts_inside(value)])
    }


def fields_beside(message: JsonObject) -> dict[str, list[str]]:
    """Return the fields that are shown beside the content of a turn, each with its texts.

    A user's are none: they mostly describe a task, whose text is the content. An `answer` is none: it may be the
    reference.
    """
    if message.get("role") in USER_ROLES:
        return {}
    return {
        key: texts
        for key, texts in fields_told(message).items()
        if "answer" not in words_of(key)
    }


def _texts_inside(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, also in JSON text, without those of metadata."""
    for text in filter(is_text, leaves(value, ABOUT | _MEASURED)):
        inner = json_value(text) if text[0] in ("{", "[") else None
        if isinstance(inner, dict | list):
            yield from _texts_inside(inner)
        elif text.strip():
            yield text.strip()
