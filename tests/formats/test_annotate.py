"""Annotations of rollouts and groups, and the records that hold them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli import __version__
from ruler_cli.files.parse import parse
from ruler_cli.formats.annotate import Annotation, annotate
from ruler_cli.formats.format import Format
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.table import rollouts_of
from ruler_cli.results.record import Digests, group_record, rollout_records
from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.settings.models import CombineSettings, OnFailure
from ruler_cli.types import Group, GroupResult, Rollout, Usage
from tests.scoring.group_results import (
    failed_call,
    group_result,
    groups,
    one_pass,
)
from tests.values import (
    group,
    layouts,
    line,
    reader,
    same,
    talk,
    text_of,
    texts,
    values,
)

GROUP = {"status": "scored", "key": "g"}
MESSAGES = {"messages": talk("4")}
ROW = {"group_index": 0, "group_metadata": "{}"}


def scored(score: float = 0.75, explanation: str = "good") -> Annotation:
    """Return the annotation of a scored rollout."""
    return {"status": "scored", "score": score, "explanation": explanation}


FAILED = {
    "status": "failed",
    "kind": "reply",
    "reason": "the judge said nothing",
}


def annotated(
    record: Any,
    *annotations: Annotation,
    on_failure: OnFailure = "null",
    using: Reader | None = None,
) -> bytes:
    """Return one record's bytes with these annotations."""
    using = using or reader(record)
    (read,) = using.read(line(record))
    whole = [
        {**m, "group": GROUP} if using.format.shape != "group" else m
        for m in annotations
    ]
    both = list(zip(read.rollouts, whole, strict=True))
    return annotate(read.line.raw, using.format, both, GROUP, on_failure)


def annotated_record(
    record: Any, *annotations: Annotation, **how: Any
) -> dict[str, Any]:
    """Return one record with these annotations."""
    return parse(annotated(record, *annotations, **how))


FIRST: dict[str, Any] = {"reward_path": "reward", "rewards": []}


def test_trajectory() -> None:
    """A trajectory gets reward, metrics, log and `ruler`, with the group's fields inside."""
    done = annotated_record(
        {
            **MESSAGES,
            "reward": 1,
            "metrics": {"m": 2},
            "logs": ["l"],
            "x": None,
        },
        scored(),
    )
    assert done == {
        **MESSAGES,
        "reward": 0.75,
        "metrics": {"m": 2, "ruler_score": 0.75, "independent_reward": 1},
        "logs": ["l", "RULER explanation: good"],
        "x": None,
        "ruler": {**scored(), "group": GROUP, **FIRST, "independent_reward": 1},
    }
    assert list(done)[-1] == "ruler"


def test_group() -> None:
    """A group gets an annotation in each trajectory, and its own fields once."""
    record = {
        "trajectories": [{**MESSAGES, "reward": 1}, 7, {**MESSAGES, "n": 3}],
        "rubric": "r",
    }
    done = annotated_record(record, scored(0.1), FAILED, scored(0.9))
    first, second, third = done["trajectories"]
    assert [t["reward"] for t in (first, third)] == [0.1, 0.9]
    assert [t["ruler"]["independent_reward"] for t in (first, third)] == [
        1,
        None,
    ]
    assert "group" not in first["ruler"]
    assert (second, done["ruler"], done["rubric"]) == (7, GROUP, "r")


REWARDS = [
    "1.00",
    "1e0",
    "123456789012345678901234567890",
    "0.1234567890123456789012345678",
]
REWARDS += ['"1.0"', "true", "[1, 2.50]", '{"a": {"score": 1,  "weight": 1e2}}']


@pytest.mark.parametrize("reward", REWARDS)
def test_verbatim(reward: str) -> None:
    """The independent reward has the bytes of the original one."""
    raw = (
        f'{{"messages": {json.dumps(talk("4"))}, "reward": {reward}}}'.encode()
    )
    done = annotated(raw, scored())
    assert done.count(f'"independent_reward": {reward}'.encode()) == 1
    assert done.count(f'"independent_reward":{reward}'.encode()) == 1
    assert b'"reward": 0.75' in done


@pytest.mark.parametrize(
    ("record", "original"),
    [
        (MESSAGES, None),
        ({**MESSAGES, "reward": None}, None),
        ({"messages_and_choices": talk("4")}, 0.0),
        ({"messages_and_choices": talk("4"), "reward": None}, None),
        ({**ROW, **MESSAGES}, 0.0),
    ],
)
def test_absent(record: dict[str, Any], original: float | None) -> None:
    """An absent reward is null, or 0.0 in ART, which omits that value."""
    done = annotated_record(record, scored())
    assert done["ruler"]["independent_reward"] == original
    assert done["metrics"].get("independent_reward") == original


