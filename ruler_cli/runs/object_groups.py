"""Groups that are Python objects, dicts or objects with ART's attributes → groups, and annotated copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal

from ruler_cli.errors import UnreadableError, WrongShapeError
from ruler_cli.formats.annotate import (
    AnnotationFields,
    GroupFields,
    TrajectoryFields,
    annotations_of,
)
from ruler_cli.formats.fields import item_index
from ruler_cli.formats.interface import SHAPE_ERRORS
from ruler_cli.formats.native import BESIDE, read_trajectory
from ruler_cli.formats.reader import key_text, validated
from ruler_cli.runs.object_records import (
    COPIES,
    GivenRecords,
    Readers,
    annotated_records,
    ends_with_reply,
    read_records,
)
from ruler_cli.runs.object_values import (
    G,
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
    Path,
    Record,
    Rollout,
)

_LOG = "RULER explanation: "
_ORIGINAL = "independent_reward"
_JUDGED = tuple(dict.fromkeys(("messages", "messages_and_choices", "tools", *BESIDE)))
"""Paths of the members of a trajectory that the judge is shown, those of whole conversations first."""
_TURNS = ("messages", "messages_and_choices")
"""Lists of which a dict's copy has its own: programs fill one list again for the next group."""
_CONVERSATIONS = (*_TURNS, "exchanges")
"""Members with the conversation of a trajectory of ruler's own shape, or of ART's."""
_KEYS = ("group_id", "metadata.scenario_id")
"""Paths of a group's key."""
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
    """A group that was given as an object: copies of it and its trajectories, and the group that is judged.

    The copies are annotated later, so the caller may change the group while it is judged. `size` is about the
    bytes of its text. `records` are its parts if they are read as the lines of a file are.
    """

    index: int
    given: G
    items: Sequence[Any]
    group: Group
    size: int
    records: GivenRecords | None = None


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

    A trajectory that cannot be judged is read with its error. The paths of `settings` for rewards and
    outcomes begin at the trajectory, else at the group. `readers` remembers shapes between calls; `rubric`
    takes the place of the group's own. `covered`: its records have their text, so that what the judge is not
    shown of it can be told.
    """
    name = name or f"group {index + 1}"
    if isinstance(rubric, str) and rubric.startswith("@"):
        raise WrongShapeError(
            "rubric: only settings read `@FILE`; give the text of the file"
        )
    try:
        records = _records_in(given, name, settings)
        if records is None:
            read = _read_items(given, index, settings, name, covered=covered)
        else:
            known = {} if readers is None else readers
            read = _read_records(
                given, index, settings, name, records, known, covered=covered
            )
        own = None if _is_list(given) or _is_record(given) else member(given, "rubric")
        rubric = _checked_rubric(own if rubric is None else rubric, name)
    except UnreadableError as error:
        raise WrongShapeError(f"{name}: {error}") from None
    except RecursionError:
        raise WrongShapeError(
            f"{name}: holds itself, or is nested too deeply; flatten it"
        ) from None
    if rubric is None:
        return read
    first, *rest = read.group.records
    return replace(
        read, group=Group(read.group.key, (replace(first, rubric=rubric), *rest))
    )


def _checked_rubric(rubric: Any, name: str) -> str | None:
    """Return a rubric, None for an empty one; WrongShapeError if it is no text: it is never ignored."""
    if rubric is not None and not isinstance(rubric, str):
        raise WrongShapeError(
            f"{name}: `rubric` is of type {type(rubric).__name__}; give text"
        )
    return rubric or None


def _is_list(given: Any) -> bool:
    """Tell if a group is a list of its rollouts; a named tuple with `trajectories` is none."""
    return isinstance(given, list | tuple) and not hasattr(given, "trajectories")


def _is_record(given: Any) -> bool:
    """Tell if a group is one record, as a line of a file that is a whole group."""
    return isinstance(given, Mapping) and "trajectories" not in given


def _records_in(
    given: Any, name: str, settings: InputSettings
) -> list[tuple[Any, str]] | None:
    """Return the records of a group, each with its name; None if they are trajectories with messages."""
    if _is_record(given):
        return [(given, name)]
    inside = isinstance(given, Mapping)
    items = given["trajectories"] if inside else given if _is_list(given) else ()
    if (
        not isinstance(items, list | tuple)
        or not items
        or not all(isinstance(one, Mapping) for one in items)
    ):
        return None
    named = (
        settings.format != "auto"
        or settings.messages is not None
        or settings.prompt is not None
    )
    own = any(turns in one for one in items for turns in _CONVERSATIONS) or not any(
        items
    )
    if inside and own and not named:
        return None
    return [(one, _place(given, name, i)) for i, one in enumerate(items)]


def _place(given: Any, name: str, i: int) -> str:
    """Return the name of a trajectory in sentences."""
    return f"{name}: `[{i}]`" if _is_list(given) else f"{name}: `trajectories[{i}]`"


def _read_records(
    given: G,
    index: int,
    settings: InputSettings,
    name: str,
    found: list[tuple[Any, str]],
    readers: Readers,
    *,
    covered: bool,
) -> ObjectGroup[G]:
    """Read a group as the command reads lines: one record that is the group, or a record for each rollout."""
    items = [item for item, _ in found]
    lines = [
        Line(index + 1, 0, as_text(item) if covered else b"", place)
        for item, place in found
    ]
    read = read_records(items, lines, settings, readers, alone=_is_record(given))
    first, *rest = [one.record for one in read.each]
    key, copied = read.key, given
    if isinstance(given, Mapping) and not _is_record(given):
        copied, key = snapshot(given, {}, name), _key(given) or key
        first = replace(first, tools=plain(given.get("tools"), "tools") or first.tools)
    group = Group(key or name, (first, *rest))
    return ObjectGroup(
        index, copied, [one.copied for one in read.each], group, _size(group), read
    )


def _size(group: Group) -> int:
    """Return about the bytes of a group's text."""
    return sum([len(repr(rollout)) for rollout in group.rollouts])


