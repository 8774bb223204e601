"""Files of labels and marks → what people say of groups, rollouts and pairs of rollouts.

A file has a JSON object a line, of one of two kinds, and may mix them.

A comparison, as the page of comparisons writes it: `{"group", "left", "right", "choice", "note",
"by", "drawn", "chance", "at"}`. `group` is the name of the group, `left` and `right` are the ids of two
rollouts (see `identity`), `choice` is left, right, equal or unsure.

A mark of one rollout, or of a group if `rollout` is absent or empty, as the report exports it:
`{"group", "rollout", "mark", "note", "by", "at"}`. `mark` is a word. With a `label` it is a number, and such
lines may be `drawn` with a `chance`, too. The words good and bad are the labels 1 and 0.

`drawn` tells how the line was chosen: `random` with the `chance` that it had, or `disputed` (and so is any other
word) if what is known of the scores chose it. Of lines that one person wrote about the same thing the latest one
counts: by `at`, or else the last; if one of them was drawn at random, so is it. A mark whose members are all empty
takes an earlier one back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_args

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.files.source import BOM
from ruler_cli.results.annotations import label_of

Choice = Literal["left", "right", "equal", "unsure"]
RANDOM = "random"
"""The word of `drawn` for what was drawn at random."""
DISPUTED = "disputed"
"""The word for what was drawn by what is known of scores."""
_CHOICES = get_args(Choice)
_VALUES: Mapping[str, float | None] = {
    "left": 1.0,
    "right": 0.0,
    "equal": 0.5,
    "unsure": None,
}
_MARK_LABELS = {"good": 1.0, "bad": 0.0}
_LONGEST = 4_000
"""Characters of a text in a line."""


@dataclass(frozen=True, slots=True)
class PairLabel:
    """A person's choice between two rollouts of a group.

    `chance` is the probability, above 0 and at most 1, with which the pair was drawn; None if it is not known.
    """

    group: str
    left: str
    right: str
    choice: Choice
    note: str = ""
    by: str = ""
    drawn: str = ""
    chance: float | None = None
    at: str = ""

    @property
    def value(self) -> float | None:
        """1 if the left rollout is better, 0 if the right one is, 0.5 if they are equal; None if unsure."""
        return _VALUES[self.choice]

    @property
    def about(self) -> tuple[str, ...]:
        """The group and the two rollouts, whichever stood left."""
        return (self.group, *sorted((self.left, self.right)))


@dataclass(frozen=True, slots=True)
class RolloutMark:
    """A person's mark of a rollout, or of a group if `rollout` is empty.

    `label` is the number that the line has, or that its word stands for; None if there is none.
    """

    group: str
    rollout: str = ""
    mark: str = ""
    label: float | None = None
    note: str = ""
    by: str = ""
    drawn: str = ""
    chance: float | None = None
    at: str = ""
    taken_back: bool = False

    @property
    def is_label(self) -> bool:
        """True if it has a label of a rollout."""
        return bool(self.rollout) and self.label is not None

    @property
    def about(self) -> tuple[str, ...]:
        """The group and the rollout."""
        return (self.group, self.rollout)


LabelLine = PairLabel | RolloutMark


@dataclass(frozen=True, slots=True)
class Labels:
    """The lines of files of labels, by the names of their groups, in the order of the files."""

    comparisons: Mapping[str, Sequence[PairLabel]]
    marks: Mapping[str, Sequence[RolloutMark]]

    @classmethod
    def of(cls, lines: Iterable[LabelLine]) -> Labels:
        """Sort lines by group; of lines of one person about the same thing the latest one counts.

        Names of people are compared trimmed and case-folded.
        """
        people: dict[str, str] = {}
        spelled = []
        for line in lines:
            by = line.by.strip()
            spelled.append(replace(line, by=people.setdefault(by.casefold(), by)))
        comparisons: dict[str, list[PairLabel]] = {}
        marks: dict[str, list[RolloutMark]] = {}
        for one in latest(spelled, attrgetter("about")):
            if isinstance(one, PairLabel):
                comparisons.setdefault(one.group, []).append(one)
            elif not one.taken_back:
                marks.setdefault(one.group, []).append(one)
        return cls(comparisons, marks)

    @classmethod
    def read(cls, paths: Iterable[str | Path], *, option: str) -> Labels:
        """Read files; UsageError, with the file, the line and the reason, for a line that is neither kind.

        `option` is that which names the files.
        """
        return cls.of(one for path in paths for one in _read(Path(path), option))


def latest(
    lines: Iterable[LabelLine], about: Callable[[LabelLine], Hashable]
) -> Iterable[LabelLine]:
    """Return of lines of one person about the same thing the latest one."""
    known: dict[Hashable, LabelLine] = {}
    for one in lines:
        key = (type(one), one.by, about(one))
        before = known.get(key, one)
        at = _time(one.at)
        later = not at or at >= (_time(before.at) or at)
        counts, other = (one, before) if later else (before, one)
        # what was drawn at random stays so, also if it was chosen besides
        if other.drawn == RANDOM != counts.drawn:
            counts = replace(counts, drawn=RANDOM, chance=other.chance)
        known[key] = counts
    return known.values()


def _time(at: str) -> datetime | None:
    """Return the time of a line, without a zone in UTC; None if it says none."""
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _read(path: Path, option: str) -> Iterator[LabelLine]:
    try:
        lines = path.read_bytes().removeprefix(BOM).split(b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot be read: {reason}", place=f"{option} {path}"
        ) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield parse_line(line)
        except (UnreadableError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            reason = "is nested too deeply" if deep else str(error)
            raise UsageError(
                f"line {number} {reason}", place=f"{option} {path}"
            ) from None


def parse_line(line: bytes) -> LabelLine:
    """Read a line; UnreadableError says why it is neither a comparison nor a mark."""
    value = parse(line, exact=False)
    group = value.get("group")
    if not isinstance(group, str):
        raise UnreadableError("has no `group`")
    own: dict[str, Any] = {name: _text(value, name) for name in _TEXTS}
    if own["drawn"] not in ("", RANDOM):
        own["drawn"] = DISPUTED
    own["chance"] = _chance(value.get("chance"))
    if "choice" in value:
        left = _text(value, "left")
        right = _text(value, "right")
        if not left or not right or left == right:
            raise UnreadableError("does not name two rollouts, `left` and `right`")
        choice = value["choice"]
        if choice not in _CHOICES:
            raise UnreadableError(f"has no `choice` of {', '.join(_CHOICES)}")
        return PairLabel(group, left, right, choice, **own)
    mark = _text(value, "mark")
    label = label_of(value.get("label"))
    if label is None and value.get("label") is not None:
        raise UnreadableError("has a `label` that is no number and no word for one")
    if label is None:
        label = _MARK_LABELS.get(mark)
    # a line of a script may name a rollout and say nothing of it
    taken_back = value.get("mark") == "" and not own["note"] and label is None
    rollout = _text(value, "rollout")
    return RolloutMark(group, rollout, mark, label, **own, taken_back=taken_back)


_TEXTS = ("note", "by", "drawn", "at")


def _text(value: Mapping[str, Any], name: str) -> str:
    """Return a text of a line, empty if it is absent; UnreadableError if it is none, or too long."""
    text = value.get(name)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise UnreadableError(f"has a `{name}` that is no text of {_LONGEST:,} letters")
    return text


def _chance(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) in (int, float) and 0 < value <= 1:
        return float(value)
    raise UnreadableError("has a `chance` that is not above 0 and at most 1")
