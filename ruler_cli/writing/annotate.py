"""A verdict → marks; marks and a record's bytes → the annotated record.

Only what ruler owns is written: the reward field, `ruler`, and where the shape has them
`metrics.ruler_score`, `metrics.independent_reward` and one line of `logs`. The first original
reward is copied byte for byte, and a file that is scored again keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruler_cli.config import OnFailure
from ruler_cli.errors import UnreadableError
from ruler_cli.formats.custom import tree
from ruler_cli.formats.interface import Format, RecordLayout
from ruler_cli.formats.rewards import raw_value
from ruler_cli.reading.parse import dump, dump_shown, parse_text
from ruler_cli.types import (
    Annotation,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Path,
    Record,
    Rollout,
    RolloutScore,
)
from ruler_cli.writing.splice import Items, Object, Patches, Tree, at, read_array, read_object

_LOG = "RULER explanation: "
_KEPT = "independent_reward"
Annotated = tuple[Rollout, Annotation]
_FINE = 6
"""Decimals of what is computed from scores: enough to compute with, and short to read."""
_COARSE = 3
"""Decimals of what a judge gave in one pass, and of where it saw the rollout."""
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""RFC 3339 in UTC, to the second."""


def _judge_of(outcome: GroupResult, verdict: GroupScores | GroupError, names: Sequence[str]) -> str:
    """Which judge, or judges, a group's scores are of; of one that nobody scored, who was to."""
    if isinstance(verdict, GroupScores):
        return ", ".join(names[seat] for seat in verdict.used)
    heard = (
        {ballot.judge for ballot in outcome.pass_scores}
        or {miss.judge for miss in outcome.failed_calls}
        or {0}
    )
    return ", ".join(names[seat] for seat in sorted(heard))


def annotations_of(
    group: Group, outcome: GroupResult, verdict: GroupScores | GroupError, names: Sequence[str]
) -> list[Annotation]:
    """A mark for each rollout of the group, in input order; `names` are those of all judges."""
    name = _judge_of(outcome, verdict, names)
    if isinstance(verdict, GroupError):
        lost = {"status": "failed", "kind": verdict.kind, "reason": verdict.reason, "judge": name}
        return [Annotation(None, dict(lost)) for _ in group.rollouts]
    return [_mark(rollout, verdict.passes, name, names) for rollout in verdict.rollouts]


def _mark(rollout: RolloutScore, passes: int, name: str, names: Sequence[str]) -> Annotation:
    score, said = rollout.score, rollout.explanation
    if score is None:
        return Annotation(None, {"status": "failed", "kind": "input", "reason": said, "judge": name})
    fields: dict[str, Any] = {"status": "scored", "score": score, "explanation": said, "judge": name}
    fields["passes"] = passes
    if rollout.judge_score != score:
        fields["judge_score"] = _fine(rollout.judge_score)
    if rollout.spread is not None:
        fields["spread"] = _fine(rollout.spread)
    if len(names) > 1:
        fields["judges"] = {names[judge]: _fine(own) for judge, own in rollout.by_judge.items()}
    fields["slots"] = [round(slot, _COARSE) for slot in rollout.positions]
    if rollout.pass_scores != (rollout.judge_score,):  # of one pass the score itself tells it
        fields["pass_scores"] = [round(given, _COARSE) for given in rollout.pass_scores]
    if rollout.suspect:
        fields["suspect"] = True
    return Annotation(score, fields)


def group_fields(
    group: Group,
    outcome: GroupResult,
    verdict: GroupScores | GroupError,
    names: Sequence[str],
    cost_usd: float | None,
) -> dict[str, Any]:
    """The group's part of the output, which stands once where the record is a group."""
    usage = outcome.usage
    failed = isinstance(verdict, GroupError)
    fields: dict[str, Any] = {"status": "failed" if failed else "scored", "key": group.key}
    if isinstance(verdict, GroupError):
        fields |= {"kind": verdict.kind, "reason": verdict.reason}
    fields |= {"judge": _judge_of(outcome, verdict, names), "size": group.compared}
    if isinstance(verdict, GroupScores):
        fields |= _quality(verdict, outcome)
    fields["usage"] = {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
    }
    fields["cost_usd"] = None if cost_usd is None else round(cost_usd, 8)
    fields["judged_at"] = time.strftime(_INSTANT, time.gmtime(outcome.ended))
    fields["latency_s"] = round(outcome.seconds, 3)
    fields["cached"] = outcome.cached
    return fields


