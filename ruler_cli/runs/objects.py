"""Groups that are Python objects → groups to judge, and annotated copies of what was given.

A group is a list of rollouts, a dict or an object that holds them as `trajectories`, or a dict of any format
that is a whole group. Each rollout is read from its JSON form as a line of a file is, and the annotated line
tells what changes in the copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import orjson

from ruler_cli.errors import UnreadableError, UsageError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.values import EMPTY, first_at, lookup
from ruler_cli.formats.annotate import annotate
from ruler_cli.formats.chat import PROMPTS
from ruler_cli.formats.native import ART, BESIDE
from ruler_cli.formats.reader import Reader, detect, formats_of, key_text
from ruler_cli.formats.table import GIVEN, SHAPE_ERRORS, Format, fits
from ruler_cli.settings.criteria import rubric_of
from ruler_cli.settings.models import InputSettings, OnFailure
from ruler_cli.types import (
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Kind,
    Line,
    Record,
    Rollout,
    Rubric,
    Standards,
)
from ruler_cli.types import (
    value as frozen_value,
)

if TYPE_CHECKING:
    from ruler_cli.results.record import GroupRecord

G = TypeVar("G")
_PLAIN = frozenset((str, int, float, bool, type(None)))
_KEYS = ("group_id", "metadata.scenario_id")
"""Paths of a group's key."""
_BESIDE = frozenset(path.partition(".")[0] for path in BESIDE)
_SHOWN = frozenset(("messages", "tools", *PROMPTS, *_BESIDE))
"""Members that the judge may be shown."""
_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_WRITTEN = ("reward", "metrics", "logs")
"""Attributes of an object that an annotation changes."""
_OF_OBJECTS = ("messages", "tools", *_BESIDE, *_WRITTEN)
"""Attributes of an object that are read."""
_BESIDE_LIST = ("tools", "rubric")
"""Members of a group beside its trajectories that must be readable."""
_TURNS = frozenset(("messages", *ART))
"""Members of which a rollout that is an object has one."""
_MOST = 64
"""Shapes whose readers are remembered."""
Shape = Literal["list", "record", "holder"]


@dataclass(frozen=True, slots=True)
class _Judged(Generic[G]):
    index: int
    group: G
    fields: dict[str, Any] = field(repr=False)
    trajectories: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupWithScores(_Judged[G]):
    """A group that its judges scored.

    `index` is its number in the input, from 0. `group` is an annotated copy of the group that was given, of
    the same kind. `scores` has a score in [0, 1] for each trajectory in order, None for one that cannot be
    judged. `fields` and `trajectories` are what OUTPUT has in `ruler` of the group and of each trajectory.
    """

    scores: tuple[float | None, ...]
    failed: Literal[False] = field(default=False, init=False)
    kind: None = field(default=None, init=False, repr=False)
    reason: None = field(default=None, init=False, repr=False)

    @property
    def tied(self) -> bool:
        """True if the scores have no relative signal, so that a trainer learns nothing from the group."""
        return bool(self.fields["tied"])


@dataclass(frozen=True, slots=True)
class GroupWithoutScores(_Judged[G]):
    """A group that could not be scored: `kind` and `reason` say why.

    `scores` has None for each trajectory, so that no failure is a zero; the rest is as in GroupWithScores.
    """

    scores: tuple[None, ...]
    kind: Kind
    reason: str
    failed: Literal[True] = field(default=True, init=False)
    tied: Literal[False] = field(default=False, init=False, repr=False)


JudgedGroup = GroupWithScores[G] | GroupWithoutScores[G]
"""A group after its judges: `failed` says which of the two it is."""


@frozen_value
class ObjectGroup(Group, Generic[G]):
    """A group that was given as an object.

    `kind` says if that is a list of rollouts, one record as a line of a file, or a holder of `trajectories`.
    The first of its records has what is beside the rollouts. `copies` are of the others, and are annotated
    later: the caller may change the group while it is judged.
    """

    index: int
    given: G
    kind: Shape
    copies: Sequence[Any]
    reader: Reader


def _kind(given: Any) -> Shape:
    """Return the kind of a group; a named tuple with `trajectories` is no list."""
    if isinstance(given, list | tuple) and not hasattr(given, "trajectories"):
        return "list"
    alone = isinstance(given, Mapping) and "trajectories" not in given
    return "record" if alone else "holder"


