"""Annotations and a record's bytes → the annotated record.

Only the fields that ruler owns are written: the reward field, `ruler`, and `metrics.ruler_score`,
`metrics.independent_reward` and one line of `logs` if the shape has them. There are three strategies: on the
rollout's own object, on an object with `metrics` and `logs` (ART's), and in lists whose items are rollouts.
The first original reward is copied byte for byte, and a file that is scored again keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, dump_escaped, parse_text
from ruler_cli.files.splice import (
    ListItems,
    NewMembers,
    ObjectSpans,
    Patches,
    nested,
    read_array,
    read_object,
    span_at,
)
from ruler_cli.formats.interface import ArtLayout, Format, RecordLayout
from ruler_cli.formats.output_fields import Annotation
from ruler_cli.formats.rewards import raw_value
from ruler_cli.settings.models import OnFailure
from ruler_cli.types import Path, Record, Rollout

_LOG = "RULER explanation: "
_ORIGINAL = "independent_reward"
Annotated = tuple[Rollout, Annotation]


def annotate(
    raw: bytes,
    form: Format,
    annotated: Sequence[Annotated],
    group_fields: Mapping[str, Any],
    on_failure: OnFailure,
) -> bytes:
    """A record with the annotation of each of its rollouts; a record that is a group has its part once."""
    patches = Patches(raw)
    if form.layout.listed:
        _put_in_lists(patches, form, annotated, group_fields, on_failure)
        return patches.apply()
    strategy = _OnArtTrajectory if isinstance(form.layout, ArtLayout) else _OnObject
    whole, objects = _owners(raw, [rollout.path for rollout, _ in annotated])
    for obj, (_, annotation) in zip(objects, annotated, strict=True):
        if (
            obj is not None
        ):  # a rollout that is no object cannot be annotated; the group's part counts it
            patches.put(
                obj, strategy(raw, obj, form.layout, annotation, on_failure).changes()
            )
    if form.shape == "group":
        patches.put(whole, {"ruler": dump_escaped(dict(group_fields))})
    return patches.apply()


def trajectory_bytes(record: Record, rollout: Rollout) -> bytes:
    """The bytes of a rollout's own object; empty for an item of lists."""
    if rollout.path and isinstance(rollout.path[0], int):
        return b""
    span = span_at(record.line.raw, rollout.path)
    return record.line.raw[slice(*span)] if span else b""


def _owners(
    raw: bytes, paths: Sequence[Path]
) -> tuple[ObjectSpans, list[ObjectSpans | None]]:
    """The members of the record, and of each rollout's object; None if it is no object."""
    names = {path[0] for path in paths if len(path) == 2}
    if len(names) == 1 and all(len(path) == 2 for path in paths):
        name = str(names.pop())
        lists: dict[str, ListItems] = {name: []}
        whole = read_object(raw, 0, lists)
        items = [lists[name][int(path[1])] for path in paths]
        return whole, [
            item if isinstance(item, ObjectSpans) else None for item in items
        ]
    whole = read_object(raw)
    owners: list[ObjectSpans | None] = []
    for path in paths:
        span = span_at(raw, path) if path else None
        if not path:
            owners.append(whole)
        elif span and raw[span[0]] == ord("{"):
            owners.append(read_object(raw, span[0]))
        else:
            owners.append(None)
    return whole, owners


def _put_in_lists(
    patches: Patches,
    form: Format,
    annotated: Sequence[Annotated],
    group_fields: Mapping[str, Any],
    on_failure: OnFailure,
) -> None:
    """Annotate rollouts that are items of lists: the list of rewards by item, and a list of annotations."""
    raw, layout = patches.raw, form.layout
    whole = read_object(raw)
    span = span_at(raw, layout.reward) if layout.reward else None
    rewards = read_array(raw, span[0]) if span and raw[span[0]] == ord("[") else []
    place: Path = ("ruler",) if form.shape == "columns" else ("ruler", "rollouts")
    span = span_at(raw, place)  # looked up once: a line may hold ten thousand
    earlier = read_array(raw, span[0]) if span and raw[span[0]] == ord("[") else []
    annotations, fresh = [], []
    for rollout, annotation in annotated:
        i = int(rollout.path[0])
        now = raw[slice(*rewards[i])] if i < len(rewards) else None
        before = span_at(raw, (_ORIGINAL,), earlier[i][0]) if i < len(earlier) else None
        original = now if before is None else raw[slice(*before)]
        if (
            original is None and rollout.reward is not None
        ):  # it stands elsewhere, as ROLL's agentic ones do
            original = dump(raw_value(rollout.reward))
        original = None if original == b"null" else original
        score = _written(annotation, layout, on_failure, original) or b"null"
        if now is not None:
            patches.replace(*rewards[i], score)
        fresh.append(score)
        annotations.append(_with_original(annotation, original))
    listed = b"[" + b", ".join(annotations) + b"]"
    changes: NewMembers = {}
    if layout.reward and not rewards:
        changes = nested(layout.reward, b"[" + b", ".join(fresh) + b"]")
    if form.group_in_record:
        listed = (
            dump_escaped(dict(group_fields))[:-1] + b', "rollouts": ' + listed + b"}"
        )
    patches.put(whole, {**changes, "ruler": listed})


