"""`ruler.toml` as a file: the lines of its keys, and limits of named judges in the calls."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.runs.cluster import share_of
from ruler_cli.runs.file import score
from ruler_cli.settings.file import key_lines
from ruler_cli.settings.models import JudgeSettings, PoolSettings
from tests.conftest import group
from tests.runs import Stage, Stub
from tests.virtual import virtually

KEYS = st.sampled_from(["a", "b-c", "d_e", '"f.g"', "'h i'", '"j\\u00e9"', "1"])
VALUES = st.sampled_from([
    "1", "true", '"x # y"', "'[z]'", '"\\"="', "[1, 2]", "[\n 1, # c\n 'two', ]", "{ p = 1, q = '}' }",
    '"""a\n[b]\nc = 1"""', "'''\n# d\n'''", '"""\n\\"""\n"""', "[[1],\n [2]]", "1979-05-27T07:32:00Z", "inf",
])  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A TOML document with keys, tables, comments and empty lines."""
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        dotted = ".".join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        blank = draw(st.sampled_from(["", " ", "\t"]))
        line = draw(st.sampled_from(["header", "value", "value", "comment", "empty"]))
        if line == "header":
            lines.append(f"{blank}[{blank}{dotted}{blank}]{blank}# = [x]")
        elif line == "value":
            lines.append(f"{blank}{dotted}{blank}={blank}{draw(VALUES)}{blank}")
        else:
            lines.append("# [c] = 1" if line == "comment" else blank)
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


def paths(value: Any, before: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Every path of a parsed document."""
    if not isinstance(value, dict):
        return {before}
    return {before}.union(
        *(paths(inner, (*before, key)) for key, inner in value.items())
    )


@given(documents())
def test_lines_of_keys(text: str) -> None:
    """Each key of a document is found on the line where it stands, whatever stands in values and comments."""
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = text.replace("\r\n", "\n").split("\n")
    found = dict(key_lines(text))
    assert set(found) <= paths(whole)
    for path, line in found.items():
        assert tomllib.loads(f'x = "{path[-1]}"')["x"] in lines[line - 1].replace(
            "\\u00e9", "é"
        )
    tops = {(key,) for key in whole}
    assert tops <= set(found)


def run_with(
    stage: Stage, names: tuple[str, ...], pool: PoolSettings, **own: Any
) -> None:
    """Run judges of which the first has limits of its own, and no reply is known."""
    stage.forget()
    (stage.path / "ledger.sqlite").unlink(missing_ok=True)
    settings = replace(stage.settings(*names), pool=pool)
    settings = replace(settings, judge=replace(settings.judge, **own))
    assert virtually(lambda: score(settings)).summary.complete


def test_limits_of_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge's own limits hold in the place of the run's, and another judge has those of the run."""
    groups = [group(f"g{i}", 0.1, 0.9) for i in range(40)]
    one, two = Stub("one"), Stub("two")
    stage = Stage(tmp_path, monkeypatch, groups, one, two)
    run_with(stage, ("one", "two"), PoolSettings(concurrency=5), concurrency=2)
    assert (one.most, two.most) == (2, 5)
    run_with(stage, ("one",), PoolSettings(concurrency=40, rpm=600), rpm=6)
    assert one.times[-1][0] - one.times[0][0] > 4 * 60  # 40 requests at 6 a minute
    run_with(stage, ("one",), PoolSettings(concurrency=40, rpm=6), rpm=600)
    assert one.times[-1][0] - one.times[0][0] < 30


def test_shares_of_workers() -> None:
    """Workers of Ray share the limits of each judge and of the run: together they have all of them."""
    judge, pool = (
        JudgeSettings(rpm=10, tpm=900, concurrency=5),
        PoolSettings(rpm=10, tpm=900, concurrency=5),
    )
    shares: list[list[Any]] = [
        [share_of(judge, number, 3) for number in range(3)],
        [share_of(pool, number, 3) for number in range(3)],
    ]
    for parts in shares:
        assert sum(part.concurrency for part in parts) == 5
        assert sum(part.rpm for part in parts) == pytest.approx(10)
        assert sum(part.tpm for part in parts) == pytest.approx(900)
    assert share_of(JudgeSettings(), 0, 3) == JudgeSettings()
    named = JudgeSettings("m", name="fast", rpm=5)
    own = JudgeSettings(max_outage=0)
    assert PoolSettings(max_outage=9).of(own) == PoolSettings(max_outage=0)
    assert PoolSettings(rpm=50, tpm=7, max_cost=1).of(named) == PoolSettings(
        rpm=5, tpm=7, max_cost=1
    )
