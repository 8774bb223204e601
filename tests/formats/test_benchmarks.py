"""Results of benchmarks: BFCL, MT-bench answers, completions of code benchmarks."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import keyed, last_texts, sample
from tests.values import line, read, reader


def test_bfcl() -> None:
    """Turns come from the log or from the joined question, and calls are tool calls."""
    talk, single = keyed(*sample("bfcl")).values()
    assert last_texts(talk) == ["Platform 4, at 22:10.", "Platform 7, I think."]
    assert [m["role"] for m in talk[0].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert talk[0].messages[1]["tool_calls"] == [
        {"name": "timetable", "arguments": '{"to": "Tromsø"}'}
    ]
    assert [r.tools[0]["name"] for r in single] == ["timetable"] * 3
    assert [r.outcome for r in single] == [None, None, False]
    assert single[2].messages[-1]["content"] == "2.4 × 1.8 = 4.32 m², so 43 tiles."


def test_bfcl_by_more_than_an_id() -> None:
    """An id that begins like a category of BFCL makes no record one of its results."""
    pair = {"id": "simple-3", "prompt": "2+2?", "completion": "4", "valid": True}
    assert last_texts([*read(pair)[0].rollouts]) == ["4"]
    scored = {**pair, "id": "memory_1", "result": "x"}
    assert last_texts([*read(scored)[0].rollouts]) == ["4"]


def test_bfcl_turns_without_a_log() -> None:
    """The steps of each turn follow its own question."""
    turns = [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]
    record = {"question": turns, "id": "multi_turn_base_1", "input_token_count": []}
    (result,) = read({**record, "result": [[[{"f": "{}"}], "done"], ["bye"]]})
    roles = [m["role"] for m in result.rollouts[0].messages]
    assert roles == ["user", "assistant", "assistant", "user", "assistant"]
    with pytest.raises(UnreadableError, match="2 turns in `question`"):
        read({**record, "result": [["only one"]]})


def test_bfcl_error() -> None:
    """A result that is an error of the run is unreadable."""
    failed = {"id": "simple_7", "result": "Error during inference: x", "traceback": "…"}
    with pytest.raises(UnreadableError, match="has an error in `result`"):
        reader(*sample("bfcl")).read(line(failed))


@pytest.mark.parametrize(
    ("name", "field"), [("mt_bench", "choices"), ("live_code_bench", "output_list")]
)  # fmt: skip
@pytest.mark.parametrize("value", ["Oslo", {"0": "Oslo"}, None])
def test_answers_not_a_list(name: str, field: str, value: Any) -> None:
    """A record is unreadable if its answers are not a list."""
    record = sample(name)[0]
    for missing in ("code_list", field):
        record.pop(missing, None)
    given = {} if value is None else {field: value}
    with pytest.raises(UnreadableError, match="has no list"):
        reader(*sample(name)).read(line({**record, **given}))


def test_no_question(subtests: pytest.Subtests) -> None:
    """Answers without their questions are unreadable, and the reason names the way to give these."""
    for name in ["mt_bench", "bfcl"]:
        with subtests.test(name=str(name)):
            record = sample(name)[1]
            record.pop("turns", None)
            record.pop("question", None)
            with pytest.raises(
                UnreadableError, match="another file; join the two by `"
            ):
                reader(record).read(line(record))


def test_judgments() -> None:
    """A judgment is refused, because it is no rollout."""
    with pytest.raises(UsageError, match="holds no rollouts"):
        reader(
            {
                "question_id": 81,
                "model": "wren",
                "judge": ["g", "single-v1"],
                "judgment": "[[9]]",
            }
        )


SOLUTION_OF_A_DATA_SET: list[Any] = [
    {"task_id": "t/0", "prompt": "p", "solution": "of the data set"},
    {"task_id": "t/0", "canonical_solution": "x", "prompt": "p"},
]


def test_solution_of_a_data_set(subtests: pytest.Subtests) -> None:
    """A solution beside its prompt belongs to the data set and is no rollout."""
    for record in SOLUTION_OF_A_DATA_SET:
        with subtests.test(record=str(record)), pytest.raises(UsageError):
            reader(record)


def test_live_code_bench() -> None:
    """A line is a group of whole answers, or of code if the answers are absent."""
    record = sample("live_code_bench")[0]
    rollouts = read(record)[0].rollouts
    assert last_texts(list(rollouts))[0].startswith("So:")
    assert [r.outcome for r in rollouts] == [True, False]
    del record["output_list"]
    assert last_texts(list(read(record)[0].rollouts)) == ["print(8 * 6)", "print(43)"]
    with pytest.raises(UnreadableError, match="no list of 2 items at `graded_list`"):
        read({**record, "graded_list": [True]})
