"""First records → the format that reads them all, by their keys; lines → records by it and the user's paths."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from ruler_cli.errors import UnknownShapeError, UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse, parse_value
from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    first,
    first_at,
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
    CALLERS_GROUP,
    ITEM_IDS,
    PROMPT_HASH,
    REPEATED_IDS,
    GroupKey,
    hashed_key,
    key_text,
    prompt_key,
)
from ruler_cli.formats.names import CONVERSATION
from ruler_cli.formats.paths import (
    LISTS,
    RolloutPaths,
    Rollouts,
    alternatives,
    every,
    first_list,
    is_text_list,
    present,
    rollout_object,
)
from ruler_cli.formats.table import (
    FAMILIES,
    FORMATS,
    NO_LONGER_READ,
    fits,
    key_of,
    rollouts_of,
)
from ruler_cli.messages.conversations import prompt_turns
from ruler_cli.messages.endings import first_ending
from ruler_cli.settings.extensions import extensions
from ruler_cli.settings.fields import option_name, paths
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.settings.rubric import rubric_of
from ruler_cli.settings.suggestions import suggestion_for
from ruler_cli.types import Line, Record, Rollout, Standards, printable

_STATES = ("scored", "failed")


@dataclass(frozen=True, slots=True)
class Reader:
    """Read lines as records of one format.

    `group_key` is the rule of the group key. `value_paths` are the user's own paths of `reward` and `outcome`, `tools`
    is that of the tools; without them they are as the format reads them. `reference` is that of the reference answer,
    empty if judges are shown none. `prompt` are the user's paths of the task, which is put before a conversation that
    does not begin with it. `labels` maps file names to labels: if several files count their keys anew, the label
    becomes a part of the key. `label_kind` is `task`, `folder` or `file`.
    """

    format: Format
    group_key: GroupKey
    value_paths: Mapping[str, str] = field(default_factory=dict)
    tools: str = ""
    reference: str = ""
    prompt: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    label_kind: str = ""
    missing: set[str] = field(default_factory=set, compare=False)
    """The user's path of the reward, until a record has a value there, with the nearest one."""

    def read(
        self,
        line: Line,
    ) -> tuple[Record, ...]:
        """Read one line: one record, or one for each group of a columnar line.

        UnreadableError with the reason if it cannot be scored.
        """
        return self.read_parsed(parse(line.raw), line)

    def read_parsed(
        self,
        value: JsonObject,
        line: Line,
    ) -> tuple[Record, ...]:
        """Read the value of a line as `read` reads its bytes."""
        try:
            return self._records(value, line)
        except RecursionError:
            reason = "is nested too deeply to be read; flatten the record"
        # in one place for all formats, whose input is untrusted
        except SHAPE_ERRORS as error:
            reason = (
                f"does not have the shape of {self.format.name} ({error!r:.80})"
            )
        raise UnreadableError(reason)

    def _records(
        self,
        value: JsonObject,
        line: Line,
    ) -> tuple[Record, ...]:
        form = self.format
        rollouts = rollouts_of(form, value)
        self._check_lists(value, rollouts)
        if self.prompt:
            rollouts = self._with_task(value, rollouts)
        self._refuse_foreign(value, rollouts)
        read = [self._finished(value, rollout) for rollout in rollouts]
        tools = value.get("tools") if form.shape == "group" else None
        if form.shape == "columns":
            groups = self._columns(value, line, read)
        else:
            key = self._key_of(value, line, read)
            label = self.labels.get(line.source)
            groups = {f"{label}: {key}" if label else key: read}
        records = []
        for part, (key, members) in enumerate(groups.items()):
            rubric, error = self._rubric(value, members)
            record = Record(
                line,
                tuple(members),
                key,
                rubric,
                error,
                tools,
                part,
                len(groups),
            )
            records.append(record)
        return tuple(records)

    def _check_lists(
        self,
        value: JsonObject,
        rollouts: Rollouts,
    ) -> None:
        """Raise UnreadableError if a list has not one item for each rollout: nothing tells which belong together."""
        form = self.format
        size = len(rollouts)
        places = [self.values(value, rollout).places for rollout in rollouts]
        own_lists = {path for listed in places for path, _ in listed}
        beside = [*self.value_paths.values(), form.outcome, form.tools]
        for path in alternatives([*beside, *paths(form.prompt)]):
            held = [listed for listed, _ in every(value, path) if listed]
            if not held or len(held) == size:
                continue
            last_list, number = held[0][-1]
            if last_list not in own_lists and isinstance(number, int):
                raise _wrong_size(first_list(path), size)
        if not form.listed:
            return
        columns = [form.reward, *self.value_paths.values()]
        if form.shape == "columns":
            columns += self.group_key.paths
        for path in alternatives(columns):
            column = lookup(value, path) if path else None
            if column is not None and len(items(column)) != size:
                raise _wrong_size(path, size)

    def _rubric(
        self,
        value: JsonObject,
        rollouts: Rollouts,
    ) -> tuple[Standards | None, str]:
        """Return the rubric of these rollouts, and the reason why it cannot be used; None if the record states none."""
        names = self.format.rubric.split("|")
        rubrics = []
        for rollout in rollouts:
            values = self.values(value, rollout)
            for rubric in map(values.shared, names):
                text = rubric.strip() if is_text(rubric) else rubric
                if text not in EMPTY:
                    rubrics.append(rubric)
        if not rubrics:
            return None, ""
        if rubrics.count(rubrics[0]) < len(rubrics):
            return None, "is not the same in all its rollouts"
        try:
            return rubric_of(rubrics[0]), ""
        except UnreadableError as error:
            return None, error.reason

    def _finished(
        self,
        value: JsonObject,
        rollout: Rollout,
    ) -> Rollout:
        """Return a rollout with its outcome and its original reward, as it is judged."""
        form = self.format
        values = self.values(value, rollout)
        changes = {
            name: values.at(path) for name, path in self.value_paths.items()
        }
        if form.outcome and not (rollout.error or "outcome" in changes):
            stated = map(values.at, form.outcome.split("|"))
            outcomes = [outcome for outcome in stated if outcome is not None]
            changes["outcome"] = first(outcomes)
        reward = changes.get("reward")
        if reward is not None:
            self.missing.clear()
        if "reward" not in changes:
            reward = rollout.reward
            if reward is None and not form.own_reward and form.reward:
                # where the score is written
                reward = values.in_rollout(form.reward)
            if reward is None and form.absent:
                reward = parse_value(form.absent)
        reward = self._original_reward(values, reward)
        if changes or reward != rollout.reward:
            changes["reward"] = reward
        if ended := rollout.ended or self._ending(values):
            changes["ended"] = ended
        if path := self.tools or form.tools:
            offered = map(values.shared, path.split("|"))
            tools = first([value for value in offered if value not in EMPTY])
            changes["tools"] = json_value(tools, text=True)
        error = rollout.error or nothing_to_judge(rollout)
        if self.reference:
            reference = values.shared(self.reference)
            lack = ""
            if reference in EMPTY:
                lack = f"has no reference answer at `{self.reference}`"
            elif _is_deep(reference):
                # what cannot be shown whole is not shown, and neither compared with those of others
                reference = None
                lack = "has a reference answer that is nested too deeply"
            changes["reference"] = reference
            error = error or lack or None
        if changes or error != rollout.error:
            return replace(rollout, **changes, error=error)
        return rollout

    def _original_reward(
        self,
        values: RolloutPaths,
        reward: Any,
    ) -> Any:
        """Return the reward that a rollout had before an earlier run wrote a score in its place."""
        form = self.format
        annotation = self.previous_annotation(values)
        if not annotation:
            return reward
        now = values.in_rollout(form.reward) if form.reward else reward
        at = form.original_in(annotation, now)
        return reward if at is None else value_at(annotation, at)

    def _ending(
        self,
        values: RolloutPaths,
    ) -> str:
        """Return how a rollout ended, by the values below it or below its record; empty if none says so."""
        names = self.format.ended
        inner = rollout_object(values.record, values.rollout)
        both = values.record
        if is_object(inner):
            both = {**both, **inner}
        # most records have none of the keys
        held = [
            path for key, path in _keyed(names) if key in both or path in both
        ]
        if values.is_listed or LISTS.search(names):
            return first_ending(held, values.at)
        return first_ending(held, partial(lookup, both))

    def _with_task(
        self,
        value: JsonObject,
        rollouts: Rollouts,
    ) -> Rollouts:
        """Put the task at the user's paths before each rollout: a text of all texts, or messages."""
        named = "`, `".join(self.prompt)
        asked = []
        for rollout in rollouts:
            task = self._task(value, rollout)
            asked.append(with_prompt(rollout, task, named))
        if self.format.shape == "trajectory" and asked[0].error is not None:
            raise UnreadableError(asked[0].error)
        return asked

    def _task(
        self,
        value: JsonObject,
        rollout: Rollout,
    ) -> Any:
        """Return the task at the user's paths: one value, a text of all texts, or a list of messages."""
        values = self.values(value, rollout)
        parts = []
        for path in self.prompt:
            part = values.shared(path)
            parts.append("\n".join(part) if is_text_list(part) else part)
        if all(map(is_text, parts)):
            return "\n\n".join(filter(str.strip, parts))
        if len(parts) == 1:
            return parts[0]
        turns = map(prompt_turns, parts, self.prompt)
        return [*itertools.chain.from_iterable(turns)]

    def _columns(
        self,
        value: JsonObject,
        line: Line,
        rollouts: Rollouts,
    ) -> dict[str, Rollouts]:
        """Return the rollouts of each group of a columnar line."""
        if not rollouts:
            raise UnreadableError("holds no rollouts: its columns are empty")
        groups: dict[str, Rollouts] = {}
        for i, rollout in enumerate(rollouts):
            key = rollout.key
            if self.group_key.paths:
                key = self.group_key.value(self.values(value, rollout).at)
                if key is None:
                    raise UnreadableError(
                        f"has no group key at `{self.key}` for rollout {i}"
                    )
            elif key is None:
                # without a prompt it is a group of its own
                step = value.get("step")
                key = prompt_key(rollout, step) or f"rollout {i}"
            name = f"{line.where}: {key_text(key)}"
            groups.setdefault(name, []).append(rollout)
        return groups

    @property
    def key(self) -> str:
        """The group key's path or rule, for messages."""
        return self.group_key.name

    @property
    def by_prompt(self) -> bool:
        """Return whether the group key is the hash of the prompt."""
        return self.key == PROMPT_HASH

    def values(
        self,
        record: JsonObject,
        rollout: Rollout,
    ) -> RolloutPaths:
        """Return the values of a record that belong to one of its rollouts."""
        form = self.format
        is_group = form.shape == "group"
        return RolloutPaths(
            record,
            rollout,
            form.listed,
            is_group,
        )

    def _key_of(
        self,
        value: JsonObject,
        line: Line,
        rollouts: Rollouts,
    ) -> str:
        rule = self.group_key
        written = lookup(value, rule.written) if rule.written else None
        if written and is_text(written):
            return written
        is_group = self.format.shape == "group"
        key = rule.value(lambda path: lookup(value, present(value, path)))
        if key is None and is_group and rollouts:
            first_rollout = rollout_object(value, rollouts[0])
            key = rule.value(partial(lookup, first_rollout))
        if rule.name == self.format.key_description:
            key = key_of(self.format, value)
        if key is not None and not rule.of_item:
            return key_text(key)
        if is_group or rule.name == CALLERS_GROUP:
            return line.where
        if not (self.by_prompt or rule.of_item):
            raise UnreadableError(f"has no group key at `{self.key}`")
        step = first_at(value, "step", "gen_step")
        task = prompt_key(rollouts[0], step)
        if key is not None:
            return f"{key_text(key)} {task}".strip()
        # without a prompt it is a group of its own, wherever it stands later
        alone = [line.where, rollouts[0].messages]
        return task or hashed_key("rollout", alone)

    def previous_annotation(
        self, values: RolloutPaths
    ) -> dict[str, Any] | None:
        """Return the annotation of a rollout from an earlier run; None if there is none."""
        form = self.format
        for path in filter(None, (form.annotations, form.other_ruler)):
            annotation = json_value(values.in_rollout(path))
            if is_object(annotation):
                return annotation
        return None

    def _refuse_foreign(
        self,
        value: JsonObject,
        rollouts: Rollouts,
    ) -> None:
        """Raise UnreadableError if ruler would overwrite another's value in a record."""
        form = self.format
        owners = [rollout_object(value, rollout) for rollout in rollouts]
        _refuse_others(value, "ruler")
        # items of lists have one owner, the record
        for owner in owners[:1] if form.listed else owners:
            _refuse_others(owner, form.ruler)
            for dotted in (form.ruler, form.reward):
                place = parts(dotted)
                for i, inner in enumerate(place[1:], 1):
                    holder = value_at(owner, place[:i])
                    kinds = list | dict if isinstance(inner, int) else dict
                    # a key may hold the dots itself
                    if isinstance(holder, kinds | None) or dotted in owner:
                        continue
                    where = f"`{place[i - 1]}`, where ruler would write"
                    raise UnreadableError(
                        f"has no object at {where}; rename it"
                    )


