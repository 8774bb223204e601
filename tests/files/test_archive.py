"""Inspect archives: a sample is a record."""

from __future__ import annotations

import io
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.location import Location
from ruler_cli.files.marks import refuse_foreign
from ruler_cli.files.output import Output
from ruler_cli.types import Line
from tests.conftest import ROOT, Ruler, read

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

SAMPLE = ROOT / "samples/formats/inspect.jsonl"
MEMBERS = {
    "_journal/start.json": b"{}",
    "samples/b_epoch_1.json": b'{"id": "b",\n "epoch": 1}',
    "_journal/summaries/1.json": b"[]",
    "samples/a_epoch_1.json": b'{"id": "a"}',
    "samples/deep/x.json": b"{}",
    "header.json": b"{}",
}


def packed(method: int, members: dict[str, bytes] = MEMBERS) -> bytes:
    """Make an archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def samples(path: Path) -> list[Line]:
    """Return the samples of an archive."""
    with ExitStack() as stack:
        container = open_container(str(path), stack)
        every = list(container.records())
        assert [container.where(line.number) for line in every] == [
            line.where for line in every
        ]
    return every


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_ZSTANDARD]
)
def test_order(tmp_path: Path, method: int) -> None:
    """Samples come in the archive's order, each unpacked; a member deeper in `samples/` is none."""
    path = tmp_path / "log.eval"
    path.write_bytes(packed(method))
    every = samples(path)
    assert [line.where for line in every] == [
        "sample b_epoch_1",
        "sample a_epoch_1",
    ]
    assert [line.raw for line in every] == [
        MEMBERS[f"samples/{name}_epoch_1.json"] for name in "ba"
    ]


def test_ids_that_are_paths(tmp_path: Path) -> None:
    """A sample whose id has slashes or lines is one as any other."""
    names = ["HumanEval/0_epoch_1", "../b_epoch_12", "a\nb_epoch_1"]
    path = tmp_path / "log.eval"
    path.write_bytes(
        packed(
            zipfile.ZIP_STORED,
            {f"samples/{name}.json": b"{}" for name in names},
        )
    )
    assert [line.where for line in samples(path)] == [
        f"sample {name}" for name in names
    ]


def test_equal_names(tmp_path: Path) -> None:
    """Of two members with one name the last counts, as for every program that reads the archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("samples/a.json", b'{"n": 1}')
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("samples/a.json", b'{"n": 2}')
    path = tmp_path / "log.eval"
    path.write_bytes(stream.getvalue())
    assert [line.raw for line in samples(path)] == [b'{"n": 2}']


def test_output_names(tmp_path: Path) -> None:
    """No archive is written but a log of Inspect; a name that promises one is refused with a remedy."""
    path = tmp_path / "log.eval"
    path.write_bytes(packed(zipfile.ZIP_STORED))
    path.with_name("log").write_bytes(path.read_bytes())
    (tmp_path / "in.jsonl").write_bytes(b"{}\n")
    with ExitStack() as stack:
        log = open_container(str(path), stack)
        lines = open_container(str(tmp_path / "in.jsonl"), stack)
        plain = open_container(str(tmp_path / "log"), stack)
        for name, source, message in [
            (
                "o.eval",
                lines,
                "is written only with an Inspect log as INPUT; give OUTPUT a name that ends in .jsonl",
            ),
            (
                "log",
                plain,
                "is INPUT, and would lose its form; give another",
            ),
        ]:
            with (
                Output(str(tmp_path / name), force=True) as output,
                pytest.raises(UsageError, match=message),
            ):
                output.write_as(source)
        with (
            Output(str(tmp_path / "o.eval")) as output,
            pytest.raises(UsageError, match=r"in \.jsonl"),
        ):
            output.write_as(
                log, scored=False
            )  # a selection has no scores of its own
        for name in ("o.jsonl", "o.ndjson.zst", "o"):
            with Output(str(tmp_path / name)) as output:
                output.write_as(log)
                output.write([(1, b"{}")])
                output.commit()
            head = (tmp_path / name).read_bytes()[:2]
            assert head == (b"\x28\xb5" if name.endswith(".zst") else b"{}")


def test_scored_log(tmp_path: Path) -> None:
    """A log is ruler's own if any of its samples has a score of ruler, wherever it stands."""
    scored = b'{"scores": {"ruler": {"metadata": {"status": "scored", "independent_reward": 1}}}}'
    place = Location(str(tmp_path / "log.eval"))
    for second, is_scored in ((scored, True), (b"{}", False)):
        place.real.write_bytes(
            packed(0, {"samples/1.json": b"{}", "samples/2.json": second})
        )
        with (
            nullcontext()
            if is_scored
            else pytest.raises(UsageError, match="exists")
        ):
            refuse_foreign(place, "OUTPUT")


def test_without_inspect_ai(
    ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without inspect_ai a log as OUTPUT is refused before a call, with two remedies."""
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    every = SAMPLE.read_text().splitlines()
    members = {
        f"samples/{i}_epoch_1.json": line.encode()
        for i, line in enumerate(every)
    }
    (tmp_path / "x.eval").write_bytes(packed(zipfile.ZIP_STORED, members))
    (tmp_path / "x.json").write_text(
        '{"eval": {}, "samples": [' + ",".join(every) + "]}"
    )
    before = sorted(tmp_path.iterdir())
    for names in (
        "x.eval y.eval",
        "x.eval x.eval",
        "x.eval y.json",
        "x.json y.eval",
        "x.json y.json.gz",
    ):
        done = ruler("score", *names.split(), "-m", "offline")
        assert done.returncode == 2
        assert (
            "install it with: pip install --upgrade inspect-ai, or give OUTPUT a name that ends in .jsonl"
            in done.stderr
        )
        assert sorted(tmp_path.iterdir()) == before
    done = ruler("score", "x.eval", "y.jsonl", "-m", "offline")
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "y.jsonl")) == len(every)