def _written(
    annotation: Annotation,
    layout: RecordLayout,
    on_failure: OnFailure,
    original: bytes | None,
) -> bytes:
    """The new value of the reward field; empty if the field is taken out."""
    if (score := annotation.get("score")) is not None:
        return layout.form.replace(b"%s", dump(score))
    if on_failure == "null" or layout.source:
        return layout.lost
    return original or layout.lost


def _with_original(annotation: Annotation, original: bytes | None) -> bytes:
    """The `ruler` object; the original reward's own bytes are its last member."""
    ours = dump_escaped({**annotation, _ORIGINAL: None})
    if original is not None:  # `null` is the last value, in front of the closing brace
        return ours[: -len(b"null}")] + original + b"}"
    return ours


def _merged(one: NewMembers, other: NewMembers) -> NewMembers:
    """Two trees as one: `ruler` may stand in the object that holds the reward."""
    out = dict(one)
    for key, value in other.items():
        held = out.get(key)
        out[key] = (
            _merged(held, value)
            if isinstance(held, Mapping) and isinstance(value, Mapping)
            else value
        )
    return out


@dataclass(frozen=True, slots=True)
class _OnObject:
    """The changes to a rollout's own object: the reward field and `ruler`."""

    text: bytes
    obj: ObjectSpans
    layout: RecordLayout
    annotation: Annotation
    on_failure: OnFailure

    def changes(self) -> NewMembers:
        """Everything that is written, `ruler` last."""
        original = self.original()
        return self._with_ruler(self.rewarded(original), original)

    def _with_ruler(self, values: NewMembers, original: bytes | None) -> NewMembers:
        return _merged(
            values, nested(self.layout.ruler, _with_original(self.annotation, original))
        )

    def value(self, path: Path) -> bytes | None:
        """The bytes of the value at a path; None if it is absent."""
        name = str(path[0])
        member = self.obj.members.get(name)
        if member is None:
            return None
        if path is self.layout.source and "*" in path:
            star = path.index("*")
            holder = self.value(path[:star])
            keys = read_object(holder).members if holder and holder[:1] == b"{" else {}
            first = next((key for key in keys if key != "ruler"), None)
            return (
                None
                if first is None
                else self.value((*path[:star], first, *path[star + 1 :]))
            )
        span = span_at(self.text, path[1:], member[1]) if len(path) > 1 else member[1:]
        return None if span is None else self.text[slice(*span)]

    def original(self) -> bytes | None:
        """The first reward of the dump, as its bytes; None if it had none."""
        known, original = self._noted(self.layout.ruler)
        return original if known else self._reward_of_dump()

    def _noted(self, holder: Path) -> tuple[bool, bytes | None]:
        """The original reward that an earlier run noted in an object; False if it noted none."""
        inner, _ = _inner(self.value(holder))
        member = read_object(inner).members.get(_ORIGINAL) if inner else None
        if member is None:
            return False, None
        original = inner[slice(*member[1:])]
        return True, None if original == b"null" else original

    def _reward_of_dump(self, absent: bytes | None = None) -> bytes | None:
        place = self.layout.source or self.layout.reward
        value = self.value(place) if place else None
        return absent if value is None else None if value == b"null" else value

    def rewarded(self, original: bytes | None) -> NewMembers:
        """The new value of the reward field; nothing if it stays as it is."""
        layout = self.layout
        if layout.reward is None:
            return {}
        now = self.value(layout.reward)
        if (
            self.annotation.get("score") is None
            and self.on_failure != "null"
            and now in (None, original)
        ):
            # with `keep` an earlier run's score goes back to the original, and what is absent stays so, but
            # in an object that only the annotation makes: a reader that takes no null would miss the reward
            holder = layout.reward[:-1]
            made = (
                now is None
                and layout.lost != b"null"
                and holder
                and layout.ruler[: len(holder)] == holder
            )
            if not made or self.value(holder) not in (None, b"null"):
                return {}
        new = _written(self.annotation, layout, self.on_failure, original)
        return nested(layout.reward, new or None) if new or now is not None else {}