def unpacked(raw: bytes) -> dict[str, Any]:
    """Return a record with its members in JSON text parsed."""
    quoted = ("metrics", "trajectory_json")
    record = parse(raw)
    return {
        k: json.loads(v) if k in quoted and str(v)[:2] == '{"' else v
        for k, v in record.items()
    }


@pytest.mark.parametrize(
    "record",
    [
        {**MESSAGES, "reward": None},
        {**MESSAGES, "reward": 1.5, "metrics": "other", "logs": 3},
        {**ROW, **MESSAGES, "reward": 1.5, "metrics": '{"m": 1}'},
        {
            "group_index": 0,
            "trajectory_json": json.dumps({**MESSAGES, "reward": 1.5}),
            "reward": 1.5,
        },
        {
            "group_index": 0,
            "trajectory_json": json.dumps({**MESSAGES, "reward": None}),
            "reward": None,
        },
    ],
)
@pytest.mark.parametrize(
    "between", [scored(0.2, "bad"), FAILED], ids=["scored", "failed"]
)
def test_again(record: dict[str, Any], between: Annotation) -> None:
    """A record scored again equals one scored once, where it has odd members or repeats itself as text."""
    detected = reader(record)
    once = unpacked(annotated(record, scored(), using=detected))
    twice = unpacked(
        annotated(
            annotated(record, between, using=detected), scored(), using=detected
        )
    )
    assert twice == once


def test_failed_after_scored() -> None:
    """A failure removes the score and explanation of an earlier run, also with `keep`."""
    raw = (
        b'{"messages": %s, "reward": 1.50, "logs": ["a", "b"]}'
        % json.dumps(talk("4")).encode()
    )
    before = annotated(raw, scored())
    for how, reward in (("null", b"null"), ("keep", b"1.50")):
        done = annotated(before, FAILED, on_failure=how)  # type: ignore[arg-type]  # one of the two
        assert b'"reward": ' + reward in done
        assert b"ruler_score" not in done
        assert b"RULER explanation" not in done
        assert b'"logs": ["a", "b"]' in done
        assert b'"independent_reward":1.50' in done
    assert (
        annotated_record(
            annotated(MESSAGES, scored()), FAILED, on_failure="keep"
        )["reward"]
        is None
    )


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        (None, {"ruler_score": 0.75, "independent_reward": 1}),
        ({}, {"ruler_score": 0.75, "independent_reward": 1}),
        (
            '{"m": NaN}',
            '{"m": NaN, "ruler_score": 0.75, "independent_reward": 1}',
        ),
        (
            '{"m": "\\ud800"}',
            '{"m": "\\ud800", "ruler_score": 0.75, "independent_reward": 1}',
        ),
        ("not json", "not json"),
        ("[1]", "[1]"),
        ([1], [1]),
        (7, 7),
        (
            {"ruler_score": 0.1, "independent_reward": 9},
            {"ruler_score": 0.75, "independent_reward": 9},
        ),
    ],
)
def test_metrics(metrics: Any, wanted: Any) -> None:
    """Metrics are an object or JSON text; any other value stays."""
    assert (
        annotated_record(
            {**MESSAGES, "metrics": metrics, "reward": 1}, scored()
        )["metrics"]
        == wanted
    )


@pytest.mark.parametrize(
    ("logs", "wanted"),
    [
        ("[]", '["RULER explanation: good"]'),
        ('["a" , "b" ]', '["a", "b", "RULER explanation: good"]'),
        (
            '["a" ,"RULER explanation: old",1.0 ]',
            '["a", 1.0, "RULER explanation: good"]',
        ),
        (
            '["RULER explanation: 1","x","RULER explanation: 2"]',
            '["x", "RULER explanation: good"]',
        ),
        ("null", '["RULER explanation: good"]'),
        ('"text"', '"text"'),
        ("{}", "{}"),
    ],
)
def test_logs(logs: str, wanted: str) -> None:
    """The explanation is the last line of the log, in the place of an earlier one; others keep their bytes."""
    raw = f'{{"messages": {json.dumps(talk("4"))}, "logs": {logs}}}'.encode()
    assert f'"logs": {wanted}, ' in annotated(raw, scored()).decode()


