"""Verdict or failure + a record's bytes → the annotated record.

Only what ruler owns is written: the reward field, `ruler`, and where the shape has them
`metrics.ruler_score`, `metrics.independent_reward` and one line of `logs`. The first original
reward is copied byte for byte, and a file that is scored again keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse_text
from ruler_cli.files.splice import Items, Object, Patches, members, read_array, read_object
from ruler_cli.formats.interface import Format, Layout
from ruler_cli.records import Mark, Record, Rollout
from ruler_cli.settings import OnFailure

_LOG = "RULER explanation: "
_KEPT = "independent_reward"


def annotate(
    record: Record,
    form: Format,
    marks: list[Mark],
    group_fields: Mapping[str, Any],
    on_failure: OnFailure,
) -> bytes:
    """The record with a mark on each of its rollouts, and the group's part once if it is a group."""
    raw = record.line.raw
    patches = Patches(raw)
    if form.shape == "trajectory":
        only = Mark(marks[0].score, {**marks[0].fields, "group": dict(group_fields)})
        obj = read_object(raw)
        patches.put(obj, _changes(raw, obj, only, form.layout, on_failure))
        return patches.apply()
    whole, items = _group(raw)
    for item, mark in zip(items, marks, strict=True):
        if isinstance(item, Object):  # anything else cannot carry a mark; the group's part counts it
            patches.put(item, _changes(raw, item, mark, form.layout, on_failure))
    patches.put(whole, {"ruler": dump(dict(group_fields))})
    return patches.apply()


def trajectory_bytes(record: Record, rollout: Rollout) -> bytes:
    """A rollout's own bytes: those of its line, or of its place in the group's line."""
    raw = record.line.raw
    if not rollout.path:
        return raw
    item = _group(raw)[1][int(rollout.path[-1])]
    return raw[item.start : item.end] if isinstance(item, Object) else raw[slice(*item)]


def _group(raw: bytes) -> tuple[Object, Items]:
    """A group's own members, and its trajectories with theirs."""
    lists: dict[str, Items] = {"trajectories": []}
    return read_object(raw, 0, lists), lists["trajectories"]


def _changes(
    text: bytes, obj: Object, mark: Mark, layout: Layout, on_failure: OnFailure
) -> dict[str, bytes | None]:
    """What is written on one trajectory."""
    original = _original(text, obj, layout)
    ours = dump({**mark.fields, _KEPT: None})
    if original is not None:  # `null` is the last value, in front of the closing brace
        ours = ours[: -len(b"null}")] + original + b"}"
    values = _rewarded(text, obj, mark, layout, on_failure, original)
    payload = _payload(text, obj, layout)
    if payload:  # the trajectory once more, as JSON text; ART has no place for `ruler` there
        inner = read_object(payload)
        patches = Patches(payload)
        patches.put(inner, _rewarded(payload, inner, mark, layout, on_failure, original))
        values[str(layout.payload)] = _quote(patches.apply())
    return {**values, "ruler": ours}


def _rewarded(
    text: bytes, obj: Object, mark: Mark, layout: Layout, on_failure: OnFailure, original: bytes | None
) -> dict[str, bytes | None]:
    """The reward field, and `metrics` and `logs` where the shape has them."""
    values: dict[str, bytes | None] = {}
    score = b"null" if mark.score is None else dump(mark.score)
    if mark.score is not None or on_failure == "null":
        values[layout.reward] = score
    else:
        now = _value(text, obj, layout.reward)
        if now is not None and now != original:  # an earlier run's score: back to the original
            values[layout.reward] = original or b"null"
    return values | (_extras(text, obj, mark, score, original) if layout.extras else {})


def _original(text: bytes, obj: Object, layout: Layout) -> bytes | None:
    """The first reward the dump had, as its bytes; None where it had none."""
    for holder in ("ruler", "metrics"):
        inner, _ = _inner(_value(text, obj, holder))
        kept = _value(inner, read_object(inner), _KEPT) if inner else None
        if kept is not None:
            return None if kept == b"null" else kept
    payload = _payload(text, obj, layout)
    if payload:
        return _original(payload, read_object(payload), replace(layout, payload=None))
    value = _value(text, obj, layout.reward)
    return layout.absent if value is None else None if value == b"null" else value


def _extras(
    text: bytes, obj: Object, mark: Mark, score: bytes, original: bytes | None
) -> dict[str, bytes | None]:
    """New values of `metrics` and `logs`; a shape that ruler does not know there is left alone."""
    values: dict[str, bytes | None] = {}
    metrics = {} if mark.score is None else {"ruler_score": score}
    if original is not None:
        metrics[_KEPT] = original
    old = _value(text, obj, "metrics")
    if old in (None, b"null"):
        values["metrics"] = b"{" + members(metrics) + b"}" if metrics else old
    else:
        inner, quoted = _inner(old)
        if inner:
            new = _put(inner, {"ruler_score": None, **metrics})
            values["metrics"] = _quote(new) if quoted else new
    logs = _value(text, obj, "logs")
    said = None if mark.score is None else dump(_LOG + str(mark.fields.get("explanation", "")))
    if logs is None or logs == b"null":
        values["logs"] = b"[" + said + b"]" if said else logs
    elif logs[:1] == b"[":
        values["logs"] = _logs(logs, said)
    return {key: value for key, value in values.items() if value is not None}


def _logs(old: bytes, said: bytes | None) -> bytes:
    """`logs` with this explanation in the place of an earlier one, or behind the last item."""
    spans = read_array(old, 0)
    ours = [old.startswith(b'"' + _LOG.encode(), start) for start, _ in spans]
    patches = Patches(old)
    if said and any(ours):
        first = ours.index(True)
        patches.replace(*spans[first], said)
        ours[first] = False
    elif said:
        at = spans[-1][1] if spans else 1
        patches.replace(at, at, (b", " if spans else b"") + said)
    patches.drop(spans, ours)
    return patches.apply()


def _value(text: bytes, obj: Object, key: str) -> bytes | None:
    member = obj.members.get(key)
    return None if member is None else text[member[1] : member[2]]


def _inner(value: bytes | None) -> tuple[bytes, bool]:
    """An object's bytes, and whether they stand quoted as JSON text; empty where there is none."""
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


def _payload(text: bytes, obj: Object, layout: Layout) -> bytes:
    """The trajectory that stands once more as JSON text; empty where there is none."""
    inner, quoted = _inner(_value(text, obj, layout.payload)) if layout.payload else (b"", False)
    return inner if quoted else b""


def _quote(text: bytes) -> bytes:
    """JSON text as a JSON string."""
    return dump(text.decode("utf-8", "surrogatepass"))


def _put(text: bytes, values: Mapping[str, bytes | None]) -> bytes:
    patches = Patches(text)
    patches.put(read_object(text), dict(values))
    return patches.apply()
