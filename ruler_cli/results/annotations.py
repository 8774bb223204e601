"""Records of a scored file → groups with their annotations; each field is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import count
from statistics import fmean
from typing import Any, Literal, get_args

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse
from ruler_cli.files.values import is_list, lookup
from ruler_cli.formats.paths import LISTS
from ruler_cli.formats.reader import Reader
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.results.fields import INSTANT, usage_fields
from ruler_cli.scoring.rewards import number, passed
from ruler_cli.scoring.statistics import Concordance, Moments, concordance, one_score
from ruler_cli.types import (
    ENDINGS,
    MOST_CRITERIA,
    CriterionScore,
    Group,
    Kind,
    Record,
    Rollout,
    Usage,
    iso,
    readable_text,
)

MOST_JUDGES = 12
"""Judges of a panel that are read; a file with more of them is damaged or hostile."""
LARGEST = 1e50
"""The largest score or label: products of several must stay finite."""
_DIGITS = 9
"""Decimals of a score that count: a mean over passes added in another order is the same score."""
_DIGEST = re.compile("[0-9a-f]{16}")

AnnotationStatus = Literal["scored", "failed", "unmarked"]
LabelSource = Literal["", "reward", "outcome", "given"]
Json = dict[str, Any]
_NOTHING: Json = {}
_GROUP_JSON = (
    "key",
    "status",
    "kind",
    "reason",
    "judge",
    "passes",
    "mean",
    "sd",
    "tied",
    "live",
    "reliability",
    "weight",
    "disagreement",
    "cost_usd",
    "latency_s",
    "flags",
)
_ROLLOUT_JSON = (
    "status",
    "score",
    "label",
    "explanation",
    "spread",
    "pass_scores",
    "judges",
    "explanations",
    "suspect",
    "ended",
    "kind",
    "reason",
)
"""Values that have the same name in JSON."""
_Part = tuple[int, Rollout, Json]
"""A part of a rollout: its index among all rollouts of the group, and its annotation."""


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """One rollout with its annotation; a rollout in several parts counts as one.

    `indices` are those of its parts among `Group.rollouts`. `score` is the reward that ruler wrote. `judge_score` is
    the judges' own score, which an outcome or a reward may have moved. `label` is the first original reward, else the
    outcome, as a number. `positions` are those at which the judge saw it, from 0 (first) to 1 (last), one for each
    pass. `pass_scores` are its scores there, empty if the file has none. `judges` and `explanations` hold the scores
    and the explanations of a panel, `criteria` the values of the criteria of the rubric. `spread` is the standard
    deviation of its score over passes. `size` is the number of bytes that the agent wrote, `ended` one of ENDINGS or
    empty. A rollout without a score has a `kind` and a `reason`.

    `odd_score`: annotated as scored, but the score is no finite number. `more_judges` counts scores of a
    panel beyond the first few. `label_source` is set also if the label is no number.
    """

    indices: tuple[int, ...]
    status: AnnotationStatus
    score: float | None = None
    judge_score: float | None = None
    label: float | None = None
    explanation: str = ""
    spread: float | None = None
    positions: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    judges: Mapping[str, float] = field(default_factory=dict)
    explanations: Mapping[str, str] = field(default_factory=dict)
    criteria: tuple[CriterionScore, ...] = ()
    suspect: bool = False
    ended: str = ""
    size: int = 0
    kind: str = ""
    reason: str = ""
    label_source: LabelSource = ""
    odd_score: bool = False
    more_judges: int = 0

    def as_json(self) -> Json:
        """Return the annotation as JSON."""
        return {name: getattr(self, name) for name in _ROLLOUT_JSON} | {
            "judged": self.judge_score,
            "slots": self.positions,
            "bytes": self.size,
            "criteria": {one.name: one.value for one in self.criteria},
        }

    @property
    def mean_position(self) -> float | None:
        """The mean position over passes, from 0 to 1."""
        return fmean(self.positions) if self.positions else None

    def last_of(self, values: Sequence[Any]) -> Any:
        """Return the value of its last part that has one of `values`, which are those of all parts of the group."""
        known = (values[i] for i in reversed(self.indices) if values[i] is not None)
        return next(known, None)


@dataclass(frozen=True)
class ScoredGroup:
    """One group, its rollouts in input order, and the group's part of the annotations.

    `judged_at` is in seconds since 1970; None: the file does not say.
    `flags` are words: suspect, degraded, escalated, windows, shortened, pictures_left_out, alone, cached. `kind`
    and `reason` say why a group failed. `rubric` and `params` are digests, `version` is that of ruler, `served`
    names the models that answered; empty in files of older versions.
    """

    key: str
    rollouts: tuple[ScoredRollout, ...]
    status: AnnotationStatus
    kind: str = ""
    reason: str = ""
    judge: str = ""
    passes: int | None = None
    annotated_tied: bool = False
    reliability: float | None = None
    weight: float | None = None
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    cost_usd: float | None = None
    latency_s: float | None = None
    judged_at: float | None = None
    rubric: str = ""
    params: str = ""
    version: str = ""
    served: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the group as JSON, without the annotations and texts of its rollouts."""
        return {name: getattr(self, name) for name in _GROUP_JSON} | {
            "scores": [r.score for r in self.rollouts],
            "labels": [r.label for r in self.rollouts],
            "pairs": self.pairs.pairs,
            "usage": usage_fields(self.usage),
            "judged_at": iso(self.judged_at),
        }

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The scores of the rollouts that have one."""
        return tuple(r.score for r in self.rollouts if r.score is not None)

    @property
    def best_first(self) -> list[int]:
        """The indices of the rollouts, the highest score first, those without one last."""
        scores = [rollout.score for rollout in self.rollouts]
        indices = range(len(scores))
        return sorted(indices, key=lambda i: (scores[i] is None, -(scores[i] or 0.0)))

    @property
    def mean(self) -> float | None:
        """The mean score; None without any."""
        return fmean(self.scores) if self.scores else None

    @cached_property
    def sd(self) -> float | None:
        """The standard deviation of the scores; None with fewer than two."""
        return Moments().add(self.scores).spread if len(self.scores) > 1 else None

    @property
    def failed(self) -> bool:
        """True if ruler judged the group and no rollout has a score."""
        return self.status == "failed"

    @property
    def tied(self) -> bool:
        """True if its scores differ by no more than the judge's noise, or not at all."""
        equal = self.annotated_tied or one_score(self.scores)
        return bool(self.scores) and equal

    @property
    def one_score(self) -> bool:
        """True if the judge gave one score to rollouts that differ: it saw them at different positions."""
        scored = [r for r in self.rollouts if r.score is not None]
        scores = [r.judge_score for r in scored]
        several = len({r.positions for r in scored}) > 1
        return several and None not in scores and one_score(scores)

    @property
    def alone(self) -> bool:
        """True if it is scored and the judge saw one distinct rollout; identical ones share positions."""
        positions = [r.positions for r in self.rollouts if r.score is not None]
        return len(positions) == 1 or (len(set(positions)) == 1 and any(positions))

    @property
    def live(self) -> bool:
        """True if a trainer learns from it: it is scored and not tied."""
        return bool(self.scores) and not self.tied

    @cached_property
    def pairs(self) -> Concordance:
        """Pairs of rollouts with different labels, by the judge's order of them."""
        return concordance(
            [
                (r.judge_score, r.label)
                for r in self.rollouts
                if r.judge_score is not None and r.label is not None
            ]
        )

    @property
    def disagreement(self) -> float | None:
        """The share of pairs ordered against their labels, from 0 to 1; None if no two labels differ."""
        pairs = self.pairs
        return pairs.against / pairs.pairs if pairs.pairs else None