def test_payload() -> None:
    """A row that repeats its trajectory as JSON text has the score in both places."""
    inner = '{"messages": [{"role": "user", "content": "é\\u00e9"}], "reward": 1.50, "metrics": {"m": NaN}}'
    raw = json.dumps(
        {
            "group_index": 0,
            "reward": 1.5,
            "trajectory_json": inner,
            "metrics": '{"m": NaN}',
        }
    )
    done = annotated_record(raw.encode(), scored())
    payload = done["trajectory_json"]
    assert payload.startswith(inner[: inner.index("1.50")] + "0.75")
    assert (
        '"metrics": {"m": NaN, "ruler_score": 0.75, "independent_reward": 1.50}'
        in payload
    )
    assert '"logs": ["RULER explanation: good"]' in payload
    assert '"ruler":' not in payload
    assert done["reward"] == 0.75
    assert done["ruler"]["independent_reward"] == 1.5
    failed = annotated_record(json.dumps(done).encode(), FAILED)
    assert '"reward": null' in failed["trajectory_json"]
    assert "ruler_score" not in failed["trajectory_json"]


extra = st.dictionaries(
    texts.filter(lambda k: k not in {"messages", "ruler", "trajectories"}),
    values,
)
OURS = ("reward", "metrics", "logs", "ruler")


@settings(max_examples=2 * settings().max_examples)
@given(
    extra,
    layouts(),
    st.sampled_from([scored(), FAILED]),
    st.sampled_from(["null", "keep"]),
    values,
)
def test_other_members(
    more: dict[str, Any],
    layout: dict[str, Any],
    which: Annotation,
    on_failure: OnFailure,
    reward: Any,
) -> None:
    """Only ruler's own members of a record change."""
    detected = reader(MESSAGES)
    record = {**more, **MESSAGES, "reward": reward}
    raw = text_of(record, {**layout, "indent": None})
    done = parse(annotated(raw, which, on_failure=on_failure, using=detected))
    for key in OURS:
        done.pop(key, None)
        record.pop(key, None)
    assert same(done, record)


def test_bytes_stay() -> None:
    """Escapes, white space, a carriage return and duplicate keys stay as they are."""
    raw = b' {"a" :1, "a":  2.0, "\\u006dessages":%s ,"z":"\\u00e9\xc3\xa9" , "n":NaN }\r'
    raw = raw.replace(b"%s", json.dumps(talk("4")).encode())
    done = annotated(raw, scored())
    assert done.startswith(raw[: raw.rindex(b" }")])
    assert done.endswith(b"} }\r")


def shape(**layout: Any) -> Format:
    """Return a made-up format with this layout; `listed` makes a record a group of two."""
    listed = layout.pop("listed", False)
    count = 2 if listed else 1
    return Format(
        name="made up",
        family="made-up",
        shape=layout.pop("shape", "trajectory"),
        has="",
        read=lambda _: [
            Rollout(talk("4"), (i,) if listed else ()) for i in range(count)
        ],
        listed=listed,
        **layout,
    )


def written(
    record: Any,
    form: Format,
    *annotations: Annotation,
    on_failure: OnFailure = "null",
) -> dict[str, Any]:
    """Return a record of a made-up format with these annotations."""
    raw = record if isinstance(record, bytes) else json.dumps(record).encode()
    both = list(zip(rollouts_of(form, {}), annotations, strict=True))
    return parse(annotate(raw, form, both, GROUP, on_failure))


@given(extra, layouts(), st.lists(values, min_size=2, max_size=2))
def test_other_members_in_lists(
    more: dict[str, Any], layout: dict[str, Any], rewards: list[Any]
) -> None:
    """Only the rewards and `ruler` of a record with lists change; there a reward that is not finite is null."""
    form = shape(reward="scores", listed=True, shape="columns")
    raw = text_of({**more, "scores": rewards}, {**layout, "indent": None})
    done = written(raw, form, scored(), scored(0.25))
    assert done.pop("scores") == [0.75, 0.25]
    for annotation, reward in zip(done.pop("ruler"), rewards, strict=True):
        noted = annotation["independent_reward"]
        with suppress(ValueError):
            json.dumps(reward, allow_nan=False)
            assert same(noted, reward)
        json.dumps(noted, allow_nan=False)
    more.pop("scores", None)
    assert same(done, more)


