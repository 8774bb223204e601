"""Dumps of trainers: a rollout a line, in two fields or in messages, or lists with an item a rollout.

Texts may hold lines like `user` and the special tokens of a chat template. A model can write these too, so an
answer is one turn whatever its text. Lists of unequal length cannot be read, because nothing tells which
items belong together. Without a group id rollouts with an equal prompt are a group.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import turns
from ruler_cli.formats.chat import (
    TRANSCRIPT,
    Messages,
    check_messages,
    first_agent_turn,
    messages_in,
    tools_of,
)
from ruler_cli.formats.fields import (
    first_at,
    has_keys,
    is_message_list,
    is_text_list,
    json_value,
    list_field,
    lookup,
)
from ruler_cli.formats.interface import (
    Format,
    ListLayout,
    RecordLayout,
    keyed_format,
    refused_shapes,
)
from ruler_cli.formats.parallel import all_lists, answer_rollout, column
from ruler_cli.formats.prompts import prompt_key
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.types import Rollout

_VERL_UID = re.compile(r"(?P<session>(?P<group>.+)_\d+)_\d+", re.DOTALL)


def read_pair(
    record: Mapping[str, Any],
    prompt: str = "prompt",
    answer: str = "completion",
    reward: str = "reward",
    **more: Any,
) -> list[Rollout]:
    """Read a prompt, its answer and the reward from the fields of these names."""
    both = (
        turns.prompt_turns(record.get(prompt), prompt),
        turns.answer_turns(record.get(answer), answer),
    )
    return [turns.make_rollout(*both, reward=record.get(reward), **more)]


def _read_messages(record: dict[str, Any], name: str, cause: str) -> list[Rollout]:
    return [Rollout(messages_in(record, name, cause), reward=record.get("reward"))]


def _is_trl(record: Mapping[str, Any]) -> bool:
    columnar = any(isinstance(record.get(name), list) for name in ("step", "advantage"))
    return {
        "prompt",
        "completion",
        "step",
        "advantage",
    } <= record.keys() and not columnar


def _verl_uid(record: Mapping[str, Any]) -> re.Match[str] | None:
    uid = record.get("uid")
    return _VERL_UID.fullmatch(uid) if isinstance(uid, str) else None


def _is_verl(record: Mapping[str, Any], *, uid: bool) -> bool:
    has_fields = {"input", "output", "score", "step"} <= record.keys() and isinstance(
        record["input"], str
    )
    return has_fields and (_verl_uid(record) is not None) == uid


def _read_verl(record: dict[str, Any]) -> list[Rollout]:
    """Read a rollout of verl; `acc` is the outcome, and the outputs of one session are one rollout."""
    member = (uid := _verl_uid(record)) and uid["session"]
    return read_pair(
        record, "input", "output", "score", outcome=record.get("acc"), member=member
    )


def _read_slime(record: dict[str, Any]) -> list[Rollout]:
    """Read a sample of slime or miles: from `messages` if it has them, else from `prompt` and `response`.

    `response` is empty if the sample was aborted. `reward` may be an object from which the trainer picks a
    key (`--reward-key`). ruler writes a number in its place, or at that key with `--reward reward.KEY`.
    """
    prompt: Messages = []
    if record.get("messages"):
        answer = check_messages(record["messages"], "messages")
    elif record.get("response") is not None:
        prompt = turns.prompt_turns(record.get("prompt"), "prompt")
        answer = turns.answer_turns(record["response"], "response")
    else:
        raise UnreadableError(
            "has neither `messages` nor `response`: the sample was never generated"
        )
    reward = record.get("reward")
    outcome = reward.get("acc") if isinstance(reward, dict) else None
    return [
        turns.make_rollout(
            prompt, answer, tools=tools_of(record), reward=reward, outcome=outcome
        )
    ]


def _is_miles(record: Mapping[str, Any]) -> bool:
    table = {"trajectory_json", "group_metadata"} & record.keys()
    return {"group_index", "sample_index"} <= record.keys() and not table


_TASKS = ("problem_statement", "question", "prompt", "instruction", "problem", "task")
_INPUT = "responses_create_params.input"
_RULES = "responses_create_params.instructions"


def _gym_key(record: Mapping[str, Any]) -> str | None:
    index, agent = (
        first_at(record, "_ng_task_index", "task_idx"),
        lookup(record, "agent_ref.name"),
    )
    if index is not None:
        return key_text(index if agent is None else [agent, index])
    task = lookup(record, _INPUT) or _gym_task(record)
    if not task:  # the part of the output before the agent's first turn
        output = _conversations(lookup(record, "response.output"))[-1]
        task = output[: first_agent_turn(output)]
    return hashed_key("input", [lookup(record, _RULES), task]) if task else None


def _gym_task(record: Mapping[str, Any]) -> str | None:
    """Return the task of a record with an empty input; never `instance_dict`, which holds the solution."""
    texts = (
        lookup(record, f"responses_create_params.metadata.{name}") for name in _TASKS
    )
    return next(
        (text for text in texts if isinstance(text, str) and text.strip()), None
    )


def _conversations(output: Any) -> list[Messages]:
    """Return the items of an output, or the lists of a list of lists: each is the conversation up to a step.

    A list that another one continues is left out, and of equal ones all but the last. A list that no other
    one continues stays: a context that was compacted, another attempt.
    """
    if not (
        isinstance(output, list)
        and output
        and all(isinstance(item, list) for item in output)
    ):
        return [check_messages(output, "response.output")]
    parts = [check_messages(item, "response.output") for item in output]
    return [
        one
        for i, one in enumerate(parts)
        if not any(
            o[: len(one)] == one and (len(o) > len(one) or j > i)
            for j, o in enumerate(parts)
        )
    ]


def _read_gym(record: dict[str, Any]) -> list[Rollout]:
    output, task, rules = (
        lookup(record, path) for path in ("response.output", _INPUT, _RULES)
    )
    if not output:
        raise UnreadableError(
            "has no items in `response.output`: the agent failed before it answered"
        )
    *earlier, last = _conversations(output)
    system = (
        [{"role": "system", "content": rules}]
        if isinstance(rules, str) and rules
        else []
    )
    task = task if task or first_agent_turn(last) else _gym_task(record)
    prompt, answer = (
        [*system, *turns.prompt_turns(task, "input")],
        turns.with_submission(record, last),
    )
    tools = tools_of({"tools": lookup(record, "responses_create_params.tools")})
    reward = (
        None if record.get("_ng_failure_class") is not None else record.get("reward")
    )
    return [
        turns.make_rollout(
            prompt, answer, histories=tuple(earlier), tools=tools, reward=reward
        )
    ]


def _read_nemo_rl(record: dict[str, Any]) -> list[Rollout]:
    listed = [record.get(name) for name in ("content", "rewards")]
    unwrapped: list[Any] = [
        v[0] if isinstance(v, list) and len(v) == 1 else None for v in listed
    ]
    content, reward = unwrapped
    if is_message_list(content):
        return [Rollout(check_messages(content, "content[0]"), reward=reward)]
    if not is_text_list(content):
        raise UnreadableError("has neither texts nor messages in `content[0]`")
    if len(content) < 2:
        raise UnreadableError("has a prompt and no answer in `content[0]`")
    prompt = [{"role": "user", "content": content[0]}] if content[0] else []
    return [
        Rollout(
            [*prompt, *turns.answer_turns("".join(content[1:]), "content[0]")],
            reward=reward,
        )
    ]


def _has_lists(
    record: Mapping[str, Any], *names: str, any_of: Sequence[str] = ()
) -> bool:
    """Tell if a record has lists in all of these fields, and in at least one of `any_of`."""
    has_one = any(isinstance(record.get(name), list) for name in any_of) or not any_of
    return has_one and all(isinstance(record.get(name), list) for name in names)


def _read_step(
    record: dict[str, Any],
    listed: str,
    answer: str,
    reward: str,
    more: tuple[str, ...] = (),
) -> list[Rollout]:
    """Read columns of prompts, answers and rewards; `more` are ROLL's conversations and ids."""
    size = len(list_field(record, listed, ", though the file is one step per line"))
    columns = (column(record, name, size) for name in ("prompt", answer, reward, *more))
    prompts, answers, rewards, *others = columns
    out = []
    for i in range(size):
        asked = turns.prompt_turns(prompts[i], f"prompt[{i}]")
        if others and others[0][i] is not None:
            asked = turns.json_turns(others[0][i], f"messages[{i}]")
        out.append(answer_rollout(asked, answers[i], answer, i, reward=rewards[i]))
    return out


