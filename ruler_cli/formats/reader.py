"""Lines → records by one format, with what the user said of keys, rewards and outcomes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import nothing_to_judge
from ruler_cli.formats.interface import PROMPT_HASH, SHAPE_ERRORS, Format, lookup
from ruler_cli.formats.prompts import prompt_key, with_prompt
from ruler_cli.formats.rewards import FieldWords
from ruler_cli.reading.parse import parse, parse_text
from ruler_cli.types import Line, Path, Record, Rollout


@dataclass(frozen=True, slots=True)
class Reader:
    """Lines → records by one format.

    `key` is the dotted path of the group key, PROMPT_HASH, or what `Format.key_description` says of a key
    that is computed. `reward` and `outcome` are the user's own paths, None: what the format reads.
    `prompt` is the user's path of the task's text, put before a conversation that does not begin with it.
    `labels` are of files, by their names: of several files whose keys count anew a label belongs to the
    key. `labelled` tells how: `task`, `folder` or `file`. `words` are those that rewards and outcomes are
    known to have: a word that is a label among labels is no verdict.
    """

    format: Format
    key: str
    reward: str | None = None
    outcome: str | None = None
    prompt: str | None = None
    labels: Mapping[str, str] | None = None
    label_kind: str = ""
    words: tuple[FieldWords, FieldWords] = (FieldWords(), FieldWords())

    def with_words(self, records: Iterable[Record]) -> Reader:
        """The same reader, with the words of these records known to it."""
        rewards, outcomes = self.words
        for record in records:
            for rollout in record.rollouts:
                rewards, outcomes = rewards.including(rollout.reward), outcomes.including(rollout.outcome)
        return self if (rewards, outcomes) == self.words else replace(self, words=(rewards, outcomes))

    def read(self, line: Line) -> tuple[Record, ...]:
        """Read one line: one record, or one for each group of a columnar line.

        UnreadableError says why it cannot be scored.
        """
        return self._records(line, exact=True)

    def read_rounded(self, line: Line) -> tuple[Record, ...]:
        """Read one line as `read` does, but for integers beyond 64 bits in messages and rewards.

        The group key is the same to the last digit, and so is what cannot be read.
        """
        if self.format.shape == "columns" or (self.format.shape == "trajectory" and not self._by_path):
            return self.read(line)  # its key is made of all kinds of values
        found = self._records(line, exact=False)
        # as text a rounded integer has an exponent
        return found if "e+" not in str(found[0].key) else self.read(line)

    def _records(self, line: Line, *, exact: bool) -> tuple[Record, ...]:
        try:
            return self._shaped(parse(line.raw, exact=exact), line)
        except RecursionError:
            raise UnreadableError("is nested too deeply to be read; flatten the record") from None
        except SHAPE_ERRORS as error:  # one net for all modules, which look at what a stranger wrote
            raise UnreadableError(f"is not of the shape of {self.format.name} ({error!r:.80})") from None

    def _shaped(self, value: dict[str, Any], line: Line) -> tuple[Record, ...]:
        rollouts = tuple(self.format.rollouts(value))
        if self.prompt is not None:
            rollouts = tuple(with_prompt(r, self._asked(value, r), self.prompt) for r in rollouts)
            if self.format.shape == "trajectory" and rollouts[0].error is not None:
                raise UnreadableError(rollouts[0].error)
        rollouts = tuple(map(validated, rollouts))
        if self.format.layout.listed:
            for path in (self.reward, self.key if self.format.shape == "columns" and self._by_path else None):
                _refuse_uneven(value, path, len(rollouts))
        if self.reward is not None or self.outcome is not None:
            rollouts = tuple(self._overlaid(value, rollout) for rollout in rollouts)
        rollouts = tuple(map(self._with_verdict, self._with_first_rewards(value, rollouts)))
        if self.format.shape == "columns":
            return self._columns(value, line, rollouts)
        rubric = value.get("rubric")
        tools = value.get("tools") if self.format.shape == "group" else None
        key = self._key_of(value, line, rollouts)
        if self.labels is not None and line.source in self.labels:
            key = f"{self.labels[line.source]}: {key}"
        return (Record(line, rollouts, key, rubric if isinstance(rubric, str) else None, tools),)

    def _columns(
        self, value: dict[str, Any], line: Line, rollouts: tuple[Rollout, ...]
    ) -> tuple[Record, ...]:
        if not rollouts:
            raise UnreadableError("holds no rollouts: its columns are empty")
        groups: dict[str, list[Rollout]] = {}
        given = lookup(value, self.key) if self._by_path else None
        for i, rollout in enumerate(rollouts):
            key: Any = given[i] if isinstance(given, list) and i < len(given) else None
            if self._by_path and key is None:
                raise UnreadableError(f"has no group key at `{self.key}` for rollout {i}")
            if key is None and rollout.key is not None:
                key = rollout.key
            if key is None:
                key, rollout = _prompt_key_or_error(rollout, i, value.get("step"))  # noqa: PLW2901 - with its fault
            groups.setdefault(key_text(key), []).append(rollout)
        return tuple(
            Record(line, tuple(found), f"{line.where}: {key}", part=i, parts=len(groups))
            for i, (key, found) in enumerate(groups.items())
        )

    @property
    def by_prompt(self) -> bool:
        """Tell if the group key is the hash of the prompt."""
        return self.key == PROMPT_HASH

    @property
    def _by_path(self) -> bool:
        return self.key not in (PROMPT_HASH, self.format.key_description)

    def _key_of(self, value: dict[str, Any], line: Line, rollouts: tuple[Rollout, ...]) -> str:
        if self.format.key_of is not None and self.key == self.format.key_description:
            computed = self.format.key_of(value)
            if computed is None:
                raise UnreadableError(f"has no group key ({self.key})")
            return computed
        found = lookup(value, self.key) if self._by_path else None
        if found is None and self._by_path and self.format.shape == "group" and rollouts:
            found = lookup(rollout_object(value, rollouts[0]), self.key)
        if found is not None:
            return key_text(found)
        if self.format.shape == "group":
            return line.where
        if self.key != PROMPT_HASH:
            raise UnreadableError(f"has no group key at `{self.key}`")
        return prompt_key(rollouts[0], value.get("step"))

    def _overlaid(self, value: dict[str, Any], rollout: Rollout) -> Rollout:
        reward = rollout.reward if self.reward is None else self.value_at(value, rollout, self.reward)
        outcome = rollout.outcome if self.outcome is None else self.value_at(value, rollout, self.outcome)
        return _with_rewards(rollout, reward, outcome)

    def _asked(self, value: dict[str, Any], rollout: Rollout) -> Any:
        """The value at `prompt`: of a record whose rollouts are items of lists the record's own."""
        path = self.prompt or ""
        one = self.format.layout.listed and self.format.shape == "group"
        return lookup(value, path) if one else self.value_at(value, rollout, path)

    def value_at(self, value: dict[str, Any], rollout: Rollout, path: str) -> Any:
        """What stands at a dotted path below a rollout of a record, else below the record itself."""
        if self.format.layout.listed:
            found = lookup(value, path)
            at = rollout.path[-1]
            return found[at] if isinstance(found, list) and isinstance(at, int) and at < len(found) else None
        own = rollout_object(value, rollout)
        found = lookup(own, path)
        return found if found is not None or own is value else lookup(value, path)

    def _with_first_rewards(self, value: dict[str, Any], rollouts: tuple[Rollout, ...]) -> Iterable[Rollout]:
        """What was scored before: the reward of a rollout is the one that it had first.

        UnreadableError where a field `ruler` is somebody else's, which would be overwritten.
        """
        form, layout = self.format, self.format.layout
        single = layout.reward is None or len(layout.reward) == 1
        flat = form.shape == "trajectory" and layout.ruler == ("ruler",) and single
        if "ruler" not in value and flat and not rollouts[0].path:
            return rollouts
        where = ".".join(map(str, layout.ruler))
        _refuse_foreign(value, "ruler", listed=form.shape == "columns")
        # items of lists have one owner, the record
        for holder in [value] if layout.listed else [rollout_object(value, rollout) for rollout in rollouts]:
            _refuse_foreign(holder, where, listed=form.shape == "columns")
            _refuse_blocked(holder, layout.ruler)
            _refuse_blocked(holder, layout.reward or ())
        if "ruler" not in value and form.shape != "trajectory" and layout.ruler == ("ruler",):
            return rollouts
        return (
            self._with_first_reward(rollout, self.previous_annotation(value, rollout)) for rollout in rollouts
        )

    @staticmethod
    def _with_first_reward(rollout: Rollout, mark: Mapping[str, Any] | None) -> Rollout:
        if not mark:
            return rollout
        first = mark.get("independent_reward")
        # without one the score stands in its place, unless the reward is read from another
        known = first is not None or rollout.reward == mark.get("score")
        return _with_rewards(rollout, first, rollout.outcome) if known else rollout

    def _with_verdict(self, rollout: Rollout) -> Rollout:
        """The rollout, its words verdicts, or known to be none."""
        reward, outcome = self.words[0].read(rollout.reward), self.words[1].read(rollout.outcome)
        same = reward is rollout.reward and outcome is rollout.outcome
        return rollout if same else _with_rewards(rollout, reward, outcome)

    def previous_annotation(self, value: dict[str, Any], rollout: Rollout) -> dict[str, Any] | None:
        """What ruler wrote on a rollout of a record in an earlier run; None where it wrote nothing."""
        if self.format.layout.listed:
            where = "ruler" if self.format.shape == "columns" else "ruler.rollouts"
            mark = lookup(value, f"{where}.{rollout.path[-1]}")
        else:
            mark = lookup(rollout_object(value, rollout), ".".join(map(str, self.format.layout.ruler)))
        if isinstance(mark, str):
            mark = parse_text(mark)
        return mark if isinstance(mark, dict) else None


