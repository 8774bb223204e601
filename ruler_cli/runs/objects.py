"""Groups that are Python objects → groups to judge, and annotated copies of what was given.

A group is a list of rollouts, a dict or an object that holds them as `trajectories`, or a dict of any format
that is a whole group. Each rollout is read from its JSON form as a line of a file is, and the annotated line
tells what changes in the copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, Literal, TypeVar, cast

import orjson

from ruler_cli.errors import UnreadableError, UsageError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.formats.annotate import (
    AnnotationFields,
    GroupFields,
    TrajectoryFields,
    annotate,
    annotations_of,
)
from ruler_cli.formats.chat import PROMPTS
from ruler_cli.formats.fields import first_at, lookup, words
from ruler_cli.formats.native import ART, BESIDE
from ruler_cli.formats.reader import Reader, detect, formats_of, key_text
from ruler_cli.formats.table import GIVEN, SHAPE_ERRORS, Format, fits
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
)

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
_NO_OBJECT = (
    str, bytes, int, float, complex, list, tuple, set, frozenset, type(None), BaseException,
)  # fmt: skip
"""Types of values that are no trajectory."""
_MOST = 64
"""Shapes whose readers are remembered."""

Readers = dict[frozenset[tuple[str, Any]], Reader]
"""The reader of each shape that was read before: a group is read alike whatever came before it.

