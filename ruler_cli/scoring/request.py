"""Sheet → the two messages put to the judge, with opaque labels.

Order and labels come from keyed hashes of the group's content (BLAKE2b), never from the input
order: the same group asks the identical question however its dump is sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from ruler_cli.records import Request
from ruler_cli.scoring import words
from ruler_cli.scoring.fit import lay_out
from ruler_cli.scoring.orders import drawn, keyed, salt
from ruler_cli.scoring.plan import Part, parts
from ruler_cli.scoring.sheet import BYTES_PER_TOKEN, Sheet
from ruler_cli.settings import AskSettings

_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True, slots=True)
class Paper:
    """One request with its key: the distinct body behind each label, in the order shown."""

    request: Request
    labels: dict[str, int]


def compose(
    sheet: Sheet,
    ask: AskSettings,
    part: Part | None = None,
    attempt: int = 0,
    note: str = "",
    given: dict[str, tuple[float, str]] | None = None,
    room: int | None = None,
    fitted: bool = False,
) -> Paper:
    """Write the two messages of one attempt to ask about a part, by default the first of all.

    `note` corrects an earlier reply; `given` holds entries of it that stand, so that only the
    other labels are asked for.
    """
    part = part or first_part(sheet, ask)
    key = salt(sheet.digest, seed=ask.seed, turn=part.turn, attempt=attempt)
    order: Sequence[int] = part.bodies
    if attempt and ask.order == "random":
        order = drawn(order, sheet.digests, key)
    labels = _labels(sheet, key, order)
    lines = [f"<context>\n{sheet.context}\n</context>"] if sheet.context else []
    if sheet.tools:
        lines.append(f"<available_tools>\n{sheet.tools}\n</available_tools>")
    lines += [f'<trajectory id="{label}">\n{sheet.bodies[i]}\n</trajectory>' for label, i in labels.items()]
    wanted = [label for label in labels if label not in (given or {})]
    if note:
        lines.append(note)
    lines.append("trajectory_ids to score: " + orjson.dumps(wanted).decode())
    system = words.system(sheet.rubric, alone=sheet.alone)
    return Paper(Request(system, "\n".join(lines), tuple(wanted), room, part.turn, fitted), labels)


def first_part(sheet: Sheet, ask: AskSettings) -> Part:
    """The first request of the first pass; of a sheet that fits no context, all of it."""
    return next(iter(parts(sheet, ask, 0)), Part(0, 0, tuple(range(len(sheet.bodies)))))


def _labels(sheet: Sheet, key: bytes, order: Sequence[int]) -> dict[str, int]:
    """Four consonants or more for each body, that no text of the request holds."""
    labels: dict[str, int] = {}
    text = "\n".join((sheet.rubric, sheet.context, sheet.tools, *(sheet.bodies[i] for i in order)))
    for i in order:
        for draw in itertools.count():
            number = int.from_bytes(keyed(key, b"label %d" % draw, sheet.digests[i]))
            size = 4 + draw // 50  # a text that holds every short label is answered with longer ones
            label = ""
            for _ in range(size):
                number, letter = divmod(number, len(_LETTERS))
                label += _LETTERS[letter]
            if label not in labels and label not in text:
                labels[label] = i
                break
    return labels


__all__ = ["BYTES_PER_TOKEN", "Paper", "Part", "Sheet", "compose", "first_part", "lay_out"]
