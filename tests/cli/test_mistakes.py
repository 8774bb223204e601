"""Mistaken command lines: one sentence with the mistake and the way out, and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import typer
import typer.main

from ruler_cli.cli import app, messages
from tests.conftest import ROOT, Ruler, group, write
from tests.judge_server import JudgeServer

S = "score in.jsonl out.jsonl"
"""A command line to which each case adds a mistake."""
TYPER = {
    f"{S} --max_cost 3": "no such option: --max_cost; did you mean --max-cost?",
    f"{S} --passs 3": "no such option: --passs; did you mean --passes?",
    f"{S} --standardise": "no such option: --standardise",
    f"{S} --qqq": "no such option: --qqq; `ruler score --help` lists what it takes",
    "ledger clear --force": "no such option: --force; `ruler ledger clear --help` lists what",
    f"--passes 3 {S}": "no such option: --passes; `ruler --help` lists what it takes",
    f"{S} --passes": "Option '--passes' requires an argument",
    f"{S} --debug=1": "Option '--debug' does not take a value",
    f"{S} --passes=two": "--passes: 'two' is not a whole number\n",
    f"{S} --passes 0": "--passes: '0' is not 1 or more\n",
    f"{S} --max-cost $5": "--max-cost: '$5' is not a number\n",
    f"{S} --max-cost nan": "--max-cost: 'nan' is not 0 or more\n",
    f"{S} --set blend=2": "--set blend: '2' is not 1 or less\n",
    f"{S} --set order=rand": "--set order: 'rand' is not 'random' or 'input'",
    "score": "Missing argument 'INPUT'; `ruler score --help` lists",
    f"{S} b.jsonl": "b.jsonl: more paths than the command takes; name several files by one pattern in quotes",
    "ledger stats x": "x: more paths than the command takes; `ruler ledger stats --help` lists",
    "scroe in.jsonl": "no such command: scroe; did you mean score?",
    "in.jsonl out.jsonl": "no such command: in.jsonl; `ruler --help` lists what it takes",
    "batch zebra": "no such command: zebra; `ruler batch --help` lists what it takes",
    f"{S} --temperature=0": "no such option: --temperature; it is a parameter of the judge call: -p temperature=0\n",
    f"{S} --output x": "no such option: --output; OUTPUT is the second argument: `ruler score INPUT OUTPUT`\n",
    f"{S} --resume": "no such option: --resume; run the same command again, it resumes\n",
    f"{S} --json": "no such option: --json; `ruler report SCORED --json` prints ",
    "report a b": "b: more paths than the command takes; use `ruler compare A B` for two",
    "report a --label 5": "no such option: --label; use `ruler label SCORED --pairs N -o PAGE`",
    "batch list": "no such command: list; `ruler batch status` lists batches\n",
}
"""Mistakes that typer reports."""
OURS = {
    f"{S} -m --zebra": "judge --zebra: no such provider or model; ",
    f"{S} -p temperature:0.2": "-p: 'temperature:0.2' is not KEY=VALUE; e.g. -p temperature=0.2",
    f"{S} --price 1": "--price: '1' is not USD per million",
    f"{S} --rubric name.md": "--rubric name.md: looks like a file name; write @name.md",
    f"{S} --rubric @": "--rubric @: cannot be read",
    f"{S} --rubric @binary": "--rubric @binary: is not UTF-8 text; save it as UTF-8",
    f"{S} --rubric @R.TOML": "--rubric @R.TOML: criterion 1: has no statement; write it as `criterion`",
    f"{S} --config binary": "binary: is not UTF-8 text; save it as UTF-8",
    f"{S} --config .": ".: cannot be read: Is a directory",
    f"{S} --rubric rubric.txt": "--rubric rubric.txt: looks like a file name; write @rubric.txt",
    f"{S} -m offline --format artt": "--format artt: no such format; did you mean art?",
    f"{S} -m offline --group-by group-id": "group-id: none of the first records has it; their keys: ",
    f"{S} -m offlin": "judge offlin: no such provider or model; write provider/model, e.g. anthropic/…, `offline`",
    f"{S} -m http://h/v1": "or use --api-base for an endpoint of your own",
    f"{S} -m mine --api-base 8000": "write one such as http://localhost:8000/v1, and name a key with --api-key-env",
    f"{S} -m mine --api-base http://h/v1?key=secret": "and without a user name, a password or `?`",
    f"{S} -p apikey=secret": "-p apikey: a key is not a parameter; name the variable that holds it with --api-",
    f"{S} --api-key-env sk-secret": "expects the name of a variable, and its value (not shown) is not one; put",
    f"{S} -m mine --api-base localhost:8000": "write one such as http://localhost:8000/v1",
    f"{S} --set standardize=true -m offline": "--set standardize: needs a panel; use -m for each judge",
    "prompt in.jsonl --group tasks-17": "there is no group `tasks-17`; `ruler check in.jsonl` shows",
    "ledger clear --ledger in.jsonl": "give another file with --ledger PATH, or keep no replies: --ledger none",
    "report in.jsonl --json -o a.html": "-o writes a page; leave out --json",
    "report in.jsonl --group task-17 -o a.html": "-o writes a page; leave out --group",
}
"""Mistakes that the commands report."""


def test_mistake(ruler: Ruler, tmp_path: Path) -> None:
    """A mistake ends with exit code 2 and one sentence that names it and the way out."""
    write(
        tmp_path / "in.jsonl", [group("", 0.1, 0.9) | {"group_id": "task-17"}]
    )
    (tmp_path / "rubric.txt").write_text("Be kind.")
    (tmp_path / "R.TOML").write_text("[[criteria]]\nweight = 2\n")
    (tmp_path / "binary").write_bytes(b"\x00\xff\xfe")
    for line, message in (TYPER | OURS).items():
        done = ruler(*line.split())
        assert (done.returncode, done.stdout) == (2, ""), line
        assert done.stderr.startswith("ruler: "), line
        assert done.stderr.count("\n") == 1, line
        assert message in done.stderr
        assert not (tmp_path / "out.jsonl").exists()


def test_variable(ruler: Ruler) -> None:
    """A value that comes from a variable is reported with the variable's name."""
    for variable, value in (
        ("RULER_ORDER", "rand"),
        ("RULER_PASSES", "two"),
        ("RULER_DEBUG", "maybe"),
    ):
        done = ruler("score", "in.jsonl", "out.jsonl", **{variable: value})
        assert done.returncode == 2
        assert variable in done.stderr
        assert value in done.stderr


