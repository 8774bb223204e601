"""First values of a file that no format fits → a row that would read it, or the reason why there is nothing to judge.

Values are collected at places: `results[].output` is one place, whatever the number of items. A place holds answers
if its name says so, if turns of an agent stand there, or if it differs where the task is the same. A place whose
name says gold, or names a grader, is never one. The words of names are in `proposal.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, Literal, get_args

from ruler_cli.errors import UsageError
from ruler_cli.files.values import (
    Names,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    words,
)
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.messages.conversations import json_messages, named_turns
from ruler_cli.messages.names import ROLES
from ruler_cli.scoring.rewards import passed
from ruler_cli.settings.models import RecordPaths

Steps = tuple[str, ...]
"""Keys, with `[]` for each item of a list, and `{}` for each member of an object whose keys are ids."""
Kind = Literal["texts", "gold", "tasks", "tokens", "settings", "metrics"]
Where = tuple[int, ...]
"""The number of a value in the file, then of the item at each `[]` and `{}`."""

_TOOLS = words("tools functions available_tools tool_definitions")
_EACH = ("[]", "{}")
_VALUES, _EACH_PLACE = 40_000, 300
"""Values that are looked at, in all and of one place; the second is the number of places, too."""
_CUT, _LARGE = 4000, 200_000
"""Characters of a text that are compared, and of one that may be JSON of messages."""
_LONG = 100
"""Characters of a text that is rather an answer than a name."""
_ENOUGH = 2.75
"""Evidence that makes a place one of answers."""
_WORD = re.compile(r"[A-Z][a-z]+|[a-z]{2,}|[A-Z]{2,}(?![a-z])|\A\w\Z")


def _words(key: str) -> list[str]:
    """Return the words of a name, in the singular."""
    return [word.lower().removesuffix("s") for word in _WORD.findall(key)]


_TEXT = FilePath(__file__).with_suffix(".toml").read_text("utf-8")
_WORDS = {
    said: [word.removesuffix("s") for word in text.split()]
    for said, text in tomllib.loads(_TEXT).items()
}
"""Words of names, by what they say."""


@dataclass(frozen=True, slots=True)
class NothingToJudge:
    """A file that holds no answers of an agent: the kind of what it holds, and the paths of that."""

    kind: Kind
    paths: Names


def propose(values: Sequence[Any]) -> RecordPaths | NothingToJudge:
    """Propose a row for the first values of a file: its lines, its items, or the one document that it is."""
    survey = _Survey(_places(values))
    best = max(survey.places, key=survey.evidence, default=None)
    if best is None or survey.evidence(best) < _ENOUGH:
        return survey.nothing()
    return survey.proposal(best, len(values))


def other_answers(values: Sequence[Any], row: RecordPaths) -> list[str]:
    """Return the paths of up to two other texts of a file that could be the answers, the best first."""
    survey = _Survey(_places(values))
    ranked = sorted(survey.places, key=survey.evidence, reverse=True)
    taken = {f"{row.records}.{path}".lstrip(".") for path in row.messages}
    likely = [_path(one.steps) for one in ranked if survey.evidence(one) >= _ENOUGH]
    return [path for path in likely if path not in taken | {*row.messages}][:2]


def refuse_tasks(name: str, values: Sequence[Any], path: str) -> None:
    """Raise UsageError if a list at a path of the user's holds rollouts of several tasks: it is no group."""
    lists = [items(lookup(value, path)) for value in values]
    row = propose([one for inside in lists for one in inside])
    if isinstance(row, NothingToJudge) or row.records or not row.prompt:
        return
    tasks = [{str(lookup(one, row.prompt[-1])) for one in inside} for inside in lists]
    if max(map(len, tasks)) < 2:
        return
    remedy = f"use --records {path}[], --messages {row.messages[0]} and --prompt {row.prompt[-1]}"
    problem = "is a list whose items are of several tasks, and no group"
    raise UsageError(problem, remedy, place=f"{name}: --messages {path}")


def _said(names: Collection[str]) -> set[str]:
    """Return what some words say."""
    return {said for said, known in _WORDS.items() if not {*names}.isdisjoint(known)}


