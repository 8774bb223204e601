"""One attack, and the defence that must hold against it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attack:
    """A text that stands somewhere in a rollout.

    The structure holds against each: no line, delimiter or label is forged, no score is taken from it, and
    nothing of it reaches a terminal raw. If only a judge can resist it, `flagged` is set, and its
    rollout must be `suspect`. An attack that is not flagged asks for nothing, or no pattern can tell it from
    innocent text: then `missed` has the reason. A `whole` one is an attack as the whole of an answer only.
    """

    text: str = field(repr=False)
    flagged: bool = True
    missed: str = ""
    whole: bool = False


def flagged(*texts: str) -> tuple[Attack, ...]:
    """Attacks that must be flagged."""
    return tuple(map(Attack, texts))


def held(*texts: str) -> tuple[Attack, ...]:
    """Attacks that the structure alone stops."""
    return tuple(Attack(text, flagged=False) for text in texts)


def missed(why: str, *texts: str) -> tuple[Attack, ...]:
    """Attacks that only the judge can detect, and why."""
    return tuple(Attack(text, flagged=False, missed=why) for text in texts)
