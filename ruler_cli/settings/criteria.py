"""Lists of criteria in the shapes of public rubric data → a rubric, or the reason why one cannot be read.

A criterion is a statement, or an object with one, a weight and perhaps a name. A rubric of another kind is an error:
levels with a description each, criteria in other criteria, rules for programs. Read in part, it would score by
something else than its author wrote. docs/rubrics.md names the shapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.settings.suggestions import nearest, question
from ruler_cli.types import Criterion, Rubric, Standards, printable, words_of

_LISTS = words_of("criteria criterion rubrics rubric items sections")
"""Members of an object that hold its criteria."""
_STATEMENTS = words_of(
    "criterion criteria requirement requirements statement text rubric question outcome point item rubric_item"
)
_DETAILS = words_of("description explanation details definition")
_NAMES = words_of("name title id number criterion_id")
"""Members of a criterion with its statement, with more words of it (or the statement, alone), and with its name."""
_WEIGHTS = words_of("weight points score max_points")
_WORDS = words_of("category importance type weight")
"""Members with its weight, as a number and as a word."""
_WORD_WEIGHTS = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": -0.9}
"""Weights of words, as Rubrics as Rewards has them (arXiv 2507.17746)."""
_PITFALL = "pitfall"
_SIGNS = {
    "is_positive": {"false": -1, "true": 1},
    "positive_form": {"false": -1, "true": 1},
    "polarity": {"avoid": -1, "negative": -1, "include": 1, "positive": 1},
    "operator": {"correctness": 1},
    "pass_criteria": {"no": -1, "yes": 1},
}
"""Members that say if the statement is to hold, or is a mistake; the sign of the weight says no more then."""
_READ = {*_STATEMENTS, *_DETAILS, *_NAMES, *_WEIGHTS, *_WORDS, *_SIGNS, "veto"}
_BESIDE = {"tags", "source", "rationale", "axis", "reasoning"}
"""Members that are known not to matter."""
_JSON = re.compile(r'\s*(?:\[\s*(?:[\[{"]|$)|\{\s*")')
"""The beginning of a text that is JSON, and no text for a judge."""
_SCALES = re.compile(
    "likert|numeric|ordinal|nominal|scale|negative|penalty|detriment", re.IGNORECASE
)
"""Types of criteria that are no statements, or whose sign is not read."""
_OTHER = re.compile(
    "level|scal|scoring|scores|anchor|option|metric|rule|check|sub|task|child|deduct|threshold|credit|marker|polarity"
    "|must|min|max|operator|detrimental|coefficient|part|gate|pass|fail|class|required|negat",
    re.IGNORECASE,
)
"""Names of members that change how a criterion is scored, in a way that is not read."""


def criteria_in(text: str) -> Rubric | None:
    """Return the criteria that a text holds as JSON; None if it is a text for the judge."""
    text = text.removeprefix("\ufeff").lstrip()
    if text[:1] not in ("[", "{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if not _JSON.match(text):
            return None
        raise UnreadableError(
            "begins as JSON and cannot be read as such; give TOML as a file"
        ) from None
    return read_criteria(value)


def rubric_of(value: Any) -> Standards:
    """Return a rubric as a record states it; UnreadableError with the reason."""
    if isinstance(value, str):
        return criteria_in(value) or value
    return value if isinstance(value, Rubric) else read_criteria(value)


def read_criteria(value: Any) -> Rubric:
    """Read a list of criteria, or an object that holds one; UnreadableError with the reason."""
    listed = _listed(value)
    if not listed:
        raise UnreadableError("has no criteria")
    criteria = [_criterion(one, f"criterion {n}") for n, one in enumerate(listed, 1)]
    try:
        return Rubric(criteria)
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of the only list of criteria in an object."""
    if isinstance(value, list):
        # sections without a weight of their own say no more than a list
        inner = [_section(one) if isinstance(one, dict) else None for one in value]
        known = [own for own in inner if own is not None]
        if value and len(known) == len(value):
            return [*chain.from_iterable(known)]
        return value
    found = []
    if isinstance(value, dict):
        lists = [own for own in value.values() if isinstance(own, list)]
        found = [own for name in _LISTS if isinstance(own := value.get(name), list)]
        nested = [own for own in lists if any(isinstance(one, dict) for one in own)]
        found = found if nested in ([], found) else []
    if len(found) != 1:
        raise UnreadableError(
            "is neither a text nor a list of criteria (in a file: [[criteria]])"
        )
    for key, own in value.items():
        if own is not found[0] and own not in (None, "", []) and _OTHER.search(key):
            raise UnreadableError(f"has `{printable(key)}`, which is not understood")
    return _listed(found[0])


def _section(value: dict[str, Any]) -> list[Any] | None:
    """Return the criteria of a section; None if it is a criterion, or has a weight."""
    listed = value.get("criteria")
    plain = value.keys() <= {"criteria", *_NAMES}
    return listed if isinstance(listed, list) and plain else None


