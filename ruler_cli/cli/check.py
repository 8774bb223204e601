"""`ruler check INPUT`: read and group as `score` would, and say what it would take."""

from __future__ import annotations

import typer

from ruler_cli.cli import options
from ruler_cli.cli.console import Console, count, told
from ruler_cli.settings import AskSettings, InputSettings, JudgeSettings

_DEFAULT = JudgeSettings()


def command(
    source: options.Source,
    model: options.Model = _DEFAULT.model,
    api_base: options.ApiBase = None,
    rubric: options.Rubric = None,
    price: options.Price = None,
    group_by: options.GroupBy = None,
    grouping: options.Grouping = "auto",
    format_: options.Format = "auto",
) -> None:
    """Read and group INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 all can be scored; 1 some lines or groups cannot; 2 bad usage or unreadable input.
    """
    with told():
        judge = JudgeSettings(model, api_base, price=options.price(price))
        where = InputSettings(source, format_, grouping, group_by)
        fine = _check(where, judge, AskSettings(options.rubric(rubric)))
        raise typer.Exit(0 if fine else 1)


def _check(where: InputSettings, judge: JudgeSettings, ask: AskSettings) -> bool:
    from contextlib import ExitStack
    from dataclasses import replace

    from ruler_cli.estimate import estimate
    from ruler_cli.judges.choose import model_of
    from ruler_cli.reading import open_input
    from ruler_cli.records import Problem

    console = Console("log", "stdin" if where.source == "-" else where.source)
    model, lost = model_of(judge), 0

    def unreadable(problem: Problem) -> None:
        nonlocal lost
        lost += 1
        console.problem(problem)

    def counted(groups: Iterator[Group]) -> Iterator[Group]:
        nonlocal lost
        for group in groups:
            faults = [r for r in group.rollouts if r.fault is not None]
            empty = not group.rollouts
            lost += len(faults) + empty
            number = group.records[0].line.number
            for rollout in faults:
                path = ".".join(map(str, rollout.path))
                console.problem(Problem(number, f"`{path}` {rollout.fault}", b""))
            if empty:
                console.problem(Problem(number, "is a group without trajectories", b""))
            yield group

    from collections.abc import Iterator

    from ruler_cli.records import Group

    with ExitStack() as stack:
        found = open_input(where, stack, unreadable)
        result = estimate(counted(found.groups), replace(ask, context_tokens=model.context), model)
        console.close()
        for sentence in found.survey.warnings() if found.survey else ():
            console.warn(sentence)
    cost = "unknown (give --price IN,OUT)" if result.cost_usd is None else f"${result.cost_usd:.2f}"
    rows = [
        ("input", found.found()),
        ("judge", judge.model),
        ("calls", str(result.calls)),
        ("prompt tokens", f"about {result.prompt_tokens}"),
        ("completion tokens", f"about {result.completion_tokens}, reasoning not counted"),
        ("cost", cost),
        ("identical rollouts", str(result.identical_rollouts)),
        ("tied groups", f"{result.tied_groups} (one rollout, or all identical)"),
        ("suspect rollouts", f"{result.suspect} (text that addresses a judge)"),
        ("too long", str(result.too_long)),
        ("cannot be scored", count(lost, "line or trajectory")),
    ]
    for name, value in rows:
        typer.echo(f"{name + ':':<20}{value}")
    return not lost and not result.too_long
