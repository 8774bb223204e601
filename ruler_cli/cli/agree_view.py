"""The figures of `ruler agree` → a page on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Column

from ruler_cli.cli.sentences import (
    OWN_SCORES,
    STATISTICS,
    Fact,
    interval,
    left_out_words,
    measured,
    pair_counts,
)
from ruler_cli.cli.terminal import NOTE, Terminal
from ruler_cli.cli.units import count, shorten
from ruler_cli.results.label_agreement import MOST_NOT_ASKED

if TYPE_CHECKING:
    from ruler_cli.results.agreement import Agreement

_Json = Mapping[str, Any]
_Row = tuple[str, _Json, _Json | None]
"""A name, a measured value, and counts of pairs."""
_KINDS = {
    "gap": "accuracy by score gap:",
    "slot": "accuracy by position, the better one is",
    "length": "accuracy by length, the better one is",
}
_ALIKE = ("the better one is alike", "both alike")
_CHANCE = {"value": 0.5, "groups": 0}
_PEOPLE = {
    "agreement": "two people agree",
    "judge": "  the judge and one of them",
}
_THINGS = {"comparisons": "pair", "rollouts": "rollout"}
_NOT_COUNTED = {
    "equal": "equal",
    "unsure": "unsure",
    "unscored": "without a score",
}
_NAME = 24
"""Characters of a judge's name, and of other names in a row."""


def show(files: Sequence[_Json], page: Agreement) -> None:
    """Show the agreement of one file, or of two on labels of their own, to a person."""
    terminal = Terminal()
    terminal.show(terminal.facts(_head(files, page), note=NOTE), "")
    heads = ("value", "95 % interval", "n", "right", "wrong", "tied")
    right = [Column(head, justify="right") for head in heads]
    rows = [_cells(*row) for row in _values(page) if row[1]["value"] is not None]
    terminal.show(terminal.table((Column("", overflow="fold"), *right), rows))
    if page["gate"]:
        terminal.show("", terminal.facts(verdicts(page["gate"])))


def verdicts(gate: _Json) -> Iterator[Fact]:
    """Yield the verdict, for each kind of labels if there are several."""
    sets = gate["sets"]
    for i, one in enumerate(sets):
        of = f"{_THINGS[one['of']]}s {_drawn(one['drawn'])} " if sets[1:] else ""
        yield "" if i else "gate", of + gate_words(one, gate["at_least"])


def gate_words(gate: _Json, at_least: float) -> str:
    """Say if a judge passed, and what was counted as wrong or left out."""
    share = f"{gate['not_asked']:.0%}" if gate["not_asked"] >= 0.01 else "less than 1%"
    words = "passed" if gate["passed"] else "not passed"
    if gate["low"] is not None:
        below = gate["low"] < at_least
        words += (
            f": the interval of the pairwise accuracy begins at {gate['low']:.3f}, "
        )
        words += f"{'' if below else 'not '}below {at_least:g}"
    elif gate["value"] is not None:
        words += ": there are too few groups for an interval"
    if gate["unscored"]:
        unscored = count(gate["unscored"], "label")
        words += f"; counted as wrong: {unscored} without a score"
    if gate["not_asked"]:
        words += f"; left out are {share} of the labels, of what the judge was not asked about"
    if gate["not_asked"] > MOST_NOT_ASKED:
        words += f", which is more than {MOST_NOT_ASKED:.0%}"
    return words


def _head(files: Sequence[_Json], page: Agreement) -> Iterator[Fact]:
    """Yield what is compared, each with a name."""
    main = page["scorers"][0]
    file = files[0]
    names = ("A", "B") if len(files) > 1 else ("scored",)
    for name, own in zip(names, files, strict=True):
        judges = f" ({', '.join(own['judges'])})" if own["judges"] else ""
        yield name, f"{own['source']}{judges}"
    yield "found", file["found"]
    yield "scores", OWN_SCORES if any(own["moved"] for own in files) else ""
    people = page["label_files"]
    if people:
        yield from _of_people(people, page["labels"]["files"])
    else:
        yield "left out", left_out_words(file)
        yield "labels", _of_records(file, page["labels"])
    rollouts = main["compared"]
    groups = count(page["groups"], "group")
    if people and people["of"] == "comparisons":
        yield "compared", f"{count(page['rollouts'], 'rollout')} in {groups}"
    else:
        compared = f"{count(rollouts, 'rollout')} in {groups}"
        yield "compared", f"{compared}; {page['mixed_groups']} mixed"
    yield (
        "pairs",
        pair_counts(
            main["pairs"], main["against"], main["tied"], "with different labels"
        ),
    )


