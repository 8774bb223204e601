"""A Harbor job: a directory of trials, each with `result.json` and `agent/trajectory.json`.

The record of a trial is `{"result": …, "trajectory": …, "reward_file": …}` of the bytes of its files.
`reward_file` is `verifier/reward.json`, or `{"reward": …}` of `verifier/reward.txt`; the record has it only
if the result holds no rewards. A directory as OUTPUT is the whole tree, with the changed ones of the two
files written anew; other members that were added to the record go to the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

from ruler_cli.errors import UnreadableError
from ruler_cli.reading.compression import readable
from ruler_cli.reading.container import MultiFileContainer, Rewrite
from ruler_cli.reading.location import Listing
from ruler_cli.reading.parse import parse
from ruler_cli.types import Line, Problem
from ruler_cli.writing.atomic import StagedFiles
from ruler_cli.writing.splice import Patches, end_of, read_object

_RESULT, _TRAJECTORY = "result.json", "agent/trajectory.json"
_FILES = {"result": _RESULT, "trajectory": _TRAJECTORY}
"""Member of a record → the file of the trial with its bytes."""
_NUMBER = re.compile(rb"\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*")


def find_trials(listing: Listing) -> list[str]:
    """Return the directories of the trials among files; none if this is no Harbor job.

    A trial whose environment failed has no file of an agent: the trials beside it show that it is one.
    """
    paths = [PurePath(name) for name in listing.names]
    agents = {str(parent.parent) for path in paths for parent in path.parents if parent.name == "agent"}
    results = [path.parent for path in paths if path.name == _RESULT]
    jobs = {folder.parent for folder in results if str(folder) in agents and folder.parts}
    beside = {folder for folder in results if folder.parts and folder.parent in jobs}
    trials = [str(folder) for folder in results if str(folder) in agents or folder in beside]
    names = set(listing.names)
    return trials if any(_path(trial, _TRAJECTORY) in names for trial in trials) else []


class HarborJob(MultiFileContainer):
    """The trials of a job, in the order of their names."""

    unit = "trial"

    def __init__(self, name: str, listing: Listing, trials: list[str]) -> None:
        """`trials` are directories, relative to the listing."""
        super().__init__(name, listing)
        self._trials = trials

    def check_files(
        self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]
    ) -> list[str]:
        """Report the trials that cannot be read; no file is left out."""
        for number, trial in enumerate(self._trials, 1):
            try:
                self._record(trial)
            except UnreadableError as error:
                on_problem(Problem(number, str(error), b"", self.where(number)))
        return []

    def records(self) -> Iterator[Line]:
        """Yield every trial that can be read."""
        for number, trial in enumerate(self._trials, 1):
            try:
                yield self.line(number, 0, self._record(trial))
            except UnreadableError:
                continue  # `check_files` has reported it

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """Make the Line of a trial, with the trial's directory."""
        return Line(number, offset, raw, f"trial {self._trials[number - 1]}")

    def rewrite_files(self, staged: StagedFiles) -> Rewrite:
        """Write the files of each trial that were changed."""
        while put := (yield):
            number, record = put
            obj = read_object(record)
            added = {
                key: record[value:end]
                for key, (_, value, end) in obj.members.items()
                if key not in {*_FILES, "reward_file"}
            }
            for key, file in _FILES.items():
                _, value, end = obj.members[key]
                new, name = record[value:end], _path(self._trials[number - 1], file)
                if key == "result" and added:
                    patches = Patches(new)
                    patches.put(read_object(new), dict(added))
                    new = patches.apply()
                whole = Path(self.listing.at(name).name).read_bytes()
                old = whole.strip()
                if new != old:
                    start = whole.index(old)
                    staged.write(name, whole[:start] + new + whole[start + len(old) :])

    def write_other_files(self, staged: StagedFiles) -> None:
        """Copy every file that was not changed."""
        for name in self.listing.names:
            if name not in staged.written:
                staged.copy(name, self.listing.at(name))

    def _record(self, trial: str) -> bytes:
        """Join the files of a trial; UnreadableError if one is missing or damaged."""
        members = {key: self._object(trial, file) for key, file in _FILES.items()}
        result = parse(members["result"]).get("verifier_result")
        if not (isinstance(result, dict) and isinstance(result.get("rewards"), dict)):
            members["reward_file"] = self._reward(trial)
        pairs = [b'"%s": %s' % (key.encode(), value) for key, value in members.items() if value]
        return b"{" + b", ".join(pairs) + b"}"

    def _object(self, trial: str, file: str) -> bytes:
        """Read a file that holds exactly one object: any other content would spoil the record."""
        raw = self._bytes(trial, file)
        if raw is None:
            raise UnreadableError(f"has no {file}")
        if raw[:1] != b"{" or end_of(raw, 0) != len(raw):
            raise UnreadableError(f"has a damaged {file}: it is not one JSON object")
        try:
            parse(raw)
        except UnreadableError as error:
            raise UnreadableError(f"has a damaged {file}: it {error}") from None
        return raw

    def _reward(self, trial: str) -> bytes:
        try:
            return self._object(trial, "verifier/reward.json")
        except UnreadableError:
            text = self._bytes(trial, "verifier/reward.txt") or b""
            return b'{"reward": %s}' % text.strip() if _NUMBER.fullmatch(text) else b""

    def _bytes(self, trial: str, file: str) -> bytes | None:
        path = Path(self.listing.at(_path(trial, file)).name)
        with readable(str(path)):
            return path.read_bytes().strip() if path.is_file() else None


def _path(trial: str, file: str) -> str:
    return str(PurePath(trial) / file)
