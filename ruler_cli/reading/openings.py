"""Openings of rollouts: find rollouts that show no task, and groups whose rollouts have different ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ruler_cli.formats.chat import has_content, task_messages
from ruler_cli.formats.interface import printable
from ruler_cli.reading.parse import dump
from ruler_cli.types import Rollout

Opening = list[tuple[object, object]]
"""Role and content of the messages before the agent's first turn."""
_SYSTEM = ("system", "developer")


@dataclass(slots=True)
class Openings:
    """Counts of what is doubtful, over all rollouts that can be judged.

    `simulated_user`: the user of the dump is a model too and words the task anew for each rollout, so
    that only the system's messages are compared. Without any the agent's rules are not shown.
    """

    simulated_user: bool = False
    taskless: int = 0
    first_taskless: str = ""
    mixed: int = 0
    first_mixed: str = ""
    ruleless: int = 0

    def look(self, rollouts: Iterable[Rollout], where: str, *, compare: bool = True) -> list[Opening]:
        """Count the rollouts of a record that show no task; return the opening of each.

        A part of a rollout after the first is passed over. Without `compare` nothing is returned.
        """
        openings: list[Opening] = []
        members: set[str] = set()
        for rollout in rollouts:
            if rollout.error is not None or rollout.member in members:
                continue
            if rollout.member is not None:
                members.add(rollout.member)
            asked = task_messages(rollout)
            if not any(map(has_content, asked)):
                self.taskless += 1
                self.first_taskless = self.first_taskless or where
            if self.simulated_user and not any(turn.get("role") in _SYSTEM for turn in rollout.messages):
                self.ruleless += 1
            if compare:
                if self.simulated_user:
                    asked = [message for message in asked if message.get("role") in _SYSTEM]
                openings.append([(message.get("role"), message.get("content")) for message in asked])
        return openings

    def compared(self, openings: Sequence[Opening], key: str) -> None:
        """Count a group whose openings are not all the same."""
        if any(opening != openings[0] for opening in openings):
            self.mixed += 1
            self.first_mixed = self.first_mixed or key

    def sentences(self) -> list[str]:
        """A warning for each doubt, with the way out."""
        out = []
        if self.taskless:
            out.append(
                f"{_showing(self.taskless)} the judge no task: nothing stands before the agent's first turn "
                f"(first: {self.first_taskless}); name the place of the task's text with --prompt PATH"
            )
        if self.ruleless:
            out.append(
                f"{_showing(self.ruleless)} the judge no rules that the agent had to follow: no message is "
                "the system's (tau2-bench keeps them beside); put them there: "
                "jq -c '.info.environment_info.policy as $p | .simulations[] | "
                '.messages = [{role: "system", content: $p}] + .messages\''
            )
        if self.mixed:
            groups = "1 group" if self.mixed == 1 else f"{self.mixed:,} groups"
            out.append(
                f"the rollouts of {groups} begin differently (first: {printable(self.first_mixed)}), as if "
                "they were of different tasks; if they are, name another key with --group-by PATH"
            )
        return out


def _showing(count: int) -> str:
    return "1 rollout shows" if count == 1 else f"{count:,} rollouts show"


def number(opening: Opening) -> int:
    """A number of 64 bits that equal openings share within one process."""
    return hash(tuple([part if isinstance(part, str) else dump(part) for pair in opening for part in pair]))
