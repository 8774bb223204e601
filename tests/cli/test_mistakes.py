"""What a first-time user is told: one sentence with the place and the nearest way out, and exit code 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import typer
import typer.main

from ruler_cli.cli import app, meant, mistakes
from ruler_cli.cli.command_line import commands_below, followed
from tests.conftest import ROOT, Ruler, group, rollout, write

S = "score in.jsonl out.jsonl"
"""A command line without a mistake so far."""
OPTIONS = [
    (f"{S} --pases 3", "--pases: is no option of `ruler score`; did you mean --passes?"),
    (f"{S} --max_cost 3", "--max_cost: is no option of `ruler score`; did you mean --max-cost?"),
    (f"{S} --model offline", "--model: is no option of `ruler score`; did you mean --judge-model?"),
    (f"{S} --workers 8", "--workers: is no option of `ruler score`; did you mean --concurrency?"),
    (f"{S} -passes 3", "-passes: a long option has two dashes; did you mean --passes?"),
    (f"{S} -model offline", "-model: a long option has two dashes; did you mean --judge-model?"),
    (f"{S} -debgu", "-debgu: a long option has two dashes; did you mean --debug?"),
    (f"{S} -json", "--json: is an option of"),
    (
        f"{S} -o x",
        "-o: is no option of `ruler score`: OUTPUT has no option; write `ruler score INPUT OUTPUT`",
    ),
    (f"{S} --no-adaptive", "--adaptive is off unless it is given; leave it out"),
    (f"{S} --temperature 0", "it is a parameter of the judge call; write -p temperature=VALUE"),
    (f"{S} --zebra", "--zebra: is no option of `ruler score`; `ruler score --help` lists what there is"),
    (
        "check in.jsonl --max-cost 3",
        "--max-cost: is an option of `ruler score` and `ruler batch submit`, not of `ruler check`; ",
    ),
    ("agree in.jsonl --label x", "--label: is no option of `ruler agree`; did you mean --labels?"),
    ("ledger stats --yes", "--yes: is an option of `ruler ledger clear`, not of `ruler ledger stats`; "),
    ("report s.jsonl --html", "--html: is no option of `ruler report`; did you mean --output?"),
    ("report s.jsonl --key 3", "--key: is no option of `ruler report`; did you mean --group?"),
    ("report s.jsonl --sort score", "write -o FILE.html, whose table sorts by any column"),
    ("report s.jsonl --no-color", "write NO_COLOR=1 in front of the command"),
    (
        "report s.jsonl --where live",
        "`ruler select SCORED - --where NAME | ruler report -` reports on a part",
    ),
    ("select s.jsonl o.jsonl --filter live", "did you mean --where?"),
    ("select s.jsonl o.jsonl --top 2", "did you mean --keep?"),
    ("select s.jsonl o.jsonl --min-score 1", "write --where score=LOW.."),
    ("--verison", "--verison: is no option of `ruler`; did you mean --version?"),
    ("-v", "-v: is no option of `ruler`; did you mean --version?"),
    (f"--passes 3 {S}", "write it behind the command"),
]
VALUES = [
    (f"{S} --passes", "--passes: its value is missing; write --passes K"),
    (f"{S} -m", "-m: its value is missing; write -m NAME"),
    (f"{S} --order", "--order: its value is missing; write --order and one of random, input"),
    (f"{S} -m --passes 3", "-m: its value is missing in front of --passes; write -m NAME"),
    (f"{S} -m --zebra", "-m or --escalate: its value is missing in front of --zebra"),
    (f"{S} -m openai/", "-m or --escalate openai/: the model's own name is missing behind its provider"),
    (f"{S} --adaptive=yes", "--adaptive: takes no value; write --adaptive alone, or leave it out"),
    (f"{S} --debug true", "--debug true: takes no value; write --debug alone, or leave it out"),
    (f"{S} --passes=two", "--passes two: is not a whole number of 1 or more"),
    (f"{S} --passes -3", "--passes -3: is not a whole number of 1 or more"),
    (f"{S} -c many", "-c many: is not a whole number of 1 or more"),
    (f"{S} -cmany", "-c many: is not a whole number of 1 or more"),
    (f"{S} --seed x", "--seed x: is not a whole number"),
    (f"{S} --rpm 0", "--rpm 0: is not a number of 0.01 or more"),
    (f"{S} --blend 2", "--blend 2: is not a number from 0 to 1"),
    (f"{S} --order rand", "--order rand: is none of random, input; did you mean random?"),
    (f"{S} --via htp", "--via htp: is none of auto, http, litellm; did you mean http?"),
    ("select s.jsonl o.jsonl --by best", "is none of variance, score, majority; did you mean score?"),
    ("select s.jsonl o.jsonl --by SD", "did you mean variance?"),
    (f"{S} --single zebra", "--single zebra: is none of flag, score"),
    (f"{S} -p temperature:0.2", "-p temperature:0.2: write it as KEY=VALUE, e.g. -p temperature=0.2"),
    (f"{S} --price 1", "--price 1: write two numbers, USD per million"),
    (
        f"{S} --rubric @rubic.txt",
        "--rubric @rubic.txt: cannot be read: No such file or directory; did you mean ",
    ),
    (f"{S} --rubric rubric.txt", "--rubric rubric.txt: is a file; write @rubric.txt to have it read"),
    (f"{S} -m offline --format artt", "--format artt: there is no such format; did you mean art?"),
    (
        f"{S} -m offline --group-by group-id",
        "--group-by group-id: none of the first records has it (did you mean ",
    ),
    (f"{S} -m offlin", "judge offlin: no provider is known by that name; did you mean `offline`? "),
    ("check in.jsonl -m simulate", "did you mean `simulated`?"),
    (f"{S} -m mine --api-base localhost:8000", "e.g. http://localhost:8000/v1"),
    ("prompt in.jsonl --group tasks-17", "in.jsonl: there is no group 'tasks-17'; did you mean 'task-17'?"),
]
COMMANDS = [
    (
        "scroe in.jsonl out.jsonl -p a=b",
        "scroe: is no command of `ruler`; did you mean `ruler score in.jsonl out.jsonl …`?",
    ),
    (
        "judge in.jsonl out.jsonl",
        "judge: is no command of `ruler`; did you mean `ruler score in.jsonl out.jsonl`?",
    ),
    ("stats", "stats: is no command of `ruler`; did you mean `ruler ledger stats`?"),
    ("stats in.jsonl", "stats: is no command of `ruler`; did you mean `ruler report in.jsonl`?"),
    ("batch list", "list: is no command of `ruler batch`; did you mean `ruler batch status`?"),
    (
        "batch in.jsonl -c 1",
        "in.jsonl: is no command of `ruler batch`; did you mean `ruler batch submit in.jsonl …`?",
    ),
    ("ledger stat", "stat: is no command of `ruler ledger`; did you mean `ruler ledger stats`?"),
    ("in.jsonl out.jsonl", "in.jsonl: is no command; did you mean `ruler score in.jsonl out.jsonl`?"),
    (
        "in.jsonl",
        "in.jsonl: is no command; did you mean `ruler check in.jsonl`, or `ruler score in.jsonl OUTPUT`?",
    ),
    ("- - -m offline", "-: is no command; did you mean `ruler score - -`?"),
    ("help", "help: is no command; did you mean `ruler --help`?"),
    ("help score", "help: is no command; did you mean `ruler score --help`?"),
    ("version", "version: is no command; did you mean `ruler --version`?"),
    ("zebra", "zebra: is no command of `ruler`; `ruler --help` lists what there is"),
]
FILES = [
    ("score", "INPUT and OUTPUT are missing; write `ruler score INPUT OUTPUT`"),
    ("score in.jsonl", "OUTPUT is missing; write `ruler score in.jsonl OUTPUT`, where `-` is stdout"),
    ("score help", "did you mean `ruler score --help`?"),
    ("score in.jsonl b.jsonl out.jsonl", "out.jsonl: is one argument too many, write `ruler score INPUT "),
    ("check in.jsonl -m offline b.jsonl", "b.jsonl: is one argument too many, write `ruler check INPUT`; "),
    ("report in.jsonl b.jsonl", "several files are one SCORED as a directory, or as a pattern in quotes"),
    ("report in.jsonl page.html", "did you mean -o page.html?"),
    ("select in.jsonl out.jsonl --where live tied", "did you mean --where tied?"),
    ("select --where live score=0.7.. in.jsonl out.jsonl", "did you mean --where score=0.7..?"),
    ("report in.jsonl --format html", "--format html: is about what SCORED is; a page is written by -o"),
    ("report in.jsonl --json -o a.html", "for JSON write `--json > FILE.json` instead"),
    ("report in.jsonl --group task-17 -o a.html", "where its address ends in #group=KEY"),
    ("ledger stats x", "x: is one argument too many, `ruler ledger stats` takes none; "),
    ("score ins.jsonl out.jsonl -m offline", "ins.jsonl: no such file; did you mean in.jsonl?"),
    ("check in.json", "in.json: no such file; did you mean in.jsonl?"),
    ("check nothing.jsonl", "nothing.jsonl: no such file; check the path, or give `-` for stdin"),
    ("score new.jsonl in.jsonl", "new.jsonl: no such file, but OUTPUT in.jsonl is one; INPUT comes first: "),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), OPTIONS + VALUES + COMMANDS + FILES)
def test_mistake(line: str, says: str, ruler: Ruler, tmp_path: Path) -> None:
    """A typical mistake ends with 2 and one sentence: where it is, and what may have been meant."""
    write(tmp_path / "in.jsonl", [{"group_id": "task-17", **group("", 0.1, 0.9)} | {"group_id": "task-17"}])
    (tmp_path / "rubric.txt").write_text("Be kind.")
    done = ruler(*line.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ruler: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("RULER_ORDER", "rand", "RULER_ORDER=rand: is none of random, input; did you mean random?"),
        ("RULER_PASSES", "two", "RULER_PASSES=two: is not a whole number of 1 or more"),
        ("RULER_DEBUG", "maybe", "RULER_DEBUG=maybe: is neither 1 nor 0"),
    ],
)
def test_variable(variable: str, value: str, says: str, ruler: Ruler) -> None:
    """A value that comes from a variable is told with the variable's name."""
    done = ruler("score", "in.jsonl", "out.jsonl", **{variable: value})
    assert (done.returncode, done.stderr) == (2, f"ruler: {says}\n")