A shape is the names of all members, each with its type; for a text, if it may be JSON.
"""


@dataclass(frozen=True, slots=True)
class _Judged(Generic[G]):
    index: int
    group: G
    fields: GroupFields = field(repr=False)
    trajectories: tuple[TrajectoryFields, ...] = field(repr=False)


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
        return self.fields["tied"]


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


@dataclass(frozen=True, slots=True)
class ObjectGroup(Generic[G]):
    """A group that was given as an object, and the group that is judged.

    Its first record has what is beside the rollouts. `copies` are of the others, and are annotated later: the
    caller may change the group while it is judged.
    """

    index: int
    given: G
    copies: Sequence[Any]
    reader: Reader | None
    group: Group


def read_group(
    given: G,
    index: int,
    settings: InputSettings,
    name: str = "",
    *,
    readers: Readers | None = None,
    rubric: str | None = None,
) -> ObjectGroup[G]:
    """Read a group; WrongShapeError if it is none. `name` is its name in sentences.

    A trajectory that cannot be judged is read with its error. `readers` remembers shapes between calls;
    `rubric` takes the place of the group's own.
    """
    name = name or f"group {index + 1}"
    if isinstance(rubric, str) and rubric.startswith("@"):
        remedy = "give the text of the file"
        raise WrongShapeError("only settings read `@FILE`", remedy, place="rubric")
    try:
        reading = _Reading(given, index, settings, name)
        return reading.group({} if readers is None else readers, rubric)
    except UnreadableError as error:
        raise WrongShapeError(f"{name}: {error}") from None
    except RecursionError:
        problem = "holds itself, or is nested too deeply"
        raise WrongShapeError(problem, "flatten it", place=name) from None


class _Reading(Generic[G]):
    """A group while it is read: its records, their JSON forms, and the lines that they are in a file.

    A record is a rollout, or the whole group if that is `alone`.
    """

    def __init__(
        self, given: G, index: int, settings: InputSettings, name: str
    ) -> None:
        self._given = given
        self._index = index
        self._settings = settings
        self._name = name
        self._alone = _is_record(given)
        self._held = not (self._alone or _is_list(given))
        self._items: Sequence[Any] = [given] if self._alone else self._listed()
        self._lines = list[Line]()
        self._values = list[dict[str, Any]]()
        self._lost = list[dict[str, str]]()
        """For each record the members that JSON has no form for, with the reason."""
        for i, item in enumerate(self._items):
            value, lost = _json_form(item)
            place = "the dict" if self._alone else self._place(i)
            self._lines.append(Line(index + 1, 0, dump(value), place))
            self._values.append(value)
            self._lost.append(lost)

    def _listed(self) -> Sequence[Any]:
        """Return the trajectories of a group; UnreadableError if it has no list of them."""
        given = self._given
        items = member(given, "trajectories") if self._held else given
        if items is None and not isinstance(given, Mapping):
            remedy = "give a list of rollouts, a dict with `trajectories`, or an object with ART's attributes"
            raise UnreadableError(f"is of type {type(given).__name__}; {remedy}")
        if isinstance(items, str | bytes) or not isinstance(items, Sequence):
            kind = type(items).__name__
            raise UnreadableError(f"`trajectories` is of type {kind}; give a list")
        for i, item in enumerate(items):
            if isinstance(item, _NO_OBJECT):
                remedy = (
                    "give a dict with `messages`, or an object with ART's attributes"
                )
                kind = type(item).__name__
                raise UnreadableError(f"{self._place(i)} is of type {kind}; {remedy}")
        return items

    def _place(self, i: int) -> str:
        return f"`trajectories[{i}]`" if self._held else f"`[{i}]`"

    def group(self, readers: Readers, rubric: str | None) -> ObjectGroup[G]:
        """Read all records; a dict or an object that holds them may have a key, tools and a rubric of its own."""
        given = self._given
        copied = self._given
        key = None
        own = dict[str, Any]()
        copies = list[Any]()
        records = list[Record]()
        reader = None
        if self._items:
            reader = self._reader(readers)
            key = _key(reader.format, self._values[0])
            records = self._records(reader)
            copies = [_snapshot(item, _own_members(item)) for item in self._items]
        if self._held:
            copied = _snapshot(given, {"trajectories": self._items})
            for path in reversed(_KEYS):
                own_key = _at(path, given)
                if own_key is not None:
                    key = key_text(plain(own_key, "group_id"))
            names = given if isinstance(given, Mapping) else _BESIDE_LIST
            own, lost = _json_form(
                {name: member(given, name) for name in names if name != "trajectories"}
            )
            for name in _BESIDE_LIST:
                if name in lost:
                    raise UnreadableError(lost[name])
            records = [self._filled(record) for record in records]
        given_rubric = own.get("rubric") if rubric is None else rubric
        if not isinstance(given_rubric, str | None):
            kind = type(given_rubric).__name__
            raise UnreadableError(f"`rubric` is of type {kind}; give text")
        # a record for what belongs to all of them
        line = Line(self._index + 1, 0, dump(own), self._name)
        head = Record(line, (), rubric=given_rubric, tools=own.get("tools"))
        group = Group(key or self._name, (head, *records))
        return ObjectGroup(self._index, copied, copies, reader, group)

    def _reader(self, readers: Readers) -> Reader:
        """Return the reader of the one format of all records; an error if there is none, or several."""
        settings = self._settings
        values = self._values
        named = settings.format != "auto" or settings.messages or settings.prompt
        turns = {"messages", *ART}
        talks = any(not turns.isdisjoint(value) for value in values)
        native = self._held and not named and (talks or not any(values))
        if native or not all(isinstance(item, Mapping) for item in self._items):
            forms = formats_of("native")
            form = next(form for form in forms if form.shape == "trajectory")
            return Reader(
                form,
                GIVEN,
                outcome=settings.outcome,
                reward=settings.reward,
            )
        shape = frozenset(
            (name, one[:1] in "[{" if type(one) is str else type(one))
            for value in values
            for name, one in value.items()
        )
        reader = readers.get(shape)
        if reader is None or not all(fits(reader.format, value) for value in values):
            reader = self._detected()
            if len(readers) >= _MOST:
                readers.clear()
            readers[shape] = reader
        return reader

    def _detected(self) -> Reader:
        """Return a reader of the format that all records have."""
        settings = self._settings
        # the first groups may have no outcome
        paths = replace(settings, outcome=None, group_by=None)
        try:
            reader = detect(self._name, self._lines, paths)
        except UsageError as error:
            for line, lost in zip(self._lines, self._lost, strict=True):
                for reason in lost.values():
                    raise UnreadableError(f"{line.where}: {reason}") from None
            raise WrongShapeError(error.sentence) from None
        key = GIVEN
        if reader.format.shape == "columns":
            first = self._values[0]
            for path in reversed(words(reader.format.keys)):
                if lookup(first, path) is not None:
                    key = path
        return replace(reader, key=key, outcome=settings.outcome)

    def _records(self, reader: Reader) -> list[Record]:
        """Read each record; one rollout that cannot be judged is read with its error."""
        form = reader.format
        records = list[Record]()
        single = form.shape == "trajectory"
        if not (single or self._alone):
            remedy = "give it alone, and several to `score_groups`"
            place = self._lines[0].where
            raise UnreadableError(f"{place} is a whole group ({form.name}); {remedy}")
        # a signature names the members of a format
        paths = form.signature.split("`")[1::2]
        shown = _SHOWN.union([path.partition(".")[0] for path in paths])
        every = zip(self._lines, self._values, self._lost, strict=True)
        for line, value, lost in every:
            try:
                read = reader.read_parsed(value, line)
            except UnreadableError as error:
                if not single or form.layout.listed:
                    raise UnreadableError(f"{line.where}: {error}") from None
                read = (Record(line, (Rollout([], error=str(error)),)),)
            if len(read) > 1:
                several = f"{line.where} holds {len(read)} groups ({form.name})"
                raise UnreadableError(f"{several}; {_APART}")
            for name, reason in lost.items():
                if name in shown:
                    read = (_with_error(read[0], reason),)
            records += read
        if self._alone and single and len(records[0].rollouts) == 1:
            raise UnreadableError(f"is one trajectory ({form.name}); {_APART}")
        return records

    def _filled(self, record: Record) -> Record:
        """Return a record; the group's value stands for a reward or an outcome that it lacks."""
        rollouts = list(record.rollouts)
        for name in ("reward", "outcome"):
            path = getattr(self._settings, name)
            value = None if path is None else _at(path, self._given)
            if value is None:
                continue
            value = plain(value, name)
            for at, rollout in enumerate(rollouts):
                if getattr(rollout, name) is None:
                    rollouts[at] = replace(rollout, **{name: value})
        return replace(record, rollouts=tuple(rollouts))