@frozen_value
class _Item:
    """A rollout or a whole group, as the line that it is in a file, and as JSON.

    `lost` are the members that JSON has no form for, with the reason.
    """

    line: Line
    parsed: dict[str, Any]
    lost: dict[str, str]


class ObjectReader:
    """Reads groups that are objects.

    It keeps the reader of each shape that was read before: a group is read alike whatever came before it. A
    shape is the names of all members, each with its type; for a text, if it may be JSON.
    """

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        self._readers = dict[frozenset[tuple[str, Any]], Reader]()

    def read(
        self, given: G, index: int, name: str = "", rubric: Standards | None = None
    ) -> ObjectGroup[G]:
        """Read a group; WrongShapeError if it is none. `name` is its name in sentences.

        A trajectory that cannot be judged is read with its error. `rubric` takes the place of the group's own.
        """
        name = name or f"group {index + 1}"
        if isinstance(rubric, str) and rubric.startswith("@"):
            remedy = "give the text of the file"
            raise WrongShapeError("only settings read `@FILE`", remedy, place="rubric")
        try:
            return self._group(given, index, name, rubric)
        except UnreadableError as error:
            raise WrongShapeError(f"{name}: {error}") from None
        except RecursionError:
            problem = "holds itself, or is nested too deeply"
            raise WrongShapeError(problem, "flatten it", place=name) from None

    def _group(
        self, given: G, index: int, name: str, rubric: Standards | None
    ) -> ObjectGroup[G]:
        """Read all records; a holder may have a key, tools and a rubric of its own."""
        kind = _kind(given)
        objects = [given] if kind == "record" else _listed(given, kind)
        items = [_item(one, index, _place(kind, i)) for i, one in enumerate(objects)]
        reader = self._reader(items, objects, kind, name)
        reference = self._settings.reference
        if kind == "holder" and reference and _at(reference, given) is not None:
            reader = replace(reader, reference="")  # that of the group is filled in
        records = _records(reader, items, alone=kind == "record")
        copies = [_snapshot(one, _own_members(one)) for one in objects]
        copied = given
        key = _key(reader.format, items[0].parsed) if items else None
        own = dict[str, Any]()
        if kind == "holder":
            copied = _snapshot(given, {"trajectories": objects})
            for path in reversed(_KEYS):
                own_key = _at(path, given)
                if own_key is not None:
                    key = key_text(plain(own_key, "group_id"))
            own = _beside(given)
            how = self._settings
            for field_name, own_path in (
                ("reward", how.reward),
                ("outcome", how.outcome),
                ("reference", how.reference),
            ):
                found = None if own_path is None else _at(own_path, given)
                if found is not None:
                    fill = partial(_filled, field_name, plain(found, field_name))
                    records = [_with_rollouts(record, fill) for record in records]
        stated: Any = own.get("rubric")
        if rubric is not None:  # in the place of all others
            stated = rubric
            records = [replace(one, rubric=None, rubric_error="") for one in records]
        try:
            standards = None if stated in EMPTY else rubric_of(stated)
        except UnreadableError as error:
            raise UnreadableError(f"`rubric` {error}") from None
        # a record for what belongs to all of them
        line = Line(index + 1, 0, dump(own), name)
        head = Record(line, (), rubric=standards, tools=own.get("tools"))
        return ObjectGroup(
            key or name, (head, *records), index, copied, kind, copies, reader
        )

    def _reader(
        self, items: Sequence[_Item], objects: Sequence[Any], kind: Shape, name: str
    ) -> Reader:
        """Return the reader of the one format of all records; an error if there is none, or several."""
        settings = self._settings
        named = settings.format != "auto" or settings.messages or settings.prompt
        talks = any(not _TURNS.isdisjoint(item.parsed) for item in items)
        empty = not any(item.parsed for item in items)
        native = kind == "holder" and not named and (talks or empty)
        if native or not (items and all(isinstance(one, Mapping) for one in objects)):
            forms = formats_of("native")
            form = next(form for form in forms if form.shape == "trajectory")
            paths = {"reward": settings.reward, "outcome": settings.outcome}
            given = {name: path for name, path in paths.items() if path is not None}
            reference = settings.reference or ""
            return Reader(form, GIVEN, given=given, reference=reference)
        shape = frozenset(
            (member, one[:1] in "[{" if type(one) is str else type(one))
            for item in items
            for member, one in item.parsed.items()
        )
        reader = self._readers.get(shape)
        if reader is None or not all(fits(reader.format, one.parsed) for one in items):
            reader = self._detected(items, name)
            if len(self._readers) >= _MOST:
                self._readers.clear()
            self._readers[shape] = reader
        return reader

    def _detected(self, items: Sequence[_Item], name: str) -> Reader:
        """Return a reader of the format that all records have."""
        settings = self._settings
        # the first groups may have no outcome
        paths = replace(settings, outcome=None, group_by=())
        try:
            reader = detect(name, [item.line for item in items], paths)
        except UsageError as error:
            for item in items:
                for reason in item.lost.values():
                    raise UnreadableError(f"{item.line.where}: {reason}") from None
            raise WrongShapeError(str(error)) from None
        key = GIVEN
        if reader.format.shape == "columns":
            for path in reversed(reader.format.key_paths):
                if lookup(items[0].parsed, path) is not None:
                    key = path
        given = dict(reader.given)
        if settings.outcome is not None:
            given["outcome"] = settings.outcome
        return replace(reader, key=key, given=given)


