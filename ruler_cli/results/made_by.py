"""Facts on what made the scores of a run: the models that answered, rubrics, parameters, versions of ruler.

OUTPUT has digests of the texts; a lookup, into a ledger, returns those that are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ruler_cli.ledger.database import digest_of, params_text
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.counts import OTHER, WordCounts, shorten

_Json = Mapping[str, Any]
TextLookup = Callable[[Iterable[str]], Mapping[str, str]]
"""Returns the texts that are known, by digest."""
BUILT_IN = digest_of(DEFAULT_RUBRIC)
"""The digest of the built-in rubric."""
_LINES = 4
"""Texts in a cell of a table."""


def made_by(
    words: Mapping[str, WordCounts], own: Mapping[str, str], lookup: TextLookup
) -> dict[str, Any]:
    """Return what made the scores as JSON, the most frequent first, with the texts that are known.

    `words` are counts of groups by `served`, `versions`, `judges`, and by digests of `rubrics` and `params`;
    `own` are rubrics of records. Without a ledger the built-in rubric is known too, and the parameters of a
    judge without any.
    """
    known = {**own, BUILT_IN: DEFAULT_RUBRIC}
    for name in words["judges"].by_count():
        text = params_text([{"judge": name, "model": name, "params": {}}])
        known[digest_of(text)] = text
    figures: dict[str, Any] = {
        "served": words["served"].by_count(),
        "versions": words["versions"].by_count(),
    }
    for name in ("rubrics", "params"):
        listed = {k: n for k, n in words[name].by_count().items() if k != OTHER}
        texts = {**known, **lookup(listed)}
        figures[name] = [
            {"digest": digest, "groups": n, "text": texts.get(digest)}
            for digest, n in listed.items()
        ]
        figures[f"more_{name}"] = words[name].more
    return figures


def in_cells(made: _Json, longest: int) -> dict[str, str]:
    """Return what made the scores in words, by name; nothing for a file that does not say it.

    A text is shown by its beginning, and of several the first few.
    """
    cells = {"served as": counted(made["served"])}
    for name, key, words in (
        ("rubric", "rubrics", _rubric),
        ("parameters", "params", _params),
    ):
        listed, more = made[key], made[f"more_{key}"]
        texts = [shorten(" ".join(words(one).split()), longest) for one in listed]
        if len(listed) > 1:
            pairs = zip(texts, listed, strict=True)
            texts = [f"{_groups(one['groups'])}: {text}" for text, one in pairs]
            texts.insert(0, f"{len(listed) + more:,} different")
        cells[name] = "; ".join([*texts[:_LINES], *["…"] * (len(texts) > _LINES)])
    return cells | {"ruler": counted(made["versions"])}


def counted(counts: Mapping[str, int]) -> str:
    """List words, with the groups of each if there are several."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({_groups(n)})" for name, n in counts.items())


def _groups(n: int) -> str:
    return "1 group" if n == 1 else f"{n:,} groups"


def _rubric(one: _Json) -> str:
    if one["text"] is None:
        return f"{one['digest']} (text not found)"
    known = " (built-in)" if one["digest"] == BUILT_IN else f": {one['text']}"
    return f"{one['digest']}{known}"


def _params(one: _Json) -> str:
    """Return the parameters of each judge in words."""
    judges = _judges(one)
    if judges is None:
        return f"{one['digest']} (text not found)"
    each = {judge["judge"]: _in_words(judge["params"]) for judge in judges}
    if len({*each.values()}) == 1:
        return next(iter(each.values()))
    return "; ".join(f"{name}: {params}" for name, params in each.items())


def _in_words(params: _Json) -> str:
    values = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in params.items()
    }
    given = [f"{name}={value}" for name, value in values.items()]
    return ", ".join(given) or "none given"


def _judges(one: _Json) -> list[Any] | None:
    """Read the text on the judges and their parameters; None if it is unknown, or of another shape."""
    try:
        judges = json.loads(one["text"] or "[]")
        fits = all(isinstance(judge["judge"], str) for judge in judges)
        fits = fits and all(isinstance(judge["params"], dict) for judge in judges)
    except (ValueError, TypeError, LookupError):
        return None
    return judges if judges and fits else None


DIFFERENCES = {
    "judge": "judge",
    "served": "served model",
    "rubric": "rubric",
    "parameters": "parameters",
    "version": "version of ruler",
    "passes": "passes",
}
"""The ways in which two files may have been made differently, with their names in sentences."""
_ALIKE = ("judge", "rubric", "parameters")
"""Those that are named if they are the same."""


def differences(
    each: Sequence[_Json], rubrics: Mapping[str, int]
) -> dict[str, bool | None]:
    """Tell for each of DIFFERENCES if two files differ in it; None: at least one does not say it.

    `each` holds the figures of a file, `rubrics` counts groups of both files whose rubric is the `same` and
    an `other` one.
    """
    one, two = map(_made, each)
    known = all(_judges(p) for own in each for p in own["made_by"]["params"])
    if one["judge"] != two["judge"] and not known:
        one["parameters"] = set()  # their digest is of the judges' names, too
    found: dict[str, bool | None] = {
        name: one[name] != two[name] if one[name] and two[name] else None
        for name in one
    }
    told = rubrics["same"] + rubrics["other"]
    found["rubric"] = rubrics["other"] > 0 if told else None
    return {name: found[name] for name in DIFFERENCES}


def _made(figures: _Json) -> dict[str, set[str]]:
    """Return what made a file; parameters of one judge are without its name, or a digest."""
    made = figures["made_by"]
    return {
        "judge": set(figures["judges"]),
        "served": set(made["served"]),
        "parameters": {_params(one) for one in made["params"]},
        "version": set(made["versions"]),
        "passes": set(figures["passes"]),
    }


def opening(differ: Mapping[str, bool | None], rubrics: Mapping[str, int]) -> str:
    """Say in which ways two files were made differently, and in which alike."""
    words = dict(DIFFERENCES)
    if rubrics["same"] and rubrics["other"]:
        of = f"in {rubrics['other']:,} of {sum(rubrics.values()):,} groups"
        words["rubric"] = f"rubric ({of})"
    unlike = [words[name] for name, holds in differ.items() if holds]
    same = [name for name in _ALIKE if differ[name] is False]
    parts = (("A and B differ in", unlike), ("the same", same))
    return "; ".join(f"{how} {_list(names)}" for how, names in parts if names)


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
