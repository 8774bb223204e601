"""`ruler check INPUT`: read and group as `score` would, and say what it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli import options, sharing
from ruler_cli.cli.console import Console, safe, told
from ruler_cli.settings import AskSettings, InputSettings, JudgeSettings, ScoreSettings

if TYPE_CHECKING:
    from contextlib import ExitStack

    from ruler_cli.cli.page import Page
    from ruler_cli.estimate.batched import Batched
    from ruler_cli.estimate.bill import Seat
    from ruler_cli.estimate.notes import Notes, Overview
    from ruler_cli.estimate.outlay import Role
    from ruler_cli.estimate.whole import Estimate
    from ruler_cli.ledger import Ledger
    from ruler_cli.reading import Input

_ASK = AskSettings()


def command(
    source: options.Source,
    model: options.Models = None,
    api_base: options.ApiBase = None,
    rubric: options.Rubric = None,
    param: options.Param = None,
    order: options.Order = "random",
    seed: options.Seed = 0,
    passes: options.Passes = _ASK.passes,
    group_size: options.GroupSize = _ASK.group_size,
    single: options.Single = _ASK.single,
    fallback: options.Fallback = False,
    adaptive: options.Adaptive = False,
    escalate: options.Escalate = None,
    price: options.Prices = None,
    group_by: options.GroupBy = None,
    reward: options.Reward = None,
    messages: options.Messages = None,
    prompt: options.Prompt = None,
    outcome: options.Outcome = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    ledger: sharing.Ledgers = None,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch", envvar="RULER_BATCH", help="Show, too, what it takes by a provider's batch API."
        ),
    ] = False,
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
        names = options.models(model, escalate, fallback=fallback)
        scoring = 1 if fallback else len(names)
        options.refuse_passes(passes, judges=scoring, adaptive=adaptive, escalate=escalate)
        last = [] if escalate is None else [escalate]
        first_ledger, more_ledgers = sharing.ledgers(ledger)
        params, prices = options.params(param), options.prices(price, len(names + last))
        first, *others = (
            JudgeSettings(name, api_base, params=params, price=each)
            for name, each in zip(names + last, prices, strict=True)
        )
        settings = ScoreSettings(
            InputSettings(source, format_, grouping, group_by, reward, messages, outcome, prompt=prompt),
            "",
            first,
            AskSettings(
                options.rubric(rubric), order, seed, passes=passes, group_size=group_size, single=single
            ),
            ledger=first_ledger,
            ledgers=more_ledgers,
            panel=tuple(others[: len(names) - 1]),
            fallback=fallback,
            adaptive=adaptive,
            escalate=others[-1] if last else None,
        )
        raise typer.Exit(0 if _check(settings, batch=batch, as_json=as_json) else 1)


def _check(settings: ScoreSettings, *, batch: bool, as_json: bool) -> bool:
    """Whether all can be scored."""
    from contextlib import ExitStack

    from ruler_cli.cli.found import Found
    from ruler_cli.cli.page import Page
    from ruler_cli.files.remote import public
    from ruler_cli.files.source import shown
    from ruler_cli.reading import open_input

    where = settings.input
    console = Console("log", shown(where.source), float("inf"))
    with ExitStack() as stack:
        seats = _seats(settings, stack)
        seen = stack.enter_context(Found(console, quiet=as_json))
        found = open_input(where, stack, seen.unreadable, seen.opened, seen.record, seen.again)
        result, whole = _estimate(found, seen.notes, settings, seats)
        doubts = found.survey.warnings() if found.survey else found.openings.sentences()
        warnings = (*found.notes, *doubts, *result.coverage.doubts())
        agreed = seen.agreed(found.reader)
        places = seen.places(found.reader, where)
        page = Page(
            public(where.source), found, *agreed, places, seen.notes, whole, result, settings.ask.passes,
            settings.adaptive, seen.lost, warnings, seen.unit, _batched(settings, result) if batch else None,
        )  # fmt: skip
        if as_json:
            seen.write_json(page)
        else:
            _show(page, console)
    return not page.lost and not result.too_long


def _seats(settings: ScoreSettings, stack: ExitStack) -> list[Seat]:
    """The judges that `score` would ask, with the kept replies of each."""
    from ruler_cli.estimate.bill import Seat
    from ruler_cli.judges.answer_form import EMBEDDED
    from ruler_cli.judges.choose import choose, model_of
    from ruler_cli.ledger import ReplyCache

    roles = _roles(settings)
    embedded = [judge for judge, _ in roles if judge.model in EMBEDDED]
    for judge in embedded:
        choose(judge)  # it needs no key, and refuses the parameters that `score` would refuse
    ledger = _ledgers(settings, stack) if len(embedded) < len(roles) else None
    shelves = [
        None if ledger is None or judge in embedded else ReplyCache(ledger, judge.model, judge.params)
        for judge, _ in roles
    ]
    return [
        Seat(judge.model, model_of(judge), judge.params, shelf, role, number if role == "panel" else 0)
        for number, ((judge, role), shelf) in enumerate(zip(roles, shelves, strict=True))
    ]


def _roles(settings: ScoreSettings) -> list[tuple[JudgeSettings, Role]]:
    roles: list[tuple[JudgeSettings, Role]] = [(settings.judge, "panel")]
    roles += [(judge, "fallback" if settings.fallback else "panel") for judge in settings.panel]
    return roles + ([(settings.escalate, "escalation")] if settings.escalate else [])


def _batched(settings: ScoreSettings, result: Estimate) -> tuple[Batched, ...]:
    """What the same takes in batches, by judge."""
    from ruler_cli.estimate.batched import batched
    from ruler_cli.judges.choose import batch_price, lists_batches
    from ruler_cli.judges.targets import LIMITS, Limits, batches_of

    found = []
    for (judge, _), outlay in zip(_roles(settings), result.judges, strict=True):
        target = batches_of(judge)
        limits, listed = LIMITS[target] if target else Limits(), lists_batches(judge)
        found.append(batched(outlay, target, limits, batch_price(judge), listed=listed))
    return tuple(found)


def _estimate(
    found: Input, notes: Notes, settings: ScoreSettings, seats: list[Seat]
) -> tuple[Estimate, Overview]:
    """From all groups of a small input, or of one that can be read once; from some of a large one."""
    from ruler_cli.estimate.extrapolate import SMALL, extrapolate
    from ruler_cli.estimate.whole import estimate

    ask, adaptive = settings.ask, settings.adaptive
    if found.survey is None or notes.bytes <= SMALL:
        result = estimate(found.groups, ask, seats, adaptive=adaptive)
        return result, notes.overview()
    whole = notes.overview()
    return extrapolate(notes, whole, found.picked, ask, seats, adaptive=adaptive), whole


def _show(page: Page, console: Console) -> None:
    from ruler_cli.cli.page import rows

    for sentence in page.warnings:
        console.warn(sentence)
    for name, value in rows(page):
        typer.echo(f"{name + ':':<20}{safe(value)}".replace("\n", "\\n").replace("\t", "\\t"))


def _ledgers(settings: ScoreSettings, stack: ExitStack) -> Ledger | None:
    """The kept replies where `score` would look for them; a ledger that is not there is not made."""
    from ruler_cli.ledger import Ledger

    if settings.ledger is None:
        return None
    return stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))
