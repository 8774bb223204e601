"""First records → the format that reads them all, found by keys, never by file name.

Records that lie in a list inside an object: the jq path to them, for somebody who gave the whole.

Every format there is: each module here that has `FORMATS` or `REFUSALS` is found by itself.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import ruler_cli.formats
from ruler_cli.config import InputSettings
from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats import custom
from ruler_cli.formats.chat import asked_of, says
from ruler_cli.formats.custom import with_reward
from ruler_cli.formats.interface import (
    MISSHAPEN,
    PROMPT_HASH,
    Format,
    RefusedFormat,
    fits,
    items,
    lookup,
    plain,
)
from ruler_cli.formats.reader import Reader, guarded
from ruler_cli.formats.turns import of_texts
from ruler_cli.reading.parse import parse, parse_text
from ruler_cli.suggestions import nearest, suggest_path
from ruler_cli.types import Line, Record

SAMPLE = 50
"""How many first records must agree."""


Records = Sequence[tuple[Line, dict[str, Any]]]


def detect(name: str, first: Sequence[Line], told: InputSettings) -> Reader:
    """Find the one format of the first records; UsageError names lines, keys and the way out."""
    records: Records = [(line, value) for line in first if (value := _object(line)) is not None]
    if not records:
        raise UsageError(_no_record(name, first))
    if told.messages is None:
        chosen: Format | None = _choose(name, records, told.format)
    elif told.format == "auto":
        given = [record for _, record in records]
        chosen = custom.named(told.messages, given, alone=told.prompt is not None)
    else:
        raise UsageError(
            f"--messages {told.messages}: is for dumps that no format fits; leave --format {told.format} "
            "out, or --messages"
        )
    if chosen is None:
        raise UsageError(_nowhere(name, "--messages", str(told.messages), records))
    records = [pair for pair in records if fits(chosen, pair[1])] or records
    if chosen.fit is not None:
        chosen = chosen.fit([record for _, record in records])
    paths = (("--prompt", told.prompt), ("--group-by", told.group_by), (told.outcome_option, told.outcome))
    for option, path in paths:
        if path is not None and not any(_has(record, path) for _, record in records):
            raise UsageError(_nowhere(name, option, path, records))
    found = Reader(chosen, told.group_by or _key_path(chosen, records), prompt=told.prompt)
    if not told.group_by:
        found = replace(found, key=_scored_key(found, records))
    if told.reward is not None:
        found = replace(found, format=with_reward(name, told.reward, found, records), reward=told.reward)
    found = replace(found, outcome=told.outcome)
    return found.knowing(record for line, _ in records for record in _read(found, line))


def _object(line: Line) -> dict[str, Any] | None:
    try:
        return parse(line.raw)
    except UnreadableError:
        return None


def _read(found: Reader, line: Line) -> tuple[Record, ...]:
    """A record; none if it cannot be read, which is told when its turn comes."""
    try:
        return found.glance(line)
    except UnreadableError:
        return ()


def _choose(name: str, records: Records, wanted: str) -> Format:
    if wanted != "auto" and wanted not in families():
        meant = nearest(wanted, ("auto", *families()))
        way = f"did you mean {meant}?" if meant else f"give auto or one of {', '.join(families())}"
        raise UsageError(f"--format {wanted}: there is no such format; {way}")
    candidates = [f for f in formats() if wanted in ("auto", f.family)]
    votes: dict[str, tuple[Format, Line]] = {}
    for line, record in records:
        found = _match(name, line, record, candidates)
        if found is not None:
            votes.setdefault(found.name, (found, line))
    if len(votes) > 1:
        (one, at), (other, there) = list(votes.values())[:2]
        # what takes several answers takes one
        named = next((form for form in (one, other) if form.family == "prompt-responses"), one)
        raise UsageError(
            f"{name}: {at.where} looks like {one.name}, {there.where} like {other.name}; split the file, or "
            f"say --format {named.family}"
        )
    if votes:
        chosen = next(iter(votes.values()))[0]
        if wanted == "auto" and chosen.rank == 0:
            _refuse(name, records)
        return chosen
    if any("trajectories" in record for _, record in records):
        for shape in ("native groups", "ART groups"):
            if found := next((f for f in candidates if f.name == shape), None):
                return found
    raise UsageError(_unknown(name, *records[0], wanted))


def _refuse(name: str, records: Records) -> None:
    """A generic shape is refused where all records are of a kind that holds nothing to judge."""
    for refusal in refusals():
        if all(fits(refusal, record) for _, record in records):
            raise UsageError(f"{name}: {records[0][0].where} {refusal.hint}")


def _match(name: str, line: Line, record: Mapping[str, Any], candidates: Sequence[Format]) -> Format | None:
    """The format of one record; None where none is or it could be several."""
    unsure = False
    found: list[Format] = []
    for candidate in candidates:
        verdict = fits(candidate, record)
        if verdict:
            found.append(candidate)
        unsure = unsure or verdict is None
    if not found:
        return None
    rank = max(f.rank for f in found)
    best = [f for f in found if f.rank == rank]
    if len(best) > 1:
        raise UsageError(
            f"{name}: {line.where} could be {best[0].name} or {best[1].name}; say which, e.g. "
            f"--format {best[0].family}"
        )
    return None if unsure and rank == 0 else best[0]


def _key_path(chosen: Format, records: Records) -> str:
    for _, record in records if chosen.key_of is not None else ():
        with suppress(UnreadableError, RecursionError, *MISSHAPEN):
            if chosen.key_of is not None and chosen.key_of(record) is not None:
                return chosen.key_told
    there = (path for path in chosen.keys if any(lookup(record, path) is not None for _, record in records))
    return next(there, PROMPT_HASH)


def _scored_key(found: Reader, records: Records) -> str:
    """The path of the group key that an earlier run wrote, if its groups were others; else the reader's key.

    The keys of several files may have got labels that their records do not hold.
    """
    path = ".".join(map(str, (*found.format.layout.ruler, "group", "key")))
    if found.format.shape != "trajectory":
        return found.key
    kept = [(line, lookup(record, path)) for line, record in records]
    if not all(isinstance(key, str) for _, key in kept):
        return found.key
    same = all([record.key for record in _read(found, line)] == [key] for line, key in kept)
    return found.key if same else path


def _has(record: Mapping[str, Any], path: str) -> bool:
    """Tell if a record, or a rollout of it, has something at a path."""
    return any(lookup(one, path) is not None for one in (record, *items(record.get("trajectories"))))


def _nowhere(name: str, option: str, path: str, records: Records) -> str:
    meant = suggest_path(path, (record for _, record in records))
    hint = f" (did you mean {plain(meant)}?)" if meant else ""
    keys = _keys(records[0][1])
    return f"{name}: {option} {path}: none of the first records has it{hint}; their keys: {keys}"


def _keys(record: Mapping[str, Any]) -> str:
    """The first keys of a record, for a sentence."""
    return ", ".join(plain(key) for key in itertools.islice(record, 12))


def _no_record(name: str, first: Sequence[Line]) -> str:
    """The sentence on a first record that is no object, with the way out by what it is instead."""
    reason, way = "is no record", "ruler reads JSON lines, one object a line, or one JSON document"
    try:
        parse(first[0].raw)
    except UnreadableError as error:
        reason = str(error)
    with suppress(UnreadableError, UnicodeDecodeError, RecursionError):
        found = parse_text(first[0].raw.decode("utf-8", "surrogatepass"))
        if of_texts(found):
            way = (
                "lists of texts are answers without their tasks (generations.json of bigcode's harness); "
                "write a line for each task, with `prompt` and `completions`"
            )
        elif isinstance(found, str) and isinstance(parse_text(found), dict | list):
            way = "it is JSON text of JSON, as older versions of ADK write their results; unwrap it: jq -r ."
    return (
        f"{name}: none of the first {len(first)} records is a JSON object; {first[0].where} {reason}; {way}"
    )


def _unknown(name: str, line: Line, record: Mapping[str, Any], wanted: str) -> str:
    for refusal in refusals():
        if fits(refusal, record):
            return f"{name}: {line.where} {refusal.hint}"
    keys_seen = _keys(record) or "none"
    if wanted != "auto":
        tells = "; or ".join(dict.fromkeys(f.tells for f in formats() if f.family == wanted))
        keys_seen = f"its keys: {keys_seen}"
        return f"{name}: {line.where} is not of the format {wanted}, which is known by {tells} ({keys_seen})"
    for path, inner in _lists(record):
        inside = [_known(item) for item in inner[:3]]
        if inside and inside[0] is not None and all(one is inside[0] for one in inside):
            listed = ".[]" if line.where.startswith("item") else ""
            return (
                f"{name}: {line.where} holds no rollout itself (its keys: {keys_seen}), but {inside[0].name} "
                f"in a list; write one a line: jq -c '{listed}{path}'"
            )
    return (
        f"{name}: {line.where} holds no rollouts that ruler knows (its keys: {keys_seen}){_nearest(record)}; "
        "say where the messages stand with --messages PATH, the task with --prompt PATH, and the group key "
        "with --group-by PATH"
    )


def _known(record: Any) -> Format | None:
    """The format by which an object can be judged; None where it shows no task, or no agent at work."""
    if not isinstance(record, dict) or any(fits(refusal, record) for refusal in refusals()):
        return None
    found = [one for one in formats() if fits(one, record)]
    best = max(found, key=lambda one: one.rank, default=None)
    try:
        rollouts = [] if best is None else best.rollouts(record)
    except (UnreadableError, *MISSHAPEN):
        return None
    judged = all(guarded(one).error is None and any(map(says, asked_of(one))) for one in rollouts)
    return best if rollouts and judged else None


def _nearest(record: Mapping[str, Any]) -> str:
    """The formats of which most telling keys are there, for somebody who wonders what is missing."""
    near = []
    for known in formats():
        keys = known.tells.split("`")[1::2]
        there = sum(lookup(record, key) is not None for key in keys)
        if there and there < len(keys):
            near.append((there / len(keys), known.name, known.tells))
    near.sort(key=lambda n: -n[0])
    return "".join(f"; {name} would have {tells}" for _, name, tells in near[:2])


_DEEPEST, _MOST = 3, 200
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")
_PARTS = re.compile(
    r"(?i).*(step|turn|message|conversation|event|span|observation|trajectory|trace|child(ren)?|choice|part|log|"
    r"judge?ment|history|call)s?"
)
"""Members whose items are parts of one rollout, or what others said of it."""


def _lists(record: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Lists of objects, and objects of objects, with their paths, the nearest ones first."""
    level: list[tuple[str, Any]] = [("", record)]
    for _ in range(_DEEPEST):
        below: list[tuple[str, Any]] = []
        for path, holder in level[:_MOST]:
            for name, value in holder.items():
                step = f"{path}.{name}"
                if not _PLAIN.fullmatch(name) or _PARTS.fullmatch(name):
                    continue
                if isinstance(value, list) and value and all(isinstance(item, dict) for item in value[:3]):
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
    """All formats, in the order of their families."""
    found = (f for module in _modules() for f in getattr(module, "FORMATS", ()))
    return tuple(sorted(found, key=lambda f: f.family))


@cache
def refusals() -> tuple[RefusedFormat, ...]:
    """Shapes that cannot be scored, each with the way out."""
    return tuple(r for module in _modules() for r in getattr(module, "REFUSALS", ()))


@cache
def families() -> tuple[str, ...]:
    """What `--format` takes beside `auto`."""
    return tuple(dict.fromkeys(f.family for f in formats()))


@cache
def _modules() -> tuple[object, ...]:
    found = sorted(m.name for m in pkgutil.iter_modules(ruler_cli.formats.__path__))
    plain = (n for n in found if n not in {"detect", "reader"})
    return tuple(importlib.import_module(f"ruler_cli.formats.{name}") for name in plain)
