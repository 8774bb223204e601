"""`--help` and `--version`: every command shows its usage, with an example that runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import typer.main

import ruler_cli
from ruler_cli import cli
from ruler_cli.cli import app
from ruler_cli.cli.options import PANELS
from ruler_cli.results.report.page import MOST_GROUPS
from ruler_cli.runs.places import failed_path
from ruler_cli.settings.fields import SECTIONS, setting_of
from ruler_cli.settings.load import variables_of
from ruler_cli.settings.models import JudgeSettings, ScoreSettings, ledger_path
from ruler_cli.settings.options import OutputSettings
from ruler_cli.types import words_of
from tests import people
from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import BatchServer, JudgeServer


def commands(
    command: Any, names: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The root, every command and every sub-command, each as the words after `ruler`."""
    yield names
    for name in getattr(command, "commands", {}):
        yield from commands(command.get_command(None, name), (*names, name))


EVERY = list(commands(typer.main.get_command(app)))
each_command = pytest.mark.parametrize("names", EVERY, ids=" ".join)


def examples(text: str) -> list[str]:
    """The commands of the block after `Example:`, without their comments."""
    _, annotation, rest = text.partition("Example:")
    block = rest.partition("\n\n")[0] if annotation else ""
    if "\n" in block.strip() and not block.split("\n")[0].strip():
        lines = (
            line.strip().split("   ")[0] for line in block.strip().split("\n")
        )
        return [line.partition(" | ")[0] for line in lines]
    return [" ".join(block.split())] if block else []


def test_command_list() -> None:
    """The list of commands has the first sentence of each command's help, but imports no command."""
    root: Any = typer.main.get_command(app)
    assert {
        name: " ".join(one.help.split()).split(". ")[0].rstrip(".") + "."
        for name in root.commands
        for one in [root.get_command(None, name)]
    } == cli._COMMANDS
    script = "import sys, ruler_cli.cli as cli\ntry: cli.main()\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert {
        name
        for name in done.stdout.split()
        if name.startswith("ruler_cli.cli.")
    } == set()


