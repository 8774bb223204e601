"""Verdicts as marks, and records with their scores, section 4 of the contract."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.config import CombineSettings, OnFailure
from ruler_cli.formats.interface import Format, ListLayout, RecordLayout
from ruler_cli.formats.reader import Reader
from ruler_cli.reading.parse import parse
from ruler_cli.scoring.batch_statistics import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.types import Group, GroupResult, Rollout, Usage
from ruler_cli.writing.annotate import annotate
from ruler_cli.writing.fields import Annotation, annotations_of, group_fields
from tests.scoring.group_results import failed_call, group_result, groups, one_pass
from tests.values import group, layouts, line, reader, same, talk, text_of, texts, values

GROUP = {"status": "scored", "key": "g"}
MESSAGES = {"messages": talk("4")}
ROW = {"group_index": 0, "group_metadata": "{}"}


def scored(score: float = 0.75, output: str = "good") -> Annotation:
    """The mark of a rollout that was scored."""
    return {"status": "scored", "score": score, "explanation": output}


LOST = {"status": "failed", "kind": "reply", "reason": "the judge said nothing"}


def mark(
    record: Any, *notes: Annotation, on_failure: OnFailure = "null", found: Reader | None = None
) -> bytes:
    """One record's bytes with these marks."""
    found = found or reader(record)
    (read,) = found.read(line(record))
    given = [{**m, "group": GROUP} if found.format.shape != "group" else m for m in notes]
    both = list(zip(read.rollouts, given, strict=True))
    return annotate(read.line.raw, found.format, both, GROUP, on_failure)


def marked(record: Any, *notes: Annotation, **how: Any) -> dict[str, Any]:
    """One record with these marks."""
    return parse(mark(record, *notes, **how))


def test_trajectory() -> None:
    """A trajectory gets reward, metrics, log and `ruler`, the group's part inside."""
    done = marked({**MESSAGES, "reward": 1, "metrics": {"m": 2}, "logs": ["l"], "x": None}, scored())
    assert done == {
        **MESSAGES,
        "reward": 0.75,
        "metrics": {"m": 2, "ruler_score": 0.75, "independent_reward": 1},
        "logs": ["l", "RULER explanation: good"],
        "x": None,
        "ruler": {**scored(), "group": GROUP, "independent_reward": 1},
    }
    assert list(done)[-1] == "ruler"


def test_group() -> None:
    """A group gets a mark on each trajectory in its place, and its own part once."""
    record = {"trajectories": [{**MESSAGES, "reward": 1}, 7, {**MESSAGES, "n": 3}], "rubric": "r"}
    done = marked(record, scored(0.1), LOST, scored(0.9))
    first, second, third = done["trajectories"]
    assert [t["reward"] for t in (first, third)] == [0.1, 0.9]
    assert [t["ruler"]["independent_reward"] for t in (first, third)] == [1, None]
    assert "group" not in first["ruler"]
    assert (second, done["ruler"], done["rubric"]) == (7, GROUP, "r")


REWARDS = [
    "NaN",
    "-Infinity",
    "1.00",
    "1e0",
    "123456789012345678901234567890",
    "0.1234567890123456789012345678",
]
REWARDS += ['"1.0"', "true", "[1, 2.50]", '{"a": {"score": 1,  "weight": 1e2}}']


@pytest.mark.parametrize("reward", REWARDS)
def test_verbatim(reward: str) -> None:
    """The original reward is kept byte for byte, whatever it is."""
    raw = f'{{"messages": {json.dumps(talk("4"))}, "reward": {reward}}}'.encode()
    done = mark(raw, scored())
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
    """An absent reward is none, but 0.0 in ART, which leaves that out."""
    done = marked(record, scored())
    assert done["ruler"]["independent_reward"] == original
    assert done["metrics"].get("independent_reward") == original


def unpacked(raw: bytes) -> dict[str, Any]:
    """A record whose members that are JSON text are read as well."""
    quoted = ("metrics", "trajectory_json")
    record = parse(raw)
    return {k: json.loads(v) if k in quoted and str(v)[:2] == '{"' else v for k, v in record.items()}