def _place(kind: Shape, i: int) -> str:
    """Return the name of a record in sentences."""
    places = {"record": "the dict", "list": f"`[{i}]`"}
    return places.get(kind, f"`trajectories[{i}]`")


def _listed(given: Any, kind: Shape) -> Sequence[Any]:
    """Return the trajectories of a group; UnreadableError if it has no list of them."""
    items = given if kind == "list" else member(given, "trajectories")
    if items is None and not isinstance(given, Mapping):
        remedy = "give a list of rollouts, a dict with `trajectories`, or an object with ART's attributes"
        raise UnreadableError(f"is of type {type(given).__name__}; {remedy}")
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        wrong = type(items).__name__
        raise UnreadableError(f"`trajectories` is of type {wrong}; give a list")
    for i, item in enumerate(items):
        is_object = any(hasattr(item, name) for name in _TURNS)
        if not (is_object or isinstance(item, Mapping)):
            remedy = "give a dict with `messages`, or an object with ART's attributes"
            wrong = type(item).__name__
            raise UnreadableError(f"{_place(kind, i)} is of type {wrong}; {remedy}")
    return items


def _item(given: Any, index: int, place: str) -> _Item:
    parsed, lost = _json_form(given)
    return _Item(Line(index + 1, 0, dump(parsed), place), parsed, lost)


def _beside(given: Any) -> dict[str, Any]:
    """Return what a holder has beside its trajectories; UnreadableError if that has no form in JSON."""
    names = given if isinstance(given, Mapping) else _BESIDE_LIST
    members = {name: member(given, name) for name in names if name != "trajectories"}
    if isinstance(rubric := members.get("rubric"), Rubric):
        members["rubric"] = rubric.stated
    own, lost = _json_form(members)
    for name in _BESIDE_LIST:
        if name in lost:
            raise UnreadableError(lost[name])
    return own


def _records(reader: Reader, items: Sequence[_Item], *, alone: bool) -> list[Record]:
    """Read each record; one rollout that cannot be judged is read with its error."""
    form = reader.format
    single = form.shape == "trajectory"
    if not (single or alone):
        remedy = "give it alone, and several to `score_groups`"
        place = items[0].line.where
        raise UnreadableError(f"{place} is a whole group ({form.name}); {remedy}")
    # a signature names the members of a format
    paths = form.signature.split("`")[1::2]
    shown = _SHOWN.union([path.partition(".")[0] for path in paths])
    records = list[Record]()
    for item in items:
        line = item.line
        try:
            read = reader.read_parsed(item.parsed, line)
        except UnreadableError as error:
            if not single or form.listed:
                raise UnreadableError(f"{line.where}: {error}") from None
            read = (Record(line, (Rollout([], error=str(error)),)),)
        if len(read) > 1:
            several = f"{line.where} holds {len(read)} groups ({form.name})"
            raise UnreadableError(f"{several}; {_APART}")
        record = read[0]
        for name in shown & item.lost.keys():
            # none of its rollouts can be judged
            lost = partial(replace, error=item.lost[name])
            record = _with_rollouts(record, lost)
        records.append(record)
    if alone and single and len(records[0].rollouts) == 1:
        raise UnreadableError(f"is one trajectory ({form.name}); {_APART}")
    return records