@cache
def _keyed(names: str) -> list[tuple[str, str]]:
    """Return each of several paths behind its first key."""
    return [
        (str(parts(first_list(path))[0]), path) for path in names.split("|")
    ]


def _is_deep(
    value: Any,
    levels: int = 200,
) -> bool:
    """Return whether lists and objects stand in a value on more than so many levels; orjson writes no more than 254."""
    inside = value.values() if is_object(value) else items(value)
    return not levels or any(_is_deep(inner, levels - 1) for inner in inside)


def _refuse_others(
    holder: Any,
    path: str,
) -> None:
    """Raise UnreadableError for a value that is neither an annotation, nor JSON text of one, nor a list of them."""
    value = json_value(lookup(holder, path), text=True)
    for annotation in items(value) or [value]:
        status = lookup(annotation, "status")
        if annotation is not None and status not in _STATES:
            raise UnreadableError(
                f"has a field `{path}` that ruler did not write; rename it"
            )


def _wrong_size(
    path: str,
    size: int,
) -> UnreadableError:
    return UnreadableError(
        f"has no list of {size} items at `{path}`, one per rollout"
    )


SAMPLE = 50
"""Number of first records that must have the same format."""
Records = Sequence[tuple[Line, dict[str, Any]]]


def detect(
    name: str,
    records: Records,
    settings: InputSettings,
) -> Reader:
    """Return a reader of the one format of the first records.

    UsageError if there is none, or more than one, with lines, keys and what to do.
    """
    values = [record for _, record in records]
    row = settings.with_paths(settings.named_row or RecordPaths())
    _refuse_paths(
        name,
        values,
        settings,
        row,
    )
    listed = paths(row.messages or row.answers)
    if callable(settings.format):
        chosen = rows.program_format(settings.format, values)
    elif listed:
        title = f"messages at `{listed[0]}`"
        if settings.named_row:
            title = settings.format if is_text(settings.format) else "a row"
        chosen = rows.row_format(title, row, values)
    else:
        chosen = _choose(name, records, settings)
        if chosen.rank == OWN:
            row = settings.with_paths(settings.rows[chosen.name])
    keys = paths(row.group_by)
    reader = Reader(
        chosen,
        GroupKey.of_paths(*keys) if keys else GroupKey(PROMPT_HASH),
        {"outcome": row.outcome} if row.outcome else {},
        row.tools,
        row.reference,
        paths(row.prompt),
    )
    if not keys:
        fitting = [pair for pair in records if fits(chosen, pair[1])]
        key = _key_rule(reader, fitting or records)
        reader = replace(reader, group_key=key)
    reward = row.reward if settings.reward is None else settings.reward
    if settings.reward is not None or reward != "reward":
        reader = _with_reward(name, reward, reader)
        reader.missing.add(reward)
    return reader


