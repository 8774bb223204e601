"""Details of single formats: tables of examples with one change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import sample
from tests.values import line, read, reader, talk

GONE: Any = object()
"""The value of a member to remove."""


def put(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a record with other values at dotted paths."""
    out = copy.deepcopy(record)
    for path, value in changes.items():
        *parents, last = path.split(".")
        at: Any = out
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if value is GONE:
            at.pop(last, None)
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return out


CHAT = talk("4")
NODE = {"message": {"role": "user", "content": "q"}}
NO_NODES = "no messages in `nodes`"
EARLIER = "no earlier node"
UNREADABLE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("areal", {"completion": None}, "no answer: `completion` is null"),
    ("skyrl", {"output_response": None}, "no answer: `output_response` is null"),
    ("trl", {"completion": None}, "no answer: `completion` is null"),
    ("verl", {"output": None}, "no answer: `output` is null"),
    ("tinker", {"turns": []}, "no messages in `turns`"),
    ("eval_protocol", {"messages": []}, "is empty"),
    ("tau2", {"messages": []}, "when a run crashed"),
    ("tau2", {"messages": None, "ticks": [{}]}, "has no messages"),
    ("harbor_traces", {"conversations": None}, "`conversations`"),
    ("harbor_traces", {"conversations": []}, "`conversations`"),
    (
        "harbor_trials",
        {
            "trajectory": None,
            "result.exception_info": {"exception_type": "AgentTimeoutError"},
        },
        "no ATIF trajectory",
    ),
    ("atif", {"steps": None}, "no list `steps`"),
    ("atif", {"steps": []}, "has no text"),
    ("atif", {"steps": "x"}, "no list `steps`"),
    ("atif", {"steps": [7]}, "of the shape"),
    ("slime", {"response": None}, "no answer: `response`"),
    ("miles", {"messages": [], "response": None}, "no answer: `response`"),
    ("nemo_rl", {"content": []}, "not of the shape"),
    ("nemo_rl", {"content": [["q", "a"], ["q", "b"]]}, "not of the shape"),
    ("nemo_rl", {"content": ["q"]}, "not of the shape"),
    ("nemo_rl", {"content": [[1]]}, "no list of messages"),
    ("ultrafeedback", {"completions": None}, "no list `completions`"),
    ("atropos", {"messages": None}, "no list `messages` .*token ids only"),
    ("atropos", {"scores": [1.0]}, "`scores`"),
    ("atropos", {"scores": 1.0}, "`scores`"),
    ("ms_swift", {"completion": ["a", "b"]}, "no list of 2 items at `prompt`"),
    ("ms_swift_ray", {"prompt": GONE}, "no text before"),
    ("roll", {"scores": [1]}, "no list of 5 items at `scores`"),
    ("roll", {"id": ["a"]}, "no list of 5 items at `id`"),
    ("roll", {"messages": ["a"]}, "no list of 5 items at `messages`"),
    ("roll", {"prompt": ["a"]}, "no list of 5 items at `prompt`"),
    (
        "roll",
        {"responses": [], "scores": [], "id": [], "messages": [], "prompt": []},
        "columns are empty",
    ),
    ("roll_agentic", {"messages": GONE}, "no list `messages`"),
    ("lm_eval", {"resps": []}, "no list `resps.0`"),
    ("lm_eval", {"resps": None}, "no list `resps.0`"),
    ("lm_eval", {"doc_id": None}, "no group key"),
    ("rllm", {"trajectories": []}, "no `trajectories`"),
    ("rllm", {"trajectories": None}, "no `trajectories`"),
    ("rllm", {"trajectories": [7]}, "no `chat_completions`"),
    ("rllm", {"trajectories": [{"steps": [7]}]}, "no `chat_completions`"),
    ("verifiers_results", {"completion": None}, "`completion`"),
    ("verifiers_results", {"completion": []}, "`completion`"),
    ("verifiers_traces", {"nodes": []}, NO_NODES),
    ("verifiers_traces", {"nodes": None}, NO_NODES),
    ("verifiers_traces", {"nodes": [NODE, {**NODE, "parent": 1}]}, EARLIER),
    (
        "verifiers_traces",
        {"nodes": [{**NODE, "parent": 1}, {**NODE, "parent": 0}]},
        EARLIER,
    ),
    ("verifiers_traces", {"nodes": [NODE, {**NODE, "parent": -1}]}, EARLIER),
    ("verifiers_traces", {"nodes": [7]}, "of the shape"),
    ("verifiers_traces", {"nodes": [{"message": 7}]}, "no message object"),
    (
        "verifiers_traces",
        {"nodes": [{"message": {"content": "x"}}]},
        "no message object",
    ),
    ("verifiers_episodes", {"traces.0.nodes": []}, NO_NODES),
    ("verifiers_episodes", {"traces": []}, "`traces`"),
    ("verifiers_episodes", {"traces": ["x"]}, "of the shape"),
    ("verifiers_episodes", {"traces.0.agent": {"trainable": False}}, "`trainable`"),
    ("nemo_gym", {"response": None}, r"no items in `response\.output`"),
    ("nemo_gym", {"response.output": []}, r"no items in `response\.output`"),
    ("mini_swe_agent", {"messages": []}, "no messages in `messages`"),
    ("swe_agent", {"history": []}, "no messages in `history`"),
    (
        "swe_agent",
        {"history": [{"role": "user", "content": "d", "is_demo": True}]},
        "has no text",
    ),
    ("openhands", {"history": []}, "a whole conversation"),
)
"""Example, changes of its first record, and the reason why it is unreadable."""


