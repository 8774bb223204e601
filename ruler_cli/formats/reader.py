"""First records → the format that reads them all, by their keys; lines → records by it and the user's paths."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
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
from ruler_cli.formats.chat import nothing_to_judge, with_prompt
from ruler_cli.formats.format import OWN, SHAPE_ERRORS, UNFIT, Format
from ruler_cli.formats.keys import (
    GIVEN,
    PROMPT_HASH,
    GroupKey,
    key_text,
    prompt_key,
)
from ruler_cli.formats.names import CONVERSATION
from ruler_cli.formats.paths import (
    LISTS,
    RolloutPaths,
    Rollouts,
    column,
    every,
    first_list,
    is_text_list,
    present,
    rollout_object,
)
from ruler_cli.formats.table import (
    FAMILIES,
    FORMATS,
    code,
    fits,
    key_of,
    rollouts_of,
)
from ruler_cli.messages.conversations import prompt_turns
from ruler_cli.messages.endings import first_ending
from ruler_cli.messages.names import USER_ROLES
from ruler_cli.settings.criteria import rubric_of
from ruler_cli.settings.fields import option_name, paths
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.settings.suggestions import nearest, suggest_path
from ruler_cli.types import Line, Record, Rollout, Standards, printable

_STATES = ("scored", "failed")


@dataclass(frozen=True, slots=True)
class Reader:
    """Read lines as records of one format.

    `group_key` is the rule of the group key. `given` are the user's own paths of `reward` and `outcome`, `tools`
    is that of the tools; without them they are as the format reads them. `reference` is that of the reference answer,
    empty if judges are shown none. `prompt` are the user's paths of the task, which is put before a conversation that
    does not begin with it. `labels` maps file names to labels: if several files count their keys anew, the label
    becomes a part of the key. `label_kind` is `task`, `folder` or `file`.
    """

    format: Format
    group_key: GroupKey
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
            reason = (
                f"is not of the shape of {self.format.name} ({error!r:.80})"
            )
        raise UnreadableError(reason)

    def _records(self, value: JsonObject, line: Line) -> tuple[Record, ...]:
        form = self.format
        rollouts = rollouts_of(form, value)
        if self.given:
            places = [
                self._values(value, rollout).places for rollout in rollouts
            ]
            own_paths = self.given.values()
            rows.check_lists(value, places, own_paths, listed=form.listed)
        if self.prompt:
            named = "`, `".join(self.prompt)
            rollouts = [
                with_prompt(one, self._task(value, one), named)
                for one in rollouts
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
            lookup(own, name)
            for own in holders
            if is_object(own)
            for name in names
        ]
        if form.shape == "columns" and is_list(stated[0]):
            stated = [
                self._values(value, rollout).own(names[0])
                for rollout in rollouts
            ]
        stated = [one for one in stated if not _is_blank(one)]
        if not stated:
            return None, ""
        if stated.count(stated[0]) < len(stated):
            return None, "is not the same in all its rollouts"
        try:
            return rubric_of(stated[0]), ""
        except UnreadableError as error:
            return None, error.reason

    def _finished(
        self, value: JsonObject, rollout: Rollout, again: bool
    ) -> Rollout:
        """Return a rollout as it is judged, with its outcome and its reward, the first if it is scored again."""
        rollout = validated(rollout)
        form = self.format
        values = self._values(value, rollout)
        reward = rollout.reward
        found = {name: values.at(path) for name, path in self.given.items()}
        if reward is None and not form.own_reward and form.reward:
            # where the score is written
            reward = values.own(form.reward)
        if ended := rollout.ended or self._ending(value, rollout):
            found["ended"] = ended
        reward = found.get("reward", reward)
        if self.missing and found.get("reward") is not None:
            self.missing.clear()
        if self.tools:
            tools = self._shared(values, self.tools)
            found["tools"] = json_value(tools, text=True)
        if self.reference:
            reference = self._shared(values, self.reference)
            found["reference"] = reference
            if reference in EMPTY and rollout.error is None:
                found["error"] = (
                    f"has no reference answer at `{self.reference}`"
                )
            elif _is_deep(reference):
                # what cannot be shown whole is not shown, and neither compared with those of others
                found["reference"] = None
                reason = "has a reference answer that is nested too deeply"
                found["error"] = rollout.error or reason
        annotation = self.previous_annotation(value, rollout) if again else None
        if annotation:
            now = reward
            if form.reward and not form.elsewhere:
                now = values.own(form.reward)
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
        if not is_object(own):
            own = value
        # most records have none of the keys, and most objects none of the members
        present_paths = [
            path
            for key, member, path in _keyed(names)
            if (key in own or key in value)
            and _may_hold(own[key] if key in own else value[key], member)
        ]
        if not present_paths:
            return ""
        if self.format.listed or LISTS.search(names):
            return first_ending(present_paths, self._values(value, rollout).at)
        return first_ending(present_paths, partial(lookup, {**value, **own}))

    def _task(self, value: JsonObject, rollout: Rollout) -> Any:
        """Return the task at the user's paths: one value, a text of all texts, or a list of messages."""
        values = self._values(value, rollout)
        found = (self._shared(values, path) for path in self.prompt)
        parts = ["\n".join(one) if is_text_list(one) else one for one in found]
        if all(map(is_text, parts)):
            return "\n\n".join(part for part in parts if part.strip())
        if len(parts) == 1:
            return parts[0]
        turns = map(prompt_turns, parts, self.prompt)
        return [*itertools.chain.from_iterable(turns)]

    def _columns(
        self, value: JsonObject, line: Line, rollouts: Rollouts
    ) -> dict[str, Rollouts]:
        """Return the rollouts of each group of a columnar line."""
        groups: dict[str, Rollouts] = {}
        for i, rollout in enumerate(rollouts):
            key = rollout.key
            if self.key_paths:
                key = self.group_key.value(self._values(value, rollout).at)
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
    def key(self) -> str:
        """The group key's path or rule, for messages."""
        return self.group_key.name

    @property
    def by_prompt(self) -> bool:
        """Return whether the group key is the hash of the prompt."""
        return self.key == PROMPT_HASH

    @property
    def key_paths(self) -> Sequence[str]:
        """The paths of the record at which the group key stands."""
        return self.group_key.paths

    def _values(self, record: JsonObject, rollout: Rollout) -> RolloutPaths:
        return RolloutPaths(record, rollout, self.format.listed)

    def value_at(self, record: JsonObject, rollout: Rollout, names: str) -> Any:
        """Return the value at a path below a rollout of a record, else below the record itself."""
        return self._values(record, rollout).at(names)

    def _shared(self, values: RolloutPaths, path: str) -> Any:
        return (
            values.shared(path)
            if self.format.shape == "group"
            else values.at(path)
        )

    def _key_of(self, value: JsonObject, line: Line, rollouts: Rollouts) -> str:
        group = self.format.shape == "group"
        rule = self.group_key
        key = rule.value(lambda path: lookup(value, present(value, path)))
        if key is None and group and rollouts:
            own = rollout_object(value, rollouts[0])
            key = rule.value(partial(lookup, own))
        if self.key == self.format.key_description:
            key = key_of(self.format, value)
        if key is not None:
            return key_text(key)
        if group or rule.name == GIVEN:
            return line.where
        if self.by_prompt:
            return prompt_key(rollouts[0], first_at(value, "step", "gen_step"))
        raise UnreadableError(f"has no group key at `{self.key}`")

    def previous_annotation(
        self, value: JsonObject, rollout: Rollout
    ) -> dict[str, Any] | None:
        """Return the annotation of a rollout from an earlier run; None if there is none."""
        places = filter(
            None, (self.format.annotations, self.format.other_ruler)
        )
        values = self._values(value, rollout)
        found = (json_value(values.own(path)) for path in places)
        return first(filter(is_object, found))

    def _was_scored(self, value: JsonObject, rollouts: Rollouts) -> bool:
        """Return whether ruler scored a record before.

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
                    raise UnreadableError(
                        f"has no object at {where}; rename it"
                    )
        return again


@cache
def _keyed(names: str) -> list[tuple[str, str, str]]:
    """Return the first two keys of each of several paths, the second empty if there is none, and the path."""
    places = [(parts(path), path) for path in names.split("|")]
    return [(str(p[0]), "".join(map(str, p[1:2])), path) for p, path in places]


def _may_hold(value: Any, member: str) -> bool:
    return not member or not is_object(value) or member in value


def _is_blank(value: Any) -> bool:
    """Return whether a value is empty, or a text of white space."""
    return value in EMPTY or (is_text(value) and not value.strip())


def _is_deep(value: Any, levels: int = 200) -> bool:
    """Return whether lists and objects stand in a value on more than so many levels; orjson writes no more than 254."""
    inner = (
        value.values() if is_object(value) else value if is_list(value) else ()
    )
    return not levels or any(_is_deep(one, levels - 1) for one in inner)


def validated(rollout: Rollout) -> Rollout:
    """Return the rollout, with an error if the agent did nothing in it or a message is not an object."""
    if rollout.error is not None:
        return rollout
    talks = (rollout.messages, *rollout.histories)
    known = all({*map(type, talk)} <= {dict} for talk in talks)
    odd = "has a message that is not a JSON object"
    reason = nothing_to_judge(rollout) if known else odd
    return replace(rollout, error=reason) if reason else rollout


def _is_ours(holder: Any, path: str) -> bool:
    """Return whether a value is an annotation, JSON text of one, or a list of them; UnreadableError for another's."""
    value = lookup(holder, path)
    if value is None:
        return False
    value = json_value(value, text=True)
    for annotation in items(value) or [value]:
        if (
            annotation is not None
            and lookup(annotation, "status") not in _STATES
        ):
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
        GroupKey.of_paths(*keys) if keys else _key_rule(chosen, records),
        {"outcome": row.outcome} if row.outcome else {},
        row.tools,
        row.reference,
        paths(row.prompt),
    )
    if not keys:
        reader = replace(reader, group_key=_scored_key(reader, records))
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
    roles = [
        message.get("role") for one in rollouts for message in one.messages
    ]
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
        votes = {
            form: line for form in candidates if form.name == "native groups"
        }
    for form in votes:
        return form
    keys = f"(its keys: {first_keys(record) or 'none'})"
    if wanted != "auto":
        problem = f"{line.where} is not of the format {wanted} {keys}"
        raise UsageError(problem, place=name)
    if (framework := _no_longer_read(record)) is not None:
        problem = (
            f"{line.where} is of {framework}, which this version does not read"
        )
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


