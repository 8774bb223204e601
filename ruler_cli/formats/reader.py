"""Lines → records by one format and the user's paths of keys, rewards and outcomes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse, parse_text
from ruler_cli.formats.chat import nothing_to_judge
from ruler_cli.formats.fields import json_value, lookup
from ruler_cli.formats.interface import GIVEN, PROMPT_HASH, SHAPE_ERRORS, Format
from ruler_cli.formats.prompts import prompt_key, with_prompt
from ruler_cli.formats.rewards import FieldWords
from ruler_cli.types import Line, Path, Record, Rollout


@dataclass(frozen=True, slots=True)
class Reader:
    """Read lines as records of one format.

    `key` is the dotted path of the group key, PROMPT_HASH, GIVEN, or the format's `key_description`.
    `reward` and `outcome` are the user's own paths; None: as the format reads them. `prompt` is the user's
    path of the task's text, put before a conversation that does not begin with it.
    `labels` maps file names to labels: if several files count their keys anew, the label becomes a part of
    the key. `label_kind` is `task`, `folder` or `file`. `words` are the words seen so far among rewards and
    outcomes, which tell if a word such as `right` is a check's result or a label.
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
        """Return the same reader, with the words of these records added."""
        rewards, outcomes = self.words
        for record in records:
            for rollout in record.rollouts:
                rewards, outcomes = (
                    rewards.including(rollout.reward),
                    outcomes.including(rollout.outcome),
                )
        return (
            self
            if (rewards, outcomes) == self.words
            else replace(self, words=(rewards, outcomes))
        )

    def read(self, line: Line) -> tuple[Record, ...]:
        """Read one line: one record, or one for each group of a columnar line.

        UnreadableError with the reason if it cannot be scored.
        """
        return self._records(line, exact=True)

    def read_rounded(self, line: Line) -> tuple[Record, ...]:
        """Read one line faster than `read`, with integers beyond 64 bits in messages and rewards rounded.

        Group keys and errors are the same.
        """
        if self.format.shape == "columns" or (
            self.format.shape == "trajectory" and not self._by_path
        ):
            return self.read(line)  # its key may contain any value
        records = self._records(line, exact=False)
        # as text a rounded integer has an exponent
        return records if "e+" not in str(records[0].key) else self.read(line)

    def _records(self, line: Line, *, exact: bool) -> tuple[Record, ...]:
        return self.read_parsed(parse(line.raw, exact=exact), line)

    def read_parsed(self, value: dict[str, Any], line: Line) -> tuple[Record, ...]:
        """Read the value of a line as `read` reads its bytes."""
        try:
            return self._parsed(value, line)
        except RecursionError:
            raise UnreadableError(
                "is nested too deeply to be read; flatten the record"
            ) from None
        except (
            SHAPE_ERRORS
        ) as error:  # in one place for all formats, whose input is untrusted
            raise UnreadableError(
                f"is not of the shape of {self.format.name} ({error!r:.80})"
            ) from None

    def _parsed(self, value: dict[str, Any], line: Line) -> tuple[Record, ...]:
        rollouts = tuple(self.format.rollouts(value))
        shape, listed = self.format.shape, self.format.layout.listed
        if self.prompt is not None:
            own = (
                self.value_at
                if not listed or shape != "group"
                else lambda value, _, path: lookup(value, path)
            )
            rollouts = tuple(
                with_prompt(r, own(value, r, self.prompt), self.prompt)
                for r in rollouts
            )
            if shape == "trajectory" and rollouts[0].error is not None:
                raise UnreadableError(rollouts[0].error)
        rollouts = tuple(map(validated, rollouts))
        if listed:
            for path in (
                self.reward,
                self.key if shape == "columns" and self._by_path else None,
            ):
                _refuse_uneven(value, path, len(rollouts))
        if self.reward is not None or self.outcome is not None:
            rollouts = tuple(
                self._with_own_paths(value, rollout) for rollout in rollouts
            )
        rollouts = tuple(
            map(self._with_label_words, self._with_first_rewards(value, rollouts))
        )
        if shape == "columns":
            return self._columns(value, line, rollouts)
        rubric, tools = (
            value.get("rubric"),
            value.get("tools") if shape == "group" else None,
        )
        key = self._key_of(value, line, rollouts)
        if self.labels is not None and line.source in self.labels:
            key = f"{self.labels[line.source]}: {key}"
        return (
            Record(
                line, rollouts, key, rubric if isinstance(rubric, str) else None, tools
            ),
        )

    def _columns(
        self, value: dict[str, Any], line: Line, rollouts: tuple[Rollout, ...]
    ) -> tuple[Record, ...]:
        if not rollouts:
            raise UnreadableError("holds no rollouts: its columns are empty")
        groups: dict[str, list[Rollout]] = {}
        keys = lookup(value, self.key) if self._by_path else None
        for i, one in enumerate(rollouts):
            rollout, key = (
                one,
                keys[i] if isinstance(keys, list) and i < len(keys) else None,
            )
            if self._by_path and key is None:
                raise UnreadableError(
                    f"has no group key at `{self.key}` for rollout {i}"
                )
            key = one.key if key is None else key
            if key is None:
                try:
                    key = prompt_key(one, value.get("step"))
                except (
                    UnreadableError
                ) as error:  # without a prompt it is a group of its own
                    key, rollout = (
                        f"rollout {i}",
                        one if one.error else replace(one, error=error.reason),
                    )
            groups.setdefault(key_text(key), []).append(rollout)
        return tuple(
            Record(
                line, tuple(members), f"{line.where}: {key}", part=i, parts=len(groups)
            )
            for i, (key, members) in enumerate(groups.items())
        )

    @property
    def by_prompt(self) -> bool:
        """Tell if the group key is the hash of the prompt."""
        return self.key == PROMPT_HASH

    @property
    def shown_key(self) -> str:
        """The key of a group in words, for a sentence."""
        if self.by_prompt:
            return (
                "each record is a group"
                if self.format.shape == "group"
                else "hash of the prompt"
            )
        return f"key `{self.key}`"

    @property
    def _by_path(self) -> bool:
        return self.key not in (PROMPT_HASH, GIVEN, self.format.key_description)

    def _key_of(
        self, value: dict[str, Any], line: Line, rollouts: tuple[Rollout, ...]
    ) -> str:
        if self.key == GIVEN:
            return line.where
        if self.format.key_of is not None and self.key == self.format.key_description:
            computed = self.format.key_of(value)
            if computed is None:
                raise UnreadableError(f"has no group key ({self.key})")
            return computed
        key = lookup(value, self.key) if self._by_path else None
        if key is None and self._by_path and self.format.shape == "group" and rollouts:
            key = lookup(rollout_object(value, rollouts[0]), self.key)
        if key is not None:
            return key_text(key)
        if self.format.shape == "group":
            return line.where
        if self.key != PROMPT_HASH:
            raise UnreadableError(f"has no group key at `{self.key}`")
        return prompt_key(rollouts[0], value.get("step"))

    def _with_own_paths(self, value: dict[str, Any], rollout: Rollout) -> Rollout:
        reward = (
            rollout.reward
            if self.reward is None
            else self.value_at(value, rollout, self.reward)
        )
        outcome = (
            rollout.outcome
            if self.outcome is None
            else self.value_at(value, rollout, self.outcome)
        )
        return _with_rewards(rollout, reward, outcome)

    def value_at(self, value: dict[str, Any], rollout: Rollout, path: str) -> Any:
        """Return the value at a dotted path below a rollout of a record, else below the record itself."""
        if self.format.layout.listed:
            values, i = lookup(value, path), rollout.path[-1]
            return (
                values[i]
                if isinstance(values, list) and isinstance(i, int) and i < len(values)
                else None
            )
        own = rollout_object(value, rollout)
        inner = lookup(own, path)
        return inner if inner is not None or own is value else lookup(value, path)

    def _with_first_rewards(
        self, value: dict[str, Any], rollouts: tuple[Rollout, ...]
    ) -> Iterable[Rollout]:
        """Give rollouts that ruler scored before the reward that they had first.

        UnreadableError if ruler did not write a field `ruler`, which would be overwritten.
        """
        form, layout = self.format, self.format.layout
        single = layout.reward is None or len(layout.reward) == 1
        flat = form.shape == "trajectory" and layout.ruler == ("ruler",) and single
        if "ruler" not in value and flat and not rollouts[0].path:
            return rollouts
        where = ".".join(map(str, layout.ruler))
        _refuse_foreign(value, "ruler", listed=form.shape == "columns")
        # items of lists have one owner, the record
        for holder in (
            [value]
            if layout.listed
            else [rollout_object(value, rollout) for rollout in rollouts]
        ):
            _refuse_foreign(holder, where, listed=form.shape == "columns")
            _refuse_occupied(holder, layout.ruler)
            _refuse_occupied(holder, layout.reward or ())
        if (
            "ruler" not in value
            and form.shape != "trajectory"
            and layout.ruler == ("ruler",)
        ):
            return rollouts
        return (self._with_first_reward(value, rollout) for rollout in rollouts)

    def _with_first_reward(self, value: dict[str, Any], rollout: Rollout) -> Rollout:
        annotation = self.previous_annotation(value, rollout) or {}
        first = annotation.get("independent_reward")
        # without a first reward the score stands in its place, unless the reward is read from another
        known = annotation and (
            first is not None or rollout.reward == annotation.get("score")
        )
        return _with_rewards(rollout, first, rollout.outcome) if known else rollout

    def _with_label_words(self, rollout: Rollout) -> Rollout:
        """Replace words that are no results of a check by labels."""
        reward, outcome = (
            self.words[0].read(rollout.reward),
            self.words[1].read(rollout.outcome),
        )
        same = reward is rollout.reward and outcome is rollout.outcome
        return rollout if same else _with_rewards(rollout, reward, outcome)

    def previous_annotation(
        self, value: dict[str, Any], rollout: Rollout
    ) -> dict[str, Any] | None:
        """Return the annotation of a rollout from an earlier run; None if there is none."""
        if self.format.layout.listed:
            where = "ruler" if self.format.shape == "columns" else "ruler.rollouts"
            annotation = lookup(value, f"{where}.{rollout.path[-1]}")
        else:
            own, layout = rollout_object(value, rollout), self.format.layout
            places = (layout.ruler, layout.other_ruler)
            found = (
                lookup(own, ".".join(map(str, place))) for place in places if place
            )
            annotation = next((value for value in found if value is not None), None)
        if isinstance(annotation, str):
            annotation = parse_text(annotation)
        return annotation if isinstance(annotation, dict) else None


