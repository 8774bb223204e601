"""Inspect's log: samples of an `.eval` archive, and annotated samples → a log, written by inspect_ai.

An `.eval` log is a zip archive with a member `samples/NAME.json` for each sample, compressed with Zstandard
(method 93) or, in old logs, deflate. A `.json` log is a document.

inspect_ai writes a log as `inspect score --action append` does: it reads the whole log, asks a scorer `ruler`
about each sample, and writes samples, summaries, reductions and header. The scorer hands out the scores that
were collected. An earlier `ruler` is taken out first, and every other scorer stays as it is. Only the
documented functions of inspect_ai are called.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio

from ruler_cli.errors import (
    ForeignError,
    InputChanged,
    OutputError,
    RulerError,
    UsageError,
)
from ruler_cli.files.containers import Container, Writer, task_of
from ruler_cli.files.error_map import message_of, reading, writing
from ruler_cli.files.location import Location
from ruler_cli.files.parse import parse
from ruler_cli.files.source import Source
from ruler_cli.settings.models import OnFailure
from ruler_cli.types import Line
from ruler_cli.types import Path as JsonPath

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample
    from inspect_ai.scorer import Score, Scorer

_DAMAGE = (
    lzma.LZMAError,
    struct.error,
    ValueError,
    OverflowError,
    RuntimeError,
)
"""Errors of a damaged archive, and of a member that is encrypted or compressed in another way."""
_PIECE = 1 << 16
_SAMPLE = re.compile(r"samples/([^/]+|.+_epoch_\d+)\.json", re.DOTALL)
"""A sample's name; an id may be `HumanEval/0`."""
_HEADER = "header.json"
SampleKey = tuple[str, str]
"""A sample's id and its epoch, as texts: they name a sample within a log."""
_SCORER = "ruler"
_JUDGE_FAILED = ("reply", "refused")
"""Kinds of failure that are the grader's in Inspect's words; by any other the scoring itself failed."""
_USE_LINES = "give OUTPUT a name that ends in .jsonl"


class InspectLogWriter(Writer):
    """Collects the annotations of samples, and writes the log with them at its end."""

    form = "log"
    keeps_all = True

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        source: Container | None,
    ) -> None:
        """Take a log as `source`; UsageError if INPUT is none, or inspect_ai is not installed."""
        super().__init__(
            stream,
            name,
            source,
        )
        if source is None or source.log is None:
            raise UsageError(
                "is written only with an Inspect log as INPUT",
                _USE_LINES,
                place=name,
            )
        try:
            # imported at once, so that a lack is known before a call is paid for; the youngest name needed
            from inspect_ai.scorer import ScoreReason  # noqa: F401
        except ImportError as error:
            raise UsageError(
                f"only inspect_ai writes an Inspect log ({error})",
                f"install it with: pip install --upgrade inspect-ai, or {_USE_LINES}",
                place=name,
            ) from None
        self._log = source.log
        self._input = source.name
        self._ruler: JsonPath = ()
        self._annotations: dict[SampleKey, Mapping[str, Any]] = {}

    def begin(
        self,
        ruler: JsonPath,
        on_failure: OnFailure,
    ) -> None:
        """Learn where a sample's annotation stands; UsageError if the user wants failed samples left out."""
        if on_failure == "drop":
            raise UsageError(
                f"the log {self.name} keeps all samples",
                f"give null, which leaves those unscored, or {_USE_LINES}",
                place="--on-failure drop",
            )
        self._ruler = ruler

    def put(
        self,
        number: int,
        record: bytes,
    ) -> None:
        """Take the annotation of a sample."""
        sample = parse(record)
        key = (str(sample["id"]), str(sample["epoch"]))
        if key in self._annotations:
            raise OutputError(
                f"{self._input} holds sample {key[0]} of epoch {key[1]} twice",
                _USE_LINES,
                place=self.name,
            )
        annotation: Any = sample
        for part in self._ruler:
            annotation = annotation[part]
        self._annotations[key] = annotation

    def make(self) -> None:
        """Have inspect_ai make the log, and copy it into OUTPUT; OutputError if it cannot.

        Not where an event loop runs, for inspect_ai needs one of its own.
        """
        ending = Location(self.name).unpacked.rpartition(".")[2]
        with writing(self.name), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"log.{ending}"
            try:
                anyio.run(self._write, path)
            except (OSError, RulerError):  # `writing` words them
                raise
            except Exception as error:  # inspect_ai raises errors of many kinds
                raise OutputError(
                    f"inspect_ai cannot write it ({message_of(error)})",
                    _USE_LINES,
                    place=self.name,
                ) from error
            with path.open("rb") as made:
                shutil.copyfileobj(
                    made,
                    self.stream,
                    1 << 20,
                )

    async def _write(self, path: Path) -> None:
        from inspect_ai import score_async
        from inspect_ai.log import read_eval_log_async, write_eval_log_async

        self._log.seek(0)
        log = await read_eval_log_async(self._log)
        gone = set(self._annotations)
        for sample in log.samples or ():
            gone.discard((str(sample.id), str(sample.epoch)))
            self._take_out(sample)
        if gone:
            name, epoch = min(gone)
            raise InputChanged(
                self._input, f"sample {name} of epoch {epoch} is gone"
            )
        if log.results is not None:
            log.results.scores = _others(log.results.scores, "name")
        log.reductions = _others(log.reductions, "scorer")
        log.eval.scorers = _others(log.eval.scorers, "name")
        # the models of the log need not be installed here, nor their keys be known
        roles = log.eval.model_roles
        log.eval.model_roles = None
        log = await score_async(
            log,
            _scorer(self._annotations),
            model="none",
            action="append",
            display="none",
            copy=False,
        )
        log.eval.model_roles = roles
        await write_eval_log_async(log, path)

    def _take_out(self, sample: EvalSample) -> None:
        """Take out an earlier score of ruler with its events; OutputError if the scorer is another's."""
        score = (sample.scores or {}).pop(_SCORER, None)
        if score is None:
            return
        if (score.metadata or {}).get("status") not in ("scored", "failed"):
            raise OutputError(
                f"a scorer `{_SCORER}` of {self._input} is not ruler's own",
                "rename it",
                place=self.name,
            )
        spans = set()
        for event in sample.events:
            if event.event != "span_begin":
                continue
            if (event.type, event.name) == ("scorer", _SCORER):
                spans.add(event.id)
        sample.events = [
            event for event in sample.events if event.span_id not in spans
        ]