def _read_roll_agentic(record: dict[str, Any]) -> list[Rollout]:
    texts = list_field(
        record, "messages", " (ROLL dumps it where its environment declares it)"
    )
    data, tools, scores = (
        column(record, n, len(texts)) for n in ("trajectory_data", "tools", "scores")
    )
    out = []
    for i, text in enumerate(texts):
        about, reward = json_value(data[i]), scores[i]
        env = lookup(about, "env_info")
        parts = (
            ("tag", "group_id", "episode_id", "seed") if isinstance(env, dict) else ()
        )
        key = "_".join(str(env.get(part)) for part in parts) or None
        reward = (
            lookup(about, "reward_info.episode_reward") if reward is None else reward
        )
        read = partial(_episode, text, f"messages[{i}]", json_value(tools[i]))
        out.append(turns.read_or_error(read, (i,), reward=reward, key=key))
    return out


def _episode(text: Any, where: str, tools: Any) -> Rollout:
    """Read one conversation, or several that a context was cut into."""
    value = json_value(text)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(part, list) for part in value)
    ):
        parts = [check_messages(part, where) for part in value if part] or [
            check_messages([], where)
        ]
    else:
        parts = [turns.json_turns(text, where)]
    return Rollout(parts[-1], histories=tuple(parts[:-1]), tools=tools)


