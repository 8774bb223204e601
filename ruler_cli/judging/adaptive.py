"""The rule for further passes: two for every group, then two more while they help."""

from __future__ import annotations

from dataclasses import replace

from ruler_cli.scoring.statistics import TARGET, Noise, rate
from ruler_cli.scoring.tables import PassTables, variance_of
from ruler_cli.types import GroupResult

UNIT = 2
"""Further passes at a time: a single one would leave its positions in the mean."""
_USUAL_NOISE = 0.0081
_USUAL_DF = 4
"""The noise variance of a pass that is assumed, with so many degrees of freedom, beside what a group's passes show.

It is that of the simulated judge, position bias included. The noise of other groups would tell more, but then the
requests would depend on which groups were judged before.
"""


def needs_more(result: GroupResult) -> bool:
    """Return whether a group's rollouts differ by more than noise, but not yet reliably."""
    if result.missing or result.escalated_to is not None:
        return False
    variance = variance_of(result, PassTables(result).tables)
    if variance is None:
        return False
    assumed = replace(
        variance,
        rest=variance.rest + _USUAL_DF * _USUAL_NOISE,
        df_res=variance.df_res + _USUAL_DF,
    )
    rated = rate(assumed, Noise())
    if rated is None:
        return False
    reliability, tied = rated
    return reliability < TARGET and not tied
