"""`ruler label SCORED -o PAGE`: a page on which people compare rollouts without knowing their scores."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import RECORD_OPTIONS, RECORD_SETTINGS, Scored, takes
from ruler_cli.cli.report import shown
from ruler_cli.cli.scored_files import FileProblems, ScoredFiles, print_written
from ruler_cli.cli.sentences import listed
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.report.label import LabelCounts


@takes(
    "page", "pairs", "seed", "force", *RECORD_OPTIONS, settings=RECORD_SETTINGS
)
def command(ctx: typer.Context, source: Scored) -> int:
    """Make a page on which people compare rollouts.

    They do not see the scores. They download their answers as labels.jsonl, for
    `ruler agree SCORED --people labels.jsonl`.

    \b
    Example:
      ruler label scored.jsonl -o label.html
      ruler label scored.jsonl --pairs 100 -o label.html

    Exit codes: 0 done; 1 some lines could not be read; 2 bad usage, unreadable input, no annotations of ruler,
    or no pair to compare.
    """
    with running(ctx, source) as options:
        return shown(_write_page, options, [source])


def _write_page(
    options: Options, sources: list[str], stack: ExitStack
) -> FileProblems:
    """Write the page on which people compare rollouts."""
    from ruler_cli.results.draw import PairDraw
    from ruler_cli.results.report.label import LabelPage

    target = options.page
    if target is None:
        raise UsageError("the page has no name", "use -o label.html")
    draw = PairDraw(options.pairs, options.seed)
    page = LabelPage(stack, target, sources[0], draw, force=options.force)
    scored = ScoredFiles(sources, options, stack)
    for _ in scored.groups(page.add):
        pass
    scored.report_problems()
    if not draw.pairs:
        raise UsageError(
            f"{scored.names}: no group has two rollouts that differ and have a score; see `ruler report {scored.names}`"
        )
    counts = page.write()
    pairs = sum(counts.drawn.values())
    part = f"{pairs:,} of {count(draw.pairs, 'pair')} to compare"
    print_written(part, counts.size, target)
    print_note(*label_sentences(counts))
    return scored.problems


_DRAWN = {
    "random": "drawn at random",
    "disputed": "because passes or judges order them differently",
}


def label_sentences(counts: LabelCounts) -> list[str]:
    """Say how the pairs of a page were drawn, what it lacks, and what comes next."""
    ways = {words: counts.drawn[way] for way, words in _DRAWN.items()}
    sentences = [listed(ways)]
    if counts.left_out:
        sentences.append(
            f"{count(counts.left_out, 'drawn pair')} left out: the texts do not fit on the page"
        )
    sentences.append(
        "send it to those who label; each downloads labels.jsonl; then "
        "`ruler agree SCORED --people labels.jsonl`"
    )
    return sentences
