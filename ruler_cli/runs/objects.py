"""Groups that are Python objects → groups to judge, and annotated copies of what was given.

A group is a list of rollouts or of lists of messages, a dict or an object that holds rollouts as `trajectories`, or a
dict of any format that is a whole group. Each rollout is read from its JSON form as a line of a file is; what an
annotation changes is set in a copy of the object itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Generic, Literal

from ruler_cli.errors import UnreadableError, UsageError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.values import EMPTY, first_at, lookup, parts, value_at
from ruler_cli.formats.annotate import Annotated, new_members
from ruler_cli.formats.format import SHAPE_ERRORS, Format
from ruler_cli.formats.keys import GIVEN, GroupKey, key_text
from ruler_cli.formats.names import PROMPTS
from ruler_cli.formats.native import ART, BESIDE
from ruler_cli.formats.reader import Reader, detect, formats_of
from ruler_cli.formats.table import fits, key_of
from ruler_cli.runs.json_form import (
    G,
    member,
    member_at,
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

_KEYS = ("metadata.scenario_id", "group_id")
"""Paths of a group's key; the last one counts for most."""
_SHOWN = frozenset(("messages", "tools", *PROMPTS, *BESIDE))
"""Members that the judge may be shown."""
_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_WRITTEN = ("reward", "metrics", "logs")
"""Attributes of an object that an annotation changes."""
_OF_OBJECTS = ("messages", "tools", *BESIDE, *_WRITTEN)
"""Attributes of an object that are read."""
_BESIDE_LIST = ("tools", "rubric")
"""Members of a group beside its trajectories that must be readable."""
_TURNS = frozenset(("messages", *ART))
"""Members of which a rollout that is an object has one."""
_FIRST = 20
"""Groups of which one must have an outcome if `outcome` names its path."""
_MOST = 64
"""Shapes whose readers are remembered."""
_APART = "give each group as a list of its rollouts, a dict each"
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
class _Item:
    """A rollout, or a whole group that is a dict.

    `parsed` is its JSON form, `lost` are the members that have none, with the reason. `copied` is a copy, which is
    annotated later: the caller may change the object while it is judged.
    """

    place: str
    copied: Any
    parsed: dict[str, Any]
    lost: dict[str, str]


@frozen_value
class ObjectGroup(Group, Generic[G]):
    """A group that was given as an object.

    Its `shape`: a list of rollouts, one record as a line of a file is, or a holder of `trajectories`.

    The first of its records has what is beside the rollouts.
    """

    index: int
    copied: G
    shape: Shape
    items: Sequence[_Item]
    reader: Reader


