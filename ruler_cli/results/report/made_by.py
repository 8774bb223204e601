"""Facts on what made the scores of a run: the models that answered, rubrics, parameters, versions of ruler.

OUTPUT has digests of the texts; a lookup, into a ledger, returns those that are kept.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruler_cli.ledger.texts import digest_of, params_text
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.report.bins import WordCounts
from ruler_cli.results.report.group_text import shorter
from ruler_cli.results.scored_groups import ScoredGroup

_Json = Mapping[str, Any]
TextLookup = Callable[[Iterable[str]], Mapping[str, str]]
"""Returns the texts that are known, by digest."""
_LISTED = 24
"""Different rubrics, and sets of parameters, that the figures list; more are counted."""
_LONGEST = 20_000
"""Characters of a text on a page."""
_UNKNOWN = " (text not found)"
_IN_CELL, _LINES = 1000, 4
"""Characters of a text beside that of another file, and texts there."""


def no_texts(_digests: Iterable[str]) -> Mapping[str, str]:
    """Look up no text."""
    return {}


@dataclass(frozen=True, slots=True)
class Row:
    """A fact on what made the scores: its name, a sentence, and the text that it is about, if it is known.

    Sentence and text may be text of the input.
    """

    name: str
    sentence: str
    text: str = ""


class MadeBy:
    """Counts groups by what made their scores."""

    def __init__(self) -> None:
        self._served, self._versions = WordCounts(), WordCounts()
        self._rubrics, self._params = array("Q"), array("Q")  # a digest of each group
        self._own: dict[str, str] = {}

    def add(self, group: ScoredGroup, own_rubric: str | None) -> None:
        """Count a group; files of older versions say nothing. A record may have a rubric of its own."""
        for name in group.served:
            self._served.add(name)
        if group.version:
            self._versions.add(group.version)
        if group.rubric:
            self._rubrics.append(int(group.rubric, 16))
            if (
                own_rubric
                and len(self._own) < _LISTED
                and group.rubric == digest_of(own_rubric)
            ):
                self._own[group.rubric] = own_rubric
        if group.params:
            self._params.append(int(group.params, 16))

    def figures(self, lookup: TextLookup, judges: Iterable[str]) -> dict[str, Any]:
        """Return the counts as JSON, the most frequent first, with the texts that are known.

        Without any lookup these are the built-in rubric, those of records, and the parameters of one of
        `judges` without any.
        """
        all_ = Counter(self._rubrics), Counter(self._params)
        listed = [
            [(f"{digest:016x}", n) for digest, n in counts.most_common(_LISTED)]
            for counts in all_
        ]
        own = [
            DEFAULT_RUBRIC,
            *(
                params_text([{"judge": name, "model": name, "params": {}}])
                for name in judges
            ),
        ]
        texts = self._own | {digest_of(text): text for text in own}
        texts |= lookup([digest for counts in listed for digest, _ in counts])
        rubrics, params = (
            [
                {"digest": digest, "groups": n, "text": texts.get(digest)}
                for digest, n in counts
            ]
            for counts in listed
        )
        return {
            "served": self._served.by_count(),
            "versions": self._versions.by_count(),
            "rubrics": rubrics,
            "more_rubrics": len(all_[0]) - len(rubrics),
            "params": params,
            "more_params": len(all_[1]) - len(params),
        }


def rows(made: _Json) -> Iterator[Row]:
    """Yield what made the scores in words; nothing for a file that does not say it."""
    if made["served"]:
        yield Row("served as", _counted(made["served"]))
    yield from _texts(
        "rubric", "rubrics", made["rubrics"], made["more_rubrics"], _rubric
    )
    yield from _texts(
        "parameters", "sets", made["params"], made["more_params"], _params
    )
    if made["versions"]:
        yield Row("ruler", _counted(made["versions"]))


def short_rows(made: _Json) -> list[tuple[str, str, str]]:
    """Return the rows for a page, very long texts without their middle."""
    return [
        (row.name, shorter(row.sentence, _LONGEST), shorter(row.text, _LONGEST))
        for row in rows(made)
    ]


def in_cells(made: _Json) -> dict[str, str]:
    """Return the rows by their names, for a table of two files: long texts without their middle."""
    found: dict[str, list[str]] = {}
    for row in rows(made):
        known = "" if row.text == DEFAULT_RUBRIC else row.text
        text = shorter(" ".join(known.split()), _IN_CELL)
        lines = found.setdefault(row.name or next(reversed(found)), [])
        lines.append(": ".join(filter(None, (row.sentence, text))))
    return {
        name: "; ".join(lines[:_LINES]) + "; …" * (len(lines) > _LINES)
        for name, lines in found.items()
    }


def _counted(counts: Mapping[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({_groups(n)})" for name, n in counts.items())


def _groups(n: int) -> str:
    return "1 group" if n == 1 else f"{n:,} groups"


def _texts(
    name: str,
    plural: str,
    listed: Sequence[_Json],
    more: int,
    words: Callable[[_Json], tuple[str, str]],
) -> Iterator[Row]:
    """Yield a row for each text; if there are several, the first says how many."""
    several = len(listed) + more > 1
    if several:
        yield Row(name, f"{len(listed) + more:,} {plural}")
    for one in listed:
        sentence, text = words(one)
        yield Row(
            "" if several else name,
            sentence + f", {_groups(one['groups'])}" * several,
            text,
        )
    if more:
        yield Row("", f"{more:,} more")


def _rubric(one: _Json) -> tuple[str, str]:
    if one["text"] is None:
        return one["digest"] + _UNKNOWN, ""
    return one["digest"] + " (built-in)" * (one["text"] == DEFAULT_RUBRIC), one["text"]


def _params(one: _Json) -> tuple[str, str]:
    """Return the parameters of each judge in words, the digest if their text is not known."""
    judges = _judges(one)
    if judges is None:
        return one["digest"] + _UNKNOWN, ""
    each = {
        judge["judge"]: ", ".join(
            f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in judge["params"].items()
        )
        for judge in judges
    }
    if not any(each.values()):
        return "none given", ""
    if len(judges) == 1:
        return next(iter(each.values())), ""
    return "; ".join(
        f"{name}: {params or 'none given'}" for name, params in each.items()
    ), ""


def _judges(one: _Json) -> list[Any] | None:
    """Read the text on the judges and their parameters; None if it is unknown, or of another shape."""
    try:
        judges = json.loads(one["text"] or "null")
    except ValueError:
        return None
    if not isinstance(judges, list) or not judges:
        return None
    fits = all(
        isinstance(one, dict)
        and isinstance(one.get("judge"), str)
        and isinstance(one.get("params"), dict)
        for one in judges
    )
    return judges if fits else None


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
    one, two = (
        {
            "judge": set(figures["judges"]),
            "served": set(figures["made_by"]["served"]),
            "parameters": _parameters(figures["made_by"]),
            "version": set(figures["made_by"]["versions"]),
            "passes": set(figures["passes"]),
        }
        for figures in each
    )
    if one["judge"] != two["judge"] and not (_known(each[0]) and _known(each[1])):
        one["parameters"] = set()  # their digest is of the judges' names, too
    found = {
        name: one[name] != two[name] if one[name] and two[name] else None
        for name in one
    }
    found["rubric"] = (
        rubrics["other"] > 0 if rubrics["same"] + rubrics["other"] else None
    )
    return {name: found[name] for name in DIFFERENCES}


def _known(figures: _Json) -> bool:
    return all(_judges(one) is not None for one in figures["made_by"]["params"])


def _parameters(made: _Json) -> set[str]:
    """Return what tells parameters apart: themselves without the judges' names, else their digests."""
    known = [_judges(one) for one in made["params"]]
    return {
        one["digest"]
        if judges is None
        else json.dumps([judge["params"] for judge in judges], sort_keys=True)
        for one, judges in zip(made["params"], known, strict=True)
    }


def opening(differ: Mapping[str, bool | None], rubrics: Mapping[str, int]) -> str:
    """Say in which ways two files were made differently, and in which alike."""
    words = dict(DIFFERENCES)
    if rubrics["same"] and rubrics["other"]:
        words["rubric"] = (
            f"rubric (in {rubrics['other']:,} of {sum(rubrics.values()):,} groups)"
        )
    unlike = [words[name] for name, holds in differ.items() if holds]
    same = [name for name in _ALIKE if differ[name] is False]
    parts = (("A and B differ in", unlike), ("the same", same))
    return "; ".join(f"{how} {_list(names)}" for how, names in parts if names)


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
