"""`ruler check INPUT`: read and group as `score` would, and say what it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ruler_cli.cli import options
from ruler_cli.cli.console import Console, count, safe, told
from ruler_cli.errors import UsageError
from ruler_cli.settings import AskSettings, InputSettings, JudgeSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from ruler_cli.estimate import Estimate, Range
    from ruler_cli.judges.prices import Model
    from ruler_cli.records import Group, Problem
    from ruler_cli.shelf import Shelf

_DEFAULT = JudgeSettings()
_PRICE = "unknown (give --price IN,OUT, in USD per million prompt and completion tokens)"


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
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
    ledger: options.Ledger = None,
) -> None:
    """Read and group INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    What the ledger holds already is not counted. Figures are low, expected and high.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 all can be scored; 1 some lines or groups cannot; 2 bad usage or unreadable input.
    """
    with told():
        from ruler_cli.ledger import located

        judge = JudgeSettings(model, api_base, params=options.params(param), price=options.price(price))
        where = InputSettings(source, format_, grouping, group_by)
        fine = _check(where, judge, AskSettings(options.rubric(rubric), order, seed), located(ledger))
        raise typer.Exit(0 if fine else 1)


def _check(where: InputSettings, judge: JudgeSettings, ask: AskSettings, ledger: Path | None) -> bool:
    from contextlib import ExitStack
    from dataclasses import replace

    from ruler_cli.estimate import estimate
    from ruler_cli.judges.answer_form import EMBEDDED
    from ruler_cli.judges.choose import choose, model_of
    from ruler_cli.reading import open_input

    lost = _Lost(where)
    model = model_of(judge)
    if judge.model in EMBEDDED:
        choose(judge)  # it needs no key, and refuses the parameters that `score` would refuse
    with ExitStack() as stack:
        shelf = _shelf(judge, ledger, stack)
        found = open_input(where, stack, lost.unreadable)
        ask = replace(ask, context_tokens=model.context)
        result = estimate(lost.counted(found.groups), ask, model, judge.params, shelf)
        lost.console.close()
        for sentence in found.survey.warnings() if found.survey else ():
            lost.console.warn(sentence)
    rows = [
        ("input", found.found()),
        ("judge", judge.model),
        *_money(result, model),
        ("identical rollouts", str(result.identical_rollouts)),
        ("tied groups", f"{result.tied_groups} (one rollout, or all identical)"),
        ("suspect rollouts", f"{result.suspect} (text that addresses a judge)"),
        ("too long", str(result.too_long)),
        ("cannot be scored", count(lost.number, "line or trajectory")),
    ]
    for name, value in rows:
        typer.echo(f"{name + ':':<20}{safe(value)}".replace("\n", "\\n"))
    return not lost.number and not result.too_long


class _Lost:
    """Names and counts what cannot be scored."""

    def __init__(self, where: InputSettings) -> None:
        self.console = Console("log", "stdin" if where.source == "-" else where.source)
        self.number = 0

    def unreadable(self, problem: Problem) -> None:
        """A line, or a trajectory of one."""
        self.number += 1
        self.console.problem(problem)

    def counted(self, groups: Iterator[Group]) -> Iterator[Group]:
        """The groups, each after what is wrong with it has been told."""
        from ruler_cli.records import Problem

        for group in groups:
            rollouts = group.rollouts
            number, place = group.records[0].line.number, group.records[0].line.place
            for rollout in rollouts:
                if rollout.fault is not None:
                    path = ".".join(map(str, rollout.path))
                    self.unreadable(Problem(number, f"`{path}` {rollout.fault}", b"", place))
            if not rollouts:
                self.unreadable(Problem(number, "is a group without trajectories", b"", place))
            yield group


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


def _money(found: Estimate, model: Model) -> list[tuple[str, str]]:
    """What is left to ask and what it takes."""
    thinking = {
        True: ", thinking included",
        False: "",
        None: "; the most allows for thinking, which is not known of this model",
    }
    cost, cap = found.cost_usd, found.cap_usd
    enough = "no call is left" if not found.calls.high else "or more lets every call go, at the highest cost"
    return [
        ("calls", f"{found.calls.expected:.0f} (up to {found.calls.high:.0f})"),
        ("kept", _kept(found)),
        ("prompt tokens", _about(found.prompt_tokens)),
        ("completion tokens", _about(found.completion_tokens) + thinking[model.reasoning]),
        ("cost", _PRICE if cost is None else _dollars(cost)),
        ("--max-cost", "unknown, as the cost is" if cap is None else f"{_rounded(cap, up=True)} {enough}"),
    ]


def _kept(found: Estimate) -> str:
    calls = count(found.kept + int(found.calls.expected), "call")
    if not found.kept:
        return f"0 of {calls}"
    failed = f"; {found.kept_failed} failed, --retry-failed asks again" if found.kept_failed else ""
    return f"{found.kept} of {calls}, not paid again{failed}"


def _about(tokens: Range) -> str:
    return f"about {tokens.expected:.0f} (from {tokens.low:.0f} to {tokens.high:.0f})"


def _dollars(cost: Range) -> str:
    low, high = _rounded(cost.low, up=False), _rounded(cost.high, up=True)
    return f"${_rounded(cost.expected)} (from ${low} to ${high})"


def _rounded(usd: float, *, up: bool | None = None) -> str:
    """To the cent, and below ten cents to two digits that count: little is not nothing."""
    from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

    exact = Decimal(f"{usd:.9g}")
    cents = 2 if not usd or usd >= 0.1 else 1 - exact.adjusted()
    how = ROUND_HALF_EVEN if up is None else ROUND_CEILING if up else ROUND_FLOOR
    return f"{exact.quantize(Decimal(1).scaleb(-cents), how):f}"