def test_secrets(ruler: Ruler) -> None:
    """The sentence repeats no key and no password of an address on the command line."""
    address = "https://me:secret@h.example/x.jsonl?token=secret"
    lines = (
        f"{S} --api-key secret", f"{S} --api-key=secret", f"{S} --token secret",
        "check in.jsonl --api-key secret", f"score {address}", f"{address} out.jsonl", f"scroe {address}",
        f"check in.jsonl {address}",
    )  # fmt: skip
    for line in lines:
        done = ruler(*line.split())
        assert done.returncode == 2
        assert "secret" not in done.stderr
    assert (
        "a key never stands on a command line: name its variable with --api-key-env VAR"
        in ruler(*lines[0].split()).stderr
    )


KEY = "sk-proj-0123456789abcdefGHIJ"
WITH_KEY = (
    "--api-key-env KEY", "--api-key-env=KEY", "--api-key KEY", "--api-key=KEY", "--apikey KEY", "--token KEY",
    "-k KEY", "-m KEY", "-m openai/KEY", "--escalate KEY", "-p api_key=KEY", "-p KEY", "--api-base KEY",
    "--api-base https://me:KEY@h/v1", "--api-base http://h/v1?key=KEY", "--price KEY", "--passes KEY",
    "--set via=KEY", "--max-failures KEY", "--group-by KEY -m offline", "--format KEY -m offline",
    "--rubric @KEY",     "KEY", "--shard KEY", "--set failed=KEY/x -m offline", "--ledger none --ledger KEY",
)  # fmt: skip
"""Places at which a key is given by mistake, behind INPUT and OUTPUT."""