def _read_items(
    given: G, index: int, settings: InputSettings, name: str, *, covered: bool
) -> ObjectGroup[G]:
    """Read a group of trajectories with messages: dicts, or objects with ART's attributes."""
    items = []
    for i, item in enumerate(items_of(given, name)):
        own = {
            part: kind(member(item, part) or ())
            for part, kind in (("metrics", dict), ("logs", list))
        }
        if (reward := member(item, "reward")) is not None:
            own["reward"] = reward
        if isinstance(item, Mapping):
            own |= {
                part: list(turns)
                for part in _TURNS
                if isinstance(turns := item.get(part), list)
            }
        items.append(snapshot(item, own, _place(given, name, i)))
    listed = _is_list(given)
    record = Record(
        Line(
            index + 1,
            0,
            as_text(given) if covered and isinstance(given, Mapping) else b"",
            name,
        ),
        tuple(
            [
                _read(item, given, ("trajectories", i), settings)
                for i, item in enumerate(items)
            ]
        ),
        (None if listed else _key(given)) or name,
        tools=None if listed else plain(member(given, "tools"), "tools") or None,
    )
    copied = given if listed else snapshot(given, {"trajectories": items}, name)
    group = Group(str(record.key), (record,))
    return ObjectGroup(index, copied, items, group, _size(group))


def _read(item: Any, given: Any, path: Path, settings: InputSettings) -> Rollout:
    """Read a trajectory; if it cannot be judged, the rollout has an error."""
    try:
        rollout = validated(read_trajectory(_judged(item), path))
        reward = (
            _original(item)
            if settings.reward is None
            else _at(settings.reward, item, given)
        )
        outcome = (
            None if settings.outcome is None else _at(settings.outcome, item, given)
        )
        return replace(
            rollout, reward=plain(reward, "reward"), outcome=plain(outcome, "outcome")
        )
    except UnreadableError as error:
        return Rollout([], path, error=str(error))
    except SHAPE_ERRORS as error:
        return Rollout(
            [], path, error=f"is not of the shape of a trajectory ({error!r:.80})"
        )


def items_of(given: Any, name: str) -> Sequence[Any]:
    """Return the trajectories of a group; WrongShapeError if it has no list of them."""
    if _is_list(given):
        items: Any = given
    elif isinstance(given, Mapping) or hasattr(given, "trajectories"):
        items = member(given, "trajectories")
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
        for part, kind, form in (
            ("metrics", Mapping, "a dict"),
            ("logs", list | tuple, "a list"),
        ):
            value = member(item, part)
            if value is not None and not isinstance(value, kind):
                place, found = _place(given, name, i), type(value).__name__
                raise WrongShapeError(
                    f"{place}: `{part}` is of type {found}; give {form}, or leave it out"
                )
    return items


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
    copied, whole = _annotated_copy(read, annotations, fields, on_failure)
    trajectories = tuple(whole)
    if isinstance(scores, GroupError):
        none = (None,) * len(trajectories)
        return GroupWithoutScores(
            read.index, copied, fields, trajectories, none, scores.kind, scores.reason
        )
    each = tuple([annotation["score"] for annotation in annotations])
    return GroupWithScores(read.index, copied, fields, trajectories, each)


