"""Each framework's own reader of its dumps: group key and reward of each rollout.

The readers follow the source of the frameworks, which each docstring names, and import none of ruler's
format modules, because both must agree. `READERS` has the names of the examples in `samples/formats`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Read = list[tuple[Any, Any]]
"""Group key and reward of each rollout of a record, in order; key None if the framework has none."""
Record = dict[str, Any]


def field(reward: str, key: str | None = None) -> Callable[[Record], Read]:
    """Read a record that is one rollout, with key and reward as fields."""
    return lambda r: [(r[key] if key else None, r[reward])]


def verl_v1(r: Record) -> Read:
    """verl, trainer_base.py `_log_rollout_data`: `uid` without its two suffixes is the group key."""
    assert isinstance(r["score"], float | int | None)
    return [(r["uid"].rsplit("_", 2)[0], r["score"])]


def verifiers_results(r: Record) -> Read:
    """verifiers, save_utils.py `load_outputs`: lines without `example_id` are skipped."""
    return [(r["example_id"], r["reward"])]


def verifiers_episode(r: Record) -> Read:
    """verifiers v1, trace.py: the reward of a trace is the sum of score times weight."""
    out = []
    for trace in r["traces"]:
        if trace.get("agent", {}).get("trainable", True):
            key = (
                r.get("group", {}).get("id")
                or r.get("task", trace.get("task", {}))["key"]
            )
            out.append((key, _weighted(trace.get("rewards", {}))))
    return out


def _weighted(rewards: dict[str, Any]) -> float | None:
    """trace.py, `Trace.reward`; a null is no reward."""
    parts = [
        part["score"] * part["weight"]
        for part in rewards.values()
        if part is not None
    ]
    return sum(parts) if parts else None


def weighted_trace(r: Record) -> Read:
    """verifiers 0.3 and prime-rl in July 2026: one trace of an episode."""
    return [(r.get("group_id") or r["task"]["key"], _weighted(r["rewards"]))]


def verifiers_trace(r: Record) -> Read:
    """verifiers 0.2, trace.py: the reward of a trace is the sum of its rewards."""
    return [
        (
            json.dumps(r["task"]["data"], sort_keys=True),
            sum(r["rewards"].values()) if r["rewards"] else None,
        )
    ]


def skyrl(r: Record) -> Read:
    """SkyRL, trainer_utils.py `dump_per_dataset_eval_results`: a number, or one for each token."""
    score = r["score"]
    return [(None, sum(score) if isinstance(score, list) else score)]


def nemo_rl(r: Record) -> Read:
    """NeMo-RL, logger.py `log_batched_dict_as_jsonl`: every value is a list of one."""
    (reward,) = r["rewards"]
    return [(None, reward)]


def rllm(r: Record) -> Read:
    """rLLM, episode_logger.py: each trajectory of an episode has its reward."""
    return [(r["task_hash"], t["reward"]) for t in r["trajectories"]]


def art(r: Record) -> Read:
    """ART, trajectory_migration.py `dict_to_trajectory_group`: an absent reward is 0.0."""
    return [(None, t.get("reward", 0.0)) for t in r["trajectories"]]


def art_row(r: Record) -> Read:
    """ART, trajectories/parquet.py: the reward comes from the JSON in `trajectory_json`."""
    return [
        (r["group_index"], json.loads(r["trajectory_json"]).get("reward", 0.0))
    ]


def native(r: Record) -> Read:
    """ruler's own groups."""
    return [(r.get("group_id"), t.get("reward")) for t in r["trajectories"]]


def inspect_sample(r: Record) -> Read:
    """Inspect, _log.py `EvalSample`: scores by name; `ruler` comes before the others."""
    scores = r["scores"]
    first = scores.get("ruler") or next(iter(scores.values()))
    return [(r["id"], first["value"])]


def harbor_row(r: Record) -> Read:
    """Harbor, traces_utils.py: `result` is the reward as text."""
    return [(r["task"], r["result"])]


