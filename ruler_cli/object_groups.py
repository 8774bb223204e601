"""Groups that are Python objects, dicts or objects with ART's attributes → groups, and annotated copies."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

import orjson

from ruler_cli.config import InputSettings, OnFailure
from ruler_cli.errors import WrongShapeError
from ruler_cli.formats.native import read_trajectory
from ruler_cli.formats.reader import key_text, validated
from ruler_cli.types import Group, GroupError, GroupResult, GroupScores, Kind, Line, Record
from ruler_cli.writing.fields import annotations_of, group_fields

G = TypeVar("G")
_LOG = "RULER explanation: "
_ORIGINAL = "independent_reward"
_JUDGED = ("messages_and_choices", "messages", "additional_histories", "exchanges", "tools")
"""Members of a trajectory that the judge is shown."""
_KEYS = (("group_id",), ("metadata", "scenario_id"))
"""Paths of a group's key."""
_NO_OBJECT = (str, bytes, int, float, complex, list, tuple, set, frozenset, type(None), BaseException)
"""Types of values that are no trajectory."""


@dataclass(frozen=True, slots=True)
class JudgedGroup(Generic[G]):
    """A group after its judges.

    `index` is its number in the input, from 0. `group` is an annotated copy of the group that was given, of
    the same kind. `scores` has a score in [0, 1] for each trajectory in order, None for one without a
    score: a trajectory that cannot be judged, or any trajectory of a group that failed. `fields` and
    `trajectories` are what OUTPUT has in `ruler` of the group and of each trajectory. If the group failed,
    `kind` and `reason` say why; else they are None.
    """

    index: int
    group: G
    scores: tuple[float | None, ...]
    fields: Mapping[str, Any] = field(repr=False)
    trajectories: tuple[Mapping[str, Any], ...] = field(repr=False)
    kind: Kind | None = None
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """True if the group has no scores; `reason` says why."""
        return self.kind is not None

    @property
    def tied(self) -> bool:
        """True if the group has scores and no relative signal, so that a trainer learns nothing from it."""
        return bool(self.fields.get("tied"))


@dataclass(frozen=True, slots=True)
class ObjectGroup(Generic[G]):
    """A group that was given as an object: the object, its trajectories, and the group that is judged.

    `size` is about the bytes of its text.
    """

    index: int
    given: G
    items: Sequence[Any]
    group: Group
    size: int


def read_group(given: G, index: int, settings: InputSettings, name: str = "") -> ObjectGroup[G]:
    """Read a group; WrongShapeError if it is none. `name` is its name in sentences.

    A trajectory that cannot be judged is read with its error. The paths of `settings` for rewards and
    outcomes begin at the trajectory, else at the group.
    """
    name = name or f"group {index + 1}"
    items = _items(given, name)
    values = [_judged(item) for item in items]
    rollouts = []
    for i, (item, value) in enumerate(zip(items, values, strict=True)):
        reward = _original(item) if settings.reward is None else _at(item, given, settings.reward)
        outcome = None if settings.outcome is None else _at(item, given, settings.outcome)
        rollout = validated(read_trajectory(value, ("trajectories", i)))
        rollouts.append(replace(rollout, reward=_plain(reward), outcome=_plain(outcome)))
    rubric, tools = member(given, "rubric"), member(given, "tools")
    record = Record(
        Line(index + 1, 0, b"", name),
        tuple(rollouts),
        _key(given) or name,
        rubric if isinstance(rubric, str) else None,
        _plain(tools) if tools else None,
    )
    return ObjectGroup(index, given, items, Group(str(record.key), (record,)), len(repr(values)))


def _items(given: Any, name: str) -> Sequence[Any]:
    """Return the trajectories of a group; WrongShapeError if it has no list of them."""
    if isinstance(given, Mapping):
        if "trajectories" not in given:
            one = "messages" in given or "messages_and_choices" in given
            hint = "it is one trajectory; give all of one task as" if one else "give"
            example = "{'trajectories': [{'messages': […]}, …]}"
            raise WrongShapeError(f"{name}: is a dict without `trajectories`; {hint} {example}")
    elif not hasattr(given, "trajectories"):
        raise WrongShapeError(
            f"{name}: is of type {type(given).__name__}; give a dict with `trajectories`, or an object with "
            "ART's attributes"
        )
    items = member(given, "trajectories")
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise WrongShapeError(
            f"{name}: `trajectories` is of type {type(items).__name__}; give a list of trajectories"
        )
    for i, item in enumerate(items):
        if isinstance(item, _NO_OBJECT):
            raise WrongShapeError(
                f"{name}: `trajectories[{i}]` is of type {type(item).__name__}; give a dict with `messages`, "
                "or an object with ART's attributes"
            )
        for part in ("reward", "metrics", "logs"):
            if getattr(getattr(type(item), part, True), "fset", True) is None:
                raise WrongShapeError(
                    f"{name}: `trajectories[{i}]`: `{part}` is a property that cannot be set"
                )
        for part, kind, form in (("metrics", Mapping, "a dict"), ("logs", list | tuple, "a list")):
            value = member(item, part)
            if value is not None and not isinstance(value, kind):
                place = f"{name}: `trajectories[{i}]`: `{part}`"
                raise WrongShapeError(
                    f"{place} is of type {type(value).__name__}; give {form}, or leave it out"
                )
    return items