def test_unreadable(subtests: pytest.Subtests) -> None:
    """An unreadable record has a reason in the words of its framework."""
    for name, changes, message in UNREADABLE:
        with (
            subtests.test(name=name, changes=str(changes)),
            pytest.raises(UnreadableError, match=message),
        ):
            reader(*sample(name)).read(line(put(sample(name)[0], changes)))
    for empty in ("", None):
        with pytest.raises(UnreadableError, match="when a run crashed"):
            read({"task_id": 4, "trial": 0, "traj": empty})


GROUPED: tuple[tuple[str, list[dict[str, Any]], list[dict[str, Any]]], ...] = (
    ("skyrl", [{"output_response": "b"}, {"env_extras": {"index": 9}}], [{"input_prompt": "p"}]),
    ("trl", [{"completion": "b"}], [{"prompt": "p"}, {"step": 41}]),
    ("verl", [{"output": "b"}, {"uid": "abc"}], [{"input": "p"}, {"step": 99}]),
    ("nemo_rl", [{"content": [["q", "a", "b"]], "idx": 1}], []),
    ("ms_swift_ray", [{"completion": "b"}], [{"gen_step": 99}, {"prompt": "p"}]),
    ("lm_eval", [{"filter": "x"}], [{"doc_id": 99}, {"arguments": [["p"]]}]),
    ("rllm", [{"epoch": 9}], [{"training_step": 99}, {"task_hash": "x"}]),
    (
        "verifiers_results",
        [{"completion": "b"}, {"task": {"an": "object"}}],
        [{"example_id": 77}, {"step": 1}, {"step": 2}, {"env_name": "a"}, {"task": "gsm8k"},
         {"info": {"env_id": "math"}}, {"info": {"env_id": ["chess", "blitz"]}}],
    ),
    ("nemo_gym", [{"reward": 7}], [{"_ng_task_index": 99}, {"agent_ref": {"name": "chess"}}]),
    ("slime_buffer", [{"uid": "other"}], [{"instance_id": "x"}]),
    ("atif", [{"session_id": "other"}], []),
)  # fmt: skip
"""Example, changes of its first record that leave it in its group, and those that do not."""


def test_grouped(subtests: pytest.Subtests) -> None:
    """Two rollouts are one group exactly if their framework compares them."""
    for name, alike, apart in GROUPED:
        first = put(
            sample(name)[0], {"content": [["q", "a"]]} if name == "nemo_rl" else {}
        )
        with subtests.test(name=name):
            one, *others = (read(put(first, change))[0].key for change in ({}, *alike))
            assert set(others) == {one}
            keys = [read(put(first, change))[0].key for change in apart]
            assert len({one, *keys}) == 1 + len(keys)


ERRORS: tuple[tuple[str, dict[str, Any], list[bool]], ...] = (
    (
        "ultrafeedback",
        {"completions": [{"response": None}, 7, {"response": "x"}]},
        [False, False, True],
    ),
    ("atropos", {"messages.0": []}, [False, True, True]),
    ("roll_agentic", {"messages.0": ""}, [False, True, True, True]),
    (
        "rllm",
        {"trajectories": [7, {"steps": [{"chat_completions": CHAT}]}]},
        [False, True],
    ),
    (
        "rllm",
        {"trajectories": [{}, {"steps": [{"chat_completions": CHAT}]}]},
        [False, True],
    ),
    ("prompt_responses", {"responses": ["a", None], "rewards": GONE}, [True, False]),
    ("mt_bench", {"choices.1.turns": None}, [True, False]),
    ("mt_bench", {"choices.1.turns": ["one", "two", "three"]}, [True, False]),
    ("mt_bench", {"choices.1.turns": [None]}, [True, False]),
)
"""Example, changes of its first record, and for each rollout a truth value: true if it is readable."""


def test_errors(subtests: pytest.Subtests) -> None:
    """An unreadable rollout has an error, and the other rollouts of its record have none."""
    for name, changes, wanted in ERRORS:
        records = reader(*sample(name)).read(line(put(sample(name)[0], changes)))
        rollouts = [rollout for record in records for rollout in record.rollouts]
        with subtests.test(name=name, changes=str(changes)):
            assert [
                r.error is None for r in sorted(rollouts, key=lambda r: r.path)
            ] == wanted
