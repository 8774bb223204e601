"""A Harbor job: a directory of trials, each with `result.json` and `agent/trajectory.json`.

The record of a trial is `{"result": …, "trajectory": …, "reward_file": …}` of the bytes of its files;
`reward_file` is `verifier/reward.json`, or `{"reward": …}` of `verifier/reward.txt`, and stands there
only where the result holds no rewards itself. A directory as OUTPUT is the whole tree, with those of
the two files anew that were changed; what else was written on the record goes to the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath

from ruler_cli.errors import UnreadableError
from ruler_cli.reading.compression import readable
from ruler_cli.reading.container import Many, StagedFiles, TreeEncoder
from ruler_cli.reading.location import Listing
from ruler_cli.reading.parse import parse
from ruler_cli.types import Line, Problem
from ruler_cli.writing.splice import Patches, end_of, read_object

_RESULT, _TRAJECTORY = "result.json", "agent/trajectory.json"
_PARTS = {"result": _RESULT, "trajectory": _TRAJECTORY}
_NUMBER = re.compile(rb"\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*")


def trials(listing: Listing) -> list[str]:
    """The trials among files, by the names of their directories; none where it is no Harbor job.

    One whose environment failed has no file of an agent: it is known by the trials beside it.
    """
    paths = [PurePath(name) for name in listing.names]
    agents = {str(parent.parent) for path in paths for parent in path.parents if parent.name == "agent"}
    results = [path.parent for path in paths if path.name == _RESULT]
    jobs = {folder.parent for folder in results if str(folder) in agents and folder.parts}
    beside = {folder for folder in results if folder.parts and folder.parent in jobs}
    found = [str(folder) for folder in results if str(folder) in agents or folder in beside]
    names = set(listing.names)
    return found if any(_in(trial, _TRAJECTORY) in names for trial in found) else []


class Harbor(Many):
    """The trials of a job, in the order of their names."""

    unit = "trial"

    def __init__(self, name: str, listing: Listing, found: list[str]) -> None:
        """`found` are the directories of the trials, relative to the listing."""
        super().__init__(name)
        self.listing = listing
        self._trials = found

    def settle(self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]) -> list[str]:
        """Tell which trials cannot be read, and why."""
        for number, trial in enumerate(self._trials, 1):
            try:
                self._record(trial)
            except UnreadableError as error:
                on_problem(Problem(number, str(error), b"", self.place(number)))
        return []

    def records(self) -> Iterator[Line]:
        """Every trial that can be read."""
        for number, trial in enumerate(self._trials, 1):
            try:
                yield Line(number, 0, self._record(trial), self.place(number))
            except UnreadableError:
                continue  # `settle` has told it

    def place(self, number: int) -> str:
        """The trial's directory."""
        return f"trial {self.trial(number)}"

    def trial(self, number: int) -> str:
        """The directory of a trial."""
        return self._trials[number - 1]

    def into(self, staged: StagedFiles) -> TreeEncoder:
        """Writes the tree."""
        return _Rewritten(self, staged)

    def _record(self, trial: str) -> bytes:
        parts = {part: self._part(trial, file) for part, file in _PARTS.items()}
        result = parse(parts["result"]).get("verifier_result")
        if not (isinstance(result, dict) and isinstance(result.get("rewards"), dict)):
            parts["reward_file"] = self._reward(trial)
        pairs = [b'"%s": %s' % (key.encode(), value) for key, value in parts.items() if value]
        return b"{" + b", ".join(pairs) + b"}"

    def _part(self, trial: str, file: str) -> bytes:
        """An object in a file, exactly one: anything else would spoil the record it is put into."""
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
            return self._part(trial, "verifier/reward.json")
        except UnreadableError:
            text = self._bytes(trial, "verifier/reward.txt") or b""
            return b'{"reward": %s}' % text.strip() if _NUMBER.fullmatch(text) else b""

    def _bytes(self, trial: str, file: str) -> bytes | None:
        path = self.listing.path(_in(trial, file))
        with readable(str(path)):
            return path.read_bytes().strip() if path.is_file() else None


class _Rewritten:
    """The tree with other results."""

    def __init__(self, job: Harbor, staged: StagedFiles) -> None:
        self._job, self._staged = job, staged
        self._written: set[str] = set()

    def put(self, number: int, body: bytes) -> None:
        """The files of one trial that were changed."""
        trial, obj = self._job.trial(number), read_object(body)
        more = {
            key: body[value:end]
            for key, (_, value, end) in obj.members.items()
            if key not in {*_PARTS, "reward_file"}
        }
        for part, file in _PARTS.items():
            _, value, end = obj.members[part]
            new, name = body[value:end], _in(trial, file)
            if part == "result" and more:
                patches = Patches(new)
                patches.put(read_object(new), dict(more))
                new = patches.apply()
            old = self._job.listing.path(name).read_bytes()
            kept = old.strip()
            if new != kept:
                start = old.index(kept)
                self._staged.write(name, old[:start] + new + old[start + len(kept) :])
                self._written.add(name)

    def end(self, *, whole: bool) -> None:
        """Every other file."""
        for name in self._job.listing.names if whole else ():
            if name not in self._written:
                self._staged.copy(name, self._job.listing.at(name))


def _in(trial: str, file: str) -> str:
    return str(PurePath(trial) / file)