def judged_group(
    read: ObjectGroup[G],
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    cost_usd: float | None,
    on_failure: OnFailure,
) -> JudgedGroup[G]:
    """Annotate a copy of a group; `names` are those of all judges."""
    fields = group_fields(read.group, result, scores, names, cost_usd)
    annotations = annotations_of(read.group, result, scores, names)
    pairs = [
        _annotated(item, annotation, on_failure)
        for item, annotation in zip(read.items, annotations, strict=True)
    ]
    failure = scores if isinstance(scores, GroupError) else None
    return JudgedGroup(
        read.index,
        _with(read.given, {"trajectories": [item for item, _ in pairs], "ruler": fields}),
        tuple([annotation.get("score") for annotation in annotations]),
        fields,
        tuple([annotation for _, annotation in pairs]),
        failure.kind if failure else None,
        failure.reason if failure else None,
    )


def _annotated(item: Any, annotation: Mapping[str, Any], on_failure: OnFailure) -> tuple[Any, dict[str, Any]]:
    """Return an annotated copy of a trajectory, and its annotation with the original reward."""
    original, score = _original(item), annotation.get("score")
    metrics = dict(member(item, "metrics") or {})
    logs = [log for log in member(item, "logs") or [] if not str(log).startswith(_LOG)]
    metrics.pop("ruler_score", None)
    if original is not None:
        metrics[_ORIGINAL] = original
    if score is not None:
        metrics["ruler_score"] = score
        logs.append(_LOG + str(annotation["explanation"]))
    whole = {**annotation, _ORIGINAL: original}
    reward = original if score is None and on_failure == "keep" else score
    return _with(item, {"reward": reward, "metrics": metrics, "logs": logs, "ruler": whole}), whole


def _original(item: Any) -> Any:
    """Return the first reward of a trajectory, that was there before any score."""
    metrics, ruler = member(item, "metrics"), member(item, "ruler")
    for earlier in (metrics, ruler):
        if isinstance(earlier, Mapping) and earlier.get(_ORIGINAL) is not None:
            return earlier[_ORIGINAL]
    places = ((metrics, "ruler_score"), (ruler, "score"))
    scored = any(isinstance(place, Mapping) and place.get(name) is not None for place, name in places)
    return None if scored else member(item, "reward")


def _key(given: Any) -> str | None:
    for path in _KEYS:
        value = given
        for part in path:
            value = member(value, part)
        if value is not None:
            return key_text(_plain(value))
    return None


def _at(item: Any, given: Any, path: str) -> Any:
    """Return the value at a dotted path of a trajectory, else of its group; None if there is none."""
    for value in (item, given):
        for part in path.split("."):
            listed = isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value)
            value = value[int(part)] if listed else member(value, part)  # noqa: PLW2901 - a step of the path
        if value is not None:
            return value
    return None


def _judged(item: Any) -> dict[str, Any]:
    """Return what the judge is shown of a trajectory, as plain values."""
    parts = {key: member(item, key) for key in _JUDGED}
    if parts["messages_and_choices"]:
        del parts["messages"]
    # ART's trajectory.messages is a method
    return {key: _plain(value) for key, value in parts.items() if not (value is None or callable(value))}


def _plain(value: Any) -> Any:
    """Return models and mappings as dicts, so that one reader serves files and objects."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dict__"):
        return {key: _plain(inner) for key, inner in vars(value).items() if not key.startswith("_")}
    return orjson.loads(orjson.dumps(value, default=str))


def member(value: Any, name: str) -> Any:
    """Return a member of a mapping, or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _with(value: G, changes: dict[str, Any]) -> G:
    """Return a shallow copy with other members; an object gets only those that its kind has."""
    if isinstance(value, Mapping):
        return cast("G", {**value, **changes})
    copied: G = copy.copy(value)
    for name, changed in changes.items():
        if name == "ruler":
            continue
        try:
            setattr(copied, name, changed)
        except (AttributeError, TypeError, ValueError):  # it is frozen, or has no such member
            if hasattr(value, name):
                object.__setattr__(copied, name, changed)
    return copied
