"""`make simulate`: its measures are right, and a quick run reproduces the tables."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.simulation.corrections import Cell, Coverage, world
from benchmarks.simulation.measures import Measured, measured, spearman
from benchmarks.simulation.reference import Beside, Mean
from benchmarks.simulation.spending import Spent, at_equal_cost, at_equal_error

ROOT = Path(__file__).parent.parent


@pytest.mark.long
def test_quick_run(tmp_path: Path) -> None:
    """It ends with 0, every row of the product is within its error, and it writes the printed table."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
    }
    written = tmp_path / "gain.md"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.simulate",
            "--quick",
            "--markdown",
            str(written),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NO" not in done.stdout
    table = written.read_text(encoding="utf-8")
    assert done.stdout.endswith(f"\n{table}\n")
    assert table.startswith(
        "Simulated (`make simulate`), not measured on a live judge"
    )
    corrections = written.with_name("corrections.md").read_text(
        encoding="utf-8"
    )
    assert f"\n{corrections}\n" in done.stdout
    assert "| 20 | useless |" in corrections
    for option in (
        "--set",
        "debias=true",
        "--passes 2",
        "--passes 6 --set adaptive=true",
        "--group-size 8",
    ):
        assert f"`{option}`" in table


def test_error_of_the_truth() -> None:
    """True scores measure 0, reversed ones get every sign wrong, and tied groups count apart."""
    truths = [0.1, 0.3, 0.5, 0.7, 0.9]
    exact = measured([(truths, truths), ([0.5] * 5, [0.5] * 5)])
    assert (exact.rmse, exact.wrong_sign, exact.worst, exact.tied) == (
        0,
        0,
        0,
        0,
    )
    assert exact.spearman == pytest.approx(1)
    wrong = measured([(truths, truths[::-1]), ([0.5] * 5, truths)])
    assert wrong.spearman == pytest.approx(-1)
    assert wrong.wrong_sign == pytest.approx(1)
    assert wrong.rmse == wrong.worst > 1.5
    assert wrong.tied > 0.5
    assert spearman(truths, [0.5] * 5) == 0


def test_rows_within_three_errors() -> None:
    """Both standard errors count; rows that are not ruler's are shown and not checked."""
    assert Beside("4 balanced", "rmse", Mean(0.584, 0.004), 0.570, 0.003).holds
    assert not Beside(
        "4 balanced", "rmse", Mean(0.586, 0.004), 0.570, 0.003
    ).holds
    assert Beside(
        "4 balanced", "rmse", Mean(0.586, 0.004), 0.570, 0.003
    ).checked
    assert not Beside("Borda", "rmse", Mean(0.9, 0.004), 0.687, 0.003).checked
    assert Mean.of([1.0, 2.0, 3.0]).value == 2
    assert Mean.of([1.0, 2.0, 3.0]).error == pytest.approx(1 / 3**0.5)


def test_equal_error() -> None:
    """Costs and errors between those of two uniform numbers of passes are interpolated in logarithms."""
    uniform = [
        Spent(passes, Measured(rmse, 0, 0, 0, 0))
        for passes, rmse in ((2, 0.8), (4, 0.4), (8, 0.2))
    ]
    for passes, rmse in (
        (2, 0.8),
        (3, 1.6 / 3),
        (4, 0.4),
        (6, 1.6 / 6),
        (8, 0.2),
    ):
        assert at_equal_cost(uniform, passes, "rmse") == pytest.approx(rmse)
        assert at_equal_error(uniform, rmse) == pytest.approx(passes)


def test_coverage() -> None:
    """An interval holds its truth at its ends too; a coverage of 94 % may be off by three Monte Carlo errors."""
    one = Coverage.of(
        [0.5] * 4, [(0.5, 0.6), (0.4, 0.5), (0.6, 0.7), (0.0, 1.0)]
    )
    assert one.share == 0.75
    assert one.width == pytest.approx(0.325)
    assert Coverage(0.918, 0.1).holds(1_000)
    assert not Coverage(0.917, 0.1).holds(1_000)
    assert Coverage(0.917, 0.1).holds(100)


def test_worlds_with_labels() -> None:
    """The mean label of a simulated world is its truth, and a judge that is nearly right is wrong in 5 %."""
    for share in (0.5, 0.85):
        cell = Cell(20, 4, "right", share)
        dice = random.Random(1)
        rows = [
            row
            for _ in range(20)
            for group in world(cell, dice)
            for row in group
        ]
        assert fmean(label for _, label in rows) == pytest.approx(
            share, abs=0.02
        )
        wrong = fmean(score != label for score, label in rows)
        assert wrong == pytest.approx(0.05, abs=0.01)