def _of_records(file: _Json, labels: _Json) -> str:
    """Say what the labels of records are."""
    path = labels["path"]
    words = "the first original reward" if path is None else f"`{path}`"
    if file["outcomes"]:
        words += ", or the outcome"
    return words


def _of_people(people: _Json, names: Sequence[str]) -> Iterator[Fact]:
    """Yield what the labels of files are, and what of them is not counted."""
    labels = count(people["measured"], _THINGS[people["of"]])
    yield "labels", f"{', '.join(names)}: {labels} {_drawn(people['drawn'])}"
    more = [
        f"{people[key]} {words}" for key, words in _NOT_COUNTED.items() if people[key]
    ]
    if people["not_asked"]:
        more[-1] += f", {people['not_asked']} of them not asked about"
    yield "not counted", ", ".join(more)
    by = [
        f"{shorten(name or '(no name)', _NAME)} {n}" for name, n in people["by"].items()
    ]
    others = people["people"] - len(by)
    if others:
        by.append(count(others, "more person").replace("persons", "people"))
    several = count(people["shared"], _THINGS[people["of"]])
    shared = f"; {several} by several" if people["shared"] else ""
    yield "labels by", ", ".join(by) + shared
    if people["drawn"] != "random":
        yield (
            "note",
            "not drawn at random: the figures are those of these labels, not of the file",
        )


def _drawn(drawn: str) -> str:
    if drawn == "random":
        return "drawn at random"
    return f"drawn as {drawn}" if drawn else "chosen by people"


def _cells(title: str, value: _Json, pairs: _Json | None) -> tuple[str, ...]:
    """Return the cells of a row; chance is not measured, and only an accuracy has pairs."""
    groups = value["groups"]
    cells = (title, measured(value), interval(value) if groups else "")
    if pairs is None:
        return (*cells, str(groups or ""), "", "", "")
    against, tied = pairs["against"], pairs["tied"]
    counts = (pairs["pairs"] - against - tied, against, tied)
    number = pairs["pairs"] if "bin" in pairs else groups
    return (*cells, *(f"{n:,}" for n in (number, *counts)))


def _accuracy(judge: _Json, title: str) -> _Row:
    return title, judge["pairwise_accuracy"], judge


def _values(page: Agreement) -> Iterator[_Row]:
    """Yield the measured values. The baselines stand below the accuracy."""
    main, *judges = page["scorers"]
    differences = page["differences"]
    of = f"{main['name']}: " if differences else ""
    yield _accuracy(main, f"{of}{STATISTICS['pairwise_accuracy']}")
    if main["pairs"]:
        for baseline in page["baselines"]:
            yield _accuracy(baseline, f"  {baseline['name']} wins")
        yield "  chance", _CHANCE, None
    yield f"{of}{STATISTICS['tied_share']}", main["tied_share"], None
    for judge in judges:
        name = shorten(judge["name"], _NAME)
        yield _accuracy(judge, f"{name}: {STATISTICS['pairwise_accuracy']}")
    if differences:
        difference = differences["pairwise_accuracy"]
        apart = "" if difference["told_apart"] else ", not significant"
        yield f"A - B: pairwise accuracy{apart}", difference, None
        yield "correlation of scores, A and B", page["correlation"], None
    for name, title in _PEOPLE.items() if page["people"] else ():
        yield title, page["people"][name], None
    for criterion in page["criteria"]:
        yield _accuracy(criterion, f"criterion {shorten(criterion['name'], _NAME)}")
    for kind, title in _KINDS.items():
        for one in main.get(f"by_{kind}", ()):
            yield f"{title} {one['bin']}".replace(*_ALIKE), one["accuracy"], one
    if page["corrected"] and (means := page["corrected"]["mean"]):
        yield "mean: scores", means["scores"], None
        yield f"  {count(means['labelled'], 'label')}", means["labels"], None
        yield "  corrected", means["corrected"], None