def _swift_key(record: Mapping[str, Any]) -> str | None:
    try:
        prompt = turns.prompt_turns(record.get("prompt"), "prompt")
    except UnreadableError:
        return None
    return (
        prompt_key(Rollout(prompt, prompt_length=len(prompt)), record.get("gen_step"))
        if prompt
        else None
    )


def _read_atropos(record: dict[str, Any]) -> list[Rollout]:
    conversations = record.get("messages")
    if not isinstance(conversations, list):
        raise UnreadableError(
            "has token ids only: `messages` is null; run the environment with include_messages"
        )
    scores, _ = (
        column(record, name, len(conversations)) for name in ("scores", "tokens")
    )

    def read(value: Any, where: str) -> Rollout:
        messages = check_messages(value, where)
        if len(messages) == 1 and messages[0].get("role") == "user":
            messages = [{**messages[0], "role": TRANSCRIPT}]
        return Rollout(messages)

    return [
        turns.read_or_error(
            partial(read, value, f"messages[{i}]"), (i,), reward=scores[i]
        )
        for i, value in enumerate(conversations)
    ]


_SCORE = RecordLayout(reward=("score",))
_SCORES = ListLayout(reward=("scores",), lists=all_lists())
FORMATS = (
    keyed_format(
        "task_id sample_idx prompt completion", "AReaL rollouts", "areal", read_pair, ("task_id",)
    ),
    keyed_format(
        "input_prompt output_response score", "SkyRL evaluations", "skyrl",
        partial(read_pair, prompt="input_prompt", answer="output_response", reward="score"), layout=_SCORE,
    ),
    Format(
        "miles samples", "miles", "`group_index`, `sample_index`", _is_miles, _read_slime, ("group_index",)
    ),
    Format(
        "slime samples", "slime", "`group_index`, `prompt`, `response`",
        lambda record: has_keys("group_index", "prompt", "response")(record) and not _is_miles(record),
        _read_slime, ("group_index",),
        RecordLayout(ruler=("metadata", "ruler")),  # older slime refuses fields that it does not know
    ),
    keyed_format("uid instance_id messages", "slime buffer items", "slime", _read_slime, ("instance_id",)),
    keyed_format(
        "task_id traj", "tau-bench", "tau-bench",
        partial(_read_messages, name="traj", cause="tau-bench writes this when a run crashed"),
        ("task_id",), RecordLayout(refuses_null="tau-bench"), simulated_user=True,
    ),
    keyed_format(
        "example_id turns", "tinker evaluations", "tinker",
        partial(_read_messages, name="turns", cause="written when an example ended in an error"),
        ("example_id",),
    ),
    Format(
        "TRL completions", "trl", "`prompt`, `completion`, `step`, `advantage`", _is_trl, read_pair
    ),
    Format(
        "verl (V1)", "verl", "`input`, `output`, `score`, `step`, `uid`",
        partial(_is_verl, uid=True), _read_verl, layout=_SCORE,
        key_of=lambda record: (uid := _verl_uid(record)) and uid["group"],
        key_description="uid without its two numbers",
    ),
    Format(
        "verl", "verl", "`input`, `output`, `score`, `step`",
        partial(_is_verl, uid=False), _read_verl, layout=_SCORE,
    ),
    Format(
        "NeMo-Gym rollouts", "nemo-gym", "`responses_create_params`, `response`",
        lambda record: isinstance(record.get("responses_create_params"), dict) and "response" in record,
        _read_gym, ("_ng_task_index",), key_of=_gym_key,
        key_description=f"agent_ref.name + _ng_task_index, or hash of {_INPUT}",
    ),
    Format(
        "NeMo-RL rollouts", "nemo-rl", "`content`, `rewards`, `idx`",
        lambda record: has_keys("rewards", "idx")(record) and isinstance(record.get("content"), list),
        _read_nemo_rl,
        layout=RecordLayout(reward=("rewards",), form=b"[%s]", lost=b"[null]"),
    ),
    keyed_format(
        "tokens scores messages", "Atropos groups", "atropos", _read_atropos,
        layout=ListLayout(
            reward=("scores",), refuses_null="Atropos",
            lists=all_lists("group_overrides", "generation_params"),
        ),
        shape="group",
    ),
    Format(
        "ms-swift steps", "ms-swift", "`prompt`, `completion`, `step` (lists)",
        lambda record: _has_lists(record, "prompt", "completion", any_of=("step", "gen_step", "advantages")),
        partial(_read_step, listed="prompt", answer="completion", reward="reward"),
        layout=ListLayout(lists=all_lists()), shape="columns",
    ),
    Format(
        "ms-swift rollouts", "ms-swift", "`gen_step`, `prompt`, `completion`",
        lambda record: {"gen_step", "prompt", "completion"} <= record.keys()
        and not _has_lists(record, "gen_step"),
        read_pair, key_of=_swift_key, key_description="hash of prompt + gen_step",
    ),
    Format(
        "ROLL steps", "roll", "`responses`, `scores`, `global_step`",
        lambda record: _has_lists(record, "responses", "scores", any_of=("global_step", "sampling_params")),
        partial(_read_step, listed="responses", answer="responses", reward="scores", more=("messages", "id")),
        ("id",), _SCORES, shape="columns",
    ),
    Format(
        "ROLL agentic steps", "roll", "`trajectory_data`",
        lambda record: _has_lists(record, "trajectory_data") and "responses" not in record,
        _read_roll_agentic, layout=_SCORES, shape="columns",
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
    ("group_idx total_reward",
     "holds lengths and rewards and no text (tinker's rollout summaries); give the file with the turns"),
)  # fmt: skip