@dataclass(eq=False)
class _Place:
    """All values of one kind at one path."""

    steps: Steps
    kind: str
    texts: dict[Where, str] = field(default_factory=dict)
    openings: dict[Where, str] = field(default_factory=dict)
    """The texts before the first turn of the agent; empty if a value is no conversation."""

    @cached_property
    def name(self) -> list[str]:
        """The words of its key; of a key that says nothing, those of the key above."""
        for key in self.steps[::-1]:
            said = [word for word in _words(key) if "generic" not in _said([word])]
            if said:
                return said
        return []

    @cached_property
    def said(self) -> set[str]:
        """The meanings of its name, and those that only its last word can have."""
        return _said(self.name) - {"other", "id"} | _said(self.name[-1:])

    @cached_property
    def around(self) -> set[str]:
        """The meanings of its path."""
        return _said({word for key in self.steps for word in _words(key)})

    @cached_property
    def level(self) -> Steps:
        """The path of the innermost item that it belongs to."""
        return _level(self.steps)

    @cached_property
    def length(self) -> float:
        return sum(map(len, self.texts.values())) / len(self.texts)

    @cached_property
    def prose(self) -> bool:
        """Tell if most texts have several words, or are of a script without spaces."""
        told = [" " in text or not text.isascii() for text in self.texts.values()]
        return self.kind == "text" and sum(told) * 2 > len(told)

    @cached_property
    def asks(self) -> bool:
        """Tell if it may hold the task, or a part of it."""
        if self.kind != "text":
            return self.kind == "asked"
        other = self.says("output gold own system other") or "grader" in self.around
        return self.says("asks part") and self.prose and not other

    @cached_property
    def answers(self) -> bool:
        """Tell if an agent may have written what stands here; never if it says gold, or names a grader."""
        if self.kind not in ("text", "turns") or self.around & {"gold", "grader"}:
            return False
        made = "output" in self.said and "author" in self.around
        return "other" not in self.said and (made or "test" not in self.around)

    @cached_property
    def holds(self) -> Kind:
        """The kind of value that stands here, if it is no answer."""
        if self.kind in ("ids", "number"):
            return "tokens" if self.kind == "ids" else "metrics"
        if self.asks:
            return "tasks"
        if self.kind == "text" and self.says("gold own"):
            return "gold"
        return "texts" if self.prose and self.answers else "settings"

    def says(self, some: str) -> bool:
        """Tell if its name says one of these."""
        return not self.said.isdisjoint(words(some))

    @property
    def like(self) -> tuple[Any, ...]:
        """The common part of answers of one record under several names."""
        output = {*self.name} & {*_WORDS["output"]}
        named = output or "author" in self.said or self.name
        return self.kind, self.level, len(self.steps), named

    def rank(self, said: str) -> int:
        """Return the place of the best word of its name among those that say so."""
        known = _WORDS[said]
        return min(map(known.index, {*known} & {*self.name}), default=99)

    def pairs(self, texts: Mapping[Where, str]) -> list[tuple[str, str]]:
        """Return its texts, each with the one that stands beside it."""
        return [
            (self.texts[where], text)
            for where, text in texts.items()
            if where in self.texts
        ]


def _level(steps: Steps) -> Steps:
    while steps and steps[-1] not in _EACH:
        steps = steps[:-1]
    return steps


def _places(values: Sequence[Any]) -> list[_Place]:
    """Return the places of some values, nearest first; a bounded number of values is looked at."""
    found: dict[tuple[Steps, str], _Place] = {}
    queue = deque[tuple[Steps, Where, Any]]()
    queue.extend(((), (i,), value) for i, value in enumerate(values[:_EACH_PLACE]))
    seen = Counter[Steps]()
    left = _VALUES - len(queue)
    while queue:
        steps, where, value = queue.popleft()
        if is_text(value):
            value = (len(value) < _LARGE and json_messages(value)) or value[:_CUT]
        if kind := _kind(value):
            place = found.setdefault((steps, kind), _Place(steps, kind))
            place.texts[where] = str(value)
            place.openings[where] = _opening(value) if kind == "turns" else ""
            continue
        for step, item, inner in islice(_inside(value), _EACH_PLACE):
            path = (*steps, step)
            if seen[path] < _EACH_PLACE and left:
                seen[path] += 1
                left -= 1
                queue.append((path, where + item, inner))
    return [*found.values()][:_EACH_PLACE]


def _inside(value: Any) -> Iterator[tuple[str, Where, Any]]:
    """Return the step to each value inside another, and its number if it is one of many."""
    if is_list(value):
        for i, item in enumerate(value):
            yield "[]", (i,), item
    elif is_object(value) and _by_id(value):
        for i, (key, inner) in enumerate(value.items()):
            yield "{}", (i,), {"key": key, "value": inner}
    elif is_object(value):
        for key, inner in value.items():
            yield key, (), inner


