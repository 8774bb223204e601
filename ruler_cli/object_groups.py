"""Groups that are Python objects, dicts or objects with ART's attributes → groups, and annotated copies."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar, cast

import orjson

from ruler_cli.config import InputSettings, OnFailure
from ruler_cli.errors import UnreadableError, WrongShapeError
from ruler_cli.formats.fields import item_index
from ruler_cli.formats.interface import SHAPE_ERRORS
from ruler_cli.formats.native import BESIDE, read_trajectory
from ruler_cli.formats.reader import key_text, validated
from ruler_cli.formats.turns import ANSWER_LISTS, ANSWERS, is_reply
from ruler_cli.types import Group, GroupError, GroupResult, GroupScores, Kind, Line, Path, Record, Rollout
from ruler_cli.writing.fields import annotations_of

G = TypeVar("G")
_LOG = "RULER explanation: "
_ORIGINAL = "independent_reward"
_JUDGED = tuple(dict.fromkeys(("messages", "messages_and_choices", "tools", *BESIDE)))
"""Paths of the members of a trajectory that the judge is shown, those of whole conversations first."""
_COPIES = frozenset((*ANSWERS, *ANSWER_LISTS))
"""Those of them that are not read if `messages` ends with an answer."""
_TURNS = ("messages", "messages_and_choices")
"""Lists of which a dict's copy has its own: programs fill one list again for the next group."""
_KEYS = ("group_id", "metadata.scenario_id")
"""Paths of a group's key."""
_PLAIN = frozenset((str, int, float, bool))
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
    """A group that was given as an object: copies of it and its trajectories, and the group that is judged.

    The copies are annotated later, so the caller may change the group while it is judged. `size` is about the
    bytes of its text.
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
    items = []
    for i, item in enumerate(items_of(given, name)):
        own = {part: kind(member(item, part) or ()) for part, kind in (("metrics", dict), ("logs", list))}
        if (reward := member(item, "reward")) is not None:
            own["reward"] = reward
        if isinstance(item, Mapping):
            own |= {part: list(turns) for part in _TURNS if isinstance(turns := item.get(part), list)}
        items.append(_snapshot(item, own, f"{name}: `trajectories[{i}]`"))
    copied, rubric = _snapshot(given, {"trajectories": items}, name), member(given, "rubric")
    try:
        record = Record(
            Line(index + 1, 0, b"", name),
            tuple([_read(item, given, ("trajectories", i), settings) for i, item in enumerate(items)]),
            _key(given) or name,
            rubric if isinstance(rubric, str) else None,
            _plain(member(given, "tools"), "tools") or None,
        )
        return ObjectGroup(index, copied, items, Group(str(record.key), (record,)), len(repr(record)))
    except UnreadableError as error:
        raise WrongShapeError(f"{name}: {error}") from None
    except RecursionError:
        raise WrongShapeError(f"{name}: holds itself, or is nested too deeply; flatten it") from None


def _snapshot(value: G, changes: dict[str, Any], name: str) -> G:
    """Return a shallow copy to annotate later; WrongShapeError if its kind allows none, before any call."""
    try:
        return _with(value, changes)
    except Exception as error:
        reason = f"no copy of this {type(value).__name__} can be annotated ({error})"
        raise WrongShapeError(f"{name}: {reason}; give a dict") from error


def _read(item: Any, given: Any, path: Path, settings: InputSettings) -> Rollout:
    """Read a trajectory; if it cannot be judged, the rollout has an error."""
    try:
        rollout = validated(read_trajectory(_judged(item), path))
        reward = _original(item) if settings.reward is None else _at(settings.reward, item, given)
        outcome = None if settings.outcome is None else _at(settings.outcome, item, given)
        return replace(rollout, reward=_plain(reward, "reward"), outcome=_plain(outcome, "outcome"))
    except UnreadableError as error:
        return Rollout([], path, error=str(error))
    except SHAPE_ERRORS as error:
        return Rollout([], path, error=f"is not of the shape of a trajectory ({error!r:.80})")


def items_of(given: Any, name: str) -> Sequence[Any]:
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
    fields: dict[str, Any],
    on_failure: OnFailure,
) -> JudgedGroup[G]:
    """Annotate a copy of a group; `names` are those of all judges, `fields` the group's part of OUTPUT."""
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
    value = next((value for path in _KEYS if (value := _at(path, given)) is not None), None)
    return None if value is None else key_text(_plain(value, "group_id"))


def _at(path: str, *holders: Any) -> Any:
    """Return the value at a dotted path of the first that has one, as `fields.lookup` does; else None."""
    for holder in holders:
        for parts in ([path], path.split(".")):
            value = holder
            for part in parts:
                index = item_index(part, len(value)) if isinstance(value, list | tuple) else None
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
            if value is None or callable(value):  # ART's trajectory.messages is a method
                continue
            plain = _plain(value, path)
        except Exception as error:
            if path in _COPIES and _ends_with_reply(judged) and not isinstance(error, RecursionError):
                continue  # the object of a client, for example, whose text stands in the messages
            if isinstance(error, UnreadableError | RecursionError):
                raise
            raise UnreadableError(f"`{path}` cannot be read ({error!r:.80})") from None
        judged[head] = {**judged.get(head, {}), leaf: plain} if leaf else plain
    if judged.get("messages_and_choices") and not isinstance(item, Mapping):
        judged.pop("messages", None)
    return judged


def _ends_with_reply(judged: Mapping[str, Any]) -> bool:
    """Tell if nothing beside the messages is read as the answer, see `turns.with_answer`."""
    messages = judged.get("messages")
    if not messages:
        return bool(judged.get("messages_and_choices"))
    return isinstance(messages, list) and is_reply(messages[-1]) and "role" in messages[-1]


def _plain(value: Any, name: str) -> Any:
    """Return a value as JSON has it; UnreadableError, with its name, for a type that has no such form."""
    try:
        return _json(value)
    except UnreadableError as error:
        raise UnreadableError(
            f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
        ) from None


def _json(value: Any) -> Any:
    """Return a mapping, a model or an object with fields as a dict, an array as a list, an enum's value."""
    kind = type(value)
    if value is None or kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {key if type(key) is str else str(_json(key)): _json(inner) for key, inner in value.items()}
    if isinstance(value, Enum):
        return _json(value.value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_json(inner) for inner in value]
    unknown = UnreadableError(f"is of type {kind.__name__}")
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if hasattr(value, "__float__"):  # of numpy, torch, decimal
            convert = getattr(value, "tolist", None) or getattr(value, "item", None) or value.__float__
            return _json(convert())
        with suppress(TypeError):
            return orjson.loads(orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS))  # a date
        slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ())]
        names = [] if callable(value) else [*getattr(value, "__dict__", ()), *slots]
        fields = [name for name in names if not name.startswith("_") and hasattr(value, name)]
        if fields:
            return {name: _json(getattr(value, name)) for name in fields}
    except (UnreadableError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - of the value's own class
        raise unknown from None
    raise unknown


def member(value: Any, name: str) -> Any:
    """Return a member of a mapping, or an attribute of an object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _with(value: G, changes: dict[str, Any]) -> G:
    """Return a shallow copy with other members; an object gets only those that its kind has."""
    if isinstance(value, Mapping):
        own = isinstance(value, dict) or hasattr(type(value), "__copy__")  # a copy of others may share items
        try:
            items = copy.copy(value) if own and isinstance(value, MutableMapping) else dict(value)
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
