"""SCORED → one HTML file that opens offline: figures, table and texts as data, and the scripts.

The page's policy allows no scripts but its own.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruler_cli import __version__
from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.atomic import WritableFile, create_file
from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.location import Location
from ruler_cli.results.report import embedded
from ruler_cli.results.report.embedded import EmbeddedGroups
from ruler_cli.results.report.figures import FiguresBuilder, ReportFigures, charts
from ruler_cli.results.report.group_text import GroupText, shorter
from ruler_cli.results.report.highlights import (
    RULE,
    Ranking,
    Shortlist,
    next_commands,
    telling,
)
from ruler_cli.results.report.made_by import TextLookup, no_texts, short_rows
from ruler_cli.results.scored_file import ScoredFile
from ruler_cli.settings.models import InputSettings

MOST_GROUPS = 10_000
"""Rows of the table, unless the user says otherwise."""
SCRIPTS = (
    *("vendor/lib.js", "base.js"),
    *(
        "conditions.js",
        "strip.js",
        "plots.js",
        "charts.js",
        "overview.js",
        "filters.js",
        "table.js",
    ),
    *("turns.js", "turnlist.js", "rollouts.js", "grouphead.js", "group.js", "app.js"),
)
"""The page's scripts in the order in which they run: each may use those before it."""
STYLES = ("report.css", "overview.css", "group.css")
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report of `size` bytes, with so many `rows` of all `groups`; `warnings` are about the labels.

    `left_out` names in whole sentences the parts that are not in the page; empty if it is complete.
    """

    size: int
    groups: int
    rows: int
    left_out: str
    warnings: Sequence[str]


def write_html(
    settings: InputSettings,
    target: str,
    *,
    on_problem: OnProblem,
    facts: Callable[[ReportFigures], Iterable[tuple[str, str]]],
    texts: TextLookup = no_texts,
    most: int = MOST_GROUPS,
    on_group: Callable[[str], bool] = lambda _key: False,
    on_read: Callable[[], object] = lambda: None,
) -> WrittenReport:
    """Write the report of a scored file to `target`, which ends in .html or is `-` for stdout.

    `on_problem` gets each record that cannot be read. `on_group` gets the key of each group, and is true for
    one that must be in the page: the first of them is. `on_read` is called after the last. `facts` puts
    figures into words, without any text of the input, for a browser that runs no scripts; `texts` finds those
    of rubrics and parameters. UsageError if the
    input cannot be read or has no annotations, or if the target cannot have this name; OutputError if it
    cannot be written to its end. After an error the target is as it was.
    """
    with ExitStack() as stack:
        file = page_file(stack, target, settings.source)
        scored = ScoredFile(settings, stack, on_problem)
        embedded_groups, ranking = EmbeddedGroups(stack), Ranking(most)
        builder, shortlist, kinds = FiguresBuilder(texts), Shortlist(), set[str]()
        for ordinal, (group, scored_group) in enumerate(scored.groups(), 1):
            builder.add(scored_group, group.rubric)
            shortlist.add(scored_group)
            rank = telling(scored_group, kinds)
            if ranking.add(ordinal, rank, asked=on_group(scored_group.key)):
                embedded_groups.put(
                    ordinal, GroupText.of(group, scored_group), scored_group
                )
        on_read()
        figures = builder.figures()
        name = source_name(settings.source)
        return put(
            (file, target),
            [scored],
            embedded_groups,
            LeftOut(
                figures["groups"]["all"],
                RULE,
                command_of(settings.source),
                **embedded_groups.finish(ranking.chosen()),
            ),
            {
                "figures": short_figures(figures),
                "made_by": short_rows(figures["made_by"]),
                "charts": charts(figures),
                "facts": list(facts(figures)),
                "lists": embedded.lists(shortlist),
                "next": next_commands(name, shortlist, figures),
            },
        )


def page_file(stack: ExitStack, target: str, *sources: str) -> WritableFile:
    """Create the file of a page; an error inside `stack` removes it.

    UsageError if it cannot have this name, or is one of the sources.
    """
    if target != "-":
        for source in sources:
            _refuse(target, source)
    file = create_file(Location(target))

    def undo(kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(OSError):  # the error names a full disk already
                file.discard()

    stack.push(undo)
    return file


def source_name(source: str) -> str:
    """Return the name of a source without the folders of this machine, as the page is handed on."""
    place = Location(source)
    return Path(source).absolute().name if place.local else place.shown


def command_of(*sources: str) -> str:
    """Return the command that reports the sources."""
    names = [
        "SCORED" if Location(one).stream else shlex.quote(source_name(one))
        for one in sources
    ]
    return " ".join(["ruler report", *names])


def put(
    target: tuple[WritableFile, str],
    scored: Sequence[ScoredFile],
    groups: EmbeddedGroups,
    left_out: LeftOut,
    more: dict[str, Any],
    *,
    scripts: Sequence[str] = SCRIPTS,
    styles: Sequence[str] = STYLES,
) -> WrittenReport:
    """Write the page of the scored files to a file with a name, and let it appear.

    `more` is what the data of this page hold besides those of every page.
    """
    (file, name), sources = target, [one.source for one in scored]
    head = more | {
        "version": 1,
        "source": " and ".join(map(source_name, sources)),
        "found": scored[0].input.found(),
        "made": f"{now(os.environ):%Y-%m-%dT%H:%M:%SZ}",
        "ruler": __version__,
        "left_out": left_out.as_json(),
        # stdin cannot be read again, and the page is here
        "next": [
            words
            for words in more["next"]
            if "-o" not in words and not any(Location(one).stream for one in sources)
        ],
    }
    try:
        pieces = page(head, groups, scripts, styles)
        size = sum(file.stream.write(piece.encode()) for piece in pieces)
        file.end()
        file.commit()
    except BrokenPipeError:
        raise
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        raise OutputError(problem, "make room, then run again", place=name) from None
    warnings = [one.warning for one in scored if one.warning]
    return WrittenReport(
        size, left_out.all, left_out.rows, left_out.sentences, warnings
    )


def _refuse(name: str, source: str) -> None:
    path, page, scored = Path(name), Location(name), Location(source)
    if page.remote or path.suffix.lower() != ".html":
        problem = "a report is a local file whose name ends in .html; `-` is stdout"
    elif scored.same(name):
        problem = "is the scored file itself; give the report another name"
    elif path.exists() and not path.is_file():
        problem = "is no regular file; give another name, or `-` for stdout"
    elif scored.local and scored.many and scored.listed().would_hold(page):
        problem = "is in SCORED and would be read as a part of it; put it elsewhere"
    else:
        return
    raise UsageError(f"{page.public}: {problem}")


def now(environ: Mapping[str, str]) -> datetime:
    """Return the time of SOURCE_DATE_EPOCH, so that a file can be made twice, else the present time."""
    epoch = environ.get("SOURCE_DATE_EPOCH")
    try:
        return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"SOURCE_DATE_EPOCH={epoch}: is no number of seconds since 1970; unset it"
        ) from None


def short_figures(figures: ReportFigures) -> dict[str, Any]:
    """Shorten long names and reasons in the figures."""
    judges = {
        shorter(name, embedded.NAME): groups
        for name, groups in figures["judges"].items()
    }
    short = [
        {
            "kind": one["kind"],
            "reason": shorter(one["reason"], embedded.NAME),
            "groups": one["groups"],
        }
        for one in figures["reasons"]
    ]
    return {
        **figures,
        "judges": judges,
        "reasons": short,
        "made_by": None,
    }  # beside them, in words


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The parts that are left out of a page of `all` groups.

    It has `rows` groups, chosen by a `rule`, and `texts` of them. The `command` shows what is missing.
    """

    all: int
    rule: str
    command: str
    rows: int
    texts: int

    @property
    def sentences(self) -> str:
        """Name the parts, the rule, and commands that show them; empty if nothing is left out."""
        sentences = []
        if self.rows < self.all:
            sentences.append(
                f"The table has {self.rows:,} of {self.all:,} groups; the figures count all. "
                f"{self.rule} `{self.command} -o report.html --max-groups {self.all}` has every group."
            )
        if self.texts < self.rows:
            sentences.append(
                f"The texts of {self.texts:,} of {self.rows:,} groups are here, the most telling first, "
                f"up to {embedded.MOST_TEXTS >> 20} MiB, and {embedded.MOST_BLOCK >> 20} MiB for one."
            )
        if sentences:
            sentences.append(f"`{self.command} --group KEY` shows any group whole.")
        return " ".join(sentences)

    def as_json(self) -> dict[str, Any]:
        """Return the numbers and the sentences for the page."""
        return {
            "groups": self.all - self.rows,
            "texts": self.rows - self.texts,
            "rule": self.sentences
            or "Nothing is left out: every group and its whole text are here.",
        }