def _quality(verdict: GroupScores, outcome: GroupResult) -> dict[str, Any]:
    """How good the scores of a group are, and what had to be done for them; counts only where there are."""
    fields: dict[str, Any] = {"passes": verdict.passes, "tied": verdict.tied}
    if verdict.reliability is not None:
        fields |= {
            "reliability": _fine(verdict.reliability),
            "weight": _fine(verdict.weight),
            "passes_for_0.9": verdict.passes_for,
        }
    elif verdict.weight is not None:
        fields["weight"] = _fine(verdict.weight)
    told: dict[str, Any] = {
        "degraded": verdict.degraded,
        "escalated": outcome.escalated_to in verdict.used,
        "windows": outcome.windows if outcome.windows > 1 else 0,
        "rescaled": outcome.rescaled,
        "unknown_ids": outcome.unknown,
        "shortened": outcome.shortened,
    }
    return fields | {name: value for name, value in told.items() if value}


def _fine(value: float | None) -> float | None:
    return None if value is None else round(value, _FINE)


def annotate(
    raw: bytes,
    form: Format,
    marked: Sequence[Annotated],
    group_fields: Mapping[str, Any],
    on_failure: OnFailure,
) -> bytes:
    """A record with the mark of each of its rollouts; a record that is a group has its part once."""
    patches = Patches(raw)
    if form.layout.listed:
        _lists(patches, form, marked, group_fields, on_failure)
        return patches.apply()
    whole, items = _owners(raw, [rollout.path for rollout, _ in marked])
    for item, (_, mark) in zip(items, marked, strict=True):
        if item is not None:  # what is no object cannot carry a mark; the group's part counts it
            patches.put(item, _One(raw, item, form.layout, mark, on_failure).changes())
    if form.shape == "group":
        patches.put(whole, {"ruler": dump_shown(dict(group_fields))})
    return patches.apply()


def trajectory_bytes(record: Record, rollout: Rollout) -> bytes:
    """A rollout's own bytes; empty for an item of lists, which has none of its own."""
    if rollout.path and isinstance(rollout.path[0], int):
        return b""
    span = at(record.line.raw, rollout.path)
    return record.line.raw[slice(*span)] if span else b""


def _owners(raw: bytes, paths: Sequence[Path]) -> tuple[Object, list[Object | None]]:
    """The record's own members, and each rollout's object with its members; None where it is none."""
    names = {path[0] for path in paths if len(path) == 2}
    if len(names) == 1 and all(len(path) == 2 for path in paths):
        name = str(names.pop())
        lists: dict[str, Items] = {name: []}
        whole = read_object(raw, 0, lists)
        found = [lists[name][int(path[1])] for path in paths]
        return whole, [item if isinstance(item, Object) else None for item in found]
    whole = read_object(raw)
    owners: list[Object | None] = []
    for path in paths:
        span = at(raw, path) if path else None
        if not path:
            owners.append(whole)
        elif span and raw[span[0]] == ord("{"):
            owners.append(read_object(raw, span[0]))
        else:
            owners.append(None)
    return whole, owners