@pytest.mark.parametrize("line", ["--api-key sk-secret", "--api-key=sk-secret", "--token sk-secret"])
def test_key(line: str, ruler: Ruler) -> None:
    """A key on the command line is never repeated, and the way out is named."""
    done = ruler(*S.split(), *line.split())
    assert done.returncode == 2
    assert "secret" not in done.stderr
    assert "--api-key-env VAR" in done.stderr


def test_key_where_none_is_needed(ruler: Ruler) -> None:
    """No option is proposed that a command does not have."""
    done = ruler("check", "in.jsonl", "--api-key", "sk-secret")
    assert (
        done.stderr
        == "ruler: --api-key: a key never stands on a command line, and `ruler check` needs none\n"
    )


@pytest.mark.parametrize("line", ["score {}", "{} out.jsonl", "scroe {}", "check in.jsonl {}"])
def test_address(line: str, ruler: Ruler) -> None:
    """A command line that is told again holds no password of an address."""
    done = ruler(*line.format("https://me:secret@h.example/x.jsonl?token=secret").split())
    assert done.returncode == 2
    assert "h.example/x.jsonl" in done.stderr
    assert "secret" not in done.stderr


def test_hostile_word(ruler: Ruler) -> None:
    """What would move a terminal's cursor is shown as an escape."""
    for line in (["\x1b[2J"], ["score", "--\x1b[2J"], ["score", "a", "b", "\x1b[2J"]):
        done = ruler(*line)
        assert done.returncode == 2
        assert "\x1b" not in done.stderr


