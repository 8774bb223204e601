"""Annotations of the rollouts of a record → the annotated record.

Only the fields that ruler owns are written: the reward field, `ruler`, and `metrics.ruler_score`,
`metrics.independent_reward` and one line of `logs` if the shape has them. A rollout is an object of its own, or
an item of lists. The first original reward is copied byte for byte, and a file that is scored again keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import dump, dump_escaped, parse, parse_value
from ruler_cli.files.splice import (
    ListItems,
    NewMembers,
    ObjectSpans,
    Patches,
    inner_object,
    read_array,
    read_object,
    span_at,
)
from ruler_cli.files.values import JsonObject, is_text, parts
from ruler_cli.formats.format import ORIGINAL, Format
from ruler_cli.settings.models import OnFailure
from ruler_cli.types import Path, Rollout, readable

Annotation = JsonObject
"""The `ruler` object of a rollout but for the original reward, which is copied from the record."""
_LOG = "RULER explanation: "
Annotated = tuple[Rollout, Annotation]


def annotate(
    raw: bytes,
    form: Format,
    annotated: Sequence[Annotated],
    group_fields: JsonObject,
    on_failure: OnFailure,
) -> bytes:
    """Annotate a record for each of its rollouts; a record that is a group has the group's part once."""
    patches = Patches(raw)
    writer = _Writer(raw, form, on_failure)
    for spans, _, changes in writer.edits(annotated, group_fields):
        patches.put(spans, changes)
    body = patches.apply()
    return _edited(body, form, form.edit) if form.edit else body


def _edited(
    body: bytes,
    form: Format,
    edit: Callable[..., Any],
) -> bytes:
    """Return an annotated record as a package writes it; UsageError if the package fails or drops a member."""
    record = parse(body)
    problem = "returned no object with all members of the record"
    try:
        edited = edit(parse(body))
        is_whole = record.keys() <= edited.keys()
        if is_whole and edited["ruler"] == record["ruler"]:
            return dump(edited)
    except Exception as error:  # noqa: BLE001 - code of others
        problem = f"failed ({error!r:.200})"
    raise UsageError(
        f"its `annotate` {problem}",
        "correct the package, then run it again; replies in a ledger are not paid for twice",
        place=f"--format {form.name}",
    )


def new_members(
    raw: bytes,
    form: Format,
    annotated: Sequence[Annotated],
    group_fields: JsonObject,
    on_failure: OnFailure,
) -> dict[str, Any]:
    """Return the members that `annotate` writes, for a record that is a Python object."""
    changes: dict[str, Any] = {}
    writer = _Writer(raw, form, on_failure)
    for _, path, new in writer.edits(annotated, group_fields):
        holder = changes
        for name in path:
            holder = holder.setdefault(str(name), {})
        holder.update(new)
    return changes


def _bytes_at(
    raw: bytes,
    path: Iterable[str | int],
    start: int = 0,
) -> bytes | None:
    span = span_at(raw, path, start)
    return None if span is None else raw[slice(*span)]


def _set(
    changes: dict[str, Any],
    path: Path,
    value: bytes | None,
) -> None:
    """Add a value at a path to new members; None removes what is there."""
    for holder in path[:-1]:
        changes = changes.setdefault(str(holder), {})
    changes[str(path[-1])] = value


def _items(value: bytes | None) -> list[bytes]:
    """Return the items of a list; [] for any other value."""
    if value is None or not value.startswith(b"["):
        return []
    return [value[start:end] for start, end in read_array(value, 0)]


def _list_of(values: Sequence[bytes]) -> bytes:
    return b"[%s]" % b", ".join(values)


def _stated(value: bytes | None) -> bytes | None:
    """The bytes of a value; None for null."""
    return None if value == b"null" else value


def _strict(value: bytes | None) -> bytes:
    """The bytes of a value, with null for every number that is not finite."""
    value = value or b"null"
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        with suppress(UnreadableError, RecursionError):
            read = parse_value(value)
            try:
                json.dumps(read, allow_nan=False)
            except ValueError:
                return dump(readable(read))
    return value