@pytest.mark.parametrize(
    "record",
    [
        {**MESSAGES, "reward": 1.5},
        {**MESSAGES, "reward": None},
        MESSAGES,
        {**MESSAGES, "reward": 1.5, "metrics": "other", "logs": 3},
        {"messages_and_choices": talk("4")},
        {**ROW, **MESSAGES, "reward": 1.5, "metrics": '{"m": 1}'},
        {"group_index": 0, "trajectory_json": json.dumps({**MESSAGES, "reward": 1.5}), "reward": 1.5},
        {"group_index": 0, "trajectory_json": json.dumps({**MESSAGES, "reward": None}), "reward": None},
        {"task_id": 1, "traj": talk("4"), "reward": 1.5},
    ],
)
@pytest.mark.parametrize("between", [scored(0.2, "bad"), LOST], ids=["scored", "failed"])
def test_again(record: dict[str, Any], between: Annotation) -> None:
    """Scored again, a record is as if it had been scored once: first reward kept, nothing stacked."""
    found = reader(record)
    once = unpacked(mark(record, scored(), found=found))
    twice = unpacked(mark(mark(record, between, found=found), scored(), found=found))
    assert twice == once


@pytest.mark.parametrize("shape", [MESSAGES, {"messages_and_choices": talk("4")}])
@pytest.mark.parametrize("reward", [{}, {"reward": None}, {"reward": 1.5}])
def test_failed(shape: dict[str, Any], reward: dict[str, Any]) -> None:
    """A failure makes the reward null, says why, and keeps the original beside it."""
    done = marked({**shape, **reward, "logs": ["l"]}, LOST)
    original = reward.get("reward", 0.0 if "messages_and_choices" in shape and not reward else None)
    assert (done["reward"], done["logs"]) == (None, ["l"])
    assert done["ruler"] == {**LOST, "group": GROUP, "independent_reward": original}
    assert "ruler_score" not in done.get("metrics", {})


def test_failed_after_scored() -> None:
    """A failure takes back score and explanation of an earlier run, also with `keep`."""
    raw = b'{"messages": %s, "reward": 1.50, "logs": ["a", "b"]}' % json.dumps(talk("4")).encode()
    before = mark(raw, scored())
    for how, reward in (("null", b"null"), ("keep", b"1.50")):
        done = mark(before, LOST, on_failure=how)  # type: ignore[arg-type]  # one of the two
        assert b'"reward": ' + reward in done
        assert b"ruler_score" not in done
        assert b"RULER explanation" not in done
        assert b'"logs": ["a", "b"]' in done
        assert b'"independent_reward":1.50' in done
    assert marked(mark(MESSAGES, scored()), LOST, on_failure="keep")["reward"] is None


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        (None, {"ruler_score": 0.75, "independent_reward": 1}),
        ({}, {"ruler_score": 0.75, "independent_reward": 1}),
        ('{"m": NaN}', '{"m": NaN, "ruler_score": 0.75, "independent_reward": 1}'),
        ('{"m": "\\ud800"}', '{"m": "\\ud800", "ruler_score": 0.75, "independent_reward": 1}'),
        ("not json", "not json"),
        ("[1]", "[1]"),
        ([1], [1]),
        (7, 7),
        ({"ruler_score": 0.1, "independent_reward": 9}, {"ruler_score": 0.75, "independent_reward": 9}),
    ],
)
def test_metrics(metrics: Any, wanted: Any) -> None:
    """Metrics stand as an object or as JSON text; anything else is not ruler's to change."""
    assert marked({**MESSAGES, "metrics": metrics, "reward": 1}, scored())["metrics"] == wanted


@pytest.mark.parametrize(
    ("logs", "wanted"),
    [
        ("[]", '["RULER explanation: good"]'),
        ("[ ]", '["RULER explanation: good" ]'),
        ('["a" , "b" ]', '["a" , "b", "RULER explanation: good" ]'),
        ('["a" ,"RULER explanation: old","b" ]', '["a" ,"RULER explanation: good","b" ]'),
        ('["RULER explanation: 1","x","RULER explanation: 2"]', '["RULER explanation: good","x"]'),
        ("null", '["RULER explanation: good"]'),
        ('"text"', '"text"'),
        ("{}", "{}"),
    ],
)
def test_logs(logs: str, wanted: str) -> None:
    """The explanation is one line of the log, replaced in its place, every other byte as it was."""
    raw = f'{{"messages": {json.dumps(talk("4"))}, "logs": {logs}}}'.encode()
    assert f'"logs": {wanted}, ' in mark(raw, scored()).decode()