class InspectLog(Container):
    """The samples of an `.eval` log, in the order of the archive; of members with one name the last counts."""

    unit = "sample"

    def __init__(self, source: Source) -> None:
        """Open a zip archive; ForeignError if it holds no samples."""
        super().__init__(source.name, source.most)
        if sys.version_info >= (3, 14):
            import zipfile
        else:
            from backports.zstd import zipfile

        self.log = source.seekable()
        self._damage = (zipfile.BadZipFile, *_DAMAGE)
        with reading(self.name, *self._damage):
            self._archive = source.stack.enter_context(
                zipfile.ZipFile(self.log)
            )
        # of members with one name the last counts
        self._members = {
            info.filename: info for info in self._archive.infolist()
        }
        self._samples = [
            info
            for name, info in self._members.items()
            if _SAMPLE.fullmatch(name)
        ]
        if not self._samples:
            raise ForeignError(
                "is a zip archive without samples/*.json",
                "unpack it, or convert it to JSON lines",
                place=self.name,
            )

    def records(self) -> Iterator[Line]:
        """Yield every sample."""
        for number, info in enumerate(self._samples, 1):
            raw = b"" if info.file_size > self.most else self._content(info)
            yield self.line(
                number,
                0,
                raw,
                info.file_size,
            )

    def _content(self, info: Any) -> bytes:
        """Return the content of a member, decompressed; no more than the size that the archive states."""
        place = f"{self.name} ({info.filename})"
        with reading(place, *self._damage), self._archive.open(info) as stream:
            # piece by piece: a whole read would not be bounded by the stated size
            return b"".join(iter(partial(stream.read, _PIECE), b""))

    @property
    def task(self) -> str:
        """The task in the log's header."""
        header = self._members.get(_HEADER)
        if header is None or header.file_size > self.most:
            return ""
        return task_of(self._content(header))

    def place(self, number: int) -> str:
        """Return the sample's name."""
        name = self._samples[number - 1].filename[
            len("samples/") : -len(".json")
        ]
        return f"sample {name}"


def _others(entries: Iterable[Any] | None, name: str) -> list[Any]:
    """Return the entries of other scorers; `name` is the attribute that names them."""
    return [entry for entry in entries or () if getattr(entry, name) != _SCORER]


def _scorer(annotations: Mapping[SampleKey, Mapping[str, Any]]) -> Scorer:
    """Make the scorer that hands out the scores; a sample that ruler could not read has none."""
    from inspect_ai.scorer import Score, mean, scorer, stderr

    async def score(state: Any, target: Any) -> Score | None:
        annotation = annotations.get((str(state.sample_id), str(state.epoch)))
        if annotation is None:
            return None
        metadata = dict(annotation)
        value = annotation["score"]
        if value is not None:
            explanation = annotation["explanation"]
            return Score(
                value=value, explanation=explanation, metadata=metadata
            )
        # one without a score counts in no metric
        graded = annotation["kind"] in _JUDGE_FAILED
        return Score.unscored(
            reason="grader_failed" if graded else "scoring_failed",
            explanation=annotation["reason"],
            metadata=metadata,
        )

    return scorer(metrics=[mean(), stderr()], name=_SCORER)(lambda: score)()
