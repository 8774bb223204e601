"""First records → the format that reads them all, by their keys; lines → records by it and the user's paths."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnknownShapeError, UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse, too_large
from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    first,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    parts,
    value_at,
    words,
)
from ruler_cli.formats import rows
from ruler_cli.formats.chat import nothing_to_judge, prompt_key, with_prompt
from ruler_cli.formats.fields import (
    LISTS,
    Places,
    Rollouts,
    column,
    every,
    is_text_list,
    item_at,
    present,
)
from ruler_cli.formats.table import (
    FAMILIES,
    FORMATS,
    GIVEN,
    OWN,
    PROMPT_HASH,
    SHAPE_ERRORS,
    UNFIT,
    Format,
    code,
    fits,
)
from ruler_cli.messages.conversations import prompt_turns
from ruler_cli.messages.endings import first_ending
from ruler_cli.messages.names import USER_ROLES
from ruler_cli.settings.criteria import rubric_of
from ruler_cli.settings.models import InputSettings, RecordPaths, paths
from ruler_cli.settings.option_names import option_name
from ruler_cli.settings.suggestions import nearest, suggest_path
from ruler_cli.types import Line, Record, Rollout, Standards, printable

_STATES = ("scored", "failed")


@dataclass(frozen=True, slots=True)
class Reader:
    """Read lines as records of one format.

    `key` is the path of the group key, PROMPT_HASH, GIVEN, or the format's `key_description`; `group_by` are the
    user's own paths, which are the key together. `given` are the user's own paths of `reward` and `outcome`, `tools`
    is that of the tools; without them they are as the format reads them. `reference` is that of the reference answer,
    empty if judges are shown none. `prompt` are the user's paths of the task, which is put before a conversation that
    does not begin with it. `labels` maps file names to labels: if several files count their keys anew, the label
    becomes a part of the key. `label_kind` is `task`, `folder` or `file`.
    """

    format: Format
    key: str
    group_by: Sequence[str] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    tools: str = ""
    reference: str = ""
    prompt: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    label_kind: str = ""
    missing: dict[str, str | None] = field(default_factory=dict, compare=False)
    """The user's path of the reward, until a record has a value there, with the nearest one."""

    def read(self, line: Line) -> tuple[Record, ...]:
        """Read one line: one record, or one for each group of a columnar line.

        UnreadableError with the reason if it cannot be scored.
        """
        return self.read_parsed(parse(line.raw), line)

    def read_parsed(self, value: JsonObject, line: Line) -> tuple[Record, ...]:
        """Read the value of a line as `read` reads its bytes."""
        try:
            return self._records(value, line)
        except RecursionError:
            reason = "is nested too deeply to be read; flatten the record"
        # in one place for all formats, whose input is untrusted
        except SHAPE_ERRORS as error:
            reason = f"is not of the shape of {self.format.name} ({error!r:.80})"
        raise UnreadableError(reason)

    def _records(self, value: JsonObject, line: Line) -> tuple[Record, ...]:
        form = self.format
        rollouts = form.rollouts(value)
        if self.given:
            places = [*map(_places, rollouts)]
            given = self.given.values()
            rows.check_lists(value, places, given, listed=form.listed)
        if self.prompt:
            named = "`, `".join(self.prompt)
            rollouts = [
                with_prompt(one, self._task(value, one), named) for one in rollouts
            ]
            if form.shape == "trajectory" and rollouts[0].error is not None:
                raise UnreadableError(rollouts[0].error)
        again = self._was_scored(value, rollouts)
        read = [self._finished(value, rollout, again) for rollout in rollouts]
        tools = None
        if form.shape == "columns":
            groups = self._columns(value, line, read)
        else:
            label = self.labels.get(line.source)
            key = self._key_of(value, line, read)
            groups = {f"{label}: {key}" if label else key: read}
        if form.shape == "group":
            tools = value.get("tools")
        return tuple(
            [
                Record(
                    line,
                    tuple(members),
                    key,
                    *self._rubric(value, members),
                    tools,
                    i,
                    len(groups),
                )
                for i, (key, members) in enumerate(groups.items())
            ]
        )

    def _rubric(
        self, value: JsonObject, rollouts: Rollouts
    ) -> tuple[Standards | None, str]:
        """Return the rubric of these rollouts, and why it cannot be used; None if the record states none."""
        form = self.format
        holders = [value]
        if not form.listed:
            holders += [rollout_object(value, rollout) for rollout in rollouts]
        names = form.rubric.split("|")
        stated = [
            lookup(own, name) for own in holders if is_object(own) for name in names
        ]
        if form.shape == "columns" and is_list(stated[0]):
            stated = [self._own_value(value, one, names[0]) for one in rollouts]
        stated = [one for one in stated if not _is_blank(one)]
        if not stated:
            return None, ""
        if stated.count(stated[0]) < len(stated):
            return None, "is not the same in all its rollouts"
        try:
            return rubric_of(stated[0]), ""
        except UnreadableError as error:
            return None, error.reason

    def _finished(self, value: JsonObject, rollout: Rollout, again: bool) -> Rollout:
        """Return a rollout as it is judged, with its outcome and its reward, the first if it is scored again."""
        rollout = validated(rollout)
        form = self.format
        reward = rollout.reward
        found = {
            name: self.value_at(value, rollout, path)
            for name, path in self.given.items()
        }
        if reward is None and not form.own_reward and form.reward:
            # where the score is written
            reward = self._own_value(value, rollout, form.reward)
        if ended := rollout.ended or self._ending(value, rollout):
            found["ended"] = ended
        reward = found.get("reward", reward)
        if self.missing and found.get("reward") is not None:
            self.missing.clear()
        if self.tools:
            tools = self._shared_at(value, rollout, self.tools)
            found["tools"] = json_value(tools, text=True)
        if self.reference:
            reference = self._shared_at(value, rollout, self.reference)
            found["reference"] = reference
            if reference in EMPTY and rollout.error is None:
                found["error"] = f"has no reference answer at `{self.reference}`"
            elif _is_deep(reference):
                # what cannot be shown whole is not shown, and neither compared with those of others
                found["reference"] = None
                reason = "has a reference answer that is nested too deeply"
                found["error"] = rollout.error or reason
        annotation = self.previous_annotation(value, rollout) if again else None
        if annotation:
            now = reward
            if form.reward and not form.elsewhere:
                now = self._own_value(value, rollout, form.reward)
            at = form.original_in(annotation, now)
            noted = annotation.get("independent_reward")
            if annotation.get("reward_path") is None and noted is not None:
                at = -1  # an older file does not say of which field it is
            if at is not None:
                kept = annotation if at < 0 else annotation["rewards"][at]
                reward = kept.get("independent_reward" if at < 0 else "value")
        if found or reward != rollout.reward:
            return replace(rollout, **found | {"reward": reward})
        return rollout

    def _ending(self, value: JsonObject, rollout: Rollout) -> str:
        """Return how a rollout ended, by what stands below it or below its record; empty if nothing says it."""
        names = self.format.ended
        own = rollout_object(value, rollout)
        holder = {**value, **own} if is_object(own) else value
        # fast, as most records have none of the keys
        there = [path for key, path in _keyed(names) if key in holder]
        at = partial(lookup, holder)
        if self.format.listed or LISTS.search(names):
            at = partial(self.value_at, value, rollout)
        return first_ending(there, at)

    def _task(self, value: JsonObject, rollout: Rollout) -> Any:
        """Return the task at the user's paths: one value, a text of all texts, or a list of messages."""
        found = (self._shared_at(value, rollout, path) for path in self.prompt)
        parts = ["\n".join(one) if is_text_list(one) else one for one in found]
        if all(map(is_text, parts)):
            return "\n\n".join(part for part in parts if part.strip())
        if len(parts) == 1:
            return parts[0]
        turns = map(prompt_turns, parts, self.prompt)
        return [*itertools.chain.from_iterable(turns)]

    def _shared_at(self, value: JsonObject, rollout: Rollout, path: str) -> Any:
        """Return a value that answers to one prompt share, unless its path goes through a list."""
        form = self.format
        if form.listed and form.shape == "group" and not LISTS.search(path):
            return lookup(value, present(value, path))
        return self.value_at(value, rollout, path)

    def _columns(
        self, value: JsonObject, line: Line, rollouts: Rollouts
    ) -> dict[str, Rollouts]:
        """Return the rollouts of each group of a columnar line."""
        groups: dict[str, Rollouts] = {}
        for i, rollout in enumerate(rollouts):
            key = rollout.key
            if self.key_paths:
                key = self._key_at(partial(self.value_at, value, rollout))
                if key is None:
                    where = f"`{self.key}` for rollout {i}"
                    raise UnreadableError(f"has no group key at {where}")
            elif key is None:
                try:
                    key = prompt_key(rollout, value.get("step"))
                except UnreadableError as error:
                    # without a prompt it is a group of its own
                    key = f"rollout {i}"
                    reason = rollout.error or error.reason
                    rollout = replace(rollout, error=reason)  # noqa: PLW2901
            name = f"{line.where}: {key_text(key)}"
            groups.setdefault(name, []).append(rollout)
        if not groups:
            raise UnreadableError("holds no rollouts: its columns are empty")
        return groups

    @property
    def by_prompt(self) -> bool:
        """Tell if the group key is the hash of the prompt."""
        return self.key == PROMPT_HASH

    @property
    def key_paths(self) -> Sequence[str]:
        """The paths of the record at which the group key stands."""
        own = (PROMPT_HASH, GIVEN, self.format.key_description)
        return self.group_by or (() if self.key in own else (self.key,))

    def _key_at(self, value_at: Callable[[str], Any]) -> Any:
        """Return the value at the path of the key; of several paths the list of their values, None if one is absent."""
        values = [value_at(path) for path in self.key_paths]
        if None in values:
            return None
        return values if len(values) > 1 else first(values)

    def _key_of(self, value: JsonObject, line: Line, rollouts: Rollouts) -> str:
        group = self.format.shape == "group"
        key = self._key_at(lambda path: lookup(value, present(value, path)))
        if key is None and group and rollouts:
            own = rollout_object(value, rollouts[0])
            key = self._key_at(partial(lookup, own))
        if self.key == self.format.key_description:
            key = self.format.key_of(value)
        if key is not None:
            return key_text(key)
        if group or self.key == GIVEN:
            return line.where
        if self.by_prompt:
            return prompt_key(rollouts[0], first_at(value, "step", "gen_step"))
        raise UnreadableError(f"has no group key at `{self.key}`")

    def value_at(self, value: JsonObject, rollout: Rollout, names: str) -> Any:
        """Return the value at a path below a rollout of a record, else below the record itself.

        Of several paths, with `|` between them, it is the first that is there.
        """
        path = present(value, names)
        if LISTS.search(path):
            return item_at(value, path, _places(rollout))
        found = self._own_value(value, rollout, path)
        if found is None and not self.format.listed:
            return lookup(value, path)
        return found

    def _own_value(self, value: JsonObject, rollout: Rollout, path: str) -> Any:
        """Return the value at a dotted path below a rollout itself, or its item of the list at that path."""
        if not self.format.listed:
            return lookup(rollout_object(value, rollout), path)
        at = int(rollout.path[0])
        return first(items(lookup(value, path))[at : at + 1])

    def previous_annotation(
        self, value: JsonObject, rollout: Rollout
    ) -> dict[str, Any] | None:
        """Return the annotation of a rollout from an earlier run; None if there is none."""
        places = filter(None, (self.format.annotations, self.format.other_ruler))
        found = (json_value(self._own_value(value, rollout, path)) for path in places)
        return first(filter(is_object, found))

    def _was_scored(self, value: JsonObject, rollouts: Rollouts) -> bool:
        """Tell if ruler scored a record before.

        UnreadableError if it would overwrite another's value, or if a list of rewards or keys does not hold
        one item for each rollout.
        """
        form = self.format
        if form.listed:
            keys = self.key_paths if form.shape == "columns" else ()
            for listed in filter(None, (form.reward, *keys)):
                column(value, listed, len(rollouts))
        again = _is_ours(value, "ruler") or form.other_ruler != ""
        # items of lists have one owner, the record
        for rollout in rollouts[: 1 if form.listed else None]:
            owner = rollout_object(value, rollout)
            again |= _is_ours(owner, form.ruler)
            for dotted in (form.ruler, form.reward):
                path = parts(dotted)
                for i, inner in enumerate(path[1:], 1):
                    holder = value_at(owner, path[:i])
                    kinds = list | dict if isinstance(inner, int) else dict
                    # a key may hold the dots itself
                    if isinstance(holder, kinds | None) or dotted in owner:
                        continue
                    where = f"`{path[i - 1]}`, where ruler would write"
                    raise UnreadableError(f"has no object at {where}; rename it")
        return again


