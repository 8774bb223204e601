"""verifiers: `results.jsonl` of `vf-eval` (0.1 and the legacy part of 0.2 and 0.3), one rollout a line.

Written by `verifiers/legacy/utils/save_utils.py` `state_to_output`, before 0.1.9 by `Dataset.to_json`;
prime-rl's `train_rollouts.jsonl` and `eval_rollouts*.jsonl` (2026-04 to 07) have the same shape. Traps:
- `tool_calls` are JSON strings, flat or nested; `prompt` and `completion` may be text.
- `completion` is null where the rollout ended in an error.
- Metrics are repeated flat beside `reward` and may be called anything, `score` too.
- `example_id` begins anew in each environment and comes again in each step: `task` (text), `env_name`,
  `step` and an `EnvGroup`'s route (`info.env_id`) belong to the key where they are there.
- With `--independent-scoring`, and in prime-rl, the rollouts of a group lie apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.formats.chat import tools_of
from ruler_cli.formats.interface import Format, lookup
from ruler_cli.formats.named_fields import pair
from ruler_cli.formats.reader import as_text
from ruler_cli.records import Rollout

_MORE = ("env_name", "task", "step")


def verdict(metrics: Any) -> Any:
    """What says whether the task was solved: the metric `correct`, or the first whose name has that word."""
    if not isinstance(metrics, Mapping):
        return None
    name = next((name for name in metrics if "correct" in name), None)
    return metrics.get("correct", metrics[name]) if name is not None else None


def _key(record: Mapping[str, Any]) -> str | None:
    more = [record[name] for name in _MORE if isinstance(record.get(name), str | int)]
    route = lookup(record, "info.env_id")
    more += [route] if isinstance(route, str | list) and route else []
    if not more or record.get("example_id") is None:
        return None
    return as_text([record["example_id"], *more])


def _read(record: dict[str, Any]) -> list[Rollout]:
    tools = tools_of({"tools": record.get("tool_defs")})
    outcome = verdict(record.get("metrics"))
    return [pair(record, "prompt", "completion", tools=tools, outcome=outcome)]


RESULTS = Format(
    name="verifiers results",
    family="verifiers",
    shape="trajectory",
    tells="`example_id`, `prompt`, `completion`",
    matches=lambda record: {"example_id", "prompt", "completion"} <= record.keys(),
    rollouts=_read,
    keys=("example_id",),
    key_of=_key,
    key_told="example_id with " + ", ".join((*_MORE, "info.env_id")),
)
FORMATS = (RESULTS,)
