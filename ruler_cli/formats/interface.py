"""A format: how a record is read as rollouts, where an annotation goes, and what a rollout takes with it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    first,
    holds,
    items,
    value_at,
    words,
)
from ruler_cli.types import Path, Rollout

PROMPT_HASH = "hash of the prompt"
"""The group key of a dump without one: a hash of the messages before the first assistant turn. It is no path
of a field, because records may have a field `prompt`."""
GIVEN = "the group as it was given"
"""The group key of records from Python, whose group the caller knows."""

ID_KEYS = words(
    "group_id group group_index prompt_id example_id problem_id task_id instance_id"
)
"""Fields of generic shapes that hold a group key, best first. Not `uid` or `index`: they often differ between
the rollouts of a group."""

SHAPE_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)
"""Exceptions that a format may raise on a record that only looks like one of its own."""
Code = str | Callable[..., Any] | None
"""A function, or its module and name: a module of formats is imported when a record needs it."""
ParallelLists = Callable[[JsonObject, int], list[Path]]
"""Returns the paths of a record's lists that hold one item for each of its rollouts; the int counts those."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The places where ruler writes.

    Paths begin at the rollout's own object (`Rollout.path`). `reward` is the dump's own reward field, None if the
    framework has none. A score is written there as `form` says, with `%s` for the number; `lost` is written
    if there is no score, and if `lost` is empty the field is removed, for readers that take no null.
    `other_ruler` is where `ruler` stands in a file that the framework's own writer wrote for us.
    `source` is the place of the dump's own reward if only ruler writes the field `reward`; a part `*` is the
    first member that ruler did not write. `refuses_null` names a reader of these files that takes no reward
    of null.

    `listed`: rollouts are items of lists, `Rollout.path` is `(i,)`, and paths begin at the record. Item i of the
    list `reward` is the rollout's. Several records of a `trajectory` shape may hold the items of one group.
    `lists` (ParallelLists) returns the lists of a record that lose an item with a rollout that is left out. It
    raises UnreadableError if no rollout can be taken out of the record exactly.

    `extras`: `metrics` and `logs` stand beside the reward, as in ART's trajectories. `payload` names a member
    that holds the trajectory once more, as JSON text, and wins when the dump is read. `absent` is the value that
    a missing reward stands for.
    """

    reward: Path | None = ("reward",)
    ruler: Path = ("ruler",)
    other_ruler: Path | None = None
    source: Path | None = None
    form: bytes = b"%s"
    lost: bytes = b"null"
    refuses_null: str = ""
    listed: bool = False
    lists: Code = None
    extras: bool = False
    payload: str | None = None
    absent: bytes | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One dump shape.

    `name` is for messages, `family` for `--format`, `has` are the terms that identify a record (see
    `fields.holds`), `shown` says more than they do. `read` gets a record and returns its rollouts; it raises
    UnreadableError. A reward that it leaves out is read where the score is written, unless `own_reward`.
    `shape`: a record is a group, a trajectory, or columns with the rollouts of several groups.
    `test` looks at the keys of a record that has the terms, and returns None for "possibly". If several formats
    match a record, the highest `rank` wins: named shapes have a higher one than generic ones.
    `keys` are dotted paths of a group key, best first. `compute_key` computes the key if it is no field, and
    `key_description` names it for messages. `simulated_user`: a model plays the user, so that rollouts of
    one task begin differently. `varied_prompts`: they do because prompts are what is compared. `refine`
    adapts the format to the first records of a file, if one record alone cannot tell.
    """

    name: str
    family: str
    has: str
    read: str | Callable[..., Any]
    keys: Names = ()
    layout: RecordLayout = RecordLayout()
    shape: Literal["group", "trajectory", "columns"] = "trajectory"
    test: Code = None
    shown: str = ""
    own_reward: bool = False
    compute_key: Code = None
    key_description: str = ""
    rank: int = 1
    simulated_user: bool = False
    varied_prompts: bool = False
    refine: Code = None

    @property
    def group_in_record(self) -> bool:
        """Tell if the annotation of the group is written once in the record, not on each rollout."""
        return self.shape == "group" or (
            self.layout.listed and self.shape == "trajectory"
        )

    @property
    def signature(self) -> str:
        """The fields that identify a record, for messages."""
        terms = [term for term in self.has.split() if not term.startswith("!")]
        names = ", ".join(f"`{term}`" for term in terms).replace("|", "` or `")
        return self.shown or re.sub(r'\[\]|{}|"|#', "", names)

    def matches(self, record: JsonObject) -> bool | None:
        """Tell if a record is of this format by its keys; None for "possibly"."""
        if not holds(record, self.has):
            return False
        return True if self.test is None else code(self.test)(record)

    def rollouts(self, record: JsonObject) -> list[Rollout]:
        """Read the rollouts of a record; UnreadableError if there are none."""
        found: list[Rollout] = code(self.read)(record)
        return found

    def refined(self, records: Sequence[JsonObject]) -> Format:
        """Return the format as the first records of a file have it."""
        found: Format = code(self.refine)(self, records) if self.refine else self
        return found

    def key_of(self, record: JsonObject) -> str | None:
        """Return the group key that is computed from a record; None if it has none."""
        return None if self.compute_key is None else code(self.compute_key)(record)


