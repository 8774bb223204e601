"""Groups that are Python objects → groups to judge, and annotated copies of what was given.

A group is a list of rollouts, a dict or an object that holds them as `trajectories`, or a dict of any format
that is a whole group. Each rollout is read from its JSON form as a line of a file is, and the annotated line
tells what changes in the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal

from ruler_cli.errors import UnreadableError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.formats.annotate import (
    Annotated,
    AnnotationFields,
    GroupFields,
    TrajectoryFields,
    annotate,
    annotations_of,
)
from ruler_cli.formats.chat import ANSWER_LISTS, ANSWERS, PROMPTS, is_reply
from ruler_cli.formats.fields import first_at, lookup
from ruler_cli.formats.native import ART, BESIDE
from ruler_cli.formats.reader import (
    Reader,
    custom_format,
    first_keys,
    formats_of,
    key_text,
    matching,
    with_reward,
)
from ruler_cli.formats.table import GIVEN, SHAPE_ERRORS, Format, fits
from ruler_cli.runs.object_values import (
    G,
    as_json,
    as_text,
    member,
    plain,
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

_KEYS = ("group_id", "metadata.scenario_id")
"""Paths of a group's key."""
_BESIDE = frozenset(path.partition(".")[0] for path in BESIDE)
_SHOWN = frozenset(("messages", "tools", *PROMPTS, *_BESIDE))
"""Members that the judge may be shown."""
_COPIES = frozenset((*ANSWERS, *ANSWER_LISTS))
"""Those of them that are not read if `messages` ends with an answer."""
_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_OF_OBJECTS = ("messages", "tools", *_BESIDE, "reward", "metrics", "logs")
"""Attributes of an object that are read."""
_KINDS = {"metrics": (Mapping, "a dict"), "logs": (list | tuple, "a list")}
"""Members of a trajectory that have one type."""
_NO_OBJECT = (
    str, bytes, int, float, complex, list, tuple, set, frozenset, type(None), BaseException,
)  # fmt: skip
"""Types of values that are no trajectory."""
_APART = "give each group as a list of its rollouts, a dict each"
_MOST = 64
"""Shapes whose readers are remembered."""

Shape = frozenset[tuple[str, Any]]
"""Names of members, each with the types of its values; for a text, if it may be JSON."""
Readers = dict[Shape, Reader]
"""The reader of each shape that was read before: a group is read alike whatever came before it."""


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
class _Item:
    """A record of a group: a copy to annotate later, and what was read of it.

    `before` has those members of its JSON form that an annotation may change.
    """

    copied: Any
    before: bytes
    record: Record


