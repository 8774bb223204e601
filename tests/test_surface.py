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

import numpy as np
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
from ruler_cli.settings.load import score_settings, variables_of
from ruler_cli.settings.options import COMMANDS, FIELDS, Options, ScoreOptions
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
    for variable in variables_of({one.name for one in fields(ScoreOptions)}):
        for text in TEXTS:
            with monkeypatch.context() as patch:
                patch.setenv(variable, text)
                read_both = read(ruler_cli.load_settings), read(of_command)
                assert read_both[0] == read_both[1], (variable, text)


def test_signatures() -> None:
    """Each option of a command is one of the settings, with the same default, and each has a command."""
    taken, defaults = set[str](), Options()
    for command in COMMANDS:
        for param in read_words(command.split()).command.params:
            if param.param_type_name != "option" or param.name in ("config", "help"):
                continue
            taken.add(param.name)
            own = getattr(defaults, param.name)
            assert (param.default or None) == (own or None), (command, param.name)
    assert taken == FIELDS


def test_python_signature() -> None:
    """Type checkers, editors and `help` know every option of `load_settings`."""
    shown = inspect.signature(ruler_cli.load_settings).parameters
    assert {*shown} == {one.name for one in fields(ScoreOptions)}


VALUES: dict[str, tuple[Any, ...]] = {
    "model": ("offline",),
    "api_base": ("http://localhost:1/v1",),
    "api_key_env": ("MY_KEY",),
    "api": ("chat", "decisions"),
    "via": ("http",),
    "param": ({"temperature": 0.5},),
    "timeout": (5, 0.5, math.inf, np.float64(2)),
    "price": ((2, 8), [2.5, 8], "2,8"),
    "rubric": ("Be strict.", "@rubric.txt", [{"criterion": "Is short.", "weight": 2}]),
    "reference": ("answer",),
    "order": ("input",),
    "seed": (3, np.int64(3)),
    "passes": (3, np.int64(3)),
    "group_size": (5,),
    "most_pictures": (3, 0),
    "single": ("score",),
    "concurrency": (5,),
    "rpm": (60, 0.5, math.inf),
    "tpm": (1000,),
    "retries": (0, 2),
    "max_outage": (0, 60, math.inf),
    "wait_for_judge": (0, 60, math.inf),
    "hedge": (True, False),
    "max_cost": (0, 1.5, math.inf),
    "min_passes": (1,),
    "debias": (True, False),
    "blend": (0, 0.5, 1),
    "order_by_outcome": (True,),
    "format": ("trl",),
    "grouping": ("line",),
    "group_by": ("metadata.task",),
    "reward": ("reward",),
    "records": ("runs[]",),
    "messages": ("turns",),
    "outcome": ("passed",),
    "prompt": ("question", ("question", "context")),
    "tools": ("tools",),
    "shard": ("2/3", "1/1"),
    "limit": (3,),
    "max_record": (3,),
    "on_failure": ("keep", "drop"),
    "failed": ("f.jsonl", Path("f.jsonl")),
    "max_failures": (5, "5", "5%", "2.5%", np.int64(5)),
    "ledger": ("none", None, "~/l.sqlite", Path("~/l.sqlite"), "l.sqlite"),
    "retry_failed": (True,),
    "cached_only": (True,),
    "debug": (True,),
    "force": (True,),
    "escalate_gap": (0, 0.25),
    "spend": ("spread",),
}
"""Values of each option that is one field of the settings; pairs of others are beside it."""
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
OTHER_FORM = {
    "ask",
    "read",
    "question",
    "pictures",
    "context_tokens",
    "dry_run",
    "fallback",
    "escalate",
    "adaptive",
    "standardize",
    "no_cache",
    "config",
}
"""Options without a field of the same form: another name of one, several judges, a judge's own, the file."""


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
    """A field of the settings takes each value that `settings` takes for its option, and refuses the same."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubric.txt").write_text("Be fair.\n")
    assert VALUES.keys() | OTHER_FORM >= {one.name for one in fields(ScoreOptions)}
    options: Any = ruler_cli.load_settings
    for option, values in VALUES.items():
        for value in values:
            assert made_with(option, value) == options(**{option: value}), (
                option,
                value,
            )
    for option, values in WRONG.items():
        for value in values:
            for make in (
                partial(made_with, option, value),
                partial(options, **{option: value}),
            ):
                with pytest.raises(UsageError):
                    make()
