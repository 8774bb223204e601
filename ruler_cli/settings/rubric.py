"""Rubrics: a text, or criteria in the shapes of public rubric data; read from a value, a text or a file.

A criterion is a statement, or an object with one, a weight and perhaps a name: HealthBench's `criterion` and `points`,
Rubrics as Rewards' `title`, `description` and `weight`, verifiers' `name` and `text`, and ours. A rubric of another
kind is an error: read in part, it would score by something else than its author wrote. One that names another scale
than 0 to 1 is refused: a judge that follows it answers 85, which is no score, or means by 1 the worst of 1 to 5.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError, system_errors
from ruler_cli.settings.fields import SettingError
from ruler_cli.types import Criterion, Rubric, Standards, printable, words_of

_LISTS = ("criteria", "rubrics", "rubric", "items")
"""Members of an object that hold its criteria."""
_TEXTS = ("name", "title", "id", "description")
"""Members that may stand beside them."""
_PARTS = {
    "text": words_of("criterion description text requirement"),
    "name": words_of("name title id criterion_id"),
    "weight": words_of("weight points"),
    "veto": ("veto",),
    "levels": ("levels",),
    "": words_of("tags source rationale axis reasoning"),
}
"""The parts of a criterion, and the members that each is read from; the last do not matter."""
_JSON = re.compile(r'\s*(?:\[\s*(?:[\[{"]|$)|\{\s*")')
"""The beginning of a text that is JSON, and not a text for a judge."""
_FILE_NAME = re.compile(r"\S*/\S*|[^\s.]\S*\.[A-Za-z]\w{0,7}")
"""One word that is a path, or that ends as a file's name does: it is not a rubric."""
_LISTED = words_of(".json .jsonl .ndjson .yaml .yml .csv .tsv .xml .xlsx")
"""Ends of files that hold a list, and no text for a judge."""
_SCALE = re.compile(
    r"\b(?:scor|rat|grad|scale)\w{0,4}\b[^.;!?\n]{0,60}?"
    r"((?<![\d.])[01]%? ?(?:to|through|and|-|–|—|\.\.) ?(?:[2-9]|[1-9]\d{1,3})(?![\d.]{0,3}\d)|out of \d+)"
    r"(?= ?%? ?(?:$|[^\w\s%]|(?:where|with|for|based|and|or|according)\b))",
    re.IGNORECASE | re.MULTILINE,
)
"""A scale that ends above 1, behind a word of scoring: `1 to 10`, `0-100`, `out of 5`."""
_RIGHT_SCALE = re.compile(r"\b0 ?(?:to|-|–) ?1\b(?!\.?\d|%)")


def read_rubric(value: Any) -> Any:
    """Return a rubric that is given as text, as criteria or as `@FILE`.

    UsageError if it is empty, names a file only, or holds criteria that cannot be read.
    """
    try:
        if isinstance(value, list | dict):
            return read_criteria(value)
        return _rubric_in(value) if isinstance(value, str) else value
    except UnreadableError as error:
        source = value if isinstance(value, str) else "a list"
        raise SettingError("rubric", error.reason, value=source) from None


def _rubric_in(value: str) -> Standards:
    """Return the rubric that a text is, or names as `@FILE`."""
    text = value
    path = Path(value[1:])
    suffix = path.suffix.lower()
    if value.startswith("@"):
        with system_errors("read", UsageError, place=f"--rubric {value}"):
            if not path.exists():
                problem = "no such file"
                raise SettingError("rubric", problem, "check the path", value)
            text = path.read_text(encoding="utf-8").strip()
        if suffix == ".toml":
            import tomllib  # few rubrics are TOML

            try:
                return read_criteria(tomllib.loads(text))
            except (ValueError, RecursionError) as error:
                raise UnreadableError(f"is not TOML: {error}") from None
    elif _FILE_NAME.fullmatch(value.strip()):
        problem = "looks like a file name"
        raise SettingError("rubric", problem, f"write @{value}", value)
    if not text.strip():
        remedy = "write a text or @FILE, or leave it out for the built-in one"
        raise SettingError("rubric", "is empty", remedy)
    criteria = criteria_in(text)
    if criteria is None and value.startswith("@") and suffix in _LISTED:
        problem = "is not a list of criteria"
        raise UnreadableError(f"{problem} in TOML or JSON, nor a text (.md)")
    return criteria or text


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
        problem = (
            "begins like JSON, but is not JSON; write it as TOML in a file"
        )
        raise UnreadableError(problem) from None
    return read_criteria(value)


