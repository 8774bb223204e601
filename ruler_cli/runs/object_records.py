"""Records from Python in any shape that a line of a file may have → rollouts, and annotated copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ruler_cli.errors import UnreadableError, WrongShapeError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.formats.annotate import (
    Annotated,
    AnnotationFields,
    GroupFields,
    TrajectoryFields,
    annotate,
)
from ruler_cli.formats.custom import custom_format, with_reward
from ruler_cli.formats.detect import first_keys, formats_of, matching, refused
from ruler_cli.formats.fields import first_at, lookup
from ruler_cli.formats.interface import GIVEN, SHAPE_ERRORS, Format, fits
from ruler_cli.formats.native import BESIDE
from ruler_cli.formats.prompts import PROMPTS
from ruler_cli.formats.reader import Reader, key_text
from ruler_cli.formats.turns import ANSWER_LISTS, ANSWERS, is_reply
from ruler_cli.runs.object_values import as_json, member, snapshot, with_members
from ruler_cli.settings.models import InputSettings, OnFailure
from ruler_cli.types import Line, Record, Rollout

_HIDDEN = ("prompt", "example_id")
"""Members that a mapping may have without listing them, as the `State` of verifiers does."""
_SHOWN = frozenset(
    ("messages", "tools", *PROMPTS, *(path.partition(".")[0] for path in BESIDE))
)
"""Members that the judge may be shown."""
COPIES = frozenset((*ANSWERS, *ANSWER_LISTS))
"""Those of them that are not read if `messages` ends with an answer."""
_OWN = (list, dict)
"""Types of members of which a copy has its own: programs fill one list again for the next group."""
_APART = "give each group as a list of its rollouts, a dict each"
_MOST = 64
"""Shapes whose readers are remembered."""

Shape = frozenset[tuple[str, Any]]
"""Names of members, each with the types of its values; for a text, if it may be JSON."""
Readers = dict[Shape, Reader]
"""The reader of each shape that was read before: a group is read alike whatever came before it."""


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A record that was given: a shallow copy to annotate later, its JSON form, and what was read of it.

    `before` has only those members of the JSON form that an annotation may change.
    """

    copied: Any
    before: bytes
    record: Record


@dataclass(frozen=True, slots=True)
class GivenRecords:
    """The records of one group, and their reader."""

    reader: Reader
    each: tuple[GivenRecord, ...]
    key: str | None


def read_records(
    items: Sequence[Mapping[Any, Any]],
    lines: Sequence[Line],
    settings: InputSettings,
    readers: Readers,
    *,
    alone: bool,
) -> GivenRecords:
    """Read the records of one group as the command reads lines; `lines` have their places in sentences.

    `alone`: it is one record that is the whole group, else each is a rollout. WrongShapeError if they are of
    no shape that is known, of several shapes, or of several groups.
    """
    values, lost = zip(*map(_json_form, items), strict=True)
    shape = _shape(values)
    reader = readers.get(shape)
    if reader is None or not all(fits(reader.format, value) for value in values):
        reader = _reader_of(lines, values, lost, settings)
        if len(readers) >= _MOST:
            readers.clear()
        readers[shape] = reader
    if not alone and reader.format.shape != "trajectory":
        raise WrongShapeError(
            f"{lines[0].where}: is a whole group ({reader.format.name}); give it alone, and several to "
            "`score_groups`"
        )
    each = []
    for item, value, line, reasons in zip(items, values, lines, lost, strict=True):
        record = _with_lost(_read(reader, value, line), reader.format, value, reasons)
        copied = snapshot(
            item,
            {name: one.copy() for name, one in item.items() if type(one) in _OWN},
            line.where,
        )
        each.append(
            GivenRecord(copied, dump(_changing(value, reader.format, record)), record)
        )
    if (
        alone
        and reader.format.shape == "trajectory"
        and len(each[0].record.rollouts) == 1
    ):
        raise WrongShapeError(
            f"{lines[0].where}: is one trajectory ({reader.format.name}); give all of one task as a list"
        )
    return GivenRecords(reader, tuple(each), _key(reader.format, values[0]))


def annotated_records(
    given: GivenRecords,
    annotations: Sequence[AnnotationFields],
    fields: GroupFields,
    on_failure: OnFailure,
    *,
    beside: bool,
) -> tuple[list[Any], list[TrajectoryFields]]:
    """Return annotated copies of the records, as OUTPUT has them, and the annotations with first rewards.

    `beside`: the group's part of OUTPUT stands beside the records, and not on each.
    """
    reader, rest = given.reader, iter(annotations)
    copies, whole = list[Any](), list[TrajectoryFields]()
    for one in given.each:
        mine = [(rollout, next(rest)) for rollout in one.record.rollouts]
        written: Sequence[Annotated] = mine
        if not beside and not reader.format.group_in_record:
            written = [(rollout, {**each, "group": fields}) for rollout, each in mine]
        after = parse_value(
            annotate(one.before, reader.format, written, fields, on_failure)
        )
        copies.append(_changed(one.copied, parse_value(one.before), after))
        for rollout, each in mine:
            noted = reader.previous_annotation(after, rollout) or {}
            whole.append(
                TrajectoryFields(
                    **each, independent_reward=noted.get("independent_reward")
                )
            )
    return copies, whole


