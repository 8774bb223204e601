"""What a person is told of options on how replies become scores."""

from __future__ import annotations

import pytest

from ruler_cli.cli.combining import unmet
from ruler_cli.figures import Figures
from ruler_cli.observer import Summary
from ruler_cli.settings import CombineSettings, InputSettings, ScoreSettings


@pytest.mark.parametrize(
    ("debias", "figures", "told"),
    [
        (True, Figures(groups=3, slot_groups=3), True),
        (True, Figures(groups=30, slot_groups=30, debiased=True), False),
        (True, Figures(), False),
        (True, None, False),
        (False, Figures(groups=3, slot_groups=3), False),
    ],
)
def test_a_curve_that_was_not_subtracted_is_told(debias: bool, figures: Figures | None, told: bool) -> None:
    """Where --debias could do nothing for want of groups, a sentence says so and how many there are."""
    settings = ScoreSettings(InputSettings("-"), "-", combine=CombineSettings(debias=debias))
    said = unmet(settings, Summary(figures=figures))
    assert (said is not None) is told
    if said is not None:
        assert "--debias" in said
        assert "there are 3" in said
