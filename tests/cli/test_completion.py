"""What a shell offers behind TAB: commands, options, values, files; in bash, zsh and fish as they are."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ruler_cli.cli import completing
from ruler_cli.formats.detect import families
from tests.conftest import ROOT

HEAVY = ("aiohttp", "anyio", "litellm", "orjson", "pydantic", "rich", "sqlite3", "tqdm")
_LONGEST = 60
"""Seconds after which a shell that does not answer is a failure."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two files and, aside, a home and the command `ruler`."""
    for name in ("work", "work/folder", "bin", "home"):
        (tmp_path / name).mkdir()
    for name in ("rollouts.jsonl", "strict.txt"):
        (tmp_path / "work" / name).touch()
    command = tmp_path / "bin" / "ruler"
    command.write_text(f"#!{sys.executable}\nfrom ruler_cli.cli import main\n\nmain()\n")
    command.chmod(0o755)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    """Where `ruler` is this checkout, and nobody's settings of a shell are read."""
    return {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(place / "home"),
        "XDG_CONFIG_HOME": str(place / "home"),
        "XDG_DATA_HOME": str(place / "home"),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }


def offered(place: Path, line: str) -> list[str]:
    """What typer's protocol for fish answers behind a line: a word and its help a line."""
    asked = {"_RULER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        ["ruler"],
        env=environment(place) | asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        cwd=place / "work",
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=True,
    )
    assert done.stderr == ""
    return [offer.partition("\t")[0] for offer in done.stdout.splitlines() if offer]


def test_words(place: Path) -> None:
    """Commands, options and the words that an option takes are offered; files are left to the shell."""
    assert offered(place, "ruler sc") == ["score"]
    assert {"score", "check", "prompt", "agree", "ledger"} <= set(offered(place, "ruler "))
    assert offered(place, "ruler ledger ") == ["path", "stats", "clear", "import"]
    assert offered(place, "ruler score --max-c") == ["--max-cost"]
    assert offered(place, "ruler score a b --order ") == ["random", "input"]
    assert offered(place, "ruler check a --grouping c") == ["consecutive"]
    assert offered(place, "ruler check a -m op") == ["openai/o3", "openai/", "openrouter/"]
    assert offered(place, "ruler score a b --escalate of") == ["offline"]
    assert offered(place, "ruler score a b --format ro") == ["roll"]
    assert offered(place, "ruler score a b --rubric @") == ["@folder/", "@rollouts.jsonl", "@strict.txt"]
    for files in ("score ", "score ro", "score a b --failed ", "agree a ", "ledger path --ledger "):
        assert offered(place, f"ruler {files}") == []


def test_formats() -> None:
    """Every format's name is offered, and no other word than `auto` beside them."""
    assert ("auto", *families()) == completing.FORMATS


def test_nothing_heavy(place: Path) -> None:
    """A shell waits for the answer, so nothing is loaded that takes long."""
    code = (
        "import atexit, sys\n"
        f"heavy = {HEAVY!r}\n"
        "there = lambda: [name for name in heavy if sys.modules.get(name)]\n"
        "atexit.register(lambda: print('heavy:', there()))\n"
        "sys.argv = ['ruler']\n"
        "from ruler_cli.cli import main\n"
        "main()\n"
    )
    for shell in ("bash", "zsh", "fish"):
        asked = {
            "_RULER_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": "ruler score a b --format ",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "COMP_WORDS": "ruler score a b --format ",
            "COMP_CWORD": "5",
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(place) | asked,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=True,
        )
        assert "verl" in done.stdout, done.stderr
        assert done.stdout.endswith("heavy: []\n")


def typed(place: Path, shell: list[str], setup: str, keys: list[str]) -> list[str]:
    """What each line of keys has become in an interactive shell on a terminal, by the time TAB is done.

    A mark in front of the line makes a command of it that only shows it.
    """
    terminal, end = pty.openpty()
    running = subprocess.Popen(
        shell,
        cwd=place / "work",
        env=environment(place),
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        _until(terminal, "ready\r\n")
        return [_line(terminal, line) for line in keys]
    finally:
        running.kill()
        running.wait(_LONGEST)
        os.close(terminal)


def _line(terminal: int, keys: str) -> str:
    os.write(terminal, keys.encode())
    os.write(terminal, b"\x01echo 'be''gin' \x05; echo 'e''nd'\n")  # Ctrl-A and Ctrl-E: the line's ends
    found = _until(terminal, "end\r\n")
    return found.rpartition("begin ")[2].partition("\r\n")[0]


def _until(terminal: int, mark: str) -> str:
    text, last = "", time.monotonic() + _LONGEST
    while mark not in text:
        ready, _, _ = select.select([terminal], [], [], max(0.0, last - time.monotonic()))
        if not ready:
            pytest.fail(f"the shell does not answer; it said {text!r}")
        text += os.read(terminal, 1 << 16).decode(errors="replace")
    return text


KEYS = [
    "ruler sc\t",
    "ruler ledger st\t",
    "ruler score --max-c\t",
    "ruler score a b --order r\t",
    "ruler check a -m of\t",
    "ruler check a --format verl\t",
    "ruler score ro\t",
    "ruler score a b --failed st\t",
    "ruler score a b --rubric @st\t",
]
BECOME = [
    "ruler score",
    "ruler ledger stats",
    "ruler score --max-cost",
    "ruler score a b --order random",
    "ruler check a -m offline",
    "ruler check a --format verl",
    "ruler score rollouts.jsonl",
    "ruler score a b --failed strict.txt",
    "ruler score a b --rubric @strict.txt",
]


def need(shell: str) -> None:
    """Skip where a shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def test_bash(place: Path) -> None:
    """In bash TAB completes commands, options, values and files, but none behind `@`: a word ends there."""
    need("bash")
    setup = 'eval "$(ruler --show-completion)"'
    assert typed(place, ["bash", "--norc", "--noprofile", "-i"], setup, KEYS[:-1]) == BECOME[:-1]


def test_zsh(place: Path) -> None:
    """In zsh TAB completes commands, options, values and files."""
    need("zsh")
    setup = 'autoload -Uz compinit; compinit -u -D; eval "$(ruler --show-completion)"'
    assert typed(place, ["zsh", "-f", "-i"], setup, KEYS) == BECOME


def test_fish(place: Path) -> None:
    """In fish TAB offers commands, options, values and files."""
    need("fish")
    asked = "".join(f"complete -C '{keys[:-1]}'; echo end; " for keys in KEYS)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"ruler --show-completion | source; {asked}"],
        env=environment(place),
        cwd=place / "work",
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=True,
    )
    found = [part.split() for part in done.stdout.split("end\n")]
    for offer, become in zip(found, BECOME, strict=False):
        assert offer[0] == become.split()[-1]


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/ruler.sh"),
        ("zsh", ".zfunc/_ruler"),
        ("fish", ".config/fish/completions/ruler.fish"),
    ],
)
def test_install(shell: str, file: str, place: Path) -> None:
    """`--install-completion` writes one file for the shell that it is run in."""
    need(shell)
    done = subprocess.run(
        [shell, "-c", "ruler --install-completion; true"],
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=True,
    )
    assert f"{shell} completion installed in {place / 'home' / file}" in done.stdout
    assert "_RULER_COMPLETE" in (place / "home" / file).read_text()