def _lists(
    patches: Patches,
    form: Format,
    marked: Sequence[Annotated],
    group_fields: Mapping[str, Any],
    on_failure: OnFailure,
) -> None:
    """Rollouts that are items of lists: the list of rewards item by item, and a list of marks."""
    raw, layout = patches.raw, form.layout
    whole = read_object(raw)
    span = at(raw, layout.reward) if layout.reward else None
    rewards = read_array(raw, span[0]) if span and raw[span[0]] == ord("[") else []
    marks_at: Path = ("ruler",) if form.shape == "columns" else ("ruler", "rollouts")
    span = at(raw, marks_at)  # looked up once: a line may hold ten thousand
    earlier = read_array(raw, span[0]) if span and raw[span[0]] == ord("[") else []
    marks, fresh = [], []
    for rollout, mark in marked:
        i = int(rollout.path[0])
        now = raw[slice(*rewards[i])] if i < len(rewards) else None
        before = at(raw, (_KEPT,), earlier[i][0]) if i < len(earlier) else None
        original = now if before is None else raw[slice(*before)]
        if original is None and rollout.reward is not None:  # it stands elsewhere, as ROLL's agentic ones do
            original = dump(raw_value(rollout.reward))
        original = None if original == b"null" else original
        score = _written(mark, layout, on_failure, original) or b"null"
        if now is not None:
            patches.replace(*rewards[i], score)
        fresh.append(score)
        marks.append(_with_original(mark, original))
    listed = b"[" + b", ".join(marks) + b"]"
    changes: Tree = {}
    if layout.reward and not rewards:
        changes = tree(layout.reward, b"[" + b", ".join(fresh) + b"]")
    if form.group_in_record:
        listed = dump_shown(dict(group_fields))[:-1] + b', "rollouts": ' + listed + b"}"
    patches.put(whole, {**changes, "ruler": listed})


def _written(mark: Annotation, layout: RecordLayout, on_failure: OnFailure, original: bytes | None) -> bytes:
    """What stands in the reward field from now on."""
    if mark.score is not None:
        return layout.form.replace(b"%s", dump(mark.score))
    if on_failure == "null" or layout.source:
        return layout.lost
    return original or layout.lost


def _with_original(mark: Annotation, original: bytes | None) -> bytes:
    """The `ruler` object; the original reward's own bytes are its last member."""
    ours = dump_shown({**mark.fields, _KEPT: None})
    if original is not None:  # `null` is the last value, in front of the closing brace
        return ours[: -len(b"null}")] + original + b"}"
    return ours


def _merged(one: Tree, other: Tree) -> Tree:
    """Two trees as one: `ruler` may stand in the object that holds the reward."""
    out = dict(one)
    for key, value in other.items():
        held = out.get(key)
        out[key] = _merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return out