def _filled(name: str, value: Any, rollout: Rollout) -> Rollout:
    """Return a rollout; the group's value stands for one that it lacks."""
    lacks = getattr(rollout, name) is None
    return replace(rollout, **{name: value}) if lacks else rollout


def _with_rollouts(record: Record, change: Callable[[Rollout], Rollout]) -> Record:
    """Return a record with each of its rollouts changed."""
    return replace(record, rollouts=tuple(map(change, record.rollouts)))


_APART = "give each group as a list of its rollouts, a dict each"


def _json_form(item: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of a rollout that JSON has a form for, and why it has none for the others."""
    value = dict[str, Any]()
    lost = dict[str, str]()
    mapping = isinstance(item, Mapping)
    names: list[Any] = [*item] if mapping else [*_OF_OBJECTS]
    if mapping and type(item) is not dict:
        names += [one for one in _HIDDEN if one not in item and item.get(one)]
    for name in names:
        try:
            own = item[name] if mapping else member(item, name)
            # ART's trajectory.messages is a method
            if mapping or not (own is None or callable(own)):
                value[str(name)] = plain(own, name)
        except UnreadableError as error:
            lost[str(name)] = str(error)
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - of a member that is made when it is asked for
            lost[str(name)] = f"`{name}` cannot be read ({error!r:.80})"
    if not mapping and value.get("messages_and_choices"):
        value.pop("messages", None)
    elif not mapping and value.get("exchanges"):
        # ART's list is empty if it recorded the calls of a client
        value.pop("messages_and_choices", None)
    return value, lost


def _key(form: Format, value: dict[str, Any]) -> str | None:
    """Return the key of a group by the JSON form of its first record; None if there is none."""
    key = None
    if form.key_of is not None:
        with suppress(UnreadableError, *SHAPE_ERRORS):
            key = form.key_of(value)
    key = first_at(value, *form.key_paths) if key is None else key
    return None if key is None else key_text(key)


def _own_members(item: Any) -> dict[str, Any]:
    """Return the members of which a copy has its own: programs fill one list again for the next group."""
    if isinstance(item, Mapping):
        return {
            name: own.copy() for name, own in item.items() if type(own) in (list, dict)
        }
    # each, so that an object that allows no change is refused before it is paid for
    members = {name: member(item, name) for name in _WRITTEN}
    return {name: copy.copy(own) for name, own in members.items() if own is not None}


def _at(path: str, value: Any) -> Any:
    """Return the value at a dotted path of a dict or an object, as `fields.lookup` does."""
    for parts in ([path], path.split(".")):
        found = value
        for part in parts:
            found = member(found, part)
        if found is not None:
            return found
    return None


def judged_group(
    read: ObjectGroup[G],
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    part: GroupRecord,
    on_failure: OnFailure,
    warn: Callable[[str], None],
) -> JudgedGroup[G]:
    """Annotate a copy of a group; `names` are those of all judges, `part` is the group's part of OUTPUT.

    `warn` is told of each object that the copy of a scored group lacks.
    """
    given: Any = read.given
    from ruler_cli.results.record import rollout_records

    fields = part.written
    rest = map(vars, rollout_records(read, scores, names, part))
    copies = list[Any]()
    trajectories = list[dict[str, Any]]()
    form = read.reader.format
    apart = read.kind != "holder" and not form.group_in_record
    for copied, record in zip(read.copies, read.records[1:], strict=True):
        raw = record.line.raw
        own = [(rollout, next(rest)) for rollout in record.rollouts]
        written: Sequence[Any] = own
        if apart:
            written = [(rollout, {**one, "group": fields}) for rollout, one in own]
        after = parse_value(annotate(raw, form, written, fields, on_failure))
        for rollout, one in own:
            noted = read.reader.previous_annotation(after, rollout) or {}
            trajectories.append(
                {
                    **one,
                    "reward_path": noted.get("reward_path", ""),
                    "rewards": noted.get("rewards", []),
                    "independent_reward": noted.get("independent_reward"),
                }
            )
        annotated = _changed(copied, parse_value(raw), after)
        lacks_score = all(one["score"] is None for _, one in own)
        is_object = not isinstance(annotated, Mapping)
        # its reward is a number by its type, as in ART, whose training and logging fail at None
        if lacks_score and is_object and member(annotated, "reward") is None:
            if isinstance(scores, GroupScores):
                warn(
                    f"{fields['key']}: trajectory {len(trajectories)} is left out of the scored copy: "
                    f"{own[0][1]['reason']}"
                )
            continue
        copies.append(annotated)
    if read.kind == "list":
        whole: Any = tuple(copies) if isinstance(given, tuple) else copies
    elif read.kind == "record":
        whole = copies[0]
    else:
        whole = with_members(given, {"trajectories": copies, "ruler": fields})
    shared = (read.index, whole, fields, tuple(trajectories))
    if isinstance(scores, GroupError):
        none = (None,) * len(trajectories)
        return GroupWithoutScores(*shared, none, scores.kind, scores.reason)
    return GroupWithScores(*shared, tuple(one["score"] for one in trajectories))


def _changed(given: Any, before: Any, after: Any) -> Any:
    """Return what was given with the changes between two JSON forms of it; the rest stays as it is."""
    kinds = type(before), type(after)
    if kinds == (dict, dict) and not isinstance(given, list):
        changes = {}
        for name, value in after.items():
            old = before.get(name)
            if name not in before or old != value:
                changes[name] = _changed(member(given, name), old, value)
        copied: Any = with_members(given, changes)
        for name in before.keys() - after.keys():
            copied.pop(name, None)
        return copied
    if (
        kinds == (list, list)
        and isinstance(given, list | tuple)
        and len(given) == len(before) == len(after)
    ):
        return [
            one if old == new else _changed(one, old, new)
            for one, old, new in zip(given, before, after, strict=True)
        ]
    return after


def plain(value: Any, name: str) -> Any:
    """Return a value as JSON has it; UnreadableError, with its name, for a type that has no such form."""
    try:
        return as_json(value)
    except UnreadableError as error:
        raise UnreadableError(
            f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
        ) from None


def as_json(value: Any) -> Any:
    """Return a mapping, a model or an object with fields as a dict, an array as a list, an enum's value."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    # token ids, of which there are many
    if kind is list and _PLAIN.issuperset(map(type, value)):
        return value.copy()
    if kind is list:
        return [as_json(inner) for inner in value]
    if kind is dict or isinstance(value, Mapping):
        return {
            key if type(key) is str else str(as_json(key)): as_json(inner)
            for key, inner in value.items()
        }
    if isinstance(value, Enum):
        return as_json(value.value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    is_binary = isinstance(value, bytes | bytearray | memoryview)
    if isinstance(value, Sequence) and not is_binary:
        return [as_json(inner) for inner in value]
    unknown = UnreadableError(f"is of type {kind.__name__}")
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if hasattr(value, "__float__"):
            # of numpy, torch, decimal
            for convert in ("tolist", "item", "__float__"):
                if hasattr(value, convert):
                    return as_json(getattr(value, convert)())
        with suppress(TypeError):
            # a date; a dataclass is an object with fields
            raw = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
            return orjson.loads(raw)
        # of its attributes, and of its slots
        state = None if callable(value) else object.__getstate__(value)
        members = {
            name: as_json(own)
            for part in (state if isinstance(state, tuple) else (state,))
            for name, own in (part or {}).items()
            if not name.startswith("_")
        }
        if members:
            return members
    except (UnreadableError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - of the value's own class
        raise unknown from None
    raise unknown


def member(value: Any, name: str) -> Any:
    """Return a member of a mapping, or an attribute of an object; None if there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def with_members(value: G, changes: dict[str, Any]) -> G:
    """Return a shallow copy with other members; an object gets only those that its kind has."""
    if isinstance(value, Mapping):
        # a copy of others may share items
        if isinstance(value, dict) or hasattr(type(value), "__copy__"):
            with suppress(Exception):  # of a kind that refuses a change
                own: Any = copy.copy(value)
                own.update(changes)
                return cast("G", own)
        return cast("G", {**value, **changes})
    copied: G = copy.copy(value)
    for name, changed in changes.items():
        if name == "ruler":
            continue
        try:
            setattr(copied, name, changed)
        except Exception:  # noqa: BLE001 - it is frozen, or has no such member
            if hasattr(value, name):
                object.__setattr__(copied, name, changed)
    return copied


def _snapshot(value: G, changes: dict[str, Any]) -> G:
    """Return a shallow copy to annotate later; UnreadableError if its kind allows none, before any call."""
    try:
        return with_members(value, changes)
    except Exception as error:
        reason = f"no copy of this {type(value).__name__} can be annotated ({error})"
        raise UnreadableError(f"{reason}; give a dict") from error
