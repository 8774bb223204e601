"""Groups that are Python objects → groups to judge, and annotated copies of the objects.

A group is a list of rollouts or of lists of messages, a dict or an object that holds rollouts as `trajectories`, or a
dict of any format that is a whole group. It is read from its JSON form as a line of a file is; what an annotation
changes is set in a copy of the object itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal

from ruler_cli.errors import UnreadableError, UsageError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.values import first_at, lookup, parts, value_at
from ruler_cli.formats.annotate import Annotated, new_members
from ruler_cli.formats.format import SHAPE_ERRORS, Format
from ruler_cli.formats.keys import CALLERS_GROUP, GroupKey, key_text
from ruler_cli.formats.names import PROMPTS
from ruler_cli.formats.native import ART, BESIDE
from ruler_cli.formats.reader import Reader, detect, formats_of
from ruler_cli.formats.table import fits, key_of
from ruler_cli.runs.json_form import (
    G,
    member,
    plain,
    snapshot,
    with_changes,
    with_members,
)
from ruler_cli.runs.session import Scored, annotated_records
from ruler_cli.settings.models import InputSettings, OnFailure
from ruler_cli.settings.rubric import rubric_of
from ruler_cli.types import (
    Group,
    GroupError,
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

_KEYS = ("group_id", "metadata.scenario_id")
"""Paths of the key of a group with `trajectories`; the first one counts for most."""
_JUDGED_MEMBERS = frozenset(("messages", "tools", *PROMPTS, *BESIDE))
"""Members that the judge may be shown."""
_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_WRITTEN = ("reward", "metrics", "logs")
"""Attributes of an object that an annotation changes."""
_OF_OBJECTS = ("messages", "tools", *BESIDE, *_WRITTEN)
"""Attributes of an object that are read."""
_OF_GROUPS = ("group_id", "metadata", "tools", "rubric")
"""Attributes of an object with `trajectories` that are read."""
_TURNS = frozenset(("messages", *ART))
"""Members of which a rollout that is an object has one."""
_MOST = 64
"""Shapes whose readers are remembered."""
_FIRST = 20
"""Groups of which one must have an outcome if `outcome` names its path."""
_APART = "give each group as a list of its rollouts, a dict each"


@dataclass(frozen=True, slots=True)
class JudgedGroup(Generic[G]):
    """A group after its judges.

    `index` is its number in the input, from 0. `group` is an annotated copy of the group that was given, of
    the same kind. `scores` has a score in [0, 1] for each trajectory in order, None for one that cannot be
    judged; if the group `failed` all are None, and `kind` and `reason` say why. `fields` and `trajectories` are what
    OUTPUT has in `ruler` of the group and of each trajectory.
    """

    index: int
    group: G
    fields: dict[str, Any] = field(repr=False)
    trajectories: tuple[dict[str, Any], ...] = field(repr=False)
    scores: tuple[float | None, ...]
    kind: Kind | None = None
    reason: str = ""

    @property
    def failed(self) -> bool:
        """True if the group has no scores."""
        return self.kind is not None

    @property
    def tied(self) -> bool:
        """True if the scores have no relative signal, so that a trainer learns nothing from the group."""
        return bool(self.fields["tied"])


@frozen_value
class _Item:
    """A rollout, or a whole group that is a dict.

    `parsed` is its JSON form, `lost` are the members that have none, with the reason. `copied` is a copy, which is
    annotated later: the caller may change the object while it is judged.
    """

    place: str
    copied: Any
    parsed: dict[str, Any]
    lost: dict[str, str]

    @property
    def is_object(self) -> bool:
        """Return whether it has attributes, and no keys."""
        return not isinstance(self.copied, Mapping)


@frozen_value
class ObjectGroup(Group, Generic[G]):
    """A group that was given as an object.

    Its `shape`: a list of rollouts, one record as a line of a file is, or a holder of `trajectories`. A holder, and a
    list of objects, is one record; of another list each item is one.
    """

    index: int
    copied: G
    shape: Literal["list", "record", "holder"]
    items: Sequence[_Item]
    format: Format

    @property
    def one_record(self) -> bool:
        """Return whether its items are the trajectories of one record."""
        return self.shape != "record" and self.format.shape == "group"


class ObjectReader:
    """Reads groups that are objects.

    It keeps the reader of each shape that was read before: a group is read alike whatever came before it. A
    shape is the names of all members, each with its type; for a text, if it may be JSON.
    """

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        native = formats_of("native")
        form = next(form for form in native if form.shape == "group")
        paths = {"reward": settings.reward, "outcome": settings.outcome}
        self._native = Reader(
            form,
            GroupKey(CALLERS_GROUP),
            {name: path for name, path in paths.items() if path is not None},
            reference=settings.reference or "",
        )
        self._readers = dict[frozenset[tuple[str, Any]], Reader]()
        self._may_lack = math.inf if settings.outcome is None else _FIRST
        """Groups that may still lack an outcome, if its path is named; then it is wrong."""

    def read(
        self,
        group: G,
        index: int,
        rubric: Standards | None = None,
    ) -> ObjectGroup[G]:
        """Read a group; WrongShapeError if it is none. `index` gives its name in sentences.

        A trajectory that cannot be judged is read with its error. `rubric` takes the place of the group's own.
        """
        name = f"group {index + 1}"
        if isinstance(rubric, str) and rubric.startswith("@"):
            remedy = "give the text of the file"
            raise WrongShapeError(
                "only settings read `@FILE`", remedy, place="rubric"
            )
        try:
            read = self._group(group, index, name)
            if rubric is not None:
                read = _with_rubric(read, rubric)
        except UnreadableError as error:
            raise WrongShapeError(f"{name}: {error}") from None
        except RecursionError:
            problem = "contains itself, or is nested too deeply"
            raise WrongShapeError(problem, "flatten it", place=name) from None
        if any(rollout.outcome is not None for rollout in read.rollouts):
            self._may_lack = math.inf
        self._may_lack -= 1
        if self._may_lack < 1:
            raise UsageError(
                f"none of the first {_FIRST} groups has it",
                "check the path",
                place=f"--outcome {self._settings.outcome}",
            )
        return read

    def _group(
        self,
        group: G,
        index: int,
        name: str,
    ) -> ObjectGroup[G]:
        shape: Literal["list", "record", "holder"] = "holder"
        # a named tuple with `trajectories` is not a list
        if isinstance(group, list | tuple) and not hasattr(
            group, "trajectories"
        ):
            shape = "list"
        elif isinstance(group, Mapping) and _is_record(group):
            shape = "record"
        place = "the dict"
        objects: Sequence[Any] = [group]
        if shape != "record":
            place = "`[{}]`" if shape == "list" else "`trajectories[{}]`"
            objects = _listed(group, shape, place)
        items = [
            _item(rollout, place.format(at))
            for at, rollout in enumerate(objects)
        ]
        copied = group
        if shape == "holder":
            copied = snapshot(group, {"trajectories": objects})
        any_object = any(item.is_object for item in items)
        if shape == "holder" or any_object or not items:
            reader = self._native
            value: dict[str, Any] = {
                "trajectories": [item.parsed for item in items]
            }
            if shape == "holder":
                value |= _beside(group)
            line = Line(
                index + 1,
                0,
                dump(value),
                name,
            )
            (record,) = reader.read_parsed(value, line)
            key = None
            for stated in (value, *value["trajectories"][:1]):
                key = first_at(stated, *_KEYS) if key is None else key
            rollouts = list[Rollout]()
            for rollout, item in zip(record.rollouts, items, strict=True):
                rollouts += _shown([rollout], item)
            records = [replace(record, rollouts=tuple(rollouts))]
        else:
            reader = self._reader(items, name)
            key = _key(reader.format, items[0].parsed)
            records = [
                _record(
                    reader,
                    item,
                    index,
                    whole=shape == "record",
                )
                for item in items
            ]
        return ObjectGroup(
            ("" if key is None else key_text(key)) or name,
            tuple(records),
            index,
            copied,
            shape,
            items,
            reader.format,
        )

    def _reader(
        self,
        items: Sequence[_Item],
        name: str,
    ) -> Reader:
        """Return the reader of the one format of all records; an error if there is none, or several."""
        members = set[tuple[str, Any]]()
        for item in items:
            for member_name, value in item.parsed.items():
                kind = value[:1] in "[{" if type(value) is str else type(value)
                members.add((member_name, kind))
        shape = frozenset(members)
        reader = self._readers.get(shape)
        if reader is None or not all(
            fits(reader.format, item.parsed) for item in items
        ):
            reader = self._detected(items, name)
            if len(self._readers) >= _MOST:
                self._readers.clear()
            self._readers[shape] = reader
        return reader

    def _detected(
        self,
        items: Sequence[_Item],
        name: str,
    ) -> Reader:
        """Return a reader of the format that all records have."""
        # the first groups may have no outcome
        paths = replace(self._settings, outcome=None, group_by=())
        records = list[tuple[Line, dict[str, Any]]]()
        for item in items:
            line = Line(1, 0, b"", item.place)
            records.append((line, item.parsed))
        try:
            reader = detect(name, records, paths)
        except UsageError as error:
            for item in items:
                for reason in item.lost.values():
                    raise UnreadableError(f"{item.place}: {reason}") from None
            raise WrongShapeError(str(error)) from None
        key = GroupKey(CALLERS_GROUP)
        if reader.format.shape == "columns":
            for path in reversed(reader.format.key_paths):
                if lookup(items[0].parsed, path) is not None:
                    key = GroupKey.of_paths(path)
        stated = dict(reader.value_paths)
        if self._settings.outcome is not None:
            stated["outcome"] = self._settings.outcome
        return replace(reader, group_key=key, value_paths=stated)


def _record(
    reader: Reader,
    item: _Item,
    index: int,
    *,
    whole: bool,
) -> Record:
    """Read a record; one rollout that cannot be judged is read with its error. `whole`: it has to be a group."""
    form = reader.format
    single = form.shape == "trajectory"
    if not (whole or single):
        remedy = "give it alone, and several to `score_groups`"
        raise UnreadableError(
            f"{item.place} is a whole group ({form.name}); {remedy}"
        )
    line = Line(
        index + 1,
        0,
        dump(item.parsed),
        item.place,
    )
    try:
        read = reader.read_parsed(item.parsed, line)
    except UnreadableError as error:
        if not single or form.listed:
            raise UnreadableError(f"{item.place}: {error}") from None
        read = (Record(line, (Rollout([], error=str(error)),)),)
    if len(read) > 1:
        several = f"{item.place} holds {len(read)} groups ({form.name})"
        raise UnreadableError(f"{several}; {_APART}")
    record = read[0]
    if whole and single and len(record.rollouts) == 1:
        raise UnreadableError(f"is one trajectory ({form.name}); {_APART}")
    return replace(record, rollouts=tuple(_shown(record.rollouts, item)))


def _shown(rollouts: Sequence[Rollout], item: _Item) -> list[Rollout]:
    """Return rollouts as they are judged: with an error if a member that the judge may be shown has no JSON form."""
    errors = [item.lost[name] for name in _JUDGED_MEMBERS & item.lost.keys()]
    if not errors:
        return [*rollouts]
    return [replace(rollout, error=errors[0]) for rollout in rollouts]


def _with_rubric(group: ObjectGroup[G], rubric: Standards) -> ObjectGroup[G]:
    """Return a group with a rubric in the place of all others."""
    try:
        standards = rubric_of(rubric) if rubric else None
    except UnreadableError as error:
        raise UnreadableError(f"`rubric` {error}") from None
    records = [
        replace(record, rubric=standards, rubric_error="")
        for record in group.records
    ]
    return replace(group, records=tuple(records))


def _is_record(group: Mapping[str, Any]) -> bool:
    """Return whether a dict is a group of any format, and has no trajectories with messages."""
    listed = group.get("trajectories", ())
    if not isinstance(listed, list | tuple):
        return False
    foreign = [
        isinstance(item, Mapping) and item and _TURNS.isdisjoint(item)
        for item in listed
    ]
    return "trajectories" not in group or (bool(listed) and all(foreign))


def _listed(
    group: Any,
    shape: str,
    place: str,
) -> Sequence[Any]:
    """Return the trajectories of a group; UnreadableError if it has no list of them.

    A list of messages is a trajectory.
    """
    items = group if shape == "list" else member(group, "trajectories")
    if items is None and not isinstance(group, Mapping):
        remedy = "give a list of rollouts, a dict with `trajectories`, or an object with ART's attributes"
        raise UnreadableError(f"is of type {type(group).__name__}; {remedy}")
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        wrong = type(items).__name__
        raise UnreadableError(f"`trajectories` is of type {wrong}; give a list")
    rollouts = list[Any]()
    for at, item in enumerate(items):
        is_object = any(hasattr(item, name) for name in _TURNS)
        if isinstance(item, list | tuple) and not is_object:
            rollouts.append({"messages": list(item)})
        elif is_object or isinstance(item, Mapping):
            rollouts.append(item)
        else:
            remedy = "give a dict with `messages`, or an object with ART's attributes"
            wrong = type(item).__name__
            raise UnreadableError(
                f"{place.format(at)} is of type {wrong}; {remedy}"
            )
    return rollouts


def _item(rollout: Any, place: str) -> _Item:
    parsed, lost = _json_form(rollout, _OF_OBJECTS)
    is_object = not isinstance(rollout, Mapping)
    # programs fill one list again for the next group, so a copy has its own
    own_members = dict[str, Any]()
    for name in _WRITTEN if is_object else rollout:
        inner = member(rollout, name)
        # an object whose reward cannot be set is refused before it is paid for
        is_set = is_object and hasattr(rollout, name)
        if is_set or type(inner) in (list, dict):
            own_members[name] = copy.copy(inner)
    return _Item(place, snapshot(rollout, own_members), parsed, lost)


def _beside(group: Any) -> dict[str, Any]:
    """Return the members of a holder beside its trajectories; UnreadableError if one has no form in JSON."""
    names = group if isinstance(group, Mapping) else _OF_GROUPS
    members = {
        name: member(group, name) for name in names if name != "trajectories"
    }
    if isinstance(rubric := members.get("rubric"), Rubric):
        members["rubric"] = rubric.stated
    beside, lost = _json_form(members)
    for name in ("tools", "rubric"):
        if name in lost:
            raise UnreadableError(lost[name])
    return beside


def _json_form(
    item: Any, attributes: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of a rollout that have a JSON form, and the reasons why the others have none."""
    value = dict[str, Any]()
    lost = dict[str, str]()
    mapping = isinstance(item, Mapping)
    names: list[Any] = [*item] if mapping else [*attributes]
    if mapping and type(item) is not dict:
        names += [
            name for name in _HIDDEN if name not in item and item.get(name)
        ]
    for name in names:
        try:
            inner = item[name] if mapping else member(item, name)
            # ART's trajectory.messages is a method
            if mapping or not (inner is None or callable(inner)):
                value[str(name)] = plain(inner, name)
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