def test_payload() -> None:
    """A row that holds its trajectory once more as JSON text has the score in both places."""
    inner = '{"messages": [{"role": "user", "content": "é\\u00e9"}], "reward": 1.50, "metrics": {"m": NaN}}'
    raw = json.dumps({"group_index": 0, "reward": 1.5, "trajectory_json": inner, "metrics": '{"m": NaN}'})
    done = marked(raw.encode(), scored())
    payload = done["trajectory_json"]
    assert payload.startswith(inner[: inner.index("1.50")] + "0.75")
    assert '"metrics": {"m": NaN, "ruler_score": 0.75, "independent_reward": 1.50}' in payload
    assert '"logs": ["RULER explanation: good"]' in payload
    assert '"ruler":' not in payload
    assert done["reward"] == 0.75
    assert done["ruler"]["independent_reward"] == 1.5
    lost = marked(json.dumps(done).encode(), LOST)
    assert '"reward": null' in lost["trajectory_json"]
    assert "ruler_score" not in lost["trajectory_json"]


extra = st.dictionaries(texts.filter(lambda k: k not in {"messages", "ruler", "trajectories"}), values)
OURS = ("reward", "metrics", "logs", "ruler")


@settings(max_examples=2 * settings().max_examples)
@given(extra, layouts(), st.sampled_from([scored(), LOST]), st.sampled_from(["null", "keep"]), values)
def test_nothing_else(
    more: dict[str, Any], layout: dict[str, Any], which: Annotation, on_failure: OnFailure, reward: Any
) -> None:
    """Whatever a record holds, only ruler's own members change, and the rest is what it was."""
    found = reader(MESSAGES)
    record = {**more, **MESSAGES, "reward": reward}
    raw = text_of(record, {**layout, "indent": None})
    done = parse(mark(raw, which, on_failure=on_failure, found=found))
    for key in OURS:
        done.pop(key, None)
        record.pop(key, None)
    assert same(done, record)


def test_bytes_stay() -> None:
    """Escapes, white space, a carriage return and equal keys come out as they went in."""
    raw = b' {"a" :1, "a":  2.0, "\\u006dessages":%s ,"z":"\\u00e9\xc3\xa9" , "n":NaN }\r'
    raw = raw.replace(b"%s", json.dumps(talk("4")).encode())
    done = mark(raw, scored())
    assert done.startswith(raw[: raw.rindex(b" }")])
    assert done.endswith(b"} }\r")


def shape(**layout: Any) -> Format:
    """A made-up format with this layout; those of lists are groups of two."""
    listed = layout.pop("listed", False)
    count = 2 if listed else 1
    return Format(
        name="made up",
        family="made-up",
        shape=layout.pop("shape", "trajectory"),
        signature="",
        matches=lambda _: True,
        rollouts=lambda _: [Rollout(talk("4"), (i,) if listed else ()) for i in range(count)],
        layout=(ListLayout if listed else RecordLayout)(**layout),
    )


def written(record: Any, form: Format, *notes: Annotation, on_failure: OnFailure = "null") -> dict[str, Any]:
    """A record of a made-up format with these marks."""
    raw = record if isinstance(record, bytes) else json.dumps(record).encode()
    both = list(zip(form.rollouts({}), notes, strict=True))
    return parse(annotate(raw, form, both, GROUP, on_failure))


