"""ROLL: one columnar line a step, `rollout_dump_data.step_{N}.jsonl`.

Written by `write_to_json_process` (`roll/pipeline/rlvr/utils.py`): lists of equal length. RLVR: `messages`
is JSON text of the prompt's messages, `responses` the answer as text, `id` the prompt's, `scores` the
reward. Agentic (`dump_rollout_trajectories`): `messages` is JSON text of the whole conversation, or of
several where the context was cut; `trajectory_data` is JSON text that holds reward and group; there is
no `scores`, so one is added. Lists of unequal length belong together in no known way: unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.formats.parallel import columns
from ruler_cli.formats.turns import answered, column, prompt_turns, text_turns
from ruler_cli.records import Rollout

_GROUP = ("tag", "group_id", "episode_id", "seed")


def _read(record: dict[str, Any]) -> list[Rollout]:
    responses = record.get("responses")
    if not isinstance(responses, list):
        raise UnreadableError("has no list `responses`, though the file is one step per line")
    size = len(responses)
    asked, prompts, scores = (column(record, name, size) for name in ("messages", "prompt", "scores"))
    column(record, "id", size)
    out = []
    for i, response in enumerate(responses):
        turns = prompt_turns(prompts[i], f"prompt[{i}]")
        if asked[i] is not None:
            turns = text_turns(asked[i], f"messages[{i}]")
        out.append(answered(turns, response, "responses", i, reward=scores[i]))
    return out


def _read_agentic(record: dict[str, Any]) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list):
        raise UnreadableError("has no list `messages` (ROLL dumps it where its environment declares it)")
    told = column(record, "trajectory_data", len(messages))
    tools, scores = (column(record, name, len(messages)) for name in ("tools", "scores"))
    out = []
    for i, text in enumerate(messages):
        about = _parsed(told[i])
        where = lookup(about, "env_info")
        key = "_".join(str(where.get(part)) for part in _GROUP) if isinstance(where, dict) else None
        reward = lookup(about, "reward_info.episode_reward") if scores[i] is None else scores[i]
        try:
            parts = _conversations(text, f"messages[{i}]")
        except UnreadableError as error:
            out.append(Rollout([], (i,), reward=reward, key=key, fault=str(error)))
            continue
        out.append(Rollout(parts[-1], (i,), tuple(parts[:-1]), _parsed(tools[i]), reward, key=key))
    return out


def _conversations(text: Any, where: str) -> list[list[Any]]:
    """One conversation, or each that a context was cut into."""
    found = _parsed(text)
    if isinstance(found, list) and found and all(isinstance(part, list) for part in found):
        return [check_messages(part, where) for part in found if part] or [check_messages([], where)]
    return [text_turns(text, where)]


def _parsed(text: Any) -> Any:
    try:
        return parse_text(text) if isinstance(text, str) else text
    except UnreadableError:
        return None


def _is_rlvr(record: Mapping[str, Any]) -> bool:
    lists = all(isinstance(record.get(name), list) for name in ("responses", "scores"))
    return lists and any(isinstance(record.get(name), list) for name in ("global_step", "sampling_params"))


_LAYOUT = Layout(reward=("scores",), listed=True, lists=columns())

RLVR = Format(
    name="ROLL steps",
    family="roll",
    shape="columns",
    tells="`responses`, `scores`, `global_step`",
    matches=_is_rlvr,
    rollouts=_read,
    keys=("id",),
    layout=_LAYOUT,
)
AGENTIC = Format(
    name="ROLL agentic steps",
    family="roll",
    shape="columns",
    tells="`trajectory_data`",
    matches=lambda record: isinstance(record.get("trajectory_data"), list) and "responses" not in record,
    rollouts=_read_agentic,
    layout=_LAYOUT,
)
FORMATS = (RLVR, AGENTIC)
