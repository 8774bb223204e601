"""Lines as records; with `--reward PATH` only a reward is overwritten."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.writing.annotate import annotate
from tests.formats.changes import GROUP, SCORED, written
from tests.values import line, read, reader, talk, values

BIG = 2**64


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": BIG},
        {"group_id": -(10**30)},
        {"group_id": {"a": [BIG]}},
        {"group_id": 1e300},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "x", "n": BIG}]},
                *talk("x")[1:],
            ]
        },
        {"step": BIG},
        {"messages": [{"role": "user", "content": "x", "tool_calls": [BIG]}, *talk("x")[1:]]},
    ],
)
def test_rounded_keys(fields: dict[str, Any]) -> None:
    """Rounded reading keeps a group key exact, however large its integers are."""
    record = {"messages": talk("x"), **fields}
    detected = reader(record)
    assert detected.read_rounded(line(record))[0].key == detected.read(line(record))[0].key
    other = json.loads(json.dumps(record).replace(str(BIG), str(BIG + 1)))
    assert (detected.read_rounded(line(other))[0].key == detected.read(line(record))[0].key) is (
        other == record
    )


@given(st.dictionaries(st.sampled_from(["group_id", "messages", "tools", "reward", "ruler"]), values))
def test_rounded_like_read(record: dict[str, Any]) -> None:
    """Rounded reading has the same keys and the same errors as exact reading."""
    detected = reader({"group_id": "a", "messages": talk("x")})

    def result(read: Any) -> Any:
        try:
            return [(r.key, len(r.rollouts)) for r in read(line(record))]
        except UnreadableError as error:
            return str(error)

    assert result(detected.read_rounded) == result(detected.read)


def test_key_inside_a_group() -> None:
    """`--group-by` finds a key that stands in each rollout of a group."""
    record = {"trajectories": [{"messages": talk(x), "metadata": {"scenario_id": "s-1"}} for x in "ab"]}
    detected = reader(record, group_by="metadata.scenario_id")
    assert [r.key for r in detected.read(line(record))] == ["s-1"]
    assert [r.key for r in detected.read_rounded(line(record))] == ["s-1"]


ROW = {"messages": talk("4"), "group_id": "g", "reward": 1, "info": {"r": 0.25}, "metrics": {"acc": 0.5}}
STEP = {
    "global_step": [1, 1], "id": ["a", "b"], "prompt": ["p", "q"], "responses": ["x", "y"], "scores": [1, 2],
}  # fmt: skip


def test_not_the_content(subtests: pytest.Subtests) -> None:
    """A path at which a score would change what the judge sees, or the group, is refused."""
    for path in ["messages", "messages.1", "messages.0.content", "group_id"]:
        with subtests.test(path=str(path)), pytest.raises(UsageError, match="would take the place of"):
            reader(ROW, reward=path)


NOT_RULERS_OWN: list[Any] = ["ruler", "ruler.score", "logs", "logs.0", "metrics", "metrics.ruler_score"]


def test_not_rulers_own(subtests: pytest.Subtests) -> None:
    """A path that ruler itself writes is refused: one of both values would be lost."""
    for path in NOT_RULERS_OWN:
        with subtests.test(path=str(path)), pytest.raises(UsageError, match="where ruler itself writes"):
            reader(ROW, reward=path)


def test_no_empty_part(subtests: pytest.Subtests) -> None:
    """A path with an empty part is refused, unless it is the name of a key."""
    for path in ["", "info.", ".r", "info..r"]:
        with subtests.test(path=str(path)):
            with pytest.raises(UsageError, match="is empty"):
                reader(ROW, reward=path)
            assert reader({**ROW, path: 1}, reward=path).format.layout.reward == (path,)


def test_written(subtests: pytest.Subtests) -> None:
    """The score is written at the path, and the value before it becomes the first reward."""
    for path, first in [("info.r", 0.25), ("metrics.acc", 0.5), ("new.place", None)]:
        with subtests.test(path=str(path), first=str(first)):
            out = written(ROW, SCORED, using=reader(ROW, reward=path))
            holder, key = path.split(".")
            assert out[holder][key] == 0.625
            assert out["metrics"]["ruler_score"] == 0.625
            assert out["ruler"]["independent_reward"] == first
            assert out["reward"] == 1
            assert written(out, SCORED, using=reader(out, reward=path)) == out


def test_number_in_path(subtests: pytest.Subtests) -> None:
    """A number in the path is an item of a list or a key; both keep the value before the score."""
    for rewards in [{"0": 1, "1": 3}, [1, 3]]:
        with subtests.test(rewards=str(rewards)):
            row = {**ROW, "rewards": rewards}
            out = written(row, SCORED, using=reader(row, reward="rewards.0"))
            assert out["ruler"]["independent_reward"] == 1
            assert out["rewards"] == ({"0": 0.625, "1": 3} if isinstance(rewards, dict) else [0.625, 3])


def test_no_text_replaced() -> None:
    """Text where the path needs an object makes the record unreadable."""
    detected = reader(ROW, reward="info.r")
    with pytest.raises(UnreadableError, match="no object at `info`"):
        detected.read(line({**ROW, "info": "my notes"}))


def test_column_that_is_none(subtests: pytest.Subtests) -> None:
    """A column that the user names for rewards or keys holds an item for each rollout, or is refused."""
    for value in [5, [7], [7, 8, 9], {"x": 1}, "text"]:
        with subtests.test(value=str(value)):
            for options in ({"reward": "mine"}, {"group_by": "mine"}):
                with pytest.raises(UnreadableError, match="`mine`"):
                    read({**STEP, "mine": value}, **options)


def test_column() -> None:
    """A column that the user names for rewards takes the scores, and its items are kept."""
    record = {**STEP, "mine": [7, 8]}
    out = written(record, SCORED, using=reader(record, reward="mine"))
    assert out["mine"] == [0.625, 0.625]
    assert [annotation["independent_reward"] for annotation in out["ruler"]] == [7, 8]
    assert out["scores"] == [1, 2]


@pytest.mark.long
def test_long_line() -> None:
    """Reading and annotating a columnar line takes time in proportion to its rollouts, also a second time."""

    def seconds(size: int) -> float:
        record = {key: [str(i) for i in range(size)] for key in STEP}
        detected = reader(record)
        raw = json.dumps(record).encode()
        for _ in range(2):
            begun = time.process_time()
            rollouts = sorted((r for p in detected.read(line(raw)) for r in p.rollouts), key=lambda r: r.path)
            raw = annotate(raw, detected.format, [(r, SCORED) for r in rollouts], GROUP, "null")
        return time.process_time() - begun

    assert seconds(8_000) < 80 * max(min(seconds(400), seconds(400)), 1e-3)