@pytest.mark.parametrize("kind", ["group", "columns"])
def test_lists(kind: str) -> None:
    """Rollouts that are items of lists get their rewards in their places, and marks in a list beside."""
    form = shape(reward=("scores",), listed=True, shape=kind)
    done = written(b'{"scores": [ 1.0 ,-1.0 ], "x": 1e0}', form, scored(), LOST)
    assert done["scores"] == [0.75, None]
    notes = done["ruler"]["rollouts"] if kind == "group" else done["ruler"]
    assert [m["independent_reward"] for m in notes] == [1.0, -1.0]
    assert [m["status"] for m in notes] == ["scored", "failed"]
    again = written(json.dumps(done).encode(), form, LOST, scored(0.5), on_failure="keep")
    assert again["scores"] == [1.0, 0.5]
    notes = again["ruler"]["rollouts"] if kind == "group" else again["ruler"]
    assert [m["independent_reward"] for m in notes] == [1.0, -1.0]
    fresh = written({"prompt": "q"}, form, scored(), scored(0.25))
    assert fresh["scores"] == [0.75, 0.25]


@given(extra, layouts(), st.lists(values, min_size=2, max_size=2))
def test_nothing_else_in_lists(more: dict[str, Any], layout: dict[str, Any], rewards: list[Any]) -> None:
    """Whatever stands around the lists, only the rewards and `ruler` change."""
    form = shape(reward=("scores",), listed=True, shape="columns")
    raw = text_of({**more, "scores": rewards}, {**layout, "indent": None})
    done = written(raw, form, scored(), scored(0.25))
    assert done.pop("scores") == [0.75, 0.25]
    assert same([m["independent_reward"] for m in done.pop("ruler")], rewards)
    more.pop("scores", None)
    assert same(done, more)


NAMES = ("one", "two", "three", "strong")
ROLLOUT = {"status", "score", "explanation", "judge", "passes", "slots"}
ALWAYS = {"status", "key", "judge", "size", "usage", "cost_usd", "judged_at", "latency_s", "cached"}
OF_GROUP = ALWAYS | {"passes", "tied"}


def outcome(output: GroupResult) -> GroupResult:
    """The same, with what it took."""
    used = (Usage(100, 10, 5, 2), Usage(1, 1, 0, 1))
    return replace(output, seconds=1.23456, used=used, paid=used, ended=1795227245.9)


def of(output: GroupResult) -> Group:
    """A group with as many rollouts."""
    return group(*(talk(str(i)) for i in range(len(output.owner))))


def fields(
    output: GroupResult, names: tuple[str, ...] = ("one",), **how: Any
) -> tuple[list[Any], dict[str, Any]]:
    """What is written of it, as JSON has it."""
    scores = combine(output, CombineSettings(**how), BatchStatistics())
    made = of(output)
    notes = annotations_of(made, outcome(output), scores, names)
    part = group_fields(made, outcome(output), scores, names, 0.123456789)
    return json.loads(json.dumps([notes, part], allow_nan=False))  # type: ignore[no-any-return]  # any JSON


def test_one_pass() -> None:
    """One pass of one judge has the fields that it always had, and the slots."""
    notes, part = fields(group_result(one_pass([0.1, 0.9])))
    assert notes[0] == {
        "status": "scored",
        "score": 0.1,
        "explanation": "judge 0 turn 0 body 0",
        "judge": "one",
        "passes": 1,
        "slots": [0.0],
    }
    assert notes[1]["slots"] == [1.0]
    assert part == {
        "status": "scored",
        "key": "g",
        "judge": "one",
        "size": 2,
        "passes": 1,
        "tied": False,
        "usage": {"calls": 3, "prompt_tokens": 101, "completion_tokens": 11, "cached_tokens": 5},
        "cost_usd": 0.12345679,
        "judged_at": "2026-11-21T02:14:05Z",
        "latency_s": 1.235,
        "cached": False,
    }


def test_panel_and_escalation() -> None:
    """Judges are told by name with each one's scores; who was asked and brought nothing is not among them."""
    notes, part = fields(
        group_result(one_pass([0.1, 0.9]), one_pass([0.3, 0.5], 0, 2), failed_call(0, 1), judges=3), NAMES[:3]
    )
    assert (part["judge"], part["degraded"]) == ("one, three", True)
    assert [mark["judges"] for mark in notes] == [{"one": 0.1, "three": 0.3}, {"one": 0.9, "three": 0.5}]
    strong = [one_pass([0.4, 0.6], turn, 1) for turn in range(2)]
    notes, part = fields(group_result(one_pass([0.1, 0.9]), *strong, escalated_to=1), ("one", "strong"))
    assert (part["judge"], part["escalated"], notes[0]["judge"]) == ("strong", True, "strong")
    assert notes[0]["judges"] == {"one": 0.1, "strong": 0.4}
    assert notes[0]["score"] == 0.4
    _, part = fields(group_result(one_pass([0.1, 0.9]), failed_call(0, 1), escalated_to=1), ("one", "strong"))
    assert (part["judge"], part["degraded"]) == ("one", True)


