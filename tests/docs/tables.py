"""Reference tables of the pages: each field, condition and format has a row, and each row is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from benchmarks import projection
from ruler_cli.formats.format import Format
from ruler_cli.formats.keys import ID_KEYS
from ruler_cli.formats.table import FORMATS
from ruler_cli.results.conditions import NAMES
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import BatchFigures
from tests.docs.examples import SAMPLES, run, workspace
from tests.docs.pages import (
    DOCS,
    ROOT,
    Report,
    below,
    between,
    code,
    read,
    table,
)

SIMULATED = {
    name: ROOT / "benchmarks" / "simulation" / f"{name}.md"
    for name in ("gains", "corrections")
}
"""The tables of `make simulate --markdown`, which takes minutes; docs/evidence.md holds them unchanged."""
EVIDENCE = "docs/evidence.md"
BENCHMARKS = "benchmarks/README.md"
BASE_JS = ROOT / "ruler_cli" / "results" / "report" / "web" / "base.js"
CONDITIONS_JS = BASE_JS.with_name("conditions.js")
RICH = [
    "-m",
    "simulated",
    "-m",
    "offline",
    "--passes",
    "2",
    "--group-size",
    "4",
    "--set",
    "order_by_outcome=true",
]
"""Options for the fields that one pass of one judge does not write."""
_EVERYWHERE = {"from", "to", "n", "simulated", "2"}
"""Names that stand in `report --json` in many places, and names of this run's own."""
_FEW = 4
"""Group keys of a format that fit a cell."""


def check_fields(report: Report) -> None:
    """Check that every field in the scored samples has a row in the tables of docs/output.md."""
    page = read("docs/output.md")
    headings = ("On each trajectory", "In `ruler`", "In the group's part")
    spans = {
        span
        for h in headings
        for row in table(page, h)
        for span in code(row[0])
    }
    documented = spans | {span.rpartition(".")[2] for span in spans}
    seen: set[str] = set()
    scored = [
        (ROOT / f"samples/{name}.scored.jsonl").read_bytes() for name in SAMPLES
    ]
    with workspace() as (folder, environment):
        run(
            ["ruler", "score", "samples/simulated.jsonl", "out.jsonl", *RICH],
            folder,
            environment,
        )
        scored.append((folder / "out.jsonl").read_bytes())
    for line in (line for written in scored for line in written.splitlines()):
        record = orjson.loads(line.replace(b"NaN", b"null"))
        for holder in [record, *record.get("trajectories", [])]:
            part = holder["ruler"]
            seen |= (
                part.keys()
                | part.get("group", {}).keys()
                | part.get("usage", {}).keys()
            )
    for missing in sorted(seen - documented):
        report.wrong.append(
            f"docs/output.md: the field `{missing}` of the output has no row in a table"
        )
    report.done.append(f"{len(seen)} output fields")