class _OnArtTrajectory(_OnObject):
    """The changes to a trajectory of ART's: also `metrics`, `logs`, and its copy as JSON text."""

    __slots__ = ()
    layout: ArtLayout

    def changes(self) -> NewMembers:
        """Everything that is written, `ruler` last."""
        original = self.original()
        values = self.rewarded(original)
        copied = self._copy()
        if copied is not None:  # ART has no place for `ruler` there
            patches = Patches(copied.text)
            patches.put(copied.obj, copied.rewarded(original))
            values = {**values, str(self.layout.payload): _quote(patches.apply())}
        return self._with_ruler(values, original)

    def original(self) -> bytes | None:
        """The first reward of the dump: noted in `ruler` or `metrics`, in the copy, or the reward itself."""
        for holder in (self.layout.ruler, ("metrics",)):
            known, original = self._noted(holder)
            if known:
                return original
        copied = self._copy()
        return (
            self._reward_of_dump(self.layout.absent)
            if copied is None
            else copied.original()
        )

    def _copy(self) -> _OnArtTrajectory | None:
        """The trajectory that stands once more as JSON text; None if there is none."""
        if self.layout.payload is None:
            return None
        inner, quoted = _inner(self.value((self.layout.payload,)))
        layout = replace(self.layout, payload=None)
        return (
            replace(self, text=inner, obj=read_object(inner), layout=layout)
            if quoted
            else None
        )

    def rewarded(self, original: bytes | None) -> NewMembers:
        """The reward field, `metrics` and `logs`."""
        # `super()` knows no class whose slots a dataclass has made anew
        return _merged(_OnObject.rewarded(self, original), self._extras(original))

    def _extras(self, original: bytes | None) -> NewMembers:
        """New values of `metrics` and `logs`; a shape that ruler does not know there is left alone."""
        values: dict[str, NewMembers | bytes | None] = {}
        score, text = (
            self.annotation.get("score"),
            str(self.annotation.get("explanation", "")),
        )
        metrics = {} if score is None else {"ruler_score": dump(score)}
        if original is not None:
            metrics[_ORIGINAL] = original
        old = self.value(("metrics",))
        if old in (None, b"null"):
            values["metrics"] = metrics or old
        else:
            inner, quoted = _inner(old)
            changes = {"ruler_score": None, **metrics}
            if quoted:
                patches = Patches(inner)
                patches.put(read_object(inner), changes)
                values["metrics"] = _quote(patches.apply())
            elif inner:
                values["metrics"] = changes
        logs = self.value(("logs",))
        line = None if score is None else dump_escaped(_LOG + text)
        if logs is None or logs == b"null":
            values["logs"] = b"[" + line + b"]" if line else logs
        elif logs[:1] == b"[":
            values["logs"] = _logs(logs, line)
        return {key: value for key, value in values.items() if value is not None}


def _logs(old: bytes, line: bytes | None) -> bytes:
    """`logs` with this explanation in place of an earlier one, or behind the last item."""
    spans = read_array(old, 0)
    ours = [old.startswith(b'"' + _LOG.encode(), start) for start, _ in spans]
    patches = Patches(old)
    if line and any(ours):
        first = ours.index(True)
        patches.replace(*spans[first], line)
        ours[first] = False
    elif line:
        behind = spans[-1][1] if spans else 1
        patches.replace(behind, behind, (b", " if spans else b"") + line)
    patches.drop(spans, ours)
    return patches.apply()


def _inner(value: bytes | None) -> tuple[bytes, bool]:
    """The bytes of an object, and True if it stands as JSON text; empty if there is none."""
    if value and value[:1] == b"{":
        return value, False
    if value and value[:1] == b'"':
        try:
            inner = parse_text(value.decode("utf-8", "surrogatepass"))
            if isinstance(parse_text(inner), dict):
                return str(inner).strip().encode("utf-8", "surrogatepass"), True
        except UnreadableError:
            return b"", False
    return b"", False


def _quote(text: bytes) -> bytes:
    """JSON text as a JSON string."""
    return dump(text.decode("utf-8", "surrogatepass"))
