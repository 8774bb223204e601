"""What a format is: record in, rollouts out, and where an annotation goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.types import Path, Rollout

PROMPT_HASH = "hash of the prompt"
"""The group key of a dump without one: of what stands before the first assistant turn. No path of a field:
records may well have one that is called `prompt`."""

ID_KEYS = (
    "group_id", "group", "group_index", "prompt_id", "example_id", "problem_id", "task_id", "instance_id",
)  # fmt: skip
"""Fields that generic shapes have for a group key, best first. Not `uid` or `index`: often one a rollout."""

SHAPE_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)
"""What a format module may meet in a record that only looks like one of its own."""
ParallelLists = Callable[[Mapping[str, Any], int], list[Path]]
"""Of a record with so many rollouts, which of its lists hold an item for each of them."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Where ruler writes, and what goes along with a rollout that is left out.

    Paths begin at the rollout's own object (`Rollout.path`). `reward` is the dump's own reward field,
    None where the framework has no room for one, written as `form` says, `%s` being the number, and
    as `lost` where there is no score; empty: the field is taken out, for readers that take no null.
    `source` is where the dump's own reward stands when only ruler writes the field `reward`; a part `*`
    is the first member that is not ruler's.
    `extras` says that the shape has `metrics` and `logs`; `payload` names a member that holds the
    trajectory once more, as JSON text, and wins when the dump is read; `absent` is what a reward that
    is not there means.

    `listed`: rollouts are no objects of their own but items of lists, `Rollout.path` is `(i,)`, and
    paths begin at the record. `reward` is then a list too, of which item i is the rollout's. Several
    records of a `trajectory` shape may hold the items of one group.

    `refuses_null` names a reader of these files that takes none in which a reward is null.

    `lists` are those of the dump's own that lose an item with a rollout, beside the list that it stands
    in; of a record that cannot lose one exactly it raises UnreadableError (see `parallel`).
    """

    reward: Path | None = ("reward",)
    ruler: Path = ("ruler",)
    source: Path | None = None
    form: bytes = b"%s"
    lost: bytes = b"null"
    extras: bool = False
    payload: str | None = None
    absent: bytes | None = None
    listed: bool = False
    refuses_null: str = ""
    lists: ParallelLists | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One dump shape.

    `family` is what `--format` takes, `name` what is told, `tells` the keys it was known by.
    `shape`: a record is a group, a trajectory, or columns with the rollouts of several groups.
    `matches` looks at keys only; None says "could be". Of several formats that match a record the
    highest `rank` wins: named shapes stand above generic ones. `rollouts` raises UnreadableError.
    `keys` are dotted paths of a group key, best first; `key_of` computes it where it is no field of
    its own, and `key_description` says how. `simulated_user`: a model plays the user, so that the
    rollouts of a task begin differently. `refine` adapts the format to the first records of a file, if one
    record alone cannot tell.
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
    refine: Callable[[Sequence[Mapping[str, Any]]], Format] | None = None

    @property
    def group_in_record(self) -> bool:
        """Tell if the group's part of a mark stands in the record, and not on each rollout."""
        return self.shape == "group" or (self.layout.listed and self.shape == "trajectory")


def keyed_format(
    fields: str,
    name: str,
    family: str,
    rollouts: Callable[[dict[str, Any]], list[Rollout]],
    keys: tuple[str, ...] = (),
    layout: RecordLayout = RecordLayout(),
    **more: Any,
) -> Format:
    """A format whose records are those with all of these fields."""
    wanted = fields.split()
    signature = ", ".join(f"`{field}`" for field in wanted)
    return Format(name, family, signature, has_keys(*wanted), rollouts, keys, layout, **more)


@dataclass(frozen=True, slots=True)
class RefusedFormat:
    """A shape that people have and that cannot be scored: how it is known, and the way out."""

    matches: Callable[[Mapping[str, Any]], bool]
    hint: str


def fits(shape: Format | RefusedFormat, record: Mapping[str, Any]) -> bool | None:
    """Tell if a record is of a shape; one that its test cannot look into is not."""
    try:
        return shape.matches(record)
    except (UnreadableError, RecursionError, *SHAPE_ERRORS):
        return False


def printable(text: str, longest: int = 60) -> str:
    """Text of a dump, fit for a sentence on a terminal: printable, and not long."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text[: longest + 1])
    return shown if len(shown) <= longest else shown[:longest] + "…"


def has_keys(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    """A test for records with all of these keys."""
    wanted = frozenset(keys)
    return lambda record: wanted <= record.keys()


def items(value: Any) -> list[Any]:
    """A list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def first_at(record: Any, *paths: str) -> Any:
    """The first value at these paths that is not null; None where there is none."""
    return next((found for path in paths if (found := lookup(record, path)) is not None), None)


def lookup(record: Any, path: str) -> Any:
    """The value at a dotted path, a key that holds the dots itself first; None where absent.

    A part that is a number picks an item of a list, `-1` the last one.
    """
    if isinstance(record, dict) and path in record:
        return record[path]
    for part in path.split("."):
        if isinstance(record, dict) and part in record:
            record = record[part]
        elif isinstance(record, list) and (at := item_index(part, len(record))) is not None:
            record = record[at]
        else:
            return None
    return record


def item_index(part: str, size: int) -> int | None:
    """The item of a list of this size that a part of a path names; None where there is none."""
    if part == "-1" and size:
        return size - 1
    return int(part) if part.isdecimal() and len(part) < 10 and int(part) < size else None
