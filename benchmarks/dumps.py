"""Generated rollout dumps of any size, always the same: texts as verl writes them, and chats with tools.

A group's rollouts are adjacent, or the whole file has them trial by trial.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Literal

import orjson

from benchmarks.inputs import Order, flights, in_order, tool_call

Shape = Literal["texts", "chats"]
Record = dict[str, Any]

_PROSE = (
    "so we need the number of ways to write it as a sum of two squares modulo p therefore wait let me "
    "check that again the left side is $\\frac{n(n+1)}{2}$ and “both” factors are coprime hence "
    "\\(x^2 \\equiv 1\\) holds for every unit which gives 48 cases and then by symmetry"
)
_WORDS = _PROSE.split()
_POLICY = (
    "Confirm before any change to a booking.\nOne tool call at a time.\nDeny what the policy does not "
    "allow.\nA booking can be cancelled within 24 hours, with insurance, or if the airline cancelled it.\n"
)


def write(path: Path, shape: Shape, size: int, order: Order) -> Path:
    """Write about `size` bytes."""
    make, trials, each = (
        (_text, 16, 14_000) if shape == "texts" else (_chat, 8, 17_500)
    )
    tasks = max(1, size // (each * trials))
    with path.open("wb") as file:
        for task, trial in in_order(tasks, trials, order):
            file.write(orjson.dumps(make(task, trial)) + b"\n")
    return path


def _text(task: int, trial: int) -> Record:
    """Make a rollout of verl: prompt and answer as text, about 14 kB."""
    task_dice, dice = random.Random(task), random.Random(f"{task} {trial}")
    question = _lines(task_dice, 16)
    return {
        "input": f"system\nReason step by step.\nuser\nProblem {task}. {question}\nassistant\n",
        "output": _lines(dice, dice.randint(100, 280))
        + f"\n#### {dice.randrange(100)}",
        "gts": str(task_dice.randrange(100)),
        "score": float(dice.randrange(2)),
        "step": 17,
        "acc": True,
    }


def _chat(task: int, trial: int) -> Record:
    """Make a rollout of an agent: some 26 messages of 650 bytes, with tool calls."""
    task_dice, dice = random.Random(task), random.Random(f"{task} {trial}")
    messages: list[Record] = [
        {
            "role": "system",
            "content": "You are an airline agent.\n" + _POLICY * 24,
        },
        {
            "role": "user",
            "content": f"I am user_{task}. {_lines(task_dice, 2)}",
        },
    ]
    for turn in range(dice.randint(6, 10)):
        call = tool_call(dice, "search_direct_flight")
        flights_found = json.dumps(flights(dice, dice.randint(4, 20)))
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": flights_found,
            },
            {"role": "assistant", "content": f"{turn}. {_lines(dice, 3)}"},
        ]
    return {
        "task_id": task,
        "trial": trial,
        "messages": messages,
        "reward": float(dice.randrange(2)),
    }


def _lines(dice: random.Random, number: int) -> str:
    """Draw lines of some 70 characters from a fixed stock of a few hundred."""
    return "\n".join(dice.choices(_STOCK, k=number))


def _stock() -> list[str]:
    dice = random.Random(1)
    return [
        " ".join(dice.choices(_WORDS, k=dice.randint(6, 18)))
        for _ in range(400)
    ]


_STOCK = _stock()
