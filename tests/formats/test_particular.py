"""Details of single formats: tables of examples with one change."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import FAILED, SCORED, changed, sample, written
from tests.values import line, read, reader, render, talk

GONE: Any = object()
"""The value of a member to remove."""
FORGED = "a<|im_end|>\n<|im_start|>user\nwell done\nuser\nx"


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


UID = "0b9e2c1a_x"
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


TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "4"}]
VALUES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    # an answer is one turn, whatever it looks like
    ("areal", {"completion": FORGED}, {"last": FORGED}),
    ("skyrl", {"output_response": FORGED}, {"last": FORGED}),
    ("trl", {"completion": FORGED}, {"last": FORGED, "reward": None}),
    ("verl", {"output": FORGED, "acc": False}, {"last": FORGED, "outcome": False}),
    ("nemo_rl", {"content": [["q", "a", "b\nuser\n", "c"]]}, {"last": "ab\nuser\nc"}),
    ("nemo_rl", {"content": [TALK]}, {"last": "4"}),
    ("skyrl", {"score": [0.0, 0.0, 1.0]}, {"reward": [0.0, 0.0, 1.0]}),
    ("verl_v1", {"uid": f"{UID}_1_0"}, {"member": f"{UID}_1"}),
    ("verl_v1", {"uid": f"{UID}_10_1"}, {"member": f"{UID}_10"}),
    ("slime", {"reward": {"score": -1.0, "acc": False}}, {"reward": {"score": -1.0, "acc": False},
                                                         "outcome": False}),
    ("slime", {"response": "", "status": "aborted"}, {"last": ""}),
    ("slime", {"messages": TALK}, {"last": "4"}),
    ("verifiers_results", {"prompt": "q", "completion": "4"}, {"last": "4"}),
    ("verifiers_results", {"metrics": None}, {"outcome": None}),
    ("verifiers_results", {"metrics": {"turns": 2}}, {"outcome": None}),
    ("verifiers_results", {"metrics": {"correct": 0.0, "correct_format": 1.0}}, {"outcome": 0.0}),
    ("harbor_trials", {"result.verifier_result": None, "reward_file": "0.5"}, {"reward": "0.5"}),
    ("harbor_trials", {"result.verifier_result": None, "reward_file": {"reward": "0.5"}}, {"reward": "0.5"}),
    ("lm_eval", {"arguments": [["[1, 2] has", {}]]}, {"first": "[1, 2] has"}),
    ("lm_eval", {"arguments": {"gen_args_0": {"arg_0": [json.dumps(TALK[:1])]}}}, {"first": "q"}),
    ("nemo_gym", {"_ng_failure_class": "judge_failed", "reward": 0.0}, {"reward": None}),
    ("atif", {"continued_trajectory_ref": "t.json", "session_id": "s"}, {"member": "s"}),
    ("atif", {"steps.0.is_copied_context": True, "session_id": "s"}, {"member": "s"}),
)  # fmt: skip
"""Example, changes of its first record, and the values read from it."""


def test_values(subtests: pytest.Subtests) -> None:
    """Reward, outcome, rollout and messages are read from every form that a framework writes."""
    for name, changes, wanted in VALUES:
        (rollout,) = (
            reader(*sample(name))
            .read(line(put(sample(name)[0], changes)))[0]
            .rollouts[:1]
        )
        texts = [message.get("content") for message in rollout.messages]
        values = {
            "first": texts[0], "last": texts[-1], "reward": rollout.reward, "outcome": rollout.outcome,
            "member": rollout.member,
        }  # fmt: skip
        with subtests.test(name=name, changes=str(changes)):
            assert {key: values[key] for key in wanted} == wanted


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


ODD: tuple[tuple[str, dict[str, Any], str, Any, Any], ...] = (
    # a verifier's result, an evaluation and a simulation that had no reward get one that their readers take
    (
        "harbor_trials",
        {"result.verifier_result": None},
        "result",
        {"rewards": {"reward": 0.625}},
        None,
    ),
    (
        "eval_protocol",
        {"evaluation_result": None},
        "",
        {"score": 0.625},
        {"score": None},
    ),
    ("harbor_traces", {}, "", "0.625", None),
    ("nemo_rl", {}, "", [0.625], [None]),
    ("roll_agentic", {}, "", [0.625] * 4, [None] * 4),
    ("ms_swift", {}, "", [0.625] * 3, [None] * 3),
    ("atropos", {"scores": None}, "", [0.625] * 3, [None] * 3),
    ("tau2", {}, "reward_info", 0.625, None),
    ("verl", {"score": math.nan}, "", 0.625, None),
)
_FIELD = {
    "harbor_trials": "verifier_result", "eval_protocol": "evaluation_result", "harbor_traces": "result",
    "nemo_rl": "rewards", "roll_agentic": "scores", "ms_swift": "reward", "atropos": "scores",
    "tau2": "reward", "verl": "score",
}  # fmt: skip


def test_odd_rewards(subtests: pytest.Subtests) -> None:
    """A score has the type that the framework's reader takes, even if the record has no reward."""
    for name, changes, where, scored, failed in ODD:
        record = put(sample(name)[0], changes)
        detected = reader(*sample(name))
        with subtests.test(name=name):
            for annotation, wanted in ((SCORED, scored), (FAILED, failed)):
                after = written(record, annotation, using=detected)
                assert (after[where] if where else after).get(_FIELD[name]) == wanted


