"""Prove README.md and the pages of `docs/` by running them.

    python -m tests.docs_check                check all; exit 1, with a diff, if a page or a sample is wrong
    python -m tests.docs_check PAGE …         check only the examples of these pages, and all links
    python -m tests.docs_check --write [PAGE …]   write the outputs anew; without PAGE also the help of the
                                              commands, the scored samples and the simulation's table

Fenced blocks follow these rules:

- `console`: each line behind `$ ` is run by bash in a fresh copy of `samples/`, the lines below it
  must appear on stdout and stderr together.  A command with nothing below it must exit with 0.
- `sh`: not run, because it costs money or installs something; each `ruler` command must be one that
  the command line takes.
- `python`: must run; it must print the `text` block right behind it.
- `json` below `<!-- from FILE -->`: a line of this file, with spaces and line ends as it reads best and
  `…` for what is left out.

All blocks of a page that has the comment `<!-- one session -->` run in one copy, one after the other.
`$JUDGE` in a block is the address of a server of tests/judge_server.py, which answers as the name of the
model asks, and its outputs show it under that name.

Time varies from run to run, so `"judged_at":"2026-11-21T02:14:05Z"`, `"latency_s":0.012`,
`"seconds": 0.012`, `in 0.1 s`, `2026-11-21 02:14 UTC` and what depends on it, `"most_in_flight": 3`, are
compared as if each stood at 0.  Each run has its ledger in a directory of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs import commands, examples, links, tables
from tests.docs.pages import ROOT, Block, Report, blocks, names, read, rewritten


def write(pages: list[str], *, everything: bool) -> None:
    """Write the outputs of the examples of some pages anew, and what is generated if asked."""
    if everything:
        examples.scored_samples(Report(), write=True)
        for name, renewed in (
            (commands.PAGE, commands.with_reference),
            (tables.EVIDENCE, tables.with_simulated),
            ("docs/formats.md", tables.with_formats),
        ):
            text = read(name)
            (ROOT / name).write_text(renewed(text) or text, encoding="utf-8")
    old = {name: blocks(name, read(name)) for name in pages}
    fenced = [block for name in pages for block in old[name]]
    fresh = iter(examples.check_examples(fenced, Report()))
    for name in pages:
        new = [next(fresh) for _ in old[name]]
        (ROOT / name).write_text(
            rewritten(read(name), old[name], new), encoding="utf-8"
        )


def check(pages: list[str], *, everything: bool) -> Report:
    """Check the examples of some pages, all links, and the tables and samples if asked."""
    report = Report()
    fenced: list[Block] = [
        block for name in pages for block in blocks(name, read(name))
    ]
    links.check_links(report)
    links.check_markdown(report)
    links.check_navigation(report)
    links.check_length(report)
    examples.check_examples(fenced, report)
    examples.check_syntax(fenced, report)
    examples.check_excerpts(pages, report)
    if everything:
        commands.check_reference(report)
        examples.scored_samples(report, write=False)
        tables.check_fields(report)
        tables.check_summary(report)
        tables.check_report(report)
        tables.check_comparison(report)
        tables.check_trend(report)
        tables.check_conditions(report)
        tables.check_formats(report)
        tables.check_benchmarks(report)
    return report


def main(arguments: list[str]) -> int:
    """Check, or write and then check, and return the exit code."""
    writes = "--write" in arguments
    chosen = [
        _name(argument) for argument in arguments if argument != "--write"
    ]
    if unknown := [name for name in chosen if name not in names()]:
        print(
            f"docs_check: {unknown[0]} is no page; the pages are {', '.join(names())}",
            file=sys.stderr,
        )
        return 2
    pages = chosen or names()
    if writes:
        write(pages, everything=not chosen)
    report = check(pages, everything=not chosen)
    for sentence in report.wrong:
        print(f"wrong: {sentence}")
    print("documents: checked " + "; ".join(report.done))
    if report.wrong:
        print(
            f"{len(report.wrong)} differences. `python -m tests.docs_check --write` writes outputs anew."
        )
    return 1 if report.wrong else 0


def _name(argument: str) -> str:
    path = Path(argument).resolve()
    return (
        path.relative_to(ROOT).as_posix()
        if path.is_relative_to(ROOT)
        else argument
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
