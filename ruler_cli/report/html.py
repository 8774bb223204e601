"""SCORED → one HTML file that opens offline: figures, table and texts as data, scripts that show them.

The input is looked at once for its figures and for which groups are worth a place; if it holds more than
these they are then read again. The page's policy lets nothing run but its own scripts.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruler_cli import __version__
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.groups import OnProblem
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Group
from ruler_cli.report import leaves
from ruler_cli.report.figures import Figures
from ruler_cli.report.group import page_key
from ruler_cli.report.leaves import Leaves, few_words
from ruler_cli.report.scored import Again, Scored
from ruler_cli.report.target import Target
from ruler_cli.report.telling import RULE, Ranking
from ruler_cli.settings import InputSettings

MOST_GROUPS = 10_000
"""Rows of the table, unless the user says otherwise."""
SCRIPTS = (
    *("vendor/lib.js", "base.js"),
    *("conditions.js", "plots.js", "charts.js", "overview.js", "filters.js", "table.js"),
    *("turns.js", "turnlist.js", "rollouts.js", "grouphead.js", "group.js", "app.js"),
)
"""The page's scripts in the order in which they run: each may use what those before it have made."""
STYLES = ("report.css", "overview.css", "group.css")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: `size` bytes, with so many `rows` of all `groups`; `doubt` is about the labels.

    `left_out` says in whole sentences what the page does not hold, empty if it holds everything.
    """

    size: int
    groups: int
    rows: int
    left_out: str
    doubt: str | None


def write_html(
    where: InputSettings,
    target: str,
    *,
    on_problem: OnProblem,
    most: int = MOST_GROUPS,
    made: datetime | None = None,
    on_group: Callable[[], object] = lambda: None,
) -> Written:
    """Write the report of a scored file to `target`, which ends in .html or is `-` for stdout.

    `on_problem` is told each record that cannot be read, `on_group` each group as it is looked at.
    `made` is the time that the page tells, `now()` by default. UsageError if the input cannot be
    read, holds no mark of ruler, or the target cannot have this name; OutputError if it cannot be
    written to its end. Without success no file appears, and one that was there stays.
    """
    made = made or now(os.environ)
    with ExitStack() as stack:
        out = stack.enter_context(Target(target, where.source))
        scored = Scored(where, stack, on_problem)
        figures, found, counts = _gathered(scored, stack, most, on_group)
        name, all_ = _name(where.source), figures["groups"]["all"]
        left_out = _left_out("SCORED" if name == Location("-").shown else name, all_, **counts)
        head = {
            "version": 1,
            "source": name,
            "found": scored.input.found(),
            "made": f"{made.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "ruler": __version__,
            "figures": _figures(figures),
            "left_out": {
                "groups": all_ - counts["rows"],
                "texts": counts["rows"] - counts["texts"],
                "cut": counts["cut"],
                "rule": left_out or "Nothing is left out: every group and its whole text are here.",
            },
        }
        for piece in _page(head, figures, found):
            out.write(piece)
        out.commit()
        return Written(out.size, all_, counts["rows"], left_out, scored.doubt)


def _gathered(
    scored: Scored, stack: ExitStack, most: int, on_group: Callable[[], object]
) -> tuple[Figures, Leaves, dict[str, int]]:
    """The figures, at most so many groups, and how much is here of them.

    Groups are made ready as they come, as long as all may have a place; else the chosen ones are read again.
    """
    again, ranking, survey = Again(scored, stack), Ranking(most), scored.input.survey
    found, ready = Leaves(stack), survey is None or survey.groups <= most

    def look(ordinal: int, group: Group, marked: MarkedGroup) -> None:
        nonlocal ready
        ranking.add(ordinal, marked)
        again.note(group)
        ready = ready and ordinal <= most and found.size < leaves.AT_ONCE
        if ready:
            found.put(ordinal, group, marked)
        on_group()

    figures, chosen = scored.figures(look), ranking.chosen()
    if not ready:
        found = Leaves(stack)
        ranks = {ordinal: rank for rank, ordinal in enumerate(chosen)}
        for ordinal, group in again.groups(sorted(chosen)):
            found.put(ordinal, group, scored.mark(group), ranks[ordinal])
    return figures, found, found.finish(chosen)


def now(environ: Mapping[str, str]) -> datetime:
    """The time, or what SOURCE_DATE_EPOCH says it is, so that a file can be made twice."""
    said = environ.get("SOURCE_DATE_EPOCH")
    try:
        return datetime.fromtimestamp(int(said), UTC) if said else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"SOURCE_DATE_EPOCH={said}: is no number of seconds since 1970; unset it") from None


def _name(source: str) -> str:
    """An input as a page that is handed on names it: without the folders of this machine."""
    return Path(source).absolute().name if Location(source).local else Location(source).shown


def _figures(figures: Figures) -> dict[str, Any]:
    """The figures, with keys as the rows have them and no sentence of a megabyte."""
    judges = {few_words(name): groups for name, groups in figures["judges"].items()}
    short = [
        reason | {"reason": few_words(reason["reason"]), "first": page_key(reason["first"])}
        for reason in figures["reasons"]
    ]
    return {**figures, "judges": judges, "reasons": short}


def _left_out(source: str, all_: int, rows: int, texts: int, cut: int, huge: int) -> str:
    """What is left out, by which rule, and what shows it, in whole sentences; empty if nothing is."""
    command = f"`ruler report {shlex.quote(source)}"
    said = []
    if rows < all_:
        said.append(
            f"The table holds {rows:,} of {all_:,} groups; the figures count all of them. "
            f"{RULE} {command} -o report.html --max-groups {all_}` has every group."
        )
    if texts + huge < rows:
        said.append(
            f"The texts of {texts:,} of {rows:,} groups are here, the most telling first, "
            f"until the next does not fit into {leaves.MOST_TEXTS >> 20} MiB."
        )
    if huge:
        said.append(f"{huge:,} groups of very many rollouts have no text here.")
    if cut:
        texts_are = "text is" if cut == 1 else "texts are"
        said.append(f"{cut:,} very long {texts_are} cut, with a mark at each place.")
    if said:
        said.append(f"{command} --group KEY` shows any group whole.")
    return " ".join(said)


def plain_figures(o: Figures) -> Iterator[tuple[str, str]]:
    """The main figures as names and values, for a page whose scripts do not run.

    They hold no text of the input, but for the kinds of failures that ruler knows.
    """
    groups, rollouts, usage, latency = o["groups"], o["rollouts"], o["usage"], o["latency_s"]
    yield "Groups", f"{groups['all']:,}"
    yield (
        "Groups scored",
        f"{groups['scored']:,}, of them {groups['live']:,} live and {groups['tied']:,} tied",
    )
    if groups["failed"]:
        kinds = ", ".join(f"{kind.replace('_', ' ')} {n:,}" for kind, n in o["failed_by_kind"].items())
        yield "Groups failed", f"{groups['failed']:,} ({kinds})"
    if groups["unmarked"]:
        yield "Groups never asked about", f"{groups['unmarked']:,}"
    yield "Rollouts", f"{rollouts['all']:,}, of them {rollouts['scored']:,} scored"
    if rollouts["suspect"]:
        yield "Rollouts that address the judge", f"{rollouts['suspect']:,}"
    if (mean := o["scores"]["mean"]) is not None:
        yield "Mean score", f"{mean:.3f}, standard deviation {o['scores']['sd']:.3f}"
    if (median := o["spread"]["median"]) is not None:
        yield "Median spread within a group", f"{median:.3f}"
    if (agreement := o["against_label"]["agreement"]) is not None:
        yield (
            "Pairs of rollouts ordered as their labels",
            f"{agreement:.1%} of {o['against_label']['pairs']:,}",
        )
    if (median := o["reliability"]["median"]) is not None:
        yield "Median reliability", f"{median:.2f} over {_groups(o['reliability']['groups'])}"
    if o["cost_usd"] is not None:
        yield "Cost", f"{o['cost_usd']:,.2f} USD over {_groups(o['cost_groups'])}"
    if usage["prompt_tokens"] or usage["completion_tokens"]:
        yield "Tokens", f"{usage['prompt_tokens']:,} prompt, {usage['completion_tokens']:,} completion"
    if latency["max"] is not None:
        yield "Time per group", f"median {latency['p50']:.1f} s, longest {latency['max']:.1f} s"


def _groups(n: int) -> str:
    return f"{n:,} group{'s' * (n != 1)}"


def web_files(names: Iterable[str]) -> list[str]:
    """Texts of the package's own files; one that is not there is left out."""
    folder = files(__package__) / "web"
    return [(folder / name).read_text(encoding="utf-8") for name in names if (folder / name).is_file()]


def _page(head: dict[str, Any], figures: Figures, found: Leaves) -> Iterator[str]:
    """The page's text in pieces: the texts of groups are pulled as it is written."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # a report's alone
    from markupsafe import Markup

    kept = Environment(
        loader=PackageLoader("ruler_cli.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    name = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", head["source"])  # nothing turns or hides the text
    scripts = web_files(SCRIPTS)
    # only the package's own files are HTML as they stand, never what was read
    return kept.get_template("report.html.j2").generate(
        policy=_policy(scripts),
        style=Markup("\n".join(web_files(STYLES))),  # noqa: S704
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        licences=Markup(web_files(["vendor/LICENSES.txt"])[0]),  # noqa: S704
        title=f"{name} · ruler report",
        ruler=head["ruler"],
        caption=f"What ruler found in {name}, {head['made']}",
        figures=list(plain_figures(figures)),
        left_out=head["left_out"]["rule"],
        data=found.data(head).decode(),
        said=found.said().decode(),
        texts=found.blocks(),
    )


def _policy(scripts: Iterable[str]) -> str:
    """The Content Security Policy: these scripts run, and nothing is ever loaded."""
    digests = (base64.b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {hashes}",
            "style-src 'unsafe-inline'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
