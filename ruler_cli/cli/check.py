"""`ruler check INPUT`: read and group as `score` would, and say what it would take."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from ruler_cli.cli.messages import one_line, safe_value, told
from ruler_cli.cli.options import AsJson, ScoreOptions, Source, with_options
from ruler_cli.cli.progress import Console
from ruler_cli.config import JudgeSettings, ScoreSettings
from ruler_cli.reading.parse import dump

if TYPE_CHECKING:
    from ruler_cli.estimate import FindReply, JudgeEstimate, JudgeRole
    from ruler_cli.types import Problem


@with_options(
    "model api_base rubric param order seed passes group_size single fallback adaptive escalate price "
    "group_by reward messages prompt outcome grouping format_ ledger batch as_json"
)
def command(
    source: Source,
    options: ScoreOptions,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch", envvar="RULER_BATCH", help="Show, too, what it takes by a provider's batch API."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read and group INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    What the ledger holds already is not counted. Figures are low, expected and high. Of more than
    64 MB some groups are laid out, and figures that rest on them are told as such.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 all can be scored; 1 some lines or groups cannot; 2 bad usage or unreadable input.
    """
    with told():
        settings = options.settings(source)
        raise typer.Exit(0 if _check(settings, batch=batch, as_json=as_json) else 1)


def _check(settings: ScoreSettings, *, batch: bool, as_json: bool) -> bool:
    """Print what INPUT holds and what `score` would take; whether all can be scored."""
    from ruler_cli.cli.check_page import batches, facts_of, rows
    from ruler_cli.estimate import estimate
    from ruler_cli.judging.panel import judges_of
    from ruler_cli.reading.input import open_input
    from ruler_cli.reading.location import Location
    from ruler_cli.reading.sample import InputCounts, sample

    console = Console("log", Location(settings.input.source).shown, float("inf"))
    with ExitStack() as stack:
        bills = _bills(settings, stack)
        lost = _Lost(None if as_json else console, stack)
        notes = InputCounts(lost.add)
        found = open_input(settings.input, stack, lost.add, on_record=notes.add, on_again=notes.again)
        result = estimate(sample(found, notes.bytes), bills)
        facts = facts_of(settings, found, notes, result)
        if batch:
            facts["batch"] = batches(judges_of(settings), bills)
        if as_json:
            lost.write(facts)
        else:
            for sentence in facts["warnings"]:
                console.warn(sentence)
            for name, value in [("input", found.found()), *rows(facts, lost.number, result)]:
                typer.echo(one_line(f"{name + ':':<20}{value}"))
    return not lost.number and not result.widest.too_long


def _bills(settings: ScoreSettings, stack: ExitStack) -> list[JudgeEstimate]:
    """An empty bill for each judge, with its replies in the ledger: one that is not there is not made."""
    from ruler_cli.estimate import JudgeEstimate
    from ruler_cli.judges.reply_body import EMBEDDED
    from ruler_cli.judges.resolve import model_of, resolve
    from ruler_cli.judging.panel import judges_of
    from ruler_cli.ledger.reply_cache import Ledger, ReplyCache

    judges = judges_of(settings)
    embedded = [judge for judge in judges if judge.model in EMBEDDED]
    for judge in embedded:
        resolve(judge)  # it needs no key, and refuses the parameters that `score` would refuse
    ledger = None
    if settings.ledger is not None and len(embedded) < len(judges):
        ledger = stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))

    def bill(number: int, judge: JudgeSettings) -> JudgeEstimate:
        cache = ReplyCache(ledger, judge.model, judge.params)
        find: FindReply | None = (lambda request: cache.find(cache.key(request))) if ledger else None
        later: JudgeRole = "fallback" if settings.fallback and number else "panel"
        role: JudgeRole = "escalation" if judge is settings.escalate else later
        model, place = model_of(judge), number if role == "panel" else 0
        ask = replace(settings.ask, context_tokens=model.context)
        return JudgeEstimate(judge.model, model, judge.params, find, role, place, ask, settings.adaptive)

    return [bill(number, judge) for number, judge in enumerate(judges)]


class _Lost:
    """Names what cannot be scored as it is found: to a person at once, to a program in a list at the end.

    The list may be as long as the input: it waits in a temporary file.
    """

    def __init__(self, console: Console | None, stack: ExitStack) -> None:
        """Without a console nothing is named on stderr."""
        self._console = console
        self._list = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the stack
        self.number = 0

    def add(self, problem: Problem) -> None:
        """Name a line, or a trajectory of one."""
        self.number += 1
        if self._console is not None:
            self._console.problem(problem)
            return
        entry = {"line": problem.line, "where": problem.where, "reason": problem.reason}
        self._list.write((b",\n    " if self.number > 1 else b"\n    ") + dump(entry))

    def write(self, facts: dict[str, Any]) -> None:
        """Print one object, its list of what cannot be scored last."""
        text = orjson.dumps(safe_value(facts), option=orjson.OPT_INDENT_2)
        out = typer.get_binary_stream("stdout")
        out.write(text[:-2] + b',\n  "cannot_be_scored": %d,\n  "bad": [' % self.number)
        self._list.seek(0)
        while part := self._list.read(1 << 16):
            out.write(part)
        out.write(b"\n  ]\n}\n" if self.number else b"]\n}\n")
        out.flush()