def _kind(value: Any) -> str:
    """Return the kind of a value that is a leaf; empty for one with others inside, and for nothing."""
    if is_text(value):
        return "text" if value.strip() else ""
    if isinstance(value, int | float):
        return "number"
    if is_object(value) and is_text(value.get("role")) and "content" in value:
        value = [value]
    if not is_list(value) or not value:
        return ""
    turns = _turns(value[:20])
    if not all(map(is_object, turns)):
        return "ids" if len(value) > 8 and {*map(type, value[:20])} == {int} else ""
    roles = {ROLES.get(str(turn.get("role")).lower()) for turn in turns}
    if "assistant" in roles and ("user" in roles or None not in roles):
        return "turns"
    return "" if None in roles else "asked"


def _turns(value: list[Any]) -> list[Any]:
    return named_turns(value) or value


def _opening(value: Any) -> str:
    """Return the turns before the agent's first as a text; empty if there are none."""
    turns = _turns(items(value))
    return str(turns[: first_agent_turn(turns)] or "")


def _by_id(value: dict[str, Any]) -> bool:
    """Tell if the keys of an object are ids: its members are alike, and many, or most keys hold numbers."""
    inner = [_shape(one) for one in islice(value.values(), 20)]
    numbers = sum(any(map(str.isdigit, key)) for key in islice(value, 20))
    if len(inner) < 2 or any(2 * len(inner[0] & one) < len(inner[0]) for one in inner):
        return False
    if inner[0] <= {str, int, float, bool}:
        return numbers == len(inner) > 5
    return numbers * 2 > len(inner) or len(inner) > 5


def _shape(value: Any) -> set[Any]:
    """Return the keys of an object, or of the first in lists; of any other value, the type."""
    while is_list(value) and value:
        value = value[0]
    return {*value} if is_object(value) else {type(value)}


@dataclass
class _Survey:
    """The places of a file, and the values at them."""

    places: list[_Place]

    def asked(self, answer: _Place) -> list[_Place]:
        """Return the places of the task of an answer, in order; none for turns that begin with it."""
        if any(answer.openings.values()):
            return []
        near = [
            one
            for one in self.places
            if one.asks
            and one is not answer
            and answer.level[: len(one.level)] == one.level
        ]
        near.sort(key=lambda one: (-len(one.level), one.rank("asks")))
        best = near[:1]
        parts = [
            one
            for one in near
            for other in best
            if "part" in one.said
            and one.steps[:-1] == other.steps[:-1]
            and not (_within(one, other) or _within(other, one))
        ]
        return [*parts[:2], *best]

    def evidence(self, answer: _Place) -> float:
        """Return how much says that an agent wrote what stands at a place."""
        if not answer.answers:
            return 0
        size = min(answer.length / _LONG, 1)
        if answer.kind == "turns":
            return 6 + size
        author, said = "author" in answer.around, "output" in answer.said
        if answer.says("asks part") and not said and not author:
            return 0
        asked = self.asked(answer)
        beside = [one for one in self.places if one.level == answer.level]
        made = any("maker" in one.said for one in beside)
        differs = answer.prose and any(
            _differs(answer, one) for one in beside if one in asked or _is_id(one)
        )
        told = self._told(answer) or (differs and made)
        if "own" in answer.said and not told and not author:
            return 0
        found = 2.0 * author
        if said or told or (made and not answer.name):
            found = 3.0
        found += size + 2 * differs
        if told:
            return found
        if not asked or not said:
            found -= not answer.prose
        return found - (not asked)

    def _told(self, answer: _Place) -> bool:
        """Tell if something beside a place says that an agent wrote it.

        That is a gold text beside an output, a verdict on what else would be the task's own, a list of as many
        numbers, or a short output that is cut from it, such as the final answer.
        """
        near = [one for one in self.places if one.steps[:-1] == answer.steps[:-1]]
        near.remove(answer)
        numbers = {said for one in near if one.kind == "number" for said in one.said}
        texts = {said for one in near if one.kind == "text" for said in one.said}
        if "own" in answer.said:
            judged = "outcome" in numbers and "answer" not in answer.said
            judged |= "gold" in texts and not numbers.isdisjoint(("outcome", "reward"))
            if judged and answer.prose and "output" not in numbers | texts:
                return True
        lists = {where[:-1] for where in answer.texts}
        several = 1 < len(lists) < len(answer.texts)
        for one in self.places:
            alike = several and one.texts.keys() == answer.texts.keys()
            scored = answer.steps == answer.level or one.says("reward outcome")
            if alike and scored and one.kind == "number":
                return True
            if "output" in one.said and "own" not in one.said and not one.prose:
                cuts = [
                    text.strip().lower() in whole.lower()
                    for text, whole in one.pairs(answer.texts)
                ]
                longer = answer.length > 4 * one.length > 8
                if longer and sum(cuts) * 2 > len(answer.texts):
                    return True
        return False

    def proposal(self, answer: _Place, size: int) -> RecordPaths:
        """Return the row with these answers, for so many records."""
        asked = self.asked(answer)
        level = max((one.level for one in asked), key=len, default=answer.level)
        if not asked and (level == answer.steps or _alike(answer.openings)):
            level = _level(level[:-1])
        columns = [
            one for one in self.places if one.answers and one.like == answer.like
        ]
        answers = columns or [answer]
        inside = [one for one in self.places if one.steps[: len(level)] == level]
        header = not level and all(min(one.texts)[0] == 1 for one in (answer, *asked))

        def paths(places: list[_Place]) -> Names:
            return tuple(_path(one.steps[len(level) :]) for one in places)

        def score(said: str) -> str:
            known = [one for one in inside if said in one.said and _scores(one, answer)]
            return "".join(paths(_best(known, said))) if len(answers) == 1 else ""

        tools = [
            one.steps[len(level) : i + 1]
            for one in inside
            for i, step in enumerate(one.steps)
            if step in _TOOLS
        ]
        keys = []
        if len(answers) == 1 and answer.level == level:
            keys = self._keys(asked[-1].texts if asked else answer.openings, level)
        return RecordPaths(
            records="[1:]" if header else _path(level, whole=True),
            messages=paths(answers),
            prompt=paths(asked),
            tools="".join(map(_path, tools[:1])),
            reward=score("reward") or "reward",
            outcome=score("outcome"),
            group_by=paths(keys),
        )

    def _keys(self, tasks: Mapping[Where, str], level: Steps) -> list[_Place]:
        """Return the place of an id that repeats, with the same task each time; any id if no record has its task."""
        known = {*tasks.values()}
        found = []
        for one in self.places:
            pairs = {*one.pairs(tasks)}
            keys = {key for key, _ in pairs}
            tells = known == {""} or len(known) == len(keys) < len(one.texts)
            if one.level == level and _is_id(one) and tells and len(pairs) == len(keys):
                found.append(one)
        return _best(found, "id")

    def nothing(self) -> NothingToJudge:
        """Return the kind of what the file holds, and the paths of that."""
        held = {one.holds for one in self.places}
        kind: Kind = min(held, key=get_args(Kind).index, default="settings")
        found = [one for one in self.places if one.holds == kind != "settings"]
        return NothingToJudge(kind, tuple(_path(one.steps) for one in found[:3]))


