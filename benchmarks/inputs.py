"""Generated files to score, always the same: realistic groups of 20 kB, and many small ones."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tests.picture_judge import address, png

Order = Literal["adjacent", "scattered"]
Layout = Literal["line"] | Order
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

    def rich(number: int) -> Iterator[dict[str, Any]]:
        start = [
            {"role": "system", "content": _POLICY + _text(dice, 50)},
            {
                "role": "user",
                "content": f"I am user_{number}. " + _text(dice, 30),
            },
        ]
        for trial in range(rollouts):
            yield {"messages": start + _turns(dice), "reward": float(trial % 2)}

    return _write(path, map(_group, range(groups), map(rich, range(groups))))


def write_small(path: Path, groups: int, layout: Layout) -> Path:
    """Write groups of 2 rollouts with 2 short messages each."""
    return _write(path, _small(groups, layout))


def write_trios(path: Path, groups: int) -> Path:
    """Write groups of 3 rollouts, each with its true score: in half of the groups they differ little."""
    dice = random.Random(groups)

    def trio(number: int) -> Iterator[dict[str, Any]]:
        task, spread = _task(number, dice), dice.choice((0.03, 0.25))
        truths = [
            min(0.98, max(0.02, dice.gauss(0.5, spread))) for _ in range(3)
        ]
        for truth in truths:
            yield _rollout_of(task, f"{_text(dice, 8)} truth={truth:.3f}")

    return _write(path, map(_group, range(groups), map(trio, range(groups))))


def write_criteria(path: Path, groups: int) -> Path:
    """Write groups of 3 rollouts, each with a picture, with criteria of their own and a reference answer at `gold`.

    A rollout holds how far each criterion holds of it, as the tests' server reads it.
    """
    dice = random.Random(groups)

    def group(number: int) -> dict[str, Any]:
        task = _task(number, dice)
        names = [f"mark{number}x{at}" for at in range(1 + number % 5)]
        rollouts = [
            _rollout_of(
                task, " ".join(f"{name}={dice.random():.2f}" for name in names)
            )
            for _ in range(3)
        ]
        rubric = [
            {"criterion": f"It holds {name}", "weight": weight, "name": name}
            for name, weight in zip(names, (3, -1, 1, 2, -2), strict=False)
        ]
        for at, rollout in enumerate(rollouts):
            picture = {"url": address(png(at / 2, note=number))}
            part = {"type": "image_url", "image_url": picture}
            rollout["messages"].append({"role": "tool", "content": [part]})
        beside = {"rubric": rubric, "gold": f"The answer is {number}."}
        return _group(number, rollouts) | beside

    return _write(path, map(group, range(groups)))


def write_uneven(path: Path, groups: int, seed: int) -> Path:
    """Write groups of 2 to 6 rollouts of 5 to 400 words each, which differ much in a judge's cost."""
    dice = random.Random(seed)

    def uneven(number: int) -> Iterator[dict[str, Any]]:
        words, task = int(dice.triangular(5, 400, 30)), _task(number, dice)
        for _ in range(dice.randint(2, 6)):
            yield _rollout_of(task, _text(dice, words))

    return _write(path, map(_group, range(groups), map(uneven, range(groups))))


def _write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def _group(number: int, rollouts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"group_id": f"task-{number}", "trajectories": list(rollouts)}


def _task(number: int, dice: random.Random) -> dict[str, Any]:
    return {"role": "user", "content": f"Task {number}: {_text(dice, 8)}"}


def _rollout_of(task: dict[str, Any], answer: str) -> dict[str, Any]:
    return {"messages": [task, {"role": "assistant", "content": answer}]}


def _small(groups: int, layout: Layout) -> Iterator[dict[str, Any]]:
    if layout == "line":
        yield from (
            _group(number, [_rollout(number, trial) for trial in (0, 1)])
            for number in range(groups)
        )
        return
    for number, trial in in_order(groups, 2, layout):
        yield {"group_id": f"task-{number}", **_rollout(number, trial)}


def in_order(
    groups: int, trials: int, order: Order
) -> Iterator[tuple[int, int]]:
    """Return the numbers of groups and trials: a group's trials adjacent, or trial after trial."""
    if order == "adjacent":
        return itertools.product(range(groups), range(trials))
    return (
        (number, trial)
        for trial, number in itertools.product(range(trials), range(groups))
    )


def _rollout(number: int, trial: int) -> dict[str, Any]:
    question = {"role": "user", "content": f"What is {number} plus {number}?"}
    answer = {"role": "assistant", "content": f"It is {2 * number + trial}."}
    return {"messages": [question, answer], "reward": 1.0 - trial}


def _turns(dice: random.Random) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for name in (
        "get_user_details",
        "search_direct_flight",
        "update_reservation",
    ):
        call = tool_call(dice, name)
        turns += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": json.dumps({"found": flights(dice, 3)}),
            },
        ]
    turns.append({"role": "assistant", "content": _text(dice, 30)})
    turns.append(
        {"role": "user", "content": f'Yes.\nPlease do "{_text(dice, 8)}".'}
    )
    turns.append({"role": "assistant", "content": _text(dice, 35)})
    return turns


def tool_call(dice: random.Random, name: str) -> dict[str, Any]:
    """Make a call of a tool, with its own id."""
    arguments = json.dumps(
        {"user_id": f"u_{dice.randrange(9999)}", "date": "2024-05-20"}
    )
    function = {"name": name, "arguments": arguments}
    return {
        "id": f"call_{dice.getrandbits(64):x}",
        "type": "function",
        "function": function,
    }


def flights(dice: random.Random, number: int) -> list[dict[str, Any]]:
    """Make so many flights, as a search finds them."""
    return [
        {
            "flight_number": f"HAT{dice.randrange(300):03}",
            "price": dice.randrange(400),
            "seats": 9,
        }
        for _ in range(number)
    ]


def _text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(_WORDS, k=words))
