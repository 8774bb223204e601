"""First records → the format that reads them all, by their keys and never by the file name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.parse import parse, too_large
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    dotted,
    first,
    items,
    lookup,
)
from ruler_cli.formats.interface import (
    PROMPT_HASH,
    SHAPE_ERRORS,
    Format,
    RefusedFormat,
    code,
    fits,
    printable,
)
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.table import FORMATS, REFUSED
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.suggestions import nearest, suggest_path
from ruler_cli.types import Line, Record

SAMPLE = 50
"""Number of first records that must agree."""
Records = Sequence[tuple[Line, dict[str, Any]]]


def detect(name: str, first: Sequence[Line], settings: InputSettings) -> Reader:
    """Return a reader of the one format of the first records.

    UsageError if there is none, or more than one, with lines, keys and what to do.
    """
    records: list[tuple[Line, dict[str, Any]]] = []
    for line in first:
        with suppress(UnreadableError):
            records.append((line, parse(line.raw)))
    if not records:
        raise _no_object(name, first)
    chosen = _format(name, records, settings)
    records = [pair for pair in records if fits(chosen, pair[1])] or records
    chosen = chosen.refined([record for _, record in records])
    _refuse_missing(name, records, settings)
    key = settings.group_by or _key_path(chosen, records)
    reader = Reader(chosen, key, outcome=settings.outcome, prompt=settings.prompt)
    if not settings.group_by:
        reader = replace(reader, key=_scored_key(reader, records))
    if settings.reward is not None:
        with_reward = code("custom.with_reward")
        rewarded = with_reward(name, settings.reward, reader, records)
        reader = replace(reader, format=rewarded, reward=settings.reward)
    return reader.with_words(
        record for line, _ in records for record in _read(reader, line)
    )


def _format(name: str, records: Records, settings: InputSettings) -> Format:
    """Return the format that the records have, or that the path of the messages describes."""
    path = settings.messages
    if path is None:
        return _choose(name, records, settings.format)
    if settings.format != "auto":
        remedy = Sentence(
            "leave {format_:{form}} out, or {messages}", form=settings.format
        )
        problem = "is for dumps that no format fits"
        raise UsageError(problem, remedy, option="messages", value=path)
    given, alone = [record for _, record in records], settings.prompt is not None
    form: Format | None = code("custom.custom_format")(path, given, alone=alone)
    if form is None:
        raise _missing_path(name, "messages", path, records)
    return form


def _read(reader: Reader, line: Line) -> tuple[Record, ...]:
    """Read a line; () if it cannot be read, which is reported when the line is scored."""
    try:
        return reader.read_rounded(line)
    except UnreadableError:
        return ()


def formats_of(wanted: str) -> list[Format]:
    """Return the formats of a family, or all for `auto`; UsageError if there are none."""
    if wanted != "auto" and wanted not in families():
        suggestion = nearest(wanted, ("auto", *families()))
        choices = f"give auto or one of {', '.join(families())}"
        remedy = f"did you mean {suggestion}?" if suggestion else choices
        raise UsageError("no such format", remedy, option="format_", value=wanted)
    return [form for form in formats() if wanted in ("auto", form.family)]


def _choose(name: str, records: Records, wanted: str) -> Format:
    candidates = formats_of(wanted)
    votes: dict[str, tuple[Format, Line]] = {}
    for line, record in records:
        best = matching(record, candidates)
        if len(best) > 1:
            remedy = Sentence("name it: {format_:{family}}", family=best[0].family)
            problem = f"{line.where} could be {best[0].name} or {best[1].name}"
            raise UsageError(problem, remedy, place=name)
        for form in best:
            votes.setdefault(form.name, (form, line))
    if len(votes) > 1:
        (one, here), (other, there) = list(votes.values())[:2]
        # a format for several answers also takes one
        named = other if other.family == "prompt-responses" else one
        remedy = Sentence("split the file, or name it: {format_:{f}}", f=named.family)
        both = f"{here.where} looks like {one.name}, {there.where} like {other.name}"
        raise UsageError(both, remedy, place=name)
    chosen = first(form for form, _ in votes.values())
    if chosen is None and any("trajectories" in record for _, record in records):
        # a group without trajectories, or with unknown ones
        named_so = {form.name: form for form in candidates}
        chosen = named_so.get("native groups") or named_so.get("ART groups")
    if chosen is None:
        raise UsageError(_no_format(name, *records[0], wanted))
    if wanted == "auto" and chosen.rank == 0:
        refusal = refused([record for _, record in records], guards=True)
        if refusal is not None:
            where = records[0][0].where
            raise UsageError(f"{where} {refusal.reason}", place=name)
    return chosen


def refused(
    records: Sequence[JsonObject], *, guards: bool = False
) -> RefusedFormat | None:
    """Return the shape of records with nothing to judge; `guards`: one that is read as a generic format."""
    return first(
        shape
        for shape in REFUSED
        if shape.guards >= guards and all(fits(shape, record) for record in records)
    )


def matching(record: JsonObject, candidates: Iterable[Format]) -> list[Format]:
    """Return the formats of the highest rank that match a record; none if only a generic one may do so."""
    tests = [(form, fits(form, record)) for form in candidates]
    rank = max((form.rank for form, result in tests if result), default=None)
    best = [form for form, result in tests if result and form.rank == rank]
    unsure = rank == 0 and any(result is None for _, result in tests)
    return [] if unsure and len(best) == 1 else best


def _key_path(chosen: Format, records: Records) -> str:
    for _, record in records:
        with suppress(UnreadableError, RecursionError, *SHAPE_ERRORS):
            if chosen.key_of(record) is not None:
                return chosen.key_description
    for path in chosen.keys:
        if any(lookup(record, path) is not None for _, record in records):
            return path
    return PROMPT_HASH


def _scored_key(reader: Reader, records: Records) -> str:
    """Return the path of the group key that an earlier run wrote, if its groups differ from the reader's.

    They differ if that run read several files and added labels to their keys. Else return the reader's key.
    """
    path = dotted((*reader.format.layout.ruler, "group", "key"))
    keys = [(line, lookup(record, path)) for line, record in records]
    noted = all(isinstance(key, str) for _, key in keys)
    if reader.format.shape != "trajectory" or not noted:
        return reader.key
    read = [([record.key for record in _read(reader, line)], key) for line, key in keys]
    return reader.key if all(found == [key] for found, key in read) else path


def _refuse_missing(name: str, records: Records, settings: InputSettings) -> None:
    """Raise UsageError for a path of the user's that no record has."""
    paths = (
        ("prompt", settings.prompt),
        ("group_by", settings.group_by),
        (settings.outcome_option, settings.outcome),
    )
    whole = [record for _, record in records]
    parts = [part for record in whole for part in items(record.get("trajectories"))]
    for option, path in paths:
        if path is not None and all(lookup(r, path) is None for r in (*whole, *parts)):
            raise _missing_path(name, option, path, records)


