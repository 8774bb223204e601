"""What `ruler check` hears while an input is read: every record, and everything that cannot be read."""

from __future__ import annotations

import tempfile
from types import TracebackType
from typing import Any

import orjson
import typer

from ruler_cli.cli.messages import safe_value
from ruler_cli.cli.page import Page, Place, shortened
from ruler_cli.cli.page_json import as_json
from ruler_cli.cli.progress import Console
from ruler_cli.errors import UnreadableError
from ruler_cli.estimate.notes import Notes
from ruler_cli.files.container import Container
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.detect import SAMPLE
from ruler_cli.formats.interface import PROMPT_HASH, Layout, fits
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import given
from ruler_cli.records import Problem, Record, Rollout
from ruler_cli.settings import InputSettings

_OWN = "where the format has it"


class Found:
    """Notes every record, and names what cannot be scored as it is found: to a person at once, to a
    program in a list at the end, which waits in a temporary file: it may be as long as the input.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        """`quiet`: nothing is named on stderr."""
        self._console, self._quiet = console, quiet
        self._list = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this
        self._first: list[Record] = []
        self.notes = Notes()
        self.unit = "record"
        self.lost = self._faults = 0
        self._repeated = False

    def __enter__(self) -> Found:
        """Ready to hear."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Forget everything."""
        self.notes.close()
        self._list.close()

    def opened(self, container: Container) -> None:
        """What holds the records."""
        self.unit = container.unit

    def unreadable(self, problem: Problem) -> None:
        """A line, or a trajectory of one."""
        self.lost += 1
        if not self._quiet:
            self._console.problem(problem)
            return
        entry = {"line": problem.line, "where": problem.where, "reason": problem.reason}
        self._list.write((b",\n    " if self.lost > 1 else b"\n    ") + dump(entry))

    def again(self) -> None:
        """Hear all records once more, since other ones belong together; what cannot be read is known."""
        self.notes.close()
        self.notes, self._first, self._repeated = Notes(), [], True
        self.lost, self._faults = self.lost - self._faults, 0

    def record(self, record: Record, group: int, rollouts: int) -> None:
        """One that was read."""
        if len(self._first) < SAMPLE:
            self._first.append(record)
        if self.notes.add(record, group, rollouts):
            return
        line = record.line
        reasons = [rollout.problem for rollout in record.rollouts if rollout.fault is not None]
        for reason in reasons if record.rollouts else ["is a group without trajectories"]:
            self._faults += 1
            if self._repeated:
                self.lost += 1
            else:
                self.unreadable(Problem(line.number, reason, b"", line.place))

    def agreed(self, reader: Reader | None) -> tuple[int, int]:
        """How many of the first records have the keys of the format, and how many were looked at."""
        if reader is None:
            return 0, 0
        lines = {record.line.number: record.line for record in self._first}
        matching = 0
        for line in lines.values():
            try:
                matching += bool(fits(reader.format, parse(line.raw)))
            except UnreadableError:
                continue
        return matching, len(lines)

    def places(self, reader: Reader | None, told: InputSettings) -> tuple[Place, ...]:
        """Where messages, key, reward and outcome stand, and what the first record has there."""
        if reader is None:
            return ()
        form, rewards, outcomes = reader.format, self.notes.rewards, self.notes.outcomes
        one = next((r for record in self._first for r in record.rollouts if r.fault is None), None)
        key = self._first[0].key if self._first else None
        hashed = "the line" if form.shape == "group" else "hash of the prompt"
        where = hashed if reader.key == PROMPT_HASH else reader.key
        seen = outcomes.numbers + outcomes.other
        return (
            Place("messages", told.messages or _OWN, bool(told.messages), _said(one), 0),
            *([Place("prompt", told.prompt, True, _opening(one), 0)] if told.prompt else ()),
            Place("group key", where, bool(told.group_by), None if key is None else _value(key), 0),
            Place(
                "reward",
                told.reward or _reward(form.layout, rewards.numbers + rewards.other),
                bool(told.reward),
                _value(one.reward) if one else None,
                rewards.absent,
            ),
            Place(
                "outcome",
                told.outcome or (_OWN if seen else ""),
                bool(told.outcome),
                _value(one.outcome) if one and (seen or told.outcome) else None,
                outcomes.absent,
            ),
        )

    def write_json(self, page: Page) -> None:
        """Print the page as one object, its list of what cannot be scored last."""
        text = orjson.dumps(safe_value(as_json(page)), option=orjson.OPT_INDENT_2)
        out = typer.get_binary_stream("stdout")
        out.write(text[:-2] + b',\n  "cannot_be_scored": %d,\n  "bad": [' % self.lost)
        self._list.seek(0)
        while part := self._list.read(1 << 16):
            out.write(part)
        out.write(b"\n  ]\n}\n" if self.lost else b"]\n}\n")
        out.flush()


def _reward(layout: Layout, seen: int) -> str:
    """Where a format has its rewards; empty where it has none, and so no room for a score either."""
    path = layout.source or layout.reward
    return ".".join(map(str, path)) if path else _OWN if seen else ""


def _said(rollout: Rollout | None) -> str | None:
    """The beginning of the last message of a conversation."""
    if rollout is None or not rollout.messages:
        return None
    content = rollout.messages[-1].get("content")
    return _value(rollout.messages[-1] if content is None else content)


def _opening(rollout: Rollout | None) -> str | None:
    """The beginning of the first message that is no system prompt."""
    messages = rollout.messages if rollout is not None else []
    first = next((m for m in messages if m.get("role") not in ("system", "developer")), None)
    return None if first is None else _value(first.get("content"))


def _value(value: Any) -> str:
    """A value as JSON, short."""
    return shortened(dump(given(value)).decode("utf-8", "replace"))
