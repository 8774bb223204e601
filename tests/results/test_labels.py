"""Files of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.results.identity import group_name
from ruler_cli.results.labels import parse_line, read_labels

COMPARISON = {
    "group": "g",
    "left": "a",
    "right": "b",
    "choice": "left",
    "by": "ana",
}


def written(folder: Path, *lines: Any) -> Path:
    """A file of labels."""
    path = folder / "labels.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    return path


def read(folder: Path, *lines: Any) -> list[Any]:
    """The lines of a file of labels that count."""
    return [*read_labels([written(folder, *lines)])]


def test_last_line_counts(tmp_path: Path) -> None:
    """Of a person's lines about the same thing the last one counts, whichever rollout stood left."""
    turned = COMPARISON | {"left": "b", "right": "a", "choice": "equal"}
    pairs = read(tmp_path, COMPARISON, turned, COMPARISON | {"by": "bo"})
    assert [row.better for row in pairs] == ["", "a"]


def test_latest_line_counts(tmp_path: Path) -> None:
    """A later time counts, whatever the order of the files; a line without a time is the latest."""
    first = COMPARISON | {"at": "2026-11-27T12:00:00.000Z"}
    late = COMPARISON | {"choice": "right", "at": "2026-11-27T12:00:01.000Z"}
    (row,) = read(tmp_path, late, first | {"by": " Ana"})
    assert row.choice == "right"
    (row,) = read(tmp_path, COMPARISON | {"choice": "equal"}, late, first)
    assert row.choice == "equal"


@pytest.mark.parametrize("at", ["", "2026-11-27T12:00:01Z"])
@pytest.mark.parametrize("first", ["random", "disputed"])
def test_drawn_twice(tmp_path: Path, first: str, at: str) -> None:
    """A pair that was drawn at random stays so if the same person meets it again where it was chosen."""
    ways: dict[str, dict[str, Any]] = {
        "random": {"drawn": "random", "chance": 0.25},
        "disputed": {"drawn": "disputed"},
    }
    (second,) = ways.keys() - {first}
    lines = (
        COMPARISON | ways[first],
        COMPARISON | ways[second] | {"choice": "right"},
    )
    (row,) = read(tmp_path, *(line | {"at": at} for line in lines))
    assert (row.choice, row.drawn, row.chance) == ("right", "random", 0.25)


def test_other_draws(tmp_path: Path) -> None:
    """Any word but `random` says that what is known of scores chose the line."""
    (row,) = read(tmp_path, COMPARISON | {"drawn": "the worst \x1b[2J"})
    assert row.drawn == "disputed"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (COMPARISON | {"group": None}, "no `group`"),
        ({"group": "g", "rollout": "a", "mark": "good"}, "two rollouts"),
        (COMPARISON | {"choice": "both"}, "`choice`"),
        (COMPARISON | {"right": "a"}, "two rollouts"),
        (COMPARISON | {"chance": 0}, "`chance`"),
        (COMPARISON | {"chance": True}, "`chance`"),
        (COMPARISON | {"by": "x" * 9_000}, "more than 4,000 letters"),
    ],
)
def test_wrong_lines(tmp_path: Path, line: dict[str, Any], reason: str) -> None:
    """A line that is not a comparison is refused with its number and the reason."""
    with pytest.raises(UnreadableError, match=reason):
        parse_line(orjson.dumps(line))
    path = written(tmp_path, COMPARISON, line)
    with pytest.raises(UsageError, match="line 2") as caught:
        read_labels([path])
    assert reason in str(caught.value)


def test_windows_file(tmp_path: Path) -> None:
    """A file with a byte order mark and Windows' line ends is read as any other."""
    path = written(tmp_path, COMPARISON, COMPARISON | {"by": "bo"})
    path.write_bytes(
        b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    )
    assert len(read_labels([path])) == 2


def test_group_names() -> None:
    """A group's name can be written as UTF-8, is short, and tells long keys apart."""
    assert group_name("task\ud800") == "task\ufffd"
    first, second = (group_name("k" * 4_000 + end) for end in "ab")
    assert first != second
    assert len(first) < 400