def read_records(
    reader: Reader,
    records: Records,
) -> Iterator[Record]:
    """Read records, without those that cannot be read: these are reported when they are scored."""
    for line, value in records:
        with suppress(UnreadableError):
            yield from reader.read_parsed(value, line)


def formats_of(
    wanted: str,
    names: Iterable[str] = (),
) -> list[Format]:
    """Return the formats of a family, or all for `auto`; UsageError if there are none."""
    if wanted != "auto" and wanted not in FAMILIES:
        choices = ("auto", *FAMILIES, *names, *extensions("ruler.formats"))
        suggestion = suggestion_for(wanted, choices)
        remedy = f"give auto or one of {', '.join(FAMILIES)}"
        if suggestion:
            remedy = f"did you mean {suggestion}?"
        raise UsageError("no such format", remedy, place=f"--format {wanted}")
    return [form for form in FORMATS if wanted in ("auto", form.family)]


def _choose(
    name: str,
    records: Records,
    settings: InputSettings,
) -> Format:
    """Return the format of the first records: the user's own, ruler's, or that of a package."""
    wanted = str(settings.format)
    values = [record for _, record in records]
    if wanted not in ("auto", *FAMILIES):
        point = extensions("ruler.formats").get(wanted)
        if point:
            return rows.extension_format(point, values)
    candidates = formats_of(wanted, settings.rows)
    if wanted == "auto":
        for title, row in settings.rows.items():
            if row.has:
                candidates.append(rows.row_format(title, row, values))
    votes: dict[Format, Line] = {}
    for line, record in records:
        matches = [form for form in candidates if fits(form, record)]
        # a generic one only if no named one does, and the user's before both
        rank = max((form.rank for form in matches), default=None)
        for form in matches:
            if form.rank == rank:
                votes.setdefault(form, line)
    if len(votes) > 1:
        (form, here), (second, there), *_ = votes.items()
        # a format for several answers also takes one
        several = second if second.family == "prompt-responses" else form
        raise UsageError(
            f"{here.where} looks like {form.name}, {there.where} like {second.name}",
            f"split the file, or name it: --format {several.family}",
            place=name,
        )
    if votes:
        return next(iter(votes))
    if wanted == "auto":
        # after ruler's own, which need not be looked for
        for point in extensions("ruler.formats").values():
            form = rows.extension_format(point, values)
            if form.test and fits(form, values[0]):
                return form
    if any("trajectories" in value for value in values):
        # a group without trajectories, or with unknown ones: ruler's own rather than ART's
        for form in candidates:
            if form.name == "native groups":
                return form
    raise _unknown_shape(name, records, wanted)


