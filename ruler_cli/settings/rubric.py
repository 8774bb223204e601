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
from ruler_cli.types import Rubric, Standards

_FILE_NAME = re.compile(r"\S*/\S*|[^\s.]\S*\.[A-Za-z]\w{0,7}")
"""One word that is a path, or that ends as a file's name does: it is no rubric."""

_HIGH = r"(?:[2-9]|[1-9]\d+)(?:\.0+)?(?![\d.]*\d)"
_TO = r" ?%? ?(?:to|through|and|-|–|—|\.\.) ?"
_COUNTED = (
    "both", "criteria", "items", "levels", "messages", "pages", "parts", "questions", "rules", "sections",
    "steps", "tasks", "turns", "the number from", "the number between",
)  # fmt: skip
"""Words after which numbers are those of things."""
_APART = "".join(f"(?<!{words} )" for words in _COUNTED)
_SPAN = rf"(?:{_APART}(?<![\d.])[01](?:\.0+)?{_TO}{_HIGH}|(?<!\d )out of {_HIGH})"
_FOLLOWS = "where|with|for|based|depending|scale|points?|range|and|or|by|according|to|in|on|only"
_SCALE = rf"(?:{_SPAN}(?= ?%? ?(?:$|[^\w\s%]|(?:{_FOLLOWS})\b))|\b{_HIGH}[- ]point (?:Likert )?scale)"
"""A scale that ends above 1, and no count of things: nothing follows, or one of a few words."""
_NOUN = r"(?:scores?|scoring|ratings?|grades?|marks?|scale)"
_ANSWER = "giv(?:e|ing)|assign(?:ing)?|provid(?:e|ing)|return|output|respond|reply|answer|use|choose|produce|write"
_TOLD = r"(?:(?:please|then|finally|now|also|and|you|must|should|will|are|need|your|task|is|to) )*"
_NAMED = r"(?:(?:the|your|each|an?|final|overall|total|numeric|numerical|quality|integer|is) )*"
_BEST = "maximum|max|highest|top|perfect|best|full"
_SENTENCES = (
    rf"{_TOLD}(?:score|rate|grade)\b.{{0,80}}?{_SCALE}",
    rf"{_TOLD}(?:{_ANSWER})\b.{{0,60}}?\b(?:{_NOUN}|number|integer)\b.{{0,60}}?{_SCALE}",
    rf"{_TOLD}(?:on|using|use|from) (?:an? )?(?:{_NOUN}\b.{{0,30}}?)?{_SCALE}",
    rf"{_NAMED}{_NOUN}\b.{{0,60}}?{_SCALE}",
    rf"(?:a )?(?:score|rating)(?: of)? {_HIGH}(?! ?(?:points?|pts))(?:\W|$)",
    rf"{_NAMED}(?:{_BEST}) (?:possible )?(?:score|rating)(?: is| of|:| =)? {_HIGH}",
    rf".{{0,60}}\b(?:is|are|be) (?:rated|scored|graded)\b.{{0,60}}?{_SCALE}",
)
"""Beginnings of sentences that tell a judge how to score; what agents are to do begins in another way."""
_TELLS = rf"\W*(?:\d+\W+)?(?:[^:,]{{0,80}}[:,] )?(?:{'|'.join(_SENTENCES)})"
_SHOWN = rf"{_SCALE}|(?:score|rating)(?: of| is|:| =)? {_HIGH}"
_UNIT = rf"(?<![\d.])0(?:\.0+)?(?:(?:{_TO}| or )1(?:\.0+)?(?![\d.]*\d|%)|, 0?\.\d)|\bdivide|normali[sz]"
"""The scale from 0 to 1, some of its scores, or a way from another scale to it."""
_BEGINNING = 400
"""Characters of a sentence that are searched: more than any of `_SENTENCES` spans."""
_END = r"[\n;!?]|\. "


def read_rubric(value: Any) -> Any:
    """Return a rubric that is given as text, as criteria or as `@FILE`.

    UsageError if it is empty, names a file only, or holds criteria that cannot be read.
    """
    if isinstance(value, list | dict):
        return _criteria(value, "a list")
    if not isinstance(value, str):
        return value
    wrong = partial(UsageError, option="rubric", value=value)
    text = value
    if value.startswith("@"):
        path = Path(value[1:])
        with system_errors("read", UsageError, option="rubric", value=value):
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


_OTHERS = (".yaml", ".yml", ".csv", ".tsv", ".jsonl", ".ndjson", ".xml", ".xlsx")
"""Ends of files that hold a list, and no text for a judge."""


def _parsed(text: str, kind: str, given: str) -> Any:
    """Parse the text of a file of criteria."""
    import tomllib  # few rubrics are TOML

    parse = tomllib.loads if kind == "toml" else json.loads
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        problem = f"is no {kind.upper()}: {error}"
        raise UsageError(problem, option="rubric", value=given) from None


def _criteria(value: Any, given: str) -> Rubric:
    """Read the criteria of an option."""
    try:
        return read_criteria(value)
    except UnreadableError as error:
        raise UsageError(error.reason, option="rubric", value=given) from None


def other_scale(rubric: str) -> str:
    """Return the words of a rubric that name another scale than 0 to 1; empty if there are none."""
    if re.search(_UNIT, rubric, re.IGNORECASE):
        return ""
    for part in re.split(_END, rubric):
        sentence = " ".join(part.split())
        found = re.match(_TELLS, sentence[:_BEGINNING], re.IGNORECASE)
        if found is not None:
            shown = re.search(_SHOWN, found[0], re.IGNORECASE)
            return found[0] if shown is None else shown[0]
    return ""


@lru_cache(64)  # a rubric is that of many groups
def scale_mistake(rubric: Standards | None) -> str:
    """Return why no judge is asked with a rubric, and what to do; empty if it can be used."""
    if isinstance(rubric, Rubric):
        texts = [one.text for one in rubric.criteria]
    else:
        texts = [rubric or ""]
    scale = next(filter(None, map(other_scale, texts)), "")
    advice = "and scores are from 0 to 1; grade in words, or from 0 to 1"
    return scale and f"names another scale ({scale}), {advice}"