@each_command
def test_example_runs(
    names: tuple[str, ...], ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Every command's help has an example of that command, which runs with the files and the judge that it names."""
    groups = [group(name, 0.1, 0.9) for name in ("task-17", "task-18")]
    for one in groups:
        for member, passed in zip(
            one["trajectories"], (False, True), strict=True
        ):
            member["metadata"] = {"passed": passed, "answer": 42}
    write(tmp_path / "rollouts.jsonl", groups)
    reply = {
        "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]
    }
    response = {"status_code": 200, "request_id": "r", "body": reply}
    write(
        tmp_path / "replies.jsonl",
        [{"custom_id": "0f" * 16, "response": response, "error": None}],
    )
    made = ruler(
        *words_of("score rollouts.jsonl scored.jsonl -m simulated --passes 2"),
    )
    assert made.returncode == 0, made.stderr
    assert (
        ruler(
            *words_of("score rollouts.jsonl other.jsonl -m offline")
        ).returncode
        == 0
    )
    for step in (10, 20, 30):
        copy(tmp_path / "scored.jsonl", tmp_path / f"step-{step}.jsonl")
    labels = people.comparisons(tmp_path / "scored.jsonl", 2, {"ana": 0.0})
    write(tmp_path / "labels.jsonl", labels)
    with BatchServer() as batches:
        base = batches.openai if names[:1] == ("batch",) else server.base
        judge = {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": base}
        page = ruler(*names, "--help").stdout
        assert ruler(*names, "-h").stdout == page
        assert examples(page), f"the help of {names} has no Example"
        for example in examples(page):
            assert f"ruler {' '.join(names)}" in example
            words = shlex.split(re.sub(r".*\$\((.*)\).*", r"\1", example))
            assert words[0] == "ruler"
            args = []
            for word in words[1:]:  # as a shell does it
                found = tmp_path.glob(word) if "*" in word else ()
                args += sorted(path.name for path in found) or [word]
            done = ruler(*args, **judge)
            assert done.returncode == 0, f"{example}: {done.stderr}"


SLOW = {
    "aiohttp",
    "fsspec",
    "litellm",
    "pandas",
    "pyarrow",
    "ray",
    "rich",
    "s3fs",
    "tqdm",
}
LEAN = {
    "--help": SLOW | {"anyio", "sqlite3"},
    "check in.jsonl -m openai/o3 --ledger none": SLOW - {"rich"},
    "prompt in.jsonl -m openai/o3": SLOW,
    "score in.jsonl out.jsonl -m offline --ledger none": SLOW,
    "batch export in.jsonl r.jsonl -m openai/o3": SLOW,
    "agree out.jsonl": SLOW - {"rich", "tqdm"},
}
"""Commands, and packages that they do not import."""


def test_imports(process: Ruler, tmp_path: Path) -> None:
    """A command loads no package that it does not need."""
    write(tmp_path / "in.jsonl", [group(name, 0.1, 0.9) for name in ("a", "b")])
    for line, without in LEAN.items():
        done = process(*line.split(), PYTHONPROFILEIMPORTTIME="1")
        assert done.returncode == 0, done.stderr
        loaded = {
            row.rpartition("|")[2].strip() for row in done.stderr.splitlines()
        }
        assert "ruler_cli.cli" in loaded
        assert not {name.partition(".")[0] for name in loaded} & without, line


def test_root_example(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler` alone shows a first command that works as it stands, and an example: the input, a run and a report."""
    text = ruler().stderr
    assert (text, 3) == (ruler("--help").stdout, len(examples(text)))
    line = text.partition("without a key:\n")[2].partition("\n\n")[0]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "80"}
    shown = subprocess.check_output(
        line,
        shell=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert "groups    1 of 1 scored (none tied)\n" in shown


def test_version(ruler: Ruler) -> None:
    """`--version` prints the version of the code, which the distribution takes from there."""
    done = ruler("--version")
    assert (done.returncode, done.stdout) == (
        0,
        f"ruler {ruler_cli.__version__}\n",
    )
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert '[tool.hatch.version]\npath = "ruler_cli/__init__.py"' in project


def test_panels(ruler: Ruler) -> None:
    """The help of `score` begins with the six options that matter first, and `--help` is the last."""
    text = ruler("score", "--help", COLUMNS="80").stdout
    sections = re.findall(r"^(\w[\w ]*):\n", text, re.MULTILINE)
    assert sections == ["Arguments", "Options", *PANELS[1:]]
    first = text.partition("\nOptions:\n")[2].partition("\n\n")[0]
    long = re.findall(r"^  (?:-\w, )?(--[\w-]+)", first, re.MULTILINE)
    needed = "--model --api-base --limit --rubric --passes --max-cost"
    assert long == needed.split()
    assert re.findall(r"^  (-.*?)  ", text, re.MULTILINE)[-1] == "-h, --help"


def test_defaults(ruler: Ruler) -> None:
    """Each default in the help is that of a run, whether it is made of the setting or written by hand."""
    odd = JudgeSettings("offline", read="probability")
    run = ScoreSettings(output="OUTPUT", panel=(odd,))
    assert [ask.ask for ask in run.asks] == ["group", "each"]
    assert run.combining.standardize
    assert not ScoreSettings().combining.standardize
    by_hand = {
        "concurrency": "as many as the judge takes",
        "ask": "group; each for a chat judge that is read by probability",
        "rubric": "built-in",
        "most_pictures": "all",
        "standardize": "if ask or read differ",
        "failed": f"{failed_path(run)}",
        "ledger": f"{'/'.join(ledger_path('').parts[-2:])} in the user's cache directory",
        "ray_address": "RAY_ADDRESS, else one is started here",
        "labels": "the first original reward, else the outcome",
        "max_groups": f"{MOST_GROUPS}",
        "older_than": "all",
    }
    shown = r"\[default: (.*?)\]"
    assert by_hand == {
        name: found[0]
        for name in SECTIONS
        if (found := re.findall(shown, setting_of(name).help))
    }
    values = vars(OutputSettings()) | {"config": "ruler.toml"}
    for part in (run.judge, run.pool, run.ask, run.input, run):
        values |= vars(part)
    page = ruler("score", "--help").stdout
    for entry in re.split(r"\n  (?:-\w, )?--", page)[1:]:
        name = entry.partition(" ")[0].replace("-", "_")
        for default in re.findall(shown, " ".join(entry.split())):
            value = f"{values[name]}".removesuffix(".0")
            assert default == by_hand.get(name, value)


@pytest.mark.parametrize("columns", [80, 100])
def test_help_fits(columns: int, ruler: Ruler) -> None:
    """Every help fits the terminal: no line is cut, no variable, range or brace stands in it."""
    for names in EVERY:
        text = ruler(*names, "--help", COLUMNS=str(columns)).stdout
        assert max(map(len, text.splitlines())) <= columns, names
        assert not re.search(
            r"env var|…$|[a-z ]\.\.\.$|(?<!')\{|(?<!\])\}|[x<>]=|range>|[a-z]-$",
            text,
            re.MULTILINE,
        ), names


def test_variables(ruler: Ruler) -> None:
    """The help says once how options are set beside the command line; what is for one run has no variable."""
    for names in EVERY[1:]:
        text = " ".join(ruler(*names, "--help").stdout.split())
        without = names in {("batch",), ("ledger",)}
        assert ("can be set in ruler.toml" in text) == (not without), names
    variables = variables_of(SECTIONS)
    assert variables["RULER_MAX_COST"] == "max_cost"
    assert variables["RULER_MODEL"] == "model"
    per_run = {"keep", "where", "failed", "summary", "limit"}
    assert not per_run & {*variables.values()}


MOST = {"score": 45, "check": 46, "select": 20, "batch submit": 30}
"""Options that the help of a command shows at most, `--help` aside."""


@pytest.mark.parametrize("name", MOST)
def test_number_of_options(name: str, ruler: Ruler) -> None:
    """The command line has what people use every week; the rest are settings."""
    text = ruler(*name.split(), "--help").stdout.partition("\n  Every option")[
        0
    ]
    options = re.findall(r"^  (?:-\w, )?--[\w-]+", text, re.MULTILINE)
    assert len(options) - 1 <= MOST[name]