@cache
def _keyed(names: str) -> list[tuple[str, str]]:
    """Return each of several paths behind its first key."""
    return [(str(parts(path)[0]), path) for path in names.split("|")]


def _is_blank(value: Any) -> bool:
    """Tell if a value is empty, or a text of white space."""
    return value in EMPTY or (is_text(value) and not value.strip())


def _is_deep(value: Any, levels: int = 200) -> bool:
    """Tell if lists and objects stand in a value on more than so many levels; orjson writes no more than 254."""
    inner = value.values() if is_object(value) else value if is_list(value) else ()
    return not levels or any(_is_deep(one, levels - 1) for one in inner)


def _places(rollout: Rollout) -> Places:
    """Return the places of a rollout; those of one that a row did not read are in its path."""
    holder = ".".join(map(str, rollout.path[:-1]))
    own = [(holder, part) for part in rollout.path if isinstance(part, int)]
    return rollout.places or tuple(own)


def validated(rollout: Rollout) -> Rollout:
    """Return the rollout, with an error if the agent did nothing in it or a message is no object."""
    if rollout.error is not None:
        return rollout
    talks = (rollout.messages, *rollout.histories)
    known = all({*map(type, talk)} <= {dict} for talk in talks)
    odd = "has a message that is no JSON object"
    reason = nothing_to_judge(rollout) if known else odd
    return replace(rollout, error=reason) if reason else rollout


