"""Files of labels → what people say of pairs of rollouts.

A file has a JSON object a line, as the page of comparisons writes it: `{"group", "left", "right", "choice", "by",
"drawn", "chance", "at"}`. `group` is the name of the group, `left` and `right` are the ids of two rollouts (see
`identity`), `choice` is left, right, equal or unsure.

`drawn` tells how the pair was chosen: `random` with the `chance` that it had, or `disputed` (and so is any other
word) if what is known of the scores chose it. Of lines that one person wrote about the same pair the latest one
counts: by `at`, or else the last; if one of them was drawn at random, so is it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.files.source import BOM
from ruler_cli.results.record import text_in
from ruler_cli.types import value

RANDOM = "random"
"""The word of `drawn` for what was drawn at random."""
DISPUTED = "disputed"
"""The word for what was drawn by what is known of scores."""
_CHOICES = ("left", "right", "equal", "unsure")
_LONGEST = 4_000
"""Characters of a text in a line."""
_LATEST = "~"
"""Behind any time."""


@value
class PairLabel:
    """A person's choice between two rollouts of a group: left, right, equal or unsure.

    `chance` is the probability, above 0 and at most 1, with which the pair was drawn; None if it is not known.
    """

    group: str
    left: str
    right: str
    choice: str
    by: str = ""
    drawn: str = ""
    chance: float | None = None
    at: str = ""

    @property
    def pair(self) -> tuple[str, ...]:
        """The rollouts, whichever stood left."""
        return tuple(sorted((self.left, self.right)))

    @property
    def better(self) -> str:
        """The better rollout; empty if neither is."""
        return {
            "left": self.left,
            "right": self.right,
        }.get(self.choice, "")

    @property
    def weight(self) -> float:
        """The inverse of the chance that it had to be drawn; 1 if that is not known."""
        return 1 / (self.chance or 1.0)


def latest(lines: Iterable[PairLabel]) -> list[PairLabel]:
    """Return the lines that count, by time: of those of one person about the same pair the latest one."""
    by_person: dict[Any, PairLabel] = {}
    for line in sorted(lines, key=lambda line: line.at or _LATEST):
        key = (line.by, line.group, line.pair)
        before = by_person.get(key, line)
        by_person[key] = line
        # what was drawn at random stays so, also if it was chosen besides
        if before.drawn == RANDOM != line.drawn:
            chance = before.chance
            by_person[key] = replace(
                line,
                drawn=RANDOM,
                chance=chance,
            )
    return [*by_person.values()]


def read_labels(paths: Iterable[str | Path]) -> list[PairLabel]:
    """Read files, and return the lines that count.

    UsageError, with the file, the line and the reason, for a line that is not a comparison.
    """
    lines = []
    for path in paths:
        place = f"--people {path}"
        try:
            content = Path(path).read_bytes().removeprefix(BOM)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot be read: {reason}", place=place) from None
        for number, line in enumerate(content.split(b"\n"), 1):
            try:
                if line.strip():
                    lines.append(parse_line(line))
            except (UnreadableError, RecursionError) as error:
                problem = str(error)
                if isinstance(error, RecursionError):
                    problem = "is nested too deeply"
                raise UsageError(
                    f"line {number} {problem}", place=place
                ) from None
    return latest(lines)


def parse_line(line: bytes) -> PairLabel:
    """Read a line; UnreadableError says why it is not a comparison."""
    value = parse(line, exact=False)
    names = ("group", "left", "right", "choice", "by", "drawn", "at")
    fields: dict[str, Any] = {name: text_in(value.get(name)) for name in names}
    if max(map(len, fields.values())) > _LONGEST:
        raise UnreadableError(f"has a text of more than {_LONGEST:,} letters")
    if not isinstance(value.get("group"), str):
        raise UnreadableError("has no `group`")
    if len({"", fields["left"], fields["right"]}) < 3:
        problem = "does not name two rollouts, `left` and `right`"
        raise UnreadableError(problem)
    if fields["choice"] not in _CHOICES:
        raise UnreadableError(f"has no `choice` of {', '.join(_CHOICES)}")
    # one person, however the name is written
    fields["by"] = fields["by"].strip().casefold()
    if fields["drawn"] not in ("", RANDOM):
        fields["drawn"] = DISPUTED
    chance = value.get("chance")
    if chance is not None:
        if type(chance) not in (int, float) or not 0 < chance <= 1:
            problem = "has a `chance` that is not above 0 and at most 1"
            raise UnreadableError(problem)
        fields["chance"] = float(chance)
    return PairLabel(**fields)
