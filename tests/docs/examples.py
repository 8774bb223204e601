"""Examples that are run: commands and their output, Python, and the scored samples."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TypeVar

from ruler_cli.errors import UsageError
from ruler_cli.results.conditions import parse_condition
from tests.command import run_here
from tests.docs.pages import ROOT, Block, Report, normal, read
from tests.judge_server import JudgeServer

SAMPLES = (
    "one",
    "groups",
    "trajectories",
    "scattered",
    "art_groups",
    "tau_bench",
    "hostile",
)
OTHERS = {
    "rubric.toml",
    "simulated.jsonl",
    "formats",
    "labels",
    "recipes",
    "ruler.toml",
}
"""Other samples: one without words for the offline judge, folders, and settings."""
ONE_SESSION = "<!-- one session -->"
"""Mark of a page whose examples run one after the other in one directory, as a reader types them."""
JUDGE = "$JUDGE"
"""Variable that holds the address of a judge on this machine, if an example names it."""
_WITH_JUDGE = """from benchmarks.simulated import EMBEDDED
from ruler_cli.cli import main

EMBEDDED["the-judge"] = EMBEDDED["simulated"]
main()
"""
"""The command with the judge of the pages, whose figures anybody gets again."""
_EXCERPT = re.compile(r"<!-- from (\S+) -->\n```json\n(.*?)```", re.DOTALL)
_END = "--- exit "
_TIMEOUT = 300
_AT_ONCE = max(2, os.cpu_count() or 1)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def parallel(
    call: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """Call a function that waits for processes with each item, as many at once as there are cores."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(call, items))


def _program(path: Path, text: str) -> None:
    """Write a program by a process of its own.

    If this process had the file open, a child that another thread starts at that moment would have it open
    too, and the system runs no file that is open for writing.
    """
    subprocess.run(
        ["tee", path],
        input=text.encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    path.chmod(0o755)


@contextmanager
def workspace() -> Iterator[tuple[Path, dict[str, str]]]:
    """Open a directory with the samples and an environment in which `ruler` is this checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder, tools = Path(name, "work"), Path(name, "bin")
        folder.mkdir()
        tools.mkdir()
        shutil.copytree(ROOT / "samples", folder / "samples")
        command = tools / "ruler"
        _program(
            command,
            f"#!{sys.executable}\n{_WITH_JUDGE}",
        )
        python = (
            tools / "python"
        )  # no link: beside that an environment's packages are not found
        _program(
            python, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
        )
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RULER_", "OPENAI_", "HOSTED_VLLM_"))
            and not key.endswith("_API_KEY")
        }
        fixed = {
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            "COLUMNS": "100",
            "TERMINAL_WIDTH": "100",
            "TERM": "dumb",
            "XDG_CACHE_HOME": str(Path(name, "cache")),
            "NO_COLOR": "1",
        }
        yield folder, inherited | fixed


def run(
    arguments: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with stdout and stderr as one text."""
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )


