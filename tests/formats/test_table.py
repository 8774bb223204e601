"""The table of formats: its terms, the code that it names, and what is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ruler_cli.formats.format import holds
from ruler_cli.formats.table import FORMATS, code

RECORD = {
    "a": None,
    "b": {"c": 1},
    "d": [{"e": 1}, {"e": 2}],
    "f": "text-1",
    "g": 3,
}
TERMS = [
    ("a b", True),
    ("a.x", False),
    ("b.c d.0.e", True),
    ("z", False),
    ("!z !a.x", True),
    ("z|b", True),
    ("d[] b{}", True),
    ('f" d.0.e', True),
    ('g" ', False),
    ("d[].e", True),
    ("d[].x", False),
    ("a[].e", False),
    ("", True),
]


def test_terms(subtests: pytest.Subtests) -> None:
    """Each kind of term holds for the records that it describes."""
    for terms, held in TERMS:
        with subtests.test(terms=terms):
            assert holds(RECORD, terms) is held


def test_code() -> None:
    """Each function that a row names exists."""
    for row in FORMATS:
        for name in (
            row.read,
            row.test,
            row.compute_key,
            row.finish,
        ):
            assert name is None or callable(code(name))


def test_imported_on_demand() -> None:
    """Reading native groups imports no reader of another framework."""
    program = (
        "import sys, json\n"
        "from ruler_cli.files.parse import first_records\n"
        "from ruler_cli.formats.reader import detect\n"
        "from ruler_cli.settings.models import InputSettings\n"
        "from ruler_cli.types import Line\n"
        "raw = open('samples/groups.jsonl', 'rb').readline()\n"
        "line = Line(1, 0, raw)\n"
        "records = first_records('x', [line])\n"
        "detect('x', records, InputSettings('x')).read(line)\n"
        "print(*[m.split('.')[-1] for m in sys.modules if 'ruler_cli.formats.' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    core = "chat format keys names paths reader rows table native"
    assert sorted(done.stdout.split()) == sorted(core.split())
