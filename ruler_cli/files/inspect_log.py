"""Annotated samples → an Inspect log, written by inspect_ai as `inspect score --action append` writes it.

inspect_ai reads the whole log, asks a scorer `ruler` about each sample, and writes samples, summaries,
reductions and header. The scorer hands out the scores that were collected. An earlier `ruler` is taken out
first, and every other scorer stays as it is. Only the documented functions of inspect_ai are called.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import anyio

from ruler_cli.errors import InputChanged, OutputError, RulerError, UsageError
from ruler_cli.files.atomic import write_errors
from ruler_cli.files.parse import parse
from ruler_cli.formats.fields import lookup
from ruler_cli.formats.interface import RecordLayout, printable
from ruler_cli.settings.models import OnFailure

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.scorer import Score, Scorer

LogKind = Literal["eval", "json"]
"""The two forms of a log, by the ending of its name."""
SampleKey = tuple[str, str]
"""A sample's id and its epoch, as texts: they name a sample within a log."""

_NAME = "ruler"
"""Name of the scorer."""
_JUDGE_FAILED = ("reply", "refused")
"""Kinds of failure that are the grader's in Inspect's words; by any other the scoring itself failed."""


class InspectLog:
    """Collects the annotations of samples, and writes the log with them at its end."""

    def __init__(
        self, name: str, source: str, file: BinaryIO, kind: LogKind, stream: BinaryIO
    ) -> None:
        """Take the log in `file`, called `source`, for an OUTPUT `name` of this kind, open as `stream`.

        UsageError if inspect_ai is not installed.
        """
        try:
            # imported at once, so that a lack is known before a call is paid for; the youngest name needed
            from inspect_ai.scorer import ScoreReason  # noqa: F401
        except ImportError as error:
            raise UsageError(
                f"{name}: only inspect_ai writes an Inspect log ({error}); install it with: "
                "pip install --upgrade inspect-ai, or name OUTPUT .jsonl"
            ) from None
        self._name, self._source, self._file, self._kind, self._stream = (
            name,
            source,
            file,
            kind,
            stream,
        )
        self._place = ""
        self._annotations: dict[SampleKey, Mapping[str, Any]] = {}

    def begin(self, layout: RecordLayout, on_failure: OnFailure) -> None:
        """Learn where a sample's annotation stands; UsageError if failed samples are to be left out."""
        if on_failure == "drop":
            problem = f"the log {self._name} keeps all samples"
            remedy = "give null, which leaves those unscored, or name OUTPUT .jsonl"
            raise UsageError(problem, remedy, option="on_failure", value="drop")
        self._place = ".".join(map(str, layout.ruler))

    def put(self, number: int, record: bytes) -> None:
        """Take the annotation of a sample."""
        sample = parse(record)
        key = (str(sample["id"]), str(sample["epoch"]))
        if key in self._annotations:
            raise OutputError(
                f"{self._name}: {self._source} holds sample {key[0]} of epoch {key[1]} twice, again as "
                f"sample {number}, so its score is not clear; name OUTPUT .jsonl"
            )
        self._annotations[key] = lookup(sample, self._place)

    def make(self) -> BinaryIO:
        """Have inspect_ai make the log, as a file without a name; OutputError if it cannot.

        Not where an event loop runs, for inspect_ai needs one of its own.
        """
        with write_errors(self._name), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"log.{self._kind}"
            try:
                anyio.run(self._write, path)
            except (OSError, RulerError):
                raise
            except Exception as error:  # inspect_ai raises errors of many kinds
                reason = printable(" ".join(str(error).split()), 300)
                raise OutputError(
                    f"{self._name}: inspect_ai cannot write it ({reason}); name OUTPUT .jsonl"
                ) from error
            self._made = path.open("rb")
        return self._made

    def end(self) -> None:
        """Copy the log that was made into OUTPUT."""
        with self._made as made:
            shutil.copyfileobj(made, self._stream, 1 << 20)

    async def _write(self, path: Path) -> None:
        from inspect_ai import score_async
        from inspect_ai.log import read_eval_log_async, write_eval_log_async

        self._file.seek(0)
        log = await read_eval_log_async(self._file)
        _take_out_earlier(log)
        self._refuse_other(log)
        # the models of the log need not be installed here, nor their keys be known
        roles, log.eval.model_roles = log.eval.model_roles, None
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

    def _refuse_other(self, log: EvalLog) -> None:
        """Raise InputChanged if a sample with a score is gone, OutputError if a score would be lost."""
        samples = {
            (str(sample.id), str(sample.epoch)): sample for sample in log.samples or ()
        }
        if gone := self._annotations.keys() - samples.keys():
            raise InputChanged(
                self._source, "sample {} of epoch {} is gone".format(*min(gone))
            )
        if any(_NAME in (sample.scores or {}) for sample in samples.values()):
            raise OutputError(
                f"{self._name}: a scorer `{_NAME}` of {self._source} is not ruler's own; rename it"
            )


def _scorer(annotations: Mapping[SampleKey, Mapping[str, Any]]) -> Scorer:
    """Make the scorer that hands out the scores; a sample that ruler could not read has none."""
    from inspect_ai.scorer import mean, scorer, stderr

    async def score(state: Any, target: Any) -> Score | None:
        annotation = annotations.get((str(state.sample_id), str(state.epoch)))
        return None if annotation is None else _score(annotation)

    return scorer(metrics=[mean(), stderr()], name=_NAME)(lambda: score)()


def _score(annotation: Mapping[str, Any]) -> Score:
    """Make Inspect's score of an annotation; one without a score counts in no metric."""
    from inspect_ai.scorer import Score

    if annotation["score"] is None:
        reason = (
            "grader_failed" if annotation["kind"] in _JUDGE_FAILED else "scoring_failed"
        )
        return Score.unscored(
            reason=reason, explanation=annotation["reason"], metadata=dict(annotation)
        )
    return Score(
        value=annotation["score"],
        explanation=annotation["explanation"],
        metadata=dict(annotation),
    )


def _take_out_earlier(log: EvalLog) -> None:
    """Take out all that an earlier run of ruler wrote."""
    for sample in log.samples or ():
        _take_out_of_sample(sample)
    if log.results is not None:
        log.results.scores = [
            score for score in log.results.scores if score.name != _NAME
        ]
    log.reductions = [each for each in log.reductions or () if each.scorer != _NAME]
    log.eval.scorers = [each for each in log.eval.scorers or () if each.name != _NAME]


def _take_out_of_sample(sample: EvalSample) -> None:
    """Take out ruler's score with its events, and the annotation that the first versions put elsewhere."""
    scores = sample.scores or {}
    own = [scores[_NAME].metadata] if _NAME in scores else []
    if not any(_is_ours(value) for value in (*own, sample.metadata.get(_NAME))):
        return
    scores.pop(_NAME, None)
    sample.metadata.pop(_NAME, None)
    spans = {
        event.id
        for event in sample.events
        if event.event == "span_begin" and (event.type, event.name) == ("scorer", _NAME)
    }
    sample.events = [event for event in sample.events if event.span_id not in spans]


def _is_ours(value: Any) -> bool:
    return isinstance(value, dict) and value.get("status") in ("scored", "failed")
