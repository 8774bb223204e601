"""Group keys: the rollouts of one task have the same key, wherever it comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from ruler_cli.files.parse import dump
from ruler_cli.files.values import is_text, words
from ruler_cli.formats.chat import task_messages
from ruler_cli.messages.read import has_content
from ruler_cli.types import Rollout, value

PROMPT_HASH = "hash of the prompt"
"""The group key of a dump without one: a hash of the messages before the first assistant turn. It is not a path of a
field, because records may have a field `prompt`.
"""
CALLERS_GROUP = "the group as it was given"
"""The group key of records from Python, whose group the caller knows."""

ID_KEYS = "group_id|group|group_index|prompt_id|example_id|problem_id|task_id|instance_id"
"""Fields of generic shapes that hold a group key. Not `uid` or `index`: they often differ between
the rollouts of a group."""
ITEM_IDS = words(
    "item_id scenario_id case_id question_id query_id blueprint_id game_id"
)
"""Fields that tell the items of one prompt apart, which may be a greeting, or cut at some length."""
REPEATED_IDS = words("sample_id id uid idx index")
"""Those that do only if several records have the same: else they are of rollouts."""


@value
class GroupKey:
    """The rule by which a record gets its group key.

    `name` is for messages: a path, several with ` + ` between them, PROMPT_HASH, GIVEN, or what a format computes. The
    key is the values at all `paths` together; without any it is not in the record. `of_item`: it is the prompt, with
    that value if the record has it. The text at `written` comes first: the key by which an earlier run grouped the
    record, perhaps among several files.
    """

    name: str
    paths: Sequence[str] = ()
    of_item: bool = False
    written: str = ""

    @classmethod
    def of_paths(cls, *paths: str) -> GroupKey:
        """Make the rule of a key that stands in the record."""
        return cls(" + ".join(paths), paths)

    def value(
        self,
        value_at: Callable[[str], Any],
    ) -> Any:
        """Return the value at the path; of several paths the list of their values, None if one is absent."""
        values = [value_at(path) for path in self.paths]
        if None in values or not values:
            return None
        return values if len(values) > 1 else values[0]


def hashed_key(name: str, value: Any) -> str:
    """Return a group key of a name and the hash of any JSON value: equal values have equal keys."""
    return _hashed(name, key_text(value).encode("utf-8", "surrogatepass"))


def _hashed(name: str, data: bytes) -> str:
    digest = blake2b(data, digest_size=8)
    return f"{name}-{digest.hexdigest()}"


def key_text(value: Any) -> str:
    """Return any JSON value as a group key; equal values have equal keys, integers of any size too."""
    if is_text(value):
        return value
    if type(value) is int:  # fast, as most keys are texts or integers
        return str(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


_NOT_IN_KEY = {"role", "name", "content", "type", "id"}


def prompt_key(
    rollout: Rollout,
    step: Any,
) -> str:
    """Return a hash of the prompt and of the training step; empty if the prompt is."""
    task = task_messages(rollout)
    if not any(map(has_content, task)):
        return ""
    prompt = []
    for message in task:
        content = message.get("content")
        part = [message.get("role"), content]
        # without content, or with calls, other fields alone tell two messages apart
        if content is None or message.get("tool_calls"):
            fields = {}
            for key, value in message.items():
                if value and key not in _NOT_IN_KEY:
                    fields[key] = value
            if fields:
                part.append(fields)
        prompt.append(part)
    return _hashed("prompt", dump([prompt, step]))