def _unknown_shape(
    name: str,
    records: Records,
    wanted: str,
) -> UsageError:
    """Return the error for records of no format, or not of the one that is wanted."""
    line, record = records[0]
    keys = f"(its keys: {_first_keys(record) or 'none'})"
    if wanted != "auto":
        problem = f"{line.where} is not of the format {wanted} {keys}"
        return UsageError(problem, place=name)
    text = dump(record).decode("utf-8", "replace")
    for framework, mark in NO_LONGER_READ.items():
        if mark in text:
            return UsageError(
                f"{line.where} is of {framework}, which this version does not read",
                "name its parts with --messages PATH and --prompt PATH; or export OpenTelemetry spans from a tracer",
                place=name,
            )
    unknown = UnknownShapeError(
        f"{line.where} holds no rollouts that ruler knows {keys}",
        "name the path of the answers with --messages PATH, of the task with --prompt PATH, and of the "
        "group key with --group-by PATH",
        place=name,
    )
    unknown.values = [record for _, record in records]
    return unknown


def _key_rule(
    reader: Reader,
    records: Records,
) -> GroupKey:
    """Return the rule of the group key: what the format computes, a field, or the prompt, with the id of its item."""
    form = reader.format
    is_rollout = form.shape == "trajectory"
    values = [value for _, value in records]
    # a key that an earlier run wrote counts if all have one
    written = f"{form.ruler}.group.key"
    if not is_rollout or not all(is_text(lookup(v, written)) for v in values):
        written = ""
    for value in values:
        with suppress(*UNFIT):
            if key_of(form, value) is not None:
                return GroupKey(form.key_description, written=written)
    for path in form.key_paths:
        if any(lookup(value, path) is not None for value in values):
            return GroupKey(path, (path,), written=written)
    name = _item_path(reader, records) if is_rollout else ""
    if name:
        return GroupKey(
            name,
            (name,),
            of_item=True,
            written=written,
        )
    return GroupKey(PROMPT_HASH, written=written)