def test_key(ruler: Ruler, tmp_path: Path) -> None:
    """A key on the command line is repeated nowhere, wherever it stands."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    lines = [f"{S} {words}" for words in WITH_KEY]
    lines += [
        "KEY",
        "check KEY",
        "score KEY out.jsonl",
        "report in.jsonl --api-key KEY",
        "check in.jsonl -m KEY",
    ]
    for line in lines:
        done = ruler(*line.replace("KEY", KEY).split())
        assert done.returncode == 2, line
        assert KEY not in done.stdout + done.stderr, line
        assert "Traceback" not in done.stderr
    for variable in (
        "RULER_API_KEY_ENV",
        "RULER_MODEL",
        "RULER_API_BASE",
        "RULER_PASSES",
        "RULER_RUBRIC",
    ):
        done = ruler(
            *S.split(),
            "-m" if "PASSES" in variable else "--api",
            "chat",
            **{variable: KEY},
        )
        assert done.returncode == 2
        assert KEY not in done.stdout + done.stderr, variable


def test_key_in_the_next_command(
    ruler: Ruler, tmp_path: Path, server: JudgeServer
) -> None:
    """The command that goes on, and the summary, have no key either."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    options = (
        "--api-base",
        server.base,
        "--rubric",
        f"use {KEY}",
        "--summary",
        "s.json",
    )
    done = ruler(*S.split(), "-m", "401", *options)
    assert (done.returncode, "to resume: " in done.stderr) == (3, True)
    assert (
        KEY not in done.stdout + done.stderr + (tmp_path / "s.json").read_text()
    )


def test_key_in_a_traceback(tmp_path: Path) -> None:
    """The traceback of a bug has no key."""
    (tmp_path / "bug.py").write_text(
        "import sys\nfrom ruler_cli import cli\n"
        f"def broken(**_more):\n    raise ValueError('{KEY}')\n"
        "cli.app = broken\ncli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "bug.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, "ValueError: [key]" in done.stderr) == (1, True)


def test_key_in_a_file(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler config` prints no key that stands in ruler.toml, and names the line of one in a wrong place."""
    (tmp_path / "ruler.toml").write_text(f'[score]\nrubric = "use {KEY}"\n')
    for options in ([], ["--json"]):
        done = ruler("config", *options)
        assert (
            done.returncode,
            KEY in done.stdout,
            "use [key]" in done.stdout,
        ) == (
            0,
            False,
            True,
        )
    for line in ("api_key_env", "api_key", "api_base", "model"):
        (tmp_path / "ruler.toml").write_text(
            f'[judges.a]\nmodel = "x"\n{line} = "{KEY}"\n'
        )
        done = ruler("score", "in.jsonl", "out.jsonl", "-m", "a")
        assert (done.returncode, KEY in done.stdout + done.stderr) == (
            2,
            False,
        ), line


def test_hostile_word(ruler: Ruler) -> None:
    """Control characters of a mistaken word are shown as escapes."""
    for line in (
        ["\x1b[2J"],
        ["score", "--\x1b[2J"],
        ["score", "a", "b", "\x1b[2J"],
    ):
        done = ruler(*line)
        assert done.returncode == 2
        assert "\x1b" not in done.stderr


def test_no_command(ruler: Ruler) -> None:
    """`ruler` and `ruler ledger` alone show their help on stderr, as bad usage."""
    for line in ([], ["ledger"]):
        done = ruler(*line)
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: ")


def test_other_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt that the user leaves is aborted, and `main` does not catch a bug."""
    from ruler_cli import cli

    assert messages.report_usage_error(typer.Abort()) == 1
    assert "aborted" in capsys.readouterr().err

    def broken(*_args: object, **_more: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main()


TYPED = """score check prompt agree ledger stats clear path help version a.jsonl b.jsonl - -- -m -p -c -y -x
-passes --passes --passes=two --set order=rand --debug --debug=1 true --json --no-debug --max_cost 3 -3 --yes"""
WORDS = st.one_of(
    st.sampled_from(TYPED.split()),
    st.text(max_size=6),
    st.text(max_size=6).map(lambda text: f"-{text}"),
    st.text(max_size=6).map(lambda text: f"--{text}"),
)


@hypothesis.given(st.lists(WORDS, max_size=6))
def test_any_command_line(words: list[str]) -> None:
    """Any usage error of typer becomes one sentence, and nothing is raised."""
    try:
        code = _parsed(words)
    except Exception as error:  # noqa: BLE001 - typer keeps the class of its errors to itself
        with pytest.MonkeyPatch.context() as patch:
            printed: list[str] = []
            patch.setattr(messages, "print_stderr", printed.append)
            assert messages.report_usage_error(error) == 2
        assert len(printed) == (type(error).__name__ != "NoArgsIsHelpError")
        assert all(text.startswith("ruler: ") for text in printed)
    else:
        assert code == 0


def _parsed(words: list[str]) -> int:
    """Parse a command line as typer does, and run no command."""
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
