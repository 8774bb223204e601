"""Files that a command would replace: those of other programs stay, those of ruler are written anew."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_cli.files.error_map import zstd
from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import BatchServer, JudgeServer

DUMP = [group("a", 0.1, 0.9), group("b", 0.2, 0.7, 0.4)]
LINES = "".join(json.dumps(record) + "\n" for record in DUMP).encode()
SCORE = ("-m", "offline", "--ledger", "none", "-q")


def table() -> bytes:
    """The dump as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(DUMP), file)
    return file.getvalue()


def archive() -> bytes:
    """An archive without a sample of Inspect."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("notes.txt", "mine")
    return file.getvalue()


FOREIGN: dict[str, bytes] = {
    "rollouts": LINES,
    "list": json.dumps(DUMP).encode(),
    "document": json.dumps({"notes": "mine", "runs": []}, indent=1).encode(),
    "no records at a known path": b'{"notes": "mine", "simulations": []}',
    "numbers": b"[1, 2]",
    "text": b"mine\n",
    "rows": b"task,answer\n1,2\n",
    "page": b"<!doctype html><title>mine</title>",
    "another's verdicts": b'{"eval": {"status": "failed", "judge": "m"}}\n',
    "another's summary": b'{"version": 1, "files": []}\n',
    "binary": b"\0\1\2\3",
    "packed": gzip.compress(LINES),
    "packed otherwise": zstd.compress(LINES),
    "cut off": gzip.compress(LINES)[:20],
    "table": table(),
    "archive": archive(),
    "deep": b'{"a":' * 5000,
}
"""Contents of files that ruler did not write."""
WRITERS = {
    "score in.jsonl {} -m offline --ledger none": ".jsonl .json .jsonl.gz .jsonl.zst .parquet txt",
    "score in.jsonl out -m offline --ledger none --summary {}": ".json .txt",
    "report scored.jsonl -o {}": ".html",
    "compare scored.jsonl b.scored.jsonl -o {}": ".html",
    "trend scored.jsonl b.scored.jsonl c.scored.jsonl -o {}": ".html",
    "label scored.jsonl --pairs 2 -o {}": ".html",
    "select scored.jsonl {} --where scored": ".jsonl .json .jsonl.gz .parquet",
    "select scored.jsonl {} --as pairs --gap 0.01": ".jsonl .json.zst .parquet",
    "batch export in.jsonl {} -m openai/o3": ".jsonl .jsonl.gz",
    "batch export in.jsonl {} -m anthropic/claude-sonnet-4-5": ".jsonl",
}
"""Command lines that write a file, and the endings of its name."""


@pytest.fixture
def files(ruler: Ruler, tmp_path: Path) -> Path:
    """Write a dump and its scored files."""
    write(tmp_path / "in.jsonl", DUMP)
    for name in ("scored", "b.scored", "c.scored"):
        source = "in.jsonl"
        assert ruler("score", source, f"{name}.jsonl", *SCORE).returncode == 0
    return tmp_path


def test_foreign(ruler: Ruler, files: Path) -> None:
    """No command replaces a file that ruler did not write, of whatever kind, unless it is told to."""
    for line, endings in WRITERS.items():
        path = files / f"x{endings.split()[0]}"
        words = line.format(path.name).split()
        for kind, content in FOREIGN.items():
            path.write_bytes(content)
            before = sorted(files.iterdir())
            done = ruler(*words)
            assert (done.returncode, done.stdout) == (2, ""), (
                line,
                kind,
                done.stderr,
            )
            assert f"{path.name}: exists, and " in done.stderr, (line, kind)
            assert "or replace it with --force" in done.stderr
            assert "Traceback" not in done.stderr
            assert path.read_bytes() == content, (line, kind)
            assert sorted(files.iterdir()) == before
        done = ruler(*words, "--force")
        assert done.returncode == 0, (line, done.stderr)
        assert path.read_bytes() != content
        path.unlink()


def test_ours(ruler: Ruler, files: Path) -> None:
    """A job that writes the same files each night goes on without a flag."""
    for line, endings in WRITERS.items():
        for ending in endings.split():
            path = files / f"ours{ending}"
            for night in range(3):
                if night == 0:
                    path.touch()  # nothing is lost of an empty file
                done = ruler(*line.format(path.name).split())
                assert done.returncode == 0, (line, ending, night, done.stderr)
            path.unlink(missing_ok=True)


def test_every_format(ruler: Ruler, tmp_path: Path) -> None:
    """OUTPUT of each format is known as ruler's own."""
    for path in sorted((ROOT / "samples/formats").glob("*.jsonl")):
        line = ("score", path, "out.jsonl", *SCORE, "--force")
        assert ruler(*line).returncode in (0, 1), path
        records = (tmp_path / "out.jsonl").read_bytes()
        done = ruler(*line[:-1])
        assert done.returncode in (0, 1), (path, records[:200], done.stderr)


