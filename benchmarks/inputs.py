"""Files to score, made up and always the same: realistic groups of 20 kB, and many small ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Layout = Literal["line", "adjacent", "scattered"]
"""A group per line; a trajectory per line, the group's lines adjacent; or trial after trial."""

_PROSE = (
    "the your flight booking reservation was found and has been changed to a later date please "
    "confirm that I may charge 120 dollars for baggage on card ending 7447 “economy” passenger "
    "departure from Zürich is delayed so policy allows one free change before noon"
)
_WORDS = _PROSE.split()
_POLICY = (
    "You are an airline agent.\n\n- Confirm before any change to a booking.\n- One tool call at a "
    "time.\n- Deny what the policy does not allow.\n\n"
)


def write_rich(path: Path, groups: int, rollouts: int = 8) -> Path:
    """Write groups of rollouts with 11 messages and tool calls each: 8 take about 22 kB, 3 about 9 kB."""
    dice = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(groups):
            start = [
                {"role": "system", "content": _POLICY + _text(dice, 50)},
                {"role": "user", "content": f"I am user_{number}. " + _text(dice, 30)},
            ]
            trajectories = [
                {"messages": start + _turns(dice), "reward": float(trial % 2)} for trial in range(rollouts)
            ]
            file.write(json.dumps({"group_id": f"task-{number}", "trajectories": trajectories}) + "\n")
    return path


def write_small(path: Path, groups: int, layout: Layout) -> Path:
    """Write groups of 2 rollouts with 2 short messages each."""
    with path.open("w", encoding="utf-8") as file:
        for record in _small(groups, layout):
            file.write(json.dumps(record) + "\n")
    return path


def write_trios(path: Path, groups: int) -> Path:
    """Write groups of 3 rollouts, each with its true score: in half of the groups they differ little."""
    dice = random.Random(groups)
    with path.open("w", encoding="utf-8") as file:
        for number in range(groups):
            question = {"role": "user", "content": f"Task {number}: {_text(dice, 8)}"}
            spread = dice.choice((0.03, 0.25))
            truths = [min(0.98, max(0.02, dice.gauss(0.5, spread))) for _ in range(3)]
            rollouts = [
                {"messages": [question, {"role": "assistant", "content": f"{_text(dice, 8)} truth={t:.3f}"}]}
                for t in truths
            ]
            file.write(json.dumps({"group_id": f"task-{number}", "trajectories": rollouts}) + "\n")
    return path


def write_uneven(path: Path, groups: int, seed: int) -> Path:
    """Write groups of 2 to 6 rollouts of 5 to 400 words each, which cost a judge very different sums."""
    dice = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(groups):
            words = int(dice.triangular(5, 400, 30))
            question = {"role": "user", "content": f"Task {number}: {_text(dice, 8)}"}
            rollouts = [
                {"messages": [question, {"role": "assistant", "content": _text(dice, words)}]}
                for _ in range(dice.randint(2, 6))
            ]
            file.write(json.dumps({"group_id": f"task-{number}", "trajectories": rollouts}) + "\n")
    return path


def _small(groups: int, layout: Layout) -> Iterator[dict[str, Any]]:
    if layout == "line":
        for number in range(groups):
            pair = [_rollout(number, trial) for trial in (0, 1)]
            yield {"group_id": f"task-{number}", "trajectories": pair}
    elif layout == "adjacent":
        for number in range(groups):
            for trial in (0, 1):
                yield {"group_id": f"task-{number}", **_rollout(number, trial)}
    else:
        for trial in (0, 1):
            for number in range(groups):
                yield {"group_id": f"task-{number}", **_rollout(number, trial)}


def _rollout(number: int, trial: int) -> dict[str, Any]:
    question = {"role": "user", "content": f"What is {number} plus {number}?"}
    answer = {"role": "assistant", "content": f"It is {2 * number + trial}."}
    return {"messages": [question, answer], "reward": 1.0 - trial}


def _turns(dice: random.Random) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for name in ("get_user_details", "search_direct_flight", "update_reservation"):
        arguments = json.dumps({"user_id": f"u_{dice.randrange(9999)}", "date": "2024-05-20"})
        call = {
            "id": f"call_{dice.getrandbits(64):x}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        flights = [
            {"flight_number": f"HAT{dice.randrange(300):03}", "price": dice.randrange(400), "seats": 9}
            for _ in range(3)
        ]
        turns += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"found": flights})},
        ]
    turns.append({"role": "assistant", "content": _text(dice, 30)})
    turns.append({"role": "user", "content": f'Yes.\nPlease do "{_text(dice, 8)}".'})
    turns.append({"role": "assistant", "content": _text(dice, 35)})
    return turns


def _text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(_WORDS, k=words))