def steps(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with its documented output."""
    result: list[tuple[str, str]] = []
    for line in block.lines:
        if line.startswith("$ "):
            result.append((line[2:], ""))
        elif line.startswith("> ") and result and not result[-1][1]:
            result[-1] = (f"{result[-1][0]}\n{line[2:]}", "")
        elif result:
            result[-1] = (result[-1][0], f"{result[-1][1]}{line}\n")
    return result


def sessions(fenced: Sequence[Block]) -> list[list[int]]:
    """Return the numbers of the blocks that run in one shell: all of a page with ONE_SESSION, else one."""
    result: list[list[int]] = []
    pages: dict[str, list[int]] = {}
    for number, block in enumerate(fenced):
        if block.language not in ("console", "python"):
            continue
        if block.page in pages:
            pages[block.page].append(number)
            continue
        result.append([number])
        if ONE_SESSION in read(block.page):
            pages[block.page] = result[-1]
    return result


def replay(blocks: Sequence[Block]) -> list[list[tuple[str, int]]]:
    """Run blocks in one shell, and return the output and exit code of each command of each block."""
    commands = [commands_of(block) for block in blocks]
    # `$?` stays what the command left it, so that a block can show it with `echo $?`
    script = "".join(
        f'{command}\n_code=$?; printf "\\n%s%s\\n" "{_END}" "$_code"; (exit "$_code")\n'
        for command in chain(*commands)
    )
    with workspace() as (folder, environment), ExitStack() as stack:
        if JUDGE in script:
            judge = stack.enter_context(JudgeServer()).base
            environment["JUDGE"] = judge
        else:
            judge = JUDGE
        output = run(
            ["bash", "-c", script], folder, environment
        ).stdout.replace(judge, JUDGE)
    parts = re.split(rf"\n{_END}([0-9]+)\n", output)
    done = zip(parts[::2], map(int, parts[1::2]), strict=False)
    return [list(islice(done, len(each))) for each in commands]


def commands_of(block: Block) -> list[str]:
    """Return the commands of a console block, and the one that runs a block of Python."""
    if block.language == "python":
        return [f"python -c {shlex.quote(block.text)}"]
    return [command for command, _ in steps(block)]


def check_examples(fenced: Sequence[Block], report: Report) -> list[Block]:
    """Run the console and Python blocks, and return all blocks with their live outputs."""
    together = sessions(fenced)
    played = parallel(
        replay, [[fenced[number] for number in numbers] for numbers in together]
    )
    outputs = {
        number: output
        for numbers, replayed in zip(together, played, strict=True)
        for number, output in zip(numbers, replayed, strict=True)
    }
    fresh: list[Block] = []
    printed: str | None = None
    for number, block in enumerate(fenced):
        before, printed = printed, None
        if block.language == "text" and before is not None:
            report.same(
                f"{block.where}: the output of the Python example",
                block.text,
                before,
            )
            fresh.append(replace(block, lines=before.splitlines()))
        elif block.language == "python":
            printed = _check_python(block, outputs[number], report)
            fresh.append(block)
        elif block.language == "console":
            fresh.append(
                replace(
                    block, lines=_check_session(block, outputs[number], report)
                )
            )
        else:
            fresh.append(block)
    console = sum(
        len(outputs[number])
        for number in outputs
        if fenced[number].language == "console"
    )
    report.done.append(f"{console} commands in console blocks")
    report.done.append(
        f"{sum(block.language == 'python' for block in fenced)} Python examples"
    )
    return fresh


def _check_session(
    block: Block, replayed: list[tuple[str, int]], report: Report
) -> list[str]:
    """Compare a console block with its live outputs, and return its lines with these."""
    if len(replayed) < len(steps(block)):
        report.wrong.append(
            f"{block.where}: the shell does not get to the end of the block"
        )
        return block.lines
    lines: list[str] = []
    for (command, documented), (output, code) in zip(
        steps(block), replayed, strict=True
    ):
        if documented:
            report.same(
                f"{block.where}: the output of `{command}`", documented, output
            )
        elif code:
            message = output.strip() or "nothing"
            report.wrong.append(
                f"{block.where}: `{command}` exits with {code} and says: {message}"
            )
        now = documented if normal(documented) == normal(output) else output
        first, *more = command.split("\n")
        lines += [f"$ {first}", *(f"> {line}" for line in more)]
        lines += now.splitlines() if documented else []
    return lines


def _check_python(
    block: Block, replayed: list[tuple[str, int]], report: Report
) -> str:
    """Check that a Python block runs, and return what it prints."""
    output, code = replayed[0] if replayed else ("", 1)
    if code:
        report.wrong.append(
            f"{block.where}: the Python example fails:\n{output}"
        )
    return output


def check_excerpts(pages: Sequence[str], report: Report) -> None:
    """Check that each block below `<!-- from FILE -->` is a line of it with "…" for what is left out."""
    count = 0
    for page in pages:
        for source, excerpt in _EXCERPT.findall(read(page)):
            count += 1
            parts = [
                re.escape(re.sub(r"\s", "", part))
                for part in excerpt.split("…")
            ]
            lines = [
                re.sub(r"\s", "", line)
                for line in _read(ROOT / source).splitlines()
            ]
            if not any(re.fullmatch(".*".join(parts), line) for line in lines):
                report.wrong.append(
                    f"{page}: the excerpt of {source} is no line of it"
                )
    report.done.append(f"{count} excerpts of samples")


def check_syntax(fenced: Sequence[Block], report: Report) -> None:
    """Check that each `ruler` command of an `sh` block names only options that exist."""
    commands = [
        (block.where, line, words)
        for block in fenced
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").split("\n")
        for words in rulers(line)
    ]
    for where, line, words in commands:
        done = run_here([*words[1:], "--help"], "", ROOT, {})
        if done.returncode:
            message = done.stderr.strip().split("\n")[-1]
            report.wrong.append(f"{where}: `{line}` cannot be run: {message}")
        for condition in conditions_of(words):
            try:
                parse_condition(condition)
            except UsageError as error:
                report.wrong.append(f"{where}: {error}")
    report.done.append(f"{len(commands)} further commands, read but not run")


def rulers(line: str) -> Iterator[list[str]]:
    """Yield the words of each `ruler` command in a line of a shell, without redirections."""
    words = [*shlex.split(line, comments=True), ";"]
    while "ruler" in words:
        words = words[words.index("ruler") :]
        stop = next(
            i
            for i, word in enumerate(words)
            if word in ("|", "&&", "||", ";", "&")
        )
        yield [word for word in words[:stop] if not re.match(r"[0-9]?>", word)]
        words = words[stop:]


def conditions_of(words: list[str]) -> list[str]:
    """Return the value of each `--where`, which `--help` does not check."""
    return [after for word, after in pairwise(words) if word == "--where"]


def scored_samples(report: Report, *, write: bool) -> None:
    """Check that the scored and failed files of each sample equal those of a fresh run."""

    def score(name: str) -> list[tuple[str, str]]:
        made = [
            f"samples/{name}.scored.jsonl",
            f"samples/{name}.scored.jsonl.failed.jsonl",
        ]
        with workspace() as (folder, environment):
            for path in made:
                (folder / path).unlink(missing_ok=True)
            run(
                [
                    "ruler",
                    "score",
                    f"samples/{name}.jsonl",
                    made[0],
                    "-m",
                    "offline",
                ],
                folder,
                environment,
            )
            return [(path, _read(folder / path)) for path in made]

    for path, live in (
        pair for made in parallel(score, SAMPLES) for pair in made
    ):
        stored = _read(ROOT / path)
        if normal(stored) == normal(live):
            continue
        if not write:
            report.same(path, stored, live)
        elif live:
            (ROOT / path).write_text(
                live, encoding="utf-8", errors="surrogateescape", newline=""
            )
        else:
            (ROOT / path).unlink()
    ends = (".jsonl", ".scored.jsonl", ".scored.jsonl.failed.jsonl")
    known = {name + end for name in SAMPLES for end in ends}
    for unknown in sorted(
        {file.name for file in (ROOT / "samples").iterdir()} - known - OTHERS
    ):
        report.wrong.append(
            f"samples/{unknown} belongs to no sample that is checked"
        )
    report.done.append(f"{len(SAMPLES)} samples, scored anew")


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open(
        encoding="utf-8", errors="surrogateescape", newline=""
    ) as file:
        return file.read()
