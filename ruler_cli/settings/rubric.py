"""Rubrics: read from a file, and refused if they name another scale than 0 to 1.

A judge that follows such a rubric answers 85, which is no score, or means by 1 the worst of 1 to 5.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError, system_errors
from ruler_cli.settings.criteria import criteria_in, read_criteria
from ruler_cli.settings.suggestions import other_file
from ruler_cli.types import Rubric, Standards, words_of

_FILE_NAME = re.compile(r"\S*/\S*|[^\s.]\S*\.[A-Za-z]\w{0,7}")
"""One word that is a path, or that ends as a file's name does: it is no rubric."""

_HIGH = r"(?:[2-9]|[1-9]\d{1,3})"
_SCALE = re.compile(
    r"\b(?:scor(?:e|es|ed|ing)|rat(?:e|es|ing|ings)|grad(?:e|es|ing)|scale)\b[^.;!?\n]{0,60}?"
    rf"((?<![\d.])[01](?:\.0+)?%? ?(?:to|through|and|-|–|—|\.\.) ?{_HIGH}(?![\d.]{{0,3}}\d)|out of {_HIGH})"
    r"(?= ?%? ?(?:$|[^\w\s%]|(?:where|with|for|based|depending|points?|and|or|according|on)\b))"
    rf"|({_HIGH}[- ]point (?:Likert )?scale|score (?:of |is )?{_HIGH}(?! ?(?:\d|points?|pts))\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""A scale that ends above 1, behind a word of scoring: `1 to 10`, `0-100`, `out of 5`, `a score of 10`."""
_UNIT = re.compile(
    r"(?<![\d.])0(?:\.0+)? ?(?:to|or|and|-|–|—) ?1(?:\.0+)?(?![\d.]{0,3}\d|%)|, 0?\.\d|\bdivide|normali[sz]",
    re.IGNORECASE,
)
"""The scale from 0 to 1, some of its scores, or a way from another scale to it."""


def read_rubric(value: Any) -> Any:
    """Return a rubric that is given as text, as criteria or as `@FILE`.

    UsageError if it is empty, names a file only, or holds criteria that cannot be read.
    """
    if isinstance(value, list | dict):
        return _criteria(value, "a list")
    if not isinstance(value, str):
        return value
    wrong = partial(UsageError, place=f"--rubric {value}")
    text = value
    if value.startswith("@"):
        path = Path(value[1:])
        with system_errors("read", UsageError, place=f"--rubric {value}"):
            if not path.exists():
                remedy = other_file(str(path), "check the path", before="@")
                raise wrong("no such file", remedy)
            text = path.read_text(encoding="utf-8").strip()
        suffix = path.suffix.lower()
        if suffix in (".toml", ".json"):
            return _criteria(_parsed(text, suffix[1:], value), value)
        if suffix in _OTHERS:
            problem = f"is {suffix[1:].upper()}, which is not read"
            raise wrong(problem, "write TOML or JSON, or a text as .txt or .md")
    elif _FILE_NAME.fullmatch(value.strip()):
        remedy = other_file(value, f"write @{value}", before="@")
        raise wrong("looks like a file name", remedy)
    if not text.strip():
        remedy = "give a text or @FILE, or leave it out for the built-in one"
        raise wrong("is empty", remedy)
    try:
        return criteria_in(text) or text
    except UnreadableError as error:
        raise wrong(error.reason) from None


_OTHERS = words_of(".yaml .yml .csv .tsv .jsonl .ndjson .xml .xlsx")
"""Ends of files that hold a list, and no text for a judge."""


def _parsed(text: str, kind: str, given: str) -> Any:
    """Parse the text of a file of criteria."""
    import tomllib  # few rubrics are TOML

    parse = tomllib.loads if kind == "toml" else json.loads
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        problem = f"is no {kind.upper()}: {error}"
        raise UsageError(problem, place=f"--rubric {given}") from None


def _criteria(value: Any, given: str) -> Rubric:
    """Read the criteria of an option."""
    try:
        return read_criteria(value)
    except UnreadableError as error:
        raise UsageError(error.reason, place=f"--rubric {given}") from None


def other_scale(rubric: str) -> str:
    """Return the words of a rubric that name another scale than 0 to 1; empty if there are none."""
    scale = _SCALE.search(rubric)
    if scale is None or _UNIT.search(rubric):
        return ""
    return scale[1] or scale[2]


@lru_cache(64)  # a rubric is that of many groups
def scale_mistake(rubric: Standards | None) -> str:
    """Return why no judge is asked with a rubric, and what to do; empty if it can be used."""
    if isinstance(rubric, Rubric):
        texts = [one.text for one in rubric.criteria]
    else:
        texts = [rubric or ""]
    scale = next(filter(None, map(other_scale, texts)), "")
    advice = (
        "and scores are from 0 to 1; grade in words, or from 0 to 1; if these numbers are no scores, "
        'say so: "Scores are from 0 to 1."'
    )
    return scale and f"names another scale ({scale}), {advice}"
