"""The record of a score: what `ruler` writes of a rollout and of a group into OUTPUT, and reads again.

It is the `--json` of a report and the data of its page, too. docs/output.md says what each key means.
"""

from __future__ import annotations

import time
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import (
    dataclass,
    field,
    fields,
)
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import zip_longest
from math import fsum
from typing import (
    Any,
    Literal,
    TypedDict,
    TypeVar,
    get_args,
)

from ruler_cli import __version__
from ruler_cli.scoring.statistics import (
    Concordance,
    Moments,
    concordance,
    one_score,
)
from ruler_cli.types import (
    ENDINGS,
    MOST_CRITERIA,
    NO_ANSWER,
    CriterionScore,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Kind,
    RolloutValues,
    readable_text,
    words_of,
)

Json = dict[str, Any]
SCHEMA = 4
"""Version of both records: since 2 every key stands in every record, with one type; since 3 criteria and `ended`;
since 4 rewards."""
INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""RFC 3339 in UTC, to the second."""
LARGEST = 1e50
"""The largest score or label: products of several must stay finite."""
_FINE = 6
"""Decimals of numbers that are computed from scores: enough to compute with, and short to read."""
_COARSE = 3
"""Decimals of a judge's score in one pass, and of the position of the rollout there."""
_READ = 9
"""Decimals of a score that count when it is read: a mean over passes added in another order is the same score."""
_DIGITS = 16
"""Hexadecimal digits of a digest."""
_MOST_NAMES = 12
"""Names of models that are read."""
_KINDS = get_args(Kind)
"""The kinds of failures that ruler writes; anything else in a file is `unknown`."""
_WRITTEN_AS = {"passes_for": "passes_for_0.9"}
"""Names in OUTPUT that no attribute can have."""
_NO_SCORES = GroupScores((), passes=0, weight=0.0)
_NO_REPLIES = GroupResult((), (), ())
"""Quality and counts of a group that failed."""
Status = Literal["scored", "failed", "unmarked"]
LabelSource = Literal["", "reward", "outcome", "given"]
_R = TypeVar("_R")


class Digests(TypedDict):
    """The digests of the rubric, and of the parameters of the judges, that made scores."""

    rubric: str
    params: str


def number_in(
    value: Any,
    least: float = -LARGEST,
    most: float = LARGEST,
) -> float | None:
    """Return a JSON number within bounds, else None; neither a truth value nor text is a score."""
    if type(value) not in (float, int) or not -LARGEST <= value <= LARGEST:
        return None  # NaN is within no bounds
    rounded = round(float(value), _READ) + 0.0
    return rounded if least <= rounded <= most else None


_amount = partial(number_in, least=0)
_share = partial(number_in, least=0, most=1)


def _count(value: Any) -> int:
    return int(_amount(value) or 0)


def _passes(value: Any) -> int | None:
    """Return a number of passes; None for 0, as of a failure."""
    return _count(value) or None


def text_in(value: Any) -> str:
    """Return a text, else the empty one."""
    return value if isinstance(value, str) else ""