def atif(r: Record) -> Read:
    """Harbor, models/trajectories: no reward; only `extra` holds other fields."""
    known = {"schema_version", "session_id", "agent", "steps", "notes", "final_metrics", "extra",
             "trajectory_id", "continued_trajectory_ref", "subagent_trajectories"}  # fmt: skip
    assert r.keys() <= known
    return [(None, r.get("extra", {}).get("reward"))]


def unrewarded(key: str | None, *lists: str) -> Callable[[Record], Read]:
    """Read a record that is a group of answers in lists, without rewards."""

    def read(r: Record) -> Read:
        return [
            (r[key] if key else None, None) for name in lists for _ in r[name]
        ]

    return read


def lm_eval(r: Record) -> Read:
    """lm-eval, evaluation_tracker.py: the answers of one document; its metrics belong to the first."""
    return [(r["doc_id"], None) for _ in r["resps"][0]]


def pair(r: Record) -> Read:
    """TRL: chosen and rejected, as texts or as messages."""
    assert {"chosen", "rejected"} <= r.keys() or {
        "preferred_output",
        "non_preferred_output",
    } <= r.keys()
    return [(None, None), (None, None)]


def promptfoo_table(r: Record) -> Read:
    """promptfoo 0.121, buildCsvHeaders: an output in each column that begins with its provider."""
    scores = [r[name] for name in r if name.startswith("Score")]
    return [(None, float(score)) for score in scores]


def sides(r: Record) -> Read:
    """AlpacaEval, FastChat, PKU-SafeRLHF, JudgeBench, the Arena's table: two answers under two names."""
    ends = (
        ("1", "2")
        if "output_1" in r
        else ("0", "1")
        if "response_0" in r
        else ("a", "b")
    )
    names = [
        key
        for key in r
        if key.rpartition("_")[0] in ("output", "response", "conversation")
    ]
    assert [name[-1].lower() for name in names] == list(ends)
    return [(None, None) for _ in names]


def responses(r: Record) -> Read:
    """verl's main_generation_server: a prompt and a list of responses."""
    return [
        (None, reward)
        for reward in r.get("rewards", [None] * len(r["responses"]))
    ]


def added(key: str | None = None) -> Callable[[Record], Read]:
    """Read a record that is one rollout of a framework without a total reward."""
    return lambda r: [(r[key] if key else None, r.get("reward"))]


def steps_added(r: Record) -> Read:
    """ms-swift, grpo_trainer.py `log`: a dict of lists, one for each reward function, without a total."""
    lengths = {len(v) for v in r.values()}
    assert len(lengths) == 1, "columns of unequal length"
    return [
        (None, reward) for reward in r.get("reward", [None] * lengths.pop())
    ]


def harbor(r: Record) -> Read:
    """Harbor, trial result: the verifier's rewards by name."""
    return [
        (
            r["result"]["task_name"],
            r["result"]["verifier_result"]["rewards"]["reward"],
        )
    ]


def eval_protocol(r: Record) -> Read:
    """eval-protocol, models.py `EvaluationRow`: `evaluation_result.score`."""
    return [
        (
            r["input_metadata"]["row_id"],
            (r["evaluation_result"] or {}).get("score"),
        )
    ]


def tau2(r: Record) -> Read:
    """tau2, data_model/simulation.py: `reward_info.reward`."""
    return [(r["task_id"], r["reward_info"]["reward"])]


def columns(reward: str, key: str | None) -> Callable[[Record], Read]:
    """Read a record that is a step: a dict of equally long lists."""

    def read(r: Record) -> Read:
        keys = r[key] if key else [None] * len(r[reward])
        assert len({len(v) for v in r.values()}) == 1, (
            "columns of unequal length"
        )
        return list(zip(keys, r[reward], strict=True))

    return read


