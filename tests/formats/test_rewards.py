"""Rewards that a file held, when it is scored again and again with other reward fields named."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.files.values import lookup
from tests.conftest import ROOT, Ruler, read, write
from tests.values import talk

SCORE = ("-m", "offline", "--ledger", "none", "-q")
VALUES = {
    "reward": (0.25, "C", True, None),
    "info.alt": (1, 0.0, [0.5, 0.25], {"acc": 1}),
    "grade": (0.8, 0.8, 0.593, 12345678901234567890123),
}
"""Fields of rewards with the values of four rollouts; some are equal to scores."""
NATIVE: list[Any] = [
    {
        "group_id": "g",
        "trajectories": [
            {
                "messages": talk(
                    f"answer {i} error error" if i % 2 else f"answer {i}"
                ),
                "reward": VALUES["reward"][i],
                "info": {"alt": VALUES["info.alt"][i]},
                "grade": VALUES["grade"][i],
            }
            for i in range(4)
        ],
    }
]
LISTED = [
    {
        "prompt": "p",
        "responses": ["a", "b error", "c", "d error"],
        "rewards": [*VALUES["reward"]],
        "info": {"alt": [*VALUES["info.alt"]]},
        "grade": [*VALUES["grade"]],
    }
]
SHAPES: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "native": (NATIVE, ("", "info.alt", "grade", "new")),
    "listed": (LISTED, ("", "info.alt", "grade")),
}
"""Records, and the reward fields that are named; the first is the format's own."""
ADDED = (
    *("status", "score", "judge_score", "explanation", "kind", "reason", "judge", "judges", "passes", "spread"),
    *("slots", "pass_scores", "criteria", "criteria_passes", "suspect", "ended", "schema", "reward_path"),
    *("rewards", "independent_reward"),
)  # fmt: skip


