"""tinker-cookbook evaluations: `{benchmark}/trajectories.jsonl`.

Written as `tinker_cookbook/eval/benchmarks/_types.py` has it. Traps: messages are `turns`;
`metrics` and `logs` are objects of the benchmark's own and are left alone; the trainer's
`train_rollout_summaries.jsonl` in the same place holds lengths and no text, and is refused.
"""

from __future__ import annotations

from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.interface import Format, Refusal, has
from ruler_cli.records import Rollout


def _read(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("turns"):
        raise UnreadableError("has no messages in `turns` (written when an example ended in an error)")
    return [Rollout(check_messages(record["turns"], "turns"), reward=record.get("reward"))]


TRAJECTORY = Format(
    name="tinker evaluations",
    family="tinker",
    shape="trajectory",
    tells="`example_id`, `turns`",
    matches=has("example_id", "turns"),
    rollouts=_read,
    keys=("example_id",),
)
FORMATS = (TRAJECTORY,)
REFUSALS = (
    Refusal(
        has("group_idx", "total_reward"),
        "holds lengths and rewards and no text (tinker's rollout summaries); give the file with the turns",
    ),
)
