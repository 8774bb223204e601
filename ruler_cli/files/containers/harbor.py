"""A Harbor job: a directory of trials, each with `result.json` and `agent/trajectory.json`.

The record of a trial is `{"result": …, "trajectory": …}` of the bytes of its files. If it has several steps, each with
`steps/NAME/agent/trajectory.json`, `trajectory` is the list of these, in the order of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Self

from ruler_cli.errors import UnreadableError
from ruler_cli.files.containers import Fits
from ruler_cli.files.containers.directory import MultiFileContainer
from ruler_cli.files.error_map import reading
from ruler_cli.files.location import Listing
from ruler_cli.files.parse import parse, too_large
from ruler_cli.files.source import Source
from ruler_cli.files.values import objects
from ruler_cli.types import Line, Problem

_RESULT = "result.json"
_TRAJECTORY = "agent/trajectory.json"


class HarborJob(MultiFileContainer):
    """The trials of a job, in the order of their names."""

    unit = "trial"

    def __init__(
        self,
        source: Source,
        listing: Listing,
        trials: list[str],
    ) -> None:
        """`trials` are directories, relative to the listing."""
        super().__init__(source, listing)
        self._trials = trials

    @classmethod
    def open(
        cls,
        source: Source,
        listing: Listing,
    ) -> Self | None:
        """Open a directory of trials on this machine; None if it is none, or records at a path are in its files."""
        if source.location.remote or source.records:
            return None
        trials = find_trials(listing.names)
        return (
            cls(
                source,
                listing,
                trials,
            )
            if trials
            else None
        )

    def check_files(
        self,
        fits: Fits,
        on_problem: Callable[[Problem], None],
    ) -> list[str]:
        """Report the trials that cannot be read; none is left out."""
        for line in self._trials_read():
            if isinstance(line, Problem):
                on_problem(line)
        return []

    def records(self) -> Iterator[Line]:
        """Yield every trial that can be read; `check_files` reports the others."""
        for line in self._trials_read():
            if isinstance(line, Line):
                yield line

    def _trials_read(self) -> Iterator[Line | Problem]:
        for number, trial in enumerate(self._trials, 1):
            try:
                yield self.line(
                    number,
                    0,
                    self._record(trial),
                )
            except UnreadableError as error:
                yield Problem(
                    number,
                    str(error),
                    b"",
                    self.where(number),
                )

    def place(self, number: int) -> str:
        """Return the trial's directory."""
        return f"trial {self._trials[number - 1]}"

    def _record(self, trial: str) -> bytes:
        """Join the files of a trial; UnreadableError if one is missing or damaged."""
        raw = self._object(trial, _RESULT)
        result = parse(raw)
        steps = []
        for step in objects(result.get("step_results")):
            file = f"steps/{step.get('step_name')}/{_TRAJECTORY}"
            steps.append(self._object(trial, file))
        trajectory = b"[%s]" % b", ".join(steps)
        if not steps:
            trajectory = self._object(trial, _TRAJECTORY)
        return b'{"result": %s, "trajectory": %s}' % (raw, trajectory)

    def _object(
        self,
        trial: str,
        file: str,
    ) -> bytes:
        """Return the bytes of a file that is one JSON object; UnreadableError if it is not."""
        name = str(PurePath(trial) / file)
        if name not in self.names:  # or only as a link that is not followed
            raise UnreadableError(f"has no {file}")
        path = Path(self.listing.at(name).name)
        with reading(str(path)), path.open("rb") as stream:
            content = stream.read(self.most + 1)
        if len(content) > self.most:
            raise UnreadableError(f"`{file}` {too_large(path.stat().st_size)}")
        try:
            parse(content)
        except UnreadableError as error:
            raise UnreadableError(f"has a damaged {file}: it {error}") from None
        return content.strip()


def find_trials(names: Sequence[str]) -> list[str]:
    """Return the directories of the trials among files; none if this is not a Harbor job.

    Each has a result, as a job has, too. One whose environment failed has no file of an agent.
    """
    paths = list(map(PurePath, names))
    # an agent may leave files of any name in its trial
    with_agent = {path.parents[1] for path in paths if path.match(_TRAJECTORY)}
    folders = [path.parent for path in paths if path.name == _RESULT]
    jobs = {parent for folder in folders for parent in folder.parents}
    trials = []
    for folder in folders if with_agent else ():
        is_trial = folder in with_agent or folder not in jobs
        if is_trial and with_agent.isdisjoint(folder.parents):
            trials.append(str(folder))
    return trials