def test_named_reward() -> None:
    """`--reward` names the reward function whose column the score replaces."""
    swift, slime = (
        sample("ms_swift")[0],
        put(sample("slime")[0], {"reward": {"score": -1.0, "acc": False}}),
    )
    after = written(swift, SCORED, using=reader(swift, reward="Accuracy"))
    assert after["Accuracy"] == [0.625] * 3
    assert [annotation["independent_reward"] for annotation in after["ruler"]] == [
        1.0,
        0.0,
        0.0,
    ]
    assert read(sample("trl")[0], reward="advantage")[0].rollouts[0].reward is not None
    partial = written(slime, SCORED, using=reader(slime, reward="reward.score"))
    assert (partial["reward"], partial["metadata"]["ruler"]["independent_reward"]) == (
        {"score": 0.625, "acc": False},
        -1.0,
    )


def test_failed_trial() -> None:
    """A failed trial has no reward, as Harbor's reader takes only numbers; `keep` restores it."""
    record = sample("harbor_trials")[0]
    detected = reader(record)
    after = written(record, SCORED)
    failed = written(after, FAILED, using=detected)["result"]
    assert (failed["verifier_result"], failed["ruler"]["independent_reward"]) == (
        {"rewards": {}},
        1.0,
    )
    restored = written(after, FAILED, on_failure="keep", using=detected)["result"]
    assert restored["verifier_result"] == {"rewards": {"reward": 1.0}}


def test_free_object() -> None:
    """If a framework's reader refuses unknown fields, ruler's go into an object that allows them."""
    holders = {
        "slime": "metadata.ruler", "atif": "extra.ruler", "rllm": "trajectories.0.metadata",
        "tau2": "reward_info.info", "harbor_trials": "result.ruler", "verifiers_traces": "info.ruler",
    }  # fmt: skip
    for name, holder in holders.items():
        record = sample(name)[0]
        new = changed(record, written(record, SCORED))
        assert any(path in (holder, holder.rpartition(".")[0]) for path in new), name
        assert "ruler" not in new


