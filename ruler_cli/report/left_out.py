"""What a report does not hold, why, and the command that shows it: in words, never in silence."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from ruler_cli.report.telling import RULE


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Of `all` groups, `groups` are not in the table; of those in it, `texts` have no text there.

    `huge` of these are too large themselves; `cut` texts hold their beginnings and ends only. `room` is
    what the texts may take, in bytes, and `source` the input as a command names it.
    """

    source: str
    all: int
    groups: int
    texts: int
    huge: int
    cut: int
    room: int

    @property
    def rule(self) -> str:
        """What is left out, by which rule, and what shows it, in whole sentences."""
        rows = self.all - self.groups
        one = f"`ruler report {shlex.quote(self.source)} --group KEY` shows any group whole."
        said = []
        if self.groups:
            more = f"`ruler report {shlex.quote(self.source)} -o report.html --max-groups {self.all}`"
            said.append(
                f"The table holds {rows:,} of {self.all:,} groups; the figures count all of them. "
                f"{RULE} {more} has every group."
            )
        if self.texts > self.huge:
            said.append(
                f"The texts of {rows - self.texts:,} of {rows:,} groups are here, the most telling first, "
                f"until the next does not fit into {self.room >> 20} MiB."
            )
        if self.huge:
            said.append(f"{self.huge:,} groups of very many rollouts have no text here.")
        if self.cut:
            said.append(
                f"{self.cut:,} very long {'text is' if self.cut == 1 else 'texts are'} cut, with a mark at "
                "each place."
            )
        if self.texts or self.cut or self.groups:
            said.append(one)
        return " ".join(said) or "Nothing is left out: every group and its whole text are here."

    def as_json(self) -> dict[str, Any]:
        """As the page has it."""
        return {"groups": self.groups, "texts": self.texts, "cut": self.cut, "rule": self.rule}
