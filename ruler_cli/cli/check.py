"""`ruler check INPUT`: read and group as `score` would, and say what it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli import options
from ruler_cli.cli.console import Console, safe, told
from ruler_cli.errors import UsageError
from ruler_cli.settings import AskSettings, InputSettings, JudgeSettings

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from ruler_cli.cli.page import Page
    from ruler_cli.estimate import Estimate
    from ruler_cli.judges.prices import Model
    from ruler_cli.notes import Notes, Overview
    from ruler_cli.reading import Input
    from ruler_cli.shelf import Shelf

_DEFAULT = JudgeSettings()


def command(
    source: options.Source,
    model: options.Model = _DEFAULT.model,
    api_base: options.ApiBase = None,
    rubric: options.Rubric = None,
    param: options.Param = None,
    order: options.Order = "random",
    seed: options.Seed = 0,
    price: options.Price = None,
    group_by: options.GroupBy = None,
    reward: options.Reward = None,
    messages: options.Messages = None,
    outcome: options.Outcome = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    ledger: options.Ledger = None,
    as_json: Annotated[
        bool, typer.Option("--json", envvar="RULER_JSON", help="Print one JSON object instead.")
    ] = False,
) -> None:
    """Read and group INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    What the ledger holds already is not counted. Figures are low, expected and high. Of more than
    64 MB some groups are laid out, and figures that rest on them are told as such.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 all can be scored; 1 some lines or groups cannot; 2 bad usage or unreadable input.
    """
    with told():
        from ruler_cli.ledger import located

        judge = JudgeSettings(model, api_base, params=options.params(param), price=options.price(price))
        where = InputSettings(source, format_, grouping, group_by, reward, messages, outcome)
        ask = AskSettings(options.rubric(rubric), order, seed)
        fine = _check(where, judge, ask, located(ledger), as_json=as_json)
        raise typer.Exit(0 if fine else 1)


def _check(
    where: InputSettings, judge: JudgeSettings, ask: AskSettings, ledger: Path | None, *, as_json: bool
) -> bool:
    from contextlib import ExitStack
    from dataclasses import replace

    from ruler_cli.cli.found import Found
    from ruler_cli.cli.page import Page
    from ruler_cli.files.remote import public
    from ruler_cli.files.source import shown
    from ruler_cli.judges.answer_form import EMBEDDED
    from ruler_cli.judges.choose import choose, model_of
    from ruler_cli.reading import open_input

    console = Console("log", shown(where.source), float("inf"))
    model = model_of(judge)
    if judge.model in EMBEDDED:
        choose(judge)  # it needs no key, and refuses the parameters that `score` would refuse
    with ExitStack() as stack:
        shelf = _shelf(judge, ledger, stack)
        seen = stack.enter_context(Found(console, quiet=as_json))
        found = open_input(where, stack, seen.unreadable, seen.opened, seen.record)
        ask = replace(ask, context_tokens=model.context)
        result, whole = _estimate(found, seen.notes, ask, model, judge, shelf)
        warnings = (*found.notes, *(found.survey.warnings() if found.survey else ()))
        agreed = seen.agreed(found.reader)
        places = seen.places(found.reader, where)
        page = Page(
            public(where.source), judge.model, found, *agreed, places, seen.notes, whole, result, model,
            seen.lost, warnings, seen.unit,
        )  # fmt: skip
        if as_json:
            seen.write_json(page)
        else:
            _show(page, console)
    return not page.lost and not result.too_long


def _estimate(
    found: Input, notes: Notes, ask: AskSettings, model: Model, judge: JudgeSettings, shelf: Shelf | None
) -> tuple[Estimate, Overview]:
    """From all groups of a small input, or of one that can be read once; from some of a large one."""
    from ruler_cli.estimate import estimate
    from ruler_cli.extrapolate import SMALL, extrapolate

    if found.survey is None or notes.bytes <= SMALL:
        result = estimate(found.groups, ask, model, judge.params, shelf)
        return result, notes.overview()
    whole = notes.overview()
    return extrapolate(notes, whole, found.picked, ask, model, judge.params, shelf), whole


def _show(page: Page, console: Console) -> None:
    from ruler_cli.cli.page import rows

    for sentence in page.warnings:
        console.warn(sentence)
    for name, value in rows(page):
        typer.echo(f"{name + ':':<20}{safe(value)}".replace("\n", "\\n").replace("\t", "\\t"))


def _shelf(judge: JudgeSettings, place: Path | None, stack: ExitStack) -> Shelf | None:
    """The kept replies where `score` would look for them; a ledger that is not there is not made."""
    from ruler_cli.judges.answer_form import EMBEDDED
    from ruler_cli.ledger import Ledger
    from ruler_cli.shelf import Shelf

    if place is None or judge.model in EMBEDDED:
        return None
    try:
        if not place.exists() or (place.is_file() and not place.stat().st_size):
            return None
    except OSError as error:
        raise UsageError(f"{place}: cannot be read: {error.strerror}") from None
    return Shelf(stack.enter_context(Ledger(place)), judge.model, judge.params)
