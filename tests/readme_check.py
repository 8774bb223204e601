"""Prove README.md by running it.

    python -m tests.readme_check            exit 1, with a diff, if the README or a sample is wrong
    python -m tests.readme_check --write    write the outputs and the scored samples anew

Fenced blocks follow these rules:

- `console`: each line behind `$ ` is run by bash in a fresh copy of `samples/`, the lines below it
  must appear on stdout and stderr together.  A command with nothing below it must exit with 0.
- `sh`: not run, because it costs money or installs something; each `ruler` command must be one that
  the command line takes.
- `python`: must run; it must print the `text` block right behind it.

Time varies from run to run, so `"judged_at":"2026-11-21T02:14:05Z"`, `"latency_s":0.012`,
`"seconds": 0.012`, `in 0.1 s`, `2026-11-21 02:14 UTC` and what depends on it, `"most_in_flight": 3`, are
compared as if each stood at 0.  Each run has its ledger in a directory of its own.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import typer.main

from benchmarks import projection
from ruler_cli.cli import app
from ruler_cli.config import InputSettings
from ruler_cli.errors import UsageError
from ruler_cli.formats.detect import families, formats
from ruler_cli.formats.interface import ID_KEYS, Format
from ruler_cli.observer import BatchFigures, Summary
from ruler_cli.reading.input import open_input
from ruler_cli.results.conditions import NAMES, parse_condition

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
GAINS = ROOT / "benchmarks" / "simulation" / "gains.md"
"""The table of `make simulate --markdown`, which takes minutes; the README contains it unchanged."""
SAMPLES = ("one", "groups", "trajectories", "scattered", "art_groups", "tau_bench", "hostile")
OTHERS = {"simulated.jsonl", "formats", "pictures"}
"""Other samples: one without words for the offline judge, and folders."""
BASE_JS = ROOT / "ruler_cli" / "results" / "report" / "web" / "base.js"
CONDITIONS_JS = BASE_JS.with_name("conditions.js")
COMMANDS = (
    *("", "score", "check", "prompt", "render", "agree", "report", "select"),
    *("ledger", "ledger path", "ledger stats", "ledger clear", "ledger import"),
    *("batch", "batch submit", "batch status", "batch collect", "batch cancel"),
)
RICH = ["-m", "simulated", "-m", "offline", "--passes", "2", "--group-size", "4", "--order-by-outcome"]
"""Options for the fields that one pass of one judge does not write."""
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?"
_SECONDS = re.compile(rf'("(?:latency_s|seconds|most_in_flight)": ?|\bin ){_NUMBER}( s\b|(?=[,}}\n]))')
_INSTANT = re.compile(r'("judged_at": ?")[^"]+')
_MINUTES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?: to (?:\d{4}-\d\d-\d\d )?\d\d:\d\d)? UTC")
_END = "--- exit "
_TIMEOUT = 120
_EVERYWHERE = {"from", "to", "n", "simulated", "2"}
"""Names that stand in `report --json` in many places, and names of this run's own."""
_FEW = 4
"""Group keys of a format that fit a cell."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the number of its first line, its lines."""

    language: str
    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        """Return the lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)


@dataclass
class Report:
    """The summary of all checks, and the differences."""

    done: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def same(self, subject: str, documented: str, live: str) -> None:
        """Compare a documented text with the live one."""
        if normal(documented) == normal(live):
            return
        diff = difflib.unified_diff(
            normal(documented).splitlines(),
            normal(live).splitlines(),
            "as documented",
            "as it is",
            lineterm="",
        )
        self.wrong.append(f"{subject} differs:\n" + "\n".join(f"    {line}" for line in diff))


def normal(text: str) -> str:
    """Return a text with every value that depends on time at 0."""
    return _MINUTES.sub("0 UTC", _INSTANT.sub(r"\g<1>0", _SECONDS.sub(r"\g<1>0\g<2>", text)))


def blocks(readme: str) -> list[Block]:
    """Return every fenced block, in order."""
    result: list[Block] = []
    inside: Block | None = None
    for number, line in enumerate(readme.split("\n"), 1):
        if inside is None and line.startswith("```"):
            inside = Block(line[3:].strip(), number + 1, [])
        elif inside is not None and line == "```":
            result.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
    return result


@contextmanager
def workspace() -> Iterator[tuple[Path, dict[str, str]]]:
    """Open a directory with the samples and an environment in which `ruler` is this checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder, tools = Path(name, "work"), Path(name, "bin")
        folder.mkdir()
        tools.mkdir()
        shutil.copytree(ROOT / "samples", folder / "samples")
        command = tools / "ruler"
        command.write_text(f"#!{sys.executable}\nfrom ruler_cli.cli import main\n\nmain()\n")
        command.chmod(0o755)
        python = tools / "python"  # no link: beside that an environment's packages are not found
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RULER_", "OPENAI_", "HOSTED_VLLM_")) and not key.endswith("_API_KEY")
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