def validated(rollout: Rollout) -> Rollout:
    """Return the rollout, with an error if the agent did nothing in it or a message is no object."""
    if rollout.error is not None:
        return rollout
    if any(
        {*map(type, part)} - {dict} for part in (rollout.messages, *rollout.histories)
    ):
        return replace(rollout, error="has a message that is no JSON object")
    reason = nothing_to_judge(
        rollout.messages, rollout.histories, rollout.prompt_length
    )
    return rollout if reason is None else replace(rollout, error=reason)


def _with_rewards(r: Rollout, reward: Any, outcome: Any) -> Rollout:
    """Return a rollout with another reward and outcome; `replace` takes four times as long."""
    return Rollout(
        r.messages,
        r.path,
        r.histories,
        r.tools,
        reward,
        r.error,
        outcome,
        r.member,
        r.key,
        r.prompt_length,
    )


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
    if isinstance(value, str):
        return value
    if type(value) is int:  # fast, as most keys are texts or integers
        return str(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _refuse_uneven(value: Any, path: str | None, size: int) -> None:
    """Raise UnreadableError if the user's path leads to no list of one item for each of `size` rollouts."""
    if path is None or (values := lookup(value, path)) is None:
        return
    if not isinstance(values, list):
        raise UnreadableError(
            f"has no list at `{path}`, with one item for each rollout"
        )
    if len(values) != size:
        raise UnreadableError(
            f"has {len(values)} items at `{path}` for {size} rollouts"
        )


def _refuse_occupied(holder: Any, path: Path) -> None:
    """Raise UnreadableError if ruler's path leads through a value that is no object: it would be lost."""
    for part, inner in itertools.pairwise(path):
        holder = lookup(holder, str(part))
        if holder is None:
            return
        if not isinstance(holder, (list, dict) if isinstance(inner, int) else dict):
            raise UnreadableError(
                f"has no object at `{part}`, where ruler would write; rename it"
            )


def _refuse_foreign(holder: Any, path: str, *, listed: bool) -> None:
    """Raise UnreadableError if ruler did not write the value at a path.

    ruler's value is an object with a status, or its JSON text; in a record of columns also a list of those.
    """
    value = lookup(holder, path)
    if isinstance(value, str):
        value = json_value(value) or False
    several = listed and isinstance(value, list) and bool(value)
    for annotation in value if several else [value]:
        if annotation is None:
            continue
        if not (
            isinstance(annotation, Mapping)
            and annotation.get("status") in ("scored", "failed")
        ):
            raise UnreadableError(
                f"has a field `{path}` that ruler did not write; rename it"
            )