class ObjectReader:
    """Reads groups that are objects.

    It keeps the reader of each shape that was read before: a group is read alike whatever came before it. A
    shape is the names of all members, each with its type; for a text, if it may be JSON.
    """

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        self._readers = dict[frozenset[tuple[str, Any]], Reader]()
        self._without_outcome = 0 if settings.outcome is None else _FIRST
        """First groups that may still lack an outcome, if its path is named; then it is wrong."""

    def read(
        self,
        group: G,
        index: int,
        name: str = "",
        rubric: Standards | None = None,
    ) -> ObjectGroup[G]:
        """Read a group; WrongShapeError if it is none. `name` is its name in sentences.

        A trajectory that cannot be judged is read with its error. `rubric` takes the place of the group's own.
        """
        name = name or f"group {index + 1}"
        if isinstance(rubric, str) and rubric.startswith("@"):
            remedy = "give the text of the file"
            raise WrongShapeError(
                "only settings read `@FILE`", remedy, place="rubric"
            )
        try:
            read = self._group(group, index, name, rubric)
        except UnreadableError as error:
            raise WrongShapeError(f"{name}: {error}") from None
        except RecursionError:
            problem = "holds itself, or is nested too deeply"
            raise WrongShapeError(problem, "flatten it", place=name) from None
        if self._without_outcome:
            self._without_outcome -= 1
            if any(rollout.outcome is not None for rollout in read.rollouts):
                self._without_outcome = 0
            elif not self._without_outcome:
                self._without_outcome = 1
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
        rubric: Standards | None,
    ) -> ObjectGroup[G]:
        """Read all records; a holder may have a key, tools, a rubric and rewards of its own."""
        shape = _shape(group)
        objects: Sequence[Any] = [group]
        if shape != "record":
            objects = _listed(group, shape)
        items = [
            _item(rollout, _place(shape, i))
            for i, rollout in enumerate(objects)
        ]
        reader = self._reader(items, shape, name)
        key = _key(reader.format, items[0].parsed) if items else None
        beside = dict[str, Any]()
        copied = group
        shared = dict[str, Any]()
        if shape == "holder":
            copied = snapshot(group, {"trajectories": objects})
            beside = _beside(group)
            for path in _KEYS:
                stated_key = member_at(path, group)
                if stated_key is not None:
                    key = key_text(plain(stated_key, "group_id"))
            shared = self._shared(group)
            if "reference" in shared:
                reader = replace(reader, reference="")
        records = list[Record]()
        for item in items:
            record = self._record(reader, item, index, shape, shared)
            if rubric is not None:  # in the place of all others
                record = replace(record, rubric=None, rubric_error="")
            records.append(record)
        stated: Any = beside.get("rubric") if rubric is None else rubric
        try:
            standards = None if stated in EMPTY else rubric_of(stated)
        except UnreadableError as error:
            raise UnreadableError(f"`rubric` {error}") from None
        # a record for what belongs to all of them
        line = Line(index + 1, 0, dump(beside), name)
        head = Record(line, (), rubric=standards, tools=beside.get("tools"))
        return ObjectGroup(
            key or name, (head, *records), index, copied, shape, items, reader
        )

    def _shared(self, group: Any) -> dict[str, Any]:
        """Return the values that a holder states at the user's paths for rollouts that lack them."""
        settings = self._settings
        shared = dict[str, Any]()
        for name in ("reward", "outcome", "reference"):
            path = getattr(settings, name)
            value = None if path is None else member_at(path, group)
            if value is not None:
                shared[name] = plain(value, name)
        return shared

    def _reader(
        self,
        items: Sequence[_Item],
        shape: Shape,
        name: str,
    ) -> Reader:
        """Return the reader of the one format of all records; an error if there is none, or several."""
        settings = self._settings
        named = (
            settings.format != "auto" or settings.messages or settings.prompt
        )
        talks = any(not _TURNS.isdisjoint(item.parsed) for item in items)
        empty = not any(item.parsed for item in items)
        dicts = items and all(
            isinstance(item.copied, Mapping) for item in items
        )
        if (shape == "holder" and not named and (talks or empty)) or not dicts:
            forms = formats_of("native")
            form = next(form for form in forms if form.shape == "trajectory")
            paths = {"reward": settings.reward, "outcome": settings.outcome}
            stated = {
                name: path for name, path in paths.items() if path is not None
            }
            return Reader(
                form,
                GroupKey(GIVEN),
                value_paths=stated,
                reference=settings.reference or "",
            )
        members = set[tuple[str, Any]]()
        for item in items:
            for member_name, value in item.parsed.items():
                kind = value[:1] in "[{" if type(value) is str else type(value)
                members.add((member_name, kind))
        remembered = frozenset(members)
        reader = self._readers.get(remembered)
        if reader is None or not all(
            fits(reader.format, item.parsed) for item in items
        ):
            reader = self._detected(items, name)
            if len(self._readers) >= _MOST:
                self._readers.clear()
            self._readers[remembered] = reader
        return reader

    def _detected(
        self,
        items: Sequence[_Item],
        name: str,
    ) -> Reader:
        """Return a reader of the format that all records have."""
        settings = self._settings
        # the first groups may have no outcome
        paths = replace(settings, outcome=None, group_by=())
        records = [(Line(1, 0, b"", item.place), item.parsed) for item in items]
        try:
            reader = detect(name, records, paths)
        except UsageError as error:
            for item in items:
                for reason in item.lost.values():
                    raise UnreadableError(f"{item.place}: {reason}") from None
            raise WrongShapeError(str(error)) from None
        key = GroupKey(GIVEN)
        if reader.format.shape == "columns":
            for path in reversed(reader.format.key_paths):
                if lookup(items[0].parsed, path) is not None:
                    key = GroupKey.of_paths(path)
        stated = dict(reader.value_paths)
        if settings.outcome is not None:
            stated["outcome"] = settings.outcome
        return replace(reader, group_key=key, value_paths=stated)

    def _record(
        self,
        reader: Reader,
        item: _Item,
        index: int,
        shape: Shape,
        shared: Mapping[str, Any],
    ) -> Record:
        """Read a record; one rollout that cannot be judged is read with its error.

        The values that are `shared` by the group stand for those that a rollout lacks.
        """
        form = reader.format
        single = form.shape == "trajectory"
        if shape != "record" and not single:
            remedy = "give it alone, and several to `score_groups`"
            raise UnreadableError(
                f"{item.place} is a whole group ({form.name}); {remedy}"
            )
        line = Line(index + 1, 0, dump(item.parsed), item.place)
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
        if shape == "record" and single and len(record.rollouts) == 1:
            raise UnreadableError(f"is one trajectory ({form.name}); {_APART}")
        unreadable = dict[str, Any]()
        if item.lost:
            # a signature names the members of a format
            paths = form.shown.split("`")[1::2]
            shown = _SHOWN.union([path.partition(".")[0] for path in paths])
            for name in shown & item.lost.keys():
                # none of its rollouts can be judged
                unreadable["error"] = item.lost[name]
        rollouts = list[Rollout]()
        for rollout in record.rollouts:
            lacking = {
                name: value
                for name, value in shared.items()
                if getattr(rollout, name) is None
            }
            rollouts.append(replace(rollout, **lacking, **unreadable))
        return replace(record, rollouts=tuple(rollouts))