@dataclass(frozen=True, slots=True)
class ObjectGroup(Generic[G]):
    """A group that was given as an object, and the group that is judged.

    The copies are annotated later, so the caller may change the group while it is judged. `size` is about the
    bytes of its text.
    """

    index: int
    given: G
    items: Sequence[_Item]
    reader: Reader | None
    group: Group
    size: int


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
    `rubric` takes the place of the group's own. `covered`: its records have their text, so that what the judge
    is not shown of it can be told.
    """
    name = name or f"group {index + 1}"
    if isinstance(rubric, str) and rubric.startswith("@"):
        remedy = "give the text of the file"
        raise WrongShapeError("only settings read `@FILE`", remedy, place="rubric")
    try:
        return _read_group(
            given,
            index,
            settings,
            name,
            {} if readers is None else readers,
            rubric,
            covered,
        )
    except UnreadableError as error:
        raise WrongShapeError(f"{name}: {error}") from None
    except RecursionError:
        problem = "holds itself, or is nested too deeply"
        raise WrongShapeError(problem, "flatten it", place=name) from None


def _read_group(
    given: G,
    index: int,
    settings: InputSettings,
    name: str,
    readers: Readers,
    rubric: str | None,
    covered: bool,
) -> ObjectGroup[G]:
    alone = _is_record(given)
    held = not alone and not _is_list(given)
    items = [given] if alone else items_of(given, name)
    texts = _texts(given, items) if covered else [b""] * len(items)
    places = [name] if alone else [_place(given, name, i) for i in range(len(items))]
    lines = [Line(index + 1, 0, *one) for one in zip(texts, places, strict=True)]
    reader, read = _read_items(items, lines, settings, readers, alone=alone, held=held)
    copied: Any = given
    own_rubric: Any = rubric
    records = [item.record for item in read]
    key = None if reader is None else _key(reader.format, items[0])
    if held:
        copied = snapshot(given, {"trajectories": items}, name)
        key = _own_key(given) or key
        tools = plain(member(given, "tools"), "tools")
        own_rubric = member(given, "rubric") if rubric is None else rubric
        if records:
            records[0] = replace(records[0], tools=tools or records[0].tools)
            records = [_with_fallback(one, given, settings) for one in records]
    if own_rubric is not None and not isinstance(own_rubric, str):
        problem = f"`rubric` is of type {type(own_rubric).__name__}"
        raise WrongShapeError(problem, "give text", place=name)
    if own_rubric and records:
        records[0] = replace(records[0], rubric=own_rubric)
    group = Group(
        key or name, tuple(records) or (Record(Line(index + 1, 0, b"", name), ()),)
    )
    size = sum(len(repr(rollout)) for rollout in group.rollouts)
    return ObjectGroup(index, copied, read, reader, group, size)


def _texts(given: Any, items: Sequence[Any]) -> list[bytes]:
    """Return the text of each record; a dict that holds them stands for the first."""
    mappings = [as_text(item) if isinstance(item, Mapping) else b"" for item in items]
    if items and isinstance(given, Mapping) and not _is_record(given):
        return [as_text(given), *[b""] * (len(items) - 1)]
    return mappings


def _is_list(given: Any) -> bool:
    """Tell if a group is a list of its rollouts; a named tuple with `trajectories` is none."""
    return isinstance(given, list | tuple) and not hasattr(given, "trajectories")


def _is_record(given: Any) -> bool:
    """Tell if a group is one record, as a line of a file that is a whole group."""
    return isinstance(given, Mapping) and "trajectories" not in given


def _place(given: Any, name: str, i: int) -> str:
    """Return the name of a trajectory in sentences."""
    return f"{name}: `[{i}]`" if _is_list(given) else f"{name}: `trajectories[{i}]`"


def items_of(given: Any, name: str) -> Sequence[Any]:
    """Return the trajectories of a group; WrongShapeError if it has no list of them."""
    known = isinstance(given, Mapping) or hasattr(given, "trajectories")
    if not known and not _is_list(given):
        remedy = "give a list of rollouts, a dict with `trajectories`, or an object with ART's attributes"
        raise WrongShapeError(f"is of type {type(given).__name__}", remedy, place=name)
    items: Any = given if _is_list(given) else member(given, "trajectories")
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        problem = f"`trajectories` is of type {type(items).__name__}"
        raise WrongShapeError(problem, "give a list of trajectories", place=name)
    for i, item in enumerate(items):
        place = _place(given, name, i)
        if isinstance(item, _NO_OBJECT):
            problem = f"{place} is of type {type(item).__name__}"
            remedy = "give a dict with `messages`, or an object with ART's attributes"
            raise WrongShapeError(problem, remedy)
    return items


def _read_items(
    items: Sequence[Any],
    lines: Sequence[Line],
    settings: InputSettings,
    readers: Readers,
    *,
    alone: bool,
    held: bool,
) -> tuple[Reader | None, list[_Item]]:
    """Read the records of one group as the command reads lines; `lines` have their places in sentences.

    `alone`: it is one record that is the whole group, else each is a rollout; `held`: a dict or an object holds
    them. WrongShapeError if they are of no shape that is known, of several shapes, or of several groups.
    """
    if not items:
        return None, []
    values, lost = zip(*map(_json_form, items), strict=True)
    reader = _reader_of(items, lines, values, lost, settings, readers, held=held)
    name, whole = lines[0].where, reader.format.shape != "trajectory"
    if not alone and whole:
        problem = f"{name}: is a whole group ({reader.format.name})"
        raise WrongShapeError(problem, "give it alone, and several to `score_groups`")
    read = []
    for item, value, line, reasons in zip(items, values, lines, lost, strict=True):
        record = _with_lost(_read(reader, value, line), reader.format, value, reasons)
        if reader.format.layout.extras and reader.format.layout.payload is None:
            _refuse_kinds(item, line.where)
        copied = snapshot(item, _own_members(item), line.where)
        before = dump(_changing(value, reader.format, record))
        read.append(_Item(copied, before, record))
    if alone and not whole and len(read[0].record.rollouts) == 1:
        problem = f"{name}: is one trajectory ({reader.format.name})"
        raise WrongShapeError(problem, "give all of one task as a list")
    return reader, read


def _refuse_kinds(item: Any, place: str) -> None:
    for part, (kind, form) in _KINDS.items():
        value = member(item, part)
        if value is not None and not isinstance(value, kind):
            problem = f"`{part}` is of type {type(value).__name__}"
            raise WrongShapeError(problem, f"give {form}, or leave it out", place=place)


def _own_members(item: Any) -> dict[str, Any]:
    """Return the members of which a copy has its own: programs fill one list again for the next group."""
    if isinstance(item, Mapping):
        return {
            key: one.copy() for key, one in item.items() if type(one) in (list, dict)
        }
    own: dict[str, Any] = {
        "metrics": dict(member(item, "metrics") or {}),
        "logs": list(member(item, "logs") or ()),
    }
    if (reward := member(item, "reward")) is not None:
        own["reward"] = reward
    return own


def _json_form(item: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of a rollout that JSON has a form for, and why it has none for the others."""
    value, lost = dict[str, Any](), dict[str, str]()
    mapping = isinstance(item, Mapping)
    names: list[Any] = [*item] if mapping else [*_OF_OBJECTS]
    if mapping and type(item) is not dict:
        names += [one for one in _HIDDEN if one not in item and item.get(one)]
    for key in names:
        name = key if type(key) is str else str(key)
        try:
            own = item[key] if mapping else member(item, key)
            # ART's trajectory.messages is a method
            if mapping or not (own is None or callable(own)):
                value[name] = as_json(own)
        except UnreadableError as error:
            lost[name] = (
                f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
            )
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - of a member that is made when it is asked for
            lost[name] = f"`{name}` cannot be read ({error!r:.80})"
    if not mapping and value.get("messages_and_choices"):
        value.pop("messages", None)
    elif not mapping and value.get("exchanges"):
        # ART's list is empty if it recorded the calls of a client
        value.pop("messages_and_choices", None)
    return value, lost