class AnnotationReader:
    """Reads the annotations of one scored file, group by group.

    With `given`, labels stand at the user's path, and the format reader hands them over as the outcome.
    Else a label is the first original reward, or the outcome that the format knows. Without `sized`,
    rollouts have the size 0: to measure them is half of the work.
    """

    def __init__(
        self, reader: Reader, *, given: bool = False, sized: bool = True
    ) -> None:
        self.reader = reader
        self._given = given
        self._sized = sized
        self._line: tuple[bytes, Json] = (b"", {})
        self._judges = set[str]()

    def value(self, record: Record) -> Json:
        """Parse the line of a record; the groups of one columnar line share it.

        Numbers of more than 64 bits become floats.
        """
        raw = record.line.raw
        if self._line[0] is not raw:
            self._line = (raw, {})
            # nested as deeply as the reader could just read
            with suppress(RecursionError, UnreadableError):
                self._line = (raw, parse(raw, exact=False))
        return self._line[1]

    def group(self, group: Group) -> ScoredGroup:
        """Read one group; parts of one rollout become one."""
        parts: dict[object, list[_Part]] = {}
        part = _NOTHING  # the group's own annotation
        judge = ""
        indices = count()
        for record in group.records:
            value = self.value(record)
            for rollout, index in zip(record.rollouts, indices, strict=False):
                annotation = self.reader.previous_annotation(value, rollout) or _NOTHING
                name = index if rollout.member is None else rollout.member
                parts.setdefault(name, []).append((index, rollout, annotation))
                part = part or _object(annotation.get("group"))
                judge = judge or _text(annotation.get("judge"))
            if self.reader.format.group_in_record:
                part = part or _object(value.get("ruler"))
        rollouts = tuple(map(self._rollout, parts.values()))
        failures = [r for r in rollouts if r.status == "failed"]
        status: AnnotationStatus = "unmarked"
        kind = reason = ""
        quality = _NOTHING  # of scores
        if any(r.status == "scored" for r in rollouts):
            status = "scored"
            quality = part
        elif failures or part.get("status") == "failed":
            status = "failed"
            kind = _kind(part)
            reason = _text(part.get("reason"))
            if failures and not part.get("kind"):
                kind = failures[0].kind
                reason = failures[0].reason
        else:
            part = _NOTHING
            judge = ""
        fields = _read(part, _OF_GROUP) | _read(quality, _OF_SCORED)
        if fields["reliability"] is None and fields["weight"] == 1:
            fields["weight"] = None  # then it says nothing
        flags = {
            "suspect": any(r.suspect for r in rollouts),
            **{name: quality.get(name) for name in _FLAGS},
            "alone": len(rollouts) == 1,
            "cached": part.get("cached") is True,
        }
        return ScoredGroup(
            key=group.key,
            rollouts=rollouts,
            status=status,
            kind=kind,
            reason=reason,
            judge=_text(part.get("judge")) or judge,
            annotated_tied=quality.get("tied") is True,
            flags=tuple([name for name, holds in flags.items() if holds]),
            **fields,
        )

    def values_at(self, group: Group, path: str) -> list[Any]:
        """Return the value at a path of each part of a rollout; None if it is absent.

        UsageError for a record with values of which it is not clear to which rollouts they belong.
        """
        form = self.reader.format
        found = []
        for record in group.records:
            whole = self.value(record)
            shared = form.listed and not LISTS.search(path)
            value = lookup(whole, path) if shared else None
            if is_list(value):
                # else it is of all rollouts
                several = record.parts > 1
                shared = not several and len(value) != len(record.rollouts)
            try:
                for part in record.rollouts:
                    own = value if shared else self.reader.value_at(whole, part, path)
                    found.append(own)
            except UnreadableError as error:
                raise UsageError(f"{record.line.where} {error}") from None
        return found

    def _rollout(self, parts: list[_Part]) -> ScoredRollout:
        annotation = parts[0][2]
        fields = _read(annotation, _OF_ROLLOUT)
        is_scored = annotation.get("status") == "scored"
        score = judge_score = _finite(annotation.get("score")) if is_scored else None
        if score is not None and annotation.get("judge_score") is not None:
            judge_score = _finite(annotation["judge_score"])
        odd_score = is_scored and judge_score is None
        status: AnnotationStatus = "scored"
        if "status" not in annotation:
            status = "unmarked"
        elif score is None:
            status = "failed"
            reason = annotation.get("reason")
            if odd_score:
                reason = "its score is not a number"
            fields |= {"kind": _kind(annotation), "reason": _text(reason)}
        positions = _numbers(annotation.get("slots"))
        if not all(0 <= position <= 1 for position in positions):
            positions = ()
        pass_scores = _numbers(annotation.get("pass_scores"))
        only = judge_score is not None and (round(judge_score, 3),) == pass_scores
        if only or len(pass_scores) != len(positions):
            pass_scores = ()  # a single one says no more than the score
        label, label_source = self._label(parts)
        judges, explanations, more_judges = self._panel(annotation.get("judges"))
        return ScoredRollout(
            indices=tuple([index for index, _, _ in parts]),
            status=status,
            score=score,
            judge_score=judge_score,
            label=label,
            positions=positions,
            pass_scores=pass_scores,
            judges=judges if is_scored else {},
            explanations=explanations if is_scored else {},
            criteria=_criteria(annotation) if is_scored else (),
            ended=_ending(parts[-1][2].get("ended")),
            size=sum([_size(part) for _, part, _ in parts]) if self._sized else 0,
            label_source=label_source,
            odd_score=odd_score,
            more_judges=more_judges,
            **fields,
        )

    def _label(self, parts: list[_Part]) -> tuple[float | None, LabelSource]:
        """Return the label of a rollout and its source; of several parts the last with a label counts.

        A reward that equals ruler's score is no label of itself.
        """
        outcome: Any = None
        for _, rollout, annotation in reversed(parts):
            reward = None if self._given else rollout.reward
            score = _finite(annotation.get("score"))
            own = score is not None and annotation.get("independent_reward") is None
            if reward is not None and not (own and number(reward) == score):
                return label_of(reward), "reward"
            outcome = rollout.outcome if outcome is None else outcome
        if outcome is None:
            return None, ""
        return label_of(outcome), "given" if self._given else "outcome"

    def _panel(self, value: Any) -> tuple[Mapping[str, float], Mapping[str, str], int]:
        """Return the scores of a panel's judges, their explanations, and the number of scores left out.

        These are of judges beyond the first of the file.
        """
        # as the first schema has it
        listed = [{"judge": name, "score": one} for name, one in _object(value).items()]
        if type(value) is list:
            listed = [*map(_object, value)]
        judges: dict[str, float] = {}
        explanations: dict[str, str] = {}
        more = 0
        for one in filter(None, listed):
            name = _text(one.get("judge"))
            if len(self._judges) < MOST_JUDGES:
                self._judges.add(name)
            if name not in self._judges:
                more += 1
            elif (known := _finite(one.get("score"))) is not None:
                judges[name] = known
                if said := readable_text(_text(one.get("explanation"))):
                    explanations[name] = said
        return judges, explanations, more


