"""How request files are called, and which of them an earlier rendering has left."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import zstd

_HEAD = re.compile(
    rb'\{"custom_id":"[0-9a-f]{32}","(?:method":"POST","url":"/v1/chat/completions","body|params)":'
    rb'\{"model":("(?:[^"\\]|\\.)*")'
)
"""How a line of ours begins, up to the model's name."""
_LOOKED_AT = 4096
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of all files of a rendering: a set has a stem, `requests` or `requests.openai-o3`."""

    folder: Path
    stem: str
    ending: str

    @classmethod
    def of(cls, path: Path) -> Naming:
        """From the path that was given: what stands before a part's number, and what behind."""
        packed = next((end for end in (".gz", ".zst") if path.name.endswith(end)), "")
        stem, dot, ending = path.name.removesuffix(packed).rpartition(".")
        return cls(path.parent, stem or dot + ending, (dot + ending if stem else "") + packed)

    def stems(self, judges: Sequence[str]) -> list[str]:
        """A set's name for each judge, all different, also where upper and lower case are one."""
        if len(judges) == 1:
            return [self.stem]
        names: list[str] = []
        for judge in judges:
            slug, number = _slug(judge), 2
            while slug.lower() in {name.lower() for name in names}:
                slug, number = f"{_slug(judge)}.{number}", number + 1
            names.append(slug)
        return [f"{self.stem}.{name}" for name in names]

    def path(self, stem: str, number: int | None) -> Path:
        """The file of a set, or one part of it."""
        part = "" if number is None else f"-{number:04d}"
        return self.folder / f"{stem}{part}{self.ending}"

    def stale(self, stems: Sequence[str]) -> list[Path]:
        """Files of an earlier rendering, in the order to remove them; `stems` are the sets of this one.

        A part is removed before those of lower numbers, so that all are found again after a crash.
        UsageError where a file that is no rendering's has one of the names.
        """
        sets = [self.stem, *(stem for stem in stems if stem != self.stem)]
        other = re.compile(f"(?P<stem>{re.escape(self.stem)}\\..+?)(?:-0001)?{re.escape(self.ending)}")
        for path in sorted(self.folder.iterdir()):  # sets of a panel that was asked before
            match = other.fullmatch(path.name)
            if match and match["stem"] not in sets and _is_for(match["stem"], _model_of(path)):
                sets.append(match["stem"])
        stale: list[Path] = []
        for stem in sets:
            found = [self.path(stem, number) for number in (None, *self._numbers(stem))]
            stale += [path for path in found if path.exists()][::-1]
        for path in stale:
            if _model_of(path) is None:
                raise UsageError(
                    f"{path}: is in the way and holds no requests of ruler; move it, or write to another file"
                )
        return stale

    def _numbers(self, stem: str) -> Iterator[int]:
        """The parts that are there, without those behind a gap: a year is no part's number."""
        return itertools.takewhile(lambda number: self.path(stem, number).exists(), itertools.count(1))


def _slug(judge: str) -> str:
    """A judge's name as a part of a file's name, on any file system."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", judge).strip("-.")[-_LONGEST:] or "judge"


def _is_for(stem: str, model: str | None) -> bool:
    """Whether a set's name ends in the model that it is for, as a panel's does."""
    return bool(model) and re.fullmatch(rf".*[.-]{re.escape(_slug(str(model)))}(?:\.\d+)?", stem) is not None


def _model_of(path: Path) -> str | None:
    """The model that a file's first request names, "" where there is none in it; None: it is not ours."""
    if not path.is_file():
        return None
    try:
        opened = gzip.open if path.name.endswith(".gz") else zstd.open if path.name.endswith(".zst") else open
        with opened(path, "rb") as file:
            head = file.read(_LOOKED_AT)
    except (OSError, EOFError, zstd.ZstdError):
        return None
    match = _HEAD.match(head)
    try:
        return str(orjson.loads(match[1])) if match else "" if not head else None
    except orjson.JSONDecodeError:
        return None


__all__ = ["Naming"]
