"""What somebody meant who wrote a condition that is none: the nearest one, as it is typed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_OTHER = {"live": "tied", "tied": "live", "failed": "scored", "scored": "failed"}
"""What to ask for where a state is not wanted."""
_NAMES = {
    "conflict": "disagreement",
    "contested": "disagreement",
    "degenerate": "tied",
    "disputed": "disagreement",
    "flat": "tied",
    "not-live": "tied",
    "reward": "score",
    "successful": "scored",
    "trainable": "live",
    "unscored": "failed",
    "useless": "tied",
    "worthless": "tied",
}
"""Names that people try first, where no spelling is near."""
_SPREAD = ("sd", "std", "spread", "variance", "range")
_NUMBER = r"([0-9]*\.?[0-9]+)"
_COMPARED = re.compile(rf"\s*([\w-]+?)\s*(>=|=>|<=|=<|==|>|<|:)\s*{_NUMBER}\s*")
_BETWEEN = re.compile(rf"\s*([\w-]+?)\s*[=:]+\s*{_NUMBER}\s*(?:\.\.\.?|-|,|:|to)\s*{_NUMBER}\s*")
_OPEN = re.compile(rf"\s*([\w-]+?)\s*[=:]+\s*(?:{_NUMBER}\.\.|\.\.{_NUMBER})\s*")
_SEVERAL = re.compile(r",|&|;|\s(?:and|or)\s", re.IGNORECASE)
_NOT = re.compile(r"(?:!|not[\s_-]+|no[\s_-]+|-)(\w+)|(\w+)\s*(?:=|==|:)\s*(?:no|false|off|0)", re.IGNORECASE)
_YES = re.compile(r"(\w+)\s*(?:==|=|:)\s*(?:yes|true|on|1)", re.IGNORECASE)


def instead(text: str, names: Sequence[str], ranged: Sequence[str]) -> str:
    """The rest of a sentence about a text that is no condition; `ranged` are names that take a range."""
    every = f"the conditions are {', '.join(names)}"
    found = state(text) or written(text, ranged)
    if found is not None:
        return f"is no condition; did you mean --where {found}?"
    if _SEVERAL.search(text):
        return f"give one condition a time, as in --where live --where score=0.7..; {every}"
    name = re.split(r"[=<>:\s]", text.strip(), maxsplit=1)[0]
    if name.casefold() in _SPREAD:
        return (
            "the spread of a group is no condition; --where live is for groups whose scores differ beyond "
            f"noise, --keep M --by variance for the rollouts furthest apart; {every}"
        )
    near = _nearest(name, names)
    return f"is no condition; did you mean `{near}`? ({every})" if near else f"is no condition; {every}"


def way(name: str, told: str) -> str:
    """How to write a range of a figure, for one that was given as a text or a number."""
    number = told.strip() if re.fullmatch(_NUMBER, told.strip()) else "0.7"
    low = f"{name}={number}.. for {number} and more"
    return f"write a range, e.g. {low}, {name}=..{number} for {number} and less, or {name}=0.3..0.7"


def state(text: str) -> str | None:
    """The state that is meant by one that was denied or affirmed."""
    told = text.strip()
    if (found := _NOT.fullmatch(told)) is not None:
        return _OTHER.get((found[1] or found[2]).casefold())
    found = _YES.fullmatch(told)
    return found[1].casefold() if found is not None and found[1].casefold() in _OTHER else None


def written(text: str, names: Sequence[str]) -> str | None:
    """A comparison or a range as other tools write it, as ours."""
    for form in (_BETWEEN, _OPEN, _COMPARED):
        found = form.fullmatch(text)
        name = _nearest(found[1], names) if found is not None else None
        if found is not None and name is not None:
            break
    else:
        return None
    if form is _BETWEEN:
        low, high = sorted((found[2], found[3]), key=float)
        return f"{name}={low}..{high}"
    if form is _OPEN:
        return f"{name}={found[2] or ''}..{found[3] or ''}"
    sign, number = found[2], found[3]
    if sign == "==":
        return f"{name}={number}..{number}"
    return f"{name}=..{number}" if "<" in sign else f"{name}={number}.."


def _nearest(name: str, names: Sequence[str]) -> str | None:
    bare = name.casefold().replace("_", "-")
    if bare in names or _NAMES.get(bare) in names:
        return bare if bare in names else _NAMES[bare]
    close = difflib.get_close_matches(bare, names, 1, 0.5)
    return close[0] if close else None