def _shape(group: Any) -> Shape:
    """Return the shape of a group; a named tuple with `trajectories` is not a list."""
    if isinstance(group, list | tuple) and not hasattr(group, "trajectories"):
        return "list"
    alone = isinstance(group, Mapping) and "trajectories" not in group
    return "record" if alone else "holder"


def _place(shape: Shape, i: int) -> str:
    """Return the name of a record in sentences."""
    places = {"record": "the dict", "list": f"`[{i}]`"}
    return places.get(shape, f"`trajectories[{i}]`")


def _listed(group: Any, shape: Shape) -> Sequence[Any]:
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
    for i, item in enumerate(items):
        if isinstance(item, list | tuple) and not hasattr(item, "messages"):
            rollouts.append({"messages": list(item)})
            continue
        is_object = any(hasattr(item, name) for name in _TURNS)
        if not (is_object or isinstance(item, Mapping)):
            remedy = "give a dict with `messages`, or an object with ART's attributes"
            wrong = type(item).__name__
            raise UnreadableError(
                f"{_place(shape, i)} is of type {wrong}; {remedy}"
            )
        rollouts.append(item)
    return rollouts


def _item(rollout: Any, place: str) -> _Item:
    parsed, lost = _json_form(rollout)
    is_object = not isinstance(rollout, Mapping)
    # programs fill one list again for the next group, so a copy has its own
    own_members = dict[str, Any]()
    for name in _WRITTEN if is_object else rollout:
        inner = member(rollout, name)
        if inner is not None and (is_object or type(inner) in (list, dict)):
            own_members[name] = copy.copy(inner)
    copied = snapshot(rollout, own_members)
    if is_object:
        # one whose reward cannot be set is refused before it is paid for
        snapshot(copied, {"reward": 0.5})
    return _Item(place, copied, parsed, lost)


def _beside(group: Any) -> dict[str, Any]:
    """Return what a holder has beside its trajectories; UnreadableError if that has no form in JSON."""
    names = group if isinstance(group, Mapping) else _BESIDE_LIST
    members = {
        name: member(group, name) for name in names if name != "trajectories"
    }
    if isinstance(rubric := members.get("rubric"), Rubric):
        members["rubric"] = rubric.stated
    beside, lost = _json_form(members)
    for name in _BESIDE_LIST:
        if name in lost:
            raise UnreadableError(lost[name])
    return beside


def _json_form(item: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of a rollout that JSON has a form for, and why it has none for the others."""
    value = dict[str, Any]()
    lost = dict[str, str]()
    mapping = isinstance(item, Mapping)
    names: list[Any] = [*item] if mapping else [*_OF_OBJECTS]
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


def _key(form: Format, value: dict[str, Any]) -> str | None:
    """Return the key of a group by the JSON form of its first record; None if there is none."""
    key = None
    with suppress(UnreadableError, *SHAPE_ERRORS):
        key = key_of(form, value)
    key = first_at(value, *form.key_paths) if key is None else key
    return None if key is None else key_text(key)


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
    form = group.reader.format
    # without a place of its own the group's part stands on each rollout
    apart = group.shape != "holder" and not form.group_in_record
    # the first record has no rollouts
    records = islice(annotated_records(scored, names, apart=apart), 1, None)
    copies = list[Any]()
    trajectories = list[dict[str, Any]]()
    for item, (record, annotated) in zip(group.items, records, strict=True):
        raw = record.line.raw
        changes = new_members(raw, form, annotated, fields, on_failure)
        notes = _notes(form, changes, annotated)
        trajectories += notes
        lacks_score = all(note["score"] is None for note in notes)
        lacks_reward = on_failure == "null" or "reward" not in item.parsed
        is_object = not isinstance(item.copied, Mapping)
        # its reward is a number by its type, as in ART, whose training and logging fail at None
        if is_object and lacks_score and lacks_reward:
            if isinstance(scores, GroupScores):
                place = f"trajectory {len(trajectories)}"
                why = notes[0]["reason"]
                warn(
                    f"{fields['key']}: {place} is left out of the scored copy: {why}"
                )
            continue
        copies.append(with_changes(item.copied, changes))
    whole: Any = copies
    if group.shape == "record":
        whole = copies[0]
    elif group.shape == "holder":
        members = {"trajectories": copies, "ruler": fields}
        whole = with_members(group.copied, members)
    elif isinstance(group.copied, tuple):
        whole = tuple(copies)
    shared = (group.index, whole, fields, tuple(trajectories))
    if isinstance(scores, GroupError):
        none = (None,) * len(trajectories)
        return GroupWithoutScores(*shared, none, scores.kind, scores.reason)
    return GroupWithScores(
        *shared, tuple([note["score"] for note in trajectories])
    )


def _notes(
    form: Format,
    changes: dict[str, Any],
    annotated: Sequence[Annotated],
) -> list[dict[str, Any]]:
    """Return what the changes of a record say of each rollout."""
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
