"""Report a run: lines on stderr for a person, and `--summary FILE` for a program."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from ruler_cli import __version__
from ruler_cli.cli.config import judge_facts, long_name, public_value
from ruler_cli.cli.messages import (
    command_words,
    exit_code_of,
    hide_keys,
    print_note,
)
from ruler_cli.cli.report_sentences import (
    FEW,
    given,
    length_bias,
    mere_noise,
    position_bias,
    reliability,
    same_explanations,
    same_scores,
)
from ruler_cli.cli.signals import unwind_on_signal
from ruler_cli.cli.units import count, counts, iso, seconds, short, shorten, usd
from ruler_cli.errors import (
    InterruptedRun,
    OutputError,
    ReaderGone,
    RulerError,
    UsageError,
)
from ruler_cli.files.atomic import LocalFile
from ruler_cli.files.file_names import FOREIGN, TEXT
from ruler_cli.files.location import Location
from ruler_cli.settings.options import Options
from ruler_cli.types import BatchFigures, Summary

if TYPE_CHECKING:
    from ruler_cli.cli.progress import Console
    from ruler_cli.runs.file import RunResult
    from ruler_cli.settings.models import ScoreSettings

_NAMED = 3
"""Rollouts, and pairs of judges, that are named; `--summary` lists more."""
_KEY_LENGTH = 41
"""Characters of a group's key that are printed."""
_TRIED = {"rate": "rate limit", "transport": "no answer"}
"""Reasons to try a call again, by the kind that `--summary` has."""
_OF_JUDGES = ("name", "model", "api_base", "params")
"""Facts on a judge that the summary has; limits and prices stand among the settings."""
_INTERRUPTED = str(InterruptedRun(0))
_REASONS = {
    "reply": "the judge's answers cannot be used (reply)",
    "transport": "no answer came (transport)",
    "refused": "the judge refused (refused)",
    "too_long": "longer than the judge's context (too_long); --group-size N shows fewer at once",
    "input": "nothing in the group can be judged (input)",
    "budget": "--max-cost is reached (budget)",
    "interrupted": "the run was stopped before (interrupted)",
}
"""Reasons why groups are not scored, by the kind that OUTPUT and `--summary` have."""


def summary_lines(summary: Summary, *, debug: bool = False) -> list[str]:
    """Return the lines on a run that is done: how it went, what needs action, how good the scores are.

    With `debug` no line names --debug: the run has shown each reply, or no reply is kept to be shown.
    """
    noise, same = _weaknesses(summary)
    tied = summary.tied if summary.tied > summary.one_score and not noise else 0
    explanations = same_explanations(
        summary.same_explanations, summary.explained, "reply"
    )
    action = (
        (
            summary.failed_before,
            "group",
            "failed in an earlier run, not asked again; --retry-failed does",
        ),
        (
            summary.unanswered,
            "request",
            "not in the ledger: send them with `ruler batch submit` or `ruler render`",
        ),
        (summary.unreadable, "line or trajectory", "not readable"),
    )
    notes = (
        (
            summary.kept - summary.failed_before,
            "group",
            "answered from the ledger, without a call",
        ),
        (tied, "group", "tied: equal scores, or no further apart than chance"),
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
    )
    failures = _failures(summary, debug=debug)
    out = [_first_line(summary), *failures, *counts(action), *counts(notes)]
    out += filter(None, (noise, same, explanations))
    if summary.figures is not None:
        out += figure_lines(summary.figures, weak=bool(noise or same))
    if summary.hedged:
        out.append(f"{count(summary.hedged, 'slow call')} asked a second time")
    if summary.retried:
        tried = ", ".join(
            f"{number} {_TRIED.get(kind, kind)}"
            for kind, number in summary.retried.items()
        )
        out.append(f"calls tried again: {tried}")
    if summary.unsure_usd:
        out.append(
            f"calls without a stated usage may have cost up to {usd(summary.unsure_usd)} more"
        )
    return out


