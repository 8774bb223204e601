"""Groups from Python → the group that is judged, and annotated copies.

A group is read as the command reads lines: as one record that is the whole group, or as a record for each
rollout. An object with ART's attributes is read, and annotated, by the JSON form of its members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal

from ruler_cli.errors import UnreadableError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.formats import native
from ruler_cli.formats.annotate import Annotated, annotate
from ruler_cli.formats.custom import custom_format, with_reward
from ruler_cli.formats.detect import closest, first_keys, formats_of, matching, refusals
from ruler_cli.formats.fields import first_at, lookup
from ruler_cli.formats.interface import GIVEN, SHAPE_ERRORS, ArtLayout, Format, fits
from ruler_cli.formats.native import BESIDE
from ruler_cli.formats.output_fields import (
    AnnotationFields,
    GroupFields,
    TrajectoryFields,
    annotations_of,
)
from ruler_cli.formats.prompts import PROMPTS
from ruler_cli.formats.reader import Reader, key_text
from ruler_cli.formats.turns import ANSWER_LISTS, ANSWERS, is_reply
from ruler_cli.runs.object_values import (
    G,
    as_json,
    as_text,
    member,
    snapshot,
    with_members,
)
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

_TURNS = ("messages_and_choices", "exchanges", "messages")
"""Members with the conversation of a trajectory of ruler's own shape, or of ART's."""
_NATIVE = frozenset(("messages", "tools", *(path.partition(".")[0] for path in BESIDE)))
"""Members of ruler's own shapes, and of ART's, that the judge may be shown."""
_ANNOTATED = ("reward", "metrics", "logs")
_OWN = (list, dict)
"""Types of members of which a copy has its own: programs fill one list again for the next group."""
_OF_OBJECT = (*_TURNS, *sorted(_NATIVE), *_ANNOTATED, "ruler", "group_id", "metadata")
"""Members of an object that are read, those of whole conversations first."""
_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_COPIES = frozenset((*ANSWERS, *ANSWER_LISTS))
"""Members that are not read if the messages end with an answer."""
_NO_OBJECT = (
    str,
    bytes,
    int,
    float,
    complex,
    list,
    tuple,
    set,
    frozenset,
    type(None),
    BaseException,
)
"""Types of values that are no trajectory."""
_APART = "give each group as a list of its rollouts, a dict each"
_MOST = 64
"""Shapes whose readers are remembered."""

Shape = frozenset[tuple[str, Any]]
"""Names of members, each with the types of its values; for a text, if it may be JSON."""
Readers = dict[Shape, Reader]
"""The reader of each shape that was read before: a group is read alike whatever came before it."""
_OF_GROUP = ("tools", "group_id", "metadata")
"""Members of a group that are read beside its rollouts."""
_Lost = dict[str, str]
"""Members that JSON has no form for, each with the reason."""


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
class _Given:
    """A record as it was given: its place in sentences, its JSON form, and a copy to annotate later.

    `parts` are the rollouts of a group of trajectories, else the record alone; each with what JSON has no
    form for.
    """

    place: str
    value: dict[str, Any]
    copied: Any
    parts: Sequence[tuple[dict[str, Any], _Lost]]


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    """A record that was read; `before` has those members of its JSON form that an annotation may change."""

    copied: Any
    before: bytes
    record: Record


@dataclass(frozen=True, slots=True)
class ObjectGroup(Generic[G]):
    """A group that was given as an object: copies of it and its parts, and the group that is judged.

    The copies are annotated later, so the caller may change the group while it is judged. `size` is about the
    bytes of its text.
    """

    index: int
    given: G
    group: Group
    size: int
    reader: Reader
    records: Sequence[_ReadRecord]
    native: bool

    @property
    def has_trajectories(self) -> bool:
        """Tell if it is a dict or an object with a list of its rollouts."""
        return _has_trajectories(self.given)


def read_group(
    given: G,
    index: int,
    settings: InputSettings,
    name: str = "",
    *,
    readers: Readers | None = None,
    rubric: str | None = None,
    covered: bool = False,
) -> ObjectGroup[G]:
    """Read a group; WrongShapeError if it is none. `name` is its name in sentences.

    A trajectory that cannot be judged is read with its error. `readers` remembers shapes between calls;
    `rubric` takes the place of the group's own. `covered`: its records have their text, so that what the
    judge is not shown of it can be told.
    """
    name = name or f"group {index + 1}"
    if isinstance(rubric, str) and rubric.startswith("@"):
        raise WrongShapeError(
            "rubric: only settings read `@FILE`; give the text of the file"
        )
    known = {} if readers is None else readers
    try:
        read = _read_group(given, index, settings, name, known, covered=covered)
    except UnreadableError as error:
        raise WrongShapeError(f"{name}: {error}") from None
    except RecursionError:
        raise WrongShapeError(
            f"{name}: holds itself, or is nested too deeply; flatten it"
        ) from None
    own = member(given, "rubric") if _has_trajectories(given) else None
    rubric = _checked_rubric(own if rubric is None else rubric, name)
    if rubric is None:
        return read
    first, *rest = read.group.records
    records = (replace(first, rubric=rubric), *rest)
    return replace(read, group=Group(read.group.key, records))


def _checked_rubric(rubric: Any, name: str) -> str | None:
    """Return a rubric, None for an empty one; WrongShapeError if it is no text: it is never ignored."""
    if rubric is not None and not isinstance(rubric, str):
        raise WrongShapeError(
            f"{name}: `rubric` is of type {type(rubric).__name__}; give text"
        )
    return rubric or None


def _has_trajectories(given: Any) -> bool:
    """Tell if a group is a dict or an object with a list of its rollouts."""
    return (
        "trajectories" in given
        if isinstance(given, Mapping)
        else hasattr(given, "trajectories")
    )


def trajectories_of(given: Any, name: str) -> Sequence[Any] | None:
    """Return the rollouts of a group, None if it is one record; WrongShapeError if they are no list."""
    if _has_trajectories(given):
        items = member(given, "trajectories")
    elif isinstance(given, Mapping):
        return None
    elif isinstance(given, list | tuple):
        items = given
    else:
        raise WrongShapeError(
            f"{name}: is of type {type(given).__name__}; give a list of rollouts, a dict with "
            "`trajectories`, or an object with ART's attributes"
        )
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise WrongShapeError(
            f"{name}: `trajectories` is of type {type(items).__name__}; give a list of trajectories"
        )
    for i, item in enumerate(items):
        if isinstance(item, _NO_OBJECT):
            raise WrongShapeError(
                f"{_place(given, name, i)} is of type {type(item).__name__}; give a dict with `messages`, or "
                "an object with ART's attributes"
            )
    return items


def _place(given: Any, name: str, i: int) -> str:
    """Return the name of a trajectory in sentences."""
    inside = "trajectories" if _has_trajectories(given) else ""
    return f"{name}: `{inside}[{i}]`"


def _read_group(
    given: G,
    index: int,
    settings: InputSettings,
    name: str,
    readers: Readers,
    *,
    covered: bool,
) -> ObjectGroup[G]:
    items, copied = trajectories_of(given, name), given
    if items is None:
        records = [_given_record(given, name)]
        alone, whole = True, False
    else:
        alone = whole = _is_native(given, items, settings)
        records = (
            [_given_group(given, items, settings, name)]
            if whole
            else [
                _given_record(item, _place(given, name, i))
                for i, item in enumerate(items)
            ]
        )
        if isinstance(given, Mapping) and not whole:
            copied = snapshot(given, {}, name)
    lines = [
        Line(index + 1, 0, as_text(each.value) if covered else b"", each.place)
        for each in records
    ]
    reader = _known_reader(records, lines, settings, readers, whole=whole)
    shape = reader.format.shape
    if not alone and shape != "trajectory":
        raise WrongShapeError(
            f"{records[0].place}: is a whole group ({reader.format.name}); give it alone, and several to "
            "`score_groups`"
        )
    read = [
        _with_lost(_read(reader, each.value, line), reader.format, each)
        for each, line in zip(records, lines, strict=True)
    ]
    if alone and shape == "trajectory" and len(read[0].rollouts) == 1:
        raise WrongShapeError(
            f"{name}: is one trajectory ({reader.format.name}); give all of one task as a list"
        )
    key, first = _key(reader.format, records[0].value), read[0]
    if copied is not given and isinstance(given, Mapping):
        value, lost = _json_form({name: given.get(name) for name in _OF_GROUP})
        _refuse_lost(lost)
        key = _key(native.FORMATS[1], value) or key
        read[0] = replace(first, tools=value["tools"] or first.tools)
    group = Group(key or name, tuple(read))
    size = sum([len(repr(rollout)) for rollout in group.rollouts])
    kept = [
        _ReadRecord(
            each.copied, dump(_changing(each, reader.format, one, whole=whole)), one
        )
        for each, one in zip(records, read, strict=True)
    ]
    return ObjectGroup(index, copied, group, size, reader, kept, whole)


def _is_native(given: Any, items: Sequence[Any], settings: InputSettings) -> bool:
    """Tell if a group is of ruler's own shape, or ART's: one record, whose rollouts may be objects."""
    dicts = isinstance(items, list | tuple) and all(
        isinstance(item, Mapping) for item in items
    )
    if not items or not dicts:
        return True
    if not _has_trajectories(given) or not isinstance(given, Mapping):
        return _has_trajectories(given)
    named = settings.format != "auto" or settings.messages or settings.prompt
    own = any(turns in item for item in items for turns in _TURNS)
    return (own or not any(items)) and not named


def _given_record(item: Any, place: str) -> _Given:
    value, lost = _json_form(item)
    return _Given(place, value, _copy_of(item, place), [(value, lost)])


def _given_group(
    given: Any, items: Sequence[Any], settings: InputSettings, name: str
) -> _Given:
    """Return a group of trajectories as one record."""
    paths = (settings.reward, settings.outcome)
    heads = [path.partition(".")[0] for path in paths if path]
    forms = [_json_form(item, heads) for item in items]
    copies = [_copy_of(item, _place(given, name, i)) for i, item in enumerate(items)]
    value, copied = dict[str, Any](), {"trajectories": copies}
    if _has_trajectories(given):
        beside = given
        if isinstance(given, Mapping):
            beside = {key: one for key, one in given.items() if key != "trajectories"}
        value, lost = _json_form(beside, heads)
        _refuse_lost(lost)
        copied = snapshot(given, copied, name)
    value["trajectories"] = [form for form, _ in forms]
    return _Given(name, value, copied, forms)


def _refuse_lost(lost: _Lost) -> None:
    """Raise UnreadableError if what a group says of itself cannot be read."""
    for name in _OF_GROUP:
        if name in lost:
            raise UnreadableError(lost[name])


def _copy_of(item: Any, place: str) -> Any:
    """Return a copy with lists and dicts of its own; WrongShapeError if it cannot be annotated."""
    if isinstance(item, Mapping):
        members = dict(item.items())
    else:
        members = {name: member(item, name) for name in _ANNOTATED}
    own = {name: one.copy() for name, one in members.items() if type(one) in _OWN}
    if not isinstance(item, Mapping) and members["reward"] is not None:
        own["reward"] = members["reward"]  # fails if it cannot be set
    return snapshot(item, own, place)


def _json_form(item: Any, heads: Sequence[str] = ()) -> tuple[dict[str, Any], _Lost]:
    """Return the members that JSON has a form for, and why it has none for the others.

    Of an object those are read that the judge is shown, that an annotation changes, and `heads`.
    """
    value, lost, listed = dict[str, Any](), _Lost(), isinstance(item, Mapping)
    if listed:
        plain = type(item) is dict
        hidden = () if plain else [n for n in _HIDDEN if n not in item and item.get(n)]
        names = (*item, *hidden)
    else:
        names = tuple(dict.fromkeys((*_OF_OBJECT, *heads)))
    for key in names:
        name = key if type(key) is str else str(key)
        try:
            one = item[key] if listed else getattr(item, name, None)
            if listed or not (
                one is None or callable(one)
            ):  # ART's messages are a method
                value[name] = _as_json(name, one)
        except UnreadableError as error:
            why = f"holds a value that {error}; give dicts, lists, texts and numbers"
            lost[name] = f"`{name}` {why}"
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - of a value that is made when it is asked for
            lost[name] = f"`{name}` cannot be read ({error!r:.80})"
    if not listed:
        # ART's list is empty if it recorded the calls of a client
        turns = [name for name in _TURNS if value.get(name)]
        for name in _TURNS if turns else ():
            if name != turns[0]:
                value.pop(name, None)
    return value, lost


def _as_json(name: str, value: Any) -> Any:
    """Return the JSON form of a member; of one without, that of the parts that the judge may be shown."""
    try:
        return as_json(value)
    except UnreadableError:
        leaves = [
            path.partition(".")[2] for path in BESIDE if path.startswith(f"{name}.")
        ]
        if not leaves:
            raise
    return {leaf: as_json(member(value, leaf)) for leaf in leaves}


def _shape(values: Sequence[Mapping[str, Any]]) -> Shape:
    """Return the shape of records."""
    pairs = [pair for value in values for pair in value.items()]
    return frozenset(
        [
            (name, one[:1] in "[{" if type(one) is str else type(one))
            for name, one in pairs
        ]
    )


def _known_reader(
    records: Sequence[_Given],
    lines: Sequence[Line],
    settings: InputSettings,
    readers: Readers,
    *,
    whole: bool,
) -> Reader:
    """Return the reader of records of this shape; WrongShapeError if they are of none, or of several."""
    values = [each.value for each in records]
    shape = _shape(values)
    reader = readers.get(shape)
    if reader is None or not all(fits(reader.format, value) for value in values):
        reader = _reader_of(records, lines, settings, whole=whole)
        if len(readers) >= _MOST:
            readers.clear()
        readers[shape] = reader
    return reader


def _reader_of(
    records: Sequence[_Given],
    lines: Sequence[Line],
    settings: InputSettings,
    *,
    whole: bool,
) -> Reader:
    values, place = [each.value for each in records], records[0].place
    if whole:
        groups = [form for form in native.FORMATS if form.shape == "group"]
        form = next(form for form in groups if form.matches(values[0]) is not False)
    else:
        form = _format_of(records, settings)
    if form.refine is not None:
        form = form.refine([value for value in values if fits(form, value)] or values)
    columns = form.keys if form.shape == "columns" else ()
    key = next((path for path in columns if lookup(values[0], path) is not None), GIVEN)
    reader = Reader(form, key, outcome=settings.outcome, prompt=settings.prompt)
    if settings.reward is not None:
        pairs = [
            (replace(line, raw=dump(value)), value)
            for line, value in zip(lines, values, strict=True)
        ]
        form = with_reward(place, settings.reward, reader, pairs)
        reader = replace(reader, format=form, reward=settings.reward)
    read = [
        _read(reader, value, line) for line, value in zip(lines, values, strict=True)
    ]
    return reader.with_words(read)


def _format_of(records: Sequence[_Given], settings: InputSettings) -> Format:
    """Find the one format of all records."""
    try:
        return _one_format(records, settings)
    except WrongShapeError:
        for each in records:
            for name, reason in each.parts[0][1].items():
                if name in _NATIVE or name in PROMPTS:
                    raise WrongShapeError(f"{each.place}: {reason}") from None
        raise


def _one_format(records: Sequence[_Given], settings: InputSettings) -> Format:
    values, name = [each.value for each in records], records[0].place
    if settings.messages is not None:
        alone = settings.prompt is not None
        form = custom_format(settings.messages, values, alone=alone)
        if form is None:
            raise WrongShapeError(
                f"{name}: has nothing at `{settings.messages}`{_keys(values[0])}"
            )
        return form
    candidates, found = formats_of(settings.format), dict[str, tuple[Format, str]]()
    for each in records:
        best = matching(each.value, candidates)
        if len(best) > 1:
            raise WrongShapeError(
                f"{each.place}: could be {best[0].name} or {best[1].name}; say which, e.g. "
                f"InputSettings(format={best[0].family!r})"
            )
        if best:
            found.setdefault(best[0].name, (best[0], each.place))
    if len(found) > 1:
        (one, first), (other, second) = list(found.values())[:2]
        raise WrongShapeError(
            f"{first}: looks like {one.name}, and {second.rpartition(': ')[2]} like {other.name}; give one "
            "shape"
        )
    form = next((form for form, _ in found.values()), None)
    weak = form is None or (settings.format == "auto" and form.rank == 0)
    for refusal in refusals() if weak else ():
        if all(fits(refusal, value) for value in values):
            raise WrongShapeError(f"{name}: {refusal.hint}")
    if form is None:
        raise WrongShapeError(f"{name}: {_unknown(values[0], settings.format)}")
    return form


def _unknown(value: Mapping[str, Any], wanted: str) -> str:
    """Return a sentence on a record of no shape that is known, or not of the format that is wanted."""
    keys, sizes = (
        _keys(value),
        {len(one) if isinstance(one, list) else 0 for one in value.values()},
    )
    if len(sizes) == 1 and sizes != {0}:
        return f"is a batch of columns{keys}; {_APART}"
    if value.keys() >= {"role", "content"}:
        return "is a message, and a rollout is a dict with a list of them: {'messages': […]}"
    if wanted != "auto":
        return f"is not of the format {wanted}{keys}"
    return (
        f"has no known shape{keys}{closest(value)}; give `messages`, or say where they and the "
        "task stand: InputSettings(messages='PATH', prompt='PATH')"
    )


def _keys(value: Mapping[str, Any]) -> str:
    return f" (keys: {first_keys(value) or 'none'})"


def _read(reader: Reader, value: dict[str, Any], line: Line) -> Record:
    """Read a record; one rollout that cannot be judged is read with its error."""
    try:
        records = reader.read_parsed(value, line)
    except UnreadableError as error:
        if reader.format.shape != "trajectory" or reader.format.layout.listed:
            raise WrongShapeError(f"{line.where}: {error}") from None
        return Record(line, (Rollout([], error=str(error)),))
    if len(records) > 1:
        several = f"holds {len(records)} groups ({reader.format.name})"
        raise WrongShapeError(f"{line.where}: {several}; {_APART}")
    return records[0]


def _with_lost(record: Record, form: Format, given: _Given) -> Record:
    """Return the record; rollouts that lack a member that the judge may be shown have that error."""
    shown = _NATIVE if form in native.FORMATS else _NATIVE.union(PROMPTS, _named(form))
    rollouts = []
    for rollout in record.rollouts:
        value, lost = given.parts[int(rollout.path[1]) if len(given.parts) > 1 else 0]
        names = shown - _COPIES if lost and _ends_with_reply(value) else shown
        reason = next((why for name, why in lost.items() if name in names), None)
        rollouts.append(replace(rollout, error=reason) if reason else rollout)
    return replace(record, rollouts=tuple(rollouts))


def _named(form: Format) -> list[str]:
    """Return the members that make a record one of this format."""
    return [path.partition(".")[0] for path in form.signature.split("`")[1::2]]


def _ends_with_reply(value: Mapping[str, Any]) -> bool:
    """Tell if nothing beside the messages is read as the answer, see `turns.with_answer`."""
    messages = value.get("messages")
    if not messages:
        return bool(value.get("messages_and_choices"))
    return (
        isinstance(messages, list) and is_reply(messages[-1]) and "role" in messages[-1]
    )


def _key(form: Format, value: dict[str, Any]) -> str | None:
    """Return the key of a group by one of its records; None if there is none."""
    key = None
    if form.key_of is not None:
        with suppress(UnreadableError, *SHAPE_ERRORS):
            key = form.key_of(value)
    key = first_at(value, *form.keys) if key is None else key
    return None if key is None else key_text(key)


def _changing(
    given: _Given, form: Format, record: Record, *, whole: bool
) -> dict[str, Any]:
    """Return the members of a record that its annotation may change, or look at."""
    layout = form.layout
    paths = [layout.reward or (), layout.ruler, layout.source or ()]
    if not whole:
        paths += [rollout.path for rollout in record.rollouts]
    names = {"ruler", *(path[0] for path in paths if path)}
    if isinstance(layout, ArtLayout):
        names |= {"metrics", "logs", str(layout.payload)}
    value = {name: one for name, one in given.value.items() if name in names}
    if whole:
        value["trajectories"] = [
            {name: one for name, one in part.items() if name in names}
            for part, _ in given.parts
        ]
    return value


def _changed(given: Any, before: Any, after: Any) -> Any:
    """Return what was given with the changes between two JSON forms of it; the rest stays as it is."""
    if isinstance(after, dict) and given is not None:
        old = before if isinstance(before, dict) else {}
        changes = {
            name: _changed(member(given, name), old.get(name), value)
            for name, value in after.items()
            if name not in old or old[name] != value
        }
        copied: Any = with_members(given, changes)
        for name in old.keys() - after.keys():
            copied.pop(name, None)
        return copied
    lists = isinstance(before, list) and isinstance(after, list)
    if lists and len(given) == len(before) == len(after):
        triples = zip(given, before, after, strict=True)
        return [
            _changed(one, old, new) if old != new else one for one, old, new in triples
        ]
    return after


def judged_group(
    read: ObjectGroup[G],
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    fields: GroupFields,
    on_failure: OnFailure,
) -> tuple[JudgedGroup[G], list[str]]:
    """Return an annotated copy of a group, and a sentence for each rollout that a scored copy lacks.

    `names` are those of all judges, `fields` the group's part of OUTPUT.
    """
    annotations = annotations_of(read.group, result, scores, names)
    copies, trajectories = _annotated(read, annotations, fields, on_failure)
    lost = {i for i, each in enumerate(annotations) if each["score"] is None}
    copied, left = _as_given(read, copies, fields, lost)
    if isinstance(scores, GroupError):
        none = (None,) * len(trajectories)
        why = (scores.kind, scores.reason)
        return GroupWithoutScores(
            read.index, copied, fields, trajectories, none, *why
        ), []
    each = tuple([annotation["score"] for annotation in annotations])
    judged = GroupWithScores(read.index, copied, fields, trajectories, each)
    key = fields["key"]
    return judged, [
        f"{key}: trajectory {i + 1} is left out of the scored copy: {trajectories[i]['reason']}"
        for i in left
    ]


def _annotated(
    read: ObjectGroup[Any],
    annotations: Sequence[AnnotationFields],
    fields: GroupFields,
    on_failure: OnFailure,
) -> tuple[list[Any], tuple[TrajectoryFields, ...]]:
    """Return annotated copies of the records, as OUTPUT has them, and the annotations with first rewards."""
    reader, rest = read.reader, iter(annotations)
    beside = reader.format.group_in_record or read.has_trajectories
    copies, whole = list[Any](), list[TrajectoryFields]()
    for one in read.records:
        mine = [(rollout, next(rest)) for rollout in one.record.rollouts]
        written: Sequence[Annotated] = mine
        if not beside:
            written = [(rollout, {**each, "group": fields}) for rollout, each in mine]
        text = annotate(one.before, reader.format, written, fields, on_failure)
        after = parse_value(text)
        copies.append(_changed(one.copied, parse_value(one.before), after))
        for rollout, each in mine:
            noted = reader.previous_annotation(after, rollout) or {}
            original = noted.get("independent_reward")
            whole.append(TrajectoryFields(**each, independent_reward=original))
    return copies, tuple(whole)


def _as_given(
    read: ObjectGroup[G], copies: list[Any], fields: GroupFields, lost: set[int]
) -> tuple[G, list[int]]:
    """Return annotated copies as one group of the kind that was given, and the rollouts that it lacks.

    An object that is one of the `lost`, without a score, is left out unless it keeps a reward: that is a
    number by its type, as in ART, whose training and logging fail at None.
    """
    given: Any = read.given
    if not (read.native or read.has_trajectories or isinstance(given, list | tuple)):
        return copies[0], []
    group, items, left = given, copies, list[int]()
    if read.native:
        group = copies[0]
        items = list(member(group, "trajectories"))
        left = [i for i in sorted(lost) if _lacks_reward(items[i])]
        items = [item for i, item in enumerate(items) if i not in left]
    if read.has_trajectories:
        return with_members(group, {"trajectories": items, "ruler": fields}), left
    return (tuple(items) if isinstance(given, tuple) else items), left  # type: ignore[return-value]  # of the kind given


def _lacks_reward(item: Any) -> bool:
    return not isinstance(item, Mapping) and member(item, "reward") is None
