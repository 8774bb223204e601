"""The file of `--summary`: what runs, by which settings, and how it ended."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from ruler_cli import __version__
from ruler_cli.cli.messages import exit_code_of, hide_keys_of, print_note
from ruler_cli.errors import (
    InterruptedRun,
    OutputError,
    ReaderGone,
    RulerError,
    UsageError,
    system_errors,
)
from ruler_cli.files.location import Location
from ruler_cli.settings.fields import long_name
from ruler_cli.settings.options import Options
from ruler_cli.types import Summary, iso, readable

if TYPE_CHECKING:
    from ruler_cli.cli.progress import Console
    from ruler_cli.runs.file import RunResult
    from ruler_cli.settings.models import ScoreSettings

_OF_JUDGES = ("name", "model", "api_base", "params")
"""Facts on a judge that the summary has; limits and prices stand among the settings."""
_INTERRUPTED = str(InterruptedRun(0))


class RunRecord:
    """The file of `--summary`: what runs, by which settings, and how it ended. A context around the command.

    The file is written when the run begins, without an exit code, and again at every end of the command, if only its
    options are refused. A pipe, a device and stdout get the second alone. Nothing is written without the option.
    """

    def __init__(
        self, name: str | None, source: str, output: str, *, force: bool
    ) -> None:
        """Take the name of the file, and what INPUT and OUTPUT are; `force` replaces a file of another kind."""
        self._name = name
        self._place: Location | None = None
        self._output = Location(output)
        self._force = force
        self._files = [source, output, f"{output}.partial"]
        self._console: Console | None = None
        self.result: RunResult | None = None
        """The result of the run, if it came to its end."""
        self._facts: dict[str, Any] = {
            "version": 4,
            "ruler": __version__,
            "input": Location(source).public,
            "output": self._output.public,
            "output_state": None,
            "started_at": iso(time.time()),
            "ended_at": None,
            "exit_code": None,
            "settings": {},
            "judges": [],
        }

    def __enter__(self) -> Self:
        self.open(self._name)
        return self

    def open(self, name: object) -> None:
        """Take the name of the file, if none is taken; UsageError if no summary can have it."""
        if name is None or self._place is not None:
            return
        from ruler_cli.files.marks import refuse_foreign
        from ruler_cli.files.output import refuse_locked

        place = Location(str(name))
        option = f"--summary {place.public}"
        if place.stream and self._output.stream:
            raise UsageError(
                "stdout holds the records", "give a file", place=option
            )
        if Path(place.name).is_dir():
            raise UsageError(
                "is a directory", "name a file in it", place=option
            )
        self._refuse_files(place)
        refuse_foreign(place, "summary", force=self._force)
        # the summary is that of the run that is writing OUTPUT
        with suppress(OSError):
            refuse_locked(Path(f"{self._output.real}.partial"))
        self._place = place

    def _refuse_files(self, place: Location) -> None:
        """Raise UsageError if the summary, or the file in which it is made, is another one of the run."""
        for file in self._files:
            same = Location(file).same
            if file != "-" and (
                same(place.name) or same(f"{place.name}.partial")
            ):
                raise UsageError(
                    "is another file of this run",
                    "give it a name of its own",
                    place=f"--summary {place.public}",
                )

    def begin(
        self, settings: ScoreSettings, options: Options, console: Console
    ) -> None:
        """Write that the run begins; `console` knows its counts. UsageError if the file cannot be written."""
        place, self._place = self._place, None
        if place is None:
            return
        from ruler_cli.cli.config import judge_facts, public_value

        self._files += [
            str(options.failed or f"{self._output.name}.failed.jsonl"),
            *options.ledger,
        ]
        self._refuse_files(place)
        self._place = place
        self._console = console
        for name, origin in options.origins.items():
            self._facts["settings"][long_name(name)] = {
                "value": public_value(name, options),
                "from": origin.place,
            }
        for judge in settings.judges:
            facts = judge_facts(judge, options)
            self._facts["judges"].append(
                {name: facts[name] for name in _OF_JUDGES}
            )
        if _is_stream(place):
            return
        try:
            self._write(place, Summary())
        except OutputError as error:
            self._place = None
            raise UsageError(str(error)) from None

    def end(self, code: int, reason: str | None = None) -> None:
        """Write how the command ends, once; OutputError if the file cannot be written."""
        place = self._place
        if place is None:
            return
        self._place = None
        summary = Summary()
        if self.result is not None:
            summary = self.result.summary
        elif self._console is not None:
            summary = self._console.summary
        whole = self.result is not None and self.result.whole
        streamed = summary.written > 0 and _is_stream(self._output)
        self._facts |= {
            "output_state": "written" if whole or streamed else "kept",
            "ended_at": iso(time.time()),
            "exit_code": code,
        }
        self._write(place, replace(summary, stopped=summary.stopped or reason))

    def interrupted(self, code: int) -> None:
        """Write that a second signal ends the command, as far as the file can be written."""
        with suppress(OutputError):
            self.end(code, _INTERRUPTED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            self.end(
                0 if error is None else exit_code_of(error), _reason(error)
            )
        except OutputError as problem:
            if error is None or isinstance(error, typer.Exit):
                raise
            print_note(problem)  # the exit code is that of the error

    def _write(self, place: Location, summary: Summary) -> None:
        import orjson

        from ruler_cli.files.output import create_file

        facts = readable(hide_keys_of(self._facts | asdict(summary)))
        content = orjson.dumps(
            facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        )
        option = f"--summary {place.public}"
        try:
            with (
                system_errors("written", OutputError, place=option),
                create_file(place, "summary", force=self._force) as file,
            ):
                file.stream.write(content)
                file.commit()
        except BrokenPipeError:
            sys.stdout = None  # its reader is gone
        except UsageError as error:
            raise OutputError(
                error.problem, error.remedy, place=option
            ) from None


def _reason(error: BaseException | None) -> str | None:
    """Return why a command ends before its end, as a sentence; None if it does not."""
    if error is None or isinstance(error, typer.Exit | ReaderGone):
        return None
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return _INTERRUPTED
    expected = isinstance(error, RulerError | OSError)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _is_stream(place: Location) -> bool:
    """Return whether a place is stdout, a pipe or a device."""
    path = Path(place.name)
    return place.stream or (path.exists() and not path.is_file())
