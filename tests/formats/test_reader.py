"""Lines as records, and `--reward PATH`."""

from __future__ import annotations

import json
import time

import pytest

from ruler_cli.formats.annotate import annotate
from tests.formats.changes import GROUP, SCORED, written
from tests.values import line, reader, talk

ROW = {
    "messages": talk("4"),
    "group_id": "g",
    "reward": 1,
    "info": {"r": 0.25},
    "metrics": {"acc": 0.5},
}
STEP = {
    "global_step": [1, 1], "id": ["a", "b"], "prompt": ["p", "q"], "responses": ["x", "y"], "scores": [1, 2],
}  # fmt: skip


def test_reward_path(subtests: pytest.Subtests) -> None:
    """The score stands at the path, and the earlier value is the independent reward."""
    for path, first in [
        ("info.r", 0.25),
        ("metrics.acc", 0.5),
        ("new.place", None),
    ]:
        with subtests.test(path=str(path), first=str(first)):
            out = written(ROW, SCORED, using=reader(ROW, reward=path))
            holder, key = path.split(".")
            assert out[holder][key] == 0.625
            assert out["metrics"]["ruler_score"] == 0.625
            assert out["ruler"]["independent_reward"] == first
            assert out["reward"] == 1
            assert written(out, SCORED, using=reader(out, reward=path)) == out


def test_absent_reward() -> None:
    """A score at a path without a reward is no original reward when the file is read again."""
    out = written(ROW, SCORED, using=reader(ROW, reward="new.place"))
    again = reader(out, reward="new.place").read(line(out))
    assert [rollout.reward for rollout in again[0].rollouts] == [None]


def test_number_in_path(subtests: pytest.Subtests) -> None:
    """A number in the path is an index or a key, and the annotation keeps the earlier value."""
    for rewards in [{"0": 1, "1": 3}, [1, 3]]:
        with subtests.test(rewards=str(rewards)):
            row = {**ROW, "rewards": rewards}
            out = written(row, SCORED, using=reader(row, reward="rewards.0"))
            assert out["ruler"]["independent_reward"] == 1
            assert out["rewards"] == (
                {"0": 0.625, "1": 3}
                if isinstance(rewards, dict)
                else [0.625, 3]
            )


def test_column() -> None:
    """A named column of rewards takes the scores, and the annotations keep its values."""
    record = {**STEP, "mine": [7, 8]}
    out = written(record, SCORED, using=reader(record, reward="mine"))
    assert out["mine"] == [0.625, 0.625]
    assert [
        annotation["independent_reward"] for annotation in out["ruler"]
    ] == [7, 8]
    assert out["scores"] == [1, 2]


@pytest.mark.long
def test_long_line() -> None:
    """Reading and annotating a columnar line takes time in proportion to its rollouts, also twice."""

    def seconds(size: int) -> float:
        record = {key: [str(i) for i in range(size)] for key in STEP}
        detected = reader(record)
        raw = json.dumps(record).encode()
        for _ in range(2):
            begun = time.process_time()
            rollouts = sorted(
                (r for p in detected.read(line(raw)) for r in p.rollouts),
                key=lambda r: r.path,
            )
            raw = annotate(
                raw,
                detected.format,
                [(r, SCORED) for r in rollouts],
                GROUP,
                "null",
            )
        return time.process_time() - begun

    assert seconds(8_000) < 80 * max(min(seconds(400), seconds(400)), 1e-3)