def test_swapped_only_where_it_may_be(ruler: Ruler, tmp_path: Path) -> None:
    """A misspelt INPUT is told as such where OUTPUT is there from an earlier run."""
    write(tmp_path / "rollouts.jsonl", [group("a", 0.1, 0.9)])
    write(tmp_path / "scored.jsonl", [group("a", 0.1, 0.9)])
    done = ruler("score", "rolouts.jsonl", "scored.jsonl", "-m", "offline")
    assert "did you mean rollouts.jsonl?" in done.stderr


def test_several_scored(ruler: Ruler, tmp_path: Path) -> None:
    """A judge that begins with a dash, a rubric that is long, and a pattern for INPUT are no mistakes."""
    write(tmp_path / "part-1.jsonl", [rollout(0.1, "x", group_id="g"), rollout(0.2, "y", group_id="g")])
    done = ruler("check", "part-*.jsonl", "-m", "offline", "--rubric", "Be kind. " * 1000)
    assert done.returncode == 0, done.stderr


def test_help_where_nothing_is_asked(ruler: Ruler) -> None:
    """`ruler` and `ruler ledger` alone show their help on stderr, as bad usage."""
    for line in ([], ["ledger"]):
        done = ruler(*line)
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: ")


def _failed(*words: str) -> Any:
    with pytest.raises(Exception, match=r"^") as caught:
        app(list(words), standalone_mode=False)
    return caught.value