def _list_in(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _numbers(
    value: Any,
    read: Callable[[Any], float | None] = number_in,
) -> Sequence[float]:
    """Return the numbers of a list; none if it holds anything else."""
    numbers = [read(item) for item in _list_in(value)]
    return () if None in numbers else tuple(numbers)  # type: ignore[arg-type]


def _kind(value: Any) -> str:
    return value if value in _KINDS else "unknown"


def _ending(value: Any) -> str:
    return value if value in ENDINGS else ""


def _digest(value: Any) -> str:
    text = text_in(value)
    return text if len(text) == _DIGITS else ""


def _names(value: Any) -> Sequence[str]:
    """Return the texts among the first few of a list."""
    listed = map(text_in, _list_in(value)[:_MOST_NAMES])
    return tuple(filter(None, listed))


def _judge_scores(value: Any) -> Sequence[Json]:
    return [
        {
            "judge": text_in(item.get("judge")),
            "score": number_in(item.get("score")),
            "explanation": readable_text(text_in(item.get("explanation"))),
        }
        for item in _list_in(value)
        if isinstance(item, dict) and item
    ]


def _usage(value: Any) -> Json:
    usage = value if isinstance(value, dict) else {}
    names = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens")
    counts: Json = {name: _count(usage.get(name)) for name in names}
    return counts | {"estimated": usage.get("estimated") is True}


def _is_true(value: Any) -> bool:
    return value is True


_NO_USAGE = _usage(None)
_READERS: dict[Callable[[Any], Any], str] = {
    number_in: "score judge_score",
    _amount: "spread weight cost_usd latency_s",
    _share: "reliability",
    _passes: "passes passes_for",
    _count: "size windows rescaled unknown_ids shortened pictures_left_out "
    "schema",
    text_in: "explanation reason judge version judged_at",
    _digest: "rubric params",
    _is_true: "suspect tied cached degraded escalated",
    _kind: "kind",
    _ending: "ended",
    _names: "served",
    _numbers: "pass_scores",
    partial(_numbers, read=_share): "slots",
    _judge_scores: "judges",
    _usage: "usage",
}
"""The functions that read a member of a record, with the names of these members."""


def _read_members(
    annotation: Json,
    names: Collection[str],
) -> Json:
    """Read the members with these names that an annotation, or the part of a group in it, has and that are not null."""
    members: Json = {}
    for read, of_kind in _READERS.items():
        for name in of_kind.split():
            value = annotation.get(_WRITTEN_AS.get(name, name))
            if value is not None and name in names:
                members[name] = read(value)
    return members


@dataclass(frozen=True)
class RolloutRecord:
    """The `ruler` object of a rollout: without a `score` (None) it failed.

    Its rewards come from the record's own bytes (see `formats.annotate`). What is read of a scored file has more, from
    `indices` on: those of its parts among all rollouts of the group, as a rollout in several parts counts as one; the
    first original reward or the outcome as a number (`label`), where it is from (also if it is no number), the bytes
    that the agent wrote (`size`), and whether a score is no finite number (`odd_score`).
    """

    status: Status = "unmarked"
    score: float | None = None
    judge_score: float | None = None
    explanation: str = ""
    kind: str = ""
    reason: str = ""
    judge: str = ""
    judges: Sequence[Json] = ()
    passes: int | None = None
    spread: float | None = None
    slots: Sequence[float] = ()
    pass_scores: Sequence[float] = ()
    criteria: Sequence[Json] = ()
    criteria_passes: Sequence[Sequence[float]] = ()
    suspect: bool = False
    ended: str = ""
    schema: int = 1

    indices: tuple[int, ...] = ()
    label: float | None = None
    label_source: LabelSource = ""
    size: int = 0
    odd_score: bool = False

    @classmethod
    def read(cls, annotation: Json, **values: Any) -> RolloutRecord:
        """Read an annotation; `values` are what the reader of the file knows."""
        members = _read_members(annotation, _ROLLOUT_NAMES)
        to_have_score = annotation.get("status") == "scored"
        score = members.get("score") if to_have_score else None
        judge_score = None
        if score is not None:
            judge_score = members.get("judge_score", score)
        odd_score = to_have_score and judge_score is None
        status: Status = "unmarked" if score is None else "scored"
        kind = reason = ""
        if score is None:
            members["judges"] = ()
            if "status" in annotation:
                status = "failed"
                kind = members.get("kind", "unknown")
                reason = members.get("reason", "")
            if odd_score:
                reason = "its score is not a number"
        # scores of passes say something with their positions only
        if len(members.get("pass_scores", ())) != len(members.get("slots", ())):
            members["pass_scores"] = ()
        criteria, criteria_passes = _criteria(annotation)
        members |= {
            "status": status,
            "score": score,
            "judge_score": judge_score,
            "kind": kind,
            "reason": reason,
            "criteria": criteria,
            "criteria_passes": criteria_passes,
            "odd_score": odd_score,
        }
        return cls(**members | values)

    def as_json(self) -> Json:
        """Return the record as JSON."""
        record = {name: getattr(self, name) for name in _ROLLOUT_NAMES}
        return record | {"label": self.label, "bytes": self.size}

    @property
    def panel(self) -> Mapping[str, float]:
        """The scores of the judges of a panel, by name."""
        scores = {judge["judge"]: judge["score"] for judge in self.judges}
        return {
            name: score for name, score in scores.items() if score is not None
        }

    @property
    def criterion_values(self) -> Mapping[str, float]:
        """The values of the criteria, by name."""
        return {
            criterion["name"]: criterion["value"] for criterion in self.criteria
        }

    @property
    def mean_position(self) -> float | None:
        """The mean position over passes, from 0 to 1."""
        return sum(self.slots) / len(self.slots) if self.slots else None

    def values(
        self,
        distinct: int,
        *,
        placed: bool,
    ) -> RolloutValues:
        """Return the numbers that figures count; `placed`: its positions are those among all rollouts."""
        criteria = []
        rows: Iterable[tuple[Any, Any]] = zip_longest(
            self.criteria, self.criteria_passes, fillvalue=()
        )
        for criterion, passes in rows:
            score = CriterionScore(
                criterion["name"],
                criterion["value"],
                tuple(passes),
            )
            criteria.append(score)
        return RolloutValues(
            self.score,
            self.explanation,
            self.judge_score,
            self.spread,
            self.panel,
            positions=tuple(self.slots) if placed else (),
            pass_scores=tuple(self.pass_scores),
            suspect=self.suspect,
            criteria=tuple(criteria),
            label=self.label,
            size=self.size,
            distinct=distinct,
        )


@dataclass(frozen=True)
class GroupRecord:
    """The group's part of OUTPUT, its own `ruler` object, and what is read of a scored file has its `rollouts`."""

    status: Status = "unmarked"
    key: str = ""
    kind: str = ""
    reason: str = ""
    judge: str = ""
    size: int = 0
    passes: int | None = None
    tied: bool = False
    reliability: float | None = None
    weight: float | None = None
    passes_for: int | None = None
    degraded: bool = False
    escalated: bool = False
    windows: int = 0
    rescaled: int = 0
    unknown_ids: int = 0
    shortened: int = 0
    pictures_left_out: int = 0
    rubric: str = ""
    params: str = ""
    version: str = ""
    served: Sequence[str] = ()
    usage: Json = field(default_factory=_NO_USAGE.copy)
    cost_usd: float | None = None
    judged_at: str = ""
    latency_s: float | None = None
    cached: bool = False
    schema: int = 1

    rollouts: tuple[RolloutRecord, ...] = ()

    @classmethod
    def read(
        cls,
        part: Json,
        key: str,
        judge: str,
        rollouts: tuple[RolloutRecord, ...],
    ) -> GroupRecord:
        """Read a group's part; `judge` is that of its rollouts, if the part names none."""
        values: Json = {"key": key, "rollouts": rollouts}
        failed = [r for r in rollouts if r.status == "failed"]
        if any(rollout.status == "scored" for rollout in rollouts):
            values |= {"status": "scored", "kind": "", "reason": ""}
        elif failed or part.get("status") == "failed":
            failure = part
            if failed and not part.get("kind"):
                failure = vars(failed[0])
            values |= {
                "status": "failed",
                "kind": _kind(failure.get("kind")),
                "reason": text_in(failure.get("reason")),
            }
        else:
            return cls(**values)
        members = _read_members(part, _GROUP_NAMES)
        members["judge"] = members.get("judge") or judge
        return cls(**members | values)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The words for what is to know of it."""
        flags = [name for name in _FLAGS if getattr(self, name)]
        if any(rollout.suspect for rollout in self.rollouts):
            flags.insert(0, "suspect")
        if len(self.rollouts) == 1:
            flags.append("alone")
        return tuple(flags)

    @cached_property
    def written(self) -> Json:
        """The fields of OUTPUT."""
        return {
            _WRITTEN_AS.get(name, name): value
            for name, value in vars(self).items()
        }

    def as_json(self) -> Json:
        """Return the group as JSON, without the annotations and texts of its rollouts."""
        record = {name: getattr(self, name) for name in _GROUP_NAMES}
        return record | {
            "judged_at": self.judged_at or None,
            "tied": self.is_tied,
            "live": self.live,
            "mean": self.mean,
            "sd": self.sd,
            "disagreement": self.disagreement,
            "pairs": self.pairs.pairs,
            "flags": self.flags,
            "scores": [rollout.score for rollout in self.rollouts],
            "labels": [rollout.label for rollout in self.rollouts],
        }

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The scores of the rollouts that have one."""
        return tuple([r.score for r in self.rollouts if r.score is not None])

    @property
    def best_first(self) -> list[int]:
        """The indices of the rollouts, the highest score first, those without one last."""
        scores = [rollout.score for rollout in self.rollouts]
        indices = range(len(scores))
        return sorted(
            indices, key=lambda i: (scores[i] is None, -(scores[i] or 0.0))
        )

    @property
    def mean(self) -> float | None:
        """The mean score; None without any."""
        return fsum(self.scores) / len(self.scores) if self.scores else None

    @cached_property
    def sd(self) -> float | None:
        """The standard deviation of the scores; None with fewer than two."""
        return (
            Moments().add(self.scores).spread if len(self.scores) > 1 else None
        )

    @property
    def failed(self) -> bool:
        """True if ruler judged the group and no rollout has a score."""
        return self.status == "failed"

    @property
    def is_tied(self) -> bool:
        """True if its scores differ by no more than the judge's noise, or not at all."""
        return bool(self.scores) and (self.tied or one_score(self.scores))

    @property
    def live(self) -> bool:
        """True if a trainer learns from it: it is scored and not tied."""
        return bool(self.scores) and not self.is_tied

    @property
    def one_score(self) -> bool:
        """True if the judge gave one score to rollouts that differ: it saw them at different positions."""
        scores = [rollout.judge_score for rollout in self._scored]
        several = len(self._positions) > 1
        return several and None not in scores and one_score(scores)

    @property
    def alone(self) -> bool:
        """True if it is scored and the judge saw one distinct rollout; identical ones share positions."""
        positions = self._positions
        return len(self._scored) == 1 or (
            len(positions) == 1 and any(positions)
        )

    @property
    def _scored(self) -> list[RolloutRecord]:
        return [r for r in self.rollouts if r.score is not None]

    @property
    def _positions(self) -> set[tuple[float, ...]]:
        return {tuple(rollout.slots) for rollout in self._scored}

    @cached_property
    def pairs(self) -> Concordance:
        """Pairs of rollouts with different labels, by the judge's order of them."""
        rows = [
            (rollout.judge_score, rollout.label)
            for rollout in self.rollouts
            if rollout.judge_score is not None and rollout.label is not None
        ]
        return concordance(rows)

    @property
    def disagreement(self) -> float | None:
        """The share of pairs ordered against their labels, from 0 to 1; None if no two labels differ."""
        pairs = self.pairs
        return pairs.against / pairs.pairs if pairs.pairs else None

    @property
    def values(self) -> GroupScores:
        """The scores that figures count; identical rollouts share their positions."""
        numbers: dict[object, int] = {}
        rollouts = []
        for i, rollout in enumerate(self.rollouts):
            placed = not self.windows and bool(rollout.slots)
            same = tuple(rollout.slots) if placed else i
            distinct = numbers.setdefault(same, i)
            rollouts.append(rollout.values(distinct, placed=placed))
        return GroupScores(
            tuple(rollouts),
            tied=self.is_tied,
            one_score=self.one_score,
            alone=self.alone,
            reliability=self.reliability,
            degraded=self.degraded,
        )

    @property
    def time(self) -> float | None:
        """The time at which it was judged, in seconds since 1970; None: the file does not say."""
        with suppress(ValueError):
            at = datetime.strptime(self.judged_at, INSTANT)
            return at.replace(tzinfo=UTC).timestamp()
        return None


_names_of = [member.name for member in fields(RolloutRecord)]
_ROLLOUT_NAMES = tuple(_names_of[: _names_of.index("indices")])
_names_of = [member.name for member in fields(GroupRecord)]
_GROUP_NAMES = tuple(_names_of[: _names_of.index("rollouts")])
_FLAGS = words_of(
    "degraded escalated windows shortened pictures_left_out cached"
)
"""Members of a group that are flags."""


def _made(
    kind: type[_R],
    values: Json,
) -> _R:
    """Make a record of what stands in OUTPUT; to fill in the rest would take longer than the whole line does."""
    record = object.__new__(kind)
    vars(record).update(values)
    return record


def _criteria(annotation: Json) -> tuple[list[Json], list[Sequence[float]]]:
    """Return the values of the criteria of a rollout, and those in each pass if the file has them."""
    listed = _list_in(annotation.get("criteria"))[:MOST_CRITERIA]
    passes = _list_in(annotation.get("criteria_passes"))
    if len(passes) != len(listed):
        passes = [()] * len(listed)
    criteria = []
    read = []
    for item, row in zip(listed, passes, strict=True):
        named = item if isinstance(item, dict) else {}
        value = _share(named.get("value"))
        name = text_in(named.get("name"))
        if value is not None and name:
            criteria.append({"name": name, "value": value})
            read.append(_numbers(row))
    return criteria, read


def rollout_records(
    group: Group,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    shared: GroupRecord,
) -> list[RolloutRecord]:
    """Make the record of each rollout of the group, in input order; `names` are those of all judges."""
    if isinstance(scores, GroupError):
        rollouts = (RolloutValues(None, scores.reason),) * len(group.rollouts)
    else:
        rollouts = scores.rollouts
    records = []
    for judged, rollout in zip(
        rollouts,
        group.rollouts,
        strict=True,
    ):
        score = judged.score
        values = _NO_VALUES if score is None else judged
        kind = reason = ""
        if score is None:
            reason = judged.explanation
            kind = "refused" if reason == NO_ANSWER else shared.kind or "input"
        judges = []
        if len(names) > 1:
            for judge, own_score in values.by_judge.items():
                judge_record = {
                    "judge": names[judge],
                    "score": _fine(own_score),
                    "explanation": values.explanations.get(
                        judge, values.explanation
                    ),
                }
                judges.append(judge_record)
        judge_score = values.judge_score
        record = {
            "status": "failed" if score is None else "scored",
            "score": score,
            "judge_score": score
            if judge_score == score
            else _fine(judge_score),
            "explanation": values.explanation,
            "kind": kind,
            "reason": reason,
            "judge": shared.judge,
            "judges": judges,
            "passes": 0 if score is None else shared.passes,
            "spread": _fine(values.spread),
            "slots": [
                round(position, _COARSE) for position in values.positions
            ],
            "pass_scores": [
                round(score, _COARSE) for score in values.pass_scores
            ],
            "criteria": [
                {"name": criterion.name, "value": round(criterion.value, _FINE)}
                for criterion in values.criteria
            ],
            "criteria_passes": [
                [round(value, _COARSE) for value in criterion.passes]
                for criterion in values.criteria
            ],
            "suspect": values.suspect,
            "ended": rollout.ended,
            "schema": SCHEMA,
        }
        records.append(_made(RolloutRecord, record))
    return records


_NO_VALUES = RolloutValues(None, "")


def group_record(
    group: Group,
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    cost_usd: float | None,
    digests: Digests,
) -> GroupRecord:
    """Make the record of a group, which stands once if the group is one record of OUTPUT."""
    failure = scores if isinstance(scores, GroupError) else None
    quality = scores if isinstance(scores, GroupScores) else _NO_SCORES
    counted = _NO_REPLIES if failure else result
    usage = result.usage
    judges = {reply.judge for reply in result.pass_scores}
    asked = judges or {call.judge for call in result.failed_calls} or {0}
    # of a group without scores those that were asked
    judged_by = sorted(asked) if failure else quality.used
    record = {
        "status": "failed" if failure else "scored",
        "key": group.key,
        "kind": failure.kind if failure else "",
        "reason": failure.reason if failure else "",
        "judge": ", ".join([names[judge] for judge in judged_by]),
        "size": group.compared,
        "passes": quality.passes,
        "tied": quality.tied,
        "reliability": _fine(quality.reliability),
        # a factor: one pass says nothing against the scores
        "weight": 1.0 if quality.weight is None else _fine(quality.weight),
        "passes_for": quality.passes_for,
        "degraded": quality.degraded,
        "escalated": counted.escalated_to in quality.used,
        "windows": counted.windows if counted.windows > 1 else 0,
        "rescaled": 0,  # of earlier versions
        "unknown_ids": counted.unknown,
        "shortened": counted.shortened,
        "pictures_left_out": counted.pictures_left_out,
        **digests,
        "version": __version__,
        "served": list(result.served),
        "usage": {
            "calls": usage.calls,
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "cached_tokens": usage.cached,
            "estimated": usage.estimated,
        },
        "cost_usd": None if cost_usd is None else round(cost_usd, 8),
        "judged_at": time.strftime(INSTANT, time.gmtime(result.ended)),
        "latency_s": round(result.seconds, 3),
        "cached": result.cached,
        "schema": SCHEMA,
    }
    return _made(GroupRecord, record)


def _fine(value: float | None) -> float | None:
    return None if value is None else round(value, _FINE)