def _rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells, split at each bar, of every table row below a heading that begins with code."""
    text = below(read(page), heading)
    return [
        line.split("|") for line in text.split("\n") if line.startswith("| `")
    ]


def check_summary(report: Report) -> None:
    """Check that every field of the summary and of its figures has a row in docs/output.md."""
    documented = {
        span
        for row in _rows("docs/output.md", "The summary")
        for span in code(row[1])
    }
    with workspace() as (folder, environment):
        command = "ruler score samples/groups.jsonl out.jsonl -m offline --progress none --summary sum.json"
        run(command.split(), folder, environment)
        summary = orjson.loads((folder / "sum.json").read_bytes())
    live = set(summary) | {one.name for one in fields(BatchFigures)}
    for name in sorted(documented ^ live):
        report.wrong.append(
            f"docs/output.md: `{name}` is not both in the summary and in its tables"
        )
    report.done.append(f"{len(live)} fields of the summary")


def check_report(report: Report) -> None:
    """Check that docs/output.md lists every name in the output of `ruler report --json`, but those of OUTPUT itself."""
    documented: dict[str, set[str]] = {}
    output = read("docs/output.md")
    of_output = {
        name.rpartition(".")[2]
        for heading in ("In `ruler`", "In the group's part")
        for row in table(output, heading)
        for name in code(row[0])
    }
    for row in _rows("docs/output.md", "JSON of `report`"):
        for name in code(row[1]):
            documented.setdefault(name, set()).update(code(row[2]))
    with workspace() as (folder, environment):
        command = [
            "ruler",
            "score",
            "samples/simulated.jsonl",
            "out.jsonl",
            "-m",
            "simulated",
        ]
        run(
            [*command, "--passes", "2", "--progress", "none"],
            folder,
            environment,
        )
        page, one = (
            orjson.loads(
                run(
                    ["ruler", "report", "out.jsonl", "--json", *more],
                    folder,
                    environment,
                ).stdout
            )
            for more in ([], ["--group", "task-1"])
        )
    page["figures"]["made_by"]["versions"].clear()  # its names are no fields
    live = (
        page.keys() | one.keys() | page["figures"].keys() | one["group"].keys()
    )
    for name in sorted((documented.keys() ^ live) - of_output):
        report.wrong.append(
            f"docs/output.md: `{name}` is not both in `ruler report --json` and in its tables"
        )
    for name, value in [*page["figures"].items(), *one["group"].items()]:
        for missing in sorted(
            set(_keys_of(value))
            - documented.get(name, set())
            - of_output
            - _EVERYWHERE
        ):
            report.wrong.append(
                f"docs/output.md: `{missing}` of `{name}` in `report --json` is not documented"
            )
    report.done.append(f"{len(live)} fields of report --json")


def check_comparison(report: Report) -> None:
    """Check that docs/output.md lists every name in the output of `ruler compare A B --json`."""
    rows = _rows("docs/output.md", "JSON of two files")
    documented = {span for row in rows for span in code("|".join(row[1:]))}
    with workspace() as (folder, environment):
        for name in ("simulated", "offline"):
            command = [
                "ruler",
                "score",
                "samples/simulated.jsonl",
                f"{name}.jsonl",
                "-m",
                name,
            ]
            run([*command, "--progress", "none"], folder, environment)
        files = [
            "ruler",
            "compare",
            "simulated.jsonl",
            "offline.jsonl",
            "--json",
        ]
        page = orjson.loads(run(files, folder, environment).stdout)
    for file in page["files"]:
        del file["figures"]
    for holder in page["differ"]:  # as in the JSON of one file
        holder |= {"a": None, "b": None}
    live = page.keys() | set(_keys_of(page))
    for name in sorted(live - documented - _EVERYWHERE - {"figures"}):
        report.wrong.append(
            f"docs/output.md: `{name}` of `ruler compare A B --json` is not in its table"
        )
    fields = {span for row in rows for span in code(row[1])}
    for name in sorted(fields - live):
        report.wrong.append(
            f"docs/output.md: `{name}` is not in `ruler compare A B --json`"
        )
    report.done.append(f"{len(live)} fields of report A B --json")


def check_trend(report: Report) -> None:
    """Check that docs/output.md lists every name in the output of `ruler trend A B C --json`, and no other."""
    rows = _rows("docs/output.md", "JSON of a trend")
    documented = {span for row in rows for span in code("|".join(row[1:]))}
    with workspace() as (folder, environment):
        command = ["ruler", "score", "samples/simulated.jsonl"]
        judges = ["-m", "simulated", "-m", "offline", "--progress", "none"]
        for name in ("1.jsonl", "2.jsonl", "3.jsonl"):
            run([*command, name, *judges], folder, environment)
        files = ["ruler", "trend", "1.jsonl", "2.jsonl", "3.jsonl", "--json"]
        page = orjson.loads(run(files, folder, environment).stdout)
    live = set(_keys_of(page))
    for name in sorted(live - documented - _EVERYWHERE):
        report.wrong.append(
            f"docs/output.md: `{name}` of `ruler trend A B C --json` is not in its table"
        )
    fields = {span for row in rows for span in code(row[1])}
    for name in sorted(fields - live):
        report.wrong.append(
            f"docs/output.md: `{name}` is not in `ruler trend A B C --json`"
        )
    report.done.append(f"{len(live)} fields of report A B C --json")


def _keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_of(inner)


def check_conditions(report: Report) -> None:
    """Check that the tables of `select` and of a report's links list each condition once."""
    rows = table(read("docs/select.md"), "Conditions")
    documented = [
        span.partition("=")[0] for row in rows for span in code(row[0])
    ]
    if set(documented) != {*NAMES}:
        report.wrong.append(
            f"docs/select.md: --where takes {', '.join(NAMES)}; its table has {', '.join(documented)}"
        )
    links = _rows("docs/report.md", "Links")
    spans = [
        span
        for row in links
        for span in code(row[1])
        if not span.startswith("#")
    ]
    linked = sorted({span.partition("=")[0] for span in spans})
    base, sorts = (
        BASE_JS.read_text(encoding="utf-8"),
        CONDITIONS_JS.read_text(encoding="utf-8"),
    )
    lists = re.findall(
        r"^const (?:WORDS|GROUP_RANGES) = \[(.*)\];$", base, re.MULTILINE
    )
    ranges = re.findall(
        r"^const ROLLOUT_RANGES = \{(.*)\};$", base, re.MULTILINE
    )
    live = {
        "field.PATH",
        "search",
        "sort",
        "where",
        *re.findall(r'"(\w+)"', "".join(lists)),
        *re.findall(r"(\w+):", "".join(ranges)),
    }
    if linked != sorted(live):
        report.wrong.append(
            f"docs/report.md: a report's links take {', '.join(sorted(live))}, not {linked}"
        )
    columns = re.findall(r'\["(\w+)", \(rows\)', sorts)
    sortable = {
        span
        for row in links
        for span in code("|".join(row[1:]))
        if re.fullmatch(r"\w+=?", span)
    }
    for name in columns:
        if name not in sortable and f"{name}=" not in sortable:
            report.wrong.append(
                f"docs/report.md: the table sorts by `{name}`, which is not documented"
            )
    report.done.append(
        f"{len(NAMES)} conditions of select, {len(live)} of a report's links"
    )


_FORMATS = "docs/formats.md"