def _missing_path(name: str, option: str, path: str, records: Records) -> UsageError:
    suggestion = suggest_path(path, (record for _, record in records))
    hint = f" (did you mean {printable(suggestion)}?)" if suggestion else ""
    keys = first_keys(records[0][1])
    problem = f"none of the first records has it{hint}"
    return UsageError(
        problem, f"their keys: {keys}", option=option, value=path, place=name
    )


def first_keys(record: JsonObject) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(printable(key) for key in itertools.islice(record, 12))


def _no_object(name: str, first: Sequence[Line]) -> UsageError:
    """Return the error for records of which none is an object."""
    for line in first:
        if line.skipped:
            why = too_large(line.skipped)
            problem = Sentence("{line} {reason}", line=line.where, reason=why)
            return UsageError(problem, place=name)
    reason = "is no record"
    try:
        parse(first[0].raw)
    except UnreadableError as error:
        reason = str(error)
    none = f"none of the first {len(first)} records is a JSON object; {first[0].where} {reason}"
    remedy = "give JSON lines, one object a line, or one JSON document"
    return UsageError(none, remedy, place=name)


def _no_format(name: str, line: Line, record: JsonObject, wanted: str) -> str:
    refusal = refused([record])
    if refusal is not None:
        return f"{name}: {line.where} {refusal.reason}"
    keys = f"(its keys: {first_keys(record) or 'none'})"
    if wanted != "auto":
        known = [form.signature for form in formats() if form.family == wanted]
        signature = "; or ".join(dict.fromkeys(known))
        return f"{name}: {line.where} is not of the format {wanted}, which has {signature} {keys}"
    return Sentence(
        "{nothing}; say where the messages stand with {messages:PATH}, the task with {prompt:PATH}, and the "
        "group key with {group_by:PATH}",
        nothing=f"{name}: {line.where} holds no rollouts that ruler knows {keys}",
    )


def formats() -> tuple[Format, ...]:
    """Return all formats, in the order of their families."""
    return FORMATS


@cache
def families() -> Names:
    """Return the values of `--format` other than `auto`."""
    return tuple(dict.fromkeys(form.family for form in FORMATS))