def _with_error(record: Record, reason: str) -> Record:
    """Return a record none of whose rollouts can be judged."""
    rollouts = [replace(rollout, error=reason) for rollout in record.rollouts]
    return replace(record, rollouts=tuple(rollouts))


_APART = "give each group as a list of its rollouts, a dict each"


def _is_list(given: Any) -> bool:
    """Tell if a group is a list of its rollouts; a named tuple with `trajectories` is none."""
    return isinstance(given, list | tuple) and not hasattr(given, "trajectories")


def _is_record(given: Any) -> bool:
    """Tell if a group is one record, as a line of a file that is a whole group."""
    return isinstance(given, Mapping) and "trajectories" not in given


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
    key = first_at(value, *words(form.keys)) if key is None else key
    return None if key is None else key_text(key)


def _own_members(item: Any) -> dict[str, Any]:
    """Return the members of which a copy has its own: programs fill one list again for the next group."""
    if isinstance(item, Mapping):
        return {
            name: own.copy() for name, own in item.items() if type(own) in (list, dict)
        }
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
    fields: GroupFields,
    on_failure: OnFailure,
    warn: Callable[[str], None],
) -> JudgedGroup[G]:
    """Annotate a copy of a group; `names` are those of all judges, `fields` the group's part of OUTPUT.

    `warn` is told of each object that the copy of a scored group lacks.
    """
    given: Any = read.given
    failed = isinstance(scores, GroupError)
    each: Sequence[AnnotationFields] = annotations_of(read.group, result, scores, names)
    rest = iter(each)
    copies = list[Any]()
    trajectories = list[TrajectoryFields]()
    for copied, record in zip(read.copies, read.group.records[1:], strict=True):
        assert read.reader is not None  # noqa: S101 - a group with records has one
        form = read.reader.format
        raw = record.line.raw
        own = [(rollout, next(rest)) for rollout in record.rollouts]
        written: Sequence[Any] = own
        if (_is_list(given) or _is_record(given)) and not form.group_in_record:
            written = [(rollout, {**one, "group": fields}) for rollout, one in own]
        after = parse_value(annotate(raw, form, written, fields, on_failure))
        for rollout, one in own:
            noted = read.reader.previous_annotation(after, rollout) or {}
            first = noted.get("independent_reward")
            trajectories.append(TrajectoryFields(**one, independent_reward=first))
        annotated = _changed(copied, parse_value(raw), after)
        lacks_score = all(one["score"] is None for _, one in own)
        is_object = not isinstance(annotated, Mapping)
        # its reward is a number by its type, as in ART, whose training and logging fail at None
        if lacks_score and is_object and member(annotated, "reward") is None:
            if not failed:
                warn(
                    f"{fields['key']}: trajectory {len(trajectories)} is left out of the scored copy: "
                    f"{own[0][1]['reason']}"
                )
            continue
        copies.append(annotated)
    if _is_list(given):
        whole: Any = tuple(copies) if isinstance(given, tuple) else copies
    elif _is_record(given):
        whole = copies[0]
    else:
        whole = with_members(given, {"trajectories": copies, "ruler": fields})
    if isinstance(scores, GroupError):
        return GroupWithoutScores(
            read.index,
            whole,
            fields,
            tuple(trajectories),
            (None,) * len(trajectories),
            scores.kind,
            scores.reason,
        )
    return GroupWithScores(
        read.index,
        whole,
        fields,
        tuple(trajectories),
        tuple(one["score"] for one in each),
    )


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
        names = list[str]()
        if not callable(value):
            names += getattr(value, "__dict__", ())
            for parent in kind.__mro__:
                names += vars(parent).get("__slots__", ())
        members = {
            name: as_json(getattr(value, name))
            for name in names
            if not name.startswith("_") and hasattr(value, name)
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
        own = isinstance(value, dict) or hasattr(type(value), "__copy__")
        try:
            can_change = own and isinstance(value, MutableMapping)
            items: Any = copy.copy(value) if can_change else dict(value)
            items.update(changes)
        except Exception:  # noqa: BLE001 - of a kind that refuses a change
            items = {**value, **changes}
        return cast("G", items)
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