def _criterion(value: Any, place: str) -> Criterion:
    """Read one criterion; `place` names it in a sentence."""
    if isinstance(value, Criterion):
        return value
    if isinstance(value, str):
        value = {"criterion": value}
    if not isinstance(value, dict):
        raise UnreadableError(f"{place}: is neither a text nor an object")
    stated = {str(key).lower(): own for key, own in value.items() if own is not None}
    if len(stated) < len([own for own in value.values() if own is not None]):
        raise UnreadableError(f"{place}: has a member twice")
    _read_annotations(stated)
    levels = stated.get("levels")
    # numbers and objects are scales of another kind
    if isinstance(levels, list) and all(isinstance(level, str) for level in levels):
        del stated["levels"]
    else:
        levels = []
    text = _only(stated, _STATEMENTS, place)
    details = _only(stated, _DETAILS, place)
    name = _first(stated, _NAMES)
    for key, own in stated.items():
        if not _is_understood(key, own, alone=not text):
            near = nearest(key, ("veto", *_WEIGHTS, *_STATEMENTS))
            advice = question(near if near != key else None)
            advice = advice or "; state each criterion as a sentence with a weight"
            raise UnreadableError(
                f"{place}: `{printable(key)}` is not understood{advice}"
            )
    if text and details and details != text:
        text = f"{text}: {details}"
    # an id or a short name is no statement
    text = text or details or _first(stated, ["title"])
    name = "" if name == text else name
    veto = stated.get("veto", False)
    if not isinstance(veto, bool):
        raise UnreadableError(f"{place}: `veto` is true or false")
    weight = _weight(stated, place)
    mistake = any(
        _SIGNS[key].get(str(own).lower()) == -1
        for key, own in stated.items()
        if key in _SIGNS
    )
    words = (text.lower(), *(str(stated.get(word)).lower() for word in _WORDS))
    if _SIGNS.keys().isdisjoint(stated) and any(
        word.startswith(_PITFALL) for word in words
    ):
        # public data state some pitfalls as the mistake, and some as what avoids it
        weight = -abs(weight)
        mistake = True
        text = f"Falls into this pitfall, however it is worded: {text}"
    if veto and mistake and not weight:
        raise UnreadableError(f"{place}: a veto on a mistake needs a weight below 0")
    return Criterion(text, weight, name, veto, tuple(levels))


def _is_understood(key: str, value: Any, *, alone: bool) -> bool:
    """Tell if a member of a criterion is read, or known not to matter.

    If the criterion is `alone`, without a statement of that name, it may be anything that has a title.
    """
    if key in _BESIDE or value in ("", [], {}):
        return True
    if isinstance(value, list | dict):
        return False
    if key in _READ:
        return key not in _WORDS or _SCALES.search(str(value)) is None
    if value is False:
        return not alone
    # a number may be a misspelt weight
    return not (alone or isinstance(value, int | float) or _is_odd(key))


@lru_cache(256)
def _is_odd(key: str) -> bool:
    """Tell if the name of a member says that it changes how a criterion is scored, or is a misspelt one."""
    misspelt = nearest(key, ("veto", *_WEIGHTS))
    return misspelt is not None or _OTHER.search(key) is not None


def _read_annotations(stated: dict[str, Any]) -> None:
    """Read PRBench's annotations of a criterion: of its weights that of its class counts."""
    annotations = stated.get("annotations")
    if isinstance(annotations, dict) and isinstance(
        kind := annotations.get("weight_class"), str
    ):
        del stated["annotations"]
        stated["weight"] = annotations.get(f"{kind.replace(' ', '_')}_weight")
        stated["criterion"] = stated.pop("title", "")


def _only(stated: dict[str, Any], names: Iterable[str], place: str) -> str:
    """Return the only text among members; empty if there is none, UnreadableError if there are several."""
    texts = {_first(stated, [name]) for name in names} - {""}
    if len(texts) > 1:
        raise UnreadableError(f"{place}: has several statements")
    return next(iter(texts), "")


def _first(stated: dict[str, Any], names: Iterable[str]) -> str:
    """Return the first text among members; empty if there is none."""
    texts = (stated.get(name) for name in names)
    return next((one.strip() for one in texts if isinstance(one, str) and one), "")


def _weight(stated: dict[str, Any], place: str) -> float:
    """Return the weight of a criterion, below 0 if its statement is a mistake; UnreadableError if it has two."""
    numbers = {_number(stated[name]) for name in _WEIGHTS if name in stated}
    words = [str(stated.get(name)).lower() for name in _WORDS]
    by_word = [_WORD_WEIGHTS[word] for word in words if word in _WORD_WEIGHTS]
    if numbers == {None} and by_word:
        numbers = {by_word[0]}
    if not numbers:
        numbers = {by_word[0] if by_word else 1.0}
    (weight, *more) = numbers
    if weight is None or more:
        given = [
            f"`{name}` {printable(str(stated[name]))}"
            for name in _WEIGHTS
            if name in stated
        ]
        raise UnreadableError(
            f"{place}: its weight is no number, or several: {', '.join(given)}"
        )
    given = [name for name in _SIGNS if name in stated]
    signs = {_SIGNS[name].get(str(stated[name]).lower(), 0) for name in given}
    if 0 in signs or len(signs) > 1:
        raise UnreadableError(f"{place}: `{given[0]}` is not understood")
    return abs(weight) * signs.pop() if signs else weight


def _number(value: Any) -> float | None:
    """Return a number, also one in a text; None for anything else."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