@dataclass(slots=True)
class _Rewards:
    """The values of reward fields before a score: the bytes of the `first`, of this one, and of all others.

    None: nothing, or null. `path` is that of the first.
    """

    first: bytes | None
    here: bytes | None
    path: str
    others: Sequence[bytes] = ()

    def beside(
        self,
        annotation: Annotation,
    ) -> bytes:
        """The `ruler` object; the first reward's own bytes are its last member."""
        return b'%s,"reward_path":%s,"rewards":[%s],"%s":%s}' % (
            dump_escaped(annotation).removesuffix(b"}"),
            dump(self.path),
            b",".join(self.others),
            ORIGINAL.encode(),
            _strict(self.first),
        )


@dataclass(slots=True)
class _Object:
    """The members of an object at its spans in a text."""

    text: bytes
    spans: ObjectSpans

    def path(self, dotted: str) -> Path:
        """Return the path of a value: a key may hold the dots itself."""
        return (dotted,) if dotted in self.spans.members else parts(dotted)

    def value(self, dotted: str) -> bytes | None:
        """Return the bytes of the value at a dotted path; None if it is absent."""
        name, *inner = self.path(dotted)
        member = self.spans.members.get(str(name))
        if member is None:
            return None
        _, start, end = member
        if inner:
            return _bytes_at(self.text, inner, start)
        return self.text[start:end]


