"""First records → the format that reads them all, found by keys, never by file name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.formats import art, native, tau_bench
from ruler_cli.formats.chat import first_turn
from ruler_cli.formats.interface import Format, lookup
from ruler_cli.records import Line, Record, Rollout

FORMATS: tuple[Format, ...] = (
    art.ROW,
    art.GROUP,
    native.GROUP,
    art.TRAJECTORY,
    tau_bench.TRAJECTORY,
    native.TRAJECTORY,
)
"""Every format; of several that match a record the first wins."""

NAMES = {
    "native": ("native groups", "native trajectories"),
    "art": ("ART groups", "ART trajectories", "ART table rows"),
    "tau-bench": ("tau-bench",),
}
"""What `--format` takes, with the formats that each stands for."""

SAMPLE = 50
"""How many first records must agree."""

PROMPT_HASH = "prompt"
"""The group key of a dump without one: the hash of what stands before the first assistant turn."""

_HINTS = (
    (
        {"trajectory_groups"},
        "holds several groups in one object; write one a line: jq -c '.trajectory_groups[]'",
    ),
    ({"prompt_tokens", "response_tokens"}, "holds token ids only; decode them to messages first"),
    ({"tokens", "scores"}, "holds token ids only; write the messages along with them"),
    ({"responses_create_params"}, "is a NeMo-Gym record, a format this version does not read"),
    (
        {"prompt", "completions", "labels"},
        "is stepwise supervision: its completions are steps of one answer, not rollouts",
    ),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Lines → records by one format; `key` is the dotted path of the group key."""

    format: Format
    key: str

    def read(self, line: Line) -> Record:
        """Read one line; UnreadableError says why it cannot be scored."""
        try:
            return self._record(parse(line.raw), line)
        except RecursionError:
            raise UnreadableError("is nested too deeply to be read; flatten the record") from None

    def _record(self, value: dict[str, Any], line: Line) -> Record:
        inner = value.get("trajectories")
        if self.format.shape == "trajectory" and isinstance(inner, list):
            raise UnreadableError("is a whole group, though the file is one trajectory per line")
        for owner in (value, *(inner if isinstance(inner, list) else ())):
            mine = owner.get("ruler") if isinstance(owner, dict) else None
            if mine is not None and not (isinstance(mine, dict) and "status" in mine):
                raise UnreadableError("has a field `ruler` that ruler did not write; rename it")
        rollouts = tuple(self.format.rollouts(value))
        rubric = value.get("rubric")
        return Record(
            line,
            rollouts,
            self._key_of(value, line, rollouts),
            rubric if isinstance(rubric, str) else None,
            value.get("tools") if self.format.shape == "group" else None,
        )

    def _key_of(self, value: dict[str, Any], line: Line, rollouts: tuple[Rollout, ...]) -> str:
        found = lookup(value, self.key)
        if found is not None:
            return found if isinstance(found, str) else as_json(found)
        if self.format.shape == "group":
            return f"line {line.number}"
        if self.key != PROMPT_HASH:
            raise UnreadableError(f"has no group key at `{self.key}`")
        return _prompt_key(rollouts[0], value.get("step"))


def detect(name: str, first: Sequence[Line], wanted: str, group_by: str | None) -> Reader:
    """Find the one format of the first records; UsageError names lines, keys and the way out."""
    formats = [f for f in FORMATS if wanted == "auto" or f.name in NAMES[wanted]]
    votes: dict[str, int] = {}
    records: list[dict[str, Any]] = []
    for line in first:
        try:
            record = parse(line.raw)
        except UnreadableError:
            continue
        records.append(record)
        found = _match(record, formats)
        if found is not None:
            votes.setdefault(found.name, line.number)
    if not records or first[0].raw.strip() == b"[":  # a list over many lines, whatever they hold
        raise UsageError(_no_record(name, first))
    if len(votes) > 1:
        (one, at), (other, there) = list(votes.items())[:2]
        raise UsageError(
            f"{name}: line {at} looks like {one}, line {there} like {other}; split the file, or say "
            f"--format {'|'.join(NAMES)}"
        )
    if votes:
        chosen = next(f for f in formats if f.name in votes)
    elif any("trajectories" in record for record in records):
        chosen = next((f for f in reversed(formats) if f.shape == "group"), formats[0])
    else:
        raise UsageError(_unknown(name, first[0].number, records[0]))
    if group_by and not any(lookup(record, group_by) is not None for record in records):
        raise UsageError(
            f"{name}: --group-by {group_by}: none of the first records has it; their keys: "
            + ", ".join(list(records[0])[:12])
        )
    return Reader(chosen, group_by or _key_path(chosen, records))


def as_json(value: Any) -> str:
    """Any JSON value as one text, equal for equal values; integers of any size."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _match(record: dict[str, Any], formats: Sequence[Format]) -> Format | None:
    unsure = False
    for candidate in formats:
        verdict = candidate.matches(record)
        if verdict:
            return None if unsure and candidate.shape == "trajectory" else candidate
        unsure = unsure or verdict is None
    return None


def _key_path(chosen: Format, records: list[dict[str, Any]]) -> str:
    for path in chosen.keys:
        if any(lookup(record, path) is not None for record in records):
            return path
    return PROMPT_HASH


def _prompt_key(rollout: Rollout, step: Any) -> str:
    prompt = []
    for message in rollout.messages[: first_turn(rollout.messages)]:
        prompt.append([message.get("role"), message.get("content")])
    text = repr((prompt, step)).encode("utf-8", "surrogatepass")
    return "prompt-" + blake2b(text, digest_size=8).hexdigest()


def _no_record(name: str, first: Sequence[Line]) -> str:
    if first and first[0].raw.lstrip()[:1] == b"[":
        return f"{name}: is one JSON list, not JSON lines; write one record a line: jq -c '.[]' {name}"
    try:
        parse(first[0].raw)
        reason = "is no record"
    except UnreadableError as error:
        reason = str(error)
    return (
        f"{name}: none of the first {len(first)} lines is a JSON object; line {first[0].number} "
        f"{reason}; ruler reads JSON lines, one object a line"
    )


def _unknown(name: str, number: int, record: dict[str, Any]) -> str:
    for keys, hint in _HINTS:
        if keys <= record.keys():
            return f"{name}: line {number} {hint}"
    keys_seen = ", ".join(list(record)[:12]) or "none"
    return (
        f"{name}: line {number} holds no rollouts that ruler knows (its keys: {keys_seen}); a line "
        "is a group with `trajectories`, or a trajectory with `messages`, `messages_and_choices` "
        "(ART) or `traj` (tau-bench)"
    )
