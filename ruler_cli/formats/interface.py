"""A format: how a record is read as rollouts, and where an annotation goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import has_keys
from ruler_cli.types import Path, Rollout

PROMPT_HASH = "hash of the prompt"
"""The group key of a dump without one: a hash of the messages before the first assistant turn. It is no path
of a field, because records may have a field `prompt`."""
GIVEN = "the group as it was given"
"""The group key of records from Python, whose group the caller knows."""

ID_KEYS = (
    "group_id", "group", "group_index", "prompt_id", "example_id", "problem_id", "task_id", "instance_id",
)  # fmt: skip
"""Fields of generic shapes that hold a group key, best first. Not `uid` or `index`: they often differ between
the rollouts of a group."""

SHAPE_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)
"""Exceptions that a format may raise on a record that only looks like one of its own."""
ParallelLists = Callable[[Mapping[str, Any], int], list[Path]]
"""Return the paths of a record's lists that hold one item for each of its rollouts; the int counts those."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The places where ruler writes if each rollout is an object of its own.

    Paths begin at that object (`Rollout.path`). `reward` is the dump's own reward field, None if the
    framework has none. A score is written there as `form` says, with `%s` for the number; `lost` is written
    if there is no score, and if `lost` is empty the field is removed, for readers that take no null.
    `other_ruler` is where `ruler` stands in a file that the framework's own writer wrote for us.
    `source` is the place of the dump's own reward if only ruler writes the field `reward`; a part `*` is the
    first member that ruler did not write. `refuses_null` names a reader of these files that takes no reward
    of null.

    `lists` returns the lists of a record that lose an item with a rollout that is left out. It raises
    UnreadableError if no rollout can be taken out of the record exactly (see `parallel`).
    """

    listed: ClassVar[bool] = False

    reward: Path | None = ("reward",)
    ruler: Path = ("ruler",)
    other_ruler: Path | None = None
    source: Path | None = None
    form: bytes = b"%s"
    lost: bytes = b"null"
    refuses_null: str = ""
    lists: ParallelLists | None = None


@dataclass(frozen=True, slots=True)
class ArtLayout(RecordLayout):
    """An object with `metrics` and `logs` beside the reward, as ART's trajectories have them.

    `payload` names a member that holds the trajectory once more, as JSON text, and wins when the dump is
    read. `absent` is the value that a missing reward stands for.
    """

    payload: str | None = None
    absent: bytes | None = None


@dataclass(frozen=True, slots=True)
class ListLayout(RecordLayout):
    """Rollouts that are items of lists: `Rollout.path` is `(i,)`, and paths begin at the record.

    Item i of the list `reward` is the rollout's. Several records of a `trajectory` shape may hold the items
    of one group.
    """

    listed: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Format:
    """One dump shape.

    `name` is for messages, `family` for `--format`, `signature` lists the keys that identify a record.
    `shape`: a record is a group, a trajectory, or columns with the rollouts of several groups.
    `matches` looks at keys only and returns None for "possibly". If several formats match a record, the
    highest `rank` wins: named shapes have a higher one than generic ones. `rollouts` raises UnreadableError.
    `keys` are dotted paths of a group key, best first. `key_of` computes the key if it is no field, and
    `key_description` names it for messages. `simulated_user`: a model plays the user, so that rollouts of
    one task begin differently. `varied_prompts`: they do because prompts are what is compared. `refine`
    adapts the format to the first records of a file, if one record alone cannot tell.
    """

    name: str
    family: str
    signature: str
    matches: Callable[[Mapping[str, Any]], bool | None]
    rollouts: Callable[[dict[str, Any]], list[Rollout]]
    keys: tuple[str, ...] = ()
    layout: RecordLayout = RecordLayout()
    shape: Literal["group", "trajectory", "columns"] = "trajectory"
    key_of: Callable[[Mapping[str, Any]], str | None] | None = None
    key_description: str = ""
    rank: int = 1
    simulated_user: bool = False
    varied_prompts: bool = False
    refine: Callable[[Sequence[Mapping[str, Any]]], Format] | None = None

    @property
    def group_in_record(self) -> bool:
        """Tell if the annotation of the group is written once in the record, not on each rollout."""
        return self.shape == "group" or (
            self.layout.listed and self.shape == "trajectory"
        )


def keyed_format(
    fields: str, name: str, family: str, *more: Any, **options: Any
) -> Format:
    """Return a format that matches records with all of these fields, separated by spaces."""
    names = fields.split()
    signature = ", ".join(f"`{field}`" for field in names)
    return Format(name, family, signature, has_keys(*names), *more, **options)


@dataclass(frozen=True, slots=True)
class RefusedFormat:
    """A shape that cannot be scored; `hint` says why, and what to do instead."""

    matches: Callable[[Mapping[str, Any]], bool]
    hint: str


def refused_shapes(
    *rows: tuple[str | Callable[[Mapping[str, Any]], bool], str],
) -> tuple[RefusedFormat, ...]:
    """Return refused shapes, each from a test, or fields that its records have, and a hint."""
    return tuple(
        RefusedFormat(has_keys(*test.split()) if isinstance(test, str) else test, hint)
        for test, hint in rows
    )


def fits(shape: Format | RefusedFormat, record: Mapping[str, Any]) -> bool | None:
    """Tell if a record is of a shape; False if its test raises an error."""
    try:
        return shape.matches(record)
    except (UnreadableError, RecursionError, *SHAPE_ERRORS):
        return False


def printable(text: str, longest: int = 60) -> str:
    """Return text of a dump for a message: printable characters, at most `longest` and an ellipsis."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in text[: longest + 1])
    return clean if len(clean) <= longest else clean[:longest] + "…"