def _key(form: Format, value: dict[str, Any]) -> Any:
    """Return the key of a group by the JSON form of its first record; None if there is none."""
    key = None
    with suppress(UnreadableError, *SHAPE_ERRORS):
        key = key_of(form, value)
    return first_at(value, *form.key_paths) if key is None else key


def judged_group(
    scored: Scored,
    names: Sequence[str],
    on_failure: OnFailure,
    warn: Callable[[str], None],
) -> JudgedGroup[Any]:
    """Annotate a copy of a group; `names` are those of all judges.

    `warn` is told of each object that the copy of a scored group lacks.
    """
    group, _, scores, part = scored
    fields = part.written
    assert isinstance(group, ObjectGroup)  # noqa: S101 - a Scorer reads no others
    form = group.format
    # without a place of its own the group's part stands on each rollout
    native_list = group.one_record and group.shape == "list"
    apart = native_list or not form.group_in_record
    changes = list[dict[str, Any]]()
    notes = list[list[dict[str, Any]]]()
    for record, annotated in annotated_records(scored, names, apart=apart):
        raw = record.line.raw
        new = new_members(
            raw,
            form,
            annotated,
            fields,
            on_failure,
        )
        changes.append(new)
        notes.append(_notes(form, new, annotated))
    if group.one_record:
        of_items = changes[0].get("trajectories", {})
        numbers = range(len(group.items))
        changes = [of_items.get(str(number), {}) for number in numbers]
        notes = [[note] for note in notes[0]]
    copies = list[Any]()
    trajectories = list[dict[str, Any]]()
    for item, new, of_item in zip(
        group.items,
        changes,
        notes,
        strict=True,
    ):
        trajectories += of_item
        lacks_score = all(note["score"] is None for note in of_item)
        # its reward is a number by its type, as in ART, whose training and logging fail at None
        if item.is_object and lacks_score and on_failure == "null":
            if not isinstance(scores, GroupError):
                place = f"trajectory {len(trajectories)}"
                why = of_item[0]["reason"]
                warn(
                    f"{fields['key']}: {place} is left out of the scored copy: {why}"
                )
            continue
        copies.append(with_changes(item.copied, new))
    whole: Any = copies
    if group.shape == "record":
        whole = copies[0]
    elif group.shape == "holder":
        members = {"trajectories": copies, "ruler": fields}
        whole = with_members(group.copied, members)
    elif isinstance(group.copied, tuple):
        whole = tuple(copies)
    values = [note["score"] for note in trajectories]
    judged = JudgedGroup(
        group.index, whole, fields, tuple(trajectories), tuple(values)
    )
    if isinstance(scores, GroupError):
        return replace(judged, kind=scores.kind, reason=scores.reason)
    return judged


def _notes(
    form: Format,
    changes: dict[str, Any],
    annotated: Sequence[Annotated],
) -> list[dict[str, Any]]:
    """Return the annotation of each rollout in the changes of a record."""
    notes = list[Mapping[str, Any]]()
    if form.listed:
        listed = parse_value(changes["ruler"])
        notes = listed["rollouts"] if form.group_in_record else listed
    else:
        for rollout, annotation in annotated:
            written = value_at(changes, (*rollout.path, *parts(form.ruler)))
            # there may be no place for it
            notes.append(parse_value(written) if written else annotation)
    return [
        {name: value for name, value in note.items() if name != "group"}
        for note in notes
    ]