def _criteria(annotation: Json) -> tuple[CriterionScore, ...]:
    """Return the values of the criteria of a rollout, with those in each pass if the file has them."""
    values = annotation.get("criteria")
    listed = values[:MOST_CRITERIA] if isinstance(values, list) else []
    passes = annotation.get("criteria_passes")
    rows = passes if isinstance(passes, list) and len(passes) == len(listed) else []
    found = []
    for i, one in enumerate(map(_object, listed)):
        value = _finite(one.get("value"), 0, 1)
        name = _text(one.get("name"))
        if value is not None and name:
            found.append(CriterionScore(name, value, _numbers(rows[i]) if rows else ()))
    return tuple(found)


def refuse_unannotated(name: str, groups: int, unmarked: int) -> None:
    """Raise UsageError if no group of the file `name` has ever been scored."""
    if groups == unmarked:
        raise UsageError(
            f"{name}: no rollout has an annotation of ruler; score it first: "
            f"`ruler score {name} scored.jsonl`"
        )


def label_of(value: Any) -> float | None:
    """Read a label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None for anything else: null, NaN, a number too large, an object without a reward.
    """
    label = number(value)
    if label is None:
        good = passed(value)
        return None if good is None else float(good)
    return label if abs(label) <= LARGEST else None


def _read(part: Json, fields: _Readers) -> Json:
    return {name: read(part.get(name)) for name, read in fields.items()}


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else _NOTHING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ending(value: Any) -> str:
    return value if value in ENDINGS else ""


