"""Limits of named judges in the calls, and shares of Ray's workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.runs.cluster import share_of
from ruler_cli.runs.file import score
from ruler_cli.settings.load import load_settings
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from ruler_cli.types import Summary
from tests.conftest import group
from tests.runs import Stage, Stub
from tests.virtual import virtually


def run_with(
    stage: Stage, names: tuple[str, ...], pool: PoolSettings, **own: Any
) -> None:
    """Run judges of which the first has limits of its own, and no reply is known."""
    stage.forget()
    (stage.path / "ledger.sqlite").unlink(missing_ok=True)
    settings = replace(stage.settings(*names), pool=pool)
    settings = replace(settings, judge=replace(settings.judge, **own))
    assert virtually(lambda: score(settings)).summary.complete


def test_limits_of_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge's own limits hold in the place of the run's, and another judge has those of the run."""
    groups = [group(f"g{i}", 0.1, 0.9) for i in range(40)]
    one, two = Stub("one"), Stub("two")
    stage = Stage(tmp_path, monkeypatch, groups, one, two)
    run_with(stage, ("one", "two"), PoolSettings(concurrency=5), concurrency=2)
    assert (one.most, two.most) == (2, 5)
    run_with(stage, ("one",), PoolSettings(concurrency=40, rpm=600), rpm=6)
    assert (
        one.times[-1][0] - one.times[0][0] > 4 * 60
    )  # 40 requests at 6 a minute
    run_with(stage, ("one",), PoolSettings(concurrency=40, rpm=6), rpm=600)
    assert one.times[-1][0] - one.times[0][0] < 30


def test_whole_numbers() -> None:
    """A whole number that is a text is that number, however large; a blank question is refused."""
    large = 1732900000123456789
    for seed in (large, str(large)):
        assert load_settings(config="none", seed=seed).ask.seed == large
    assert load_settings(config="none", passes="2.0").ask.passes == 2
    with pytest.raises(UsageError, match="question: is empty"):
        load_settings(config="none", read="probability", question=" ")


def test_shares_of_workers() -> None:
    """Workers of Ray share the limits of each judge and of the run: together they have all of them."""
    judge = JudgeSettings(rpm=10, tpm=900, concurrency=5)
    parts = [share_of(judge, number, 3) for number in range(3)]
    assert [part.concurrency for part in parts] == [2, 2, 1]
    assert parts[0].rpm == pytest.approx(10 / 3)
    assert parts[0].tpm == pytest.approx(300)
    assert share_of(JudgeSettings(), 0, 3) == JudgeSettings()
    named = JudgeSettings("m", name="fast", rpm=5)
    own = JudgeSettings(max_outage=0)
    assert PoolSettings(max_outage=9).of(own) == PoolSettings(max_outage=0)
    assert PoolSettings(rpm=50, tpm=7, max_cost=1).of(named) == PoolSettings(
        rpm=5, tpm=7, max_cost=1
    )


def test_parts_of_a_run() -> None:
    """Counts of Ray's workers add up, and their texts do not."""
    part = Summary(groups=2, failed={"reply": 1}, rubric_texts={"a": "Kind."})
    whole = Summary.of([part, part, Summary(cost_usd=None)])
    assert (whole.groups, whole.failed) == (4, {"reply": 2})
    assert (whole.cost_usd, whole.rubric_texts) == (None, {})