def validated(rollout: Rollout) -> Rollout:
    """The rollout, with a fault if it shows nothing that the agent did, or holds what is no message."""
    if rollout.error is not None:
        return rollout
    if any({*map(type, part)} - {dict} for part in (rollout.messages, *rollout.histories)):
        return replace(rollout, error="has among its messages what is no JSON object")
    reason = nothing_to_judge(rollout.messages, rollout.histories, rollout.prompt_length)
    return rollout if reason is None else replace(rollout, error=reason)


def _with_rewards(one: Rollout, reward: Any, outcome: Any) -> Rollout:
    """A rollout with another reward and outcome; `replace` takes four times as long."""
    before, behind = (
        (one.messages, one.path, one.histories, one.tools),
        (one.member, one.key, one.prompt_length),
    )
    return Rollout(*before, reward, one.error, outcome, *behind)


def rollout_object(value: Any, rollout: Rollout) -> Any:
    """A rollout's own object in its record: the record itself where rollouts are items of lists."""
    if rollout.path[:1] and isinstance(rollout.path[0], int):
        return value
    for part in rollout.path:
        value = value[part]
    return value


def _prompt_key_or_error(rollout: Rollout, i: int, step: Any) -> tuple[str, Rollout]:
    """The key of a rollout in a columnar record; one without a prompt is at fault, in a group of its own."""
    try:
        return prompt_key(rollout, step), rollout
    except UnreadableError as error:
        return f"rollout {i}", rollout if rollout.error else replace(rollout, error=str(error))


