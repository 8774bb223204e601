"""The public names of the package: what `dir` shows, and what importing them takes."""

from __future__ import annotations

import ast
import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
import ruler_cli.cli
from ruler_cli import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
)
from ruler_cli.cli.command import options_of
from ruler_cli.cli.config import read_words
from ruler_cli.errors import UsageError
from ruler_cli.settings.fields import SECTIONS, setting_of
from ruler_cli.settings.load import RUN_FIELDS, score_settings, variables_of
from ruler_cli.settings.options import COMMANDS
from tests.conftest import ROOT

PROGRAM = """
import sys
import ruler_cli

before = dir(ruler_cli)
values = [getattr(ruler_cli, name) for name in before]
assert before == dir(ruler_cli) == sorted(ruler_cli.__all__), dir(ruler_cli)
assert None not in values
ruler_cli.load_settings(model="offline", config="none")
print([name for name in sys.modules if name.startswith(("ruler_cli.cli", "typer"))])
"""


def test_names() -> None:
    """`dir` shows the public names only, and neither they nor `settings` need the command line."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def documented() -> set[str]:
    """Return the names at the top of modules that a string follows."""
    bodies = [
        ast.parse(path.read_text()).body for path in (ROOT / "ruler_cli").rglob("*.py")
    ]
    return {
        ast.unparse(target)
        for body in bodies
        for one, after in pairwise(body)
        if isinstance(one, ast.Assign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        for target in one.targets
    }


def test_docstrings() -> None:
    """Every public name has a docstring of its own."""
    constants = set[str]()
    for name in set(ruler_cli.__all__) - {"__version__"}:
        value = getattr(ruler_cli, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
        else:
            constants.add(name)
    assert constants <= documented()


TEXTS = (
    "3",
    "0.5",
    "nan",
    "-1",
    "yes",
    "OFF",
    "input",
    "2,8",
    "a=1 b=2",
    "x",
    "openai/a openai/b",
)
"""Texts of variables, of which each is right for some options and wrong for others."""


def read(reading: Callable[[], ScoreSettings]) -> object:
    """Return the settings that are read; True if a variable is refused."""
    try:
        return reading()
    except UsageError as error:
        return str(error).startswith("RULER_")


def of_command() -> ScoreSettings:
    """Return the settings of `ruler score - -`."""
    return score_settings(options_of(read_words(["score"])))


def test_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python reads every variable, and refuses the same texts, as the command does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ruler_cli.cli, "_load", cache(ruler_cli.cli._load))
    for variable in variables_of(sorted(RUN_FIELDS)):
        for text in TEXTS:
            with monkeypatch.context() as patch:
                patch.setenv(variable, text)
                read_both = read(ruler_cli.load_settings), read(of_command)
                assert read_both[0] == read_both[1], (variable, text)


def test_settings_of_commands() -> None:
    """Each option of a command is a setting with a help, and each setting is of some command."""
    taken = set[str]()
    for command in COMMANDS:
        options, settings = read_words(command.split()).command.callback.takes
        taken |= {*options, *settings}
    assert taken == {*SECTIONS}
    assert all(setting_of(name).help.endswith((".", "]")) for name in taken)


WRONG: dict[str, tuple[Any, ...]] = {
    "passes": (0, 1.5, "three", True),
    "max_failures": (-1, 1.5, "5x", "101%", True, math.nan),
    "price": ((2,), "2", "2,-8", (2, -8)),
    "shard": ("5/3", "x"),
    "rubric": (" ", "@missing.txt", "missing.txt", [{"weight": 2}], {}),
    "rpm": (0, math.nan, "fast"),
    "max_outage": (-1, math.nan),
    "order": ("reverse",),
    "most_pictures": (-1, "few"),
    "debias": (3,),
    "api": ("completions",),
    "escalate_gap": (-0.1, 1.5, math.nan),
}
HOMES = {
    "pool": PoolSettings,  # before the judge, which has some of these limits for itself
    "judge": JudgeSettings,
    "ask": AskSettings,
    "combine": CombineSettings,
    "input": InputSettings,
}
NAMES = {"param": "params"}
"""Fields that are not named as their options are."""


def made_with(option: str, value: Any) -> ScoreSettings:
    """Return settings of a program that does without `settings`, with one value."""
    name = NAMES.get(option, option)
    for part, kind in HOMES.items():
        if name in {one.name for one in fields(kind)}:
            made = ScoreSettings(**{part: kind(**{name: value})})
            break
    else:
        made = ScoreSettings(**{name: value})
    return made


def test_one_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A field of the settings refuses what `load_settings` refuses for its option."""
    monkeypatch.chdir(tmp_path)
    for option, values in WRONG.items():
        for value in values:
            for make in (
                partial(made_with, option, value),
                partial(ruler_cli.load_settings, **{option: value}),
            ):
                with pytest.raises(UsageError):
                    make()