def run(arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
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


def replay(block: Block) -> list[tuple[str, str, int]]:
    """Run a console block in one shell, and return each command with its output and exit code."""
    commands = [command for command, _ in steps(block)]
    # `$?` stays what the command left it, so that a block can show it with `echo $?`
    script = "".join(
        f'{command}\n_code=$?; printf "\\n%s%s\\n" "{_END}" "$_code"; (exit "$_code")\n'
        for command in commands
    )
    with workspace() as (folder, environment):
        output = run(["bash", "-c", script], folder, environment).stdout
    parts = re.split(rf"\n{_END}([0-9]+)\n", output)
    return list(zip(commands, parts[::2], map(int, parts[1::2]), strict=False))


def check_sessions(fenced: list[Block], report: Report) -> list[Block]:
    """Run the console blocks, and return them with their live outputs."""
    fresh, count = [], 0
    for block in fenced:
        if block.language != "console":
            fresh.append(block)
            continue
        lines: list[str] = []
        replayed = replay(block)
        if len(replayed) < len(steps(block)):
            report.wrong.append(
                f"README.md line {block.line}: the shell does not get to the end of the block"
            )
            fresh.append(block)
            continue
        for (command, documented), (_, live, code) in zip(steps(block), replayed, strict=True):
            count += 1
            if documented:
                report.same(f"README.md line {block.line}: the output of `{command}`", documented, live)
            elif code:
                message = live.strip() or "nothing"
                report.wrong.append(
                    f"README.md line {block.line}: `{command}` exits with {code} and says: {message}"
                )
            now = documented if normal(documented) == normal(live) else live
            first, *more = command.split("\n")
            lines += [f"$ {first}", *(f"> {line}" for line in more)]
            lines += now.splitlines() if documented else []
        fresh.append(replace(block, lines=lines))
    report.done.append(f"{count} commands in console blocks")
    return fresh


def check_help(fenced: list[Block], report: Report) -> None:
    """Check that console blocks contain the help of every command."""
    documented = {command for block in fenced if block.language == "console" for command, _ in steps(block)}
    for name in COMMANDS:
        command = " ".join(["ruler", *([name] if name else []), "--help"])
        if command not in documented:
            report.wrong.append(f"README.md does not show `{command}`")
    live = set(names_of(typer_command()))
    if live != set(filter(None, COMMANDS)):
        report.wrong.append(f"the commands are {sorted(live)}: name them in COMMANDS and in the README")
    report.done.append(f"{len(COMMANDS)} help texts")


def typer_command() -> Any:
    """Return the root command, as typer builds it."""
    return typer.main.get_command(app)


def names_of(group: Any) -> Iterator[str]:
    """Yield the names of all commands of a group, as a user types them."""
    for name, command in group.commands.items():
        yield name
        if hasattr(command, "commands"):
            yield from (f"{name} {inner}" for inner in names_of(command))


def table(readme: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading."""
    _, _, rest = readme.partition(f"\n{heading}\n")
    result: list[list[str]] = []
    for line in rest.split("\n"):
        if line.startswith("|"):
            result.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif result or line.startswith("#"):
            break
    return result[2:]


def code(cell: str) -> list[str]:
    """Return the code spans of a table cell."""
    return re.findall(r"`([^`]+)`", cell)


def check_options(readme: str, report: Report) -> None:
    """Check that the table lists exactly the options of `score`, with variables and defaults."""
    rows = table(readme, "### Options of `ruler score`")
    documented = {" ".join(sorted(part.split()[0] for part in code(row[0]))): row for row in rows}
    live = {
        " ".join(sorted(option.opts)): option
        for option in typer_command().commands["score"].params
        if option.param_type_name == "option" and option.name != "help"
    }
    for names in sorted(documented.keys() ^ live.keys()):
        where = "has no row in the options table" if names in live else "is no option of `ruler score`"
        report.wrong.append(f"README.md: {names} {where}")
    for names in documented.keys() & live.keys():
        option, row = live[names], documented[names]
        named = re.search(r"\[env var: (\w+)\]", option.help or "")  # of one that reads it itself
        variable = named[1] if named else option.envvar
        if code(row[1]) != [variable]:
            report.wrong.append(f"README.md: {names} is set by {variable}, not by {row[1]}")
        stated = re.search(r"\[default: ([^\]]+)\]", option.help or "")
        default = stated[1] if stated else option.default
        wanted = (
            []
            if default is None or default is False
            else [f"{default:g}" if isinstance(default, float) else str(default)]
        )
        if code(row[2]) != wanted and not (stated and row[2].replace("`", "") == default):
            report.wrong.append(f"README.md: the default of {names} is {default}, not {row[2]}")
    report.done.append(f"{len(live)} options of score, with variables and defaults")


def check_syntax(fenced: list[Block], report: Report) -> None:
    """Check that each `ruler` command of an `sh` block names only options that exist."""
    count = 0
    with workspace() as (folder, environment):
        for block in fenced:
            if block.language != "sh":
                continue
            for line in block.text.replace("\\\n", " ").split("\n"):
                for words in rulers(line):
                    count += 1
                    done = run([*words, "--help"], folder, environment)
                    if done.returncode:
                        message = done.stdout.strip().split("\n")[-1]
                        report.wrong.append(f"README.md line {block.line}: `{line}` cannot be run: {message}")
                    for condition in conditions_of(words):
                        check_condition(f"README.md line {block.line}", condition, report)
    report.done.append(f"{count} further commands, read but not run")


def rulers(line: str) -> Iterator[list[str]]:
    """Yield the words of each `ruler` command in a line of a shell, without redirections."""
    words = [*shlex.split(line, comments=True), ";"]
    while "ruler" in words:
        words = words[words.index("ruler") :]
        stop = next(i for i, word in enumerate(words) if word in ("|", "&&", "||", ";"))
        yield [word for word in words[:stop] if not re.match(r"[0-9]?>", word)]
        words = words[stop:]


def conditions_of(words: list[str]) -> list[str]:
    """Return the value of each `--where`, which `--help` does not check."""
    return [after for word, after in pairwise(words) if word == "--where"]


def check_condition(where: str, condition: str, report: Report) -> None:
    """Check that a condition is valid."""
    try:
        parse_condition(condition)
    except UsageError as error:
        report.wrong.append(f"{where}: {error}")


def check_python(fenced: list[Block], report: Report) -> list[Block]:
    """Run the Python examples, and return the blocks with the live output in their `text` blocks."""
    fresh, printed = [], None
    for block in fenced:
        if block.language == "text" and printed is not None:
            report.same(f"README.md line {block.line}: what the Python example prints", block.text, printed)
            fresh.append(replace(block, lines=printed.splitlines()))
        else:
            fresh.append(block)
        printed = None
        if block.language == "python":
            with workspace() as (folder, environment):
                done = run([sys.executable, "-c", block.text], folder, environment)
            printed = done.stdout
            if done.returncode:
                report.wrong.append(f"README.md line {block.line}: the Python example fails:\n{printed}")
    report.done.append(f"{sum(block.language == 'python' for block in fenced)} Python example")
    return fresh


def scored_samples(report: Report, *, write: bool) -> None:
    """Check that the scored and failed files of each sample equal those of a fresh run."""
    with workspace() as (folder, environment):
        for name in SAMPLES:
            made = [f"samples/{name}.scored.jsonl", f"samples/{name}.scored.jsonl.failed.jsonl"]
            for path in made:
                (folder / path).unlink(missing_ok=True)
            run(["ruler", "score", f"samples/{name}.jsonl", made[0], "-m", "offline"], folder, environment)
            for path in made:
                stored, live = _read(ROOT / path), _read(folder / path)
                if normal(stored) == normal(live):
                    continue
                if not write:
                    report.same(path, stored, live)
                elif live:
                    shutil.copyfile(folder / path, ROOT / path)
                else:
                    (ROOT / path).unlink()
    ends = (".jsonl", ".scored.jsonl", ".scored.jsonl.failed.jsonl")
    known = {name + end for name in SAMPLES for end in ends}
    for unknown in sorted({file.name for file in (ROOT / "samples").iterdir()} - known - OTHERS):
        report.wrong.append(f"samples/{unknown} belongs to no sample that is checked")
    report.done.append(f"{len(SAMPLES)} samples, scored anew")


def check_fields(readme: str, report: Report) -> None:
    """Check that every field in the scored samples has a row in the tables of fields."""
    headings = ("### On each trajectory", "### On each group", "### In `ruler`", "### In the group's part")
    spans = {span for h in headings for row in table(readme, h) for span in code(row[0])}
    documented = spans | {span.rpartition(".")[2] for span in spans}
    seen: set[str] = set()
    scored = [(ROOT / f"samples/{name}.scored.jsonl").read_bytes() for name in SAMPLES]
    with workspace() as (folder, environment):
        run(["ruler", "score", "samples/simulated.jsonl", "out.jsonl", *RICH], folder, environment)
        scored.append((folder / "out.jsonl").read_bytes())
    for line in (line for written in scored for line in written.splitlines()):
        record = orjson.loads(line.replace(b"NaN", b"null"))
        for holder in [record, *record.get("trajectories", [])]:
            part = holder["ruler"]
            seen |= part.keys() | part.get("group", {}).keys() | part.get("usage", {}).keys()
    for missing in sorted(seen - documented):
        report.wrong.append(f"README.md: the field `{missing}` of the output has no row in a table")
    report.done.append(f"{len(seen)} output fields")


def check_summary(readme: str, report: Report) -> None:
    """Check that every field of the summary and of its figures has a row below its heading."""
    _, _, rest = readme.partition("\n### The summary\n")
    rows = [line for line in rest.partition("\n## ")[0].split("\n") if line.startswith("| `")]
    documented = {span for row in rows for span in code(row.split("|")[1])}
    live = {"version"} | {one.name for kind in (Summary, BatchFigures) for one in fields(kind)}
    for name in sorted(documented ^ live):
        report.wrong.append(f"README.md: `{name}` is not both in the summary and in its tables")
    report.done.append(f"{len(live)} fields of the summary")


def check_report(readme: str, report: Report) -> None:
    """Check that the tables list every name in the output of `ruler report --json`."""
    rows = [line.split("|") for line in below(readme, "### As JSON").split("\n") if line.startswith("| `")]
    documented: dict[str, set[str]] = {}
    for row in rows:
        for name in code(row[1]):
            documented.setdefault(name, set()).update(code(row[2]))
    with workspace() as (folder, environment):
        command = ["ruler", "score", "samples/simulated.jsonl", "out.jsonl", "-m", "simulated"]
        run([*command, "--passes", "2", "--progress", "none"], folder, environment)
        page, one = (
            orjson.loads(run(["ruler", "report", "out.jsonl", "--json", *more], folder, environment).stdout)
            for more in ([], ["--group", "task-1"])
        )
    live = page.keys() | one.keys() | page["figures"].keys() | one["group"].keys()
    for name in sorted(documented.keys() ^ live):
        report.wrong.append(f"README.md: `{name}` is not both in `ruler report --json` and in its tables")
    for name, value in [*page["figures"].items(), *one["group"].items()]:
        for missing in sorted(set(_keys_of(value)) - documented.get(name, set()) - _EVERYWHERE):
            report.wrong.append(
                f"README.md: `{missing}` of `{name}` in `ruler report --json` is not documented"
            )
    report.done.append(f"{len(live)} fields of report --json")


def _keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_of(inner)


def check_conditions(readme: str, report: Report) -> None:
    """Check that the tables of `select` and of a report's links list each condition once."""
    documented = [span.partition("=")[0] for row in table(readme, "### Conditions") for span in code(row[0])]
    if set(documented) != set(NAMES):
        report.wrong.append(
            f"README.md: --where takes {', '.join(NAMES)}; its table has {', '.join(documented)}"
        )
    rows = [line.split("|") for line in below(readme, "#### Links").split("\n") if line.startswith("| `")]
    spans = [span for row in rows for span in code(row[1]) if not span.startswith("#")]
    linked = sorted({span.partition("=")[0] for span in spans})
    base, sorts = BASE_JS.read_text(encoding="utf-8"), CONDITIONS_JS.read_text(encoding="utf-8")
    lists = re.findall(r"^const (?:WORDS|GROUP_RANGES) = \[(.*)\];$", base, re.MULTILINE)
    ranges = re.findall(r"^const ROLLOUT_RANGES = \{(.*)\};$", base, re.MULTILINE)
    live = {
        "search",
        "sort",
        *re.findall(r'"(\w+)"', "".join(lists)),
        *re.findall(r"(\w+):", "".join(ranges)),
    }
    if linked != sorted(live):
        report.wrong.append(f"README.md: a report's links take {', '.join(sorted(live))}, not {linked}")
    columns = re.findall(r'\["(\w+)", \(rows\)', sorts)
    sortable = {span for row in rows for span in code("|".join(row[1:])) if re.fullmatch(r"\w+=?", span)}
    for name in columns:
        if name not in sortable and f"{name}=" not in sortable:
            report.wrong.append(f"README.md: a report's table is sorted by `{name}`, which is not documented")
    report.done.append(f"{len(NAMES)} conditions of select, {len(live)} of a report's links")


def below(readme: str, heading: str) -> str:
    """Return the text below a heading, up to the next one of its rank or above."""
    rank = len(heading.partition(" ")[0])
    _, _, rest = readme.partition(f"\n{heading}\n")
    return re.split(rf"^#{{1,{rank}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def check_formats(readme: str, report: Report) -> None:
    """Check the names, keys and paths of the table of formats, and that it links every example once."""
    documented = rows_of(table(readme, "### Formats"))
    for name in sorted(set(families()) ^ documented.keys()):
        report.wrong.append(f"README.md: the table of formats and `--format` differ in `{name}`")
    for form in formats():
        rows = documented.get(form.family, [])
        for column, wanted in places_of(form).items():
            cells = " ".join(row[column] for row in rows)
            for part in wanted:
                if part not in cells:
                    report.wrong.append(f"README.md: the table of formats does not say {part} of {form.name}")
    examples = [link for rows in documented.values() for row in rows for link in links(row[-1])]
    if any(not links(row[-1]) for rows in documented.values() for row in rows):
        report.wrong.append("README.md: a row of the table of formats has no example")
    for path in sorted((ROOT / "samples/formats").iterdir()):
        if examples.count(f"samples/formats/{path.name}") != 1:
            report.wrong.append(f"README.md: the table of formats names {path.name} not once")
    for family, rows in documented.items():
        for link in (link for row in rows for link in links(row[-1])):
            if (seen := family_of(ROOT / link)) != family:
                report.wrong.append(f"README.md: {link} stands at {family} and is {seen}")
    report.done.append(f"{len(documented)} formats with {len(examples)} examples")


def rows_of(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """Return the rows of each family; a row without a name belongs to the one above."""
    result: dict[str, list[list[str]]] = {}
    name = ""
    for row in rows:
        name = next(iter(code(row[0])), name)
        result.setdefault(name, []).append(row)
    return result


def places_of(form: Format) -> dict[int, list[str]]:
    """Return the cells of a format by column: its keys, group key and paths of the score."""
    keys = [f"`{key.removeprefix('traces.0.')}`" for key in form.keys]
    layout = form.layout
    reward = "ruler.rollouts" if layout.reward is None else ".".join(map(str, layout.reward))
    ours = [] if layout.ruler == ("ruler",) else [".".join(map(str, layout.ruler))]
    generic = "[an id]" if len(keys) > _FEW else ""
    return {
        3: [f"`{span}`" for span in code(form.signature)],
        4: [generic] if generic else keys,
        5: [reward, *ours],
    }


def links(cell: str) -> list[str]:
    """Return the targets of the links in a cell."""
    return re.findall(r"\]\(([^)]+)\)", cell)


def family_of(path: Path) -> str:
    """Return the format of a file, as `--format` names it."""
    with ExitStack() as stack:
        reader = open_input(InputSettings(str(path)), stack, lambda problem: None).reader
        return "" if reader is None else reader.format.family


def check_ids(readme: str, report: Report) -> None:
    """Check that the ids that group unknown formats stand below the table, in order."""
    ids = " ".join(f"`{key}`," for key in ID_KEYS).removesuffix(",")
    if ids not in readme:
        report.wrong.append(f"README.md does not say {ids}")


def check_links(readme: str, report: Report) -> None:
    """Check that each relative link leads to a file of this checkout or to a heading."""
    headings = re.findall(r"^#+ (.*)$", readme, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    named = re.findall(r"""\]\(([^)\s]+)\)|<(?:a href|img src)="([^"]+)\"""", readme)
    targets = [t for t in map("".join, named) if not re.match(r"[a-z]+:", t)]
    for target in targets:
        path, _, anchor = target.partition("#")
        if path and not (ROOT / path).exists():
            report.wrong.append(f"README.md links to {path}, which does not exist")
        if not path and anchor not in anchors:
            report.wrong.append(f"README.md links to #{anchor}, which is no heading of it")
    report.done.append(f"{len(targets)} relative links")


def with_gains(readme: str) -> str:
    """Return the README with the output of the simulation between its comments."""
    start, end = "<!-- gains -->\n", "<!-- /gains -->"
    before, opened, rest = readme.partition(start)
    _, closed, after = rest.partition(end)
    return f"{before}{start}{_read(GAINS)}{end}{after}" if opened and closed else ""


def check_gains(readme: str, report: Report) -> None:
    """Check that the table of gains by option is the simulation's."""
    if readme != with_gains(readme):
        report.wrong.append(
            f"README.md: the table between the marks `gains` is not {GAINS.relative_to(ROOT)}"
        )
    report.done.append("the simulation's table")


def check_projection(readme: str, report: Report) -> None:
    """Check that the cost of 100 million rollouts follows, row by row, from measured rows."""
    rows = table(readme, projection.HEADING)
    if not rows:
        report.wrong.append(f"README.md: there is no table below {projection.HEADING!r}")
        return
    report.wrong += [f"README.md: {sentence}" for sentence in projection.wrong(rows)]
    report.done.append(f"{len(projection.COMPUTED)} rows on 100 million rollouts")


def rewritten(readme: str, old: list[Block], new: list[Block]) -> str:
    """Return the README with each block's lines replaced."""
    lines = readme.split("\n")
    for before, after in reversed(list(zip(old, new, strict=True))):
        start = before.line - 1
        lines[start : start + len(before.lines)] = after.lines
    return "\n".join(lines)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Check, or write and then check, and return the exit code."""
    if arguments not in ([], ["--write"]):
        print("usage: python -m tests.readme_check [--write]", file=sys.stderr)
        return 2
    readme = README.read_text(encoding="utf-8")
    if arguments:
        scored_samples(Report(), write=True)
        old = blocks(readme)
        new = check_python(check_sessions(old, Report()), Report())
        readme = rewritten(readme, old, new)
        readme = with_gains(readme) or readme
        README.write_text(readme, encoding="utf-8")
    report, fenced = Report(), blocks(readme)
    check_sessions(fenced, report)
    check_help(fenced, report)
    check_options(readme, report)
    check_syntax(fenced, report)
    check_python(fenced, report)
    scored_samples(report, write=False)
    check_fields(readme, report)
    check_summary(readme, report)
    check_report(readme, report)
    check_conditions(readme, report)
    check_formats(readme, report)
    check_ids(readme, report)
    check_links(readme, report)
    check_gains(readme, report)
    check_projection(readme, report)
    for sentence in report.wrong:
        print(f"wrong: {sentence}")
    print("README.md: checked " + "; ".join(report.done))
    if report.wrong:
        print(f"{len(report.wrong)} differences. `python -m tests.readme_check --write` writes outputs anew.")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
