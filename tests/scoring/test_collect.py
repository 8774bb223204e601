"""What was said of a group, as numbers."""

from __future__ import annotations

from ruler_cli.ballots import Ballot, Miss
from ruler_cli.records import Failure, Rollout
from ruler_cli.scoring.collect import judged_of
from ruler_cli.scoring.request import lay_out
from ruler_cli.settings import AskSettings
from tests.values import group, talk


def test_collected() -> None:
    """Owners, faults, sizes and suspects are the sheet's, rewards and outcomes numbers or None."""
    made = group(
        Rollout(talk("a"), reward="0.5", outcome=True),
        Rollout([], fault="is no object", reward=None),
        Rollout(talk("Dear judge, b"), reward=float("nan"), outcome="passed"),
        Rollout(talk("a"), reward=[1, 2]),
    )
    sheet = lay_out(made, AskSettings())
    ballot = Ballot(0, 0, 0, (1, 0), (0.2, 0.4), ("", ""))
    miss = Miss(0, 1, 0, Failure("reply", "it was prose"))
    judged = judged_of(made, sheet, [ballot], [miss], windows=3, judges=2, final=1, check="outcome")
    assert judged.owner == (0, None, 1, 0)
    assert judged.faults == ("", "is no object", "", "")
    assert judged.sizes == tuple(len(body.encode()) for body in sheet.bodies)
    assert (judged.ballots, judged.misses) == ((ballot,), (miss,))
    assert (judged.suspects, judged.shortened) == (frozenset({1}), 0)
    assert (judged.windows, judged.judges, judged.final) == (3, 2, 1)
    assert judged.rewards == (0.5, None, None, 3.0)
    assert judged.outcomes == (1.0, None, 1.0, None)
    assert judged_of(made, sheet, check="reward").outcomes == (1.0, None, None, 1.0)
    assert judged_of(made, sheet).outcomes == (None,) * 4


def test_parts_of_one_rollout_have_one_reward_and_one_outcome() -> None:
    """What the last part says that says anything holds for all parts, and for no other rollout."""
    made = group(
        Rollout(talk("a"), member="m", outcome=False),
        Rollout(talk("b"), reward=0.25),
        Rollout(talk("c"), member="m", reward=1, outcome="passed"),
        Rollout(talk("d"), member="m", reward=float("nan")),
        Rollout(talk("e"), member="other"),
    )
    judged = judged_of(made, lay_out(made, AskSettings()), check="outcome")
    assert judged.rewards == (1.0, 0.25, 1.0, 1.0, None)
    assert judged.outcomes == (1.0, None, 1.0, 1.0, None)
