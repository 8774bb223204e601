"""How each framework itself reads the dumps that it writes: key and reward of each rollout.

Written from the frameworks' own readers, whose names stand beside each, and on purpose without ruler's
format modules: the two must agree. Keyed by the name of the example in `samples/formats`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Read = list[tuple[Any, Any]]
"""Group key and reward of each rollout of a record, in order; key None where the framework has none."""
Record = dict[str, Any]


def field(reward: str, key: str | None = None) -> Callable[[Record], Read]:
    """A record is a rollout, and key and reward are fields of it."""
    return lambda r: [(r[key] if key else None, r[reward])]


def verl_v1(r: Record) -> Read:
    """verl, trainer_base.py `_log_rollout_data`: the uid is the record's; two suffixes make the group's."""
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
            parts = trace.get("rewards", {}).values()
            key = r.get("group", {}).get("id") or r.get("task", trace.get("task", {}))["key"]
            out.append((key, sum(p["score"] * p["weight"] for p in parts) if parts else None))
    return out


def verifiers_trace(r: Record) -> Read:
    """verifiers 0.2, trace.py: the reward of a trace is the sum of its rewards."""
    return [
        (json.dumps(r["task"]["data"], sort_keys=True), sum(r["rewards"].values()) if r["rewards"] else None)
    ]


def nemo_rl(r: Record) -> Read:
    """NeMo-RL, logger.py `log_batched_dict_as_jsonl`: every value stands in a list of one."""
    (reward,) = r["rewards"]
    return [(None, reward)]


def rllm(r: Record) -> Read:
    """rLLM, episode_logger.py: each trajectory of an episode has its reward."""
    return [(r["task_hash"], t["reward"]) for t in r["trajectories"]]


def art(r: Record) -> Read:
    """ART, trajectory_migration.py `dict_to_trajectory_group`: a reward that is absent is 0.0."""
    return [(None, t.get("reward", 0.0)) for t in r["trajectories"]]


def native(r: Record) -> Read:
    """ruler's own groups."""
    return [(r.get("group_id"), t.get("reward")) for t in r["trajectories"]]


def inspect_sample(r: Record) -> Read:
    """Inspect, _log.py `EvalSample`: one score or more by name, each with a value."""
    return [(r["id"], next(iter(r["scores"].values()))["value"])]


def harbor(r: Record) -> Read:
    """Harbor, trial result: the verifier's rewards by name."""
    return [(r["result"]["task_name"], r["result"]["verifier_result"]["rewards"]["reward"])]


def tau2(r: Record) -> Read:
    """tau2, data_model/simulation.py: `reward_info.reward`."""
    return [(r["task_id"], r["reward_info"]["reward"])]


def columns(reward: str, key: str | None) -> Callable[[Record], Read]:
    """A record is a step: a dict of equally long lists."""

    def read(r: Record) -> Read:
        keys = r[key] if key else [None] * len(r[reward])
        assert len({len(v) for v in r.values()}) == 1, "columns of unequal length"
        return list(zip(keys, r[reward], strict=True))

    return read


def atropos(r: Record) -> Read:
    """Atropos, envs/base.py: a group, its scores in the order of its messages."""
    assert len(r["scores"]) == len(r["messages"]) == len(r["tokens"])
    return [(None, s) for s in r["scores"]]


def ultrafeedback(r: Record) -> Read:
    """UltraFeedback's rows: the completions of one instruction."""
    return [(None, c["overall_score"]) for c in r["completions"]]