def code(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a row of the table names."""
    return _imported(name) if isinstance(name, str) else name


@cache
def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(".")
    holder = importlib.import_module(f"ruler_cli.formats.{module}")
    found: Callable[..., Any] = attrgetter(function)(holder)
    return found


@dataclass(frozen=True, slots=True)
class RefusedFormat:
    """A shape that holds nothing to judge; `reason` says why.

    `guards`: it is refused even if a generic format would read it.
    """

    has: str
    reason: str
    test: Code = None
    guards: bool = False

    def matches(self, record: JsonObject) -> bool:
        """Tell if a record is of this shape."""
        return holds(record, self.has) and (
            self.test is None or bool(code(self.test)(record))
        )


def fits(shape: Format | RefusedFormat, record: JsonObject) -> bool | None:
    """Tell if a record is of a shape; False if its test raises an error."""
    try:
        return shape.matches(record)
    except (UnreadableError, RecursionError, *SHAPE_ERRORS):
        return False


def printable(text: str, longest: int = 60) -> str:
    """Return text of a dump for a message: printable characters, at most `longest` and an ellipsis."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in text[: longest + 1])
    return clean if len(clean) <= longest else clean[:longest] + "…"


# If the wrong list loses an item, or the right one does not, every later item belongs to another rollout, and
# nobody notices. So lists that a format does not know are refused, not guessed at.


def parallel_lists(
    record: JsonObject,
    size: int,
    paths: Iterable[Path] | None = None,
    apart: Iterable[str] = (),
) -> list[Path]:
    """Return those of these paths that lead to lists; UnreadableError if another list has `size` items.

    Without paths every list of the record but an empty one is meant. Lists in the fields `apart` are of another
    kind and are ignored.
    """
    if paths is None:
        listed = (name for name, value in record.items() if items(value))
        paths = [(name,) for name in listed if name not in apart]
    lists = lists_at(record, size, paths)
    # ruler's own lists are parallel, or belong to the group
    known = {("ruler",), *lists, *((name,) for name in apart)}
    if unknown := _unknown_list(record, size, (), known):
        where = printable(".".join(unknown))
        raise UnreadableError(
            f"has as many items at `{where}` as rollouts, and may not be cut with them; take `{where}` out, or "
            "write a rollout a line"
        )
    return lists


def no_removal(_record: JsonObject, _size: int) -> list[Path]:
    """Refuse to leave a rollout of a record out."""
    raise UnreadableError(
        "compares its answers, and would be wrong without one of them"
    )


def lists_at(record: JsonObject, size: int, paths: Iterable[Path]) -> list[Path]:
    """Return the paths that lead to lists; UnreadableError if one has not `size` items."""
    lists = []
    for path in paths:
        value = value_at(record, path)
        if not isinstance(value, list):
            continue
        if len(value) != size:
            where = printable(".".join(map(str, path)))
            raise UnreadableError(
                f"has {len(value)} items at `{where}` for {size} rollouts"
            )
        lists.append(path)
    return lists


def _unknown_list(value: Any, size: int, path: Names, known: Collection[Path]) -> Names:
    """Return the path of a list of `size` items that is not known, here or in objects below; () if none."""
    if path in known:
        return ()
    if isinstance(value, list):
        return path if len(value) == size else ()
    if not isinstance(value, Mapping):
        return ()
    below = (
        _unknown_list(inner, size, (*path, key), known) for key, inner in value.items()
    )
    return first(filter(None, below)) or ()