def _best(places: list[_Place], said: str) -> list[_Place]:
    """Return the place whose name says something best, if there is any."""
    return sorted(places, key=lambda one: (one.rank(said), len(one.steps)))[:1]


def _is_id(place: _Place) -> bool:
    """Tell if a name says that a place holds ids of tasks."""
    return "id" in place.said and not (place.asks or "no_id" in place.said)


def _alike(tasks: Mapping[Where, str]) -> bool:
    """Tell if the conversations in each list begin alike."""
    begins = {(where[:-1], opening) for where, opening in tasks.items() if opening}
    return len({where[:-1] for where in tasks}) == len(begins) < len(tasks)


def _scores(one: _Place, answer: _Place) -> bool:
    """Tell if a place holds numbers or verdicts on the answers."""
    if one.level != answer.level and one.texts.keys() != answer.texts.keys():
        return False
    if "gold" in one.said and "outcome" not in one.said:
        return False
    return one.kind == "number" or None not in map(passed, one.texts.values())


def _differs(answer: _Place, task: _Place) -> bool:
    """Tell if the texts of a place differ where a task, or its id, is the same."""
    pairs = task.pairs(answer.texts)
    repeated = 2 < 2 * len({name for name, _ in pairs}) <= len(pairs)
    return repeated and 4 * len({*pairs}) >= 3 * len(pairs)


def _within(one: _Place, other: _Place) -> bool:
    """Tell if the texts of one place stand in those of another at the same level."""
    return all(text in whole for text, whole in one.pairs(other.texts))


def _path(steps: Steps, *, whole: bool = False) -> str:
    """Write a path as a user does; unless it is `whole`, without the brackets of a list at its end."""
    out = ""
    for step in steps:
        key = f'"{step}"' if "." in step else step
        out += key if step in _EACH or not out else f".{key}"
    return out if whole else re.sub(r"(\[\])+$", "", out)