def test_what_typer_promises() -> None:
    """What the sentences rest on: typer raises its usage errors, which carry what they are about."""
    unknown = _failed("score", "--zebra")
    assert (type(unknown).__name__, unknown.option_name, unknown.exit_code) == ("NoSuchOption", "--zebra", 2)
    assert callable(unknown.format_message)
    line = followed(unknown, app, ["score", "--zebra"])
    assert (line.names, line.rest, line.command.name) == (("score",), ("--zebra",), "score")
    lone = _failed("score", "--passes")
    assert (type(lone).__name__, lone.option_name) == ("BadOptionUsage", "--passes")
    missing = _failed("score", "in.jsonl")
    assert (type(missing).__name__, missing.param.metavar) == ("MissingParameter", "OUTPUT")
    assert missing.ctx.params["source"] == "in.jsonl"
    bad = _failed("score", "a", "b", "--order", "x")
    assert (type(bad).__name__, tuple(bad.param.type.choices)) == ("BadParameter", ("random", "input"))
    bad = _failed("score", "a", "b", "--passes", "0")
    assert (type(bad.param.type).__name__, bad.param.type.min) == ("IntRange", 1)
    for words in (["zebra"], ["ledger", "zebra"], ["check", "a", "b"]):
        assert type(_failed(*words)).__name__ == "UsageError"
    nothing = _failed("ledger")
    assert (type(nothing).__name__, callable(nothing.show)) == ("NoArgsIsHelpError", True)
    flags = {param.name for param in line.command.params if getattr(param, "is_flag", False)}
    assert {"debug", "adaptive"} <= flags
    assert not {"passes", "model", "order"} & flags


def test_unknown_errors_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error of a kind that is not known is told in typer's words, and what is none is not told."""

    class OddError(Exception):
        exit_code = 2

        def format_message(self) -> str:
            return "Something odd."

    assert mistakes.explain(OddError(), app, ["score", "a"]) == 2
    assert capsys.readouterr().err == "ruler: Something odd; `ruler score --help` lists what there is\n"
    assert mistakes.explain(ValueError("a bug"), app, []) is None
    assert mistakes.explain(typer.Abort(), app, []) == 1
    assert "aborted" in capsys.readouterr().err


def test_words_of_other_tools_lead_somewhere() -> None:
    """What stands for an option or a command of another tool is one of ours."""
    root = followed(None, app, []).root
    options = {name for _, one in commands_below(root) for p in one.params for name in p.opts} | {"--version"}
    assert set(meant.OPTIONS.values()) <= options
    every = {called.rsplit(" ", 1)[-1] for called, _ in commands_below(root)}
    assert set(meant.COMMANDS.values()) <= every
    words = {choice for _, one in commands_below(root) for p in one.params for choice in choices(p)}
    assert set(meant.CHOICES.values()) <= words
    for needed, said in meant.SAID.values():
        assert {needed, *re.findall("--[a-z-]+", said)} <= options


def choices(param: Any) -> list[str]:
    """The words that an option takes, where it takes one of a few."""
    return list(getattr(param.type, "choices", []))


def test_the_bug_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no mistake of the command line leaves `main` as it is."""
    from ruler_cli import cli

    def broken(*_args: object, **_more: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main()


def test_nothing_is_loaded_before() -> None:
    """A command line without a mistake loads none of this."""
    seen = "import sys, ruler_cli.cli; print(list(sys.modules))"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True, env=env)
    assert "'ruler_cli.cli.score'" in done.stdout
    assert "ruler_cli.cli.mistakes" not in done.stdout
    assert "ruler_cli.cli.command_line" not in done.stdout


TYPED = """score check prompt agree ledger stats clear path help version a.jsonl b.jsonl - -- -m -p -c -y -x
-passes --passes --passes=two --order rand --debug --debug=1 true --json --no-debug --max_cost 3 -3 --yes"""
WORDS = st.one_of(
    st.sampled_from(TYPED.split()),
    st.text(max_size=6),
    st.text(max_size=6).map(lambda text: f"-{text}"),
    st.text(max_size=6).map(lambda text: f"--{text}"),
)


@hypothesis.given(st.lists(WORDS, max_size=6))
def test_any_line(words: list[str]) -> None:
    """Whatever is typed, a usage error of typer becomes one sentence, and nothing is raised on the way."""
    try:
        code = _parsed(words)
    except Exception as error:  # noqa: BLE001 - typer keeps the class of its errors to itself
        with pytest.MonkeyPatch.context() as patch:
            said: list[str] = []
            patch.setattr(mistakes, "say", said.append)
            assert mistakes.explain(error, app, words) == 2
        assert len(said) == (type(error).__name__ != "NoArgsIsHelpError")
        assert all(text.startswith("ruler: ") for text in said)
    else:
        assert code == 0


def _parsed(words: list[str]) -> int:
    """Read a command line as typer does, and run no command."""
    command: Any = typer.main.get_command(app)
    ctx, rest = None, list(words)
    try:
        while True:
            ctx = command.make_context("ruler", rest, parent=ctx)
            rest = [*ctx._protected_args, *ctx.args]
            if not hasattr(command, "commands") or not rest:
                return 0
            _, command, rest = command.resolve_command(ctx, rest)
    except typer.Exit as end:
        return int(end.exit_code)