def _item_path(
    reader: Reader,
    records: Records,
) -> str:
    """Return the field of the id of a prompt's item; empty if records have none."""
    prompts = {
        record.line: record.key for record in read_records(reader, records)
    }
    for name in (*ITEM_IDS, *REPEATED_IDS):
        pairs = set()
        for line, value in records:
            if name in value and line in prompts:
                pairs.add((key_text(value[name]), prompts[line]))
        count = len(pairs)
        ids = len({identity for identity, _ in pairs})
        tasks = len({task for _, task in pairs})
        # several records have the same id, all with one prompt, and a prompt has several ids
        repeated = tasks < ids == count < len(records)
        if repeated or (pairs and name in ITEM_IDS):
            return name
    return ""


_REFUSED = "messages answers prompt tools reference group_by outcome"
"""Paths that some of the first records must have."""


def _refuse_paths(
    name: str,
    values: Sequence[JsonObject],
    settings: InputSettings,
    row: RecordPaths,
) -> None:
    """Raise UsageError for a path of the user's that no record has, and no trajectory in one."""
    inside = [items(value.get("trajectories")) for value in values]
    trajectories = [*itertools.chain(*inside)]
    for name_of in words(_REFUSED):
        whole = [*values]
        if name_of not in ("messages", "answers"):
            whole += trajectories
        for path in filter(None, paths(getattr(row, name_of))):
            if any(_has(value, path) for value in whole):
                continue
            field = settings.outcome_option if name_of == "outcome" else name_of
            where = f"[formats.{settings.format}] {field}"
            if getattr(settings, name_of, None):
                where = option_name(field)
            raise UsageError(
                "none of the first records has it",
                f"their keys: {_first_keys(values[0])}",
                place=f"{name}: {where} {path}",
            )