@dataclass(slots=True)
class _Writer:
    """Makes the new members of a record of a format."""

    raw: bytes
    form: Format
    on_failure: OnFailure

    def edits(
        self,
        annotated: Sequence[Annotated],
        group_fields: JsonObject,
    ) -> Iterator[tuple[ObjectSpans, Path, NewMembers]]:
        """Yield the objects in which members are written, each with its path and its new members."""
        form = self.form
        group = dump_escaped(group_fields)
        # one pass over the record: rollouts are items of one of its lists, or the record itself
        lists: dict[str, ListItems] = {}
        if not form.listed:
            for rollout, _ in annotated:
                for key in rollout.path[:1]:
                    lists[str(key)] = []
        whole = _Object(self.raw, read_object(self.raw, 0, lists))
        if form.listed:
            changes = self.in_lists(whole, annotated)
            if form.group_in_record:
                changes["ruler"] = b'%s, "rollouts": %s}' % (
                    group[:-1],
                    changes["ruler"],
                )
            yield whole.spans, (), changes
            return
        for rollout, annotation in annotated:
            spans: Any = whole.spans
            if rollout.path:
                key, number, *_ = rollout.path
                spans = lists[str(key)][int(number)]
            # a rollout that is not an object cannot be annotated; the group's part counts it
            if isinstance(spans, ObjectSpans):
                trajectory = _Object(self.raw, spans)
                new = self.changes(trajectory, rollout, annotation)
                yield spans, rollout.path, new
        if form.group_in_record:
            yield whole.spans, (), {"ruler": group}

    def in_lists(
        self,
        whole: _Object,
        annotated: Sequence[Annotated],
    ) -> dict[str, Any]:
        """Return everything that is written if rollouts are items of lists, with all annotations as `ruler`."""
        form = self.form
        # looked up once: a line may hold ten thousand
        rewards = _items(whole.value(form.reward)) if form.reward else []
        earlier = _items(whole.value(form.annotations))
        annotations = []
        scores = []
        for i, (rollout, annotation) in enumerate(annotated):
            # else it stands elsewhere, as ROLL's agentic ones do
            now = rewards[i] if i < len(rewards) else dump(rollout.reward)
            before = self._rewards(earlier[i : i + 1], now)
            scores.append(self._reward(annotation, before.here) or b"null")
            annotations.append(before.beside(annotation))
        changes: dict[str, Any] = {}
        path = whole.path(form.reward)
        if rewards:
            for i, score in enumerate(scores):
                _set(changes, (*path, i), score)
        elif form.reward:
            _set(changes, path, _list_of(scores))
        return {**changes, "ruler": _list_of(annotations)}

    def changes(
        self,
        trajectory: _Object,
        rollout: Rollout,
        annotation: Annotation,
    ) -> NewMembers:
        """Return everything that is written in a rollout's own object, `ruler` last."""
        form = self.form
        objects = [trajectory]
        # the trajectory once more, as JSON text; ART has no place for `ruler` there
        if form.payload:
            text = inner_object(trajectory.value(form.payload))
            if text:
                objects.append(_Object(text, read_object(text)))
        now = form.absent
        if form.elsewhere:
            now = dump(rollout.reward)
        elif form.reward:
            now = objects[-1].value(form.reward) or form.absent
        noted = []
        for members in objects:
            noted.append(inner_object(members.value(form.ruler)))
            if form.extras:
                noted.append(inner_object(members.value("metrics")))
        rewards = self._rewards(noted, now)
        changes = self._scored(trajectory, annotation, rewards)
        for members in objects[1:]:
            inner = self._scored(members, annotation, rewards)
            changes[str(form.payload)] = inner
        _set(changes, trajectory.path(form.ruler), rewards.beside(annotation))
        return changes

    def _rewards(
        self,
        noted: Iterable[bytes],
        now: bytes | None,
    ) -> _Rewards:
        """The values of reward fields; an earlier run may have `noted` the first one, `now` is the path of this one."""
        form = self.form
        path = form.read_at or form.reward
        now = _stated(now)
        for earlier in noted:
            if ORIGINAL.encode() not in earlier:  # fast
                continue
            before = parse(earlier)
            if ORIGINAL not in before:
                continue
            others = _items(_bytes_at(earlier, ("rewards",)))
            here = now
            place = form.original_in(before, parse_value(now or b"null"))
            if place is not None:
                here = _stated(_bytes_at(earlier, place))
            elif path and not form.elsewhere:
                pair = dump(path), _strict(now)
                others.append(b'{"path":%s,"value":%s}' % pair)
            first = _stated(_bytes_at(earlier, (ORIGINAL,)))
            named = before.get("reward_path", path)
            if not is_text(named):
                named = ""
            return _Rewards(
                first or here,
                here,
                named,
                others,
            )
        return _Rewards(now, now, path)

    def _reward(
        self,
        annotation: Annotation,
        original: bytes | None,
    ) -> bytes:
        """The new value of the reward field; empty if the field is taken out."""
        form = self.form
        score = annotation.get("score")
        if score is not None:
            return form.written.replace(b"%s", dump(score))
        if self.on_failure == "null" or form.elsewhere:
            return form.lost
        return original or form.lost

    def _scored(
        self,
        members: _Object,
        annotation: Annotation,
        rewards: _Rewards,
    ) -> dict[str, Any]:
        """The new values of the reward field, and of `metrics` and `logs` if the layout has them."""
        form = self.form
        score = annotation.get("score")
        changes: dict[str, Any] = {}
        if form.reward:
            new = self._reward(annotation, rewards.here)
            stays = not new or (score is None and self.on_failure != "null")
            if not stays or members.value(form.reward) is not None:
                _set(changes, members.path(form.reward), new or None)
        if not form.extras:
            return changes
        line = number = None
        if score is not None:
            number = dump(score)
            explanation = annotation.get("explanation", "")
            line = dump_escaped(f"{_LOG}{explanation}")
        first = _stated(_strict(rewards.first))
        old = members.value("metrics")
        made = old in (None, b"null") and (number or first)
        if made or inner_object(old):
            metrics = {"ruler_score": number, ORIGINAL: first}
            changes.setdefault("metrics", {}).update(metrics)
        logs = _with_line(members.value("logs"), line)
        return {**changes, "logs": logs}


def _with_line(
    old: bytes | None,
    line: bytes | None,
) -> bytes | None:
    """`logs` with an explanation behind the last item, without an earlier one; as it is if it is not a list."""
    if old not in (None, b"null") and not old.startswith(b"["):
        return old
    mark = dump(_LOG)[:-1]
    lines = [item for item in _items(old) if not item.startswith(mark)]
    if line:
        lines.append(line)
    return _list_of(lines) if line or _items(old) else old