def _first_line(summary: Summary) -> str:
    """Return groups, time, mean score, ties, failures and cost in one line."""
    groups, failed = (
        max(summary.total or 0, summary.groups),
        sum(summary.failed.values()),
    )
    mean = summary.figures.mean_score if summary.figures is not None else None
    calls = count(summary.usage.calls, "call")
    if summary.cost_usd is None and not (summary.asked or summary.usage.calls):
        cost = calls
    elif summary.cost_usd is None:
        tokens = summary.usage.prompt + summary.usage.completion
        cost = f"cost unknown ({calls}{f', {short(tokens)} tokens' if tokens else ''})"
    else:
        cost = f"{usd(summary.cost_usd)} ({calls})"
    parts = (
        given(mean, "mean {:.2f}"),
        f"{summary.tied} tied" if summary.tied else "",
        f"{failed} failed" if failed else "",
        cost,
    )
    scored = f"{summary.scored} of {count(groups, 'group')} scored in {seconds(summary.seconds)}"
    return f"{scored}: {', '.join(filter(None, parts))}"


def _failures(summary: Summary, *, debug: bool) -> Iterator[str]:
    other = (
        {"transport": "no reply in the ledger (transport)"}
        if summary.unanswered
        else {}
    )
    for kind, number in sorted(summary.failed.items()):
        way_out = "; --debug shows them" if kind == "reply" and not debug else ""
        yield f"{count(number, 'group')} not scored: {(_REASONS | other)[kind]}{way_out}"


def _weaknesses(summary: Summary) -> tuple[str, str]:
    """Return the sentence on a judge whose differences are noise, else on one that often gives none."""
    compared, tied = summary.scored - summary.alone, summary.tied - summary.alone
    median = summary.figures.reliability_median if summary.figures else None
    noise = mere_noise(tied, summary.one_score, compared, median)
    return noise, "" if noise else same_scores(summary.one_score, compared)


def figure_lines(figures: BatchFigures, *, weak: bool = False) -> Iterator[str]:
    """Yield a line for each figure on the scores that a person should know.

    `weak`: a sentence says that the judge tells few rollouts apart, so that more passes are no advice.
    """
    if figures.degraded:
        yield f"{count(figures.degraded, 'group')} without the scores of some pass or judge (degraded)"
    if figures.reliability_median is not None and not (
        weak and not round(figures.reliability_median, 2)
    ):
        groups, low = sum(figures.reliability), sum(figures.reliability[:5])
        median = figures.reliability_median
        yield f"reliability: {reliability(median, groups, low, advise=not weak)}"
    if figures.slot_groups >= FEW and figures.slot_curve:
        bias = position_bias(
            [asdict(bar) for bar in figures.slot_curve],
            corrected=figures.debiased,
            several=figures.reliability_median is not None,  # known from two passes on
        )
        if bias:
            yield f"position bias: {bias}"
    if figures.length is not None and (bias := length_bias(asdict(figures.length))):
        yield f"length: {bias}"
    yield from _pairs(figures)
    contradictions = (
        (
            figures.flawed,
            figures.flawed_listed,
            "passed with a score below 0.5 (flawed positives)",
        ),
        (
            figures.near_misses,
            figures.near_misses_listed,
            "failed with a score from 0.5 on (near misses)",
        ),
    )
    for number, listed, note in contradictions:
        named = [
            f"group {shorten(odd.group, _KEY_LENGTH)} rollout {odd.rollout} ({odd.score:.2f})"
            for odd in listed[:_NAMED]
        ]
        if number:
            more = ", …" if number > len(named) else ""
            yield f"{count(number, 'rollout')} {note}: {', '.join(named)}{more}"
    if figures.without_outcome:
        yield f"{count(figures.without_outcome, 'rollout')} without an outcome"