def web_files(names: Iterable[str]) -> list[str]:
    """Read files of the package's folder `web`."""
    folder = files(__package__) / "web"
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def page(
    head: dict[str, Any],
    groups: EmbeddedGroups,
    scripts_of: Sequence[str],
    styles: Sequence[str],
) -> Iterator[str]:
    """Yield the page in pieces; texts of groups are read as it is written."""
    from jinja2 import (
        Environment,
        PackageLoader,
        StrictUndefined,
    )  # only a report needs it
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("ruler_cli.results.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # a file's name may hold any character, but none that turns or hides text
    name, left_out = (
        _CONTROL.sub("\ufffd", text)
        for text in (head["source"], head["left_out"]["rule"])
    )
    scripts = web_files(scripts_of)
    # only the package's own files are HTML as they are, never text of the input
    return environment.get_template("report.html.j2").generate(
        policy=_policy(scripts),
        style=Markup("\n".join(web_files(styles))),  # noqa: S704
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        licences=Markup(web_files(["vendor/LICENSES.txt"])[0]),  # noqa: S704
        title=f"{name} · ruler report",
        ruler=head["ruler"],
        caption=f"What ruler found in {name}, {head['made']}",
        figures=[fact for fact in head["facts"] if fact[1]],
        left_out=left_out,
        data=groups.data(head).decode(),
        said=groups.explanations().decode(),
        texts=groups.texts(),
    )


def _policy(scripts: Iterable[str]) -> str:
    """Return the Content Security Policy: these scripts run, and nothing is ever loaded."""
    digests = (
        base64.b64encode(sha256(script.encode()).digest()).decode()
        for script in scripts
    )
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