def _shape(values: Sequence[Mapping[str, Any]]) -> Shape:
    """Return the shape of records."""
    pairs = [pair for value in values for pair in value.items()]
    return frozenset(
        (name, one[:1] in "[{" if type(one) is str else type(one))
        for name, one in pairs
    )


def _reader_of(
    items: Sequence[Any],
    lines: Sequence[Line],
    values: Sequence[dict[str, Any]],
    lost: Sequence[Mapping[str, str]],
    settings: InputSettings,
    readers: Readers,
    *,
    held: bool,
) -> Reader:
    """Return the reader of the one format of all records; WrongShapeError if there is none, or several."""
    named = settings.format != "auto" or settings.messages or settings.prompt
    talks = any(turns in value for value in values for turns in ("messages", *ART))
    own = held and not named and (talks or not any(values))
    if own or not all(isinstance(item, Mapping) for item in items):
        outcome, reward = settings.outcome, settings.reward
        return Reader(_native(), GIVEN, outcome=outcome, reward=reward)
    shape = _shape(values)
    reader = readers.get(shape)
    if reader is None or not all(fits(reader.format, value) for value in values):
        reader = _new_reader(lines, values, lost, settings)
        if len(readers) >= _MOST:
            readers.clear()
        readers[shape] = reader
    return reader


def _native() -> Format:
    forms = formats_of("native")
    return next(form for form in forms if form.shape == "trajectory")


def _new_reader(
    lines: Sequence[Line],
    values: Sequence[dict[str, Any]],
    lost: Sequence[Mapping[str, str]],
    settings: InputSettings,
) -> Reader:
    """Find the format of records."""
    try:
        form = _format_of(lines, values, settings)
    except WrongShapeError:
        for line, reasons in zip(lines, lost, strict=True):
            for name in _SHOWN & reasons.keys():
                raise WrongShapeError(f"{line.where}: {reasons[name]}") from None
        raise
    form = form.refined([value for value in values if fits(form, value)] or values)
    columns = form.keys if form.shape == "columns" else ()
    key = next((path for path in columns if lookup(values[0], path) is not None), GIVEN)
    reader = Reader(form, key, outcome=settings.outcome, prompt=settings.prompt)
    if settings.reward is not None:
        pairs = [
            (replace(line, raw=dump(value)), value)
            for line, value in zip(lines, values, strict=True)
        ]
        form = with_reward(lines[0].where, settings.reward, reader, pairs)
        reader = replace(reader, format=form, reward=settings.reward)
    read = [
        _read(reader, value, line) for line, value in zip(lines, values, strict=True)
    ]
    return reader.with_words(read)


