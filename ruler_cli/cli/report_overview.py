"""The figures of a run → one page for a person: sentences, histograms, groups worth a look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ruler_cli.cli import report_sentences as sentences
from ruler_cli.cli.tables import BAD, NOTE, TITLE, facts, groups, in_short, show_next
from ruler_cli.cli.units import shorten
from ruler_cli.results.figures import ENOUGH, ReportFigures
from ruler_cli.results.group_text import page_key
from ruler_cli.results.highlights import WORST, Highlight, Run
from ruler_cli.results.made_by import BUILT_IN, in_cells
from ruler_cli.results.report.page import compact

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruler_cli.cli.terminal import Terminal
    from ruler_cli.results.compare import OnLeftOut
    from ruler_cli.results.scored_file import ScoredFile

STREAM = ("-", "stdin")
"""Names of stdin, which cannot be read again."""
RULE = "the worst ones"
"""The rule that chooses groups for a page that cannot hold all of them."""
_REASONS = 3
_LONGEST = 120
"""Characters of a reason, or of a rubric, on the page."""
_TEXT = 20_000
"""Characters of a rubric in the page for a browser."""
_DISTRIBUTIONS = {
    "scores": ("rollouts by score", "mean"),
    "spread": ("groups by spread (sd)", "median"),
    "reliability": ("groups by reliability", "median"),
}
_BARS = "▁▂▃▄▅▆▇█"


def read(files: Sequence[ScoredFile], _on_left_out: OnLeftOut) -> Run:
    """Return the reading of one file; no group of it is left out."""
    return Run(files[0])


def show(
    heads: Sequence[Mapping[str, str]],
    figures: ReportFigures,
    run: Run,
    terminal: Terminal,
) -> None:
    """Write the page to the terminal; heads have the `source`, and a line on what was `found` in it."""
    head = _head(heads[0], figures)
    terminal.show(facts(head, terminal, scored=TITLE, failed=BAD))
    lines = list(_histograms(figures))
    if lines:
        terminal.show("", *(Text(line, "cyan") for line in lines))
    numbers = () if lines else sentences.averages(figures)
    findings = facts((*numbers, *sentences.findings(figures)), terminal)
    if findings.row_count:
        terminal.show("", findings)
    shortlist = run.shortlist
    worst, disputed = shortlist.worst(), shortlist.disputed()
    lists = {
        f"worst groups ({WORST})": worst,
        f"most disputed groups ({shortlist.dispute})": disputed,
        "other groups" if worst or disputed else "groups": shortlist.others(),
    }
    for title, listed in lists.items():
        if listed:
            terminal.show("", Text(title, TITLE), _groups(listed, terminal))
    show_next(next_commands([heads[0]["source"]], figures, run), terminal)


def page_data(
    sources: Sequence[str], figures: ReportFigures, run: Run
) -> dict[str, Any]:
    """Return the data of the page for a browser."""
    return {
        "found": run.file.input.found(),
        "figures": compact(dict(figures) | {"made_by": None}),
        "made_by": compact(figures["made_by"], _TEXT) | {"built_in": BUILT_IN},
        "facts": sentences.facts(figures),
        "lists": compact(run.shortlist.as_json()),
        "dispute": run.shortlist.dispute,
        "next": next_commands(sources, figures, run),
    }


def next_commands(
    sources: Sequence[str], figures: ReportFigures, run: Run
) -> list[list[str]]:
    """Return the commands to type next, as words without quotes; none after stdin, which is gone."""
    (name,) = file_words(sources)
    shown = [*run.shortlist.disputed(), *run.shortlist.worst()][:1]
    commands = [["report", name, *group_option(one.group.key)] for one in shown]
    commands.append(["report", name, "-o", "report.html"])
    if figures["groups"]["live"]:
        commands.append(["select", name, "train.jsonl", "--where", "live"])
    return [] if name in STREAM else commands


def file_words(sources: Sequence[str]) -> list[str]:
    """Return names of files as arguments; a name may begin with a dash."""
    return [
        f"./{one}" if one.startswith("-") and one != "-" else one for one in sources
    ]


def group_option(key: str) -> list[str]:
    """Return the words that name a group; a key may begin with a dash."""
    key = page_key(key)
    return [f"--group={key}"] if key.startswith("-") else ["--group", key]


def _head(head: Mapping[str, str], figures: ReportFigures) -> Iterator[tuple[str, str]]:
    yield "scored", head["source"]
    yield "found", head["found"]
    yield "judge", sentences.judges(figures)
    yield from in_cells(figures["made_by"], _LONGEST).items()
    for name, sentence in sentences.counts(figures):
        yield name, sentence
        if name == "failed":
            for one in figures["reasons"][:_REASONS]:
                times = f"{one['groups']} x " if one["groups"] > 1 else ""
                yield "", times + shorten(one["reason"], _LONGEST)


def _histograms(figures: ReportFigures) -> Iterator[str]:
    """Yield a histogram in a line for scores, spread and reliability, if there are enough groups."""
    for name, (title, middle) in _DISTRIBUTIONS.items():
        bins = figures[name]["bins"]
        numbers = [bar["n"] for bar in bins]
        if min(sum(numbers), figures["groups"]["scored"]) >= ENOUGH:
            bars = "".join(_BARS[-(-7 * n // max(numbers))] for n in numbers)
            value = f"{middle} {figures[name][middle]:.2f}"
            yield f"{title:<22} 0 {bars} {bins[-1]['to']:g}, {value}"


def _groups(listed: Sequence[Highlight], terminal: Terminal) -> RenderableType:
    """Make a table of groups."""
    against = listed[0].because == "disagrees"
    heads = "against rewards" if against else "why", "scores, best first", "rewards"
    cells = []
    for one in listed:
        group, order = one.group, one.group.best_first
        why = terminal.text(one.why, BAD if group.failed else NOTE)
        scores = terminal.text(in_short([group.rollouts[i].score for i in order]))
        if group.failed:
            scores = terminal.text(shorten(group.reason, _LONGEST))
            scores.no_wrap, scores.overflow = True, "ellipsis"
        rewards = in_short([group.rollouts[i].label for i in order], ".3g")
        cells.append((group.key, (why, scores, rewards)))
    return groups(heads, cells, terminal)