def _pairs(figures: BatchFigures) -> Iterator[str]:
    """Yield a line for each two judges; of many, for those that agree least."""
    known = [
        (pair.correlation, pair)
        for pair in figures.judges
        if pair.correlation is not None
    ]
    listed = (
        known
        if len(known) <= _NAMED
        else sorted(known, key=lambda each: each[0])[:_NAMED]
    )
    for correlation, pair in listed:
        errors = given(pair.errors, ", errors against the reward {:.2f}")
        yield f"{' and '.join(pair.judges)}: scores correlate {correlation:.2f} within groups{errors}"
    if len(known) > len(listed):
        yield f"{len(known) - len(listed)} more pairs of judges correlate better; --summary has all"


class RunRecord:
    """The file of `--summary`: what runs, by which settings, and how it ended. A context around the command.

    The file is written when the run begins, without an exit code, and again at every end of the command. A
    pipe, a device and stdout get the second alone. Nothing is written without the option or for --dry-run.
    """

    def __init__(self, options: Options, source: str, output: str) -> None:
        """UsageError if no summary can have the name of the file."""
        if options.summary is not None:
            files = (
                output + ".partial",
                *([options.failed] if options.failed else []),
                *options.ledgers,
            )
            refuse_summary(options.summary, source, output, map(str, files))
        self._path = None if options.dry_run else options.summary
        self._options, self._output, self._stack = (
            options,
            Location(output),
            ExitStack(),
        )
        self._console: Console | None = None
        self.result: RunResult | None = None
        """The result of the run, if it came to its end."""
        self._facts: dict[str, Any] = {
            "version": 2,
            "ruler": __version__,
            "input": Location(source).public,
            "output": self._output.public,
            "output_state": None,
            "started_at": iso(time.time()),
            "ended_at": None,
            "exit_code": None,
            "settings": {
                long_name(name): {
                    "value": public_value(name, options),
                    "from": origin.place,
                }
                for name, origin in options.origins.items()
            },
            "judges": [],
        }

    def begin(self, settings: ScoreSettings, console: Console) -> None:
        """Write that the run begins; `console` knows its counts. UsageError if the file cannot be written."""
        if self._path is None:
            return
        self._console = console
        for judge in settings.judges:
            facts = judge_facts(judge, self._options)
            self._facts["judges"].append({name: facts[name] for name in _OF_JUDGES})
        if _is_stream(self._path):
            return
        try:
            self._write(self._path, Summary())
        except OutputError as error:
            self._path = None
            raise UsageError(error.sentence) from None

    def end(self, code: int, reason: str | None = None) -> None:
        """Write how the command ends, once; OutputError if the file cannot be written."""
        if self._path is None:
            return
        path, self._path = self._path, None
        summary = Summary()
        if self.result is not None:
            summary = self.result.summary
        elif self._console is not None:
            summary = self._console.summary
        whole = self.result is not None and self.result.whole
        streamed = summary.written > 0 and _is_stream(Path(self._output.name))
        self._facts |= {
            "output_state": "written" if whole or streamed else "kept",
            "ended_at": iso(time.time()),
            "exit_code": code,
        }
        self._write(path, replace(summary, stopped=summary.stopped or reason))

    def interrupted(self, code: int) -> None:
        """Write that a second signal ends the command, as far as the file can be written."""
        with suppress(OutputError):
            self.end(code, _INTERRUPTED)

    def __enter__(self) -> Self:
        if self._path is not None:
            self._stack.enter_context(unwind_on_signal())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with self._stack:
            try:
                self.end(0 if error is None else exit_code_of(error), _reason(error))
            except OutputError as problem:
                if error is None or isinstance(error, typer.Exit):
                    raise
                print_note(problem)  # the exit code is that of the error

    def _write(self, path: Path, summary: Summary) -> None:
        import orjson

        facts = _without_keys(self._facts | asdict(summary))
        try:
            _replace(
                path,
                orjson.dumps(
                    facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
                ),
            )
        except BrokenPipeError:
            sys.stdout = None  # its reader is gone
        except OSError as error:
            raise OutputError(
                f"cannot be written: {error.strerror}", option="summary", value=path
            ) from None


