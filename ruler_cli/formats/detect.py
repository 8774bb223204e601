"""First records → the format that reads them all, by their keys and never by the file name.

If no format fits but an object holds records in a list, the error gives the jq path to them.

A new format needs no registration: each module here with `FORMATS` or `REFUSALS` is imported.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import ruler_cli.formats
from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.parse import parse, parse_text, too_large
from ruler_cli.formats.chat import has_content, task_messages
from ruler_cli.formats.custom import custom_format, with_reward
from ruler_cli.formats.fields import is_text_list, items, lookup
from ruler_cli.formats.interface import (
    PROMPT_HASH,
    SHAPE_ERRORS,
    Format,
    RefusedFormat,
    fits,
    printable,
)
from ruler_cli.formats.reader import Reader, validated
from ruler_cli.settings.models import InputSettings
from ruler_cli.settings.suggestions import nearest, suggest_path
from ruler_cli.types import Line, Record

SAMPLE = 50
"""Number of first records that must agree."""

_CONTAINERS = (
    "jsonl",
    "json",
    "ndjson",
    "jsonlines",
    "parquet",
    "csv",
    "zip",
    "gz",
    "gzip",
)
"""Kinds of files, which people give as a format."""
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
        large = next((line for line in first if line.skipped), None)
        if large is None:
            raise UsageError(_no_object(name, first))
        problem = Sentence(
            "{line} {reason}", line=large.where, reason=too_large(large.skipped)
        )
        raise UsageError(problem, place=name)
    chosen = _format(name, records, settings)
    records = [pair for pair in records if fits(chosen, pair[1])] or records
    if chosen.refine is not None:
        chosen = chosen.refine([record for _, record in records])
    paths = (
        ("prompt", settings.prompt),
        ("group_by", settings.group_by),
        (settings.outcome_option, settings.outcome),
    )
    holders = [
        one
        for _, record in records
        for one in (record, *items(record.get("trajectories")))
    ]
    for option, path in paths:
        if path is not None and all(lookup(holder, path) is None for holder in holders):
            raise _missing_path(name, option, path, records)
    key = settings.group_by or _key_path(chosen, records)
    reader = Reader(chosen, key, outcome=settings.outcome, prompt=settings.prompt)
    if not settings.group_by:
        reader = replace(reader, key=_scored_key(reader, records))
    if settings.reward is not None:
        rewarded = with_reward(name, settings.reward, reader, records)
        reader = replace(reader, format=rewarded, reward=settings.reward)
    return reader.with_words(
        record for line, _ in records for record in _read(reader, line)
    )


def _format(name: str, records: Records, settings: InputSettings) -> Format:
    """Return the format that the records have, or that the path of the messages describes."""
    if settings.messages is None:
        return _choose(name, records, settings.format)
    if settings.format != "auto":
        remedy = Sentence(
            "leave {format_:{form}} out, or {messages}", form=settings.format
        )
        problem = "is for dumps that no format fits"
        raise UsageError(problem, remedy, option="messages", value=settings.messages)
    given = [record for _, record in records]
    form = custom_format(settings.messages, given, alone=settings.prompt is not None)
    if form is None:
        raise _missing_path(name, "messages", settings.messages, records)
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
        advice = f"did you mean {suggestion}?" if suggestion else choices
        if wanted.lower() in _CONTAINERS:
            advice = "the kind of file is found by itself: leave it out"
        raise UsageError(
            "there is no such format", advice, option="format_", value=wanted
        )
    return [form for form in formats() if wanted in ("auto", form.family)]


def _choose(name: str, records: Records, wanted: str) -> Format:
    candidates = formats_of(wanted)
    votes: dict[str, tuple[Format, Line]] = {}
    for line, record in records:
        vote = _match(name, line, record, candidates)
        if vote is not None:
            votes.setdefault(vote.name, (vote, line))
    if len(votes) > 1:
        (one, first), (other, second) = list(votes.values())[:2]
        # a format for several answers also takes one
        named = next(
            (form for form in (one, other) if form.family == "prompt-responses"), one
        )
        problem = (
            f"{first.where} looks like {one.name}, {second.where} like {other.name}"
        )
        remedy = Sentence(
            "split the file, or say {format_:{family}}", family=named.family
        )
        raise UsageError(problem, remedy, place=name)
    if votes:
        chosen = next(iter(votes.values()))[0]
        for refusal in refusals() if wanted == "auto" and chosen.rank == 0 else ():
            if all(fits(refusal, record) for _, record in records):
                raise UsageError(f"{name}: {records[0][0].where} {refusal.hint}")
        return chosen
    for shape in (
        ("native groups", "ART groups")
        if any("trajectories" in r for _, r in records)
        else ()
    ):
        if fallback := next((f for f in candidates if f.name == shape), None):
            return fallback
    raise UsageError(_no_format(name, *records[0], wanted))


def _match(
    name: str, line: Line, record: Mapping[str, Any], candidates: Sequence[Format]
) -> Format | None:
    """Return the format of one record; None if there is none. UsageError if there are several."""
    best = matching(record, candidates)
    if len(best) > 1:
        remedy = Sentence("say which, e.g. {format_:{family}}", family=best[0].family)
        problem = f"{line.where} could be {best[0].name} or {best[1].name}"
        raise UsageError(problem, remedy, place=name)
    return best[0] if best else None


def matching(record: Mapping[str, Any], candidates: Iterable[Format]) -> list[Format]:
    """Return the formats of the highest rank that match a record; none if only a generic one may do so."""
    tests = [(candidate, fits(candidate, record)) for candidate in candidates]
    rank = max((candidate.rank for candidate, result in tests if result), default=None)
    best = [
        candidate for candidate, result in tests if result and candidate.rank == rank
    ]
    unsure = rank == 0 and any(result is None for _, result in tests)
    return [] if unsure and len(best) == 1 else best


def _key_path(chosen: Format, records: Records) -> str:
    for _, record in records if chosen.key_of is not None else ():
        with suppress(UnreadableError, RecursionError, *SHAPE_ERRORS):
            if chosen.key_of is not None and chosen.key_of(record) is not None:
                return chosen.key_description
    paths = (
        path
        for path in chosen.keys
        if any(lookup(record, path) is not None for _, record in records)
    )
    return next(paths, PROMPT_HASH)


def _scored_key(reader: Reader, records: Records) -> str:
    """Return the path of the group key that an earlier run wrote, if its groups differ from the reader's.

    They differ if that run read several files and added labels to their keys. Else return the reader's key.
    """
    path = ".".join(map(str, (*reader.format.layout.ruler, "group", "key")))
    if reader.format.shape != "trajectory":
        return reader.key
    keys = [(line, lookup(record, path)) for line, record in records]
    if not all(isinstance(key, str) for _, key in keys):
        return reader.key
    same = all(
        [record.key for record in _read(reader, line)] == [key] for line, key in keys
    )
    return reader.key if same else path


def _missing_path(name: str, option: str, path: str, records: Records) -> UsageError:
    suggestion = suggest_path(path, (record for _, record in records))
    hint = f" (did you mean {printable(suggestion)}?)" if suggestion else ""
    keys = first_keys(records[0][1])
    problem = f"none of the first records has it{hint}"
    return UsageError(
        problem, f"their keys: {keys}", option=option, value=path, place=name
    )


def first_keys(record: Mapping[str, Any]) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(printable(key) for key in itertools.islice(record, 12))


def _no_object(name: str, first: Sequence[Line]) -> str:
    """Return the message for records of which none is an object, with advice by the value of the first."""
    reason, advice = (
        "is no record",
        "ruler reads JSON lines, one object a line, or one JSON document",
    )
    try:
        parse(first[0].raw)
    except UnreadableError as error:
        reason = str(error)
    with suppress(UnreadableError, UnicodeDecodeError, RecursionError):
        value = parse_text(first[0].raw.decode("utf-8", "surrogatepass"))
        if is_text_list(value):
            advice = (
                "lists of texts are answers without their tasks (generations.json of bigcode's harness); "
                "write a line for each task, with `prompt` and `completions`"
            )
        elif isinstance(value, str) and isinstance(parse_text(value), dict | list):
            advice = "it is JSON text of JSON, as older versions of ADK write their results; unwrap it: jq -r ."
    sentence = f"none of the first {len(first)} records is a JSON object"
    return f"{name}: {sentence}; {first[0].where} {reason}; {advice}"


def _no_format(name: str, line: Line, record: Mapping[str, Any], wanted: str) -> str:
    for refusal in refusals():
        if fits(refusal, record):
            return f"{name}: {line.where} {refusal.hint}"
    keys = f"(its keys: {first_keys(record) or 'none'})"
    if wanted != "auto":
        signature = "; or ".join(
            dict.fromkeys(f.signature for f in formats() if f.family == wanted)
        )
        return f"{name}: {line.where} is not of the format {wanted}, which is known by {signature} {keys}"
    for path, inner in _nested_lists(record):
        form, *others = [_judgeable_format(item) for item in inner[:3]]
        if form is not None and all(other is form for other in others):
            outer = ".[]" if line.where.startswith("item") else ""
            return (
                f"{name}: {line.where} holds no rollout itself {keys}, but {form.name} "
                f"in a list; write one a line: jq -c '{outer}{path}'"
            )
    return Sentence(
        "{nothing}; say where the messages stand with {messages:PATH}, the task with {prompt:PATH}, and the "
        "group key with {group_by:PATH}",
        nothing=f"{name}: {line.where} holds no rollouts that ruler knows {keys}{closest(record)}",
    )


def _judgeable_format(record: Any) -> Format | None:
    """Return the format of an object that can be judged; None if it has no task, or no work of an agent."""
    if not isinstance(record, dict) or any(
        fits(refusal, record) for refusal in refusals()
    ):
        return None
    matching = [form for form in formats() if fits(form, record)]
    best = max(matching, key=lambda form: form.rank, default=None)
    try:
        rollouts = [] if best is None else best.rollouts(record)
    except (UnreadableError, *SHAPE_ERRORS):
        return None
    judged = all(
        validated(r).error is None and any(map(has_content, task_messages(r)))
        for r in rollouts
    )
    return best if rollouts and judged else None


def closest(record: Mapping[str, Any]) -> str:
    """Return the two formats that have the largest share of their keys in a record, to end a message."""
    shares: list[tuple[float, Format]] = []
    for form in formats():
        keys = form.signature.split("`")[1::2]
        shares.append(
            (
                sum(lookup(record, key) is not None for key in keys)
                / max(len(keys), 1),
                form,
            )
        )
    close = sorted(
        (pair for pair in shares if 0 < pair[0] < 1), key=lambda pair: -pair[0]
    )
    return "".join(
        f"; {form.name} would have {form.signature}" for _, form in close[:2]
    )


_MAX_DEPTH, _MAX_OBJECTS = 3, 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")
_PARTS = re.compile(
    r"(?i).*(step|turn|message|conversation|event|span|observation|trajectory|trace|child(ren)?|choice|part|log|"
    r"judge?ment|history|call)s?"
)
"""Members whose items are parts of one rollout, or judgements of it."""


def _nested_lists(record: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield lists of objects and objects of objects with their jq paths, the least nested first."""
    level: list[tuple[str, Any]] = [("", record)]
    for _ in range(_MAX_DEPTH):
        below: list[tuple[str, Any]] = []
        for path, holder in level[:_MAX_OBJECTS]:
            for name, value in holder.items():
                step = f"{path}.{name}"
                if not _NAME.fullmatch(name) or _PARTS.fullmatch(name):
                    continue
                if (
                    isinstance(value, list)
                    and value
                    and all(isinstance(item, dict) for item in value[:3])
                ):
                    yield f"{step}[]", value
                    below.append((f"{step}[]", value[0]))
                elif isinstance(value, dict):
                    below.append((step, value))
        level = below
    inner = list(record.values())
    if len(inner) > 1 and all(isinstance(value, dict) for value in inner):
        yield ".[]", inner


@cache
def formats() -> tuple[Format, ...]:
    """Return all formats, in the order of their families."""
    all_formats = (f for module in _modules() for f in getattr(module, "FORMATS", ()))
    return tuple(sorted(all_formats, key=lambda f: f.family))


@cache
def refusals() -> tuple[RefusedFormat, ...]:
    """Return the shapes that cannot be scored, each with a hint."""
    return tuple(r for module in _modules() for r in getattr(module, "REFUSALS", ()))


@cache
def families() -> tuple[str, ...]:
    """Return the values of `--format` other than `auto`."""
    return tuple(dict.fromkeys(f.family for f in formats()))


@cache
def _modules() -> tuple[object, ...]:
    names = sorted(
        module.name for module in pkgutil.iter_modules(ruler_cli.formats.__path__)
    )
    return tuple(importlib.import_module(f"ruler_cli.formats.{name}") for name in names)
