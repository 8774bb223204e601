"""How long a rollout is and what tells it from others, without rendering it.

Rendering a dump takes ten times as long as parsing it. Here a conversation is only looked at: how
long each text in it is and how the last one ends. That is nearly certain where two rollouts differ
and not quite where they seem alike; who must know lays out some groups and takes the ratio.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ruler_cli.files.parse import dump
from ruler_cli.formats.chat import first_turn
from ruler_cli.records import Record, Rollout

_END = 400
"""Characters of a last text that are looked at."""
_THIN = 8
"""Where texts are less than this part of a record, it is not in `content` that they stand."""


class Weight(NamedTuple):
    """A rollout in brief; sizes are bytes of the dump, digests are good within this process.

    The opening is what stands before the first assistant turn. Rollouts that are rendered alike have
    one `opening` and one `body`, but where the ids of calls had to be looked at.
    """

    opening_size: int
    size: int
    opening: int
    body: int


def weigh(record: Record, rollout: Rollout) -> Weight:
    """Look at a rollout that has no fault."""
    alone = len(record.rollouts) == 1 and record.parts == 1
    whole = len(record.line.raw) if alone else len(dump(rollout.messages))
    messages = rollout.messages
    contents = [message.get("content") for message in messages]
    turn = first_turn(messages)
    try:
        texts = [len(content) if content else 0 for content in contents]
    except TypeError:  # content that has no length: `dump` knows what to do with it
        texts = []
    total = sum(texts)
    if total * _THIN < whole:
        return _dumped(rollout, turn)
    before = texts[:turn]
    opening = hash((*before, _end(contents[turn - 1]) if turn else ""))
    body = hash((opening, *texts, _end(contents[-1]), len(rollout.histories)))
    opening_size = whole * sum(before) // total
    return Weight(opening_size, whole - opening_size, opening, body)


def _dumped(rollout: Rollout, turn: int) -> Weight:
    """By the JSON of all messages, which knows every shape."""
    start, rest = dump(rollout.messages[:turn]), dump(rollout.messages[turn:])
    opening = hash(start)
    return Weight(len(start), len(rest), opening, hash((opening, rest)))


def _end(content: Any) -> str:
    return content[-_END:] if isinstance(content, str) else ""