def with_formats(text: str) -> str:
    """Return docs/formats.md with the table of formats between its comments."""
    lines = [
        "| format | written by | a record is | its keys | group key | the score goes to | example |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    before = ""
    for form in FORMATS:
        name = "" if form.family == before else f"`{form.family}`"
        before = form.family
        examples = ", ".join(
            f"[{Path(each).stem}](../samples/{each})" for each in form.examples
        )
        cells = [name, form.writers, form.record, form.shown]
        cells += [_key_of(form), _score_of(form), examples]
        lines.append("| " + " | ".join(cells).replace("  ", " ") + " |")
    return between(text, "formats", "\n" + "\n".join(lines) + "\n\n")


def _key_of(form: Format) -> str:
    """Return the cell on the group key of a format."""
    keys = [
        f"`{key}`" for key in form.key_paths if not key.startswith("traces.0.")
    ]
    if len(keys) > _FEW:
        keys = ["[an id](#ids-and-prompts)"]
    if form.key_description:
        keys = [form.key_description, *keys]
    if form.shape == "group":
        return ", ".join([*keys, "else the line" if keys else "the line"])
    needed = (
        form.key_paths
        and len(form.key_paths) == 1
        and set(form.key_paths) & set(form.has.split())
    )
    if form.key_description or needed:
        return ", ".join(keys)
    return ", ".join([*keys, "else the prompt" if keys else "the prompt"])


def _score_of(form: Format) -> str:
    """Return the cell on the paths of the score and of the annotation."""
    if not form.reward:
        return "`ruler.rollouts` only"
    listed = " (a list)" if form.listed else ""
    ours = "" if form.ruler == "ruler" else f", `{form.ruler}`"
    return f"`{form.reward}`{listed}{ours}"


def check_formats(report: Report) -> None:
    """Check the table of formats, its links, and that each example is of the format beside it."""
    page = read(_FORMATS)
    if page != with_formats(page):
        report.wrong.append(
            f"{_FORMATS}: the table of formats is not that of ruler"
        )
    documented = _families(table(page, "Formats"))
    examples = [
        link
        for rows in documented.values()
        for row in rows
        for link in _examples(row)
    ]
    for form in FORMATS:
        if not (form.examples and form.record):
            report.wrong.append(f"{_FORMATS}: {form.name} has no example")
    for path in sorted((ROOT / "samples/formats").iterdir()):
        if examples.count(path) != 1:
            report.wrong.append(
                f"{_FORMATS}: the table of formats names {path.name} not once"
            )
    for family, rows in documented.items():
        for path in (path for row in rows for path in _examples(row)):
            if (seen := _family_of(path)) != family:
                report.wrong.append(
                    f"{_FORMATS}: {path.name} stands at {family} and is {seen}"
                )
    ids = " ".join(f"`{key}`," for key in ID_KEYS.split("|")).removesuffix(",")
    if ids not in page:
        report.wrong.append(f"{_FORMATS} does not say {ids}")
    report.done.append(
        f"{len(documented)} formats with {len(examples)} examples"
    )


def _families(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """Return the rows of each family; a row without a name belongs to the one above."""
    result: dict[str, list[list[str]]] = {}
    name = ""
    for row in rows:
        name = next(iter(code(row[0])), name)
        result.setdefault(name, []).append(row)
    return result


def _examples(row: list[str]) -> list[Path]:
    """Return the files that the last cell of a row links to."""
    return [
        (DOCS / link).resolve()
        for link in re.findall(r"\]\(([^)]+)\)", row[-1])
    ]


def _family_of(path: Path) -> str:
    """Return the format of a file, as `--format` names it."""
    with ExitStack() as stack:
        reader = open_input(
            InputSettings(str(path)), stack, lambda problem: None
        ).reader
        return "" if reader is None else reader.format.family


def with_simulated(text: str) -> str:
    """Return docs/evidence.md with the outputs of the simulation between its comments."""
    for name, path in SIMULATED.items():
        text = between(text, name, path.read_text(encoding="utf-8"))
    return text


def check_benchmarks(report: Report) -> None:
    """Check the simulation's table, the cost of 100 million rollouts, and the rows that a page repeats."""
    text = read(BENCHMARKS)
    evidence = read(EVIDENCE)
    if evidence != with_simulated(evidence):
        names = " or ".join(SIMULATED)
        report.wrong.append(
            f"{EVIDENCE}: the tables between the marks {names} are not those of benchmarks/simulation"
        )
    rows = table(text, projection.HEADING)
    if not rows:
        report.wrong.append(
            f"{BENCHMARKS}: there is no table below {projection.HEADING!r}"
        )
        return
    report.wrong += [
        f"{BENCHMARKS}: {sentence}" for sentence in projection.wrong(rows)
    ]
    for row in table(read("docs/batch.md"), "100 million rollouts"):
        if row not in [whole[:-1] for whole in rows]:
            report.wrong.append(
                f"docs/batch.md: the row {row[0]!r} is not as in {BENCHMARKS}"
            )
    report.done.append(
        f"{len(projection.COMPUTED)} rows on 100 million rollouts"
    )
