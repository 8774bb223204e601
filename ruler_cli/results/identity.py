"""Groups and rollouts → names that stay the same in another scored file, in a page and in a file of labels.

A group is named by its key, a rollout by what it holds: scored again, in another order or by another judge,
it has the same name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import orjson

from ruler_cli.files.scratch import digest as digest_of_text
from ruler_cli.results.record import GroupRecord
from ruler_cli.types import Group, readable_text

_LONGEST_KEY = 300
"""Characters of a key in a page and in a file of labels."""
_ID = 12
"""Hexadecimal digits of a rollout's id: it tells rollouts of one group apart."""


def group_name(key: str) -> str:
    """Name a group: its key as text that every reader takes, a very long one by its beginning and a digest."""
    if len(key) <= _LONGEST_KEY:
        return readable_text(key)
    return readable_text(
        f"{key[:_LONGEST_KEY]}… {digest_of_text(key).hex()[:_ID]}"
    )


def rollout_ids(
    group: Group,
    scored: GroupRecord,
) -> tuple[str, ...]:
    """Return the id of each rollout, 12 hexadecimal digits of what it holds; identical ones share it."""
    return tuple([digest.hex()[:_ID] for digest in digests_of(group, scored)])


def digests_of(
    group: Group,
    scored_group: GroupRecord,
) -> Sequence[bytes]:
    """Return a digest of the messages of each rollout."""
    parts = group.rollouts
    digests = []
    for rollout in scored_group.rollouts:
        digest = blake2b(digest_size=8)
        for i in rollout.indices:
            try:
                for messages in (parts[i].messages, *parts[i].histories):
                    digest.update(_canonical(messages))
            # so deep that it can be read but not written: the same one has the same place in its group
            except RecursionError:
                digest.update(digest_of_text(f"{i} {group.key}"))
        digests.append(digest.digest())
    return digests


def _canonical(messages: list[Any]) -> bytes:
    """Encode messages alike, in any order of keys; a null member of a message is as good as none."""
    shown = []
    for message in messages:
        members = message
        if isinstance(message, dict):
            members = {k: v for k, v in message.items() if v is not None}
        shown.append(members)
    try:
        return orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, a huge integer
        return json.dumps(shown, sort_keys=True).encode()