def hashed_key(name: str, value: Any) -> str:
    """A group key made of any JSON value: equal values have equal keys."""
    text = key_text(value).encode("utf-8", "surrogatepass")
    return f"{name}-" + blake2b(text, digest_size=8).hexdigest()


def key_text(value: Any) -> str:
    """A group key as text: any JSON value, equal for equal values, integers of any size."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # which most keys are that are no text
        return str(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _refuse_uneven(value: Any, path: str | None, size: int) -> None:
    """A list that the user named runs parallel to the rollouts: nobody knows which items belong together."""
    found = None if path is None else lookup(value, path)
    if isinstance(found, list) and len(found) != size:
        raise UnreadableError(f"has {len(found)} items at `{path}` for {size} rollouts")
    if found is not None and not isinstance(found, list):
        raise UnreadableError(f"has no list at `{path}`, with one item for each rollout")


def _refuse_blocked(holder: Any, place: Path) -> None:
    """Where ruler writes into an object, nothing else may stand: it would be overwritten."""
    for part, inner in itertools.pairwise(place):
        holder = lookup(holder, str(part))
        if holder is None:
            return
        if not isinstance(holder, (list, dict) if isinstance(inner, int) else dict):
            raise UnreadableError(f"has no object at `{part}`, where ruler would write; rename it")


def _refuse_foreign(holder: Any, path: str, *, listed: bool) -> None:
    """A field `ruler` that holds no object with a status, nor its JSON text, nor a list of such objects."""
    value = lookup(holder, path)
    if isinstance(value, str):
        try:
            value = parse_text(value) or False
        except UnreadableError:
            value = False
    several = listed and isinstance(value, list) and bool(value)
    for mark in value if several else [value]:
        if mark is not None and not (isinstance(mark, Mapping) and mark.get("status") in _STATUS):
            raise UnreadableError(f"has a field `{path}` that ruler did not write; rename it")


_STATUS = ("scored", "failed")