@dataclass(frozen=True, slots=True)
class _One:
    """One trajectory's own object, and what is written on it."""

    text: bytes
    obj: Object
    layout: RecordLayout
    mark: Annotation
    on_failure: OnFailure

    def changes(self) -> Tree:
        """Everything that is written, `ruler` last."""
        original = self._original()
        values = self._rewarded(original)
        payload = self._payload()
        if payload is not None:  # the trajectory once more, as JSON text; ART has no place for `ruler` there
            patches = Patches(payload.text)
            patches.put(payload.obj, payload._rewarded(original))
            values = {**values, str(self.layout.payload): _quote(patches.apply())}
        return _merged(values, tree(self.layout.ruler, _with_original(self.mark, original)))

    def _value(self, path: Path) -> bytes | None:
        """The bytes of the value at a path; None where it is absent."""
        name = str(path[0])
        member = self.obj.members.get(name)
        if member is None:
            return None
        if path is self.layout.source and "*" in path:
            star = path.index("*")
            holder = self._value(path[:star])
            keys = read_object(holder).members if holder and holder[:1] == b"{" else {}
            first = next((key for key in keys if key != "ruler"), None)
            return None if first is None else self._value((*path[:star], first, *path[star + 1 :]))
        span = at(self.text, path[1:], member[1]) if len(path) > 1 else member[1:]
        return None if span is None else self.text[slice(*span)]

    def _payload(self) -> _One | None:
        """The trajectory that stands once more as JSON text."""
        inner, quoted = _inner(self._value((self.layout.payload,))) if self.layout.payload else (b"", False)
        layout = replace(self.layout, payload=None)
        return replace(self, text=inner, obj=read_object(inner), layout=layout) if quoted else None

    def _original(self) -> bytes | None:
        """The first reward the dump had, as its bytes; None where it had none."""
        layout = self.layout
        for holder in (layout.ruler, ("metrics",) if layout.extras else ()):
            inner, _ = _inner(self._value(holder)) if holder else (b"", False)
            kept = read_object(inner).members.get(_KEPT) if inner else None
            if kept is not None:
                found = inner[slice(*kept[1:])]
                return None if found == b"null" else found
        if (payload := self._payload()) is not None:
            return payload._original()
        place = layout.source or layout.reward
        value = self._value(place) if place else None
        return layout.absent if value is None else None if value == b"null" else value

    def _rewarded(self, original: bytes | None) -> Tree:
        """The reward field, and `metrics` and `logs` where the shape has them."""
        values: Tree = {}
        layout, failed = self.layout, self.mark.score is None
        if layout.reward is not None:
            now = self._value(layout.reward)
            new = _written(self.mark, layout, self.on_failure, original)
            # with `keep` an earlier run's score goes back to the original, and what is absent stays so, but
            # in an object that only the mark makes: a reader that takes no null would miss the reward there
            holder = layout.reward[:-1]
            made = now is None and layout.lost != b"null" and holder and layout.ruler[: len(holder)] == holder
            made = made and self._value(holder) in (None, b"null")
            if not failed or self.on_failure == "null" or now not in (None, original) or made:
                values = tree(layout.reward, new or None) if new or now is not None else {}
        return _merged(values, self._extras(original)) if layout.extras else values

    def _extras(self, original: bytes | None) -> Tree:
        """New values of `metrics` and `logs`; a shape that ruler does not know there is left alone."""
        values: dict[str, Tree | bytes | None] = {}
        score, said = self.mark.score, str(self.mark.fields.get("explanation", ""))
        metrics = {} if score is None else {"ruler_score": dump(score)}
        if original is not None:
            metrics[_KEPT] = original
        old = self._value(("metrics",))
        if old in (None, b"null"):
            values["metrics"] = metrics or old
        else:
            inner, quoted = _inner(old)
            changes = {"ruler_score": None, **metrics}
            if quoted:
                patches = Patches(inner)
                patches.put(read_object(inner), changes)
                values["metrics"] = _quote(patches.apply())
            elif inner:
                values["metrics"] = changes
        logs = self._value(("logs",))
        line = None if score is None else dump_shown(_LOG + said)
        if logs is None or logs == b"null":
            values["logs"] = b"[" + line + b"]" if line else logs
        elif logs[:1] == b"[":
            values["logs"] = _logs(logs, line)
        return {key: value for key, value in values.items() if value is not None}


def _logs(old: bytes, said: bytes | None) -> bytes:
    """`logs` with this explanation in the place of an earlier one, or behind the last item."""
    spans = read_array(old, 0)
    ours = [old.startswith(b'"' + _LOG.encode(), start) for start, _ in spans]
    patches = Patches(old)
    if said and any(ours):
        first = ours.index(True)
        patches.replace(*spans[first], said)
        ours[first] = False
    elif said:
        behind = spans[-1][1] if spans else 1
        patches.replace(behind, behind, (b", " if spans else b"") + said)
    patches.drop(spans, ours)
    return patches.apply()


def _inner(value: bytes | None) -> tuple[bytes, bool]:
    """An object's bytes, and whether they stand quoted as JSON text; empty where there is none."""
    if value and value[:1] == b"{":
        return value, False
    if value and value[:1] == b'"':
        try:
            inner = parse_text(value.decode("utf-8", "surrogatepass"))
            if isinstance(parse_text(inner), dict):
                return str(inner).strip().encode("utf-8", "surrogatepass"), True
        except UnreadableError:
            return b"", False
    return b"", False


def _quote(text: bytes) -> bytes:
    """JSON text as a JSON string."""
    return dump(text.decode("utf-8", "surrogatepass"))