def rubric_of(value: Any) -> Standards:
    """Return a rubric as a record states it; UnreadableError with the reason."""
    if isinstance(value, str):
        return criteria_in(value) or value
    return value if isinstance(value, Rubric) else read_criteria(value)


def read_criteria(value: Any) -> Rubric:
    """Read a list of criteria, or an object that holds one; UnreadableError with the reason."""
    criteria = []
    for number, item in enumerate(_listed(value), 1):
        try:
            criteria.append(_criterion(item))
        except UnreadableError as error:
            raise UnreadableError(
                f"criterion {number}: {error.reason}"
            ) from None
    try:
        return Rubric(criteria)
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of the only list in an object, beside which texts may stand."""
    if isinstance(value, list):
        return value
    lists = []
    if isinstance(value, dict):
        for name, content in value.items():
            if name in _LISTS and isinstance(content, list):
                lists.append(content)
            elif name not in _TEXTS and content:
                problem = f"has `{printable(name)}`, which is not read"
                raise UnreadableError(problem)
    if len(lists) != 1:
        problem = (
            "is neither a text nor a list of criteria (in a file: [[criteria]])"
        )
        raise UnreadableError(problem)
    return lists[0]


def _criterion(value: Any) -> Criterion:
    """Read one criterion."""
    if isinstance(value, Criterion):
        return value
    if isinstance(value, str):
        return Criterion(value)
    if not isinstance(value, dict):
        raise UnreadableError("is neither a text nor an object")
    members = {}
    for name, content in value.items():
        if content or type(content) in (int, float):
            members[name] = content
    parts: dict[str, Any] = {"text": None, "weight": 1}
    for part, names in _PARTS.items():
        stated = [members.pop(name) for name in names if name in members]
        if len(stated) > 1 and part not in ("name", ""):
            raise UnreadableError(f"has its {part} twice")
        if stated:
            parts[part] = stated[0]
    for name in members:
        problem = f"`{printable(name)}` is not understood"
        remedy = "state each criterion as a sentence with a weight"
        raise UnreadableError(f"{problem}; {remedy}")
    text, weight = parts["text"], parts["weight"]
    veto = parts.get("veto", False)
    if type(weight) not in (int, float):
        shown = printable(str(weight))
        raise UnreadableError(f"its weight {shown} is not a number")
    if str(text).lower().startswith("pitfall"):
        # public data state some pitfalls as the mistake, and some as what avoids it
        weight = -abs(weight)
        text = f"Falls into this pitfall, however it is worded: {text}"
        if veto and not weight:
            raise UnreadableError("a veto on a mistake needs a weight below 0")
    levels = parts.get("levels", [])
    steps = tuple(levels) if isinstance(levels, list) else (levels,)
    return Criterion(text, weight, str(parts.get("name", "")), veto, steps)


def other_scale(rubric: str) -> str:
    """Return the words of a rubric that name another scale than 0 to 1; empty if there are none, or that one too."""
    scale = _SCALE.search(rubric)
    return "" if scale is None or _RIGHT_SCALE.search(rubric) else scale[1]


@lru_cache(64)  # a rubric is that of many groups
def scale_mistake(rubric: Standards | None) -> str:
    """Return the reason why a rubric cannot be used, with the remedy; empty if it can."""
    if isinstance(rubric, Rubric):
        texts = [criterion.text for criterion in rubric.criteria]
    else:
        texts = [rubric or ""]
    scale = next(filter(None, map(other_scale, texts)), "")
    advice = (
        "but scores are from 0 to 1; grade in words, or from 0 to 1; if these numbers are not scores, "
        'say so: "Scores are from 0 to 1."'
    )
    return scale and f"names another scale ({scale}), {advice}"