def rollouts(path: Path) -> list[tuple[Any, Any]]:
    """Each rollout of the file with its annotation: a function of a field, and `ruler`."""
    (record,) = read(path)
    if "trajectories" in record:
        return [
            (lambda field, one=one: lookup(one, field), one["ruler"])
            for one in record["trajectories"]
        ]
    return [
        (
            lambda field, i=i: (lookup(record, field) or [None] * 4)[i],
            annotation,
        )
        for i, annotation in enumerate(record["ruler"]["rollouts"])
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_reward_is_gone(ruler: Ruler, tmp_path: Path, shape: str) -> None:
    """Whatever fields are named, three runs deep, each first value is in its field, the first reward, or `rewards`."""
    records, fields = SHAPES[shape]
    own = "rewards" if shape == "listed" else "reward"
    write(tmp_path / "0", records)
    for depth in (1, 2, 3):
        for named in itertools.product(fields, repeat=depth):
            source = "-".join(["0", *named[:-1]])
            target = "-".join(["0", *named])
            more = ("--reward", named[-1]) if named[-1] else ()
            done = ruler("score", source, target, *SCORE, *more)
            assert done.returncode == 0, (named, done.stderr)
            written = [name or own for name in named]
            for i, (at, annotation) in enumerate(rollouts(tmp_path / target)):
                kept = {
                    one["path"]: one["value"] for one in annotation["rewards"]
                }
                assert len(kept) == len(annotation["rewards"])
                assert annotation["reward_path"] == written[0]
                for path, values in VALUES.items():
                    field = own if path == "reward" else path
                    first = values[i]
                    if field not in written:
                        assert at(field) == first
                    elif field == written[0] and first is not None:
                        assert annotation["independent_reward"] == first
                    elif field != written[0]:
                        assert kept[field] == first, (named, i)
                assert kept.keys() == {*written[1:]} - {written[0]}
                assert at(written[-1]) == annotation["score"]
                assert (*annotation.keys(),) == ADDED


def test_first_field_without_a_reward(ruler: Ruler, tmp_path: Path) -> None:
    """If the first field had none, the first reward is that of the next one, which agreement reads."""
    write(tmp_path / "g", NATIVE)
    done = ruler("score", "g", "a", *SCORE, "--reward", "rewrd")
    assert "no record has a value at --reward rewrd" in done.stderr
    ruler("score", "a", "b", *SCORE)
    one = read(tmp_path / "b")[0]["trajectories"][0]
    assert one["metrics"]["independent_reward"] == 0.25
    assert one["ruler"]["independent_reward"] == 0.25
    assert one["ruler"]["rewards"] == [{"path": "reward", "value": 0.25}]
    report = json.loads(ruler("report", "b", "--json").stdout)
    assert report["groups"][0]["labels"] == [0.25, 1.0, 1.0, None]


def test_only_own_field_counts(ruler: Ruler, tmp_path: Path) -> None:
    """A reward that is mixed in is that of the field named, also after another was scored."""
    records = [
        {**one, "trajectories": [dict(t) for t in one["trajectories"]]}
        for one in NATIVE
    ]
    for i, one in enumerate(records[0]["trajectories"]):
        one |= {"reward": 0.0, "grade": i / 4}
    write(tmp_path / "g", records)
    ruler("score", "g", "a", *SCORE)
    ruler("score", "a", "b", *SCORE, "--reward", "grade", "--set", "blend=0")
    ruler("score", "b", "c", *SCORE, "--reward", "grade", "--set", "blend=0")
    for name in "bc":
        scores = [
            one["grade"] for one in read(tmp_path / name)[0]["trajectories"]
        ]
        assert scores == [0.0, 0.25, 0.5, 0.75]


def test_new_reward_between_runs(ruler: Ruler, tmp_path: Path) -> None:
    """A reward that another program wrote over a score is a reward of the file, a rounded score is none."""
    write(tmp_path / "g", NATIVE)
    ruler("score", "g", "a", *SCORE)
    records = read(tmp_path / "a")
    first, second, *_ = records[0]["trajectories"]
    first["reward"] = 0.125
    second["reward"] += 1e-9
    write(tmp_path / "a", records)
    ruler("score", "a", "b", *SCORE)
    first, second, *_ = read(tmp_path / "b")[0]["trajectories"]
    assert first["ruler"]["independent_reward"] == 0.25
    assert first["ruler"]["rewards"] == [{"path": "reward", "value": 0.125}]
    assert second["ruler"]["rewards"] == []


def test_kept_on_failure(ruler: Ruler, tmp_path: Path) -> None:
    """A second field keeps its own value if its group fails, and not that of the first."""
    write(tmp_path / "g", NATIVE)
    ruler("score", "g", "a", *SCORE)
    keep = (
        "--on-failure",
        "keep",
        "--cached-only",
        "--ledger",
        "l.sqlite",
        "-q",
    )
    done = ruler(
        "score", "a", "b", "-m", "openai/o3", *keep, "--reward", "info.alt"
    )
    assert done.returncode == 1, done.stderr
    for one, before in zip(
        read(tmp_path / "b")[0]["trajectories"],
        NATIVE[0]["trajectories"],
        strict=True,
    ):
        assert one["info"] == before["info"]
        first = before["reward"]
        noted = before["info"]["alt"] if first is None else first
        assert one["ruler"]["independent_reward"] == noted


def test_no_room(ruler: Ruler, tmp_path: Path) -> None:
    """A second field is refused where a row holds the trajectory once more, as text without a place for it."""
    rows = (ROOT / "samples/formats/art_rows.jsonl").read_bytes()
    (tmp_path / "in.jsonl").write_bytes(rows)
    assert ruler("score", "in.jsonl", "a", *SCORE).returncode == 0
    done = ruler("score", "a", "b", *SCORE, "--reward", "grade")
    assert (
        done.returncode,
        "is not free for a score" in done.stderr,
    ) == (
        2,
        True,
    )


def test_not_finite(ruler: Ruler, tmp_path: Path) -> None:
    """A reward that is not finite is null in the fields that ruler adds, at any depth, and stays where it was."""

    def strict(text: str) -> Any:
        def refuse(word: str) -> Any:
            raise AssertionError(word)

        return json.loads(text, parse_constant=refuse)

    raw = json.dumps(NATIVE[0])
    for value, noted in {
        "NaN": None,
        "-Infinity": None,
        "1e999": None,
        '{"a": NaN, "b": 12345678901234567890123}': {
            "a": None,
            "b": 1.2345678901234568e22,
        },
        "[0.5, Infinity]": [0.5, None],
        '"NaN"': "NaN",
        "0.10": 0.1,
    }.items():
        (tmp_path / "g").write_text(
            raw.replace('"reward": 0.25', f'"reward": {value}')
        )
        for source, more in (
            ("g", ()),
            ("g", ("--reward", "grade")),
            ("a", ()),
        ):
            target = "b" if more else "a" if source == "g" else "c"
            assert (
                ruler(
                    "score", source, target, *SCORE, *more, "--force"
                ).returncode
                == 0
            )
            text = (tmp_path / target).read_text()
            if target == "b":
                assert f'"reward": {value}' in text
                continue
            one = strict(text)["trajectories"][0]
            assert one["ruler"]["independent_reward"] == noted
            assert one["metrics"].get("independent_reward") == noted
        assert ruler("score", "b", "d", *SCORE, "--force").returncode == 0
        one = strict((tmp_path / "d").read_text())["trajectories"][0]
        assert one["ruler"]["rewards"] == [{"path": "reward", "value": noted}]


ODD: tuple[dict[str, Any], ...] = (
    {"rewards": 5},
    {"rewards": [1, {"path": 2}, {"path": "reward"}]},
    {"rewards": {"path": "reward"}, "reward_path": None},
    {"reward_path": []},
    {"score": "x"},
)


def test_hostile_annotations(ruler: Ruler, tmp_path: Path) -> None:
    """Whatever stands in an earlier annotation, OUTPUT is JSON with lists where lists belong."""
    for odd in ODD:
        one = {
            "status": "scored",
            "score": 0.5,
            "independent_reward": 1.0,
        } | odd
        records = json.loads(json.dumps(NATIVE))
        records[0]["trajectories"][0]["ruler"] = one
        write(tmp_path / "g", records)
        for more in ((), ("--reward", "grade")):
            done = ruler("score", "g", "a", *SCORE, *more, "--force")
            assert done.returncode == 0, (odd, done.stderr)
            ruler_of = read(tmp_path / "a")[0]["trajectories"][0]["ruler"]
            assert type(ruler_of["rewards"]) is list
            assert type(ruler_of["reward_path"]) is str