def test_another_kind(ruler: Ruler, files: Path) -> None:
    """A summary, a page or requests do not take the place of scores, nor scores theirs."""
    (files / "page.html").write_text(
        '<meta name="generator" content="ruler 1">'
    )
    assert (
        ruler("score", "in.jsonl", "o", *SCORE, "--summary", "sum").returncode
        == 0
    )
    for line in (
        "score in.jsonl o -m offline --summary scored.jsonl",
        "score in.jsonl sum -m offline",
        "batch export in.jsonl scored.jsonl -m openai/o3",
        "score in.jsonl o -m offline --summary page.html",
    ):
        done = ruler(*line.split())
        assert (done.returncode, "--force" in done.stderr) == (2, True), line
    assert read(files / "scored.jsonl")[0]["ruler"]["status"] == "scored"


def test_forgotten_output(ruler: Ruler, files: Path) -> None:
    """The last of several files is not taken for OUTPUT, be they dumps or scored."""
    write(files / "two.jsonl", [group("c", 0.3, 0.6)])
    before = (files / "two.jsonl").read_bytes()
    done = ruler("score", "in.jsonl", "two.jsonl", *SCORE)
    assert (done.returncode, (files / "two.jsonl").read_bytes()) == (2, before)
    another = [{"trajectories": group("c", 0.3, 0.6)["trajectories"]}]
    another[0]["trajectories"][0]["messages"][0]["content"] = "Another task."
    for records in ([group("c", 0.3, 0.6)], another):
        write(files / "two.jsonl", records)
        assert ruler("score", "two.jsonl", "two.scored", *SCORE).returncode == 0
        before = (files / "two.scored").read_bytes()
        for source in ("scored.jsonl", "scored*.jsonl"):
            for line in (
                ("score", source, "two.scored", *SCORE),
                ("select", source, "two.scored", "--where", "scored"),
            ):
                done = ruler(*line)
                assert done.returncode == 2, line
                assert "holds scores of groups that INPUT" in done.stderr
                assert (files / "two.scored").read_bytes() == before
        # a new dump goes where the last one went, and scores that belong together do
        assert ruler("score", "in.jsonl", "two.scored", *SCORE).returncode == 0
        assert (
            ruler("score", "scored.jsonl", "two.scored", *SCORE).returncode == 0
        )
        alone = write(files / "one.jsonl", read(files / "scored.jsonl")[:1])
        assert (
            ruler(
                "score", alone, "two.scored", *SCORE, "--limit", "1"
            ).returncode
            == 0
        )
        (files / "two.scored").unlink()


def test_exempt(ruler: Ruler, files: Path) -> None:
    """A failed file gets lines, devices and pipes take anything, and INPUT may be its own OUTPUT."""
    (files / "out.failed.jsonl").write_text("mine\n")
    with (files / "in.jsonl").open("a") as file:
        file.write("broken\n")
    assert ruler("score", "in.jsonl", "out", *SCORE).returncode == 1
    assert (files / "out.failed.jsonl").read_text() == "mine\nbroken\n"
    assert ruler("score", "in.jsonl", "/dev/null", *SCORE).returncode == 1
    summary = ("--summary", "/dev/null")
    assert ruler("score", "in.jsonl", "-", *SCORE, *summary).returncode == 1
    assert ruler("score", "in.jsonl", "in.jsonl", *SCORE).returncode == 1
    assert len(read(files / "in.jsonl")) == 2


