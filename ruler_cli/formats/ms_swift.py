"""ms-swift GRPO and GKD: `completions.jsonl`, one columnar line a logging step.

Written by `GRPOTrainer.log` (`swift/rlhf_trainers/grpo_trainer.py`) and `_build_log_table` (megatron): lists
of equal length, a prompt's rollouts by equal text. Traps: each reward function has a list of its own name
and there is no total, so a list `reward` is added; `step` is a list of texts, megatron's is `gen_step`.
The Ray trainers (`_maybe_log_completions`) write one rollout a line; the same prompt comes again in another
`gen_step`, which therefore belongs to the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.asked import prompt_key
from ruler_cli.formats.interface import Format, Layout, has
from ruler_cli.formats.named_fields import pair
from ruler_cli.formats.parallel import columns
from ruler_cli.formats.turns import answered, column, prompt_turns
from ruler_cli.records import Rollout

_ROW = has("gen_step", "prompt", "completion")


def _read(record: dict[str, Any]) -> list[Rollout]:
    prompts = record.get("prompt")
    if not isinstance(prompts, list):
        raise UnreadableError("has no list `prompt`, though the file is one step per line")
    completions, rewards = (column(record, name, len(prompts)) for name in ("completion", "reward"))
    return [
        answered(prompt_turns(prompt, f"prompt[{i}]"), completions[i], "completion", i, reward=rewards[i])
        for i, prompt in enumerate(prompts)
    ]


def _row_key(record: Mapping[str, Any]) -> str | None:
    try:
        asked = prompt_turns(record.get("prompt"), "prompt")
    except UnreadableError:
        return None
    return prompt_key(Rollout(asked, asked=len(asked)), record.get("gen_step")) if asked else None


STEP = Format(
    name="ms-swift steps",
    family="ms-swift",
    shape="columns",
    tells="`prompt`, `completion`, `step` (lists)",
    matches=lambda record: (
        all(isinstance(record.get(name), list) for name in ("prompt", "completion"))
        and any(isinstance(record.get(name), list) for name in ("step", "gen_step", "advantages"))
    ),
    rollouts=_read,
    layout=Layout(reward=("reward",), listed=True, lists=columns()),
)
ROW = Format(
    name="ms-swift rollouts",
    family="ms-swift",
    shape="trajectory",
    tells="`gen_step`, `prompt`, `completion`",
    matches=lambda record: _ROW(record) and not isinstance(record["gen_step"], list),
    rollouts=lambda record: [pair(record, "prompt", "completion")],
    key_of=_row_key,
    key_told="hash of prompt + gen_step",
)
FORMATS = (STEP, ROW)