def atropos(r: Record) -> Read:
    """Atropos, envs/base.py: a group, its scores in the order of its messages."""
    assert len(r["scores"]) == len(r["messages"]) == len(r["tokens"])
    return [(None, s) for s in r["scores"]]


def ultrafeedback(r: Record) -> Read:
    """UltraFeedback's rows: the completions of one instruction."""
    return [(None, c["overall_score"]) for c in r["completions"]]


def langfuse(r: Record) -> Read:
    """Langfuse, dataset-run-items: the metadata of a trace names its item."""
    return [(r["metadata"]["dataset_item_id"], r.get("reward"))]


def batch_samples(r: Record) -> Read:
    """OpenAI, batch output joined with its input: the choices of a request, without rewards."""
    choices = r["response"]["body"]["choices"]
    return [
        (None, reward) for reward in r.get("rewards", [None] * len(choices))
    ]


READERS: dict[str, Callable[[Record], Read]] = {
    "groups": native,
    "trajectories": field("reward", "group_id"),
    "art_groups": art,
    "art_rows": art_row,
    "art_trajectories": field("reward"),
    "tau_bench": field("reward", "task_id"),
    "adk_sessions": added(),
    "atif": atif,
    "agentscope": added(),
    "agno": added(),
    "api_logs": added(),
    "api_logs_samples": batch_samples,
    "areal": field("reward", "task_id"),
    "atropos": atropos,
    "camel": added(),
    "claude_code": added(),
    "cline": added("group_id"),
    "codex": added(),
    "autogen": added("task_id"),
    "code_completions": added("task_id"),
    "continue": added(),
    "copilot_cli": added(),
    "cursor": added(),
    "eval_protocol": eval_protocol,
    "gemini_cli": added(),
    "gemini_contents": added(),
    "harbor_traces": harbor_row,
    "harbor_trials": harbor,
    "inspect": inspect_sample,
    "langchain": added("example_id"),
    "live_code_bench": unrewarded("question_id", "output_list"),
    "langfuse": langfuse,
    "langsmith": added("reference_example_id"),
    "llm": added(),
    "lm_eval": lm_eval,
    "mini_swe_agent": added("instance_id"),
    "miles": field("reward", "group_index"),
    "ms_swift": steps_added,
    "ms_swift_ray": added(),
    "nemo_gym": field("reward", "_ng_task_index"),
    "nemo_rl": nemo_rl,
    "nemo_rl_validation": nemo_rl,
    "openai_agents": added(),
    "openai_agents_input": added(),
    "opencode": added(),
    "openhands": added("instance_id"),
    "pi": added(),
    "pydantic_evals": unrewarded(None, "cases"),
    "qwen_code": added(),
    "kimi_code": added(),
    "openhands_events": added(),
    "preference": pair,
    "preference_openai": pair,
    "preference_sides": sides,
    "prime_rl": verifiers_episode,
    "prime_rl_traces": verifiers_trace,
    "prime_rl_weighted_traces": weighted_trace,
    "prompt_completion": added(),
    "prompt_responses": responses,
    "promptfoo": field("score"),
    "promptfoo_table": promptfoo_table,
    "rewardbench2": unrewarded("id", "chosen", "rejected"),
    "rllm": rllm,
    "roll": columns("scores", "id"),
    "sharegpt": added(),
    "skyrl": skyrl,
    "slime": field("reward", "group_index"),
    "slime_buffer": field("reward", "instance_id"),
    "steps": added(),
    "swe_agent": added(),
    "swe_bench": added("instance_id"),
    "tau2": tau2,
    "tinker": field("reward", "example_id"),
    "traces": added(),
    "trl": added(),
    "ultrafeedback": ultrafeedback,
    "verifiers_episodes": verifiers_episode,
    "verifiers_results": verifiers_results,
    "verifiers_traces": verifiers_trace,
    "verifiers_weighted_traces": weighted_trace,
    "verl": field("score"),
    "verl_v1": verl_v1,
}
"""By the name of the example."""