def _digest(value: Any) -> str:
    text = _text(value)
    return text if _DIGEST.fullmatch(text) else ""


def _names(value: Any) -> tuple[str, ...]:
    """Return the texts among the first few of a list."""
    first = value[:MOST_JUDGES] if isinstance(value, list) else ()
    return tuple(filter(None, map(_text, first)))


def _kind(annotation: Json) -> str:
    kind = _text(annotation.get("kind"))
    return kind if kind in _KINDS else "unknown"


def _finite(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """Return a JSON number within bounds, else None; neither a truth value nor text is a score."""
    if type(value) not in (float, int) or not -LARGEST <= value <= LARGEST:
        return None  # NaN is within no bounds
    rounded = round(float(value), _DIGITS)
    return rounded if least <= rounded <= most else None


_amount = partial(_finite, least=0)


_share = partial(_finite, least=0, most=1)


def _whole(value: Any) -> int | None:
    amount = _amount(value)
    return None if amount is None else int(amount)


def _numbers(value: Any) -> tuple[float, ...]:
    """Return the numbers of a list; none if it holds anything else."""
    listed = value if type(value) is list else ()
    numbers = [number for number in map(_finite, listed) if number is not None]
    return tuple(numbers) if len(numbers) == len(listed) else ()


def _usage(value: Any) -> Usage:
    usage = _object(value)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")
    prompt, completion, cached, calls = (_whole(usage.get(name)) or 0 for name in names)
    estimated = usage.get("estimated") is True
    return Usage(prompt, completion, cached, calls, estimated=estimated)


def _time(value: Any) -> float | None:
    """Read a time as ruler writes it, `2026-11-21T02:14:05Z`, as seconds since 1970."""
    try:
        time = datetime.strptime(value, INSTANT).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
    return time.timestamp()


def _size(rollout: Rollout) -> int:
    """Count the bytes of the agent's messages as JSON; the prompt is the same for all of a group."""
    own = rollout.messages[first_agent_turn(rollout.messages) :]
    try:
        return sum([len(dump(part)) for part in (own, *rollout.histories)])
    except RecursionError:  # so deep that it can be read but not written
        return 0


_Readers = Mapping[str, Callable[[Any], Any]]
"""Fields of an annotation, and what reads each."""
_OF_ROLLOUT: _Readers = {
    "explanation": _text,
    "spread": _amount,
    "suspect": lambda value: value is True,
}
_OF_GROUP: _Readers = {
    "usage": _usage,
    "cost_usd": _amount,
    "latency_s": _amount,
    "judged_at": _time,
    "rubric": _digest,
    "params": _digest,
    "version": _text,
    "served": _names,
}
_OF_SCORED: _Readers = {
    "passes": _whole,
    "reliability": _share,
    "weight": _amount,
}
"""Those of a group that has scores."""
_FLAGS = ("degraded", "escalated", "windows", "shortened", "pictures_left_out")
"""Fields of a group that has scores, and that are flags if they are true or not zero."""
_KINDS = get_args(Kind)
"""The kinds of failures that ruler writes; anything else in a file is `unknown`."""
