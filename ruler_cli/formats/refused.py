"""Shapes that people have and that hold nothing to judge: each with the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruler_cli.formats.interface import Refusal, has


def _asks_only(record: Mapping[str, Any]) -> bool:
    """Whether the last message is the user's: a prompt of a training set."""
    messages = record.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "user"


def _figures_only(record: Mapping[str, Any]) -> bool:
    return bool(record) and all(isinstance(v, int | float) or v is None for v in record.values())


REFUSALS = (
    Refusal(
        has("trajectory_groups"),
        "holds several groups in one line among others; write one a line: jq -c '.trajectory_groups[]'",
    ),
    Refusal(
        has("prompt_tokens", "response_tokens"),
        "holds token ids only (open-instruct); decode them first and write `prompt` and `completion`",
    ),
    Refusal(has("tokens", "scores"), "holds token ids only; let Atropos write `messages` along with them"),
    Refusal(
        has("responses_create_params"),
        "holds NeMo-Gym's inputs and no `response`; give the file with the rollouts",
    ),
    Refusal(
        has("prompt", "completions", "labels"),
        "is stepwise supervision: its completions are steps of one answer, not rollouts",
    ),
    Refusal(_asks_only, "ends with the user's turn: these are prompts without an answer; give the rollouts"),
    Refusal(_figures_only, "holds figures only: these are metrics, not rollouts; give the file beside it"),
)
