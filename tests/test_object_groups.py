"""Values from Python: settings, groups and their members, and errors, as a program may give or keep them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import (
    AskSettings,
    CapReached,
    InputSettings,
    JudgeSettings,
    MaxFailures,
    NotScoredError,
    PoolSettings,
    RulerError,
    Scorer,
    ScoreSettings,
    TooManyFailures,
    UsageError,
    WrongShapeError,
)
from tests.conftest import rollout
from tests.judge_server import JudgeServer

OFFLINE = ScoreSettings(judge=JudgeSettings("offline"), ledger=None)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(
            ({"judge": {"price": price}}, sentence)
            for price, sentence in (
                ((-5, -5), "--price -5: give a number of 0 or more"),
                ((1, float("nan")), "--price nan"),
                ((0.0, float("inf")), "--price inf"),
                ((1,), r"settings.judge.price: is of type tuple\[int\]; give tuple\[float, float\] | None"),
                ("1,2", "settings.judge.price: is of type str"),
            )
        ),
        ({"judge": {"via": "https"}}, "settings.judge.via: is none of 'auto', 'http', 'litellm'"),
        ({"judge": {"timeout": None}}, "settings.judge.timeout: is of type NoneType; give float"),
        ({"judge": {"params": None}}, "settings.judge.params: is of type NoneType; give Mapping"),
        (
            {"panel": ("openai/x",)},
            r"panel: is of type tuple\[str\]; give tuple\[JudgeSettings, ...\]",
        ),
        ({"pool": {"concurrency": 3}}, "settings.pool: is of type dict; give PoolSettings"),
        ({"pool": PoolSettings(retries=2.5)}, "settings.pool.retries: is of type float"),  # type: ignore[arg-type]
        ({"grace": None}, "settings.grace: is of type NoneType; give float"),
        ({"grace": -1.0}, "grace -1: give a number of 0 or more"),
        ({"max_failures": MaxFailures("5")}, "settings.max_failures.number: is of type str"),  # type: ignore[arg-type]
        ({"max_failures": MaxFailures(-1)}, "--max-failures -1: give a number of 0 or more"),
        ({"max_failures": MaxFailures(500, percent=True)}, "--max-failures 500: give a number from 0 to 100"),
        ({"ask": AskSettings(context_tokens=-5)}, "context_tokens -5"),
        ({"ask": AskSettings(rubric=" \n")}, "rubric: is empty"),
        ({"adaptive": "no"}, "settings.adaptive: is of type str; give bool"),
        ({"ledger": "none"}, r"settings.ledger: is of type str; give Path \| None"),
        ({"ledgers": "b.sqlite"}, r"settings.ledgers: is of type str; give tuple\[Path, ...\]"),
        ({"input": InputSettings(outcome=5)}, "settings.input.outcome: is of type int"),  # type: ignore[arg-type]
    ],
)
def test_settings_of_wrong_values(wrong: dict[str, Any], sentence: str) -> None:
    """A value that a setting cannot have is refused with its place, before a judge is asked."""
    judge = JudgeSettings("offline", **wrong.get("judge", {}))
    with pytest.raises(UsageError, match=sentence):
        Scorer(ScoreSettings(**{"ledger": None, **wrong, "judge": judge}))


def test_home_of_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in the path of a ledger is the user's home."""
    monkeypatch.setenv("HOME", "/home/of/mine")
    settings = ScoreSettings(ledger=Path("~/a.sqlite"), ledgers=(Path("~/b.sqlite"),))
    assert (settings.ledger, settings.ledgers) == (
        Path("/home/of/mine/a.sqlite"),
        (Path("/home/of/mine/b.sqlite"),),
    )


@pytest.mark.anyio
async def test_single(server: JudgeServer) -> None:
    """`AskSettings(single="score")` alone gives a lone rollout a score that counts."""
    judge = JudgeSettings("openai/good", server.base)
    settings = ScoreSettings(judge=judge, ask=AskSettings(single="score", passes=2), ledger=None)
    async with Scorer(settings) as scorer:
        judged = await scorer.score({"trajectories": [rollout(0.7)]})
    assert (judged.scores, judged.tied, judged.fields["passes"]) == ((0.7,), False, 2)


@pytest.mark.parametrize(
    "error",
    [
        CapReached(1.0, 3, 2),
        NotScoredError("reply", "no answer"),
        TooManyFailures("5%"),
        WrongShapeError("settings: are wrong"),
    ],
)
def test_errors_of_other_processes(error: RulerError) -> None:
    """An error keeps its sentence, its exit code and its kind in a pickle and in a copy."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert (str(other), other.exit_code, vars(other)) == (str(error), error.exit_code, vars(error))
