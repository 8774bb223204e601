"""Programs of users as a type checker reads them, in both ways: right ones, and mistakes, each ignored.

A mistake that a checker does not find is an unused `type: ignore`, and so an error of `make types`.
`tests/test_types.py` has pyright read the same lines.
"""

from __future__ import annotations

from typing import Any, assert_type

from ruler_cli import (
    DEFAULT_RUBRIC,
    AskSettings,
    JudgedGroup,
    JudgeSettings,
    Kind,
    MaxFailures,
    Observer,
    PoolSettings,
    Problem,
    Scorer,
    ScoreSettings,
    Status,
    Summary,
    load_settings,
    score_file,
    score_group,
    score_groups,
)


class Group:
    """A group of a program's own."""


def options() -> None:
    """`settings` takes the options of the command, by name and type."""
    load_settings(
        model="offline",
        passes=3,
        price=(2, 8),
        param={"temperature": 0},
        ledger=None,
        max_failures="5%",
    )
    load_settings(
        model=["fast", "strong"],
        price=["2,8", (1, 2)],
        format="trl",
        config="none",
        rpm=None,
    )


def run() -> ScoreSettings:
    """Settings are typed values."""
    AskSettings(passes="3")  # type: ignore[arg-type]
    PoolSettings(max_price=3)  # type: ignore[call-arg]
    ScoreSettings(max_failures=MaxFailures(5, percent=True))
    ScoreSettings(max_failures="5%")
    ask = AskSettings(rubric=DEFAULT_RUBRIC + "\n- Be brief.")
    return ScoreSettings(
        judge=JudgeSettings("offline"), ask=ask, max_failures=5
    )


async def art() -> None:
    """A group comes back as what it was given, or as None, as ART's function says."""
    assert_type(await score_group(Group()), Group | None)
    (await score_group({"trajectories": []}, swallow_exceptions=True)).items()  # type: ignore[union-attr]


async def groups() -> None:
    """A result is generic in the group."""
    async with Scorer(run()) as scorer:
        judged = await scorer.score(Group())
        assert_type(judged, JudgedGroup[Group])
        assert_type(judged.group, Group)
        assert_type(judged.reason, str)
        assert_type(judged.kind, Kind | None)
        assert_type(judged.scores, tuple[float | None, ...])
    async for each in score_groups([Group()], load_settings(model="offline")):
        assert_type(each, JudgedGroup[Group])


def fields(judged: JudgedGroup[Any]) -> float:
    """The fields of a result have names and types."""
    assert_type(judged.fields, dict[str, Any])
    assert_type(judged.trajectories[0], dict[str, Any])
    print(judged.reasons)  # type: ignore[attr-defined]
    return float(judged.fields["reliability"] or 0.0)


class Bell(Observer):
    """An observer of a program's own."""

    def tick(self, summary: Summary, status: Status) -> None:
        """Ring if the judge is waited for."""
        if status.waiting:
            print("\a", summary.groups, status.why)

    def problem(self, problem: Problem) -> None:
        """Print a problem."""
        print(problem.where, problem.reason)


async def file() -> None:
    """A file is scored into another, and the summary has the counts."""
    summary = await score_file("in.jsonl", "out.jsonl", run(), observer=Bell())
    assert_type(summary, Summary)
    await score_file("in.jsonl")  # type: ignore[call-arg]
    await score_file("in.jsonl", "out.jsonl", {"passes": 3})  # type: ignore[arg-type]
