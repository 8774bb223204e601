"""A command that is printed is the command, whatever it holds, and shows no secret."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from ruler_cli.cli.command import command_line
from ruler_cli.settings.options import COMMAND_LINE, Options, Origin
from tests.conftest import Ruler, group, write

SAY = "import json, os, sys; print(json.dumps([os.fsencode(a).hex() for a in sys.argv[1:]]))"
TEXTS = (
    "two\nlines\n",
    "tab\tand \\n, a\\b",
    'it\'s "quoted"',
    "!history !!",
    "$HOME `id` $(id) ${x}",
    "é 漢字 \N{GRINNING FACE} \N{ZERO WIDTH JOINER}\N{NO-BREAK SPACE}\u2028 \u202e",
    "=ls",
    "~ * ? [a] {a,b} # ; & | < > ^ %1",
    "",
    "-x",
    "\x1b[2J\x07\r\x7f\x85",
    "not utf-8: \udcff\udcc3",
    "@rubric file.md",
    "1\N{COMBINING ACUTE ACCENT}\\'",
)


def pasted(shell: str, line: str, folder: Path) -> list[bytes]:
    """Return the arguments that a shell makes of a line."""
    say = folder / "ruler"
    say.write_text(f"#!{sys.executable}\n{SAY}\n")
    say.chmod(0o700)
    done = subprocess.run(
        [shell, "-c", line],
        capture_output=True,
        check=True,
        env={"PATH": str(folder), "LC_ALL": "C"},
    )
    return [bytes.fromhex(word) for word in json.loads(done.stdout)]


def test_printed_command(tmp_path: Path) -> None:
    """A shell that reads `$'…'` gets of a printed command the words that were typed, each on one line."""
    quoted = 'test "$(printf %s $\'a\\nb\')" = "a\nb"'
    shells = [
        path
        for name in ("sh", "bash", "zsh")
        if (path := shutil.which(name))
        and not subprocess.run([path, "-c", quoted], check=False).returncode
    ]
    assert shells
    for text in TEXTS:
        typed = {"rubric": text, "params": [f"stop={text}", 'a={"b": [1]}']}
        origins = {
            name: Origin("", COMMAND_LINE, own) for name, own in typed.items()
        }
        line = command_line(Options(origins=origins), "score", "-in.jsonl", "-")
        assert line.isprintable()
        words = [
            "score",
            "./-in.jsonl",
            "-",
            "--rubric",
            text,
            "-p",
            f"stop={text}",
            "-p",
            'a={"b": [1]}',
        ]
        for shell in shells:
            assert pasted(shell, line, tmp_path) == [
                word.encode(errors="surrogateescape") for word in words
            ], (shell, text)


def test_headers_of_a_command(ruler: Ruler, tmp_path: Path) -> None:
    """The value of a header is in no printed command, however short it is."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    words = (
        "-m",
        "hosted_vllm/m",
        "--api-base",
        "http://127.0.0.1:9/v1",
        "--set",
        "max_outage=0",
        "--set",
        "retries=0",
    )
    header = 'extra_headers={"X-Tenant": "abc7", "X-N": 77}'
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        *words,
        "-p",
        header,
        "--rubric",
        "a\nb",
    )
    assert done.returncode == 3
    (line,) = (line for line in done.stderr.splitlines() if "to resume" in line)
    assert "abc7" not in done.stderr + done.stdout
    assert "77" not in line
    assert "--rubric $'a\\nb'" in line