def test_unreadable(
    ruler: Ruler, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read stays, and the sentence names the way out."""

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", denied)
        for line in (
            "score in.jsonl scored.jsonl -m offline",
            "report x -o p.html",
        ):
            (files / "p.html").write_text("mine")
            done = ruler(*line.split())
            assert done.returncode == 2
            assert "ruler cannot tell if it wrote it" in done.stderr
            assert "with --force" in done.stderr


def test_address(ruler: Ruler, files: Path) -> None:
    """An object at an address is known as a file is, through its compression too."""
    system = fsspec.filesystem("memory")
    try:
        for name in ("o.jsonl", "o.jsonl.gz", "o.parquet"):
            for content in (LINES, gzip.compress(LINES), table(), b"mine"):
                system.pipe_file(f"/{name}", content)
                done = ruler("score", "in.jsonl", f"memory://{name}", *SCORE)
                assert (done.returncode, "--force" in done.stderr) == (2, True)
                assert system.cat_file(f"/{name}") == content
            force = ("--force",)
            for more in (force, (), ()):
                done = ruler(
                    "score", "in.jsonl", f"memory://{name}", *SCORE, *more
                )
                assert done.returncode == 0, done.stderr
    finally:
        system.store.clear()


MORE_PATHS = (
    "score two/a.jsonl two/b.jsonl two/c.jsonl",
    "score two/a.jsonl two/b.jsonl two/c.jsonl -m offline out",
    "score two/a.jsonl two/b.jsonl there.jsonl",
    "score two/a.jsonl two/b.jsonl -",
    "score s-1.jsonl s-10.jsonl s-2.jsonl",
    "score x/1/o.jsonl x/2/o.jsonl x/3/o.jsonl",
    "score two/a.jsonl x/1/o.jsonl x/2/o.jsonl",
    "score two/[a].jsonl two/[b].jsonl new",
    "check two/a.jsonl two/b.jsonl",
    "prompt two/a.jsonl two/b.jsonl",
    "select two/a.jsonl two/b.jsonl two/c.jsonl --where live",
    "batch export two/a.jsonl two/b.jsonl two/c.jsonl",
    "batch submit two/a.jsonl two/b.jsonl",
)
"""Command lines that a shell made of a pattern."""


def test_more_paths(ruler: Ruler, tmp_path: Path) -> None:
    """More paths than a command takes change no file, and are answered with the way out."""
    for line in MORE_PATHS:
        for word in line.split():
            if word.endswith(".jsonl"):
                (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
                write(tmp_path / word, DUMP)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    for line in MORE_PATHS:
        done = ruler(*line.split())
        assert (done.returncode, done.stdout) == (2, ""), line
        assert "one pattern in quotes, e.g. 'runs/*.jsonl'\n" in done.stderr
        assert done.stderr.count("\n") == 1
    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")
    } == before
    done = ruler("formats", "x", "y")
    assert (done.returncode, "y: more paths than" in done.stderr) == (2, True)


_CRON = re.compile(r"^[*\d]+ [*\d]+ \* \* \* (.*)$", re.MULTILINE)


def cron_lines() -> list[str]:
    """The commands of every crontab line in the documents."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [line for page in pages for line in _CRON.findall(page.read_text())]


def test_cron(ruler: Ruler, files: Path, server: JudgeServer) -> None:
    """Each crontab line of the documents writes the same files every night, without a flag."""
    (files / "ruler.key").touch()
    (files / "rollouts").mkdir()
    (files / "scored").mkdir()
    (files / "in.jsonl").rename(files / "rollouts/1.jsonl")
    (files / "rollouts.jsonl").symlink_to("rollouts/1.jsonl")
    ran = []
    with BatchServer() as batches:
        for line in cron_lines():
            url = server.base
            if "batch" in line or "--cached-only" in line:
                url = batches.openai
            env = {"OPENAI_API_KEY": "k", "VLLM_KEY": "k"}
            env["OPENAI_BASE_URL"] = url
            for _ in range(2):
                text = line.replace("/data/", f"{files}/").replace("\\%", "%")
                text = text.replace("http://gpu:8000/v1", server.base)
                for command in text.split(" && "):
                    words = shlex.split(command)
                    if words[0] != "ruler":  # the file of the key, a folder
                        continue
                    done = ruler(*words[1:], **env)
                    assert done.returncode in (0, 1), (command, done.stderr)
                    assert "--force" not in done.stderr
                    ran.append(words[1])
    assert ran.count("score") >= 4
    assert ran.count("batch") >= 4
