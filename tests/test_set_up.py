"""The set-up for development: the locks of .venv, and the times that a run of the tests prints."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from tests.conftest import ROOT, seconds_of_folders


def text_of(name: str) -> str:
    """Return the text of a file of the checkout."""
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name: str) -> set[tuple[str, str]]:
    """Return each package of a lock, as `name==version` without extras, with its hashes."""
    entries = re.findall(
        r"^([\w.-]+)(?:\[.*\])?(==\S+).*\n((?: +--hash=.*\n)+)",
        text_of(name),
        re.MULTILINE,
    )
    return {
        (package + version, hashes.rstrip())
        for package, version, hashes in entries
    }


def test_one_environment() -> None:
    """`make test` adds to the environment of `make demo` and changes nothing in it."""
    assert len(pins("constraints-run.txt")) > 20
    assert pins("constraints-run.txt") < pins("constraints.txt")


def test_demo_installs_no_more() -> None:
    """`make demo` installs no package that only tests, extras or documents need."""
    needless = {
        "ray",
        "pyarrow",
        "playwright",
        "mkdocs",
        "pytest",
        "mypy",
        "pandas",
        "s3fs",
    }
    names = {
        package.partition("==")[0] for package, _ in pins("constraints-run.txt")
    }
    assert "litellm" in names
    assert names.isdisjoint(needless)


def test_seconds_of_folders() -> None:
    """The seconds of a folder are those of all phases of its tests, in every file."""

    def report(
        nodeid: str, when: Literal["setup", "call"], seconds: float
    ) -> pytest.TestReport:
        return pytest.TestReport(
            nodeid, ("", 0, ""), {}, "passed", None, when, (), seconds
        )

    reports = [
        report("tests/cli/test_a.py::test_one", "setup", 1.0),
        report("tests/cli/test_a.py::test_one", "call", 2.0),
        report("tests/cli/deep/test_b.py::test_two[x/y]", "call", 4.0),
        report("tests/test_c.py::test_three", "call", 8.0),
        "no report of a test",
    ]
    assert seconds_of_folders(reports) == {"tests/cli": 7.0, "tests/*.py": 8.0}


def test_targets() -> None:
    """Each target of make that a page or CI names exists."""
    targets = set(
        re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE)
    )
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/index.md",
        ".ci/run",
        ".github/workflows/check.yml",
        ".github/workflows/release.yml",
        ".github/workflows/weekly.yml",
    ):
        commands = re.findall(
            r"(?:^ *(?:- run: )?|`)make ((?: ?[a-z][a-z0-9-]*)+)",
            text_of(name),
            re.MULTILINE,
        )
        named = {target for command in commands for target in command.split()}
        assert named, name
        assert named <= targets, name


def test_first_screens() -> None:
    """The README begins with the commands that get, try and test a checkout, then a line in and one out."""
    beginning = "\n".join(text_of("README.md").splitlines()[:50])
    wanted = (
        "git clone <address> ruler\n",
        "cd ruler\n",
        "make demo ",
        "make test ",
        "samples/one.jsonl",
        "one.scored",
    )
    places = [beginning.index(text) for text in wanted]
    assert places == sorted(places)
