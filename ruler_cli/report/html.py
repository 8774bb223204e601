"""SCORED → one HTML file that opens offline: figures, table and texts as data, scripts that show them.

The input is looked at once for its figures and for which groups are worth a place, while the first
groups are made ready on the way; of the others those that were chosen are read again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruler_cli import __version__
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.groups import OnProblem
from ruler_cli.reading import open_input
from ruler_cli.report.as_json import overview_json
from ruler_cli.report.blocks import packed
from ruler_cli.report.chosen import MOST_TEXTS, Chosen
from ruler_cli.report.left_out import LeftOut
from ruler_cli.report.page import page, shown_name
from ruler_cli.report.plain import plain_figures
from ruler_cli.report.rows import few_words, page_key
from ruler_cli.report.target import Target
from ruler_cli.report.values import Overview
from ruler_cli.settings import InputSettings

MOST_GROUPS = 10_000
"""Rows of the table, unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: `size` bytes, the figures in it, what was found in the input, what is left out."""

    size: int
    overview: Overview
    found: str
    left_out: LeftOut


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
    `made` is the time that the page tells, `now()` by default. UsageError where the input cannot be
    read, holds no mark of ruler, or the target cannot have this name; OutputError where it cannot be
    written to its end. Without success no file appears, and one that was there stays.
    """
    made = made or now(os.environ)
    with ExitStack() as stack:
        out = stack.enter_context(Target(target, where.source))
        opened = open_input(where, stack, on_problem)
        if opened.reader is None:
            raise UsageError(
                f"{Location(where.source).shown}: holds no records; give a file that `ruler score` wrote"
            )
        chosen = Chosen(opened, where, stack, most)
        chosen.look(on_group)
        name = _name(where.source)
        left_out = _left_out(name, chosen)
        found = opened.found()
        data = {
            "version": 1,
            "source": name,
            "found": found,
            "made": f"{made.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "ruler": __version__,
            "figures": _figures(chosen.overview),
            "left_out": left_out.as_json(),
        }
        for piece in page(_values(data, chosen)):
            out.write(piece)
        out.commit()
        return Written(out.size, chosen.overview, found, left_out)


def now(environ: Mapping[str, str]) -> datetime:
    """The time, or what SOURCE_DATE_EPOCH says it is, so that a file can be made twice."""
    said = environ.get("SOURCE_DATE_EPOCH")
    try:
        return datetime.fromtimestamp(int(said), UTC) if said else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"SOURCE_DATE_EPOCH={said}: is no number of seconds since 1970; unset it") from None


def _left_out(name: str, chosen: Chosen) -> LeftOut:
    return LeftOut(
        "SCORED" if name == Location("-").shown else name,
        all=chosen.overview.groups,
        groups=chosen.overview.groups - len(chosen.ordinals),
        texts=len(chosen.ordinals) - len(chosen.texts),
        huge=chosen.huge,
        cut=chosen.cut,
        room=MOST_TEXTS,
    )


def _values(data: dict[str, Any], chosen: Chosen) -> dict[str, Any]:
    """What the template is filled with."""
    name = shown_name(data["source"])
    return {
        "title": f"{name} · ruler report",
        "ruler": data["ruler"],
        "caption": f"What ruler found in {name}, {data['made']}",
        "figures": plain_figures(chosen.overview),
        "left_out": data["left_out"]["rule"],
        "data": packed(chosen.data(data)).decode(),
        "said": packed(chosen.said()).decode(),
        "texts": chosen.blocks(),
    }


def _name(source: str) -> str:
    """An input as a page that is handed on names it: without the folders of this machine."""
    return Path(source).absolute().name if Location(source).local else Location(source).shown


def _figures(overview: Overview) -> dict[str, Any]:
    """The figures, with keys as the rows have them and no sentence of a megabyte."""
    found = overview_json(overview)
    found["judges"] = {few_words(name): groups for name, groups in found["judges"].items()}
    for reason in found["reasons"]:
        reason |= {"reason": few_words(reason["reason"]), "first": page_key(reason["first"])}
    return found