def _reason(error: BaseException | None) -> str | None:
    """Return why a command ends before its end, as a sentence; None if it does not."""
    if error is None or isinstance(error, typer.Exit | ReaderGone):
        return None
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return _INTERRUPTED
    known = isinstance(error, RulerError | OSError)
    return command_words(error) if known else f"{type(error).__name__}: {error}"


def _without_keys(value: Any) -> Any:
    """Return a JSON value whose texts hold no key of the command line, and are Unicode."""
    if isinstance(value, dict):
        return {_without_keys(key): _without_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_keys(item) for item in value]
    text = isinstance(value, str)
    return (
        hide_keys(command_words(value)).encode(errors="replace").decode()
        if text
        else value
    )


def _is_stream(path: Path) -> bool:
    """Tell if a path is stdout, a pipe or a device."""
    special = str(path) == "-" or str(path).startswith(("/dev/", "/proc/"))
    return special or (path.exists() and not path.is_file())


def _replace(path: Path, content: bytes) -> None:
    """Write a file by rename, so that nobody reads a part of it; a link that stands there is not followed.

    A directory may forbid that where the file itself may be written.
    """
    if str(path) == "-":
        typer.echo(content, nl=False)
        return
    if _is_stream(path):
        path.write_bytes(content)
        return
    try:
        file = LocalFile(str(path), compress=False, lock=False)
        try:
            file.stream.write(content)
            file.end(durable=False)
            file.commit()
        except OSError:
            file.discard()
            raise
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY):
            raise
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "wb"
        ) as stream:
            stream.write(content)


def refuse_summary(path: Path, source: str, output: str, files: Iterable[str]) -> None:
    """Raise UsageError if the file of `--summary` is another file of the run, or promises another content.

    `files` are files of the run besides INPUT and OUTPUT. Where the summary is written until it is whole, any
    file is removed, so none of them may be that either.
    """
    others = (source, output, output.rstrip("/") + ".failed.jsonl", *files)
    if Location.of(path).remote:
        raise UsageError(
            "is an address", "give a file of this machine", option="summary"
        )
    taken = {
        Path(other).resolve()
        for other in others
        if other and not Location(other).remote
    }
    own = {path.resolve(), path.with_name(f"{path.name}.partial").resolve()}
    if str(path) != "-" and not taken.isdisjoint(own):
        raise UsageError(
            "is another file of this run",
            "give it a name of its own",
            option="summary",
            value=path,
        )
    if str(path) == "-" and output == "-":
        raise UsageError(
            "stdout holds the records already",
            "give it a file",
            option="summary",
            value="-",
        )
    if path.is_dir():
        raise UsageError(
            "is a directory",
            f"name a file in it, e.g. {path / 'summary.json'}",
            option="summary",
            value=path,
        )
    if not path.parent.is_dir():
        raise UsageError(
            "its directory does not exist",
            f"create it with: mkdir -p {path.parent}",
            option="summary",
            value=path,
        )
    if path.suffix not in (*TEXT, ".json", ".jsonl") and path.suffix.lower() in FOREIGN:
        raise UsageError(
            "is one JSON document",
            f"name it {path.with_suffix('.json')}",
            option="summary",
            value=path,
        )
    inside = False
    with suppress(UsageError):  # the run itself says why INPUT cannot be read
        inside = Location(source).many and Location(source).listed().would_hold(
            Location(str(path))
        )
    if inside:
        raise UsageError(
            "lies in INPUT and would be read as a part of it",
            "give a place outside",
            option="summary",
            value=path,
        )


def record_refusal(words: Mapping[str, Any], error: RulerError) -> None:
    """Write the summary of a command line of `score` that is refused, given the words of its options."""
    if words.get("summary") is None:
        return
    source, output = words["source"], words["output"]
    with suppress(RulerError, OSError):
        record = RunRecord(Options(summary=words["summary"]), source, output)
        record.end(error.exit_code, command_words(error))