def _key_rule(chosen: Format, records: Records) -> GroupKey:
    for _, record in records:
        with suppress(*UNFIT):
            if key_of(chosen, record) is not None:
                return GroupKey(chosen.key_description)
    for path in chosen.key_paths:
        if any(lookup(record, path) is not None for _, record in records):
            return GroupKey.of_paths(path)
    return GroupKey(PROMPT_HASH)


def _scored_key(reader: Reader, records: Records) -> GroupKey:
    """Return the rule of the group key that an earlier run wrote, if its groups differ from the reader's.

    They differ if that run read several files and added labels to their keys. Else return the reader's key.
    """
    path = f"{reader.format.ruler}.group.key"
    keys = [lookup(record, path) for _, record in records]
    if reader.format.shape != "trajectory" or not all(map(is_text, keys)):
        return reader.group_key
    read = [
        [record.key for record in _read(reader, line)] for line, _ in records
    ]
    is_same = read == [[key] for key in keys]
    return reader.group_key if is_same else GroupKey.of_paths(path)


_REFUSED = "messages answers prompt tools reference group_by outcome"
"""Paths that some of the first records must have."""


def _refuse_paths(
    name: str,
    values: Sequence[JsonObject],
    settings: InputSettings,
    row: RecordPaths,
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
    """Return whether none has a value at a path."""
    found = (
        value
        for place in places
        for _, value in every(place, present(place, path))
    )
    return all(value is None for value in found)


def first_keys(record: JsonObject) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(printable(key) for key in itertools.islice(record, 12))


def with_reward(
    name: str, given: str, reader: Reader, records: Records
) -> Reader:
    """Return the reader with its reward at a path; UsageError if a score there overwrites what is read."""
    form = reader.format
    read = {**reader.given, "reward": given}
    dotted = given
    if LISTS.search(given):
        # read there; what is written has one place, of each rollout or of none
        dotted = given.rpartition("[].")[2]
        if form.listed or dotted != form.reward:
            form = replace(form, elsewhere=True, reward="", read_at=given)
            return replace(reader, format=form, given=read)
    if not _is_free(reader, dotted):
        raise UsageError(
            "is not a free place for a score",
            "name a field that ruler neither reads nor writes, by keys and the numbers of items",
            place=f"{name}: --reward {dotted}",
        )
    form = replace(
        form,
        reward=dotted,
        elsewhere=False,
        absent=None,
        written=b"%s",
        lost=b"null",
    )
    return replace(reader, format=form, given=read)


def _is_free(reader: Reader, path: str) -> bool:
    """Return whether a score may be written at a path: nothing that is shown, or is a key, is read or written there."""
    form = reader.format
    place = parts(path)
    # `-1` is another item in a longer list; a trajectory that stands twice is read from its copy
    if form.payload is not None or not {"", "-1"}.isdisjoint(place):
        return False
    taken = ["ruler", form.ruler, "step", "gen_step", *form.ended.split("|")]
    if form.extras:
        taken += ["logs", "metrics.ruler_score", "metrics.independent_reward"]
    for paths_read in (form.messages, form.answers, form.prompt, reader.prompt):
        taken += [
            path for names in paths(paths_read) for path in names.split("|")
        ]
    taken += [*reader.key_paths, *form.key_paths, form.member, reader.reference]
    taken += [reader.tools, form.tools, *form.rubric.split("|")]
    reward = parts(form.reward)
    if not reward or place[0] != reward[0]:
        taken += [*CONVERSATION, *re.findall(r"[\w.]+", form.has)]
    for other in filter(None, taken):
        start = parts(first_list(other))
        shorter = min(len(start), len(place))
        if start[:shorter] == place[:shorter]:
            return False
    return True