def test_what_the_reward_changed() -> None:
    """Where a reward or an outcome changed a score, the judge's own stands beside it, and only there."""
    output = group_result(one_pass([0.9, 0.2, 0.1]), rewards=(0.0, 1.0, 0.1), outcomes=(False, True, None))
    notes, _ = fields(output, by_outcome=True)
    assert [mark["score"] for mark in notes] == pytest.approx([0.55, 0.55, 0.1])
    assert [mark.get("judge_score") for mark in notes] == [0.9, 0.2, None]
    notes, _ = fields(output, blend=0.5)
    assert [mark.get("judge_score") for mark in notes] == [0.9, 0.2, None]


def test_pass_scores() -> None:
    """What judges gave stands judge by judge and pass by pass, as the slots do, to three decimals."""
    output = [one_pass([0.12345, 0.9], 1, 1), one_pass([0.3, 0.5], distinct=(1, 0)), one_pass([0.2, 0.7], 1)]
    notes, _ = fields(
        group_result(*output, judges=2, size=2, owner=(1, 0, 1), faults=("",) * 3), ("one", "two")
    )
    assert [mark["slots"] for mark in notes] == [[0, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert [mark["pass_scores"] for mark in notes] == [[0.3, 0.7, 0.9], [0.5, 0.2, 0.123], [0.3, 0.7, 0.9]]


def test_told_only_where_it_is() -> None:
    """Windows, suspects and what was mended have a field where there is something to tell, else none."""
    output = group_result(
        one_pass([0.1, 0.9], rescaled=True, unknown=2),
        owner=(0, 1, None),
        faults=("", "", "no messages"),
        suspects=frozenset({1}),
        shortened=3,
    )
    notes, part = fields(output)
    assert [mark.get("suspect") for mark in notes] == [None, True, None]
    assert notes[2] == {"status": "failed", "kind": "input", "reason": "no messages", "judge": "one"}
    assert {name: part[name] for name in ("rescaled", "unknown_ids", "shortened")} == {
        "rescaled": 1,
        "unknown_ids": 2,
        "shortened": 3,
    }
    assert not {"windows", "escalated", "degraded"} & part.keys()


def test_failure() -> None:
    """A failed group has its kind and reason on each rollout and on the group, and when and what it cost."""
    output = group_result(failed_call(kind="refused", reason="no"), size=2)
    notes, part = fields(output)
    assert notes == [{"status": "failed", "kind": "refused", "reason": "no", "judge": "one"}] * 2
    assert (part["status"], part["kind"], part["reason"], part["usage"]["calls"]) == (
        "failed",
        "refused",
        "no",
        3,
    )
    assert part["judged_at"] == "2026-11-21T02:14:05Z"
    assert part.keys() == ALWAYS | {"kind", "reason"}


@given(groups())
def test_any_group(output: GroupResult) -> None:
    """Whatever judges say, each rollout has a mark that is JSON, with a score in range or a reason."""
    notes, part = fields(output, NAMES)
    assert len(notes) == len(output.owner)
    for mark in notes:
        if mark["status"] == "scored":
            assert 0 <= mark["score"] <= 1
            assert mark.keys() >= ROLLOUT
            assert len(mark["slots"]) == len(output.pass_scores)
            assert all(0 <= slot <= 1 for slot in mark["slots"])
            given = mark.get("pass_scores", [mark.get("judge_score", mark["score"])])
            assert len(given) == len(mark["slots"])
            assert ("pass_scores" in mark) is (len(output.pass_scores) > 1)
        else:
            assert mark["reason"]
    assert part.keys() >= OF_GROUP
    assert (part["passes"] > 1) <= ("reliability" in part or len(output.sizes) == 1)