def _has(holder: JsonObject, path: str) -> bool:
    """Return whether there is a value at a path."""
    held = every(holder, present(holder, path))
    return any(value is not None for _, value in held)


def _first_keys(record: JsonObject) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(map(printable, itertools.islice(record, 12)))


def _with_reward(
    name: str,
    path: str,
    reader: Reader,
) -> Reader:
    """Return the reader with its reward at a path; UsageError if a score there overwrites what is read."""
    form = reader.format
    read = {**reader.value_paths, "reward": path}
    written = path
    if LISTS.search(path):
        # read there; a score has one place, in each rollout or in none
        written = path.rpartition("[].")[2]
        if form.listed or written != form.reward:
            form = replace(
                form,
                elsewhere=True,
                reward="",
                read_at=path,
            )
            return replace(reader, format=form, value_paths=read)
    if not _is_free(reader, written):
        raise UsageError(
            "is not free for a score",
            "name a field that ruler neither reads nor writes, by keys and the numbers of items",
            place=f"{name}: --reward {written}",
        )
    form = replace(
        form,
        reward=written,
        elsewhere=False,
        absent=None,
        written=b"%s",
        lost=b"null",
    )
    return replace(reader, format=form, value_paths=read)


def _is_free(reader: Reader, path: str) -> bool:
    """Return whether a score may be written at a path: no shown text and no key is read or written there."""
    form = reader.format
    place = parts(path)
    # `-1` is another item in a longer list; a trajectory that stands twice is read from its copy
    if form.payload is not None or not {"", "-1"}.isdisjoint(place):
        return False
    taken = [
        "step|gen_step|ruler",
        form.ruler,
        form.member,
        form.tools,
        form.ended,
        form.rubric,
        reader.tools,
        reader.reference,
        *reader.prompt,
        *reader.group_key.paths,
        *form.key_paths,
        *paths(form.messages),
        *paths(form.answers),
        *paths(form.prompt),
    ]
    if form.extras:
        taken += ["logs", "metrics.ruler_score", "metrics.independent_reward"]
    reward = parts(form.reward)
    if not reward or place[0] != reward[0]:
        taken += [*CONVERSATION, *re.findall(r"[\w.]+", form.has)]
    for path_read in filter(None, alternatives(taken)):
        start = parts(first_list(path_read))
        # either leads into the value at the other
        if start[: len(place)] == place[: len(start)]:
            return False
    return True
