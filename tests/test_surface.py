"""The public names of the package: what `dir` shows, and what importing them takes."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from itertools import pairwise

import ruler_cli
import ruler_cli.cli
from ruler_cli.cli.config import read_words
from ruler_cli.settings.fields import SECTIONS, setting_of
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
        ast.parse(path.read_text()).body
        for path in (ROOT / "ruler_cli").rglob("*.py")
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


def test_settings_of_commands() -> None:
    """Each option of a command is a setting with a help, and each setting is of some command."""
    taken = set[str]()
    names = "score check prompt agree report compare trend label select"
    commands = [[name] for name in names.split()]
    commands += [["ledger", name] for name in ("path", "stats", "clear")]
    batch = "submit status collect cancel export import"
    commands += [["batch", name] for name in batch.split()]
    for words in commands:
        options, settings = read_words(words).command.callback.takes
        taken |= {*options, *settings}
    assert taken == {*SECTIONS}
    assert all(setting_of(name).help.endswith((".", "]")) for name in taken)