NAMES = ("one", "two", "three", "strong")
DIGESTS: Digests = {"rubric": "0123456789abcdef", "params": "fedcba9876543210"}
ROLLOUT: dict[str, Any] = {
    "status": "scored", "score": 0.1, "judge_score": 0.1, "explanation": "judge 0 turn 0 body 0", "kind": "",
    "reason": "", "judge": "one", "judges": [], "passes": 1, "spread": None, "slots": [0.0],
    "pass_scores": [0.1], "criteria": [], "criteria_passes": [], "suspect": False, "ended": "", "schema": 4,
}  # fmt: skip
FAILED = ROLLOUT | {
    "status": "failed", "score": None, "judge_score": None, "explanation": "", "passes": 0, "slots": [],
    "pass_scores": [],
}  # fmt: skip
PART: dict[str, Any] = {
    "status": "scored", "key": "g", "kind": "", "reason": "", "judge": "one", "size": 2, "passes": 1,
    "tied": False, "reliability": None, "weight": 1.0, "passes_for_0.9": None, "degraded": False,
    "escalated": False, "windows": 0, "rescaled": 0, "unknown_ids": 0, "shortened": 0,
    "pictures_left_out": 0, **DIGESTS,
    "version": __version__, "served": ["a-model"],
    "usage": {"calls": 3, "prompt_tokens": 101, "completion_tokens": 11, "cached_tokens": 5, "estimated": False},
    "cost_usd": 0.12345679, "judged_at": "2026-11-21T02:14:05Z", "latency_s": 1.235, "cached": False,
    "schema": 4,
}  # fmt: skip


def with_usage(result: GroupResult) -> GroupResult:
    """Return a group result with usage and time."""
    used = (Usage(100, 10, 5, 2), Usage(1, 1, 0, 1))
    return replace(
        result,
        seconds=1.23456,
        used=used,
        paid=used,
        ended=1795227245.9,
        served=("a-model",),
    )


def group_of(result: GroupResult) -> Group:
    """Return a group with the rollouts of a result."""
    return group(*(talk(str(i)) for i in range(len(result.owner))))