def rollout_object(value: Any, rollout: Rollout) -> Any:
    """Return a rollout's own object in its record: the record itself if rollouts are items of lists."""
    if rollout.path[:1] and isinstance(rollout.path[0], int):
        return value
    for part in rollout.path:
        value = value[part]
    return value


def hashed_key(name: str, value: Any) -> str:
    """Return a group key of a name and the hash of any JSON value: equal values have equal keys."""
    text = key_text(value).encode("utf-8", "surrogatepass")
    return f"{name}-" + blake2b(text, digest_size=8).hexdigest()


def key_text(value: Any) -> str:
    """Return any JSON value as a group key; equal values have equal keys, integers of any size too."""
    if is_text(value):
        return value
    if type(value) is int:  # fast, as most keys are texts or integers
        return str(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _is_ours(holder: Any, path: str) -> bool:
    """Tell if a value is an annotation, JSON text of one, or a list of those; UnreadableError if it is another's."""
    value = lookup(holder, path)
    if value is None:
        return False
    value = json_value(value, text=True)
    for annotation in items(value) or [value]:
        if annotation is not None and lookup(annotation, "status") not in _STATES:
            raise UnreadableError(
                f"has a field `{path}` that ruler did not write; rename it"
            )
    return True


SAMPLE = 50
"""Number of first records that must agree."""
Records = Sequence[tuple[Line, dict[str, Any]]]


def detect(name: str, first: Sequence[Line], settings: InputSettings) -> Reader:
    """Return a reader of the one format of the first records.

    UsageError if there is none, or more than one, with lines, keys and what to do.
    """
    records = first_records(name, first)
    values = [record for _, record in records]
    row = settings.with_paths(settings.named_row or RecordPaths())
    _refuse_paths(name, values, settings, row)
    own = paths(row.messages or row.answers)
    if callable(settings.format):
        chosen = rows.program_format(settings.format, values)
    elif own:
        title = f"messages at `{own[0]}`"
        if settings.named_row:
            title = settings.format if is_text(settings.format) else "a row"
        chosen = rows.row_format(title, row, values)
    else:
        chosen = _choose(name, records, settings)
        if chosen.rank == OWN:
            row = settings.with_paths(settings.rows[chosen.name])
    records = [pair for pair in records if fits(chosen, pair[1])] or records
    if chosen.refine:
        chosen = code(chosen.refine)(chosen, [record for _, record in records])
    keys = paths(row.group_by)
    reader = Reader(
        chosen,
        " + ".join(keys) or _key_path(chosen, records),
        keys,
        {"outcome": row.outcome} if row.outcome else {},
        row.tools,
        row.reference,
        paths(row.prompt),
    )
    if not keys:
        reader = replace(reader, key=_scored_key(reader, records))
    reward = row.reward if settings.reward is None else settings.reward
    if settings.reward is not None or reward != "reward":
        reader = with_reward(name, reward, reader, records)
        if _lack(places := _holders(values), reward):
            reader.missing[reward] = suggest_path(reward, places)
    if settings.format == "auto" and chosen.rank < 1:
        _refuse_prompts(name, reader, records)
    return reader


def _refuse_prompts(name: str, reader: Reader, records: Records) -> None:
    """Raise UsageError if no record holds an answer."""
    read = [record for line, _ in records for record in _read(reader, line)]
    rollouts = [rollout for record in read for rollout in record.rollouts]
    # a role may be anything, also what cannot be hashed
    roles = [message.get("role") for one in rollouts for message in one.messages]
    if roles and all(role in USER_ROLES for role in roles):
        problem = f"{records[0][0].where} is a prompt without an answer, as is every record read"
        raise UsageError(problem, "give the rollouts", place=name)


def first_records(name: str, first: Sequence[Line]) -> Records:
    """Return the first lines that are JSON objects; UsageError if none is."""
    records = []
    problem = ""
    for line in first:
        try:
            records.append((line, parse(line.raw)))
        except UnreadableError as error:
            reason = too_large(line.skipped) if line.skipped else error
            problem = problem or f"{line.where} {reason}"
    if not records:
        remedy = "give JSON lines, one object a line, or one JSON document"
        raise UsageError(problem, remedy, place=name)
    return records


def _read(reader: Reader, line: Line) -> tuple[Record, ...]:
    """Read a line; () if it cannot be read, which is reported when the line is scored."""
    try:
        return reader.read(line)
    except UnreadableError:
        return ()


def formats_of(wanted: str, own: Iterable[str] = ()) -> list[Format]:
    """Return the formats of a family, or all for `auto`; UsageError if there are none."""
    if wanted != "auto" and wanted not in FAMILIES:
        suggestion = nearest(wanted, ("auto", *FAMILIES, *own))
        choices = f"give auto or one of {', '.join(FAMILIES)}"
        remedy = f"did you mean {suggestion}?" if suggestion else choices
        raise UsageError("no such format", remedy, place=f"--format {wanted}")
    return [form for form in FORMATS if wanted in ("auto", form.family)]


def _choose(name: str, records: Records, settings: InputSettings) -> Format:
    wanted = str(settings.format)
    values = [record for _, record in records]
    candidates = [
        rows.row_format(title, row, values)
        for title, row in settings.rows.items()
        if row.has and wanted == "auto"
    ]
    candidates += formats_of(wanted, settings.rows)
    votes: dict[Format, Line] = {}
    for line, record in records:
        matches = [form for form in candidates if fits(form, record)]
        # a generic one only if no named one does, and the user's before both
        rank = max((form.rank for form in matches), default=None)
        for form in matches:
            if form.rank == rank:
                votes.setdefault(form, line)
    if len(votes) > 1:
        (one, here), (other, there) = list(votes.items())[:2]
        # a format for several answers also takes one
        named = other if other.family == "prompt-responses" else one
        remedy = f"split the file, or name it: --format {named.family}"
        both = f"{here.where} looks like {one.name}, {there.where} like {other.name}"
        raise UsageError(both, remedy, place=name)
    line, record = records[0]
    if not votes and any("trajectories" in value for value in values):
        # a group without trajectories, or with unknown ones: ruler's own rather than ART's
        votes = {form: line for form in candidates if form.name == "native groups"}
    for form in votes:
        return form
    keys = f"(its keys: {first_keys(record) or 'none'})"
    if wanted != "auto":
        problem = f"{line.where} is not of the format {wanted} {keys}"
        raise UsageError(problem, place=name)
    if (framework := _no_longer_read(record)) is not None:
        problem = f"{line.where} is of {framework}, which this version does not read"
        way = "name the paths of its parts, or export traces by OpenTelemetry's names (`gen_ai.…`)"
        raise UsageError(problem, way, place=name)
    remedy = (
        "name the path of the answers with --messages PATH, of the task with --prompt PATH, and of the "
        "group key with --group-by PATH"
    )
    problem = f"{line.where} holds no rollouts that ruler knows {keys}"
    unknown = UnknownShapeError(problem, remedy, place=name)
    unknown.values = values
    raise unknown


_NO_LONGER_READ = {
    "AutoGen 0.2": '"human_input":[',
    "CrewAI": '"tasks_output":[{',
    "ADK evaluations": '"finalEvalStatus":',
    "DeepEval": '"llmSpans":',
    "MLflow": '"mlflow.span',
    "Weave": '"op_name":"weave:',
    "Vercel's AI SDK": '"ai.operationId":',
    "ADK's tracer": '"gcp.vertex.agent.',
    "Jaeger": '"traceID":',
    "AgentOps": '"span_attributes":',
}
"""Names of formats that earlier versions read → JSON that only their records hold."""


def _no_longer_read(record: JsonObject) -> str | None:
    text = dump(record).decode("utf-8", "replace")
    return first(name for name, mark in _NO_LONGER_READ.items() if mark in text)


def _key_path(chosen: Format, records: Records) -> str:
    for _, record in records:
        with suppress(*UNFIT):
            if chosen.key_of(record) is not None:
                return chosen.key_description
    for path in chosen.key_paths:
        if any(lookup(record, path) is not None for _, record in records):
            return path
    return PROMPT_HASH


def _scored_key(reader: Reader, records: Records) -> str:
    """Return the path of the group key that an earlier run wrote, if its groups differ from the reader's.

    They differ if that run read several files and added labels to their keys. Else return the reader's key.
    """
    path = f"{reader.format.ruler}.group.key"
    keys = [lookup(record, path) for _, record in records]
    if reader.format.shape != "trajectory" or not all(map(is_text, keys)):
        return reader.key
    read = [[record.key for record in _read(reader, line)] for line, _ in records]
    return reader.key if read == [[key] for key in keys] else path


_REFUSED = "messages answers prompt tools reference group_by outcome"
"""Paths that some of the first records must have."""


def _refuse_paths(
    name: str, values: Sequence[JsonObject], settings: InputSettings, row: RecordPaths
) -> None:
    """Raise UsageError for a path of the user's that no record has, or that leads to what is no group."""
    if settings.messages and settings.format in FAMILIES:
        form = str(settings.format)
        remedy = f"leave --format {form} out, or --messages"
        problem = "is for dumps that no format fits"
        path = paths(settings.messages)[0]
        raise UsageError(problem, remedy, place=f"--messages {path}")
    whole = _holders(values)
    for name_of in words(_REFUSED):
        own = name_of in ("messages", "answers")
        places = values if own else whole
        for path in filter(None, paths(getattr(row, name_of))):
            if not _lack(places, path):
                continue
            near = suggest_path(path, places)
            keys = f"their keys: {first_keys(values[0])}"
            flag = bool(getattr(settings, name_of, None))
            field = settings.outcome_option if name_of == "outcome" else name_of
            where = f"[formats.{settings.format}] {field}"
            if flag:
                where = f"{option_name(field)} {path}"
            raise UsageError(
                f"none of the first records has {'it' if flag else f'`{path}`'}",
                f"did you mean {printable(near)}?" if near else keys,
                place=f"{name}: {where}",
            )


def _holders(values: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Return records, and the trajectories in them."""
    return [
        *values,
        *(one for value in values for one in items(value.get("trajectories"))),
    ]


def _lack(places: Sequence[JsonObject], path: str) -> bool:
    """Tell if none has a value at a path."""
    found = (
        value for place in places for _, value in every(place, present(place, path))
    )
    return all(value is None for value in found)


def first_keys(record: JsonObject) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(printable(key) for key in itertools.islice(record, 12))


_TRIED = 5
"""Number of records in which a score is tried before any is written."""


def with_reward(name: str, given: str, reader: Reader, records: Records) -> Reader:
    """Return the reader with its reward at a path; UsageError if a score there overwrites what is read."""
    from ruler_cli.formats.annotate import ORIGINAL, annotate

    form = reader.format
    read = {**reader.given, "reward": given}
    dotted = given
    if LISTS.search(given):
        # read there; what is written has one place, of each rollout or of none
        dotted = given.rpartition("[].")[2]
        if form.listed or dotted != form.reward:
            form = replace(form, elsewhere=True, reward="", read_at=given)
            return replace(reader, format=form, given=read)
    ours = ["ruler", form.ruler]
    if form.extras:
        ours += ["logs", "metrics.ruler_score", f"metrics.{ORIGINAL}"]
    path = parts(dotted)
    # `-1` is another item in a longer list; a trajectory that stands twice is read from its copy
    taken = form.payload is not None or not {"", "-1"}.isdisjoint(path)
    taken |= any(path[: len(other)] == other[: len(path)] for other in map(parts, ours))
    form = replace(
        form,
        reward=dotted,
        elsewhere=False,
        absent=None,
        written=b"%s",
        lost=b"null",
    )
    for line, _ in records[:_TRIED]:
        before = _shown(reader, line)
        scored = [
            (rollout, _SCORED) for record in before for rollout in record.rollouts
        ]
        if taken or not scored:
            continue  # what cannot be read is reported when it is read
        with suppress(RecursionError):  # too deep to compare; other records tell
            raw = annotate(line.raw, form, scored, _SCORED, "null")
            taken = _shown(reader, replace(line, raw=raw)) != before
    if taken:
        raise UsageError(
            "is no free place for a score",
            "name a field that ruler neither reads nor writes, by keys and the numbers of items",
            place=f"{name}: --reward {dotted}",
        )
    return replace(reader, format=form, given=read)


_SCORED = {"status": "scored", "score": 0.5}
"""An annotation to try."""


def _shown(reader: Reader, line: Line) -> list[Record]:
    """Return what the judge sees of the records of a line, and their group keys."""
    bare = partial(replace, reward=None, outcome=None)
    here = replace(line, raw=b"")
    return [
        replace(record, line=here, rollouts=tuple(map(bare, record.rollouts)))
        for record in _read(reader, line)
    ]