def _annotated_copy(
    read: ObjectGroup[G],
    annotations: Sequence[AnnotationFields],
    fields: GroupFields,
    on_failure: OnFailure,
) -> tuple[G, list[TrajectoryFields]]:
    """Return an annotated copy of a group, and the annotations with the original rewards."""
    given: Any = read.given
    listed = _is_list(given)
    if read.records is not None:
        beside = not listed and not _is_record(given)
        items, whole = annotated_records(
            read.records, annotations, fields, on_failure, beside=beside
        )
    else:
        pairs = [
            _annotated(*pair, on_failure)
            for pair in zip(read.items, annotations, strict=True)
        ]
        items = [item for item, annotation in pairs if not _left_out(item, annotation)]
        whole = [annotation for _, annotation in pairs]
    if listed:
        return (tuple(items) if isinstance(given, tuple) else items), whole  # type: ignore[return-value]  # of the kind given
    if _is_record(given):
        return items[0], whole
    return with_members(given, {"trajectories": items, "ruler": fields}), whole


def left_out(read: ObjectGroup[G], judged: JudgedGroup[G]) -> list[str]:
    """Return a sentence for each trajectory that the copy of a scored group lacks, with the reason."""
    if judged.failed or read.records is not None:
        return []
    group: Any = judged.group
    kept = group if _is_list(group) else member(group, "trajectories")
    if len(kept) == len(judged.trajectories):
        return []
    key = judged.fields["key"]
    return [
        f"{key}: trajectory {i} is left out of the scored copy: {annotation['reason']}"
        for i, annotation in enumerate(judged.trajectories, 1)
        if annotation["status"] == "failed"
    ]


def _annotated(
    item: Any, annotation: AnnotationFields, on_failure: OnFailure
) -> tuple[Any, TrajectoryFields]:
    """Return an annotated copy of a trajectory, and its annotation with the original reward."""
    original, score = _original(item), annotation["score"]
    metrics = dict(member(item, "metrics") or {})
    logs = [log for log in member(item, "logs") or [] if not str(log).startswith(_LOG)]
    metrics.pop("ruler_score", None)
    if original is not None:
        metrics[_ORIGINAL] = original
    if score is not None:
        metrics["ruler_score"] = score
        logs.append(_LOG + annotation["explanation"])
    whole = TrajectoryFields(**annotation, independent_reward=original)
    reward = original if score is None and on_failure == "keep" else score
    return with_members(
        item, {"reward": reward, "metrics": metrics, "logs": logs, "ruler": whole}
    ), whole


def _left_out(item: Any, annotation: AnnotationFields) -> bool:
    """Tell if an annotated trajectory is an object without a reward.

    Its reward is a number by its type, as in ART, whose training and logging fail at None.
    """
    no_reward = annotation["score"] is None and member(item, "reward") is None
    return no_reward and not isinstance(item, Mapping)


def _original(item: Any) -> Any:
    """Return the first reward of a trajectory, that was there before any score."""
    metrics, ruler = member(item, "metrics"), member(item, "ruler")
    for earlier in (metrics, ruler):
        if isinstance(earlier, Mapping) and earlier.get(_ORIGINAL) is not None:
            return earlier[_ORIGINAL]
    places = ((metrics, "ruler_score"), (ruler, "score"))
    scored = any(
        isinstance(place, Mapping) and place.get(name) is not None
        for place, name in places
    )
    return None if scored else member(item, "reward")


def _key(given: Any) -> str | None:
    value = next(
        (value for path in _KEYS if (value := _at(path, given)) is not None), None
    )
    return None if value is None else key_text(plain(value, "group_id"))


def _at(path: str, *holders: Any) -> Any:
    """Return the value at a dotted path of the first that has one, as `fields.lookup` does; else None."""
    for holder in holders:
        for parts in ([path], path.split(".")):
            value = holder
            for part in parts:
                index = (
                    item_index(part, len(value))
                    if isinstance(value, list | tuple)
                    else None
                )
                value = member(value, part) if index is None else value[index]
            if value is not None:
                return value
    return None


def _judged(item: Any) -> dict[str, Any]:
    """Return what the judge is shown of a trajectory, as JSON has it."""
    judged: dict[str, Any] = {}
    for path in _JUDGED:
        head, _, leaf = path.partition(".")
        try:
            value = member(item, head)
            value = member(value, leaf) if leaf else value
            if value is None or callable(
                value
            ):  # ART's trajectory.messages is a method
                continue
            shown = plain(value, path)
        except Exception as error:
            if (
                path in COPIES
                and ends_with_reply(judged)
                and not isinstance(error, RecursionError)
            ):
                continue  # the object of a client, for example, whose text stands in the messages
            if isinstance(error, UnreadableError | RecursionError):
                raise
            raise UnreadableError(f"`{path}` cannot be read ({error!r:.80})") from None
        judged[head] = {**judged.get(head, {}), leaf: shown} if leaf else shown
    if isinstance(item, Mapping):
        return judged
    if judged.get("messages_and_choices"):
        judged.pop("messages", None)
    elif judged.get("exchanges"):
        judged.pop(
            "messages_and_choices", None
        )  # ART's list is empty if it recorded the calls of a client
    return judged