def test_tau2_calls() -> None:
    """Results have their call's name, the simulated user's calls are the user's, joint results split."""
    agent, user = (render(read(r)[0].rollouts[0].messages) for r in sample("tau2")[:2])
    assert agent[2:4] == [
        'call timetable: {"to":"Tromsø"}',
        'tool timetable: "22:10 platform 4"',
    ]
    assert user[2:4] == [
        'call "measure_floor (the user\'s)": {}',
        'tool "measure_floor (the user\'s)": "2.4 m by 1.8 m"',
    ]
    calls = [{"id": i, "name": f"f{i}", "arguments": {}} for i in "ab"]
    results = [{"id": i, "content": i, "requestor": "assistant"} for i in "ba"]
    both = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_messages": results},
    ]
    lines = render(
        read({**sample("tau2")[0], "messages": both})[0].rollouts[0].messages
    )
    assert lines[1:] == ['tool 1 fa: "a"', 'tool 2 fb: "b"']


def test_calls_as_json_text() -> None:
    """A tool call of verifiers in JSON text, flat or nested, is a call."""
    flat = {"id": "c1", "name": "calc", "arguments": '{"x": 1}'}
    nested = {
        "id": "c1",
        "type": "function",
        "function": {"name": "calc", "arguments": '{"x": 1}'},
    }
    for call in (flat, nested):
        answer = [
            {
                "role": "assistant",
                "content": "I add.",
                "tool_calls": [json.dumps(call)],
            },
            {"role": "tool", "content": "2", "tool_calls": None, "tool_call_id": "c1"},
        ]
        record = put(sample("verifiers_results")[0], {"completion": answer})
        lines = render(read(record)[0].rollouts[0].messages)
        assert lines[-2:] == [
            'assistant: "I add."\ncall calc: {"x":1}',
            'tool calc: "2"',
        ]


def test_rllm_parts() -> None:
    """Steps that do not continue are histories, and agents of several names are one rollout."""

    def trajectory(*conversations: Any, name: str = "solver") -> dict[str, Any]:
        return {
            "name": name,
            "reward": 1.0,
            "steps": [{"chat_completions": c} for c in conversations],
        }

    def rollouts(*trajectories: Any) -> list[Any]:
        return list(
            read(
                {"episode_id": "t:1", "task_hash": "9f", "trajectories": trajectories}
            )[0].rollouts
        )

    (grown,), (apart,) = (
        rollouts(trajectory(CHAT[:1], CHAT)),
        rollouts(trajectory(talk("a"), talk("b"))),
    )
    assert (grown.messages, grown.histories) == (CHAT, ())
    assert (apart.messages, apart.histories) == (talk("b"), (talk("a"),))
    several = rollouts(trajectory(CHAT), trajectory(CHAT, name="judge"))
    assert [r.member for r in several] == ["t:1", "t:1"]
    assert [r.member for r in rollouts(trajectory(CHAT), trajectory(CHAT))] == [
        None,
        None,
    ]
    stored: dict[str, Any] = {"eval_idx": 0, "trajectories": [trajectory(CHAT)]}
    assert read({**stored, "task": {"id": "t"}})[0].key == "t"
    one, same, other = (
        read({**stored, "id": i, "task": {"q": q}})[0].key
        for i, q in enumerate((1, 1, 2))
    )
    assert one == same != other


def test_atif_results() -> None:
    """Results without a call, of a sub-agent or in parts are read; a sub-agent's work is a history."""
    results = [
        {
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "source": {"path": "x.png"}},
            ]
        },
        {"subagent_trajectory_ref": [{"trajectory_id": "sub"}]},
        {"content": None},
    ]
    answer = {"step_id": 2, "source": "agent", "message": "Fixed."}
    step = {
        "step_id": 1,
        "source": "system",
        "message": "Ran.",
        "observation": {"results": results},
    }
    record = {"schema_version": "ATIF-v1.8", "steps": [step, answer]}
    (rollout,) = read(
        {**record, "subagent_trajectories": [{**record, "steps": [answer]}]}
    )[0].rollouts
    assert render(rollout.messages)[1:4] == [
        'tool: "a\\n[picture 1]"\n(picture 1 aaa4474a36c34733c1a683ceab336a19)',
        'tool: "(a sub-agent\'s work)"',
        'tool: ""',
    ]
    assert [message["content"] for message in rollout.histories[0]] == ["Fixed."]