def _shape(values: Sequence[Mapping[str, Any]]) -> Shape:
    """Return the shape of records."""
    pairs = [pair for value in values for pair in value.items()]
    return frozenset(
        [
            (name, one[:1] in "[{" if type(one) is str else type(one))
            for name, one in pairs
        ]
    )


def _json_form(item: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of a record that JSON has a form for, and why it has none for the others."""
    value, lost = dict[str, Any](), dict[str, str]()
    hidden = (
        ()
        if type(item) is dict
        else [name for name in _HIDDEN if name not in item and item.get(name)]
    )
    for key in (*item, *hidden):
        name = key if type(key) is str else str(key)
        try:
            value[name] = as_json(item[key])
        except UnreadableError as error:
            lost[name] = (
                f"`{name}` holds a value that {error}; give dicts, lists, texts and numbers"
            )
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - of a mapping that is read when it is asked
            lost[name] = f"`{name}` cannot be read ({error!r:.80})"
    return value, lost


def _reader_of(
    lines: Sequence[Line],
    values: Sequence[dict[str, Any]],
    lost: Sequence[Mapping[str, str]],
    settings: InputSettings,
) -> Reader:
    """Find the one format of all records; WrongShapeError if there is none, or more than one."""
    try:
        form = _format_of(lines, values, settings)
    except WrongShapeError:
        for line, reasons in zip(lines, lost, strict=True):
            for reason in (
                reason for name, reason in reasons.items() if name in _SHOWN
            ):
                raise WrongShapeError(f"{line.where}: {reason}") from None
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
    if settings.messages is not None:
        form = custom_format(
            settings.messages, values, alone=settings.prompt is not None
        )
        if form is None:
            raise WrongShapeError(
                f"{name}: has nothing at `{settings.messages}`{_keys(values[0])}"
            )
        return form
    candidates, found = formats_of(settings.format), dict[str, tuple[Format, str]]()
    for line, value in zip(lines, values, strict=True):
        best = matching(value, candidates)
        if len(best) > 1:
            raise WrongShapeError(
                f"{line.where}: could be {best[0].name} or {best[1].name}; say which, e.g. "
                f"InputSettings(format={best[0].family!r})"
            )
        if best:
            found.setdefault(best[0].name, (best[0], line.where))
    if len(found) > 1:
        (one, first), (other, second) = list(found.values())[:2]
        raise WrongShapeError(
            f"{first}: looks like {one.name}, and {second.rpartition(': ')[2]} like {other.name}; give one "
            "shape"
        )
    form = next((form for form, _ in found.values()), None)
    guarded = form is None or (settings.format == "auto" and form.rank == 0)
    refusal = refused(values, guards=form is not None) if guarded else None
    if refusal is not None:
        raise WrongShapeError(f"{name}: {refusal.reason}")
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
        f"is of no shape that ruler knows{keys}; give `messages`, or say where they and the "
        "task stand: InputSettings(messages='PATH', prompt='PATH')"
    )


def _keys(value: Mapping[str, Any]) -> str:
    return f" (its keys: {first_keys(value) or 'none'})"


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
    shown = _SHOWN.union(
        path.partition(".")[0] for path in form.signature.split("`")[1::2]
    )
    if ends_with_reply(value):
        shown -= COPIES
    reason = next((reason for name, reason in lost.items() if name in shown), None)
    if reason is None:
        return record
    return replace(
        record,
        rollouts=tuple(replace(rollout, error=reason) for rollout in record.rollouts),
    )


def ends_with_reply(value: Mapping[str, Any]) -> bool:
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
    with suppress(UnreadableError, *SHAPE_ERRORS):
        key = form.key_of(value)
    key = first_at(value, *form.keys) if key is None else key
    return None if key is None else key_text(key)


def _changing(value: Mapping[str, Any], form: Format, record: Record) -> dict[str, Any]:
    """Return the members of a record that its annotation may change, or look at."""
    layout = form.layout
    paths = [
        layout.reward or (),
        layout.ruler,
        layout.source or (),
        *(one.path for one in record.rollouts),
    ]
    names = {"ruler", *(path[0] for path in paths if path)}
    if layout.extras:
        names |= {"metrics", "logs", str(layout.payload)}
    return {name: one for name, one in value.items() if name in names}


def _changed(given: Any, before: Any, after: Any) -> Any:
    """Return what was given with the changes between two JSON forms of it; the rest stays as it is."""
    if (
        isinstance(given, Mapping)
        and isinstance(before, dict)
        and isinstance(after, dict)
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