def fields(
    result: GroupResult, names: tuple[str, ...] = ("one",), **how: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Return the annotations and the group's fields as JSON values."""
    scores = combine(result, CombineSettings(**how), BatchStatistics())
    made = group_of(result)
    part = group_record(
        made, with_usage(result), scores, names, 0.123456789, DIGESTS
    )
    annotations = [*map(vars, rollout_records(made, scores, names, part))]
    return json.loads(json.dumps([annotations, part.written], allow_nan=False))  # type: ignore[no-any-return]  # any JSON


def test_one_pass() -> None:
    """One pass of one judge writes the basic fields and the positions."""
    annotations, part = fields(group_result(one_pass([0.1, 0.9])))
    assert annotations[0] == ROLLOUT
    assert annotations[1]["slots"] == [1.0]
    assert part == PART


def judge_score(judge: str, score: float, explanation: str) -> dict[str, Any]:
    """The part of one judge of a panel."""
    return {"judge": judge, "score": score, "explanation": explanation}


def test_panel_and_escalation() -> None:
    """A panel's annotations name each judge that replied, with its score, and the explanation of the nearest pass."""
    annotations, part = fields(
        group_result(
            one_pass([0.1, 0.9]),
            one_pass([0.3, 0.5], 0, 2),
            failed_call(0, 1),
            judges=3,
        ),
        NAMES[:3],
    )
    assert (part["judge"], part["degraded"]) == ("one, three", True)
    assert [annotation["judges"] for annotation in annotations] == [
        [judge_score("one", 0.1, "judge 0 turn 0 body 0"), judge_score("three", 0.3, "judge 2 turn 0 body 0")],
        [judge_score("one", 0.9, "judge 0 turn 0 body 1"), judge_score("three", 0.5, "judge 2 turn 0 body 1")],
    ]  # fmt: skip
    strong = [one_pass([0.4, 0.6], pass_index, 1) for pass_index in range(2)]
    annotations, part = fields(
        group_result(one_pass([0.1, 0.9]), *strong, escalated_to=1),
        ("one", "strong"),
    )
    assert (part["judge"], part["escalated"], annotations[0]["judge"]) == (
        "strong",
        True,
        "strong",
    )
    assert annotations[0]["judges"] == [
        judge_score("one", 0.1, "judge 0 turn 0 body 0"),
        judge_score("strong", 0.4, "judge 1 turn 0 body 0"),
    ]
    assert (annotations[0]["score"], annotations[0]["explanation"]) == (
        0.4,
        "judge 1 turn 0 body 0",
    )
    far = one_pass([0.1, 0.9], 0, 1), one_pass([0.3, 0.9], 1, 1), one_pass([0.2, 0.9], 2, 1)  # fmt: skip
    annotations, _ = fields(
        group_result(one_pass([0.5, 0.9]), *far, judges=2), NAMES
    )
    nearest = [by_judge["explanation"] for by_judge in annotations[0]["judges"]]
    assert nearest == ["judge 0 turn 0 body 0", "judge 1 turn 2 body 0"]
    _, part = fields(
        group_result(one_pass([0.1, 0.9]), failed_call(0, 1), escalated_to=1),
        ("one", "strong"),
    )
    assert (part["judge"], part["degraded"]) == ("one", True)


def test_judge_score() -> None:
    """`judge_score` is the score before a reward or an outcome changes it."""
    result = group_result(
        one_pass([0.9, 0.2, 0.1]),
        rewards=(0.0, 1.0, 0.1),
        outcomes=(False, True, None),
    )
    annotations, _ = fields(result, order_by_outcome=True)
    assert [annotation["score"] for annotation in annotations] == pytest.approx(
        [0.55, 0.55, 0.1]
    )
    assert [annotation["judge_score"] for annotation in annotations] == [
        0.9,
        0.2,
        0.1,
    ]
    annotations, _ = fields(result, blend=0.5)
    assert [annotation["judge_score"] for annotation in annotations] == [
        0.9,
        0.2,
        0.1,
    ]


def test_pass_scores() -> None:
    """Scores and positions are listed by judge and pass, to three decimals."""
    replies = [
        one_pass([0.12345, 0.9], 1, 1),
        one_pass([0.3, 0.5], distinct=(1, 0)),
        one_pass([0.2, 0.7], 1),
    ]
    annotations, _ = fields(
        group_result(
            *replies, judges=2, size=2, owner=(1, 0, 1), reasons=("",) * 3
        ),
        ("one", "two"),
    )
    assert [annotation["slots"] for annotation in annotations] == [
        [0, 1, 1],
        [1, 0, 0],
        [0, 1, 1],
    ]
    assert [annotation["pass_scores"] for annotation in annotations] == [
        [0.3, 0.7, 0.9],
        [0.5, 0.2, 0.123],
        [0.3, 0.7, 0.9],
    ]


def test_counts_and_flags() -> None:
    """Unknown ids, suspects and repairs are counted; a rollout that cannot be judged has its reason."""
    result = group_result(
        one_pass([0.1, 0.9], unknown=2),
        owner=(0, 1, None),
        reasons=("", "", "no messages"),
        suspects=frozenset({1}),
        shortened=3,
    )
    annotations, part = fields(result)
    assert [annotation["suspect"] for annotation in annotations] == [
        False,
        True,
        False,
    ]
    assert annotations[2] == FAILED | {"kind": "input", "reason": "no messages"}
    assert {
        name: part[name] for name in ("rescaled", "unknown_ids", "shortened")
    } == {
        "rescaled": 0,
        "unknown_ids": 2,
        "shortened": 3,
    }


def test_failure() -> None:
    """A failed group has kind and reason on itself and each rollout, and its own time and usage."""
    result = group_result(failed_call(kind="refused", reason="no"), size=2)
    annotations, part = fields(result)
    assert annotations == [FAILED | {"kind": "refused", "reason": "no"}] * 2
    assert part == PART | {
        "status": "failed",
        "kind": "refused",
        "reason": "no",
        "passes": 0,
        "weight": 0.0,
    }


def fits(value: Any, whole: Any) -> bool:
    """Return whether a value has the keys and types of another one; a number may be null, and a list empty."""
    if isinstance(whole, dict):
        return value.keys() == whole.keys() and all(
            fits(value[name], whole[name]) for name in whole
        )
    if isinstance(whole, list):
        return isinstance(value, list) and all(
            fits(item, whole[0]) for item in value
        )
    return type(value) is type(whole) or (
        value is None and type(whole) in (int, float)
    )


@given(groups())
def test_any_group(result: GroupResult) -> None:
    """Each rollout of any group has an annotation in JSON, with a score from 0 to 1 or a reason."""
    annotations, part = fields(result, NAMES)
    assert len(annotations) == len(result.owner)
    for annotation in annotations:
        if annotation["status"] == "scored":
            assert 0 <= annotation["score"] <= 1
            assert (
                len(annotation["slots"])
                == len(annotation["pass_scores"])
                == len(result.pass_scores)
            )
            assert all(0 <= position <= 1 for position in annotation["slots"])
        else:
            assert annotation["reason"]
        assert fits(
            annotation,
            ROLLOUT
            | {"judges": [judge_score("one", 0.1, "said")], "spread": 0.1},
        )
    assert fits(part, PART | {"reliability": 0.5, "passes_for_0.9": 3})
