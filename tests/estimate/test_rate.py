"""What is told of a group without laying it out, held to what the plan says of its sheet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.estimate.notes import Noted
from ruler_cli.estimate.rate import Rate, passes
from ruler_cli.scoring import plan
from ruler_cli.scoring.request import lay_out
from ruler_cli.settings import AskSettings
from tests.values import group, talk


@given(
    number=st.integers(1, 60),
    asked=st.integers(1, 4),
    size=st.integers(2, 9),
    single=st.sampled_from(["flag", "score"]),
)
def test_without_a_context(number: int, asked: int, size: int, single: str) -> None:
    """Where only the number of rollouts counts, windows and passes are those of the plan."""
    ask = AskSettings(passes=asked, group_size=size, single="score" if single == "score" else "flag")
    sheet = lay_out(group(*(talk(f"answer {i}") for i in range(number))), ask)
    windows = Rate(400).windows(Noted(0, 0, number, number, 10, 0, None, None), ask)
    assert windows == plan.windows(sheet, ask)
    assert passes(windows, ask, alone=number == 1) == plan.turns(sheet, ask)