def _format_of(
    lines: Sequence[Line], values: Sequence[dict[str, Any]], settings: InputSettings
) -> Format:
    name = lines[0].where
    keys = f" (its keys: {first_keys(values[0]) or 'none'})"
    if settings.messages is not None:
        form = custom_format(
            settings.messages, values, alone=settings.prompt is not None
        )
        if form is None:
            raise WrongShapeError(f"{name}: has nothing at `{settings.messages}`{keys}")
        return form
    candidates, found = formats_of(settings.format), dict[str, tuple[Format, str]]()
    for line, value in zip(lines, values, strict=True):
        best = matching(value, candidates)
        if len(best) > 1:
            problem = f"could be {best[0].name} or {best[1].name}"
            remedy = f"say which, e.g. InputSettings(format={best[0].family!r})"
            raise WrongShapeError(problem, remedy, place=line.where)
        if best:
            found.setdefault(best[0].name, (best[0], line.where))
    if len(found) > 1:
        (one, first), (other, second) = list(found.values())[:2]
        like = (
            f"looks like {one.name}, and {second.rpartition(': ')[2]} like {other.name}"
        )
        raise WrongShapeError(like, "give one shape", place=first)
    form = next((form for form, _ in found.values()), None)
    if form is None:
        raise WrongShapeError(f"{name}: {_unknown(values[0], settings.format, keys)}")
    return form


def _unknown(value: Mapping[str, Any], wanted: str, keys: str) -> str:
    """Return a sentence on a record of no shape that is known, or not of the format that is wanted."""
    sizes = {len(one) if isinstance(one, list) else 0 for one in value.values()}
    if len(sizes) == 1 and sizes != {0}:
        return f"is a batch of columns{keys}; {_APART}"
    if value.keys() >= {"role", "content"}:
        return "is a message, and a rollout is a dict with a list of them: {'messages': […]}"
    if wanted != "auto":
        return f"is not of the format {wanted}{keys}"
    where = "InputSettings(messages='PATH', prompt='PATH')"
    return f"is of no shape that ruler knows{keys}; give `messages`, or say where they stand: {where}"


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


def _with_lost(
    record: Record, form: Format, value: Mapping[str, Any], lost: Mapping[str, str]
) -> Record:
    """Return the record; if it lacks a member that the judge may be shown, its rollouts have that error."""
    if not lost:
        return record
    shown = _SHOWN.union(
        path.partition(".")[0] for path in form.signature.split("`")[1::2]
    )
    if _ends_with_reply(value):
        shown -= _COPIES
    reason = next((reason for name, reason in lost.items() if name in shown), None)
    if reason is None:
        return record
    rollouts = tuple(replace(rollout, error=reason) for rollout in record.rollouts)
    return replace(record, rollouts=rollouts)


def _ends_with_reply(value: Mapping[str, Any]) -> bool:
    """Tell if nothing beside the messages is read as the answer, see `turns.with_answer`."""
    messages = value.get("messages")
    if not messages:
        return bool(value.get("messages_and_choices"))
    listed = isinstance(messages, list)
    return listed and is_reply(messages[-1]) and "role" in messages[-1]


def _key(form: Format, item: Any) -> str | None:
    """Return the key of a group by one of its records; None if there is none."""
    key, value = None, _json_form(item)[0]
    if form.key_of is not None:
        with suppress(UnreadableError, *SHAPE_ERRORS):
            key = form.key_of(value)
    key = first_at(value, *form.keys) if key is None else key
    return None if key is None else key_text(key)


def _own_key(given: Any) -> str | None:
    """Return the key that a dict or an object states for its group."""
    value = next((v for path in _KEYS if (v := _at(path, given)) is not None), None)
    return None if value is None else key_text(plain(value, "group_id"))


def _at(path: str, value: Any) -> Any:
    """Return the value at a dotted path of a dict or an object, as `fields.lookup` does."""
    for parts in ([path], path.split(".")):
        found = value
        for part in parts:
            found = member(found, part)
        if found is not None:
            return found
    return None


def _with_fallback(record: Record, given: Any, settings: InputSettings) -> Record:
    """Return a record; the group's value stands for a reward or an outcome that it lacks."""
    changes = {}
    for name in ("reward", "outcome"):
        path = getattr(settings, name)
        if path is not None and (value := _at(path, given)) is not None:
            changes[name] = plain(value, name)
    return record if not changes else _with_values(record, changes)


def _with_values(record: Record, values: Mapping[str, Any]) -> Record:
    rollouts = []
    for rollout in record.rollouts:
        lacking = {k: v for k, v in values.items() if getattr(rollout, k) is None}
        rollouts.append(replace(rollout, **lacking))
    return replace(record, rollouts=tuple(rollouts))


def _changing(value: Mapping[str, Any], form: Format, record: Record) -> dict[str, Any]:
    """Return the members of a record that its annotation may change, or look at."""
    layout = form.layout
    paths = [
        layout.reward or (),
        layout.ruler,
        (layout.payload or "ruler",),
        *(one.path for one in record.rollouts),
    ]
    names = {"ruler", "metrics", "logs", *(str(path[0]) for path in paths if path)}
    return {name: one for name, one in value.items() if name in names}


