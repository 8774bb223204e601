"""Records of parallel lists, an item a rollout: steps of ROLL and ms-swift, scored groups of Atropos.

Lists of unequal length cannot be read, because nothing tells which items belong together.

ROLL: one line a step, `rollout_dump_data.step_{N}.jsonl` (`write_to_json_process`,
`roll/pipeline/rlvr/utils.py`). RLVR: `messages` is JSON text of the prompt's messages, `responses` the answer
as text, `id` the prompt's, `scores` the reward. Agentic (`dump_rollout_trajectories`): `messages` is JSON
text of the whole conversation, or of several if the context was cut; `trajectory_data` is JSON text that
holds reward and group; there is no `scores`, so one is added.

ms-swift: `completions.jsonl` of GRPO and GKD, one line a logging step (`GRPOTrainer.log`,
`swift/rlhf_trainers/grpo_trainer.py`; megatron's `_build_log_table`); equal prompts are a group. Traps: each
reward function has a list of its own name and there is no total, so a list `reward` is added; `step` is a
list of texts, megatron's is `gen_step`. The Ray trainers (`_maybe_log_completions`) write one rollout a line;
the same prompt comes again in another `gen_step`, which therefore belongs to the key.

Atropos: one group a line, `data_path_to_save_groups` (`atroposlib/envs/base.py`), with `messages` only with
`include_messages`. Traps: if an environment gives no messages of its own, the base class writes one user
message with the whole json_value text, which is the rollout and no question; `scores` is null in groups that
only distil.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import TRANSCRIPT, check_messages
from ruler_cli.formats.fields import json_value, list_field, lookup
from ruler_cli.formats.interface import Format, RecordLayout, keyed_format
from ruler_cli.formats.named_fields import pair
from ruler_cli.formats.parallel import all_lists, answer_rollout, column
from ruler_cli.formats.prompts import prompt_key
from ruler_cli.formats.turns import json_turns, prompt_turns, read_or_error
from ruler_cli.types import Rollout

_KEY_PARTS = ("tag", "group_id", "episode_id", "seed")
_STEP = ", though the file is one step per line"


def _has_lists(record: Mapping[str, Any], *names: str, any_of: Sequence[str] = ()) -> bool:
    """Tell if a record has lists in all of these fields, and in at least one of `any_of`."""
    has_one = any(isinstance(record.get(name), list) for name in any_of) or not any_of
    return has_one and all(isinstance(record.get(name), list) for name in names)


def _read_roll(record: dict[str, Any]) -> list[Rollout]:
    responses = list_field(record, "responses", _STEP)
    names = ("messages", "prompt", "scores", "id")
    conversations, prompts, scores, _ = (column(record, name, len(responses)) for name in names)
    out = []
    for i, response in enumerate(responses):
        turns = prompt_turns(prompts[i], f"prompt[{i}]")
        if conversations[i] is not None:
            turns = json_turns(conversations[i], f"messages[{i}]")
        out.append(answer_rollout(turns, response, "responses", i, reward=scores[i]))
    return out


def _read_roll_agentic(record: dict[str, Any]) -> list[Rollout]:
    texts = list_field(record, "messages", " (ROLL dumps it where its environment declares it)")
    data, tools, scores = (column(record, n, len(texts)) for n in ("trajectory_data", "tools", "scores"))
    return [_episode(text, data[i], tools[i], scores[i], i) for i, text in enumerate(texts)]


def _episode(text: Any, data: Any, tools: Any, score: Any, i: int) -> Rollout:
    """Read item i of an agentic step: one conversation, or several that a context was cut into."""
    data = json_value(data)
    env = lookup(data, "env_info")
    reward = lookup(data, "reward_info.episode_reward") if score is None else score
    key = "_".join(str(env.get(part)) for part in _KEY_PARTS) if isinstance(env, dict) else None

    def read() -> Rollout:
        value, name = json_value(text), f"messages[{i}]"
        if isinstance(value, list) and value and all(isinstance(part, list) for part in value):
            parts = [check_messages(part, name) for part in value if part] or [check_messages([], name)]
        else:
            parts = [json_turns(text, name)]
        return Rollout(parts[-1], (i,), tuple(parts[:-1]), json_value(tools), reward, key=key)

    return read_or_error(read, (i,), reward=reward, key=key)


def _read_swift(record: dict[str, Any]) -> list[Rollout]:
    prompts = list_field(record, "prompt", _STEP)
    completions, rewards = (column(record, name, len(prompts)) for name in ("completion", "reward"))
    turns = [prompt_turns(prompt, f"prompt[{i}]") for i, prompt in enumerate(prompts)]
    return [
        answer_rollout(turns[i], completion, "completion", i, reward=rewards[i])
        for i, completion in enumerate(completions)
    ]


def _swift_key(record: Mapping[str, Any]) -> str | None:
    try:
        prompt = prompt_turns(record.get("prompt"), "prompt")
    except UnreadableError:
        return None
    return prompt_key(Rollout(prompt, prompt_length=len(prompt)), record.get("gen_step")) if prompt else None


def _read_atropos(record: dict[str, Any]) -> list[Rollout]:
    conversations = record.get("messages")
    if not isinstance(conversations, list):
        raise UnreadableError(
            "has token ids only: `messages` is null; run the environment with include_messages"
        )
    scores, _ = (column(record, name, len(conversations)) for name in ("scores", "tokens"))
    return [
        read_or_error(partial(_conversation, messages, i, scores[i]), (i,), reward=scores[i])
        for i, messages in enumerate(conversations)
    ]


def _conversation(value: Any, i: int, reward: Any) -> Rollout:
    """Read conversation i of a group; a lone user message is the transcript."""
    messages = check_messages(value, f"messages[{i}]")
    if len(messages) == 1 and messages[0].get("role") == "user":
        messages = [{**messages[0], "role": TRANSCRIPT}]
    return Rollout(messages, (i,), reward=reward)


_SCORES = RecordLayout(reward=("scores",), listed=True, lists=all_lists())
FORMATS = (
    keyed_format(
        "tokens scores messages", "Atropos groups", "atropos", _read_atropos,
        layout=RecordLayout(
            reward=("scores",), listed=True, refuses_null="Atropos",
            lists=all_lists("group_overrides", "generation_params"),
        ),
        shape="group",
    ),
    Format(
        "ms-swift steps", "ms-swift", "`prompt`, `completion`, `step` (lists)",
        lambda record: _has_lists(record, "prompt", "completion", any_of=("step", "gen_step", "advantages")),
        _read_swift, layout=RecordLayout(listed=True, lists=all_lists()), shape="columns",
    ),
    Format(
        "ms-swift rollouts", "ms-swift", "`gen_step`, `prompt`, `completion`",
        lambda record: {"gen_step", "prompt", "completion"} <= record.keys()
        and not _has_lists(record, "gen_step"),
        lambda record: [pair(record, "prompt", "completion")], key_of=_swift_key,
        key_description="hash of prompt + gen_step",
    ),
    Format(
        "ROLL steps", "roll", "`responses`, `scores`, `global_step`",
        lambda record: _has_lists(record, "responses", "scores", any_of=("global_step", "sampling_params")),
        _read_roll, ("id",), _SCORES, shape="columns",
    ),
    Format(
        "ROLL agentic steps", "roll", "`trajectory_data`",
        lambda record: _has_lists(record, "trajectory_data") and "responses" not in record,
        _read_roll_agentic, layout=_SCORES, shape="columns",
    ),
)  # fmt: skip
