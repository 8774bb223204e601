"""RewardBench 2 (allenai): a prompt, the answers that are right and those that are not, a line.

`chosen` and `rejected` are lists of texts; rollouts are the one list and then the other, and where an
answer stands is its outcome, true or false. Traps: `Ties` has many right answers; the data set has no
room for a score, which stands in `ruler.rollouts` alone.
"""

from __future__ import annotations

from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import Format, Layout, has
from ruler_cli.formats.parallel import refused
from ruler_cli.formats.turns import answered, prompt_turns
from ruler_cli.records import Rollout


def _read(record: dict[str, Any]) -> list[Rollout]:
    prompt = prompt_turns(record.get("prompt"), "prompt")
    out: list[Rollout] = []
    for name in ("chosen", "rejected"):
        answers = record.get(name)
        if not isinstance(answers, list):
            raise UnreadableError(f"has no list `{name}`")
        out += [
            answered(prompt, answer, name, len(out) + i, outcome=name == "chosen")
            for i, answer in enumerate(answers)
        ]
    return out


GROUP = Format(
    name="RewardBench 2",
    family="rewardbench2",
    shape="group",
    tells="`num_correct`, `chosen`, `rejected`",
    matches=has("num_correct", "chosen", "rejected"),
    rollouts=_read,
    keys=("id",),
    layout=Layout(
        reward=None,
        listed=True,
        lists=refused("says how many answers it has, and would be wrong without one of them"),
    ),
)
FORMATS = (GROUP,)