def judged_group(
    read: ObjectGroup[G],
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    fields: GroupFields,
    on_failure: OnFailure,
) -> JudgedGroup[G]:
    """Annotate a copy of a group; `names` are those of all judges, `fields` the group's part of OUTPUT."""
    annotations = annotations_of(read.group, result, scores, names)
    copied, trajectories = _annotated_copy(read, annotations, fields, on_failure)
    if isinstance(scores, GroupError):
        none = (None,) * len(trajectories)
        return GroupWithoutScores(
            read.index, copied, fields, trajectories, none, scores.kind, scores.reason
        )
    each = tuple(annotation["score"] for annotation in annotations)
    return GroupWithScores(read.index, copied, fields, trajectories, each)


def _annotated_copy(
    read: ObjectGroup[G],
    annotations: Sequence[AnnotationFields],
    fields: GroupFields,
    on_failure: OnFailure,
) -> tuple[G, tuple[TrajectoryFields, ...]]:
    """Return an annotated copy of a group, and the annotations with the original rewards."""
    given: Any = read.given
    held = not _is_list(given) and not _is_record(given)
    rest = iter(annotations)
    copies, whole = list[Any](), list[TrajectoryFields]()
    for item in read.items:
        own = [(rollout, next(rest)) for rollout in item.record.rollouts]
        annotated = _annotated(read, item, own, fields, on_failure, held=held)
        copies += [annotated[0]] if not _left_out(annotated[0], own) else []
        whole += annotated[1]
    if _is_list(given):
        return (tuple(copies) if isinstance(given, tuple) else copies), tuple(whole)  # type: ignore[return-value]  # of the kind given
    if _is_record(given):
        return copies[0], tuple(whole)
    return with_members(given, {"trajectories": copies, "ruler": fields}), tuple(whole)


def _annotated(
    read: ObjectGroup[Any],
    item: _Item,
    own: Sequence[Annotated],
    fields: GroupFields,
    on_failure: OnFailure,
    *,
    held: bool,
) -> tuple[Any, list[TrajectoryFields]]:
    """Return an annotated copy of a record, and its annotations with the original rewards."""
    reader = read.reader
    assert reader is not None  # noqa: S101 - a group with records has one
    written = own
    if not held and not reader.format.group_in_record:
        written = [(rollout, {**each, "group": fields}) for rollout, each in own]
    after = parse_value(
        annotate(item.before, reader.format, written, fields, on_failure)
    )
    whole = []
    for rollout, each in own:
        noted = reader.previous_annotation(after, rollout) or {}
        original = noted.get("independent_reward")
        whole.append(TrajectoryFields(**each, independent_reward=original))  # type: ignore[typeddict-item]
    return _changed(item.copied, parse_value(item.before), after), whole


def _left_out(copied: Any, own: Sequence[Annotated]) -> bool:
    """Tell if an annotated trajectory is an object without a reward.

    Its reward is a number by its type, as in ART, whose training and logging fail at None.
    """
    unscored = all(each["score"] is None for _, each in own)
    return (
        unscored
        and not isinstance(copied, Mapping)
        and member(copied, "reward") is None
    )


def left_out(read: ObjectGroup[G], judged: JudgedGroup[G]) -> list[str]:
    """Return a sentence for each trajectory that the copy of a scored group lacks, with the reason."""
    group: Any = judged.group
    if judged.failed or _is_record(group):
        return []
    kept = group if _is_list(group) else member(group, "trajectories")
    if len(kept) == len(read.items):
        return []
    key = judged.fields["key"]
    return [
        f"{key}: trajectory {i} is left out of the scored copy: {annotation['reason']}"
        for i, annotation in enumerate(judged.trajectories, 1)
        if annotation["status"] == "failed"
    ]


def _changed(given: Any, before: Any, after: Any) -> Any:
    """Return what was given with the changes between two JSON forms of it; the rest stays as it is."""
    if (
        isinstance(before, dict)
        and isinstance(after, dict)
        and not isinstance(given, list)
    ):
        changes = {
            name: _changed(member(given, name), before.get(name), value)
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        copied: Any = with_members(given, changes)
        for name in before.keys() - after.keys():
            copied.pop(name, None)
        return copied
    lists = (
        isinstance(given, list | tuple)
        and isinstance(before, list)
        and isinstance(after, list)
    )
    if lists and len(given) == len(before) == len(after):
        triples = zip(given, before, after, strict=True)
        return [
            _changed(one, old, new) if old != new else one for one, old, new in triples
        ]
    return after
